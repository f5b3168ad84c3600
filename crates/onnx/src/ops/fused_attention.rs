//! Attention operators of `com.microsoft`: with projections, multi-head, grouped-query.

use relax_sym::Dim;

use super::attention::{Turn, by_heads, joined, turned};
use super::build::int;
use super::matrix::matmul;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, ms};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    ms("Attention", attention),
    ms("MultiHeadAttention", multi_head),
    ms("GroupQueryAttention", grouped),
    ms("RotaryEmbedding", |tr, n| {
        let x = n.t(0)?;
        if n.flag("is_packed_batching") {
            return unsupported("packed batches are not supported");
        }
        let cos = n.t(2)?;
        let heads = match (n.int("num_heads", 0), x.rank()) {
            (0, 3) => {
                let (all, half) = (x.dim(2)?.as_const(), cos.dim(cos.but(1)?)?.as_const());
                let (Some(all), Some(half)) = (all, half) else {
                    return unsupported("sizes that are not known are not supported");
                };
                all / (2 * half).max(1)
            }
            (heads, _) => heads,
        };
        let flat = x.rank() == 3;
        let y = by_heads(tr, &x, heads)?;
        let at = positions(tr, &n.t(1)?, &y)?;
        let how = Turn {
            interleaved: n.flag("interleaved"),
            part: n.int("rotary_embedding_dim", 0),
        };
        let mut y = turned(tr, &y, &cos, &n.t(3)?, Some(&at), how)?;
        let scale = n.float("scale", 1.0);
        if scale != 1.0 {
            y = tr.by("multiply", &y, scale)?;
        }
        Ok(vec![if flat { joined(tr, &y)? } else { y }.into()])
    }),
];

/// Returns the positions for each batch: as given, or counted from the first one.
fn positions(tr: &mut Tr<'_>, at: &Val, x: &Val) -> R<Val> {
    if at.rank() == 2 {
        return Ok(at.clone());
    }
    let x = tr.known(x);
    let steps = tr.iota(&x, 2)?;
    let first = tr.as_scalar(at)?;
    let first = tr.cast(&first, Elem::I64)?;
    let row = tr.add(&steps, &first)?;
    tr.broadcast(&row, &[x.dim(0)?.clone(), x.dim(2)?.clone()])
}

/// Emits logits, softmax and the weighted sum: the core of all attention operators here.
fn attended(tr: &mut Tr<'_>, [q, k, v]: [&Val; 3], bias: Option<&Val>, how: &Scores) -> R<Val> {
    let (mut k, mut v) = (k.clone(), v.clone());
    if let (Some(h), Some(g)) = (q.dim(1)?.as_const(), k.dim(1)?.as_const())
        && g > 0
        && h != g
        && h % g == 0
    {
        for x in [&mut k, &mut v] {
            let attrs = [("repeats", int(h / g)), ("axis", int(1))];
            *x = tr.op("repeat", &[x], &attrs)?;
        }
    }
    let scale = match (how.scale, q.dim(3)?.as_const()) {
        (s, _) if s != 0.0 => s,
        (_, Some(size)) if size > 0 => 1.0 / (size as f64).sqrt(),
        _ => return Err("the size of a head must be known".into()),
    };
    let kt = tr.transpose(&k, &[0, 1, 3, 2])?;
    let y = matmul(tr, q, &kt)?;
    let mut y = tr.by("multiply", &y, scale)?;
    if how.cap > 0.0 {
        let t = tr.by("divide", &y, how.cap)?;
        let t = tr.unary("tanh", &t)?;
        y = tr.by("multiply", &t, how.cap)?;
    }
    if let Some(b) = bias {
        y = tr.add(&y, b)?;
    }
    let p = tr.op("nn.softmax", &[&y], &[("axis", int(-1))])?;
    matmul(tr, &p, &v)
}

/// The parameters of logits.
#[derive(Default)]
struct Scores {
    /// The scale; 0 for the default.
    scale: f64,
    /// The soft cap; 0 for none.
    cap: f64,
}

