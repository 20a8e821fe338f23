"""Content equals pins, read from the finished image as a stranger would."""

import json
from pathlib import Path
from typing import Any

import pytest

from rig.pins import read_pins

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PINS = read_pins(CHECKOUT / "pins.toml")
READBACK = ["--volume", f"{CHECKOUT}/factory/in-image/readback.py:/readback.py:ro"]
STACK = [f"{name}={value}" for name, value in PINS.args["deepspeed"].items()]

pytestmark = pytest.mark.container


def read_back(docker: Any, *pins: str) -> Any:
    script = 'python /readback.py /tmp/content.json "$@" >&2; status=$?; cat /tmp/content.json; exit $status'
    return docker.run("-c", script, "sh", *pins, options=[*READBACK, "--entrypoint", "sh"])


def test_the_image_holds_what_the_pins_say_and_one_of_each_library(docker: Any) -> None:
    done = read_back(docker, *STACK)
    assert done.code == 0, done.err
    content = json.loads(done.out)
    assert content["pins"] == PINS.args["deepspeed"]
    assert {library: len(files) for library, files in content["libraries"].items()} == {
        "libnccl": 1,
        "libcudart": 1,
        "libcublas": 1,
        "libcudnn": 1,
    }


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("NCCL_VERSION", "2.18.1"), ("TORCH_VERSION", "2.1.1"), ("CUDA_VERSION", "12.2"), ("NEW_PIN", "1")],
)
def test_a_wrong_or_unknown_pin_fails_the_build_step(docker: Any, name: str, wrong: str) -> None:
    pins = {**PINS.args["deepspeed"], name: wrong}
    done = read_back(docker, *(f"{key}={value}" for key, value in pins.items()))
    assert done.code == 1
    assert f"readback: pin {name} " in done.err


def test_the_base_pins_are_true(docker: Any) -> None:
    script = (
        ". /etc/os-release; echo $VERSION_CODENAME; python -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'; "
        "/usr/bin/python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'; "
        "dpkg-query -W -f '${Version}' libibverbs1; python -m pip --version >/dev/null; ! command -v uv"
    )
    done = docker.run("-c", script, options=["--entrypoint", "sh"])
    assert done.code == 0, done.err
    codename, python, system_python, rdma = done.out.split()
    assert (codename, python, system_python) == (
        PINS.of("OS_CODENAME"),
        PINS.of("PYTHON_VERSION"),
        PINS.of("PYTHON_VERSION"),
    )
    assert rdma.startswith(PINS.of("RDMA_CORE_VERSION"))


def test_every_debian_package_of_the_list_is_there(docker: Any) -> None:
    lines = (CHECKOUT / "requirements" / "base.apt").read_text(encoding="utf-8").splitlines()
    wanted = {line.split()[0] for line in lines if not line.startswith("#")}
    done = docker.run("-W", "-f", "${Package}\n", options=["--entrypoint", "dpkg-query"])
    assert wanted - set(done.out.split()) == set()


def test_the_image_says_what_it_is(docker: Any) -> None:
    told = docker.call("image", "inspect", "--format", "{{json .Config}}", docker.image).out
    config = json.loads(told)
    labels, environment = config["Labels"], dict(line.split("=", 1) for line in config["Env"])
    oci = "org.opencontainers.image."
    for key in (
        "title",
        "description",
        "licenses",
        "vendor",
        "version",
        "revision",
        "created",
        "base.name",
        "base.digest",
    ):
        assert labels.get(oci + key), key
    assert labels["io.trainrig.nccl"] == PINS.of("NCCL_VERSION")
    assert environment["NVIDIA_REQUIRE_CUDA"] == f"driver>={PINS.of('DRIVER_FLOOR')}"
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert "NVIDIA_VISIBLE_DEVICES" not in environment  # `all` baked in hands out GPUs that a scheduler gave to others
    assert config["Entrypoint"] == ["/usr/bin/tini", "-g", "--", "/usr/local/bin/rig", "boot", "--"]


def test_no_key_no_cache_and_no_bundle_is_left_in_the_image(docker: Any) -> None:
    script = """
        ls -A /etc/ssh/ssh_host_* /root/.ssh /run/secrets/* 2>/dev/null
        find /tmp /var/cache/apt /var/lib/apt/lists /root/.cache -type f -size +0 2>/dev/null
        true
    """
    done = docker.run("-c", f"{script}\necho looked", options=["--entrypoint", "sh"])
    assert (done.code, done.out) == (0, "looked\n")


def test_the_users_python_cannot_see_rig_nor_rig_the_users_packages(docker: Any) -> None:
    theirs = docker.run(
        "python", "-c", "import importlib.util as u; print([n for n in ('rig', 'entrypoint') if u.find_spec(n)])"
    )
    assert theirs.out.strip() == "[]"
    script = """
import atexit, sys
atexit.register(lambda: print([path for path in sys.path if "venv" in path or "dist-packages" in path]))
sys.argv = ["rig", "--help"]
exec(open("/usr/local/bin/rig").read())
"""
    ours = docker.run("-IS", "-c", script, options=["--entrypoint", "/usr/bin/python3"])
    assert ours.out.splitlines()[-1] == "[]", ours.err


def test_what_every_training_imports_has_its_bytecode(docker: Any) -> None:
    """A container starts from the image's files each time: without it every rank compiles torch and DeepSpeed anew."""
    script = (
        "import sys, torch, deepspeed, os; "
        "print(sum(1 for m in list(sys.modules.values()) if (c := getattr(m, '__cached__', None)) "
        "and '/site-packages/' in c and not os.path.exists(c)))"
    )
    done = docker.run("-B", "-c", script, options=["--entrypoint", "python"])
    assert done.out.split()[-1] == "0"
