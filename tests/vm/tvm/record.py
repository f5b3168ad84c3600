#!/usr/bin/env python3
"""Writes what TVM's machine makes of modules: NAME.py (TVMScript) and NAME.txt (`VMExecutable.as_text()`).

    pip install apache-tvm==0.27.0 && python tests/vm/tvm/record.py

`crates/cli/tests/vm_listings.rs` holds ours against what is recorded here; it needs no TVM.
"""
import pathlib

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), y: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        a = R.add(x, y)
        b = R.multiply(a, y)
        c = R.exp(b)
        return c


@I.ir_module
class Branch:
    @R.function
    def twice(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.add(x, x)
        return y

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Branch
        if c:
            a = cls.twice(x)
            r = R.exp(a)
        else:
            b = R.multiply(x, x)
            r = cls.twice(b)
        z = R.add(r, x)
        return z


@I.ir_module
class Nested:
    @R.function
    def main(
        c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")
    ) -> R.Tensor((4,), "float32"):
        if c:
            if d:
                q = R.exp(x)
            else:
                q = R.negative(x)
            r = R.add(q, x)
        else:
            r = R.sqrt(x)
        z = R.multiply(r, r)
        return z


@I.ir_module
class Recursion:
    @R.function
    def main(n: R.Tensor((), "int32"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Recursion
        c = R.less(n, R.const(1, "int32"))
        if c:
            r = R.exp(x)
        else:
            m = R.subtract(n, R.const(1, "int32"))
            y = R.add(x, x)
            r = cls.main(m, y)
        return r


@I.ir_module
class Tuples:
    @R.function
    def main(
        p: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))
    ) -> R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")):
        a = p[0]
        b = p[1]
        c = R.add(a, b)
        d = R.subtract(a, b)
        return (c, d)


@I.ir_module
class Layer:
    @R.function
    def main(
        x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 16), "float32"), b: R.Tensor((16,), "float32")
    ) -> R.Tensor((2, 16), "float32"):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.add(y, b)
            r = R.nn.relu(z)
            s = R.nn.softmax(r, axis=1)
            R.output(s)
        return s


@I.ir_module
class Shapes:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 8), "float32"):
        a = R.concat((x, x), axis=1)
        b = R.exp(a)
        return b


@I.ir_module
class Packed:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = R.call_dps_packed("mine.double", (x,), out_ty=R.Tensor((4,), "float32"))
        b = R.exp(a)
        return b


def main():
    folder = pathlib.Path(__file__).parent
    for module in (Chain, Branch, Nested, Recursion, Tuples, Layer, Shapes, Packed):
        name = next(k for k, v in globals().items() if v is module).lower()
        built = relax.build(module, "llvm" if tvm.runtime.enabled("llvm") else "c")
        (folder / f"{name}.py").write_text(module.script(show_meta=True) + "\n")
        (folder / f"{name}.txt").write_text(built.as_text().rstrip() + "\n")


main()
