//! Attention and related operators.

use relax_sym::Dim;

use super::build::{int, ints};
use super::matrix::matmul;
use crate::graph::Tr;
use crate::node::{Node, R};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Attention", 23, attention),
    op("RotaryEmbedding", 23, rotary),
    op("SwiGLU", 27, |tr, n| {
        let (a, b) = (n.t(0)?, n.t(1)?);
        let scaled = tr.by("multiply", &a, n.float("alpha", 1.0))?;
        let s = tr.unary("sigmoid", &scaled)?;
        let y = tr.mul(&a, &s)?;
        Ok(vec![tr.mul(&y, &b)?.into()])
    }),
    op("CausalConvWithState", 27, causal_conv),
    op("LinearAttention", 27, linear_attention),
    op("TensorScatter", 24, tensor_scatter),
];

/// Reshapes (batch, length, heads · size) to (batch, heads, length, size).
pub fn by_heads(tr: &mut Tr<'_>, x: &Val, heads: i64) -> R<Val> {
    if x.rank() == 4 {
        return Ok(x.clone());
    }
    if x.rank() != 3 || heads < 1 {
        return Err("it takes tensors of rank 4, or of rank 3 with the number of heads".into());
    }
    let x = tr.known(x);
    let size = x.dim(2)?.floordiv(&Dim::from(heads));
    let y = tr.reshape(
        &x,
        &[x.dim(0)?.clone(), x.dim(1)?.clone(), Dim::from(heads), size],
    )?;
    tr.transpose(&y, &[0, 2, 1, 3])
}

/// The inverse of [`by_heads`].
pub fn joined(tr: &mut Tr<'_>, y: &Val) -> R<Val> {
    let y = tr.transpose(y, &[0, 2, 1, 3])?;
    let y = tr.known(&y);
    let size = y.dim(2)? * y.dim(3)?;
    tr.reshape(&y, &[y.dim(0)?.clone(), y.dim(1)?.clone(), size])
}

fn negative_infinity(tr: &Tr<'_>, elem: Elem) -> Val {
    tr.number(elem, f64::NEG_INFINITY)
}

/// Returns 0 where a condition holds, minus infinity elsewhere.
fn bias_of(tr: &mut Tr<'_>, allowed: &Val, elem: Elem) -> R<Val> {
    let (zero, low) = (tr.number(elem, 0.0), negative_infinity(tr, elem));
    tr.select(allowed, &zero, &low)
}

/// Returns the number of keys before the first query: for all batches, or for each.
fn offset(tr: &mut Tr<'_>, past: Option<&Val>, valid: Option<&Val>, q: &Val) -> R<Val> {
    if let Some(past) = past {
        let s = tr.shape_of(past)?;
        return tr.pick(&s, 0, 2);
    }
    let Some(valid) = valid else {
        return Ok(tr.number(Elem::I64, 0.0));
    };
    let s = tr.shape_of(q)?;
    let len = tr.pick(&s, 0, 2)?;
    let d = tr.sub(valid, &len)?;
    tr.expand_all(&d, &[1, 2, 3])
}

