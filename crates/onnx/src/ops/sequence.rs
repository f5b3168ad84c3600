//! Sequences whose length is known, and optionals: there is nothing of them in the text but their parts.

use crate::graph::Tr;
use crate::node::{Fault, Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("SequenceEmpty", 11, |_, _| {
        Ok(vec![Value::Seq(Vec::new().into())])
    }),
    op("SequenceConstruct", 11, |_, n| {
        let items = (0..n.inputs.len())
            .map(|i| n.value(i))
            .collect::<R<Vec<_>>>()?;
        Ok(vec![Value::Seq(items.into())])
    }),
    op("SequenceLength", 11, |tr, n| {
        let items = sequence(n, 0)?;
        Ok(vec![tr.number(Elem::I64, items.len() as f64).into()])
    }),
    op("SequenceAt", 11, |tr, n| {
        let items = sequence(n, 0)?;
        match position(n, 1, items.len(), false)? {
            Some(at) => Ok(vec![items[at].clone()]),
            None => Ok(vec![picked(tr, n, &items)?.into()]),
        }
    }),
    op("SequenceInsert", 11, |_, n| {
        let mut items = sequence(n, 0)?;
        let new = n.value(1)?;
        let at = match n.inputs.get(2) {
            None | Some(Value::Nothing) => items.len(),
            _ => position(n, 2, items.len(), true)?.ok_or_else(unknown)?,
        };
        items.insert(at, new);
        Ok(vec![Value::Seq(items.into())])
    }),
    op("SequenceErase", 11, |_, n| {
        let mut items = sequence(n, 0)?;
        let at = match n.inputs.get(1) {
            None | Some(Value::Nothing) => {
                items.len().checked_sub(1).ok_or("the sequence is empty")?
            }
            _ => position(n, 1, items.len(), false)?.ok_or_else(unknown)?,
        };
        items.remove(at);
        Ok(vec![Value::Seq(items.into())])
    }),
    op("SplitToSequence", 11, split),
    op("ConcatFromSequence", 11, |tr, n| {
        let items = parts(n)?;
        let first = items.first().ok_or("the sequence is empty")?;
        let new = n.flag("new_axis");
        let rank = first.rank() + usize::from(new);
        let axis = crate::value::axis_of(n.int("axis", 0), rank)?;
        let mut all = items.clone();
        if new {
            for v in &mut all {
                *v = tr.expand(v, axis)?;
            }
        }
        Ok(vec![tr.concat(&all, axis)?.into()])
    }),
    op("Optional", 15, |_, n| {
        Ok(vec![n.inputs.first().cloned().unwrap_or(Value::Nothing)])
    }),
    op("OptionalHasElement", 15, |tr, n| {
        let there = !matches!(n.inputs.first(), None | Some(Value::Nothing));
        Ok(vec![
            tr.number(Elem::BOOL, f64::from(u8::from(there))).into(),
        ])
    }),
    op("OptionalGetElement", 15, |_, n| Ok(vec![n.value(0)?])),
];

fn unknown() -> Fault {
    Fault::Unsupported(
        "a place in a sequence that only run time knows is not supported here".into(),
    )
}

/// A sequence whose elements are known.
fn sequence(n: &Node<'_>, i: usize) -> R<Vec<Value>> {
    match n.value(i)? {
        Value::Seq(items) => Ok(items.to_vec()),
        _ => unsupported("sequences whose length only run time knows are not supported here"),
    }
}

fn parts(n: &Node<'_>) -> R<Vec<Val>> {
    let one = |v: Value| match v {
        Value::Tensor(v) => Ok(v),
        Value::Failed => Err(Fault::Follows),
        _ => Err("the sequence holds something else than tensors".into()),
    };
    sequence(n, 0)?.into_iter().map(one).collect()
}

/// A place in a sequence; none where it is not known.
fn position(n: &Node<'_>, i: usize, len: usize, gap: bool) -> R<Option<usize>> {
    let Some(at) = n.t(i)?.const_ints().and_then(|v| v.first().copied()) else {
        return Ok(None);
    };
    let from = if at < 0 { at + len as i64 } else { at };
    let most = if gap { len + 1 } else { len };
    let at = usize::try_from(from).ok().filter(|&p| p < most);
    at.map(Some).ok_or_else(|| "a place out of range".into())
}

/// The element at a place that run time knows: all must have one type.
fn picked(tr: &mut Tr<'_>, n: &Node<'_>, items: &[Value]) -> R<Val> {
    let mut all = Vec::new();
    for v in items {
        match v {
            Value::Tensor(v) if all.first().is_none_or(|f: &Val| f.dims == v.dims) => {
                all.push(v.clone())
            }
            _ => return Err(unknown()),
        }
    }
    for v in &mut all {
        *v = tr.expand(v, 0)?;
    }
    let whole = tr.concat(&all, 0)?;
    let at = n.t(1)?;
    let at = tr.as_scalar(&at)?;
    let len = tr.number(at.elem, items.len() as f64);
    let low = tr.by("less", &at, 0.0)?;
    let up = tr.add(&at, &len)?;
    let at = tr.select(&low, &up, &at)?;
    tr.take(&whole, &at, 0)
}

fn split(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let axis = x.axis(n.int("axis", 0))?;
    let len = x.dims[axis].as_const();
    let (sizes, squeezed) = match n.opt(1)? {
        None => {
            let len = len.ok_or_else(unknown)?;
            (vec![1; len as usize], n.int("keepdims", 1) == 0)
        }
        Some(v) => {
            let given = v.const_ints().ok_or_else(unknown)?;
            match (v.rank(), len) {
                (0, Some(len)) if given[0] > 0 => {
                    let each = given[0];
                    (
                        (0..(len + each - 1) / each)
                            .map(|k| each.min(len - k * each))
                            .collect(),
                        false,
                    )
                }
                (0, _) => return Err(unknown()),
                _ => (given, false),
            }
        }
    };
    let mut out = super::movement::split_into(tr, &x, axis, Some(sizes), 0)?;
    if squeezed {
        for v in &mut out {
            *v = tr.squeeze(v, &[axis])?;
        }
    }
    let items: Vec<Value> = out.into_iter().map(Value::Tensor).collect();
    Ok(vec![Value::Seq(items.into())])
}
