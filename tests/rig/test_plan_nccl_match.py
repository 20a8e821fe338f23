"""NCCL's matcher for NCCL_IB_HCA and NCCL_SOCKET_IFNAME, held to what its source says."""

from hypothesis import given
from hypothesis import strategies as st

from rig.plan.nccl_match import exact_list, matches, parse_filter

NAMES = st.text(alphabet="abmlx5_0123456789-.", min_size=1, max_size=20)
LISTS = st.lists(NAMES, min_size=1, max_size=16, unique=True)
PORTS = st.integers(1, 9)


@given(LISTS, NAMES, PORTS)
def test_a_plain_list_takes_prefixes(listed: list[str], name: str, port: int) -> None:
    assert matches(",".join(listed), name, port) == name.startswith(tuple(listed))


@given(LISTS, NAMES, PORTS)
def test_an_exact_list_takes_names_only(listed: list[str], name: str, port: int) -> None:
    assert matches(exact_list(tuple(listed)), name, port) == (name in listed)


@given(st.sampled_from(["", "="]), LISTS, NAMES, PORTS)
def test_a_caret_turns_the_answer_round(sign: str, listed: list[str], name: str, port: int) -> None:
    value = sign + ",".join(listed)
    assert matches("^" + value, name, port) != matches(value, name, port)


@given(NAMES, PORTS, PORTS)
def test_a_port_must_be_equal_and_an_absent_one_is_any(name: str, wanted: int, port: int) -> None:
    assert matches(f"={name}:{wanted}", name, port) == (wanted == port)
    assert matches(f"={name}", name, port)
    assert not matches(f"={name}:0", name, port)
    assert matches(f"={name}:{wanted}", name)  # interfaces have no ports


@given(st.text(max_size=80), st.text(max_size=20), st.none() | st.integers())
def test_any_text_is_answered(value: str, name: str, port: int | None) -> None:
    rule = parse_filter(value)
    assert isinstance(matches(value, name, port), bool)
    assert len(rule.entries) <= 32
    assert all(entry for entry, _ in rule.entries)


def test_an_empty_list_takes_everything() -> None:
    assert all(matches(value, "mlx5_0", 1) for value in ("", "=", "^", ",", ":1", "^=,"))


def test_the_trap_of_ten_devices() -> None:
    names = [f"mlx5_{number}" for number in range(18)]
    assert [name for name in names if matches("mlx5_1", name, 1)] == ["mlx5_1", *names[10:18]]
    assert [name for name in names if matches("=mlx5_1", name, 1)] == ["mlx5_1"]
    assert [name for name in names if matches("^=mlx5_1,mlx5_2", name, 1)] == ["mlx5_0", *names[3:]]


def test_only_the_first_sign_counts_and_blanks_stay() -> None:
    assert not matches("=^mlx5_0", "mlx5_0", 1)
    assert matches("mlx5_0, mlx5_1", " mlx5_1", 1)
    assert not matches("mlx5_0, mlx5_1", "mlx5_1", 1)
    assert not matches("mlx5_0:x", "mlx5_0", 1)  # atoi gives 0
