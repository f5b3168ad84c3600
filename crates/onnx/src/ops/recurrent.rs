//! Recurrent layers: a recursive function over the steps for each direction.

use relax_sym::Dim;

use super::build::int;
use super::elementwise as simple;
use super::quant;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("LSTM", 1, |tr, n| layer(tr, n, Kind::Lstm)),
    op("GRU", 1, |tr, n| layer(tr, n, Kind::Gru)),
    op("RNN", 1, |tr, n| layer(tr, n, Kind::Rnn)),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Lstm,
    Gru,
    Rnn,
}

impl Kind {
    /// Returns the number of gates, and the default activations.
    fn form(self) -> (i64, &'static [&'static str]) {
        match self {
            Kind::Lstm => (4, &["Sigmoid", "Tanh", "Tanh"]),
            Kind::Gru => (3, &["Sigmoid", "Tanh"]),
            Kind::Rnn => (1, &["Tanh"]),
        }
    }
}

/// An activation with its parameters.
#[derive(Clone)]
struct Activation {
    name: String,
    alpha: Option<f64>,
    beta: Option<f64>,
    clip: Option<f64>,
}

impl Activation {
    fn apply(&self, tr: &mut Tr<'_>, x: &Val) -> R<Val> {
        let x = match self.clip {
            Some(c) => {
                let x = tr.by("maximum", x, -c)?;
                tr.by("minimum", &x, c)?
            }
            None => x.clone(),
        };
        let a = |otherwise: f64| self.alpha.unwrap_or(otherwise);
        match self.name.as_str() {
            "relu" => tr.unary("nn.relu", &x),
            "tanh" => tr.unary("tanh", &x),
            "sigmoid" => tr.unary("sigmoid", &x),
            "elu" => simple::exponential(tr, &x, a(1.0), 1.0),
            "softsign" => {
                let size = tr.unary("abs", &x)?;
                let size = tr.by("add", &size, 1.0)?;
                tr.div(&x, &size)
            }
            "thresholdedrelu" => {
                let above = tr.by("greater", &x, a(1.0))?;
                let zero = tr.number(x.elem, 0.0);
                tr.select(&above, &x, &zero)
            }
            "softplus" => simple::softplus(tr, &x),
            "hardsigmoid" => simple::hard_sigmoid(tr, &x, a(0.2), self.beta.unwrap_or(0.5)),
            "leakyrelu" => tr.op(
                "nn.leaky_relu",
                &[&x],
                &[("alpha", super::build::float(a(0.01)))],
            ),
            "affine" => {
                let y = tr.by("multiply", &x, a(1.0))?;
                tr.by("add", &y, self.beta.unwrap_or(0.0))
            }
            "scaledtanh" => {
                let y = tr.by("multiply", &x, self.beta.unwrap_or(1.0))?;
                let y = tr.unary("tanh", &y)?;
                tr.by("multiply", &y, a(1.0))
            }
            other => unsupported(format!("the activation {other} is not supported")),
        }
    }
}

/// A weight of bytes, (directions, inputs, gates), with the scale and the zero point of each
/// direction, or of each of its gates' numbers.
#[derive(Clone)]
pub struct Bytes {
    /// The weight.
    pub weight: Val,
    /// Its scale.
    pub scale: Val,
    /// Its zero point.
    pub zero: Option<Val>,
}

impl Bytes {
    /// Returns those of one direction.
    fn of(&self, tr: &mut Tr<'_>, direction: usize) -> R<Bytes> {
        let mut part = |v: &Val| tr.pick(v, 0, direction as i64);
        Ok(Bytes {
            weight: part(&self.weight)?,
            scale: part(&self.scale)?,
            zero: self.zero.as_ref().map(part).transpose()?,
        })
    }

