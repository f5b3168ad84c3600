# Index maps that layouts say, and others, whose functions are kept as text.
from tvm.script import ir as I, relax as R, tirx as T

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 16, 28, 28), "float32")) -> R.Tensor((2, 28, 28, 16), "float32"):
        with R.dataflow():
            blocks = R.layout_transform(x, index_map=T.index_map(lambda x, c, h, w: (x, c // 4, h, w, c % 4)))
            larger = R.layout_transform(blocks, index_map=T.index_map(lambda n, b, h, w, c: [n, (b * 4 + c) // 8, h, w, (b * 4 + c) % 8]), pad_value=None)
            gv = R.layout_transform(larger, index_map=T.index_map(lambda i0, i1, i2, i3, i4: (i0, i2, i3, i1 * 8 + i4)))
            R.output(gv)
        return gv

    @R.function
    def row(x: R.Tensor((2, 4), "float32")):
        return R.layout_transform(x, index_map=T.index_map(lambda i, j: (i * 4 + j,)))

    @R.function
    def diagonal(x: R.Tensor((4, 4), "float32")):
        return R.layout_transform(x, index_map=T.index_map(lambda i, j: (i, (i + j) % 4)))

    @R.function
    def dropped(x: R.Tensor((4, 4), "float32")):
        return R.layout_transform(x, index_map=T.index_map(lambda i, j: (i,)))

    @R.function
    def padded(x: R.Tensor((10,), "float32")):
        return R.layout_transform(x, index_map=T.index_map(lambda i: (i // 4, i % 4)), pad_value=T.float32(2.0))
