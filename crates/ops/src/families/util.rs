//! Helpers for the relations of several families.

use relax_ir::{AttrValue, DTy, Shape, TensorType, Type, TypeId};
use relax_sym::{Dim, Proof};
use relax_tensor::DType;

use crate::{RelCx, RelResult, Stop, Subject};

/// The greatest rank that operators may produce. A higher one is a mistake, or an attack.
pub const MAX_RANK: usize = 256;
/// The greatest number of tensors that an operator gives.
pub const MAX_FIELDS: i64 = 100_000;

/// Returns the dimensions (`None` where the rank is permanently unknown) and the element type of an
/// argument. Waits while the type or its rank is unresolved.
pub fn shaped(cx: &mut RelCx<'_>, i: usize) -> RelResult<(Option<Vec<Dim>>, DTy)> {
    let t = cx.tensor(i)?;
    Ok((dims_of(t.shape)?, t.dtype))
}

/// Like [`shaped`] for a type, that of a field of argument `i`.
pub fn shaped_field(
    cx: &mut RelCx<'_>,
    i: usize,
    ty: TypeId,
) -> RelResult<(Option<Vec<Dim>>, DTy)> {
    let t = cx.expect_tensor(ty, Subject::Arg(i))?;
    Ok((dims_of(t.shape)?, t.dtype))
}

fn dims_of(shape: Shape) -> RelResult<Option<Vec<Dim>>> {
    match shape {
        Shape::Dims(dims) => Ok(Some(dims.into_vec())),
        Shape::Unknown | Shape::Param(_) => Ok(None),
        Shape::Infer(_) => Err(Stop::Wait),
    }
}

/// The type of a tensor.
pub fn tensor_type(cx: &mut RelCx<'_>, dims: Vec<Dim>, dtype: impl Into<DTy>) -> RelResult<TypeId> {
    if dims.len() > MAX_RANK {
        let rank = dims.len();
        return cx.refuse(
            Subject::Call,
            format!("the result would have {rank} axes, more than {MAX_RANK}"),
        );
    }
    for d in &dims {
        if let Some(e) = d.error() {
            return cx.refuse(
                Subject::Call,
                format!("an extent of the result has no value: {e}"),
            );
        }
        if let Some(n) = d.as_const().filter(|&n| n < 0) {
            return cx.refuse(
                Subject::Call,
                format!("an extent of the result would be {n}, but extents are not negative"),
            );
        }
    }
    Ok(cx.host.types_mut().tensor(dims, dtype))
}

/// A tensor type of unknown rank.
pub fn unranked_type(cx: &mut RelCx<'_>, dtype: impl Into<DTy>) -> TypeId {
    let t = TensorType {
        shape: Shape::Unknown,
        dtype: dtype.into(),
    };
    cx.host.types_mut().intern(Type::Tensor(t))
}

/// Sets the result to a tensor of these dimensions; refuses dimensions without a value and negative
/// ones.
pub fn finish(cx: &mut RelCx<'_>, dims: Vec<Dim>, dtype: impl Into<DTy>) -> RelResult {
    let ty = tensor_type(cx, dims, dtype)?;
    cx.set_out(ty)
}

/// Sets the result to the tensor type of an argument with another element type.
pub fn finish_like(cx: &mut RelCx<'_>, like: TensorType, dtype: impl Into<DTy>) -> RelResult {
    let t = TensorType {
        shape: like.shape,
        dtype: dtype.into(),
    };
    let ty = cx.host.types_mut().intern(Type::Tensor(t));
    cx.set_out(ty)
}

/// Makes the result a tuple.
pub fn finish_tuple(cx: &mut RelCx<'_>, fields: Vec<TypeId>) -> RelResult {
    let ty = cx.host.types_mut().tuple(fields);
    cx.set_out(ty)
}

/// Returns a list attribute of dimensions: integers, symbolic ones, `?`. `None` stays `None`.
pub fn dim_list(cx: &RelCx<'_>, name: &'static str) -> RelResult<Option<Vec<Dim>>> {
    let one = AttrValue::as_dim;
    let list = match cx.attr(name) {
        AttrValue::None => return Ok(None),
        AttrValue::Array(items) => items.iter().map(one).collect(),
        other => one(other).map(|d| vec![d]),
    };
    match list {
        Some(list) => Ok(Some(list)),
        None => cx.refuse(
            Subject::Attr(name),
            format!("attribute `{name}` must be a list of extents"),
        ),
    }
}

/// A list attribute of dimensions that must be given.
pub fn extents(cx: &RelCx<'_>, name: &'static str) -> RelResult<Vec<Dim>> {
    match dim_list(cx, name)? {
        Some(list) => Ok(list),
        None => cx.refuse(
            Subject::Attr(name),
            format!("attribute `{name}` must be given"),
        ),
    }
}

/// A list of integers that must be given.
pub fn int_list(cx: &RelCx<'_>, name: &'static str) -> RelResult<Vec<i64>> {
    match cx.ints(name)? {
        Some(list) => Ok(list),
        None => cx.refuse(
            Subject::Attr(name),
            format!("attribute `{name}` must be given"),
        ),
    }
}

/// A string attribute that is one of a few words.
pub fn word(cx: &RelCx<'_>, name: &'static str, words: &[&str]) -> RelResult<String> {
    let text = cx.attr(name).as_str().unwrap_or("");
    if words.contains(&text) {
        return Ok(text.into());
    }
    let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
    cx.refuse(
        Subject::Attr(name),
        format!("`{name}=\"{text}\"` must be one of {}", words.join(", ")),
    )
}

