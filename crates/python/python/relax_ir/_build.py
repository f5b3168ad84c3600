"""Programs built in Python: expressions, and modules of them.

>>> x, w = var("x", ("n", 4)), var("w", (10, 4))
>>> print(function([x, w], op.nn.relu(op.nn.dense(x, w, units=10))))
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(10, 4), float32]) {
  %0 = nn.dense(%x, %w, units=10);
  nn.relu(%0)
}
<BLANKLINE>
"""

from __future__ import annotations

import keyword
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ._native import Module, operators, together
from .errors import UsageError

if TYPE_CHECKING:
    import inspect

    import numpy as np
else:
    from ._numpy import np

_Extent = Union[int, str]
_KINDS = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "dtype": "str",
    "dtype or dtypes": "str or list of str",
    "ints": "int or list of int",
    "floats": "list of float",
    "dims": "list of int and str",
    "int lists": "list of list of int",
    "strs": "list of str",
    "int or ints": "int or list of int",
    "any": "object",
}


class Dim(str):
    """A symbolic extent in an attribute (``newshape=[Dim("n"), 4]``), as the language writes it."""

    __slots__ = ()


class Expr:
    """An expression. Arithmetic makes calls of operators, an index takes a field out of a tuple.

    Attributes
    ----------
    head : str
        A variable (``%x``), an operator, a function (``@f``), ``(,)`` for tuples, ``.0`` for fields, a literal.
    args : tuple of Expr
    attrs : dict
        The attributes of a call: numbers, texts, lists, `Dim`.
    """

    __slots__ = ("array", "attrs", "head", "args", "literal", "type")
    __array_ufunc__ = None

    def __init__(
        self,
        head: str,
        args: Tuple["Expr", ...] = (),
        attrs: Optional[Dict[str, Any]] = None,
        type: Optional[str] = None,
        array: Any = None,
    ) -> None:
        self.head = head
        self.args = args
        self.attrs = attrs or {}
        self.type = type
        self.array = array
        # Whether it is a number that takes the element type of what it is combined with.
        self.literal = False

    def __repr__(self) -> str:
        return f"<Expr {self.head}>"

    def __getitem__(self, index: int) -> "Expr":
        if not isinstance(index, int):
            raise TypeError("an index takes a field out of a tuple; `op.strided_slice` and `op.take` are for tensors")
        return Expr(f".{index}", (self,))

    def __iter__(self) -> Iterator["Expr"]:
        raise TypeError("how many fields a tuple has is not known before the program is checked")

    def __bool__(self) -> bool:
        raise TypeError("an expression has no value before it runs")

    def __add__(self, other: Any) -> "Expr":
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> "Expr":
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> "Expr":
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> "Expr":
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> "Expr":
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> "Expr":
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> "Expr":
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> "Expr":
        return _binary("divide", other, self)

    def __neg__(self) -> "Expr":
        return Expr("negative", (self,))

    def __lt__(self, other: Any) -> "Expr":
        return _binary("less", self, other)

    def __le__(self, other: Any) -> "Expr":
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> "Expr":
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> "Expr":
        return _binary("greater_equal", self, other)


def _binary(name: str, left: Any, right: Any) -> Expr:
    return Expr(name, (_expr(left), _expr(right)))


def var(name: str, type: Union[str, Sequence[_Extent]] = (), dtype: str = "float32") -> Expr:
    """A parameter.

    Parameters
    ----------
    name : str
    type : str or sequence of int and str
        A type as the language writes it, or the extents of a tensor; texts are symbolic ones.
    dtype : str
        The element type, where `type` are extents.
    """
    if not isinstance(type, str):
        extents = ", ".join(map(str, type))
        type = f"Tensor[({extents}{',' if len(type) == 1 else ''}), {dtype}]" if type else dtype
    return Expr(f"%{name.lstrip('%')}", type=type)


def const(value: Any, dtype: Optional[str] = None) -> Expr:
    """A constant: a number, or an array, which is copied. Numbers without `dtype` are ``float32``, ``int32`` or
    ``bool``."""
    if isinstance(value, Expr):
        return value
    literal = dtype is None and isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)
    if literal:
        dtype = {bool: "bool", int: "int32"}.get(type(value), "float32")
    expr = Expr("meta", array=np.array(value, dtype=dtype, order="C"))
    expr.literal = literal and not isinstance(value, bool)
    return expr


def tup(*fields: Any) -> Expr:
    """A tuple."""
    return Expr("(,)", tuple(map(_expr, fields)))


