//! Convolutions and pools.

use relax_sym::Dim;

use super::build::{flag, int, ints};
use super::elementwise::channelwise;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Conv", 1, |tr, n| {
        let (x, w) = (n.t(0)?, n.t(1)?);
        let y = convolution(tr, n, &x, &w)?;
        let y = match n.opt(2)? {
            Some(b) => biased(tr, &y, &b)?,
            None => y,
        };
        Ok(vec![y.into()])
    }),
    op("ConvTranspose", 1, transposed),
    op("MaxPool", 1, max_pool),
    op("MaxUnpool", 9, max_unpool),
    op("AveragePool", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![pool(tr, n, &x, "avg")?.into()])
    }),
    op("LpPool", 1, lp_pool),
    op("GlobalAveragePool", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![
            tr.reduce("mean", &x, &(2..x.rank()).collect::<Vec<_>>(), true)?
                .into(),
        ])
    }),
    op("GlobalMaxPool", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![
            tr.reduce("max", &x, &(2..x.rank()).collect::<Vec<_>>(), true)?
                .into(),
        ])
    }),
    op("GlobalLpPool", 1, |tr, n| {
        let x = n.t(0)?;
        let p = n.float("p", 2.0).max(n.int("p", 2) as f64);
        let y = powered(tr, &x, p)?;
        let s = tr.reduce("sum", &y, &(2..x.rank()).collect::<Vec<_>>(), true)?;
        Ok(vec![tr.by("power", &s, 1.0 / p)?.into()])
    }),
];

/// More than any window reaches; products of two such numbers and sums of these are numbers still.
pub const FARTHEST: i64 = 1 << 24;

/// What a window is: extents, steps, distances of taps, and amounts before and behind each spatial axis.
pub struct Window {
    pub kernel: Vec<i64>,
    pub strides: Vec<i64>,
    pub dilations: Vec<i64>,
    pub before: Vec<i64>,
    pub behind: Vec<i64>,
}

impl Window {
    /// Reads the attributes of a node over `x`.
    pub fn read(n: &Node<'_>, x: &Val, kernel: Vec<i64>) -> R<Window> {
        let k = x
            .rank()
            .checked_sub(2)
            .filter(|&k| k > 0)
            .ok_or("it takes a batch, channels and space")?;
        let list = |name: &str, otherwise: i64| {
            n.ints(name)
                .filter(|v| !v.is_empty())
                .unwrap_or(vec![otherwise; k])
        };
        let (strides, dilations) = (list("strides", 1), list("dilations", 1));
        let pads = n
            .ints("pads")
            .filter(|v| !v.is_empty())
            .unwrap_or(vec![0; 2 * k]);
        if [kernel.len(), strides.len(), dilations.len()] != [k; 3] || pads.len() != 2 * k {
            return Err(format!(
                "kernel_shape, strides, dilations and pads do not fit {k} spatial axes"
            )
            .into());
        }
        if strides
            .iter()
            .chain(&dilations)
            .chain(&kernel)
            .any(|&s| !(1..=FARTHEST).contains(&s))
        {
            return Err("kernel_shape, strides and dilations must be positive".into());
        }
        if pads.iter().any(|p| p.abs() > FARTHEST) {
            return Err("the pads are out of range".into());
        }
        let mut out = Window {
            kernel,
            strides,
            dilations,
            before: pads[..k].to_vec(),
            behind: pads[k..].to_vec(),
        };
        let auto = n.str("auto_pad", "NOTSET");
        for a in 0..k {
            match auto.as_str() {
                "VALID" => (out.before[a], out.behind[a]) = (0, 0),
                "SAME_UPPER" | "SAME_LOWER" => {
                    let total = out.same(&x.dims[2 + a], a)?;
                    let less = total / 2;
                    let (p, q) = if auto == "SAME_UPPER" {
                        (less, total - less)
                    } else {
                        (total - less, less)
                    };
                    (out.before[a], out.behind[a]) = (p, q);
                }
                _ => {}
            }
        }
        Ok(out)
    }
    /// The extent of the window with its distances.
    fn reach(&self, a: usize) -> i64 {
        (self.kernel[a] - 1) * self.dilations[a] + 1
    }
    fn same(&self, extent: &Dim, a: usize) -> R<i64> {
        let (s, reach) = (self.strides[a], self.reach(a));
        match extent.as_const() {
            Some(len) => Ok((((len + s - 1) / s - 1) * s + reach - len).max(0)),
            None if s == 1 => Ok(reach - 1),
            None => unsupported(
                "`auto_pad` over an extent that is not known is supported for strides of 1 only",
            ),
        }
    }
    pub fn padding(&self) -> Vec<i64> {
        self.before.iter().chain(&self.behind).copied().collect()
    }
}

