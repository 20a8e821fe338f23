"""`rig plan --explain` sets the plan beside what a user would have got without it."""

from pathlib import Path

import pytest

from entrypoint.plan import run
from rig.dsconfig import FILLABLE, ZERO

H100 = str(Path(__file__).parents[1] / "machines" / "hgx-h100-ib" / "tree.txt")


def explained(key: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The line below the reason of a key."""
    run(["--explain", f"--root={H100}"])
    lines = capsys.readouterr().out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.split()[:1] == [f"{ZERO}.{key}"])
    return lines[at + 2].strip()


def test_a_bucket_stands_beside_both_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIG_MODEL", "hidden=4096,params=7e9,layers=32")
    auto = """; Hugging Face's "auto": """
    assert explained("reduce_bucket_size", capsys) == f"DeepSpeed's default: 500000000{auto}16777216"
    assert explained("stage3_prefetch_bucket_size", capsys) == f"DeepSpeed's default: 50000000{auto}15099494"
    assert explained("stage3_param_persistence_threshold", capsys) == f"DeepSpeed's default: 100000{auto}40960"
    assert explained("overlap_comm", capsys).endswith(f"{auto}not resolved")


def test_each_network_key_has_them_and_an_unknown_size_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for key in FILLABLE:
        assert explained(key, capsys).startswith("DeepSpeed's default: ")
    assert explained("reduce_bucket_size", capsys).endswith("not known without the hidden size (RIG_MODEL)")
