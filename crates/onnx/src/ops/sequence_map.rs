//! A graph applied to the elements of sequences.

use super::control::settled;
use super::sequence::{descending, length, nth};
use crate::graph::Tr;
use crate::kind::Kind;
use crate::node::{Node, R};
use crate::value::Value;

pub fn map(tr: &mut Tr<'_>, n: &Node<'_>) -> R<Vec<Value>> {
    let body = n.graph("body")?;
    let first = n.value(0)?;
    let all = (0..n.inputs.len())
        .map(|i| n.value(i))
        .collect::<R<Vec<_>>>()?;
    let is_sequence = |v: &Value| match v {
        Value::Seq(_) => true,
        Value::Other(_, kind) => matches!(**kind, Kind::List(_)),
        _ => false,
    };
    if !is_sequence(&first) {
        return Err("the first input must be a sequence".into());
    }
    let known = |v: &Value| match v {
        Value::Seq(items) => Some(items.len()),
        v if is_sequence(v) => None,
        _ => Some(usize::MAX),
    };
    let lengths: Option<Vec<usize>> = all.iter().map(known).collect();
    if let (Some(lengths), Value::Seq(items)) = (lengths, &first) {
        if lengths.iter().any(|&l| l < items.len()) {
            return Err("the sequences differ in length".into());
        }
        return unrolled(tr, n, &all, items.len());
    }
    let element = |v: &Value| match Kind::of_value(v)? {
        Kind::List(of) if is_sequence(v) => Ok((*of).clone()),
        kind => Ok(kind),
    };
    let given = all.iter().map(element).collect::<R<Vec<Kind>>>()?;
    let (_, kinds) = settled(tr, (&given, &[], &[]), body, 0)?;
    let last = length(tr, &first)?;
    let last = tr.by("subtract", &last, 1.0)?;
    descending(tr, &last, &kinds, |tr, k| {
        let mut given = Vec::with_capacity(all.len());
        for v in &all {
            given.push(match is_sequence(v) {
                true => nth(tr, v, k)?,
                false => v.clone(),
            });
        }
        tr.subgraph("body", body, &given)
    })
}

/// Translates the graph for each element in turn.
fn unrolled(tr: &mut Tr<'_>, n: &Node<'_>, all: &[Value], len: usize) -> R<Vec<Value>> {
    let body = n.graph("body")?;
    let mut out: Vec<Vec<Value>> = vec![Vec::new(); body.output.len()];
    for k in 0..len {
        let given: Vec<Value> = all
            .iter()
            .map(|v| match v {
                Value::Seq(items) => items[k].clone(),
                v => v.clone(),
            })
            .collect();
        let results = tr.subgraph("body", body, &given)?;
        for (list, v) in out.iter_mut().zip(results) {
            list.push(v);
        }
    }
    Ok(out.into_iter().map(|l| Value::Seq(l.into())).collect())
}
