"""Data types and `match`."""

import relax_ir as rx


def test_constructors_are_patterns():
    module = rx.parse("""
    def @main(%n: int32) -> List[int32] { if (%n > 0) { Cons(%n, Cons(7, Nil)) } else { Nil } }
    """)
    program, types = module.compile(), module.types

    def shown(value):
        match value:
            case types.Cons(first, types.Cons(second, types.Nil())):
                return int(first), int(second)
            case types.Nil():
                return ()

    assert shown(program(3)) == (3, 7)
    assert shown(program(0)) == ()
