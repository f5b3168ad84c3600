//! Sequences and optionals. A sequence of known length has no form in the text except for its
//! elements; otherwise it is a list. An optional that is known to be present is its value.

use std::rc::Rc;

use relax_sym::Dim;

use super::build::int;
use super::movement::split_at_run_time;
use crate::cx::Cx;
use crate::graph::Tr;
use crate::kind::Kind;
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
        let length = match n.value(0)? {
            Value::Seq(items) => tr.number(Elem::I64, items.len() as f64),
            list => length(tr, &list)?,
        };
        Ok(vec![length.into()])
    }),
    op("SequenceAt", 11, at),
    op("SequenceInsert", 11, insert),
    op("SequenceErase", 11, erase),
    op("SplitToSequence", 11, split),
    op("ConcatFromSequence", 11, concat),
    op("SequenceMap", 17, super::sequence_map::map),
    op("Optional", 15, |_, n| {
        Ok(vec![n.inputs.first().cloned().unwrap_or(Value::Nothing)])
    }),
    op("OptionalHasElement", 15, |tr, n| {
        let there = match n.inputs.first() {
            None | Some(Value::Nothing) => false,
            Some(Value::Failed) => return Err(Fault::Follows),
            Some(Value::Other(text, kind)) if matches!(**kind, Kind::Option(_)) => {
                let text = format!("match ({text}) {{\nSome(_) => True,\nNone => False,\n}}");
                return Ok(vec![tr.line(text, Elem::BOOL, &[]).into()]);
            }
            Some(_) => true,
        };
        Ok(vec![
            tr.number(Elem::BOOL, f64::from(u8::from(there))).into(),
        ])
    }),
    op("OptionalGetElement", 15, |tr, n| match n.inputs.first() {
        None | Some(Value::Nothing) => Err("the optional is empty".into()),
        Some(Value::Other(text, kind)) => {
            let Kind::Option(inner) = &**kind else {
                return Ok(vec![n.value(0)?]);
            };
            let v = Cx::mention(tr.variable());
            let text = format!("match? ({text}) {{\nSome({v}) => {v},\n}}");
            Ok(vec![tr.line_of_kind(text, inner)])
        }
        Some(_) => Ok(vec![n.value(0)?]),
    }),
];

/// The list with an element inserted at a zero-based position.
const INSERT: &str = "\
/* The list with an element put in at a place, from 0. */
def @sequence_insert[A](%list: List[A], %place: int64, %new: A) -> List[A] {
  if (%place == 0i64) {
    Cons(%new, %list)
  } else {
    Cons(@hd(%list), @sequence_insert(@tl(%list), %place - 1i64, %new))
  }
}
";
/// The list without the element at a zero-based position.
const ERASE: &str = "\
/* The list without the element at a place, from 0. */
def @sequence_erase[A](%list: List[A], %place: int64) -> List[A] {
  if (%place == 0i64) {
    @tl(%list)
  } else {
    Cons(@hd(%list), @sequence_erase(@tl(%list), %place - 1i64))
  }
}
";

/// Converts a sequence to a list: its expression, and the type of its elements.
pub fn list(tr: &mut Tr<'_>, v: &Value) -> R<(Rc<str>, Kind)> {
    match Kind::of_value(v)? {
        Kind::List(of) => {
            let text = tr.as_kind(v, &Kind::List(Rc::clone(&of)))?;
            Ok((text, (*of).clone()))
        }
        _ => Err("a sequence is wanted".into()),
    }
}

/// Returns the length of a list.
pub fn length(tr: &mut Tr<'_>, v: &Value) -> R<Val> {
    let (text, _) = list(tr, v)?;
    let length = tr.line(format!("@length({text})"), Elem::I32, &[]);
    tr.cast(&length, Elem::I64)
}

/// Returns the element at a zero-based run-time position.
pub fn nth(tr: &mut Tr<'_>, v: &Value, place: &Val) -> R<Value> {
    let (text, of) = list(tr, v)?;
    let place = tr.cast(place, Elem::I32)?;
    let place = tr.text(&place);
    Ok(tr.line_of_kind(format!("@nth({text}, {place})"), &of))
}

