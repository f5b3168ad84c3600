"""Data types: lists, options, and those of programs."""

import pickle

import numpy as np
import pytest

import relax_ir as rx

SUM = """
def @sum(%l: List[float32]) -> float32 {
  match (%l) { Cons(%h, %t) => %h + @sum(%t), Nil => 0f }
}
def @main(%l: List[float32]) -> float32 { @sum(%l) }
"""
UP = """
def @up(%n: int32, %l: List[(int32, float32)]) -> List[(int32, float32)] {
  if (%n == 0) { %l } else { @up(%n - 1, Cons((%n, cast(%n, dtype="float32")), %l)) }
}
def @main(%n: int32) -> List[(int32, float32)] { @up(%n, Nil) }
"""
SHAPES = """
type Figure { Circle(float32), Box(float32, float32), Point }
def @main(%f: Figure) -> Figure {
  match (%f) { Circle(%r) => Box(%r, %r), Box(%a, %b) => Circle(%a * %b), Point => Point }
}
"""


def both(text):
    module = rx.parse(text)
    return module.types, [module.compile(), module.evaluate]


def test_lists_go_in_and_come_out():
    types, calls = both(SUM)
    for call in calls:
        assert call([1, 2.5, np.float32(3)]) == 6.5
        assert call(()) == 0
        assert call(types.Cons(1, types.Cons(2, types.Nil()))) == 3
        with pytest.raises(rx.ArgumentError, match=r"%l\.1"):
            call([1, "two"])
        with pytest.raises(rx.ArgumentError, match="Cons takes 2 fields"):
            raise rx.ArgumentError(str(pytest.raises(TypeError, types.Cons, 1).value))
    types, calls = both(UP)
    for call in calls:
        value = call(3)
        assert [(int(a), float(b)) for a, b in rx.to_list(value)] == [(1, 1.0), (2, 2.0), (3, 3.0)]
        assert isinstance(value, types.Cons)
        assert repr(value) == "Cons((1, 1.0), Cons((2, 2.0), Cons((3, 3.0), Nil)))"


def test_own_types():
    types, calls = both(SHAPES)
    assert list(types)[-1:] == ["Figure"] or "Figure" in list(types)
    assert "Circle(float32)" in repr(types) and "Circle" in dir(types)
    for call in calls:
        assert call(types.Circle(2)) == types.Box(2, 2)
        assert call(types.Box(2, 3)) == types.Circle(6)
        assert call(types.Point()) == types.Point()
        for wrong in (3, None, (1, 2), rx.parse(SUM).types.Nil()):
            with pytest.raises(rx.ArgumentError, match="%f must be Figure"):
                call(wrong)
    with pytest.raises(AttributeError, match="Square"):
        types.Square


def test_options():
    text = "def @main(%o: Option[float32]) -> float32 { match (%o) { Some(%x) => %x, None => 0f } }"
    types, calls = both(text)
    for call in calls:
        assert call(None) == 0 and call(2) == 2 and call(types.Some(3)) == 3


def test_deep_values_take_no_stack():
    types, calls = both(UP)
    value = calls[0](50_000)
    assert len(rx.to_list(value)) == 50_000 and len(repr(value)) < 4000
    again = pickle.loads(pickle.dumps(value))
    assert again == value and type(again) is type(value)
    assert rx.parse(SUM).compile()([1.0] * 50_000) == 50_000
    del value, again


def test_functions_have_no_form():
    value = rx.parse("def @main(%x: int32) { fn (%y: int32) { %x + %y } }").compile()(1)
    assert repr(value) == "<a function>"
    with pytest.raises(rx.ArgumentError):
        rx.parse("def @main(%f: fn (int32) -> int32) { %f(1) }").compile()(1)
