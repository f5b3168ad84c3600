"""A tour of the Python package: `pip install relax-ir`, then `python examples/python/tour.py`."""

import numpy as np

import relax_ir as rx

# A text becomes a module; `n` is whatever an argument has.
module = rx.parse("""
def @main(%x: Tensor[(n, 3), float32], %w: Tensor[(2, 3), float32]) {
  nn.relu(nn.dense(%x, %w, units=2))
}
""")
(main,) = module.functions
print(main)
print(main.params[0].shape, main.params[0].dtype)

# It compiles to native code in memory, once for all sizes. Arrays go in and out without copies.
program = module.compile(threads=2)
w = np.array([[1, 0, 0], [0, 1, -1]], dtype="float32")
print(program(np.array([[1, 2, 3], [-1, 0, 1]], dtype="float32"), w))
print(program(np.ones((1, 3), dtype="float32"), w=w, out=np.empty((1, 2), dtype="float32")))

# The reference evaluator says the same, slowly.
x = np.arange(12, dtype="float32").reshape(4, 3)
assert np.array_equal(module.evaluate(x, w), program(x, w))

# What does not fit is said before anything runs.
try:
    program(x.astype("float64"), w)
except rx.ArgumentError as error:
    print(error)

# So is what is wrong in a program: as text, and as objects with places and suggestions.
for found in rx.check("def @main(%data: Tensor[(2,), float32]) { %dta + 1f }"):
    print(found.code, found.severity, found.span, "|", found.message)
    print([s.title for s in found.suggestions])

# Passes, by name or as objects; functions of Python take part.
@rx.register_pass("count-calls")
def count_calls(module):
    print("calls:", str(module).count("nn."))


module.optimise(["infer-type", rx.Pass("fuse-ops", level=2), "count-calls"])

# Weights become constants; a program with them pickles, and goes into a file.
bound = rx.parse(str(module))
bound.bind({"w": w})
bound.compile().save("dense.relaxprog")
print(rx.load_program("dense.relaxprog")(x[1:2]))

# Lists, options and data types are classes that `match` knows.
text = """
type Figure { Circle(float32), Box(float32, float32) }
def @area(%f: Figure) -> float32 {
  match (%f) { Circle(%r) => %r * %r * 3f, Box(%a, %b) => %a * %b }
}
def @main(%figures: List[Figure]) -> List[float32] { @map(@area, %figures) }
"""
figures = rx.parse(text)
types = figures.types
areas = figures.compile()([types.Circle(2), types.Box(2, 3)])
print(areas, rx.to_list(areas)[0])