/// Returns a position in a sequence of known length; `None` if the position is unknown. With `gap`,
/// it may be one past the end.
fn position(at: &Val, len: usize, gap: bool) -> R<Option<usize>> {
    let Some(at) = at.const_ints().and_then(|v| v.first().copied()) else {
        return Ok(None);
    };
    let from = if at < 0 {
        at.saturating_add(len as i64)
    } else {
        at
    };
    let most = if gap { len + 1 } else { len };
    let at = usize::try_from(from).ok().filter(|&p| p < most);
    at.map(Some).ok_or_else(|| "a place out of range".into())
}

/// Normalises a position that may count from the end.
fn from_start(tr: &mut Tr<'_>, v: &Value, at: &Val) -> R<Val> {
    let at = tr.as_scalar(at)?;
    let at = tr.cast(&at, Elem::I64)?;
    if at.const_ints().is_some_and(|v| v[0] >= 0) {
        return Ok(at);
    }
    let length = length(tr, v)?;
    let up = tr.add(&at, &length)?;
    let low = tr.by("less", &at, 0.0)?;
    tr.select(&low, &up, &at)
}

fn at(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (v, place) = (n.value(0)?, n.t(1)?);
    if let Value::Seq(items) = &v {
        match position(&place, items.len(), false)? {
            Some(at) => return Ok(vec![items[at].clone()]),
            None => {
                if let Some(picked) = picked(tr, items, &place)? {
                    return Ok(vec![picked.into()]);
                }
            }
        }
    }
    let place = from_start(tr, &v, &place)?;
    Ok(vec![nth(tr, &v, &place)?])
}