/// Adds a bias to the others.
fn more(tr: &mut Tr<'_>, bias: &mut Option<Val>, own: &Val) -> R<()> {
    *bias = Some(match bias.take() {
        Some(b) => tr.add(&b, own)?,
        None => own.clone(),
    });
    Ok(())
}

/// Returns a number where a condition does not hold, 0 elsewhere.
fn unless(tr: &mut Tr<'_>, allowed: &Val, elem: Elem, low: f64) -> R<Val> {
    let (zero, low) = (tr.number(elem, 0.0), tr.number(elem, low));
    tr.select(allowed, &zero, &low)
}

/// Returns the causal bias: `(queries, keys)`, where the queries are the last of the keys.
fn ahead(tr: &mut Tr<'_>, q: &Val, k: &Val) -> R<Val> {
    let (i, j) = (tr.iota(q, 2)?, tr.iota(k, 2)?);
    let (sq, sk) = (tr.shape_of(q)?, tr.shape_of(k)?);
    let (sq, sk) = (tr.pick(&sq, 0, 2)?, tr.pick(&sk, 0, 2)?);
    let first = tr.sub(&sk, &sq)?;
    let i = tr.expand(&i, 1)?;
    let i = tr.add(&i, &first)?;
    let allowed = tr.binary("less_equal", &j, &i)?;
    unless(tr, &allowed, q.elem, f64::NEG_INFINITY)
}

/// Returns the bias of a padding mask over keys: the mask is the number of valid keys per batch, or
/// 1 for each valid one.
fn padding(tr: &mut Tr<'_>, m: &Val, k: &Val, elem: Elem, low: f64) -> R<Val> {
    let allowed = match m.rank() {
        1 => {
            let batch = (m.dim(0)?.as_const(), k.dim(0)?.as_const());
            if batch.0.is_some() && batch.1.is_some() && batch.0 != batch.1 {
                return unsupported("masks of starts and ends are not supported");
            }
            let j = tr.iota(k, 2)?;
            let m = tr.cast(m, Elem::I64)?;
            let m = tr.expand(&m, 1)?;
            tr.binary("less", &j, &m)?
        }
        _ => {
            let m = tr.cast(m, Elem::I32)?;
            tr.by("greater", &m, 0.0)?
        }
    };
    let allowed = match allowed.rank() {
        2 => tr.expand_all(&allowed, &[1, 2])?,
        3 => tr.expand(&allowed, 1)?,
        _ => allowed,
    };
    unless(tr, &allowed, elem, low)
}

fn attention(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, w) = (n.t(0)?, n.t(1)?);
    if n.flag("do_rotary") || n.flag("past_present_share_buffer") {
        return unsupported("rotated and shared caches are not supported");
    }
    let all = matmul(tr, &x, &w)?;
    let all = super::fused::biased(tr, n, &all, 2)?;
    of_projections(tr, n, &all)
}

/// Emits attention over packed queries, keys and values.
pub fn of_projections(tr: &mut Tr<'_>, n: &Node<'_>, all: &Val) -> Out {
    let heads = n.int("num_heads", 0);
    let whole = all.dims.last().and_then(Dim::as_const);
    let sizes = match (n.ints("qkv_hidden_sizes").filter(|s| s.len() == 3), whole) {
        (Some(sizes), _) => sizes,
        (None, Some(all)) => vec![all / 3; 3],
        (None, None) => return Err("the extents of the weight must be known".into()),
    };
    let parts = super::movement::split_into(tr, all, 2, Some(sizes), 0)?;
    let mut heads_of = Vec::new();
    for p in &parts {
        heads_of.push(by_heads(tr, p, heads)?);
    }
    let [q, mut k, mut v] = <[Val; 3]>::try_from(heads_of).map_err(|_| "three parts are needed")?;
    if let Some(past) = n.opt(4)? {
        let (pk, pv) = (tr.pick(&past, 0, 0)?, tr.pick(&past, 0, 1)?);
        k = tr.concat(&[pk, k], 2)?;
        v = tr.concat(&[pv, v], 2)?;
    }
    let (q, k, v) = (tr.known(&q), tr.known(&k), tr.known(&v));
    let mut out = vec![masked(tr, n, [&q, &k, &v], 3)?.into()];
    if n.wants(1) {
        let (k, v) = (tr.expand(&k, 0)?, tr.expand(&v, 0)?);
        out.push(tr.concat(&[k, v], 0)?.into());
    }
    Ok(out)
}