def call(name: str, *args: Any) -> Expr:
    """A call of another function of the module."""
    return Expr(f"@{name.lstrip('@')}", tuple(map(_expr, args)))


def _expr(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    return tup(*value) if isinstance(value, (tuple, list)) else const(value)


def _attribute(value: Any, kind: str) -> str:
    """The value of an attribute as the language writes it."""
    if isinstance(value, (bool, np.bool_)):
        return "True" if value else "False"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, Dim):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return value if kind == "dims" else f'"{escaped}"'
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{', '.join(_attribute(v, kind) for v in value)}]"
    if kind == "dtype":
        return f'"{np.dtype(value)}"'
    raise UsageError(f"{value!r} is no value of an attribute")


def _attributes(expr: Expr) -> Dict[str, Any]:
    """The attributes of a call as values of their own kinds: numbers, texts, lists and `Dim`."""
    known = _registry().get(expr.head)
    kinds = {name: kind for name, kind, _, _ in known[4]} if known else {}
    return {name: _value(value, kinds.get(name, "any")) for name, value in expr.attrs.items()}


def _value(value: Any, kind: str) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, str):
        return Dim(value) if kind == "dims" else value
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_value(v, kind) for v in value]
    return str(np.dtype(value)) if kind == "dtype" else value


def _operator(name: str, known: Any) -> Callable[..., Expr]:
    """A function that makes calls of an operator; of one that the registry does not have, without a signature."""
    if known is None:

        def unknown(*args: Any, **attrs: Any) -> Expr:
            given = {k: v for k, v in attrs.items() if v is not None}
            for value in given.values():
                _attribute(value, "any")
            return Expr(name, tuple(map(_expr, args)), given)

        unknown.__name__, unknown.__qualname__ = name.rpartition(".")[2], f"op.{name}"
        unknown.__doc__ = f"A call of `{name}`."
        return unknown
    _, doc, inputs, more, attributes = known
    kinds = {_python(a): (a, kind, default) for a, kind, default, _ in attributes}
    names = [_python(n) for n, _ in inputs]
    # Two things of one name are told by their places.
    open_names = not any(n in kinds for n in names) and len(set(names)) == len(names)
    signature = _signature(names if open_names else [f"{n}_" for n in names], more, kinds)

    def apply(*args: Any, **attrs: Any) -> Expr:
        bound = signature.bind(*args, **attrs).arguments
        given: List[Any] = []
        values: Dict[str, Any] = {}
        for key, value in bound.items():
            if key == "more":
                given.extend(value)
            elif key not in kinds:
                given.append(value)
            elif value is not None:
                written, kind, _ = kinds[key]
                # What is no value of an attribute is said here, where it is given.
                _attribute(value, kind)
                values[written] = value
        return Expr(name, tuple(map(_expr, given)), values)

    apply.__name__, apply.__qualname__ = name.rpartition(".")[2], f"op.{name}"
    apply.__signature__ = signature  # type: ignore[attr-defined]
    apply.__doc__ = _documentation(doc, inputs, attributes)
    return apply


