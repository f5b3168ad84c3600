//! Comparison of results.

use std::rc::Rc;

use relax_interp::{Node, Value};
use relax_ir::Module;
use relax_tensor::Tensor;
use rustc_hash::FxHashSet;

use crate::words;

/// Tolerances for numbers that count as equal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// Relative to the larger one.
    pub relative: f64,
    /// The absolute tolerance.
    pub absolute: f64,
    /// Whether the sign of zeros matters.
    pub zeros: bool,
}

/// A difference between two results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The kind of difference.
    pub sort: Sort,
    /// What differs and where, as a sentence.
    pub text: String,
}

/// The kind of a difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Numbers differ.
    Numbers,
    /// A NaN on one side only.
    Nan,
    /// An infinity on one side only.
    Infinity,
    /// Zeros of different signs.
    Zero,
    /// Different shapes or element types.
    Type,
    /// Different constructors, numbers of fields, or kinds of values.
    Structure,
    /// Only the new program fails, with this code.
    Fails(String),
    /// Only the old program fails, with this code.
    Failed(String),
    /// It cannot be run on the same arguments.
    Arguments,
}

impl Difference {
    pub(super) fn new(sort: Sort, text: impl Into<String>) -> Difference {
        let text = text.into();
        Difference { sort, text }
    }
}

/// A position in a result: its parent, and the field index in that.
struct Place {
    around: usize,
    field: usize,
}

/// Formats a position; the whole result is position 0.
fn shown(places: &[Place], mut at: usize) -> String {
    let mut fields = Vec::new();
    while at > 0 {
        fields.push(format!(".{}", places[at].field));
        at = places[at].around;
    }
    fields.reverse();
    format!("the result{}", fields.concat())
}

/// Returns whether a value can be compared in full: functions cannot, as no arguments for them are
/// known.
pub(super) fn comparable(value: &Value) -> bool {
    let (mut open, mut seen) = (vec![value.clone()], FxHashSet::default());
    while let Some(value) = open.pop() {
        let node = match value {
            Value::Tensor(_) | Value::Shape(_) => continue,
            Value::Node(node) => node,
            _ => return false,
        };
        if !seen.insert(Rc::as_ptr(&node)) {
            continue;
        }
        match &*node {
            Node::Tuple(fields) | Node::Adt(_, fields) => open.extend(fields.iter().cloned()),
            Node::Ref(cell) => open.push(cell.borrow().clone()),
            Node::Closure(_) => return false,
        }
    }
    true
}

/// Returns the first difference between two values, with its position. Functions compare equal.
pub(super) fn difference(
    (lm, left): (&Module, &Value),
    (rm, right): (&Module, &Value),
    tolerance: Tolerance,
) -> Option<Difference> {
    let mut places = vec![Place {
        around: 0,
        field: 0,
    }];
    let mut open = vec![(left.clone(), right.clone(), 0)];
    // Shared parts are compared once.
    let mut seen = FxHashSet::default();
    while let Some((left, right, at)) = open.pop() {
        let differ = |sort, text: String| {
            let place = shown(&places, at);
            Some(Difference::new(sort, format!("{place}: {text}")))
        };
        let (a, b) = match (&left, &right) {
            (Value::Tensor(a), Value::Tensor(b)) => match tensors(a, b, tolerance) {
                Some((sort, text)) => return differ(sort, text),
                None => continue,
            },
            (Value::Shape(a), Value::Shape(b)) if a == b => continue,
            (Value::Shape(a), Value::Shape(b)) => {
                return differ(Sort::Structure, format!("shape {a:?} became {b:?}"));
            }
            (Value::Node(a), Value::Node(b)) => (a.clone(), b.clone()),
            (Value::Tensor(_) | Value::Shape(_), _) | (_, Value::Tensor(_) | Value::Shape(_)) => {
                return differ(Sort::Structure, "another kind of value".into());
            }
            _ => continue,
        };
        if !seen.insert((Rc::as_ptr(&a), Rc::as_ptr(&b))) {
            continue;
        }
        let (fields, others) = match (&*a, &*b) {
            (Node::Tuple(a), Node::Tuple(b)) => (a.clone(), b.clone()),
            (Node::Adt(c, a), Node::Adt(d, b)) => {
                let (c, d) = (lm.ctors[*c].name, rm.ctors[*d].name);
                if c != d {
                    return differ(Sort::Structure, format!("{c} became {d}"));
                }
                (a.clone(), b.clone())
            }
            (Node::Ref(a), Node::Ref(b)) => (vec![a.borrow().clone()], vec![b.borrow().clone()]),
            (Node::Closure(_), _) => continue,
            _ => return differ(Sort::Structure, "another kind of value".into()),
        };
        if fields.len() != others.len() {
            let (a, b) = (words::count(fields.len(), "field"), others.len());
            return differ(Sort::Structure, format!("{a} became {b}"));
        }
        for (field, (a, b)) in fields.into_iter().zip(others).enumerate().rev() {
            places.push(Place { around: at, field });
            open.push((a, b, places.len() - 1));
        }
    }
    None
}

fn tensors(a: &Tensor, b: &Tensor, tolerance: Tolerance) -> Option<(Sort, String)> {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        let kind = |t: &Tensor| format!("{:?} of {}", t.shape(), t.dtype());
        return Some((Sort::Type, format!("{} became {}", kind(a), kind(b))));
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
    let mut first: Option<(usize, Sort, String, String)> = None;
    let mut count = 0;
    for i in 0..a.len() {
        let (sort, x, y) = if a.dtype().is_float() {
            let (x, y) = (a.get_f64(i), b.get_f64(i));
            (numbers(x, y, tolerance), x.to_string(), y.to_string())
        } else {
            let (x, y) = (a.get_i64(i), b.get_i64(i));
            let sort = (x != y).then_some(Sort::Numbers);
            (sort, x.to_string(), y.to_string())
        };
        if let Some(sort) = sort {
            count += 1;
            first.get_or_insert((i, sort, x, y));
        }
    }
    let (i, sort, x, y) = first?;
    let (differ, place) = match count {
        1 => ("differs", ""),
        _ => ("differ", "first "),
    };
    let all = words::count(a.len(), "element");
    let text = format!(
        "{count} of {all} {differ}, {place}at {}: {x} became {y}",
        index(i)
    );
    Some((sort, text))
}

/// Returns how two numbers differ; `None` if they count as equal.
fn numbers(x: f64, y: f64, t: Tolerance) -> Option<Sort> {
    if x == 0.0 && y == 0.0 {
        let same = !t.zeros || x.is_sign_negative() == y.is_sign_negative();
        return (!same).then_some(Sort::Zero);
    }
    if x == y || x.is_nan() && y.is_nan() {
        return None;
    }
    if x.is_nan() || y.is_nan() {
        return Some(Sort::Nan);
    }
    if x.is_infinite() || y.is_infinite() {
        return Some(Sort::Infinity);
    }
    let near = (x - y).abs() <= t.absolute.max(t.relative * x.abs().max(y.abs()));
    (!near).then_some(Sort::Numbers)
}
