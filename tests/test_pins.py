"""Every ARG of a Dockerfile is a pin and every pin is an ARG or a lock entry; nothing else names a version."""

import re
from pathlib import Path

import pytest

from factory.build import TARGETS
from factory.lock import LOCKS
from rig.pins import PinError, read_pins
from rig.plan.ds_versions import PINNED

CHECKOUT = Path(__file__).resolve().parent.parent
PINS = read_pins(CHECKOUT / "pins.toml")
IMAGES = {name for target in TARGETS for name, _ in target.needs}


def dockerfile(table: str) -> str:
    return (CHECKOUT / f"Dockerfile.{table}").read_text(encoding="utf-8")


def args(table: str) -> set[str]:
    return set(re.findall(r"^ARG (.+)$", dockerfile(table), re.MULTILINE))


@pytest.mark.parametrize("table", PINS.args)
def test_every_arg_is_a_pin_without_a_default_of_its_own(table: str) -> None:
    assert args(table) - IMAGES <= set(PINS.args[table])  # an ARG with a default would differ by its "="


@pytest.mark.parametrize("table", PINS.args)
def test_every_pin_is_an_arg(table: str) -> None:
    assert set(PINS.args[table]) <= args(table)


@pytest.mark.parametrize("table", PINS.args)
def test_every_arg_is_used(table: str) -> None:
    text = dockerfile(table)
    unused = [name for name in args(table) if f"${{{name}}}" not in text]
    assert unused == []


@pytest.mark.parametrize(
    ("lock", "package", "pin"),
    [(lock.name, package, pin) for lock in LOCKS for package, pin in lock.pinned]
    + [("torch", "nvidia-nccl-cu12", "NCCL_VERSION"), ("torch", "nvidia-nvjitlink-cu12", "NVJITLINK_VERSION")],
)
def test_locks_hold_what_the_pins_say(lock: str, package: str, pin: str) -> None:
    if lock == "deepspeed" and package == "deepspeed":
        lock = "deepspeed-source"  # built from its sdist, so it has a lock of its own
    text = (CHECKOUT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    assert re.search(rf"^{package}=={re.escape(PINS.of(pin))} ", text, re.MULTILINE)


@pytest.mark.parametrize("lock", [lock.name for lock in LOCKS])
def test_every_locked_file_has_its_hash(lock: str) -> None:
    text = (CHECKOUT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text.split("\n", 1)[1].strip())
    assert entries and all("--hash=sha256:" in entry for entry in entries)


def test_the_torch_layer_and_the_layers_around_it_agree() -> None:
    def versions(lock: str) -> dict[str, str]:
        text = (CHECKOUT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
        return dict(re.findall(r"^(\S+?)==(\S+)", text, re.MULTILINE))

    torch = versions("torch")
    for lock in ("cuda", "deepspeed"):
        differing = {name: got for name, got in versions(lock).items() if torch.get(name, got) != got}
        assert differing == {}


def test_every_debian_package_has_its_reason() -> None:
    lines = (CHECKOUT / "requirements" / "base.apt").read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if not line.startswith("#") and not re.fullmatch(r"\S+ +# .{10,}", line)]
    assert bare == []


def test_no_other_file_names_a_pinned_version() -> None:
    """Prose and locks may; what is executed may not."""
    unique = [PINS.of(name) for name in ("TORCH_VERSION", "DEEPSPEED_VERSION", "NCCL_VERSION", "UV_VERSION")]
    files = [CHECKOUT / "Makefile", *CHECKOUT.glob("Dockerfile.*"), *CHECKOUT.glob("factory/**/*.py")]
    found = [f"{path.name}: {version}" for path in files for version in unique if version in code(path)]
    assert found == []


def test_the_rules_are_those_of_the_deepspeed_in_the_image() -> None:
    assert ".".join(map(str, PINNED)) == PINS.of("DEEPSPEED_VERSION")


def code(path: Path) -> str:
    """A file without its comments and docstrings."""
    text = re.sub(r'"""(.|\n)*?"""', "", path.read_text(encoding="utf-8"))
    return re.sub(r"#.*", "", text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[base\n", "pins.toml"),
        ("[base]\nA = 1\n", r"\[base\] A must be text in quotes"),
        ('[base]\nA = ""\n', r"\[base\] A must be text in quotes"),
        ("A = 1\n", "A stands outside a table"),
        ('[budget]\nDISK_GB = "a"\n', r"\[budget\] DISK_GB must be a number"),
        ("[budget]\nDISK_GB = [1]\n", r"\[budget\] DISK_GB must be a number"),
    ],
)
def test_bad_pins_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "pins.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PinError, match=complaint):
        read_pins(path)