fn attention(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (heads, kv_heads) = (n.int("q_num_heads", 0), n.int("kv_num_heads", 0));
    let flat = n.t(0)?.rank() == 3;
    let (q, k, v) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let q = by_heads(tr, &q, heads)?;
    let mut k = by_heads(tr, &k, kv_heads)?;
    let mut v = by_heads(tr, &v, kv_heads)?;
    let (past_k, past_v) = (n.opt(4)?, n.opt(5)?);
    if let Some(p) = &past_k {
        k = tr.concat(&[p.clone(), k], 2)?;
    }
    if let Some(p) = &past_v {
        v = tr.concat(&[p.clone(), v], 2)?;
    }
    let (q, k, v) = (tr.known(&q), tr.known(&k), tr.known(&v));
    let present = (k.clone(), v.clone());
    let valid = n.opt(6)?;
    let bias = mask(tr, n, &q, &k, past_k.as_ref(), valid.as_ref())?;
    // Grouped-query attention: each key/value head serves a group of query heads.
    let (mut k, mut v) = (k, v);
    if let (Some(h), Some(g)) = (q.dim(1)?.as_const(), k.dim(1)?.as_const())
        && g > 0
        && h != g
        && h % g == 0
    {
        for x in [&mut k, &mut v] {
            *x = tr.op("repeat", &[x], &[("repeats", int(h / g)), ("axis", int(1))])?;
        }
    }
    let size = q.dim(3)?.as_const();
    let scale = match (n.attr("scale"), size) {
        (Some(a), _) => f64::from(a.f),
        (None, Some(size)) => 1.0 / (size as f64).sqrt(),
        (None, None) => return Err("the size of a head must be known".into()),
    };
    let (a, b) = (
        tr.by("multiply", &q, scale.sqrt())?,
        tr.transpose(&k, &[0, 1, 3, 2])?,
    );
    let b = tr.by("multiply", &b, scale.sqrt())?;
    let mut logits = matmul(tr, &a, &b)?;
    let mode = n.int("qk_matmul_output_mode", 0);
    let raw = logits.clone();
    let cap = n.float("softcap", 0.0);
    if cap > 0.0 {
        let t = tr.by("divide", &logits, cap)?;
        let t = tr.unary("tanh", &t)?;
        logits = tr.by("multiply", &t, cap)?;
    }
    let capped = logits.clone();
    if let Some(bias) = &bias {
        logits = tr.add(&logits, bias)?;
    }
    let biased = logits.clone();
    let wide = n.elem("softmax_precision").unwrap_or(logits.elem);
    let logits = tr.cast(&logits, wide)?;
    let mut p = tr.op("nn.softmax", &[&logits], &[("axis", int(-1))])?;
    if let Some(bias) = &bias {
        // A query with no visible keys gives zeros.
        let low = negative_infinity(tr, bias.elem);
        let some = tr.binary("greater", bias, &low)?;
        let some = tr.cast(&some, Elem::I32)?;
        let some = tr.reduce("max", &some, &[bias.but(1)?], true)?;
        let none = tr.by("less_equal", &some, 0.0)?;
        let zero = tr.number(p.elem, 0.0);
        p = tr.select(&none, &zero, &p)?;
    }
    let p = tr.cast(&p, q.elem)?;
    let y = matmul(tr, &p, &v)?;
    let y = if flat { joined(tr, &y)? } else { y };
    let shown = match mode {
        0 => raw,
        1 => capped,
        2 => biased,
        _ => p,
    };
    let shown = tr.cast(&shown, q.elem)?;
    Ok(vec![
        y.into(),
        present.0.into(),
        present.1.into(),
        shown.into(),
    ])
}

/// Returns the bias added to the logits: from the mask, causality, the window, and padding.
fn mask(
    tr: &mut Tr<'_>,
    n: &Node<'_>,
    q: &Val,
    k: &Val,
    past: Option<&Val>,
    valid: Option<&Val>,
) -> R<Option<Val>> {
    let mut bias = match n.opt(3)? {
        None => None,
        Some(m) => {
            let m = match m.elem == Elem::BOOL {
                true => bias_of(tr, &m, q.elem)?,
                false => m,
            };
            Some(lengthened(tr, &m, k)?)
        }
    };
    let more = |tr: &mut Tr<'_>, bias: &mut Option<Val>, allowed: &Val| -> R<()> {
        let own = bias_of(tr, allowed, q.elem)?;
        *bias = Some(match bias.take() {
            Some(b) => tr.add(&b, &own)?,
            None => own,
        });
        Ok(())
    };
    let causal = n.flag("is_causal");
    let (left, right) = (
        n.int("left_window_size", -1),
        n.int("right_window_size", -1),
    );
    if causal || left >= 0 || right >= 0 {
        let first = offset(tr, past, valid, q)?;
        let (i, j) = (tr.iota(q, 2)?, tr.iota(k, 2)?);
        let i = tr.expand(&i, 1)?;
        let place = tr.add(&i, &first)?;
        if causal {
            let allowed = tr.binary("less_equal", &j, &place)?;
            more(tr, &mut bias, &allowed)?;
        }
        if left >= 0 {
            let low = tr.by("subtract", &place, left as f64)?;
            let allowed = tr.binary("greater_equal", &j, &low)?;
            more(tr, &mut bias, &allowed)?;
        }
        if right >= 0 {
            let high = tr.by("add", &place, right as f64)?;
            let allowed = tr.binary("less_equal", &j, &high)?;
            more(tr, &mut bias, &allowed)?;
        }
    }
    if let Some(valid) = valid {
        let j = tr.iota(k, 2)?;
        let valid = tr.expand_all(valid, &[1, 2, 3])?;
        let allowed = tr.binary("less", &j, &valid)?;
        more(tr, &mut bias, &allowed)?;
    }
    Ok(bias)
}

