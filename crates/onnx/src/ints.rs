//! Elements of integer tensors as dimension expressions, so that shape computations are resolved at
//! import.

use relax_sym::Dim;

use crate::node::Node;
use crate::value::{Elem, MOST_INTS, Val, Value, axis_of};

/// Returns the elements of a value, if they are known integers.
fn elements(v: &Val) -> Option<Vec<Dim>> {
    if let Some(ints) = &v.ints {
        return Some(ints.to_vec());
    }
    let floats = v
        .tensor()
        .filter(|t| t.len() <= 256)
        .and(v.const_floats())?;
    let whole = |f: &f64| (*f == f.trunc() && f.abs() < 1e15).then(|| Dim::from(*f as i64));
    floats.iter().map(whole).collect()
}

/// Returns the known elements of each result of a node.
pub fn evaluate(n: &Node, results: &[Value]) -> Vec<Option<Vec<Dim>>> {
    let Some(Value::Tensor(out)) = results.first() else {
        return Vec::new();
    };
    if n.proto.op_type == "Split" {
        return split(n, results).unwrap_or_default();
    }
    let count = out.size().as_const();
    if count.is_none_or(|c| c > MOST_INTS as i64) {
        return Vec::new();
    }
    let found = one(n, out);
    let fits = found.filter(|f| count == Some(f.len() as i64) && f.iter().all(Dim::is_known));
    vec![fits]
}

/// Returns the partly known elements of a node's first result.
pub fn partly(n: &Node, out: &Val) -> Option<Vec<Dim>> {
    if n.proto.op_type != "Concat" || out.rank() != 1 || !out.elem.is_integral() {
        return None;
    }
    let count = out.size().as_const().filter(|&c| c <= MOST_INTS as i64)?;
    let mut all = Vec::new();
    for i in 0..n.inputs.len() {
        let x = input(n, i)?;
        match x.hints() {
            Some(known) => all.extend_from_slice(known),
            None => all.extend((0..x.size().as_const()?).map(|_| Dim::ANY)),
        }
    }
    (all.len() as i64 == count).then_some(all)
}

fn input(n: &Node, i: usize) -> Option<Val> {
    match n.inputs.get(i)? {
        Value::Tensor(v) => Some(v.clone()),
        _ => None,
    }
}

fn one(n: &Node, out: &Val) -> Option<Vec<Dim>> {
    let x = input(n, 0)?;
    let arg = |i: usize| elements(&input(n, i)?);
    match n.proto.op_type.as_str() {
        "Shape" => {
            let rank = x.rank() as i64;
            let bound = |v: i64| (if v < 0 { v + rank } else { v }).clamp(0, rank) as usize;
            let (start, end) = (bound(n.int("start", 0)), bound(n.int("end", rank)));
            Some(x.dims.get(start..end.max(start))?.to_vec())
        }
        "Size" => Some(vec![x.size()]),
        "Cast" if out.elem == Elem::BOOL || out.elem.narrow().is_some() => None,
        "Identity" | "Cast" | "Squeeze" | "Unsqueeze" | "Reshape" | "Flatten" | "Floor"
        | "Ceil" | "Round" => arg(0),
        "Transpose" if x.rank() <= 1 => arg(0),
        "Concat" => concat(n, &x),
        "Gather" => gather(n, &x),
        "Slice" => slice(n, &x),
        "Expand" | "Tile" if x.rank() <= 1 => {
            let all = arg(0)?;
            let count = usize::try_from(out.size().as_const()?)
                .ok()
                .filter(|&c| c <= 256)?;
            (!all.is_empty()).then(|| (0..count).map(|i| all[i % all.len()].clone()).collect())
        }
        "Where" => {
            let (c, a, b) = (arg(0)?, arg(1)?, arg(2)?);
            let count = c.len().max(a.len()).max(b.len());
            let pick = |v: &[Dim], i: usize| v.get(if v.len() == 1 { 0 } else { i }).cloned();
            (0..count)
                .map(|i| match pick(&c, i)?.as_const()? {
                    0 => pick(&b, i),
                    _ => pick(&a, i),
                })
                .collect()
        }
        "ReduceProd" if out.size().as_const() == Some(1) => {
            Some(vec![arg(0)?.into_iter().product()])
        }
        "ReduceSum" if out.size().as_const() == Some(1) => Some(vec![arg(0)?.into_iter().sum()]),
        "ReduceMax" if out.size().as_const() == Some(1) => arg(0)?
            .into_iter()
            .reduce(|a, b| a.max(&b))
            .map(|d| vec![d]),
        "ReduceMin" if out.size().as_const() == Some(1) => arg(0)?
            .into_iter()
            .reduce(|a, b| a.min(&b))
            .map(|d| vec![d]),
        "Neg" => Some(arg(0)?.iter().map(|d| -d).collect()),
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Min" | "Max" | "Equal" | "Less" | "Greater"
        | "LessOrEqual" | "GreaterOrEqual" => {
            if n.inputs.len() != 2 || x.rank() > 1 || input(n, 1)?.rank() > 1 {
                return None;
            }
            let (a, b) = (arg(0)?, arg(1)?);
            let count = a.len().max(b.len());
            let pick = |v: &[Dim], i: usize| v.get(if v.len() == 1 { 0 } else { i }).cloned();
            let whole = !x.elem.is_float();
            (0..count)
                .map(|i| arithmetic(&n.proto.op_type, &pick(&a, i)?, &pick(&b, i)?, whole))
                .collect()
        }
        _ => None,
    }
}

