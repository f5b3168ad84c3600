"""Values that are no arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Dict, Iterator, List, Tuple, Type

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np


class Adt:
    """An instance of a data type. Each constructor has a class of its own, which `match` knows:

    >>> import relax_ir as rx
    >>> types = rx.parse("def @main(%x: List[int32]) -> List[int32] { %x }").types
    >>> match types.Cons(1, types.Nil()):
    ...     case types.Cons(first, rest):
    ...         print(first)
    1

    Attributes
    ----------
    data : str
        The name of the data type.
    tag : int
        The number of the constructor.
    fields : tuple
    """

    __slots__ = ("fields",)
    __match_args__: ClassVar[Tuple[str, ...]] = ()
    data: ClassVar[str] = ""
    tag: ClassVar[int] = 0
    fields: Tuple[Any, ...]

    def __init__(self, *fields: Any) -> None:
        if len(fields) != len(self.__match_args__):
            name, count = type(self).__name__, len(self.__match_args__)
            raise TypeError(f"{name} takes {count} fields, and {len(fields)} are given")
        self.fields = fields

    def __repr__(self) -> str:
        return _repr(self)

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    __hash__ = None  # type: ignore[assignment]  # pyright: ignore

    def __reduce__(self) -> Tuple[Any, ...]:
        return _again, (_flat(self),)


_CLASSES: Dict[Tuple[str, str, int, int], Type[Adt]] = {}


def constructor(data: str, name: str, tag: int, count: int) -> Type[Adt]:
    """The class of a constructor: the same one for the same data type."""
    key = (data, name, tag, count)
    if key not in _CLASSES:
        names = tuple(f"_{i}" for i in range(count))
        inside: Dict[str, Any] = {"__slots__": (), "__match_args__": names, "data": data, "tag": tag}
        inside.update((field, _field(i)) for i, field in enumerate(names))
        inside["__doc__"] = f"The constructor `{name}` of `{data}`."
        _CLASSES[key] = type(name, (Adt,), inside)
    return _CLASSES[key]


def _field(index: int) -> property:
    return property(lambda self: self.fields[index])


class DataTypes:
    """The data types of a module: constructors are attributes, and data types lists of them.

    >>> import relax_ir as rx
    >>> types = rx.parse("type Figure { Circle(float32), Point } def @main() { 1 }").types
    >>> types["Figure"]
    (<class 'relax_ir._values.Circle'>, <class 'relax_ir._values.Point'>)
    """

    def __init__(self, types: List[Tuple[str, List[Tuple[str, List[str]]]]]) -> None:
        self._types = {
            data: tuple(constructor(data, name, tag, len(fields)) for tag, (name, fields) in enumerate(constructors))
            for data, constructors in types
        }
        self._text = types

    def __getattr__(self, name: str) -> Type[Adt]:
        types: Dict[str, Tuple[Type[Adt], ...]] = self.__dict__.get("_types", {})
        for constructors in types.values():
            for found in constructors:
                if found.__name__ == name:
                    return found
        raise AttributeError(f"no data type has a constructor {name}")

    def __getitem__(self, name: str) -> Tuple[Type[Adt], ...]:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __dir__(self) -> List[str]:
        return [c.__name__ for constructors in self._types.values() for c in constructors]

    def __repr__(self) -> str:
        def one(name: str, fields: List[str]) -> str:
            return f"{name}({', '.join(fields)})" if fields else name

        lines = (f"type {data} {{ {', '.join(one(*c) for c in of)} }}" for data, of in self._text)
        return "\n".join(lines) or "<no data types>"


class Opaque:
    """A value without a form outside of the program: a function, a reference."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return f"<{self.what}>"


def to_list(value: Any) -> List[Any]:
    """The elements of a list of the language (``Cons`` and ``Nil``, or any data type of that form).

    Raises
    ------
    TypeError
        The value is something else.
    """
    out: List[Any] = []
    while isinstance(value, Adt) and len(value.fields) == 2:
        out.append(value.fields[0])
        value = value.fields[1]
    if isinstance(value, Adt) and not value.fields:
        return out
    raise TypeError("that is no list")


# However deep a value is, what follows takes no stack.

_SHOWN = 60


def _repr(value: Adt) -> str:
    out: List[str] = []
    work: List[Any] = [value]
    texts = 0
    while work:
        part = work.pop()
        if isinstance(part, str):
            out.append(part)
            continue
        texts += 1
        if texts > _SHOWN:
            out.append("…")
            continue
        if not isinstance(part, (Adt, tuple)):
            out.append(repr(part.item() if isinstance(part, np.ndarray) and part.ndim == 0 else part))
            continue
        fields = part.fields if isinstance(part, Adt) else part
        out.append(type(part).__name__ if isinstance(part, Adt) else "")
        if not fields and isinstance(part, Adt):
            continue
        work.append(")")
        for i in reversed(range(len(fields))):
            work.append(fields[i])
            if i:
                work.append(", ")
        work.append("(")
    return "".join(out)


def _equal(left: object, right: object) -> bool:
    work: List[Tuple[Any, Any]] = [(left, right)]
    while work:
        a, b = work.pop()
        if isinstance(a, Adt) or isinstance(b, Adt):
            if type(a) is not type(b):
                return False
            work.extend(zip(a.fields, b.fields))
        elif isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            work.extend(zip(a, b))
        elif not np.array_equal(a, b):
            return False
    return True


def _flat(value: Adt) -> List[Any]:
    """A value as a list of steps that put it together: a field, or a constructor and how many fields it takes."""
    steps: List[Any] = []
    work: List[Any] = [value]
    while work:
        part = work.pop()
        if isinstance(part, Adt):
            kind = type(part)
            steps.append(("make", (kind.data, kind.__name__, kind.tag, len(part.fields))))
            work.extend(part.fields)
        elif isinstance(part, tuple):
            steps.append(("tuple", len(part)))
            work.extend(part)
        else:
            steps.append(("is", part))
    # The root came first, and of its fields the last: backwards, fields come in order before what they are in.
    return steps[::-1]


def _again(steps: List[Any]) -> Any:
    done: List[Any] = []
    for what, part in steps:
        if what == "is":
            done.append(part)
            continue
        count = part if what == "tuple" else part[3]
        fields = tuple(done[len(done) - count :])
        del done[len(done) - count :]
        done.append(fields if what == "tuple" else constructor(*part)(*fields))
    return done[0]
