//! Integers of less than 8 bits, and floats of 8 bits: stored one per byte, converted by these
//! operators.

use relax_ir::Type;
use relax_loops::{Ex, UnOp};
use relax_tensor::DType;

use super::util::word;
use super::util_te::Done;
use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const FORMATS: &[&str] = &[
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0",
    "float4_e2m1",
    "uint4",
    "int4",
    "uint2",
    "int2",
];

const FORMAT: AttrDef = attr(
    "format",
    Str,
    Default::Required,
    "`float8_e4m3fn`, `float8_e4m3fnuz`, `float8_e5m2`, `float8_e5m2fnuz`, `float8_e8m0`, `float4_e2m1`, `uint4`, `int4`, `uint2` or `int2`",
);

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "narrow.decode",
        "The numbers that bytes stand for in a narrow format, as float32.",
        decode,
    )
    .inputs(&[input("data", "the bytes, one for each number")])
    .attrs(&[FORMAT])
    .fusion(Fusion::Elementwise)
    .compute(decode_compute),
    OpDef::new(
        "narrow.encode",
        "Each number rounded to a narrow format, a byte for each.",
        encode,
    )
    .inputs(&[input("data", "the numbers, float32")])
    .attrs(&[
        FORMAT,
        attr(
            "saturate",
            Bool,
            Default::Bool(true),
            "whether what is too large becomes the greatest number, rather than an infinity or NaN",
        ),
        attr(
            "rounding",
            Str,
            Default::Str("up"),
            "for `float8_e8m0`: `up`, `down` or `nearest`",
        ),
    ])
    .fusion(Fusion::Elementwise)
    .compute(encode_compute),
];

/// A float format: a sign, exponent bits and mantissa bits.
struct Format {
    exponent: i64,
    mantissa: i64,
    bias: i64,
    /// The encoding of NaN, if there is one.
    nan: Option<i64>,
    /// The code of infinity.
    infinity: Option<i64>,
    /// The encoding of the greatest number.
    most: i64,
    /// Whether there is no negative zero.
    one_zero: bool,
}

fn format(name: &str) -> Option<Format> {
    let new = |exponent, mantissa, bias, nan, infinity, most, one_zero| Format {
        exponent,
        mantissa,
        bias,
        nan,
        infinity,
        most,
        one_zero,
    };
    Some(match name {
        "float8_e4m3fn" => new(4, 3, 7, Some(0x7f), None, 0x7e, false),
        "float8_e4m3fnuz" => new(4, 3, 8, Some(0x80), None, 0x7f, true),
        "float8_e5m2" => new(5, 2, 15, Some(0x7e), Some(0x7c), 0x7b, false),
        "float8_e5m2fnuz" => new(5, 2, 16, Some(0x80), None, 0x7f, true),
        "float4_e2m1" => new(2, 1, 1, None, None, 0x7, false),
        _ => return None,
    })
}

/// Returns the bit width of an integer format, and whether it is signed.
fn bits(name: &str) -> Option<(i64, bool)> {
    Some(match name {
        "uint4" => (4, false),
        "int4" => (4, true),
        "uint2" => (2, false),
        "int2" => (2, true),
        _ => return None,
    })
}

/// Returns the storage type of a format.
fn bytes(name: &str) -> DType {
    match name {
        "int4" | "int2" => DType::I8,
        _ => DType::U8,
    }
}

fn converted(cx: &mut RelCx<'_>, from: DType, to: DType) -> RelResult {
    let mut t = cx.tensor(0)?;
    let found = cx.known(t.dtype)?;
    if found != from {
        return cx.refuse(
            Subject::Arg(0),
            format!("`{}` takes {from}, not {found}", cx.name),
        );
    }
    t.dtype = to.into();
    let ty = cx.host.types_mut().intern(Type::Tensor(t));
    cx.set_out(ty)
}

fn decode(cx: &mut RelCx<'_>) -> RelResult {
    let name = word(cx, "format", FORMATS)?;
    converted(cx, bytes(&name), DType::F32)
}

fn encode(cx: &mut RelCx<'_>) -> RelResult {
    let name = word(cx, "format", FORMATS)?;
    word(cx, "rounding", &["up", "down", "nearest"])?;
    converted(cx, DType::F32, bytes(&name))
}

fn int(v: i64) -> Ex {
    Ex::int(DType::I32, v)
}
fn f32_(v: f64) -> Ex {
    Ex::float(DType::F32, v)
}

/// Returns two to the power of an `int32` between -1022 and 1023, as `float64`.
fn power(e: &Ex) -> Ex {
    let bits = (e.cast(DType::I64) + 1023).binary(relax_loops::BinOp::Shl, &Ex::idx(52));
    bits.reinterpret(DType::F64)
}

fn decode_compute(te: &mut Te<'_>) -> Done {
    let name = te.str("format").to_owned();
    te.elementwise(|x| match format(&name) {
        Some(f) => decoded(x, &f),
        None if name == "float8_e8m0" => {
            let e = x.cast(DType::I32) - int(127);
            let value = power(&e).cast(DType::F32);
            Ex::where_(&x.eq(255i64), &f32_(f64::NAN), &value)
        }
        None => x.cast(DType::F32),
    })
}

