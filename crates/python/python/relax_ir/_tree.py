"""Looking at the expressions of a module, and changing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple, Union

from ._build import Expr, _attributes
from ._native import Module
from .errors import UsageError

if TYPE_CHECKING:
    import numpy as np
else:
    from ._numpy import np


class Node(Expr):
    """An expression of a module, as `Module.walk` and `Mutator` give it.

    Attributes
    ----------
    kind : str
        ``"call"``, ``"var"``, ``"constant"``, ``"tuple"``, ``"field"``, ``"let"``, ``"if"``, ``"match"``, ``"function"``,
        ``"operator"``, ``"global"``, ``"constructor"``, ``"extern"``, ``"ref"``, ``"ref_read"``, ``"ref_write"``,
        ``"shape"``, ``"match_shape"``, ``"match_cast"``, ``"dataflow"``.
    head : str
        Of a call what is called (``"nn.dense"``, ``"@f"``, ``"Cons"``; empty where that is computed), of a variable its name
        (``"%x"``), of a ``let`` the variable's, of a field its number (``".0"``).
    args : tuple of Expr
        What it consists of: of a call the arguments (behind what is called, where that is computed), of a ``let`` the value
        and what follows, of an ``if`` condition and branches, of a ``match`` the value and the clauses' bodies.
    attrs : dict
        The attributes of a call; symbolic extents are `Dim`.
    type : str
        Its type as the language writes it; empty where it is not known.
    shape : tuple of int and str, or None
        The extents of a tensor, as those of `Param`.
    dtype : str or None
        The element type of a tensor.
    array : numpy.ndarray or None
        The value of a constant.
    variable : int or None
        Variables of the same number are the same.
    """

    __slots__ = ("dtype", "index", "kind", "shape", "variable", "_callee")

    kind: str
    index: int
    variable: Optional[int]
    shape: Optional[Tuple[Union[int, str], ...]]
    dtype: Optional[str]
    _callee: Tuple[Expr, ...]

    def __repr__(self) -> str:
        return f"<Node {self.kind} {self.head}".rstrip() + (f": {self.type}>" if self.type else ">")

    def _over(self, callee: Tuple[Expr, ...], args: Tuple[Expr, ...]) -> "Node":
        """The same over other parts."""
        new = Node(self.head, args, self.attrs, self.type, self.array)
        new.kind, new.index, new.variable = self.kind, self.index, self.variable
        new.shape, new.dtype, new._callee = self.shape, self.dtype, callee
        return new


_NAMES = ("operator", "global", "constructor", "extern")


def walk(module: Module, function: Optional[str] = None) -> List[Node]:
    """See `Module.walk`. What is called by its name stands in the call alone."""
    nodes = _all(module, function)
    values = {id(part) for node in nodes for part in node.args}
    return [node for node in nodes if _is_value(node, values)]


def _is_value(node: Node, values: Set[int]) -> bool:
    return node.kind not in _NAMES or id(node) in values


def _all(module: Module, function: Optional[str]) -> List[Node]:
    nodes: List[Node] = []
    for index, row in enumerate(module.expressions(function)):
        kind, name, variable, numbers, attrs, text, shape, dtype, array = row
        parts = tuple(nodes[i] for i in numbers)
        callee: Tuple[Expr, ...] = ()
        if kind == "call" and parts[0].kind in _NAMES:
            callee, parts, name = parts[:1], parts[1:], parts[0].head
        node = Node(f".{name}" if kind == "field" else name, parts, attrs, text, array)
        node.kind, node.index, node.variable = kind, index, variable
        node.shape, node.dtype, node._callee = shape, dtype, callee
        nodes.append(node)
    return nodes


Change = Callable[[Node], Optional[Expr]]


def rewrite(module: Module, change: Change, function: Optional[str] = None) -> bool:
    """See `Module.rewrite`."""
    old = _all(module, function)
    values = {id(part) for node in old for part in node.args}
    new: List[Expr] = []
    places: Dict[int, int] = {}
    changed = False
    for node in old:
        callee = tuple(new[e.index] for e in node._callee if isinstance(e, Node))
        args = tuple(new[e.index] for e in node.args if isinstance(e, Node))
        same = all(a is b for a, b in zip(callee + args, node._callee + node.args))
        over = node if same else node._over(callee, args)
        made = change(over) if _is_value(node, values) else over
        if made is None:
            made = over
        if not isinstance(made, Expr):
            raise UsageError(f"an expression stands in the place of an expression, not {type(made).__name__}")
        changed = changed or made is not node
        if not isinstance(made, Node):
            places.setdefault(id(made), node.index)
        new.append(made)
    if changed:
        module.rebuild(function, _flat(new[-1], places))
    return changed


def _flat(body: Expr, places: Dict[int, int]) -> List[Tuple[str, Tuple[Any, ...]]]:
    """A body as steps that make it. However deep it is, this takes no stack."""
    made: List[Tuple[str, Tuple[Any, ...]]] = []
    numbers: Dict[int, int] = {}
    dtypes: Dict[int, Optional[str]] = {}
    work: List[Tuple[Expr, bool, Optional[int]]] = [(body, False, None)]
    while work:
        expr, ready, place = work.pop()
        if id(expr) in numbers:
            continue
        place = places.get(id(expr), place)
        parts = expr._callee + expr.args if isinstance(expr, Node) else expr.args
        if not ready:
            work.append((expr, True, place))
            work.extend((part, False, place) for part in reversed(parts))
            continue
        given = [numbers[id(part)] for part in parts]
        dtype = _dtype(expr, [dtypes[id(part)] for part in parts if not part.literal])
        if dtype is not None and not isinstance(expr, Node):
            for i, part in enumerate(parts):
                if part.literal and (np.dtype(dtype).kind == "f" or part.array.dtype.kind == "i"):
                    made.append(("constant", (part.array.astype(dtype),)))
                    given[i] = len(made) - 1
        made.append(_step(expr, given, place))
        numbers[id(expr)], dtypes[id(expr)] = len(made) - 1, dtype
    return made


def _dtype(expr: Expr, parts: List[Optional[str]]) -> Optional[str]:
    """The element type of an expression as far as a look tells: what numbers beside it are read as."""
    if isinstance(expr, Node):
        return expr.dtype
    if expr.array is not None:
        return None if expr.array.dtype.kind == "V" else str(expr.array.dtype)
    known = next((dtype for dtype in parts if dtype is not None), None)
    return None if known == "bfloat16" else known


def _step(expr: Expr, parts: List[int], place: Optional[int]) -> Tuple[str, Tuple[Any, ...]]:
    if isinstance(expr, Node):
        return "kept", (expr.index, parts)
    if expr.array is not None:
        return "constant", (expr.array,)
    if expr.head == "(,)":
        return "tuple", (parts,)
    if expr.head.startswith("."):
        return "field", (parts[0], int(expr.head[1:]))
    if expr.type is not None:
        raise UsageError(f"{expr.head} is no variable of the function: its own are among what `walk` gives")
    return "call", (expr.head, parts, _attributes(expr), place)


class Visitor:
    """Looks at expressions: a method for each kind, ``call(expr)``, ``var(expr)``, …, is called where there is one (``if_`` and
    ``match_`` for those of Python's own words).

    Examples
    --------
    >>> import relax_ir as rx
    >>> class Heads(rx.Visitor):
    ...     def __init__(self):
    ...         self.heads = []
    ...     def call(self, expr):
    ...         self.heads.append(expr.head)
    >>> heads = Heads()
    >>> heads.run(rx.parse("def @main(%x: float32) { exp(%x) + 1f }"))
    >>> heads.heads
    ['exp', 'add']
    """

    def visit(self, expr: Node) -> None:
        """Looks at an expression, after those that it consists of."""
        method = _method(self, expr.kind)
        if method is not None:
            method(expr)

    def run(self, module: Module, function: Optional[str] = None) -> None:
        """Looks at all expressions of a function, or of all of them."""
        for name in [function] if function is not None else [f.name for f in module.functions]:
            for expr in walk(module, name):
                self.visit(expr)


class Mutator:
    """Changes expressions: a method for each kind, ``call(expr)``, ``constant(expr)``, …, returns what stands in the place of
    an expression whose parts are changed already; nothing, or the expression itself, leaves it. Methods are called as those
    of `Visitor`.

    An instance is a pass: ``module.optimise([Mine()])``, ``register_pass("mine", Mine())``.

    Examples
    --------
    >>> import relax_ir as rx
    >>> class Twice(rx.Mutator):
    ...     def call(self, expr):
    ...         if expr.head == "add" and expr.args[0] is expr.args[1]:
    ...             return expr.args[0] * 2
    >>> module = rx.parse("def @main(%x: float32) { let %y = exp(%x); %y + %y }")
    >>> module.optimise(["to-graph-normal-form", Twice()])
    []
    >>> [e.head for e in module.walk() if e.kind == "call"]
    ['exp', 'multiply']
    """

    def rewrite(self, expr: Node) -> Optional[Expr]:
        """What stands in the place of an expression."""
        method = _method(self, expr.kind)
        return None if method is None else method(expr)

    def __call__(self, module: Module) -> None:
        """Changes all functions of a module."""
        for function in module.functions:
            rewrite(module, self.rewrite, function.name)


def _method(owner: Any, kind: str) -> Any:
    return getattr(owner, f"{kind}_" if kind in ("if", "match") else kind, None)
