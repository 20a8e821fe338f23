"""A lean record is a typing.NamedTuple in everything that its users can see."""

import copy
import pickle
import typing

import pytest

from rig import lean


class Lean(lean.NamedTuple):
    """Fields, defaults, a property."""

    bus: str
    width: int | None = None
    lanes: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.bus}/{self.width}"


class Plain(typing.NamedTuple):
    """Fields, defaults, a property."""

    bus: str
    width: int | None = None
    lanes: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.bus}/{self.width}"


@pytest.mark.parametrize(
    ("values", "named"), [(("a",), {}), (("a", 4), {}), (("a",), {"lanes": (1,)}), ((), {"lanes": (2,), "bus": "b"})]
)
def test_a_lean_record_is_made_as_a_plain_one(values: tuple[object, ...], named: dict[str, object]) -> None:
    lean_made, plain_made = Lean(*values, **named), Plain(*values, **named)  # type: ignore[arg-type]
    assert tuple(lean_made) == tuple(plain_made)
    assert hash(lean_made) == hash(plain_made)
    assert repr(lean_made) == repr(plain_made).replace("Plain", "Lean")
    assert lean_made.label == plain_made.label
    assert lean_made._asdict() == plain_made._asdict()
    assert lean_made._replace(width=9) == Lean(*plain_made._replace(width=9))


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), (("a", 1, (), 4), {}), (("a",), {"bus": "b"}), (("a",), {"depth": 1}), (("a", 1), {"width": 2})],
)
def test_a_wrong_call_is_refused_by_both(values: tuple[object, ...], named: dict[str, object]) -> None:
    for kind in (Lean, Plain):
        with pytest.raises(TypeError):
            kind(*values, **named)  # type: ignore[arg-type]


def test_the_class_tells_its_fields() -> None:
    assert Lean._fields == Plain._fields
    assert Lean._field_defaults == Plain._field_defaults
    assert Lean.__match_args__ == Plain.__match_args__
    assert Lean.__doc__ == Plain.__doc__
    assert Lean._make(["x", 1, ()]) == Lean("x", 1)


def test_a_record_can_be_copied_pickled_and_matched() -> None:
    made = Lean("x", 3)
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)
    match made:
        case Lean(bus, 3):
            assert bus == "x"
        case _:
            pytest.fail("the pattern did not match")


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Lean("x").bus = "y"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Lean("x").other = "y"  # type: ignore[attr-defined]


def test_a_default_before_a_required_field_is_refused() -> None:
    with pytest.raises(TypeError, match="without a default"):
        body = {"__annotations__": {"a": int, "b": int}, "a": 1}
        type(lean.NamedTuple)("Bad", (lean.NamedTuple,), body)  # type: ignore[misc]