/// Returns the element at a run-time position, of tensors with a common type.
fn picked(tr: &mut Tr<'_>, items: &[Value], place: &Val) -> R<Option<Val>> {
    let mut all: Vec<Val> = Vec::new();
    for v in items {
        match v {
            Value::Tensor(v)
                if v.dims.iter().all(Dim::is_known)
                    && all
                        .first()
                        .is_none_or(|f| f.dims == v.dims && f.elem == v.elem) =>
            {
                all.push(v.clone());
            }
            _ => return Ok(None),
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    for v in &mut all {
        *v = tr.expand(v, 0)?;
    }
    let whole = tr.concat(&all, 0)?;
    let at = tr.as_scalar(place)?;
    let len = tr.number(at.elem, items.len() as f64);
    let low = tr.by("less", &at, 0.0)?;
    let up = tr.add(&at, &len)?;
    let at = tr.select(&low, &up, &at)?;
    tr.take(&whole, &at, 0).map(Some)
}

fn insert(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (v, new, place) = (n.value(0)?, n.value(1)?, n.opt(2)?);
    if let Value::Seq(items) = &v {
        let at = match &place {
            None => Some(items.len()),
            Some(p) => position(p, items.len(), true)?,
        };
        if let Some(at) = at {
            let mut items = items.to_vec();
            items.insert(at, new);
            return Ok(vec![Value::Seq(items.into())]);
        }
    }
    let kind = Kind::of_value(&v)?.join(&Kind::list(Kind::of_value(&new)?))?;
    let Kind::List(of) = &kind else {
        return Err("a sequence is wanted".into());
    };
    let new = tr.as_kind(&new, of)?;
    let list = tr.as_kind(&v, &kind)?;
    let text = match place {
        None => format!("@concat({list}, Cons({new}, Nil))"),
        Some(p) => {
            tr.helpers.insert(INSERT);
            let p = from_start(tr, &v, &p)?;
            let p = tr.text(&p);
            format!("@sequence_insert({list}, {p}, {new})")
        }
    };
    Ok(vec![tr.line_of_kind(text, &kind)])
}

fn erase(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (v, place) = (n.value(0)?, n.opt(1)?);
    if let Value::Seq(items) = &v {
        let at = match &place {
            None => Some(items.len().checked_sub(1).ok_or("the sequence is empty")?),
            Some(p) => position(p, items.len(), false)?,
        };
        if let Some(at) = at {
            let mut items = items.to_vec();
            items.remove(at);
            return Ok(vec![Value::Seq(items.into())]);
        }
    }
    let (text, of) = list(tr, &v)?;
    let place = match place {
        Some(p) => from_start(tr, &v, &p)?,
        None => {
            let length = length(tr, &v)?;
            tr.by("subtract", &length, 1.0)?
        }
    };
    tr.helpers.insert(ERASE);
    let place = tr.text(&place);
    let text = format!("@sequence_erase({text}, {place})");
    Ok(vec![tr.line_of_kind(text, &Kind::list(of))])
}

/// The layout of the parts of a split.
enum Parts {
    /// Equal sizes, except perhaps for the last part.
    Each(Val),
    /// Start and end positions.
    Bounds(Val, Val),
}

/// The longest sequence whose items are listed individually; a longer one becomes a list at run
/// time.
const MOST_ITEMS: i64 = 4096;

fn split(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let axis = x.axis(n.int("axis", 0))?;
    let len = x.dim(axis)?.as_const();
    let given = n.opt(1)?;
    // Dropping the axis is only effective if no sizes are given.
    let dropped = given.is_none() && n.int("keepdims", 1) == 0;
    let known = match &given {
        None => Some((1, None)),
        Some(v) => match (v.const_ints(), v.rank()) {
            (Some(sizes), 0) => Some((sizes[0], None)),
            (Some(sizes), _) => Some((0, Some(sizes))),
            (None, _) => None,
        },
    };
    let sizes = match (known, len) {
        (Some((_, Some(sizes))), _) => Some(sizes),
        (Some((each, None)), Some(len)) if each > 0 => {
            let count = len / each + i64::from(len % each > 0);
            (count <= MOST_ITEMS).then(|| (0..count).map(|k| each.min(len - k * each)).collect())
        }
        _ => None,
    };
    if let Some(sizes) = sizes {
        let mut out = super::movement::split_into(tr, &x, axis, Some(sizes), 0)?;
        if dropped {
            for v in &mut out {
                *v = tr.squeeze(v, &[axis])?;
            }
        }
        let items: Vec<Value> = out.into_iter().map(Value::Tensor).collect();
        return Ok(vec![Value::Seq(items.into())]);
    }
    let parts = match given {
        None => Parts::Each(tr.number(Elem::I64, 1.0)),
        Some(v) if v.rank() == 0 => Parts::Each(tr.cast(&v, Elem::I64)?),
        Some(v) => {
            let sizes = tr.as_vector(&v)?;
            let few = |&count: &i64| (0..=MOST_ITEMS).contains(&count);
            if let Some(count) = sizes.dim(0)?.as_const().filter(few) {
                let items = split_at_run_time(tr, &x, axis, &sizes, count as usize)?;
                return Ok(vec![Value::Seq(items.into())]);
            }
            let ends = tr.op("cumsum", &[&sizes], &[("axis", int(0))])?;
            Parts::Bounds(tr.sub(&ends, &sizes)?, ends)
        }
    };
    let kind = match dropped {
        true => {
            let mut dims = x.dims.to_vec();
            dims.remove(axis);
            Kind::Tensor(x.elem, Some(dims.into()))
        }
        false => with_open_axis(&x, axis),
    };
    let list = parts_of(tr, &x, axis, &parts, dropped, &kind)?;
    Ok(vec![list])
}

/// Returns the type of parts of an axis.
fn with_open_axis(x: &Val, axis: usize) -> Kind {
    let mut dims = x.dims.to_vec();
    dims[axis] = Dim::ANY;
    Kind::Tensor(x.elem, Some(dims.into()))
}

/// Builds the list of the parts of an axis, from its end.
fn parts_of(
    tr: &mut Tr<'_>,
    x: &Val,
    axis: usize,
    parts: &Parts,
    dropped: bool,
    kind: &Kind,
) -> R<Value> {
    let count = match parts {
        Parts::Each(each) => {
            let shape = tr.shape_of(x)?;
            let len = tr.pick(&shape, 0, axis as i64)?;
            let more = tr.add(&len, each)?;
            let more = tr.by("subtract", &more, 1.0)?;
            tr.binary("floor_divide", &more, each)?
        }
        Parts::Bounds(starts, _) => {
            let shape = tr.shape_of(starts)?;
            tr.pick(&shape, 0, 0)?
        }
    };
    let last = tr.by("subtract", &count, 1.0)?;
    let which = [tr.vector(&[axis as i64]), tr.vector(&[1])];
    descending(tr, &last, std::slice::from_ref(kind), |tr, k| {
        if dropped {
            return Ok(vec![tr.take(x, k, axis)?.into()]);
        }
        let (from, to) = match parts {
            Parts::Each(each) => {
                let from = tr.mul(k, each)?;
                let to = tr.add(&from, each)?;
                (from, to)
            }
            Parts::Bounds(starts, ends) => (tr.take(starts, k, 0)?, tr.take(ends, k, 0)?),
        };
        let (from, to) = (tr.as_vector(&from)?, tr.as_vector(&to)?);
        let args = [x, &from, &to, &which[0], &which[1]];
        let mut y = tr.op("dyn.slice", &args, &[])?;
        y.elem = x.elem;
        Ok(vec![y.into()])
    })
    .map(|mut lists| lists.remove(0))
}

/// Builds lists of what `element` returns for the positions from `last` down to 0, in ascending
/// order.
pub fn descending(
    tr: &mut Tr<'_>,
    last: &Val,
    kinds: &[Kind],
    element: impl FnOnce(&mut Tr<'_>, &Val) -> R<Vec<Value>>,
) -> R<Vec<Value>> {
    let mut init = vec![Value::Tensor(last.clone())];
    init.extend(kinds.iter().map(|_| Value::Seq(Vec::new().into())));
    let mut types = vec![Kind::Tensor(Elem::I64, Some(Vec::new().into()))];
    types.extend(kinds.iter().cloned().map(Kind::list));
    let count = |s: &[Value]| match &s[0] {
        Value::Tensor(k) => Ok(k.clone()),
        _ => Err(Fault::Follows),
    };
    let results = tr.repeated(
        &init,
        &types,
        |tr, s| tr.by("greater_equal", &count(s)?, 0.0),
        |tr, s| {
            let k = count(s)?;
            let made = element(tr, &k)?;
            let mut next = vec![tr.by("subtract", &k, 1.0)?.into()];
            for ((v, kind), rest) in made.iter().zip(kinds).zip(&s[1..]) {
                let first = tr.as_kind(v, kind)?;
                let list = Kind::list(kind.clone());
                let rest = tr.as_kind(rest, &list)?;
                next.push(tr.line_of_kind(format!("Cons({first}, {rest})"), &list));
            }
            Ok(next)
        },
    )?;
    Ok(results[1..].to_vec())
}

fn concat(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let v = n.value(0)?;
    let new = n.flag("new_axis");
    if let Value::Seq(items) = &v {
        let tensor = |v: &Value| match v {
            Value::Tensor(v) => Ok(v.clone()),
            Value::Failed => Err(Fault::Follows),
            _ => unsupported("elements whose rank is not known are not supported"),
        };
        let mut all = items.iter().map(tensor).collect::<R<Vec<_>>>()?;
        let first = all.first().ok_or("the sequence is empty")?;
        let rank = first.rank() + usize::from(new);
        let axis = crate::value::axis_of(n.int("axis", 0), rank)?;
        if new {
            for v in &mut all {
                *v = tr.expand(v, axis)?;
            }
        }
        return Ok(vec![tr.concat(&all, axis)?.into()]);
    }
    let (_, of) = list(tr, &v)?;
    let Kind::Tensor(elem, Some(dims)) = of else {
        return unsupported("elements whose rank is not known are not supported");
    };
    let rank = dims.len() + usize::from(new);
    let axis = crate::value::axis_of(n.int("axis", 0), rank)?;
    let mut open = dims.to_vec();
    match new {
        true => open.insert(axis, Dim::ANY),
        false => open[axis] = Dim::ANY,
    }
    let whole = Kind::Tensor(elem, Some(open.into()));
    // The elements as parts of the result.
    let id = tr.variable();
    let x = tr.val(Cx::mention(id).into(), elem, &dims);
    tr.open();
    let made = match new {
        true => tr.expand(&x, axis),
        false => Ok(x),
    };
    let part = made.and_then(|v| tr.as_kind(&v.into(), &whole));
    let body = tr.close(part.as_deref().unwrap_or(""));
    part?;
    let (text, own) = list(tr, &v)?;
    let (from, to) = (tr.show_kind(&own), tr.show_kind(&whole));
    let parts = tr.bind(format!(
        "@map(fn ({}: {from}) -> {to} {{\n{body}}}, {text})",
        Cx::mention(id)
    ));
    let (all, next) = (tr.variable(), tr.variable());
    let (all, next) = (Cx::mention(all), Cx::mention(next));
    let text = format!(
        "@foldl(fn ({all}: {to}, {next}: {to}) -> {to} {{\nconcatenate(({all}, {next}), axis={axis})\n}}, \
         @hd({parts}), @tl({parts}))"
    );
    Ok(vec![tr.line_of_kind(text, &whole)])
}