/// Emits attention with the bias in input 5, the padding mask in input `mask`, and optionally
/// causal.
fn masked(tr: &mut Tr<'_>, n: &Node<'_>, [q, k, v]: [&Val; 3], mask: usize) -> R<Val> {
    let mut bias = n.opt(5)?;
    if let Some(m) = n.opt(mask)? {
        let low = n.float("mask_filter_value", -10000.0);
        let own = padding(tr, &m, k, q.elem, low)?;
        more(tr, &mut bias, &own)?;
    }
    if n.flag("unidirectional") {
        let own = ahead(tr, q, k)?;
        more(tr, &mut bias, &own)?;
    }
    let how = Scores {
        scale: n.float("scale", 0.0),
        cap: 0.0,
    };
    let y = attended(tr, [q, k, v], bias.as_ref(), &how)?;
    joined(tr, &y)
}

/// Returns queries, keys and values, packed or separate, split into heads.
fn projections(tr: &mut Tr<'_>, n: &Node<'_>, heads: i64) -> R<[Val; 3]> {
    let q = n.t(0)?;
    let packed = |tr: &mut Tr<'_>, x: &Val, k: i64| -> R<Val> {
        let part = tr.pick(x, 3, k)?;
        tr.transpose(&part, &[0, 2, 1, 3])
    };
    if q.rank() == 5 {
        return Ok([packed(tr, &q, 0)?, packed(tr, &q, 1)?, packed(tr, &q, 2)?]);
    }
    let k = n.t(1)?;
    let mut all = vec![q];
    let mut apart = Vec::new();
    match k.rank() {
        5 => apart = vec![packed(tr, &k, 0)?, packed(tr, &k, 1)?],
        _ => all.extend([k, n.t(2)?]),
    }
    if let Some(b) = n.opt(3)? {
        let sizes = (all.iter())
            .map(|v| v.dims.last().and_then(Dim::as_const))
            .collect::<Option<Vec<_>>>();
        let mut sizes = sizes.ok_or("the sizes of the projections must be known")?;
        if let (1, Some(whole)) = (sizes.len(), b.dim(0)?.as_const()) {
            sizes.push(whole - sizes[0]);
        }
        let parts = super::movement::split_into(tr, &b, 0, Some(sizes), 0)?;
        for (v, b) in all.iter_mut().zip(&parts) {
            // Keys and values that are already split into heads are used as they are.
            if v.rank() == 3 {
                *v = tr.add(v, b)?;
            }
        }
    }
    let mut out = Vec::new();
    for v in &all {
        out.push(by_heads(tr, v, heads)?);
    }
    out.extend(apart);
    <[Val; 3]>::try_from(out).map_err(|_| "queries, keys and values are needed".into())
}

fn multi_head(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let [q, mut k, mut v] = projections(tr, n, n.int("num_heads", 0))?;
    if n.opt(8)?.is_some() || n.opt(9)?.is_some() {
        return unsupported("shared and redirected caches are not supported");
    }
    if let (Some(pk), Some(pv)) = (n.opt(6)?, n.opt(7)?) {
        k = tr.concat(&[pk, k], 2)?;
        v = tr.concat(&[pv, v], 2)?;
    }
    let (q, k, v) = (tr.known(&q), tr.known(&k), tr.known(&v));
    let y = masked(tr, n, [&q, &k, &v], 4)?;
    Ok(vec![y.into(), k.into(), v.into()])
}