    /// Emits the product of numbers, quantised to their actual range, and the weight of a direction.
    fn times(&self, tr: &mut Tr<'_>, n: &Node<'_>, x: &Val) -> R<Val> {
        let (x, scale, zero) = quant::dynamic(tr, n, x)?;
        let weight = (&self.weight, self.zero.clone());
        quant::product(tr, (&x, Some(zero)), weight, &scale, &self.scale)
    }
}

/// A weight with which numbers are multiplied.
enum Weight<'a> {
    /// Of numbers, (gates, inputs).
    Numbers(Val),
    /// Of bytes; the numbers are quantised first, as the node says.
    Bytes(&'a Node<'a>, Bytes),
}

impl Weight<'_> {
    /// Emits the product.
    fn times(&self, tr: &mut Tr<'_>, x: &Val) -> R<Val> {
        match self {
            Weight::Numbers(w) => Direction::dense(tr, x, w),
            Weight::Bytes(n, w) => w.times(tr, n, x),
        }
    }
}

/// One direction of a layer.
struct Direction<'a> {
    kind: Kind,
    /// The recurrent weight.
    r: Weight<'a>,
    /// The recurrent bias, if it is separate from the input's.
    rb: Option<Val>,
    /// Peephole weights: input, output, forget.
    p: Option<[Val; 3]>,
    f: Vec<Activation>,
    size: i64,
    input_forget: bool,
    before_reset: bool,
}

impl Direction<'_> {
    fn gate(&self, tr: &mut Tr<'_>, x: &Val, k: i64) -> R<Val> {
        match self.kind.form().0 {
            1 => Ok(x.clone()),
            _ => tr.slice(x, x.but(1)?, k * self.size, (k + 1) * self.size),
        }
    }
    /// Emits `x · wᵀ`.
    fn dense(tr: &mut Tr<'_>, x: &Val, w: &Val) -> R<Val> {
        tr.op("nn.dense", &[x, w], &[("units", relax_ir::AttrValue::None)])
    }
    /// Emits a step; `x` is the input times its weight, plus bias.
    fn step(&self, tr: &mut Tr<'_>, x: &Val, h: &Val, c: Option<&Val>) -> R<(Val, Option<Val>)> {
        match self.kind {
            Kind::Rnn => {
                let s = self.r.times(tr, h)?;
                let s = tr.add(x, &s)?;
                Ok((self.f[0].apply(tr, &s)?, None))
            }
            Kind::Gru => Ok((self.gru(tr, x, h)?, None)),
            Kind::Lstm => {
                let c = c.ok_or("there is no cell")?;
                let (h, c) = self.lstm(tr, x, h, c)?;
                Ok((h, Some(c)))
            }
        }
    }
    fn lstm(&self, tr: &mut Tr<'_>, x: &Val, h: &Val, c: &Val) -> R<(Val, Val)> {
        let s = self.r.times(tr, h)?;
        let s = tr.add(x, &s)?;
        let mut g = Vec::new();
        for k in 0..4 {
            g.push(self.gate(tr, &s, k)?);
        }
        let peep = |tr: &mut Tr<'_>, v: &Val, c: &Val, k: usize| match &self.p {
            Some(p) => {
                let q = tr.mul(&p[k], c)?;
                tr.add(v, &q)
            }
            None => Ok(v.clone()),
        };
        let i = peep(tr, &g[0], c, 0)?;
        let i = self.f[0].apply(tr, &i)?;
        let f = if self.input_forget {
            tr.number_with("subtract", 1.0, &i)?
        } else {
            let f = peep(tr, &g[2], c, 2)?;
            self.f[0].apply(tr, &f)?
        };
        let new = self.f[1].apply(tr, &g[3])?;
        let (a, b) = (tr.mul(&f, c)?, tr.mul(&i, &new)?);
        let c = tr.add(&a, &b)?;
        let o = peep(tr, &g[1], &c, 1)?;
        let o = self.f[0].apply(tr, &o)?;
        let t = self.f[2].apply(tr, &c)?;
        Ok((tr.mul(&o, &t)?, c))
    }
    fn gru(&self, tr: &mut Tr<'_>, x: &Val, h: &Val) -> R<Val> {
        let Weight::Numbers(r) = &self.r else {
            return unsupported("a quantised weight of a GRU is not supported");
        };
        let n = self.size;
        let part =
            |tr: &mut Tr<'_>, v: &Val, axis: usize, k: i64| tr.slice(v, axis, k * n, (k + 1) * n);
        // One product for all gates, where the last one needs no other gate before it.
        let weight = match self.before_reset {
            true => r.clone(),
            false => tr.slice(r, 0, 0, 2 * n)?,
        };
        let s = Direction::dense(tr, h, &weight)?;
        let s = match &self.rb {
            Some(b) if self.before_reset => tr.add(&s, b)?,
            _ => s,
        };
        let mut gates = Vec::new();
        for k in 0..2 {
            let own = part(tr, &s, 1, k)?;
            let g = self.gate(tr, x, k)?;
            let g = tr.add(&g, &own)?;
            gates.push(self.f[0].apply(tr, &g)?);
        }
        let (z, reset) = (&gates[0], &gates[1]);
        let inner = if self.before_reset {
            let s = part(tr, &s, 1, 2)?;
            tr.mul(reset, &s)?
        } else {
            let own = part(tr, r, 0, 2)?;
            let rh = tr.mul(reset, h)?;
            Direction::dense(tr, &rh, &own)?
        };
        let g = self.gate(tr, x, 2)?;
        let g = tr.add(&g, &inner)?;
        let new = self.f[1].apply(tr, &g)?;
        let keep = tr.mul(z, h)?;
        let rest = tr.number_with("subtract", 1.0, z)?;
        let rest = tr.mul(&rest, &new)?;
        tr.add(&rest, &keep)
    }
}