fn kernel_of(w: &Val) -> R<Vec<i64>> {
    let known = w
        .dims
        .get(2..)
        .unwrap_or_default()
        .iter()
        .map(Dim::as_const)
        .collect::<Option<Vec<_>>>();
    known.ok_or_else(|| "the extents of the weight must be known".into())
}

/// A convolution without bias.
pub fn convolution(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, w: &Val) -> R<Val> {
    if w.rank() != x.rank() || w.rank() < 3 {
        return Err(format!("the weight has rank {}, the data {}", w.rank(), x.rank()).into());
    }
    let k = w.rank() - 2;
    if k > 3 {
        return unsupported(format!("convolutions over {k} axes are not supported"));
    }
    let window = Window::read(n, x, kernel_of(w)?)?;
    let mut attrs = Vec::new();
    if window.strides.iter().any(|&s| s != 1) {
        attrs.push(("strides", ints(&window.strides)));
    }
    if window.padding().iter().any(|&p| p != 0) || k != 2 {
        attrs.push(("padding", ints(&window.padding())));
    }
    if window.dilations.iter().any(|&d| d != 1) {
        attrs.push(("dilation", ints(&window.dilations)));
    }
    let groups = n.int("group", 1);
    if groups != 1 {
        attrs.push(("groups", int(groups)));
    }
    if let Some(c) = w.dims[0].as_const() {
        attrs.push(("channels", int(c)));
    }
    attrs.push(("kernel_size", ints(&window.kernel)));
    tr.op(&format!("nn.conv{k}d"), &[x, w], &attrs)
}

/// A number added to each channel.
pub fn biased(tr: &mut Tr<'_>, y: &Val, b: &Val) -> R<Val> {
    if b.rank() == 1 {
        return tr.op("nn.bias_add", &[y, b], &[]);
    }
    let b = channelwise(tr, b, y.rank())?;
    tr.add(y, &b)
}