/// A short mask does not cover the last keys, which are then masked out.
fn lengthened(tr: &mut Tr<'_>, m: &Val, k: &Val) -> R<Val> {
    let last = m
        .rank()
        .checked_sub(1)
        .ok_or("the mask must have an axis")?;
    match (m.dim(last)?.as_const(), k.dim(2)?.as_const()) {
        (Some(have), Some(want)) if have < want => {
            let mut widths = vec![(0, 0); m.rank()];
            widths[last].1 = want - have;
            let low = negative_infinity(tr, m.elem);
            super::movement::pad_by(tr, m, &widths, &low, "constant")
        }
        _ => Ok(m.clone()),
    }
}

/// Gathers rows of an embedding table.
pub fn embedding_rows(tr: &mut Tr<'_>, table: &Val, at: &Val) -> R<Val> {
    tr.take(table, at, 0)
}

fn rotary(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, cos, sin) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let flat = x.rank() == 3;
    let x = by_heads(tr, &x, n.int("num_heads", 0))?;
    let how = Turn {
        interleaved: n.flag("interleaved"),
        part: n.int("rotary_embedding_dim", 0),
    };
    let y = turned(tr, &x, &cos, &sin, n.opt(3)?.as_ref(), how)?;
    Ok(vec![if flat { joined(tr, &y)? } else { y }.into()])
}

/// Parameters of a rotary embedding.
#[derive(Clone, Copy)]
pub struct Turn {
    /// Whether the elements of a pair are adjacent, or half a head apart.
    pub interleaved: bool,
    /// The number of elements per head that are rotated; 0 for all.
    pub part: i64,
}

/// Applies a rotary embedding: rotates pairs of elements of each head, (batch, heads, length,
/// size), by angles that grow with the position.
pub fn turned(
    tr: &mut Tr<'_>,
    x: &Val,
    cos: &Val,
    sin: &Val,
    at: Option<&Val>,
    how: Turn,
) -> R<Val> {
    let x = tr.known(x);
    let size = x
        .dim(3)?
        .as_const()
        .ok_or("the size of a head must be known")?;
    let part = match how.part {
        0 => size,
        d => d,
    };
    let table = |tr: &mut Tr<'_>, t: &Val| -> R<Val> {
        let t = match at {
            Some(at) => tr.take(t, at, 0)?,
            None => t.clone(),
        };
        tr.expand(&t, 1)
    };
    let (cos, sin) = (table(tr, cos)?, table(tr, sin)?);
    let turned = tr.slice(&x, 3, 0, part)?;
    let (a, b) = if how.interleaved {
        let every = |tr: &mut Tr<'_>, from: i64| {
            let attrs = [
                ("begin", ints(&[from])),
                ("end", ints(&[part])),
                ("strides", ints(&[2])),
                ("axes", ints(&[3])),
            ];
            tr.op("strided_slice", &[&turned], &attrs)
        };
        (every(tr, 0)?, every(tr, 1)?)
    } else {
        (
            tr.slice(&turned, 3, 0, part / 2)?,
            tr.slice(&turned, 3, part / 2, part)?,
        )
    };
    let (ca, sb) = (tr.mul(&cos, &a)?, tr.mul(&sin, &b)?);
    let (sa, cb) = (tr.mul(&sin, &a)?, tr.mul(&cos, &b)?);
    let (re, im) = (tr.sub(&ca, &sb)?, tr.add(&sa, &cb)?);
    let mut y = if how.interleaved {
        let (re, im) = (tr.expand(&re, 4)?, tr.expand(&im, 4)?);
        let both = tr.concat(&[re, im], 4)?;
        tr.reshape(&both, &turned.dims.clone())?
    } else {
        tr.concat(&[re, im], 3)?
    };
    if part < size {
        let rest = tr.slice(&x, 3, part, size)?;
        y = tr.concat(&[y, rest], 3)?;
    }
    Ok(y)
}