/// Emits an LSTM whose inputs and states are quantised and multiplied with bytes: the weights of
/// the input and of the state.
pub fn quantised_lstm(tr: &mut Tr<'_>, n: &Node<'_>, weights: &[Bytes; 2]) -> Out {
    layer_of(tr, n, Kind::Lstm, Some(weights))
}

fn layer(tr: &mut Tr<'_>, n: &Node<'_>, kind: Kind) -> Out {
    layer_of(tr, n, kind, None)
}

fn layer_of(tr: &mut Tr<'_>, n: &Node<'_>, kind: Kind, bytes: Option<&[Bytes; 2]>) -> Out {
    let x = n.t(0)?;
    let (b, lens, h0) = (n.opt(3)?, n.opt(4)?, n.opt(5)?);
    let (c0, peepholes) = match kind {
        Kind::Lstm => (n.opt(6)?, n.opt(7)?),
        _ => (None, None),
    };
    let batch_first = n.flag("layout");
    let x = if batch_first {
        tr.transpose(&x, &[1, 0, 2])?
    } else {
        x
    };
    let x = tr.known(&x);
    let (gates, _) = kind.form();
    let size = match n.attr("hidden_size") {
        Some(a) => a.i,
        None => {
            let state = if bytes.is_some() { 1 } else { 2 };
            let size = n.t(2)?.dim(state)?.as_const();
            size.ok_or("the size of the state must be known")?
        }
    };
    let way = n.str("direction", "forward");
    let count = if way == "bidirectional" { 2 } else { 1 };
    let names = n.strs("activations");
    let functions = activations(n, kind, names, count);
    let (mut outputs, mut states, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for (d, activations) in functions.into_iter().enumerate() {
        let part = |tr: &mut Tr<'_>, v: &Val| tr.pick(v, 0, d as i64);
        let mut weight = |k: usize| -> R<Weight<'_>> {
            match bytes {
                Some(all) => Ok(Weight::Bytes(n, all[k].of(tr, d)?)),
                None => Ok(Weight::Numbers(part(tr, &n.t(1 + k)?)?)),
            }
        };
        let (w, r) = (weight(0)?, weight(1)?);
        let mut input = w.times(tr, &x)?;
        let mut rb = None;
        if let Some(b) = &b {
            let b = part(tr, b)?;
            let (wb, sb) = (
                tr.slice(&b, 0, 0, gates * size)?,
                tr.slice(&b, 0, gates * size, 2 * gates * size)?,
            );
            // The last gate's own part of the state is multiplied by another gate with its bias.
            let both = if kind == Kind::Gru && n.flag("linear_before_reset") {
                rb = Some(sb);
                wb
            } else {
                tr.add(&wb, &sb)?
            };
            input = tr.add(&input, &both)?;
        }
        let p = match &peepholes {
            Some(p) => {
                let p = part(tr, p)?;
                let cut = |tr: &mut Tr<'_>, k: i64| tr.slice(&p, 0, k * size, (k + 1) * size);
                Some([cut(tr, 0)?, cut(tr, 1)?, cut(tr, 2)?])
            }
            None => None,
        };
        let direction = Direction {
            kind,
            r,
            rb,
            p,
            f: activations,
            size,
            input_forget: n.flag("input_forget"),
            before_reset: n.flag("linear_before_reset"),
        };
        let start = |tr: &mut Tr<'_>, given: &Option<Val>| -> R<Val> {
            match given {
                Some(v) if batch_first => tr.take_at(v, 1, d),
                Some(v) => tr.take_at(v, 0, d),
                None => {
                    let zero = tr.number(x.elem, 0.0);
                    tr.full(&zero, &[x.dim(1)?.clone(), Dim::from(size)])
                }
            }
        };
        let h = start(tr, &h0)?;
        let c = match kind {
            Kind::Lstm => Some(start(tr, &c0)?),
            _ => None,
        };
        let back = way == "reverse" || d == 1;
        let (y, h, c) = run(tr, &direction, &input, h, c, lens.as_ref(), back)?;
        outputs.push(y);
        states.push(h);
        cells.extend(c);
    }
    results(tr, batch_first, outputs, states, cells)
}