fn transposed(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, w) = (n.t(0)?, n.t(1)?);
    let k = x.rank().saturating_sub(2);
    if !(1..=3).contains(&k) || w.rank() != x.rank() {
        return Err("the weight's rank does not fit the data's".into());
    }
    let kernel = kernel_of(&w)?;
    let auto = n.str("auto_pad", "NOTSET");
    let list = |name: &str, otherwise: i64| {
        n.ints(name)
            .filter(|v| v.len() == k)
            .unwrap_or(vec![otherwise; k])
    };
    let (strides, dilations, mut more) = (
        list("strides", 1),
        list("dilations", 1),
        list("output_padding", 0),
    );
    let pads = n
        .ints("pads")
        .filter(|v| v.len() == 2 * k)
        .unwrap_or(vec![0; 2 * k]);
    let (mut before, mut behind) = (pads[..k].to_vec(), pads[k..].to_vec());
    let given = n.ints("output_shape").filter(|s| s.len() >= k);
    let all = [&strides, &dilations, &kernel].into_iter().flatten();
    if all.clone().any(|&s| !(1..=FARTHEST).contains(&s))
        || [&more, &before, &behind]
            .into_iter()
            .chain(&given)
            .flatten()
            .any(|p| p.abs() > FARTHEST)
    {
        return Err("strides, dilations, kernel_shape, pads or output extents out of range".into());
    }
    for a in 0..k {
        let reach = (kernel[a] - 1) * dilations[a] + 1;
        let goal = match &given {
            Some(shape) => shape.get(shape.len() - k + a).copied(),
            None if auto.starts_with("SAME") => {
                x.dims[2 + a].as_const().map(|len| len * strides[a])
            }
            None => continue,
        };
        let (Some(goal), Some(len)) = (goal, x.dims[2 + a].as_const()) else {
            return unsupported(
                "an output shape over an extent that is not known is not supported",
            );
        };
        let total = strides[a] * (len - 1) + more[a] + reach - goal;
        if total < 0 {
            // Too few: what is missing is added at the end.
            more[a] -= total;
            (before[a], behind[a]) = (0, 0);
            continue;
        }
        let less = total / 2;
        (before[a], behind[a]) = match auto == "SAME_UPPER" {
            true => (less, total - less),
            false => (total - less, less),
        };
    }
    let groups = n.int("group", 1);
    // What the operator takes as output padding is less than a step; the rest is zeros behind.
    let extra: Vec<i64> = (0..k)
        .map(|a| (more[a] - (strides[a] - 1)).max(0))
        .collect();
    let own: Vec<i64> = (0..k).map(|a| more[a] - extra[a]).collect();
    let mut attrs = vec![
        ("strides", ints(&strides)),
        (
            "padding",
            ints(&before.iter().chain(&behind).copied().collect::<Vec<_>>()),
        ),
        ("output_padding", ints(&own)),
        ("dilation", ints(&dilations)),
        ("kernel_size", ints(&kernel)),
    ];
    if let Some(c) = w.dims[1].as_const() {
        attrs.push(("channels", int(c * groups)));
    }
    if groups != 1 {
        attrs.push(("groups", int(groups)));
    }
    let mut y = tr.op(&format!("nn.conv{k}d_transpose"), &[&x, &w], &attrs)?;
    if extra.iter().any(|&e| e != 0) {
        let mut widths = vec![(0, 0); 2];
        widths.extend(extra.iter().map(|&e| (0, e)));
        let zero = tr.number(y.elem, 0.0);
        y = super::movement::pad_by(tr, &y, &widths, &zero, "constant")?;
    }
    if let Some(b) = n.opt(2)? {
        y = biased(tr, &y, &b)?;
    }
    Ok(vec![y.into()])
}

fn kernel_attr(n: &Node<'_>) -> R<Vec<i64>> {
    n.ints("kernel_shape")
        .ok_or_else(|| "attribute `kernel_shape` is missing".into())
}

/// Whether a last partial window counts: not where it would begin behind the data.
fn rounds_up(n: &Node<'_>, window: &Window, x: &Val) -> bool {
    let starts_behind = |a: usize| {
        let Some(len) = x.dims[2 + a].as_const() else {
            return false;
        };
        let (s, all) = (window.strides[a], len + window.before[a] + window.behind[a]);
        let count = (all - window.reach(a) + s - 1).div_euclid(s) + 1;
        (count - 1) * s >= len + window.before[a]
    };
    n.flag("ceil_mode") && !(0..window.kernel.len()).any(starts_behind)
}

pub fn pool(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, kind: &str) -> R<Val> {
    let k = x.rank().saturating_sub(2);
    if !(1..=3).contains(&k) {
        return unsupported(format!(
            "pools of tensors of rank {} are not supported",
            x.rank()
        ));
    }
    let window = Window::read(n, x, kernel_attr(n)?)?;
    let mut attrs = vec![("pool_size", ints(&window.kernel))];
    attrs.push(("strides", ints(&window.strides)));
    if window.dilations.iter().any(|&d| d != 1) {
        attrs.push(("dilation", ints(&window.dilations)));
    }
    attrs.push(("padding", ints(&window.padding())));
    if rounds_up(n, &window, x) {
        attrs.push(("ceil_mode", flag(true)));
    }
    if kind == "avg" && n.flag("count_include_pad") {
        attrs.push(("count_include_pad", flag(true)));
    }
    tr.op(&format!("nn.{kind}_pool{k}d"), &[x], &attrs)
}