fn arithmetic(op: &str, a: &Dim, b: &Dim, whole: bool) -> Option<Dim> {
    let truth = |v: bool| Dim::from(i64::from(v));
    let both = || Some((a.as_const()?, b.as_const()?));
    Some(match op {
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" => a * b,
        "Min" => a.min(b),
        "Max" => a.max(b),
        "Div" => match both() {
            Some((_, 0)) => return None,
            Some((p, q)) if whole => Dim::from(p.checked_div(q)?),
            _ => {
                // Extents are non-negative, so truncation is rounding down.
                let q = a.floordiv(b);
                let exact = &q * b == *a;
                if !exact && (!whole || b.as_const().is_none_or(|b| b <= 0)) {
                    return None;
                }
                q
            }
        },
        "Mod" if whole && b.as_const().is_some_and(|b| b > 0) => a.modulo(b),
        "Equal" => match both() {
            Some((p, q)) => truth(p == q),
            None if a == b => truth(true),
            // An extent is never negative.
            None if never(a, b) || never(b, a) => truth(false),
            None => return None,
        },
        "Less" => truth(both().map(|(p, q)| p < q)?),
        "Greater" => truth(both().map(|(p, q)| p > q)?),
        "LessOrEqual" => truth(both().map(|(p, q)| p <= q)?),
        "GreaterOrEqual" => truth(both().map(|(p, q)| p >= q)?),
        _ => return None,
    })
}

/// Returns whether a variable can never have this value.
fn never(a: &Dim, b: &Dim) -> bool {
    a.as_atom().is_some() && b.as_const().is_some_and(|b| b < 0)
}

fn concat(n: &Node, x: &Val) -> Option<Vec<Dim>> {
    if axis_of(n.int("axis", 1), x.rank()).ok()? != 0 {
        return None;
    }
    let mut all = Vec::new();
    for i in 0..n.inputs.len() {
        all.extend(elements(&input(n, i)?)?);
    }
    Some(all)
}

fn gather(n: &Node, x: &Val) -> Option<Vec<Dim>> {
    if axis_of(n.int("axis", 0), x.rank()).ok()? != 0 {
        return None;
    }
    let rows = x.dims[0].as_const()?;
    let (all, at) = (elements(x)?, input(n, 1)?.const_ints()?);
    let row = all.len() / usize::try_from(rows).ok().filter(|&r| r > 0)?;
    let mut out = Vec::new();
    for i in at {
        let i = usize::try_from(if i < 0 { i + rows } else { i }).ok()?;
        out.extend_from_slice(all.get(i * row..(i + 1) * row)?);
    }
    Some(out)
}

fn slice(n: &Node, x: &Val) -> Option<Vec<Dim>> {
    if x.rank() != 1 {
        return None;
    }
    let all = elements(x)?;
    let given = |i: usize, name: &str| match n.ints(name) {
        Some(v) => Some(v),
        None => input(n, i)?.const_ints(),
    };
    let (start, end) = (*given(1, "starts")?.first()?, *given(2, "ends")?.first()?);
    let step = match n.inputs.get(4) {
        None | Some(Value::Nothing) => 1,
        _ => *given(4, "steps")?.first()?,
    };
    let len = all.len() as i64;
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |v: i64| (if v < 0 { v.saturating_add(len) } else { v }).clamp(low, high);
    let (mut at, end) = (bound(start), bound(end));
    let mut out = Vec::new();
    while step != 0 && (if step > 0 { at < end } else { at > end }) {
        out.push(all.get(usize::try_from(at).ok()?)?.clone());
        at = at.checked_add(step)?;
    }
    Some(out)
}

fn split(n: &Node, results: &[Value]) -> Option<Vec<Option<Vec<Dim>>>> {
    let x = input(n, 0)?;
    let all = (x.rank() == 1).then(|| elements(&x)).flatten()?;
    let mut at = 0;
    let mut out = Vec::new();
    for r in results {
        let Value::Tensor(v) = r else { return None };
        let len = usize::try_from(v.dims[0].as_const()?).ok()?;
        out.push(Some(all.get(at..at + len)?.to_vec()));
        at += len;
    }
    Some(out)
}