impl Tr<'_> {
    fn take_at(&mut self, v: &Val, axis: usize, at: usize) -> R<Val> {
        self.pick(v, axis, at as i64)
    }
}

fn activations(
    n: &Node<'_>,
    kind: Kind,
    names: Option<Vec<String>>,
    count: usize,
) -> Vec<Vec<Activation>> {
    let form = kind.form();
    let usual = form.1;
    let clip = n.attr("clip").map(|a| f64::from(a.f));
    // Each activation with such a parameter takes the next one of the list.
    let list = |name: &str| n.floats(name).unwrap_or_default().into_iter();
    let (mut alphas, mut betas) = (list("activation_alpha"), list("activation_beta"));
    let mut out = Vec::new();
    for d in 0..count {
        let mut direction = Vec::new();
        for (k, usual) in usual.iter().enumerate() {
            let given = names.as_ref().and_then(|v| v.get(d * form.1.len() + k));
            let name = given.map_or(*usual, String::as_str).to_lowercase();
            let (alpha, beta) = numbers_of(&name);
            direction.push(Activation {
                alpha: if alpha { alphas.next() } else { None },
                beta: if beta { betas.next() } else { None },
                // The cell's output is not clipped.
                clip: if k < 2 { clip } else { None },
                name,
            });
        }
        out.push(direction);
    }
    out
}

/// Returns whether an activation has a first and a second parameter.
fn numbers_of(name: &str) -> (bool, bool) {
    match name {
        "affine" | "scaledtanh" | "hardsigmoid" => (true, true),
        "leakyrelu" | "thresholdedrelu" | "elu" => (true, false),
        _ => (false, false),
    }
}

