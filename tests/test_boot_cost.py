"""The boot path stays light: looked at by what a fresh interpreter imports; make bench-boot looks at a clock."""

import subprocess
from pathlib import Path

import pytest

from checks.catalogue import BOOT, FAMILIES

TOP = Path(__file__).parents[1]
PYTHON = "/usr/bin/python3"
MACHINES = TOP / "tests" / "machines"
# What a boot must never pay for. `typing` alone costs more than a bare start, and pulls in re, enum and contextlib.
HEAVY = (
    "torch",
    "numpy",
    "yaml",
    "pydantic",
    "hjson",
    "typing",
    "argparse",
    "dataclasses",
    "subprocess",
    "inspect",
    "logging",
    "pathlib",
    "tempfile",
    "contextlib",
    "collections",
    "functools",
    "enum",
    "re",
    "json",
    "ast",
    "socket",
    "selectors",
    "signal",
    "threading",
    "ctypes",
    "shutil",
    "ipaddress",
    "importlib.util",
    "random",
    "string",
)
# Rooms that a plain boot has no use for.
OURS = (
    "rig.judge",
    "rig.captured",
    "rig.capture",
    "rig.report",
    "rig.cost",
    "rig.model",
    "rig.measure",
    "rig.host",
    "rig.image",
    "rig.observe",
    "checks.formats",
    "checks.running",
    "checks.floors",
    *(f"checks.{family}" for family in FAMILIES if family not in BOOT),
)
PROBE = """
import os, sys
sys.path[:0] = [{top!r}]
def stop(path, argv, environ):
    print("\\n".join(sorted(sys.modules)))
    sys.stdout.flush()
    os._exit(0)
os.execve = stop
from entrypoint.__main__ import main
main(["boot", "--", *{words!r}])
"""


def modules(folder: Path, words: tuple[str, ...], root: str) -> set[str]:
    """What is imported when a boot comes to its exec."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "RIG_ROOT": root, "RIG_STATE": str(folder / "state")}
    script = PROBE.format(top=str(TOP), words=words)
    done = subprocess.run(
        [PYTHON, "-I", "-S", "-c", script], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    told = set(done.stdout.split())
    assert "entrypoint.boot" in told, done.stderr
    return told


def lay_out(folder: Path, name: str) -> str:
    """A machine on paper as a folder, so that no reader of captures is imported."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("bench_boot", TOP / "bench" / "boot.py")
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    bench.lay_out(bench.Captured(str(MACHINES / name / "tree.txt")).tree, folder / name)
    return str(folder / name)


@pytest.mark.parametrize("machine", ["nothing", "hgx-h100-ib", "rtx4090-no-p2p"])
def test_a_boot_imports_nothing_heavy(tmp_path: Path, machine: str) -> None:
    told = modules(tmp_path, ("/bin/true",), lay_out(tmp_path, machine))
    assert sorted(told.intersection(HEAVY)) == []
    assert sorted(name for name in told if name.startswith(OURS)) == []


def test_a_machine_without_gpu_does_not_load_the_rules_of_nccl(tmp_path: Path) -> None:
    told = modules(tmp_path, ("/bin/true",), lay_out(tmp_path, "nothing"))
    assert sorted(name for name in told if name.startswith("rig.plan.nccl")) == []


def test_the_number_of_modules_is_known(tmp_path: Path) -> None:
    """Each module costs a quarter of a millisecond; raise these numbers only for something worth that."""
    assert len(modules(tmp_path, ("/bin/true",), lay_out(tmp_path, "nothing"))) <= 90
    assert len(modules(tmp_path, ("/bin/true",), lay_out(tmp_path, "hgx-h100-ib"))) <= 110