def _python(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name.replace(".", "_")


def _signature(names: List[str], more: bool, attributes: Mapping[str, Any]) -> inspect.Signature:
    import inspect

    kind = inspect.Parameter
    params = [kind(n, kind.POSITIONAL_ONLY if more else kind.POSITIONAL_OR_KEYWORD) for n in names]
    if more:
        params.append(kind("more", kind.VAR_POSITIONAL))
    for name, (_, _, default) in attributes.items():
        value = kind.empty if default is None else _default(default)
        params.append(kind(name, kind.KEYWORD_ONLY, default=value))
    return inspect.Signature(params, return_annotation="Expr")


def _default(text: str) -> Any:
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return float(text)


def _documentation(doc: str, inputs: Any, attributes: Any) -> str:
    lines = [doc]
    if inputs or attributes:
        lines += ["", "Parameters", "----------"]
    for name, meaning in inputs:
        lines += [f"{_python(name)} : Expr", f"    {meaning}"]
    for name, kind, default, meaning in attributes:
        optional = "" if default is None else f", default {default}"
        lines += [f"{_python(name)} : {_KINDS[kind]}{optional}", f"    {meaning}"]
    return "\n".join(lines)


class Operators:
    """The operators: attributes are operators and what they stand under, ``op.nn.dense``."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        full = self._prefix + name
        known = _registry()
        # What Python has a word of its own for is written with a line below.
        for written in (full, full.rstrip("_")):
            if written in known:
                found: Any = _operator(written, known[written])
                break
        else:
            space = any(k.startswith(f"{full}.") for k in known)
            found = Operators(f"{full}.") if space else _operator(full, None)
        setattr(self, name, found)
        return found

    def __dir__(self) -> Iterable[str]:
        names = (k[len(self._prefix) :] for k in _registry() if k.startswith(self._prefix))
        return sorted({_python(n.partition(".")[0]) for n in names})

    def __repr__(self) -> str:
        return f"<operators {self._prefix}*>"


_KNOWN: Dict[str, Any] = {}


def _registry() -> Dict[str, Any]:
    if not _KNOWN:
        _KNOWN.update((o[0], o) for o in operators())
    return _KNOWN


op: Any = Operators()


def function(params: Sequence[Expr], body: Any, name: str = "main") -> Module:
    """A module of one function.

    Parameters
    ----------
    params : sequence of Expr
        Each made by `var`.
    body : Expr, or tuple of them
    name : str

    Raises
    ------
    InvalidError
        The function has errors; places are those of its text.
    """
    return functions({name: (params, body)})


def functions(all: Mapping[str, Tuple[Sequence[Expr], Any]]) -> Module:
    """A module of several functions: their parameters and bodies by their names."""
    arrays: List[Any] = []
    texts = [_function(name, params, _expr(body), arrays) for name, (params, body) in all.items()]
    return together("\n".join(texts), arrays)


def _function(name: str, params: Sequence[Expr], body: Expr, arrays: List[Any]) -> str:
    for p in params:
        if not isinstance(p, Expr) or p.type is None:
            raise UsageError(f"@{name}: parameters are made by `var`")
    heads = ", ".join(f"{p.head}: {p.type}" for p in params)
    known = {id(p): p.head for p in params}
    declared = {p.head for p in params}
    uses = _uses(body)
    lines: List[str] = []
    # However deep an expression is, this takes no stack.
    work: List[Tuple[Expr, bool]] = [(body, False)]
    while work:
        expr, ready = work.pop()
        if id(expr) in known:
            continue
        if not ready:
            work.append((expr, True))
            work.extend((a, False) for a in reversed(expr.args))
            continue
        text = _text(expr, [known[id(a)] for a in expr.args], arrays, declared, name)
        shared = uses[id(expr)] > 1 or len(text) > 80
        if expr.args and shared and expr is not body:
            lines.append(f"  %{len(lines)} = {text};\n")
            text = f"%{len(lines) - 1}"
        known[id(expr)] = text
    return f"def @{name}({heads}) {{\n{''.join(lines)}  {known[id(body)]}\n}}\n"


def _uses(body: Expr) -> Dict[int, int]:
    uses: Dict[int, int] = {}
    work = [body]
    while work:
        expr = work.pop()
        uses[id(expr)] = uses.get(id(expr), 0) + 1
        if uses[id(expr)] == 1:
            work.extend(expr.args)
    return uses


def _text(expr: Expr, args: List[str], arrays: List[Any], declared: Any, function: str) -> str:
    head = expr.head
    if expr.array is not None:
        return _constant(expr.array, arrays)
    if head == "(,)":
        return f"({', '.join(args)}{',' if len(args) == 1 else ''})"
    if head.startswith("."):
        return f"{args[0]}{head}"
    if expr.type is not None:
        if head not in declared:
            raise UsageError(f"{head} is no parameter of @{function}")
        return head
    attrs = (f"{name}={_attribute(value, 'any')}" for name, value in _attributes(expr).items())
    return f"{head}({', '.join([*args, *attrs])})"


def _constant(array: Any, arrays: List[Any]) -> str:
    if array.ndim == 0 and array.dtype == np.bool_:
        return str(bool(array))
    if array.ndim == 0 and array.dtype == np.int32 and array >= 0:
        return str(int(array))
    if array.ndim == 0 and array.dtype == np.float32 and np.isfinite(array) and array >= 0:
        return f"{array.item():.9g}f"
    arrays.append(array)
    comma = "," if array.ndim == 1 else ""
    dtype = "bfloat16" if array.dtype.kind == "V" else str(array.dtype)
    shape = f"Tensor[({', '.join(map(str, array.shape))}{comma}), {dtype}]" if array.ndim else dtype
    return f"meta[relay.Constant][{len(arrays) - 1}] /* ty={shape} */"
