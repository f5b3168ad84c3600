"""Arguments that need more than a look: what is called for them is rare, and clear errors matter more than speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from .errors import ArgumentError

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


def shown(value: Any) -> str:
    """What a value is, in a message."""
    if isinstance(value, (bool, int, float, complex)):
        return f"the number {value!r}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    return type(value).__name__


def as_array(value: Any, name: str, wanted: str) -> Array:
    """An array over what another library has: DLPack without a copy, else its array."""
    refused = ArgumentError(f"%{name} must be {wanted}, and {shown(value)} is given")
    if isinstance(value, list):
        raise ArgumentError(f"{refused}; `numpy.asarray(x, dtype=...)` makes an array of a list")
    if isinstance(value, (bool, int, float, complex)):
        raise ArgumentError(f"{refused}, which does not fit")
    if hasattr(value, "is_deleted") and value.is_deleted():
        raise ArgumentError(f"%{name}: the array has been deleted")
    if hasattr(value, "__dlpack__"):
        try:
            return np.asarray(np.from_dlpack(value))
        except (BufferError, TypeError, RuntimeError, ValueError):
            pass
    if hasattr(value, "detach"):
        value = value.detach()
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        return _bits(value)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        try:
            return np.asarray(value)
        except Exception as trouble:
            raise ArgumentError(f"{refused}: {trouble}") from trouble
    raise refused


def _bits(tensor: Any) -> Array:
    """A tensor of torch of bfloat16, over its own elements: numpy has them as words of two bytes."""
    import torch  # pyright: ignore[reportMissingImports]

    words: Array = np.asarray(tensor.view(torch.int16))
    return words.view(np.uint16).view(bfloat16())


def plain(value: Any, name: str = "params") -> Array:
    """The elements as tensors have them: compact, row by row, in the machine's byte order."""
    array = as_array(value, name, "an array") if not isinstance(value, (np.ndarray, list, int, float)) else value
    array = np.asarray(array)
    return np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "A"]).reshape(array.shape)


def fitted(
    array: Array, name: str, wanted: str, want: Optional[str], have: Optional[str], cast: bool
) -> Array:
    """The same numbers as tensors have them, of the wanted element type."""
    if isinstance(array, np.ma.MaskedArray):
        if array.mask is not np.ma.nomask:
            raise ArgumentError(f"%{name} is a masked array: `x.filled(...)` says what stands for masked elements")
        array = array.data
    if have is None:
        hint = f"; `x.astype({want!r})` converts it" if want is not None and array.dtype.kind in "OSU" else ""
        raise ArgumentError(f"%{name} must be {wanted}, and the array has elements of {array.dtype}{hint}")
    bits = want == "bfloat16" and have == "uint16"
    if want is None or want == have or bits:
        return plain(np.asarray(array))
    if cast:
        return _cast(array, name, want)
    raise ArgumentError(
        f"%{name} must be {wanted}, and the array has elements of {have}: "
        f"`x.astype({want!r})` or `cast=True` converts it"
    )


def _cast(array: Array, name: str, want: str) -> Array:
    """The same numbers up to the rounding of floats."""
    to = bfloat16() if want == "bfloat16" else np.dtype(want)
    if want == "bfloat16" and to == np.uint16:
        raise ArgumentError(f"%{name}: the package ml_dtypes converts arrays to bfloat16")
    with np.errstate(all="ignore"):
        cast = np.asarray(array).astype(to, order="C")
    if to.kind in "iub" and not np.array_equal(cast.astype(object), np.asarray(array).astype(object)):
        raise ArgumentError(f"%{name}: not every number of the array is one of {want}")
    return cast


def bfloat16() -> Any:
    """The element type where ``ml_dtypes`` is there, else its bits."""
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    return np.dtype(ml_dtypes.bfloat16)


def _writable(out: Any) -> Optional[Array]:
    """An array over what another library has, which can be written where that can; `None` where there is none."""
    try:
        array = np.asarray(np.from_dlpack(out))
    except (BufferError, TypeError, RuntimeError, ValueError):
        return None
    if not array.flags.writeable and hasattr(out, "numpy"):
        # What numpy takes by DLPack is read-only in its older versions.
        own = out.numpy()
        array = own if np.shares_memory(own, array) else array
    return array


def copy_into(out: Any, result: Any) -> Any:
    """Writes a result into arrays that the caller has."""
    if isinstance(result, np.ndarray) and hasattr(out, "__dlpack__") and not isinstance(out, np.ndarray):
        array = _writable(out)
        if array is not None:
            copy_into(array, result)
            return out
    if isinstance(out, np.ndarray) and isinstance(result, np.ndarray):
        if out.shape != result.shape or out.dtype != result.dtype:
            raise ArgumentError(
                f"`out` must be {shown(result)}, as the result is, and is {shown(out)}",
            )
        if not out.flags.writeable:
            raise ArgumentError("`out` cannot be written: it is a read-only array")
        np.copyto(out, result)
        return out
    if isinstance(out, (tuple, list)) and isinstance(result, tuple) and len(out) == len(result):
        return tuple(copy_into(o, r) for o, r in zip(out, result))
    raise ArgumentError(f"`out` must be {shown(result)}, as the result is, and is {shown(out)}")
