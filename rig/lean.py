"""What the boot path may use of `typing`, without its price.

`import typing` costs more than a bare interpreter start (it pulls in re, enum, contextlib and collections), and rig
runs before every program of every user. Type checkers see the real names here; at run time they are the small
stand-ins below. A record behaves as a `typing.NamedTuple` does: fields, defaults, equality, `_replace`, `_asdict`,
pickling.
"""

TYPE_CHECKING = False  # type checkers take this name as True

if TYPE_CHECKING:
    from collections.abc import Callable as Callable
    from collections.abc import Iterable as Iterable
    from collections.abc import Iterator as Iterator
    from collections.abc import Mapping as Mapping
    from collections.abc import Sequence as Sequence
    from typing import Any as Any
    from typing import NamedTuple as NamedTuple
    from typing import Protocol as Protocol
else:
    from _collections import _tuplegetter
    from _collections_abc import Callable, Iterable, Iterator, Mapping, Sequence  # noqa: F401

    Any = object
    Protocol = object

    _MISSING = object()

    def _refuse(cls, values, named):
        """Raise the TypeError that a wrong call of cls(*values, **named) deserves."""
        fields = cls._fields
        if len(values) > len(fields):
            raise TypeError(f"{cls.__name__} takes {len(fields)} values, {len(values)} were given")
        for name in named:
            if name not in fields:
                raise TypeError(f"{cls.__name__} has no field {name!r}")
            if name in fields[: len(values)]:
                raise TypeError(f"{cls.__name__} got two values for {name!r}")
        given = {*fields[: len(values)], *named, *cls._field_defaults}
        raise TypeError(f"{cls.__name__} misses {', '.join(repr(name) for name in fields if name not in given)}")

    def _new(cls, *values, **named):
        fields = cls._fields
        if len(values) == len(fields) and not named:
            return tuple.__new__(cls, values)
        filled = {**cls._blank, **named}
        given = len(named)
        for name, value in zip(fields, values, strict=False):
            filled[name] = value
            given += name not in named
        made = tuple.__new__(cls, filled.values())
        if given != len(values) + len(named) or len(made) != len(fields) or len(values) > len(fields):
            _refuse(cls, values, named)
        for value in made[: cls._required]:
            if value is _MISSING:
                _refuse(cls, values, named)
        return made

    class _Tuple(tuple):
        """What all records have in common; made once, because each method costs every class that has its own."""

        __slots__ = ()
        __new__ = _new

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **named):
            return type(self)(**{**self._asdict(), **named})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

    _GETTERS = [_tuplegetter(index, f"field {index}") for index in range(32)]

    class _Record(type):
        """Makes a tuple class from a class body of annotated names."""

        def __new__(mcs, name, bases, body):
            if not bases:
                return super().__new__(mcs, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            if fields[len(fields) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"{name}: a field without a default follows one with a default")
            while len(_GETTERS) < len(fields):
                _GETTERS.append(_tuplegetter(len(_GETTERS), f"field {len(_GETTERS)}"))
            body.update(zip(fields, _GETTERS, strict=False))
            body["__slots__"] = ()
            body["__match_args__"] = body["_fields"] = fields
            body["_field_defaults"] = defaults
            body["_blank"] = {**dict.fromkeys(fields, _MISSING), **defaults}
            body["_required"] = len(fields) - len(defaults)
            return type(name, (_Tuple,), body)

    class NamedTuple(metaclass=_Record):
        """Base of records, as typing.NamedTuple is."""