/// Emits the steps of a direction; returns all states, the last one, and the last cell.
fn run(
    tr: &mut Tr<'_>,
    d: &Direction<'_>,
    input: &Val,
    h: Val,
    c: Option<Val>,
    lens: Option<&Val>,
    back: bool,
) -> R<(Val, Val, Option<Val>)> {
    let turn = |tr: &mut Tr<'_>, v: &Val| -> R<Val> {
        match (back, lens) {
            (false, _) => Ok(v.clone()),
            (true, Some(lens)) => tr.op(
                "reverse_sequence",
                &[v, lens],
                &[("seq_axis", int(0)), ("batch_axis", int(1))],
            ),
            (true, None) => tr.op("reverse", &[v], &[("axis", int(0))]),
        }
    };
    let input = turn(tr, input)?;
    let state = [input.dim(1)?.clone(), Dim::from(d.size)];
    let zero = tr.number(h.elem, 0.0);
    let nothing = tr.full(&zero, &[Dim::ZERO, state[0].clone(), state[1].clone()])?;
    let grown = vec![Dim::ANY, state[0].clone(), state[1].clone()];
    let start = tr.number(Elem::I64, 0.0);
    let len = tr.shape_of(&input)?;
    let len = tr.pick(&len, 0, 0)?;
    let mut init = vec![start, nothing, h];
    let mut kinds = vec![Vec::new(), grown.clone(), state.to_vec()];
    if let Some(c) = c {
        init.push(c);
        kinds.push(state.to_vec());
    }
    let results = tr.recursion(
        &init,
        &kinds,
        |tr, s| tr.binary("less", &s[0], &len),
        |tr, s| {
            let x = tr.take(&input, &s[0], 0)?;
            let (h, c) = d.step(tr, &x, &s[2], s.get(3))?;
            let (mut h, mut c, y) = (h.clone(), c, h);
            if let Some(lens) = lens {
                let t = tr.cast(&s[0], lens.elem)?;
                let on = tr.binary("less", &t, lens)?;
                let on = tr.expand(&on, 1)?;
                h = tr.select(&on, &h, &s[2])?;
                c = match (c, s.get(3)) {
                    (Some(c), Some(old)) => Some(tr.select(&on, &c, old)?),
                    (c, _) => c,
                };
            }
            let row = tr.expand(&y, 0)?;
            let all = tr.concat(&[s[1].clone(), row], 0)?;
            let mut next = vec![tr.by("add", &s[0], 1.0)?, all, tr.matched(&h, &state)];
            if let Some(c) = c {
                next.push(tr.matched(&c, &state));
            }
            Ok(next)
        },
    )?;
    let whole = [input.dim(0)?.clone(), state[0].clone(), state[1].clone()];
    let y = tr.matched(&results[1], &whole);
    let mut y = turn(tr, &y)?;
    // All states at once: a step that only appends its own does so in place. What is behind the end
    // of a sequence was not turned.
    if let Some(lens) = lens {
        let t = tr.iota(&y, 0)?;
        let t = tr.cast(&t, lens.elem)?;
        let (t, lens) = (tr.expand(&t, 1)?, tr.expand(lens, 0)?);
        let on = tr.binary("less", &t, &lens)?;
        let on = tr.expand(&on, 2)?;
        y = tr.select(&on, &y, &zero)?;
    }
    Ok((y, results[2].clone(), results.get(3).cloned()))
}

fn results(
    tr: &mut Tr<'_>,
    batch_first: bool,
    outputs: Vec<Val>,
    states: Vec<Val>,
    cells: Vec<Val>,
) -> Out {
    let joined = |tr: &mut Tr<'_>, parts: &[Val], at: usize| -> R<Val> {
        let mut all = Vec::new();
        for v in parts {
            all.push(tr.expand(v, at)?);
        }
        tr.concat(&all, at)
    };
    let place = usize::from(batch_first);
    let mut out = Vec::new();
    let y = joined(tr, &outputs, 1)?;
    out.push(
        if batch_first {
            tr.transpose(&y, &[2, 0, 1, 3])?
        } else {
            y
        }
        .into(),
    );
    out.push(joined(tr, &states, place)?.into());
    if !cells.is_empty() {
        out.push(joined(tr, &cells, place)?.into());
    }
    Ok(out)
}