/// Requires an argument to be a scalar.
pub fn need_scalar(cx: &mut RelCx<'_>, i: usize, what: &str) -> RelResult<DTy> {
    let (dims, dtype) = shaped(cx, i)?;
    match dims {
        Some(d) if !d.is_empty() => {
            let rank = d.len();
            cx.refuse(
                Subject::Arg(i),
                format!("{what} must be a scalar, but has rank {rank}"),
            )
        }
        _ => Ok(dtype),
    }
}

/// Requires an element type to be an integer type, where it is known.
pub fn need_integers(cx: &RelCx<'_>, dtype: DTy, i: usize, what: &str) -> RelResult {
    match dtype.known() {
        Some(d) if !d.is_integral() => {
            cx.refuse(Subject::Arg(i), format!("{what} must be integers, not {d}"))
        }
        _ => Ok(()),
    }
}

/// Requires an argument to hold integers, where its element type is known.
pub fn index_arg(cx: &mut RelCx<'_>, i: usize, what: &str) -> RelResult {
    let (_, dtype) = shaped(cx, i)?;
    need_integers(cx, dtype, i, what)
}

/// Requires an extent to be a multiple of a number.
pub fn need_multiple(
    cx: &mut RelCx<'_>,
    extent: &Dim,
    of: i64,
    subject: Subject,
    what: &str,
) -> RelResult {
    let rule = format!("{what} must be a multiple of {of}");
    cx.require_multiple(extent, of, subject, &rule, |n| {
        format!("{what} must be a multiple of {of}, not {n}")
    })
}

/// Returns the number of elements of a vector argument that holds extents, which is the rank of a
/// result. It must be known, because ranks are static.
pub fn vector_len(cx: &mut RelCx<'_>, i: usize, what: &str) -> RelResult<usize> {
    // As in TVM, the element type does not matter: floats that are whole numbers are accepted.
    let (dims, _) = shaped(cx, i)?;
    let Some(dims) = dims else {
        return cx.refuse(
            Subject::Arg(i),
            format!("{what} must be a vector of known length, but its rank is unknown"),
        );
    };
    let [len] = dims.as_slice() else {
        let rank = dims.len();
        return cx.refuse(
            Subject::Arg(i),
            format!("{what} must be a vector, but has rank {rank}"),
        );
    };
    if len.has_infer() {
        return Err(Stop::Wait);
    }
    match len.as_const().map(usize::try_from) {
        Some(Ok(n)) if n <= MAX_RANK => Ok(n),
        Some(_) => {
            let n = cx.host.show_dim(len);
            cx.refuse(
                Subject::Arg(i),
                format!("{what} gives {n} axes, more than {MAX_RANK}"),
            )
        }
        None => {
            let n = cx.host.show_dim(len);
            cx.refuse(
                Subject::Arg(i),
                format!("{what} must be a vector of known length, but its length is {n}"),
            )
        }
    }
}

/// `n` unknown dimensions.
pub fn anys(n: usize) -> Vec<Dim> {
    vec![Dim::ANY; n]
}

/// An attribute that is an axis of a tensor of that rank.
pub fn axis_attr(cx: &RelCx<'_>, name: &'static str, rank: usize) -> RelResult<usize> {
    let v = cx.int(name)?;
    cx.axis(name, v, rank)
}

/// Returns an attribute that is a position between axes, -rank-1 to rank.
pub fn gap_attr(cx: &RelCx<'_>, name: &'static str, rank: usize) -> RelResult<usize> {
    let v = cx.int(name)?;
    let r = rank as i64;
    if (-r - 1..=r).contains(&v) {
        return Ok(if v < 0 { v + r + 1 } else { v } as usize);
    }
    cx.refuse(
        Subject::Attr(name),
        format!(
            "`{name}={v}` is out of range: with rank {rank} it may be {} to {r}",
            -r - 1
        ),
    )
}

/// Requires two extents to be equal where neither is `?`. Refutes it, or records a run-time check,
/// otherwise.
pub fn need_eq(cx: &mut RelCx<'_>, a: &Dim, b: &Dim, subject: Subject, rule: &str) -> RelResult {
    if a.is_any() || b.is_any() {
        return Ok(());
    }
    cx.require_eq(a, b, subject, rule)
}

/// Requires `a` to be equal to `b` for all values of the variables; an undecided equality becomes a
/// run-time check (no unknown is solved).
pub fn check_eq(cx: &mut RelCx<'_>, a: &Dim, b: &Dim, subject: Subject, rule: &str) -> RelResult {
    if a == b || !a.is_known() || !b.is_known() {
        return Ok(());
    }
    match cx.host.compare_dims(a, b) {
        Proof::Proven => Ok(()),
        Proof::Refuted => {
            let clash = cx.host.show_clash(a, b);
            cx.refuse(subject, format!("{rule}: {clash}"))
        }
        _ => {
            cx.host.check_dims(a, b, rule);
            Ok(())
        }
    }
}

/// Returns an element type attribute, or another type where it is `void`.
pub fn dtype_or(cx: &RelCx<'_>, name: &'static str, otherwise: DTy) -> DTy {
    cx.dtype(name).map_or(otherwise, DTy::from)
}

/// Returns the result's element type for an operator whose attribute is `void` and which nothing
/// else determines.
pub fn dtype_given(cx: &RelCx<'_>, name: &'static str) -> RelResult<DType> {
    match cx.dtype(name) {
        Some(d) => Ok(d),
        None => cx.refuse(
            Subject::Attr(name),
            format!("attribute `{name}` must be an element type"),
        ),
    }
}