fn causal_conv(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, w) = (n.t(0)?, n.t(1)?);
    let k = w
        .dim(w.but(1)?)?
        .as_const()
        .ok_or("the extent of the kernel must be known")?;
    let c = x
        .dim(1)?
        .as_const()
        .ok_or("the number of channels must be known")?;
    let padded = match n.opt(3)? {
        Some(past) => tr.concat(&[past, x.clone()], 2)?,
        None => {
            let zero = tr.number(x.elem, 0.0);
            super::movement::pad_by(tr, &x, &[(0, 0), (0, 0), (k - 1, 0)], &zero, "constant")?
        }
    };
    let attrs = [
        ("groups", int(c)),
        ("channels", int(c)),
        ("kernel_size", ints(&[k])),
        ("padding", ints(&[0, 0])),
    ];
    let mut y = tr.op("nn.conv1d", &[&padded, &w], &attrs)?;
    if let Some(b) = n.opt(2)? {
        y = super::nn::biased(tr, &y, &b)?;
    }
    if n.str("activation", "none") != "none" {
        let wide = tr.cast(&y, Elem::F32)?;
        let s = tr.unary("sigmoid", &wide)?;
        let z = tr.mul(&wide, &s)?;
        y = tr.cast(&z, x.elem)?;
    }
    let state = match k {
        1 => {
            let padded = tr.known(&padded);
            let zero = tr.number(x.elem, 0.0);
            let dims = [padded.dim(0)?.clone(), padded.dim(1)?.clone(), Dim::ZERO];
            tr.full(&zero, &dims)?
        }
        _ => tr.slice(&padded, 2, 1 - k, i64::MAX)?,
    };
    Ok(vec![y.into(), state.into()])
}