fn decoded(x: &Ex, f: &Format) -> Ex {
    let code = x.cast(DType::I32);
    let sign_bit = 1i64 << (f.exponent + f.mantissa);
    let low = &code & int(sign_bit - 1);
    let e = low.binary(relax_loops::BinOp::Shr, &int(f.mantissa));
    let m = &low & int((1 << f.mantissa) - 1);
    let small = e.eq(0i64);
    let digits = Ex::where_(&small, &m, &(&m + int(1 << f.mantissa)));
    let shift = e.max(1i64) - int(f.bias + f.mantissa);
    let size = digits.cast(DType::F64) * power(&shift);
    let negative = (&code & int(sign_bit)).ne(0i64);
    let value = Ex::where_(&negative, &-&size, &size).cast(DType::F32);
    let value = match f.infinity {
        Some(inf) => {
            let sized = Ex::where_(&negative, &f32_(f64::NEG_INFINITY), &f32_(f64::INFINITY));
            let beyond = Ex::where_(&low.gt(inf), &f32_(f64::NAN), &value);
            Ex::where_(&low.eq(inf), &sized, &beyond)
        }
        None => value,
    };
    match (f.nan, f.one_zero) {
        (Some(nan), true) => Ex::where_(&code.eq(nan), &f32_(f64::NAN), &value),
        (Some(nan), false) if f.infinity.is_none() => {
            Ex::where_(&low.eq(nan), &f32_(f64::NAN), &value)
        }
        _ => value,
    }
}

fn encode_compute(te: &mut Te<'_>) -> Done {
    let name = te.str("format").to_owned();
    let saturate = te.flag("saturate");
    let rounding = te.str("rounding").to_owned();
    let to = bytes(&name);
    te.elementwise(|x| match (format(&name), bits(&name)) {
        (Some(f), _) => encoded(x, &f, saturate).cast(to),
        // Truncated to an integer, of which the low bits are kept.
        (None, Some((width, signed))) => {
            let low = x.cast(DType::I32) & int((1 << width) - 1);
            let beyond = low.ge(1i64 << (width - 1));
            let below = &low - int(1 << width);
            match signed {
                true => Ex::where_(&beyond, &below, &low).cast(to),
                false => low.cast(to),
            }
        }
        (None, None) => scale(x, &rounding, saturate).cast(to),
    })
}

/// Returns the exponent of a positive float32: that of its leading bit.
fn exponent(bits: &Ex) -> Ex {
    bits.binary(relax_loops::BinOp::Shr, &int(23)) - int(127)
}

fn encoded(x: &Ex, f: &Format, saturate: bool) -> Ex {
    let bits = x.reinterpret(DType::I32);
    let size = &bits & int(0x7fff_ffff);
    let negative = bits.lt(0i64);
    let e = exponent(&size).max(1 - f.bias);
    let steps = size.reinterpret(DType::F32).cast(DType::F64) * power(&(int(f.mantissa) - &e));
    let digits = steps.min(1e9).unary(UnOp::RoundEven).cast(DType::I32);
    let place = (&e + int(f.bias - 1)).binary(relax_loops::BinOp::Shl, &int(f.mantissa));
    let code = place + digits;
    let beyond = match (saturate, f.infinity, f.nan) {
        (false, Some(inf), _) => int(inf),
        (false, None, Some(nan)) => int(nan),
        _ => int(f.most),
    };
    let low = Ex::where_(&code.gt(f.most), &beyond, &code);
    let sign_bit = int(1 << (f.exponent + f.mantissa));
    let mut signed = Ex::where_(&negative, &(&low | &sign_bit), &low);
    if f.one_zero {
        signed = Ex::where_(&code.eq(0i64), &int(0), &signed);
        if !saturate {
            signed = Ex::where_(&code.gt(f.most), &int(0x80), &signed);
        }
    }
    let missing = match f.nan {
        Some(nan) if f.one_zero => int(nan),
        Some(nan) => Ex::where_(&negative, &int(nan | 0x80), &int(nan)),
        // A number must do.
        None => &sign_bit | int(0),
    };
    let nan = size.gt(0x7f80_0000i64);
    Ex::where_(&nan, &missing, &signed)
}

/// Returns the nearest power of two to a number, or the next one above or below it.
fn scale(x: &Ex, rounding: &str, saturate: bool) -> Ex {
    let bits = x.reinterpret(DType::I32) & int(0x7fff_ffff);
    let e = bits.binary(relax_loops::BinOp::Shr, &int(23));
    let m = &bits & int(0x007f_ffff);
    let up = match rounding {
        "up" => m.gt(0i64),
        "nearest" => {
            // A tie rounds to the even encoding.
            let odd = (&e & int(1)).eq(1i64);
            m.gt(0x0040_0000i64) | (m.eq(0x0040_0000i64) & odd)
        }
        _ => Ex::bool(false),
    };
    let code = Ex::where_(&up, &(&e + int(1)), &e);
    let code = if saturate { code.min(254i64) } else { code };
    Ex::where_(&e.eq(255i64), &int(255), &code)
}