/// Splits a packed projection into queries, keys and values.
fn unpacked(tr: &mut Tr<'_>, x: &Val, heads: i64, kv: i64) -> R<[Val; 3]> {
    let whole = x.dims.last().and_then(Dim::as_const);
    let whole = whole.ok_or("the size of the projections must be known")?;
    let each = whole / (heads + 2 * kv).max(1);
    let sizes = vec![heads * each, kv * each, kv * each];
    let parts = super::movement::split_into(tr, x, 2, Some(sizes), 0)?;
    <[Val; 3]>::try_from(parts).map_err(|_| "three parts are needed".into())
}

/// The cache is taken to be exactly as long as its valid part, the common one of all batches.
fn grouped(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (heads, kv) = (n.int("num_heads", 0), n.int("kv_num_heads", 0));
    let known = |v: i64| (1..=1 << 20).contains(&v);
    if !known(heads) || !known(kv) {
        return Err("the numbers of heads are missing".into());
    }
    if n.flag("smooth_softmax") || n.opt(11)?.is_some() {
        return unsupported("smoothed weights are not supported");
    }
    let [q, k, v] = match n.opt(1)? {
        Some(k) => [n.t(0)?, k, n.t(2)?],
        None => unpacked(tr, &n.t(0)?, heads, kv)?,
    };
    let (mut q, mut k, mut v) = (
        by_heads(tr, &q, heads)?,
        by_heads(tr, &k, kv)?,
        by_heads(tr, &v, kv)?,
    );
    let lengths = n.t(5)?;
    let lengths = tr.cast(&lengths, Elem::I64)?;
    let batch = tr.known(&q).dims[0].clone();
    let last = tr.reshape(&lengths, &[batch, Dim::ONE])?;
    if n.flag("do_rotary") {
        let at = match n.opt(9)? {
            Some(at) => at,
            None => {
                // The position of the last new key follows from the length.
                let steps = tr.iota(&q, 2)?;
                let shape = tr.shape_of(&q)?;
                let count = tr.pick(&shape, 0, 2)?;
                let first = tr.sub(&last, &count)?;
                let first = tr.by("add", &first, 1.0)?;
                let at = tr.add(&first, &steps)?;
                tr.by("maximum", &at, 0.0)?
            }
        };
        let (cos, sin) = (n.t(7)?, n.t(8)?);
        let how = Turn {
            interleaved: n.flag("rotary_interleaved"),
            part: 0,
        };
        q = turned(tr, &q, &cos, &sin, Some(&at), how)?;
        k = turned(tr, &k, &cos, &sin, Some(&at), how)?;
    }
    if let (Some(pk), Some(pv)) = (n.opt(3)?, n.opt(4)?) {
        k = tr.concat(&[pk, k], 2)?;
        v = tr.concat(&[pv, v], 2)?;
    }
    let (q, k, v) = (tr.known(&q), tr.known(&k), tr.known(&v));
    let mut bias = n.opt(10)?;
    let own = ahead(tr, &q, &k)?;
    more(tr, &mut bias, &own)?;
    let window = n.int("local_window_size", -1);
    if window > 0 {
        let own = behind(tr, &q, &k, window)?;
        more(tr, &mut bias, &own)?;
    }
    let how = Scores {
        scale: n.float("scale", 0.0),
        cap: n.float("softcap", 0.0),
    };
    let y = attended(tr, [&q, &k, &v], bias.as_ref(), &how)?;
    Ok(vec![joined(tr, &y)?.into(), k.into(), v.into()])
}

/// Returns the bias that limits attention to a sliding window.
fn behind(tr: &mut Tr<'_>, q: &Val, k: &Val, window: i64) -> R<Val> {
    let (i, j) = (tr.iota(q, 2)?, tr.iota(k, 2)?);
    let (sq, sk) = (tr.shape_of(q)?, tr.shape_of(k)?);
    let (sq, sk) = (tr.pick(&sq, 0, 2)?, tr.pick(&sk, 0, 2)?);
    let first = tr.sub(&sk, &sq)?;
    let first = tr.by("subtract", &first, window as f64)?;
    let i = tr.expand(&i, 1)?;
    let i = tr.add(&i, &first)?;
    let allowed = tr.binary("greater", &j, &i)?;
    unless(tr, &allowed, q.elem, f64::NEG_INFINITY)
}
