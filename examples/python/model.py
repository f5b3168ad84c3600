"""Calls a shared library that relaxc made, from Python with numpy and nothing else.

    relaxc examples/call_packed.relay -o libmodel.so --emit shared
    python examples/python/model.py ./libmodel.so

The C interface stands in crates/runtime/include/relax_runtime.h.
"""

import ctypes
import sys

import numpy as np

POINTER = ctypes.c_void_p
RX_OK, RX_ERR_PACKED = 0, 5


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


PACKED = ctypes.CFUNCTYPE(
    ctypes.c_int32, POINTER, POINTER, ctypes.POINTER(POINTER), ctypes.c_int32, ctypes.POINTER(POINTER)
)


class Model:
    """A compiled model with a context of its own."""

    CODES = {"i": 0, "u": 1, "f": 2, "b": 6}

    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(path)
        for name, result, args in [
            ("rx_context_create", POINTER, []),
            ("rx_context_destroy", None, [POINTER]),
            ("rx_last_error", ctypes.c_char_p, [POINTER]),
            ("rx_set_error", ctypes.c_int32, [POINTER, ctypes.c_int32, ctypes.c_char_p]),
            ("rx_register_packed", ctypes.c_int32, [POINTER, ctypes.c_char_p, PACKED, POINTER]),
            ("rx_tensor_borrow", POINTER, [POINTER, DLDataType, ctypes.c_int32, POINTER, POINTER]),
            ("rx_tensor_ndim", ctypes.c_int32, [POINTER]),
            ("rx_tensor_shape", ctypes.POINTER(ctypes.c_int64), [POINTER]),
            ("rx_tensor_dtype", DLDataType, [POINTER]),
            ("rx_tensor_data", POINTER, [POINTER]),
            ("rx_unit", POINTER, []),
            ("rx_release", None, [POINTER, POINTER]),
        ]:
            f = getattr(lib, name)
            f.restype, f.argtypes = result, args
        self.ctx = lib.rx_context_create()
        self.kept = []

    def register(self, name, function):
        """Makes `function(*arrays)` known to the program. What it returns is ignored; it may write into its
        arrays, which are those of the program. An exception becomes the error of the call."""

        def call(ctx, _, args, n, ret):
            try:
                function(*[self.array(args[i]) for i in range(n)])
            except Exception as error:  # noqa: BLE001: whatever it is, the caller has to hear of it
                self.lib.rx_set_error(ctx, RX_ERR_PACKED, str(error).encode())
                return RX_ERR_PACKED
            if ret:
                ret[0] = self.lib.rx_unit()
            return RX_OK

        self.kept.append(PACKED(call))
        self.lib.rx_register_packed(self.ctx, name.encode(), self.kept[-1], None)

    def array(self, tensor):
        """A tensor as an array over the same memory."""
        t = self.lib.rx_tensor_dtype(tensor)
        kind = next(k for k, code in self.CODES.items() if code == t.code)
        dtype = np.dtype(bool) if kind == "b" else np.dtype(f"{kind}{t.bits // 8}")
        shape = self.lib.rx_tensor_shape(tensor)[: self.lib.rx_tensor_ndim(tensor)]
        count = int(np.prod(shape, dtype=np.int64))
        data = self.lib.rx_tensor_data(tensor)
        buffer = (ctypes.c_char * (count * dtype.itemsize)).from_address(data)
        return np.frombuffer(buffer, dtype, count).reshape(shape)

    def __call__(self, entry, *arrays):
        """Calls an entry; the arrays are not copied on the way in."""
        arrays = [np.ascontiguousarray(a) for a in arrays]
        args = (POINTER * len(arrays))()
        for i, a in enumerate(arrays):
            dtype = DLDataType(self.CODES[a.dtype.kind], 8 * a.itemsize, 1)
            shape = (ctypes.c_int64 * a.ndim)(*a.shape)
            args[i] = self.lib.rx_tensor_borrow(self.ctx, dtype, a.ndim, shape, a.ctypes.data)
        f = getattr(self.lib, f"relax_{entry}")
        f.restype, f.argtypes = ctypes.c_int32, [POINTER, POINTER, ctypes.c_int32, POINTER]
        out = POINTER()
        status = f(self.ctx, args, len(arrays), ctypes.byref(out))
        try:
            if status != RX_OK:
                raise RuntimeError(self.lib.rx_last_error(self.ctx).decode())
            return self.array(out).copy()
        finally:
            for a in args:
                self.lib.rx_release(self.ctx, a)
            self.lib.rx_release(self.ctx, out)

    def close(self):
        self.lib.rx_context_destroy(self.ctx)


def tile(x, out):
    out[:] = np.concatenate([x, x], axis=1)


def refuse(x, out):
    raise ValueError("not today")


model = Model(sys.argv[1])
model.register("host.print", lambda x: print("host.print:", x.shape))
model.register("host.tile", tile)
for n, m in [(2, 3), (1, 2)]:
    x = np.arange(1, n * m + 1, dtype=np.float32).reshape(n, m)
    print(model("main", x).tolist())
model.register("host.tile", refuse)
for bad in [x, x.astype(np.float64), x[0]]:
    try:
        model("main", bad)
    except RuntimeError as error:
        print("error:", error)
model.close()