def test_the_guard_sees_what_is_imported(tmp_path: Path) -> None:
    probe = PROBE.format(top=str(TOP), words=("/bin/true",)).replace("import os, sys", "import os, sys, json", 1)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RIG_STATE": str(tmp_path / "state")}
    environ["RIG_ROOT"] = str(tmp_path)
    done = subprocess.run([PYTHON, "-I", "-S", "-c", probe], env=environ, capture_output=True, text=True, check=True)
    assert {"json", "re", "enum"} <= set(done.stdout.split()).intersection(HEAVY)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rooms as an image has them: sources, and their bytecode in boot.pack."""
    import importlib.util

    folder = tmp_path_factory.mktemp("opt")
    spec = importlib.util.spec_from_file_location("bench_boot_image", TOP / "bench" / "boot.py")
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    return Path(bench.installed(folder)).parents[1]


def asked(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A program that runs behind the command's own first lines, in place of its last two."""
    text = (folder / "entrypoint" / "rig").read_text().partition("from entrypoint.__main__")[0]
    script = folder / "entrypoint" / "asked"
    script.write_text(text + program)
    words = [PYTHON, "-I", "-S", *options, str(script)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def packed_modules(image: Path) -> set[str]:
    """What factory/in-image/pack.py would put into the pack."""
    import runpy

    return set(runpy.run_path(str(TOP / "factory" / "in-image" / "pack.py"))["sources"](image))


def test_programs_of_their_own_and_pytests_files_stay_out_of_the_pack(image: Path) -> None:
    names = packed_modules(image)
    assert {"checks", "checks.limits", "checks.formats.json", "entrypoint.judging", "rig.root"} <= names
    assert not [name for name in names if name.startswith(("checks.probes", "checks.conftest", "checks.test_"))]


def test_every_module_comes_out_of_the_pack_as_it_is_in_its_source(image: Path) -> None:
    names = sorted(packed_modules(image))
    tell = (
        f"for name in {names!r}:\n __import__(name)\n module = sys.modules[name]\n"
        " print(type(module.__loader__).__name__, name, module.__file__, module.__package__,"
        " *sorted(n for n in vars(module) if n not in ('__annotations__', '__cached__')))\n"
    )
    packed = asked(image, tell)
    assert packed.returncode == 0, packed.stderr
    pack = image / "boot.pack"
    data = pack.read_bytes()
    pack.write_bytes(b"\0\0\0\0" + data[4:])  # as another Python would see it
    try:
        plain = asked(image, tell, "-B")
    finally:
        pack.write_bytes(data)
    assert plain.returncode == 0, plain.stderr
    assert len(packed.stdout.splitlines()) == len(names) > 60
    told = [line.split(" ", 1) for line in packed.stdout.splitlines()]
    known = [line.split(" ", 1) for line in plain.stdout.splitlines()]
    assert {loader for loader, _ in told} == {"Packed"} and {loader for loader, _ in known} == {"SourceFileLoader"}
    assert [facts for _, facts in told] == [facts for _, facts in known]


def test_a_packed_boot_opens_no_file_of_the_rooms(image: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "RIG_ROOT": lay_out(tmp_path, "hgx-h100-ib"), "RIG_STATE": str(tmp_path / "s")}
    boot = (
        f"import os\nos.environ.update({environ!r})\nopened = []\n"
        "sys.addaudithook(lambda event, words: event in ('open', 'os.listdir') and opened.append(str(words[0])))\n"
        "from entrypoint.__main__ import main\ncode = main(['boot', '--'])\nprint(code, *opened, sep='\\n')"
    )
    told = asked(image, boot).stdout.splitlines()
    assert told[0] == "0"
    assert {name for name in told if name.startswith(str(image))} == {f"{image}/boot.pack"}


def test_a_traceback_out_of_the_pack_names_file_and_line(image: Path) -> None:
    done = asked(image, "from rig.emit import to_json\nto_json(object())\n")
    lines = (image / "rig" / "emit.py").read_text().splitlines()
    number = next(number for number, text in enumerate(lines, 1) if "raise TypeError" in text)
    assert f'File "{image}/rig/emit.py", line {number}, in _json\n    raise TypeError' in done.stderr


def test_a_check_s_page_is_read_from_its_source(image: Path) -> None:
    done = asked(image, "from entrypoint.check import run\nrun(['--explain', 'memlock_is_unlimited'])\n")
    assert done.stderr == "" and "RDMA buffers can be pinned." in done.stdout
