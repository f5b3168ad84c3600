//! Comparing what two programs compute.

use relax_interp::{Node, Value};
use relax_ir::Module;
use relax_tensor::Tensor;

/// How far apart numbers may be that count as equal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// Relative to the larger one.
    pub relative: f64,
    /// Absolute.
    pub absolute: f64,
    /// Whether zeros must have the same sign.
    pub zeros: bool,
}

/// Values nested deeper than this are not looked into.
const DEPTH: usize = 256;

/// The first difference between two values, with where in them it is. Functions and references are
/// equal to each other: only what they hold could be compared, and that takes running them.
pub(super) fn difference(
    (lm, left): (&Module, &Value),
    (rm, right): (&Module, &Value),
    tolerance: Tolerance,
) -> Option<String> {
    let mut open = vec![(left.clone(), right.clone(), String::new(), 0)];
    while let Some((left, right, path, depth)) = open.pop() {
        let place = if path.is_empty() {
            String::from("the result")
        } else {
            format!("the result{path}")
        };
        let (fields, others) = match (&left, &right) {
            (Value::Tensor(a), Value::Tensor(b)) => {
                if let Some(text) = tensors(a, b, tolerance) {
                    return Some(format!("{place}: {text}"));
                }
                continue;
            }
            (Value::Shape(a), Value::Shape(b)) => {
                if a != b {
                    return Some(format!("{place}: shape {a:?} became {b:?}"));
                }
                continue;
            }
            (Value::Node(a), Value::Node(b)) => match (&**a, &**b) {
                (Node::Tuple(a), Node::Tuple(b)) => (a.clone(), b.clone()),
                (Node::Adt(c, a), Node::Adt(d, b)) => {
                    let (c, d) = (lm.ctors[*c].name, rm.ctors[*d].name);
                    if c != d {
                        return Some(format!("{place}: {c} became {d}"));
                    }
                    (a.clone(), b.clone())
                }
                (Node::Closure(_), _) | (Node::Ref(_), Node::Ref(_)) => continue,
                _ => return Some(format!("{place}: another kind of value")),
            },
            (Value::Tensor(_) | Value::Shape(_), _) | (_, Value::Tensor(_) | Value::Shape(_)) => {
                return Some(format!("{place}: another kind of value"));
            }
            _ => continue,
        };
        if fields.len() != others.len() {
            let (a, b) = (fields.len(), others.len());
            return Some(format!("{place}: {a} fields became {b}"));
        }
        if depth < DEPTH {
            let pairs = fields.into_iter().zip(others).enumerate().rev();
            open.extend(pairs.map(|(i, (a, b))| (a, b, format!("{path}.{i}"), depth + 1)));
        }
    }
    None
}

fn tensors(a: &Tensor, b: &Tensor, tolerance: Tolerance) -> Option<String> {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        let kind = |t: &Tensor| format!("{:?} of {}", t.shape(), t.dtype());
        return Some(format!("{} became {}", kind(a), kind(b)));
    }
    let index = |mut i: usize| {
        let mut out = Vec::new();
        for &d in a.shape().iter().rev() {
            let d = usize::try_from(d).unwrap_or(1).max(1);
            out.push((i % d).to_string());
            i /= d;
        }
        out.reverse();
        format!("[{}]", out.join(", "))
    };
    let mut worst: Option<(usize, String, String)> = None;
    let mut count = 0;
    for i in 0..a.len() {
        let (equal, x, y) = if a.dtype().is_float() {
            let (x, y) = (a.get_f64(i), b.get_f64(i));
            (numbers(x, y, tolerance), x.to_string(), y.to_string())
        } else {
            let (x, y) = (a.get_i64(i), b.get_i64(i));
            (x == y, x.to_string(), y.to_string())
        };
        if !equal {
            count += 1;
            worst.get_or_insert((i, x, y));
        }
    }
    let (i, x, y) = worst?;
    Some(format!(
        "{count} of {} elements differ, first at {}: {x} became {y}",
        a.len(),
        index(i)
    ))
}

fn numbers(x: f64, y: f64, t: Tolerance) -> bool {
    if x == 0.0 && y == 0.0 {
        return !t.zeros || x.is_sign_negative() == y.is_sign_negative();
    }
    x == y
        || x.is_nan() && y.is_nan()
        || (x - y).is_finite() && (x - y).abs() <= t.absolute.max(t.relative * x.abs().max(y.abs()))
}
