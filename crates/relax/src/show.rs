//! Formatting of results for users.

use std::fmt::Write as _;

use relax_tensor::{Tensor, Value};

use crate::parts::{Part, Typed, parts};

/// Tensors with more elements than this are abbreviated to their corners.
const FULL: usize = 256;
/// The number of elements shown at either end of an axis of an abbreviated tensor.
const EDGE: i64 = 3;

/// Returns the indices and values of the largest elements of a long row of floats, such as a
/// classifier's output; `None` for other values.
pub fn largest(value: &Value) -> Option<String> {
    const SHOWN: usize = 5;
    const MOST: usize = 1 << 16;
    let Value::Tensor(t) = value else { return None };
    if !t.dtype().is_float()
        || !(4 * SHOWN..=MOST).contains(&t.len())
        || t.shape().last() != Some(&(t.len() as i64))
    {
        return None;
    }
    let mut order: Vec<usize> = (0..t.len()).collect();
    order.sort_by(|&a, &b| t.get_f64(b).total_cmp(&t.get_f64(a)));
    let parts: Vec<String> = (order.iter().take(SHOWN))
        .map(|&i| format!("{i} ({:.4})", t.get_f64(i)))
        .collect();
    Some(parts.join(", "))
}

/// The extent to which a tensor is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Large tensors are abbreviated to their corners.
    Corners,
    /// All elements are printed.
    Whole,
}

/// Formats a value; its type names constructors.
pub fn value(v: &Typed<'_>, extent: Extent) -> String {
    let mut out = String::new();
    parts(v, &mut |part| match part {
        Part::Tensor(t) => out.push_str(&tensor(t, extent)),
        Part::Opaque(what) => {
            let _ = write!(out, "<{what}>");
        }
        Part::Open(Some(name), 0) => out.push_str(&name),
        Part::Open(name, _) => {
            let _ = write!(out, "{}(", name.unwrap_or_default());
        }
        Part::Between => out.push_str(", "),
        Part::Close(Some(_), 0) => {}
        Part::Close(None, 1) => out.push_str(",)"),
        Part::Close(..) => out.push(')'),
    });
    out
}

fn number(t: &Tensor, i: usize) -> String {
    if t.dtype().is_bool() {
        return if t.get_i64(i) != 0 {
            "True".into()
        } else {
            "False".into()
        };
    }
    if !t.dtype().is_float() {
        return t.get_i64(i).to_string();
    }
    let v = t.get_f64(i);
    if v != 0.0 && !(1e-4..1e7).contains(&v.abs()) && v.is_finite() {
        format!("{v:.5e}")
    } else {
        let text = format!("{v:.6}");
        text.trim_end_matches('0').to_owned()
    }
}

/// Formats a tensor as nested brackets.
///
/// ```
/// use relax::{Tensor, show};
///
/// let t = Tensor::from_slice(&[3], &[1i32, 2, 3]);
/// assert_eq!(show::tensor(&t, show::Extent::Whole), "Tensor[(3,), int32]\n[1, 2, 3]");
/// ```
pub fn tensor(t: &Tensor, extent: Extent) -> String {
    let mut out = String::new();
    if t.is_scalar() {
        let _ = write!(out, "{}", number(t, 0));
        return out;
    }
    let short = t.len() > FULL && extent == Extent::Corners;
    let dims: Vec<String> = t.shape().iter().map(i64::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    let _ = writeln!(out, "Tensor[({}{comma}), {}]", dims.join(", "), t.dtype());
    let outer = &t.shape()[..t.shape().len() - 1];
    let count = outer.iter().fold(1, |n: i64, d| n.saturating_mul(*d));
    if t.is_empty() && count > FULL as i64 {
        // The tensor is empty but would have too many rows to print.
        out.push_str("[]");
        return out;
    }
    rows(t, 0, 0, short, &mut out);
    out
}

/// The recursion depth is the tensor's rank.
fn rows(t: &Tensor, axis: usize, offset: usize, short: bool, out: &mut String) {
    let n = t.shape()[axis];
    let step: i64 = t.shape()[axis + 1..].iter().product();
    out.push('[');
    let mut i = 0;
    while i < n {
        if i > 0 {
            out.push_str(if axis + 1 == t.shape().len() {
                ", "
            } else {
                ",\n"
            });
            if axis + 1 < t.shape().len() {
                out.push_str(&" ".repeat(axis + 1));
            }
        }
        if short && i == EDGE && n > 2 * EDGE {
            out.push('…');
            i = n - EDGE;
            continue;
        }
        let at = offset + (i * step) as usize;
        if axis + 1 == t.shape().len() {
            out.push_str(&number(t, at));
        } else {
            rows(t, axis + 1, at, short, out);
        }
        i += 1;
    }
    out.push(']');
}