fn max_pool(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let y = pool(tr, n, &x, "max")?;
    if !n.wants(1) {
        return Ok(vec![y.into()]);
    }
    let window = Window::read(n, &x, kernel_attr(n)?)?;
    let attrs = [
        ("pool_size", ints(&window.kernel)),
        ("strides", ints(&window.strides)),
        ("dilation", ints(&window.dilations)),
        ("padding", ints(&window.padding())),
        ("ceil_mode", flag(n.flag("ceil_mode"))),
        ("column_major", flag(n.int("storage_order", 0) == 1)),
    ];
    let at = tr.op("nn.max_pool_positions", &[&x], &attrs)?;
    Ok(vec![y.into(), at.into()])
}

fn max_unpool(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, at) = (n.t(0)?, n.t(1)?);
    let x = tr.known(&x);
    let window = Window::read(n, &x, kernel_attr(n)?)?;
    let mut dims = x.dims[..2].to_vec();
    for a in 0..window.kernel.len() {
        let less = window.before[a] + window.behind[a];
        dims.push((&x.dims[2 + a] - 1) * window.strides[a] + (window.kernel[a] - less));
    }
    let size = dims.iter().fold(Dim::ONE, |n, d| n * d);
    let zero = tr.number(x.elem, 0.0);
    let zeros = tr.full(&zero, &[size])?;
    let (flat, places) = (tr.reshape(&x, &[x.size()])?, tr.reshape(&at, &[x.size()])?);
    let y = tr.op(
        "scatter_elements",
        &[&zeros, &places, &flat],
        &[("axis", int(0))],
    )?;
    let y = tr.reshape(&y, &dims)?;
    let Some(to) = n.opt(2)? else {
        return Ok(vec![y.into()]);
    };
    let (to, have) = (tr.as_vector(&to)?, tr.shape_of(&y)?);
    let more = tr.sub(&to, &have)?;
    let none = tr.vector(&vec![0; y.rank()]);
    let widths = tr.concat(&[none, more], 0)?;
    let axes = tr.vector(&(0..y.rank() as i64).collect::<Vec<_>>());
    Ok(vec![
        tr.op("dyn.pad", &[&y, &widths, &zero, &axes], &[])?.into(),
    ])
}

/// The size of each element to a power.
fn powered(tr: &mut Tr<'_>, x: &Val, p: f64) -> R<Val> {
    let a = tr.unary("abs", x)?;
    if p == 1.0 {
        return Ok(a);
    }
    tr.by("power", &a, p)
}

/// A sum over windows is their mean, padding among it, times the number of taps.
fn lp_pool(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let p = if n.opset < 2 {
        n.float("p", 2.0)
    } else {
        n.int("p", 2) as f64
    };
    let y = powered(tr, &x, p)?;
    let window = Window::read(n, &x, kernel_attr(n)?)?;
    let k = window.kernel.len();
    let mut widths = vec![(0, 0); 2];
    widths.extend((0..k).map(|a| (window.before[a], window.behind[a])));
    let zero = tr.number(y.elem, 0.0);
    let y = super::movement::pad_by(tr, &y, &widths, &zero, "constant")?;
    let mut attrs = vec![
        ("pool_size", ints(&window.kernel)),
        ("strides", ints(&window.strides)),
        ("dilation", ints(&window.dilations)),
        ("padding", ints(&vec![0; 2 * k])),
        ("count_include_pad", flag(true)),
    ];
    if n.flag("ceil_mode") {
        attrs.push(("ceil_mode", flag(true)));
    }
    let mean = tr.op(&format!("nn.avg_pool{k}d"), &[&y], &attrs)?;
    let sum = tr.by(
        "multiply",
        &mean,
        window.kernel.iter().product::<i64>() as f64,
    )?;
    Ok(vec![tr.by("power", &sum, 1.0 / p)?.into()])
}