/// Emits linear attention: a recurrence over the steps whose state is decayed, updated and read.
fn linear_attention(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (heads, kv) = (n.int("q_num_heads", 0), n.int("kv_num_heads", 0));
    let rule = n.str("update_rule", "gated_delta");
    let x = n.t(0)?;
    if heads < 1 || kv < 1 {
        return Err("the numbers of heads are missing".into());
    }
    let steps = |tr: &mut Tr<'_>, v: &Val, heads: i64| -> R<Val> {
        let v = tr.cast(v, Elem::F32)?;
        let v = by_heads(tr, &v, heads)?;
        tr.transpose(&v, &[2, 0, 1, 3])
    };
    let (q, k, v) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let (q, k, v) = (
        steps(tr, &q, heads)?,
        steps(tr, &k, kv)?,
        steps(tr, &v, kv)?,
    );
    let decay = match n.opt(4)? {
        Some(d) => Some(steps(tr, &d, kv)?),
        None => None,
    };
    let beta = match n.opt(5)? {
        Some(b) => {
            let each = b.dim(2)?.as_const().unwrap_or(kv);
            Some(steps(tr, &b, each)?)
        }
        None => None,
    };
    let size = k
        .dim(3)?
        .as_const()
        .ok_or("the size of a head must be known")?;
    let scale = match n.float("scale", 0.0) {
        0.0 => 1.0 / (size as f64).sqrt(),
        s => s,
    };
    let dims = [
        k.dim(1)?.clone(),
        Dim::from(kv),
        k.dim(3)?.clone(),
        v.dim(3)?.clone(),
    ];
    let (state, kind) = match n.opt(3)? {
        Some(s) => (tr.cast(&s, Elem::F32)?, s.elem),
        None => {
            let zero = tr.number(Elem::F32, 0.0);
            (tr.full(&zero, &dims)?, x.elem)
        }
    };
    let zero = tr.number(Elem::F32, 0.0);
    let row = [k.dim(1)?.clone(), Dim::from(heads), v.dim(3)?.clone()];
    let mut none = vec![Dim::ZERO];
    none.extend_from_slice(&row);
    let nothing = tr.full(&zero, &none)?;
    let mut grown = none.clone();
    grown[0] = Dim::ANY;
    let start = tr.number(Elem::I64, 0.0);
    let len = tr.shape_of(&q)?;
    let len = tr.pick(&len, 0, 0)?;
    let (delta, gated) = (rule.contains("delta"), rule.contains("gated"));
    let results = tr.recursion(
        &[start, state, nothing],
        &[Vec::new(), dims.to_vec(), grown],
        |tr, s| tr.binary("less", &s[0], &len),
        |tr, s| {
            let at = |tr: &mut Tr<'_>, v: &Val| tr.take(v, &s[0], 0);
            let (qt, kt, mut vt) = (at(tr, &q)?, at(tr, &k)?, at(tr, &v)?);
            let mut state = s[1].clone();
            if let (Some(d), true) = (&decay, gated) {
                let d = at(tr, d)?;
                let e = tr.unary("exp", &d)?;
                let e = tr.expand(&e, 3)?;
                state = tr.mul(&state, &e)?;
            }
            let column = tr.expand(&kt, 3)?;
            if let (Some(b), true) = (&beta, delta) {
                let read = tr.mul(&state, &column)?;
                let read = tr.reduce("sum", &read, &[2], false)?;
                let b = at(tr, b)?;
                let d = tr.sub(&vt, &read)?;
                vt = tr.mul(&b, &d)?;
            }
            let vt = tr.expand(&vt, 2)?;
            let new = tr.mul(&column, &vt)?;
            let state = tr.add(&state, &new)?;
            let seen = match heads / kv {
                1 => state.clone(),
                r => tr.op(
                    "repeat",
                    &[&state],
                    &[("repeats", int(r)), ("axis", int(1))],
                )?,
            };
            let qt = tr.expand(&qt, 3)?;
            let o = tr.mul(&seen, &qt)?;
            let o = tr.reduce("sum", &o, &[2], false)?;
            let o = tr.by("multiply", &o, scale)?;
            let o = tr.expand(&o, 0)?;
            let all = tr.concat(&[s[2].clone(), o], 0)?;
            let next = tr.by("add", &s[0], 1.0)?;
            Ok(vec![next, state, all])
        },
    )?;
    let mut whole = vec![q.dim(0)?.clone()];
    whole.extend_from_slice(&row);
    let y = tr.matched(&results[2], &whole);
    let y = tr.transpose(&y, &[1, 0, 2, 3])?;
    let to = [y.dim(0)?.clone(), y.dim(1)?.clone(), y.dim(2)? * y.dim(3)?];
    let y = tr.reshape(&y, &to)?;
    Ok(vec![
        tr.cast(&y, x.elem)?.into(),
        tr.cast(&results[1], kind)?.into(),
    ])
}

/// Writes rows into a cache, starting at a separate position for each batch.
fn tensor_scatter(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (cache, new) = (n.t(0)?, n.t(1)?);
    let axis = cache.axis(n.int("axis", -2))?;
    let (cache, new) = (tr.known(&cache), tr.known(&new));
    let steps = tr.iota(&new, axis)?;
    let behind: Vec<usize> = (axis + 1..new.rank()).collect();
    let steps = tr.expand_all(&steps, &behind.iter().map(|a| a - axis).collect::<Vec<_>>())?;
    let mut at = steps;
    if let Some(first) = n.opt(2)? {
        let places: Vec<usize> = (1..new.rank()).collect();
        let first = tr.expand_all(&first, &places)?;
        at = tr.add(&at, &first)?;
    }
    if n.str("mode", "linear") == "circular" {
        let s = tr.shape_of(&cache)?;
        let len = tr.pick(&s, 0, axis as i64)?;
        at = tr.binary("floor_mod", &at, &len)?;
    }
    let at = tr.broadcast(&at, &new.dims.clone())?;
    let attrs = [
        ("axis", int(axis as i64)),
        ("reduction", super::build::str("update")),
    ];
    Ok(vec![
        tr.op("scatter_elements", &[&cache, &at, &new], &attrs)?
            .into(),
    ])
}
