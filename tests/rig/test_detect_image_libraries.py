"""Packages, copies of libraries and the loader's folders, on paper."""

from rig.captured import Captured, Tree, parse
from rig.detect import image_libraries as libraries
from rig.image import Image, Library
from rig.root import Collected, Running

SITE = "/opt/venv/lib/python3.11/site-packages"
TREE = f"""rig-capture 1
{SITE}
  + nvidia_nccl_cu12-2.21.5.dist-info nvidia_cuda_runtime_cu12-12.1.105.dist-info typing_extensions-4.16.0.dist-info
  + torch torch-2.1.2+cu121.dist-info Jinja2-3.1.6.dist-info
{SITE}/nvidia/nccl/lib
  + libnccl.so.2
{SITE}/nvidia/cuda_runtime/lib
  + libcudart.so.12
/opt/venv
  pyvenv.cfg |
    home = /usr/bin
    uv = 0.13.9
    version_info = 3.11.2
/opt/venv/bin
  + ninja
/usr/bin
  + g++ ssh pkill
/usr/include/python3.11
  + Python.h
/usr/lib/x86_64-linux-gnu
  + libibverbs.so.1.14.44.0
  libibverbs.so.1 -> libibverbs.so.1.14.44.0
/usr/lib/x86_64-linux-gnu/libibverbs
  + libmlx5-rdmav34.so libefa-rdmav34.so notes.txt
/
  lib -> usr/lib
/etc/libibverbs.d
  + mlx5.driver efa.driver README
/etc
  ld.so.conf = include /etc/ld.so.conf.d/*.conf
/etc/ld.so.conf.d
  local.conf |
    # of the system
    /usr/local/lib
    /lib/x86_64-linux-gnu
  old = /nowhere
"""
FILES = f"""133744 /lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0
133744 /usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0
251616632 {SITE}/nvidia/nccl/lib/libnccl.so.2
679264 {SITE}/nvidia/cuda_runtime/lib/libcudart.so.12
132457288 {SITE}/nvidia/cudnn/lib/libcudnn_cnn_train.so.8
"""
NCCL = Library("libnccl", f"{SITE}/nvidia/nccl/lib/libnccl.so.2", "2.21.5")
CUDART = Library("libcudart", f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12", "12.1.105")
VERBS = Library("libibverbs", "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0", "1.14.44.0")


def look(made: Tree, told: str = FILES, state: str = "ok", **environ: str) -> Image:
    class Found(Captured):
        """find(1) is asked with folders that depend on the environment, so it is known by its name."""

        def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
            if argv[0] == "find":
                self.tree.programs[argv] = Collected(state, told)
            return super().start(argv, timeout_s)

    root = Found(made)
    return libraries.read_image_libraries(root, libraries.start(root, environ), Image(read=("modes",)))


def test_the_finished_image() -> None:
    image = look(parse(TREE))
    assert image.packages == {
        "nvidia-nccl-cu12": "2.21.5",
        "nvidia-cuda-runtime-cu12": "12.1.105",
        "typing-extensions": "4.16.0",
        "torch": "2.1.2+cu121",
        "jinja2": "3.1.6",
    }
    assert image.libraries == (CUDART, NCCL, VERBS)  # /lib is /usr/lib; libcudnn_cnn_train is part of libcudnn
    assert image.read == ("modes", "libraries", "packages")
    assert (image.ld_path, image.ld_preload, image.stub_libraries, image.compat_libraries) == ((), (), (), ())
    assert (image.providers, image.verbs_files) == (("efa", "mlx5"), ("efa", "mlx5"))
    assert (image.python, image.python_headers, image.compilers) == ("3.11.2", True, ("g++", "ninja"))
    assert (image.nvcc, image.cuda_home_set) == (None, None)
    assert image.tools == ("ssh", "pkill")


def test_a_second_nccl() -> None:
    image = look(parse(TREE), FILES + "16000 /usr/local/lib/libnccl.so.2.18.1\n")
    assert [one for one in image.libraries if one.name == "libnccl"] == [
        NCCL,
        Library("libnccl", "/usr/local/lib/libnccl.so.2.18.1", "2.18.1"),
    ]


def test_a_stub_in_a_folder_of_that_name() -> None:
    made = parse(TREE + "/usr/local/cuda/lib64/stubs\n  + libcuda.so\n  libcuda.so.1 -> libcuda.so\n")
    image = look(made, LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs")
    assert image.stub_libraries == ("/usr/local/cuda/lib64/stubs/libcuda.so.1",)
    assert look(made).stub_libraries == ()  # the loader does not look there


def test_a_stub_by_its_size_and_the_drivers_own() -> None:
    made = parse(TREE + "/usr/local/lib\n  + libcuda.so.1\n")
    assert look(made, FILES + "40000 /usr/local/lib/libcuda.so.1\n").stub_libraries == ("/usr/local/lib/libcuda.so.1",)
    driver = parse(TREE + "/usr/local/lib\n  + libcuda.so.535.54.03\n  libcuda.so.1 -> libcuda.so.535.54.03\n")
    image = look(driver, FILES + "29000000 /usr/local/lib/libcuda.so.535.54.03\n")
    assert (image.stub_libraries, image.compat_libraries) == ((), ())


def test_a_compat_folder_that_the_loader_searches() -> None:
    folder = "/usr/local/cuda-12.1/compat"
    made = parse(
        TREE.replace("    /usr/local/lib\n", f"    /usr/local/lib\n    {folder}\n")
        + f"{folder}\n  + libcuda.so.530.30.02\n  libcuda.so.1 -> libcuda.so.530.30.02\n"
    )
    image = look(made, FILES + f"29000000 {folder}/libcuda.so.530.30.02\n")
    assert image.compat_libraries == (f"{folder}/libcuda.so.530.30.02",)
    assert image.stub_libraries == ()


def test_variables_stand_as_they_are() -> None:
    image = look(parse(TREE), LD_LIBRARY_PATH=":/usr/local/lib/", LD_PRELOAD="/a/libx.so libjemalloc.so.2:/b/liby.so")
    assert image.ld_path == ("", "/usr/local/lib/")
    assert image.ld_preload == ("/a/libx.so", "libjemalloc.so.2", "/b/liby.so")
    assert look(parse(TREE), LD_LIBRARY_PATH="").ld_path == ()


def test_a_cuda_compiler_says_its_release() -> None:
    made = parse(TREE + "/usr/local/cuda/bin\n  + nvcc\n")
    made.programs["/usr/local/cuda/bin/nvcc", "--version"] = Collected(
        "ok", "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.1, V12.1.105\n"
    )
    image = look(made)
    assert (image.nvcc, image.cuda_home_set) == ("12.1", None)
    left = look(parse(TREE), CUDA_HOME="/usr/local/cuda-11.8")
    assert (left.nvcc, left.cuda_home_set) == (None, "/usr/local/cuda-11.8")


def test_without_providers_and_without_find() -> None:
    gone = parse(
        TREE.replace("  + mlx5.driver efa.driver README\n", "").replace("libmlx5-rdmav34.so libefa-rdmav34.so", "")
    )
    assert (look(gone).providers, look(gone).verbs_files) == ((), ())
    unknown = look(gone, "", "hung")
    assert (unknown.providers, unknown.verbs_files, unknown.libraries) == (None, None, ())
    assert (unknown.read, unknown.tools) == (("modes", "packages"), None)


def test_an_empty_machine() -> None:
    image = look(parse("rig-capture 1\n"), "", "failed")
    assert image.read == ("modes",)
    assert (image.packages, image.python, image.python_headers, image.compilers) == ({}, None, None, ())


def test_names_of_libraries() -> None:
    def told(path: str) -> Library | None:
        return libraries.parse_library(path, {})

    assert told("/x/libcudart-d0da41ae.so.11.0") == Library("libcudart", "/x/libcudart-d0da41ae.so.11.0", "11.0")
    assert told("/x/libcuda.so") == Library("libcuda", "/x/libcuda.so", None)
    assert told("/x/libcublasLt.so.12") is None
    assert told("/x/libnccl.so.2.txt") is None


def test_find_is_not_asked_for_a_folder_twice() -> None:
    words = libraries._files_command(iter(("/usr/lib/x", "/data/lib", "/data/lib")))
    assert words[:6] == ("find", "/usr/lib", "/usr/local", "/opt", "/data/lib", "-xdev")
