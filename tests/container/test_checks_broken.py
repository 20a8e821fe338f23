"""Images broken on purpose, each FROM the finished one (broken.Dockerfile): `rig check` names what was broken."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.container

DOCKERFILE = Path(__file__).parent / "broken.Dockerfile"
# Stage of the Dockerfile -> the check that must fail, and a word of what it says.
BROKEN = {
    "second-nccl": ("cuda_libraries_exist_once", "libnccl.so.2.18.1 (2.18.1)"),
    "stub-libcuda": ("loader_finds_no_stub_of_the_driver", "/usr/local/cuda/lib64/stubs/"),
    "wrong-nvjitlink": ("nvjitlink_equals_its_pin", "12.9.86"),
    "no-ibverbs-providers": ("image_brings_rdma_providers", "NCCL will use TCP"),
    "key-in-a-layer": ("image_holds_no_secrets", "/root/.ssh/id_ed25519"),
    "stray-cache": ("image_holds_no_caches", "/root/.cache/pip"),
    "world-writable-rig": ("files_are_not_for_everybody_to_write", "/opt/rig"),
    "polluted-ld-library-path": ("ld_library_path_is_clean", "empty element"),
    "numpy-2": ("numpy_suits_torch", "2.2.6"),
    "setuptools-80": ("setuptools_suits_torch", "80.9.0"),
    "no-tini": ("tini_is_in_the_image", "tini"),
    "user-without-home": ("account_home_exists", "/nowhere"),
}
WARNINGS = {"image_holds_no_caches"}


def results(done: Any) -> dict[str, Any]:
    assert done.out, done.err
    return {result["id"]: result for result in json.loads(done.out)["results"]}


@pytest.fixture(scope="module")
def build(engine: Any) -> Iterator[Callable[[str, str], str]]:
    """Build a stage from an image; the tags are gone afterwards, and the small layers with them."""
    tags: list[str] = []

    def built(stage: str, image: str) -> str:
        tags.append(f"rig-test-broken:{stage}")
        options = ("--build-arg", f"IMAGE={image}", "--target", stage, "--file", str(DOCKERFILE), "--tag", tags[-1])
        _, *words = engine.build_command("--quiet", *options, str(DOCKERFILE.parent / "programs"))
        done = engine.call(*words)
        assert done.returncode == 0, done.stderr
        return tags[-1]

    yield built
    engine.call("rmi", "--force", *tags)


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    return {}


@pytest.fixture
def healthy(docker: Any, seen: dict[str, Any]) -> dict[str, Any]:
    """What the same checks say of the finished image, which is looked at once."""
    if not seen:
        ids = ",".join(name for name, _ in BROKEN.values())
        seen.update(results(docker.run("rig", "check", "--json", "--only", ids)))
    return seen


@pytest.mark.parametrize("stage", BROKEN)
def test_a_broken_image_is_found_and_the_healthy_one_is_not_blamed(
    docker: Any, healthy: dict[str, Any], build: Callable[[str, str], str], stage: str
) -> None:
    name, says = BROKEN[stage]
    docker.image = build(stage, docker.image)
    # What lacks its init does not start at all: the check is for whoever looks before that.
    words, options = (["check"], ["--entrypoint", "rig"]) if stage == "no-tini" else (["rig", "check"], [])
    done = docker.run(*words, "--json", "--strict", "--only", name, options=options)
    found = results(done)[name]
    assert done.code == 1, done.err
    assert found["outcome"] == ("warn" if name in WARNINGS else "fail"), found
    assert any(says in finding["text"] and finding["domain"] == "image" for finding in found["findings"]), found
    assert healthy[name]["outcome"] == "pass", healthy[name]


def test_every_stage_of_the_dockerfile_is_tried() -> None:
    lines = DOCKERFILE.read_text(encoding="utf-8").splitlines()
    stages = {line.rpartition(" AS ")[2] for line in lines if line.startswith("FROM ")}
    assert stages - {"healthy"} == set(BROKEN)
