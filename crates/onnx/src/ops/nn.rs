//! Convolutions and pooling.

use relax_sym::Dim;

use super::build::{flag, int, ints};
use super::elementwise::channelwise;
use super::steps::OfBytes;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Conv", 1, |tr, n| {
        let (x, w) = (n.t(0)?, n.t(1)?);
        let Some(b) = n.opt(2)? else {
            return Ok(vec![convolution(tr, n, &x, &w)?.into()]);
        };
        // Narrow floats are rounded once, with the bias.
        let sums = match x.elem {
            Elem::F16 | Elem::BF16 => Elem::F32,
            other => other,
        };
        let mut wide = |v: &Val| tr.cast(v, sums);
        let (wide_x, w, b) = (wide(&x)?, wide(&w)?, wide(&b)?);
        let y = convolution(tr, n, &wide_x, &w)?;
        let y = biased(tr, &y, &b)?;
        Ok(vec![tr.cast(&y, x.elem)?.into()])
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

/// An upper bound on window sizes, such that products of two of them, and sums of these, do not
/// overflow.
pub const FARTHEST: i64 = 1 << 24;

/// The geometry of a window: extents, strides, dilations, and paddings before and after each
/// spatial axis.
pub struct Window {
    pub kernel: Vec<i64>,
    pub strides: Vec<i64>,
    pub dilations: Vec<i64>,
    pub before: Vec<i64>,
    pub behind: Vec<i64>,
    /// Whether the padding is computed at run time, and if so, whether the larger half goes first.
    open: Option<bool>,
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
            open: None,
        };
        let auto = n.str("auto_pad", "NOTSET");
        let same = auto.starts_with("SAME");
        if same && (0..k).any(|a| out.same(&x.dims[2 + a], a).is_none()) {
            out.open = Some(auto == "SAME_LOWER");
        }
        for a in 0..k {
            match auto.as_str() {
                _ if out.open.is_some() => (out.before[a], out.behind[a]) = (0, 0),
                "VALID" => (out.before[a], out.behind[a]) = (0, 0),
                "SAME_UPPER" | "SAME_LOWER" => {
                    let total = out.same(x.dim(2 + a)?, a).unwrap_or(0);
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
    /// Returns the extent of the dilated window.
    fn reach(&self, a: usize) -> i64 {
        (self.kernel[a] - 1) * self.dilations[a] + 1
    }
    /// Returns the total padding along an axis for `SAME`; `None` if it is only known at run time.
    fn same(&self, extent: &Dim, a: usize) -> Option<i64> {
        let (s, reach) = (self.strides[a], self.reach(a));
        match extent.as_const() {
            Some(len) => Some((((len + s - 1) / s - 1) * s + reach - len).max(0)),
            None => (s == 1).then_some(reach - 1),
        }
    }
    /// Pads the data with `fill` as `auto_pad` requires where extents are unknown; also returns the
    /// resulting extents.
    fn padded(&mut self, tr: &mut Tr<'_>, x: &Val, fill: f64) -> R<(Val, Option<Vec<Dim>>)> {
        let fill = tr.number(x.elem, fill);
        self.padded_by(tr, x, &fill)
    }
    /// The same with a number that may only be known at run time.
    fn padded_by(&mut self, tr: &mut Tr<'_>, x: &Val, fill: &Val) -> R<(Val, Option<Vec<Dim>>)> {
        let Some(lower) = self.open.take() else {
            return Ok((x.clone(), None));
        };
        let k = self.kernel.len();
        let x = tr.known(x);
        let shape = tr.shape_of(&x)?;
        let len = tr.slice(&shape, 0, 2, 2 + k as i64)?;
        let step = tr.vector(&self.strides);
        let reach = tr.vector(&(0..k).map(|a| self.reach(a)).collect::<Vec<_>>());
        // ((len - 1) // step) * step is where the last window starts.
        let last = tr.by("subtract", &len, 1.0)?;
        let last = tr.binary("floor_divide", &last, &step)?;
        let last = tr.mul(&last, &step)?;
        let end = tr.add(&last, &reach)?;
        let all = tr.sub(&end, &len)?;
        let all = tr.by("maximum", &all, 0.0)?;
        let less = tr.by("floor_divide", &all, 2.0)?;
        let more = tr.sub(&all, &less)?;
        let (front, back) = if lower { (more, less) } else { (less, more) };
        let widths = tr.concat(&[front, back], 0)?;
        let axes = tr.vector(&(2..2 + k as i64).collect::<Vec<_>>());
        let y = tr.op("dyn.pad", &[&x, &widths, fill, &axes], &[])?;
        let mut dims = x.part(..2)?.to_vec();
        dims.extend((0..k).map(|_| Dim::ANY));
        let y = tr.matched(&y, &dims);
        let steps = |a: usize| {
            (&x.dims[2 + a] + (self.strides[a] - 1)).floordiv(&Dim::from(self.strides[a]))
        };
        Ok((y, Some((0..k).map(steps).collect())))
    }
    pub fn padding(&self) -> Vec<i64> {
        self.before.iter().chain(&self.behind).copied().collect()
    }
}

pub fn kernel_of(w: &Val) -> R<Vec<i64>> {
    let known = w
        .dims
        .get(2..)
        .unwrap_or_default()
        .iter()
        .map(Dim::as_const)
        .collect::<Option<Vec<_>>>();
    known.ok_or_else(|| "the extents of the weight must be known".into())
}

/// Emits a convolution without bias.
pub fn convolution(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, w: &Val) -> R<Val> {
    convolution_of(tr, n, [x, w], None)
}

/// Emits a convolution without bias, of bytes where these have zero points and scales.
pub fn convolution_of(
    tr: &mut Tr<'_>,
    n: &Node<'_>,
    [x, w]: [&Val; 2],
    bytes: Option<&OfBytes>,
) -> R<Val> {
    if w.rank() != x.rank() || w.rank() < 3 {
        return Err(format!("the weight has rank {}, the data {}", w.rank(), x.rank()).into());
    }
    let k = w.but(2)?;
    if k > 3 {
        return unsupported(format!("convolutions over {k} axes are not supported"));
    }
    let mut window = Window::read(n, x, kernel_of(w)?)?;
    let (x, goal) = match bytes {
        Some(bytes) => {
            let zero = tr.cast(bytes.zero(), x.elem)?;
            window.padded_by(tr, x, &zero)?
        }
        None => window.padded(tr, x, 0.0)?,
    };
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
    if let Some(c) = w.dim(0)?.as_const() {
        attrs.push(("channels", int(c)));
    }
    attrs.push(("kernel_size", ints(&window.kernel)));
    let y = match bytes {
        Some(bytes) => bytes.product(tr, &format!("qnn.conv{k}d"), [&x, w], attrs)?,
        None => tr.op(&format!("nn.conv{k}d"), &[&x, w], &attrs)?,
    };
    Ok(with_space(tr, &y, goal))
}

/// Returns the result with spatial extents known from elsewhere.
fn with_space(tr: &mut Tr<'_>, y: &Val, space: Option<Vec<Dim>>) -> Val {
    match space {
        Some(space) => {
            let dims = [&y.dims[..2], &space].concat();
            tr.matched(y, &dims)
        }
        None => y.clone(),
    }
}

/// Adds a bias to each channel.
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
        let total = match &given {
            Some(shape) => {
                let goal = shape[shape.len() - k + a];
                let Some(len) = x.dim(2 + a)?.as_const() else {
                    return unsupported(
                        "an output shape over an extent that is not known is not supported",
                    );
                };
                strides[a] * (len - 1) + more[a] + reach - goal
            }
            // The extent times the stride, for any extent.
            None if auto.starts_with("SAME") => more[a] + reach - strides[a],
            None => continue,
        };
        if total < 0 {
            // Too few: the missing part is added at the end.
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
    // The operator's output padding is less than a stride; the rest is zeros at the end.
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
    if let Some(c) = w.dim(1)?.as_const() {
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

/// Removes results of windows that start after the data, which count in no version of the operator.
fn without_late(tr: &mut Tr<'_>, n: &Node<'_>, y: &Val, x: &Val, window: &Window) -> R<Val> {
    if !n.flag("ceil_mode") {
        return Ok(y.clone());
    }
    let mut y = y.clone();
    for a in 0..window.kernel.len() {
        let (s, before) = (window.strides[a], window.before[a]);
        if window.behind[a] + s <= window.reach(a) {
            continue;
        }
        let starts = (x.dim(2 + a)? + (before + s - 1)).floordiv(&Dim::from(s));
        match (starts.as_const(), y.dim(2 + a)?.as_const()) {
            (Some(most), Some(have)) if have > most => y = tr.slice(&y, 2 + a, 0, most)?,
            (Some(_), Some(_)) => {}
            _ => {
                let shape = tr.shape_of(x)?;
                let len = tr.slice(&shape, 0, 2 + a as i64, 3 + a as i64)?;
                let len = tr.by("add", &len, (before + s - 1) as f64)?;
                let end = tr.by("floor_divide", &len, s as f64)?;
                let [zero, axis, one] = [0, 2 + a as i64, 1].map(|v| tr.vector(&[v]));
                let mut dims = y.dims.to_vec();
                dims[2 + a] = dims[2 + a].min(&starts);
                let cut = tr.op("dyn.slice", &[&y, &zero, &end, &axis, &one], &[])?;
                y = tr.matched(&cut, &dims);
            }
        }
    }
    Ok(y)
}

pub fn pool(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, kind: &str) -> R<Val> {
    let k = x.rank().saturating_sub(2);
    if !(1..=3).contains(&k) {
        return unsupported(format!(
            "pools of tensors of rank {} are not supported",
            x.rank()
        ));
    }
    let mut window = Window::read(n, x, kernel_attr(n)?)?;
    if window.open.is_some() {
        return pool_padded(tr, n, x, kind, &mut window);
    }
    let x = if n.flag("ceil_mode") {
        tr.known(x)
    } else {
        x.clone()
    };
    let own = n.flag("count_include_pad");
    let y = pool_of(tr, n, &x, kind, &window, own)?;
    without_late(tr, n, &y, &x, &window)
}

fn pool_of(
    tr: &mut Tr<'_>,
    n: &Node<'_>,
    x: &Val,
    kind: &str,
    window: &Window,
    padding_counts: bool,
) -> R<Val> {
    let mut attrs = vec![("pool_size", ints(&window.kernel))];
    attrs.push(("strides", ints(&window.strides)));
    if window.dilations.iter().any(|&d| d != 1) {
        attrs.push(("dilation", ints(&window.dilations)));
    }
    attrs.push(("padding", ints(&window.padding())));
    if n.flag("ceil_mode") {
        attrs.push(("ceil_mode", flag(true)));
    }
    if kind == "avg" && padding_counts {
        attrs.push(("count_include_pad", flag(true)));
    }
    let k = window.kernel.len();
    tr.op(&format!("nn.{kind}_pool{k}d"), &[x], &attrs)
}

/// Emits pooling whose padding is known only at run time. An average without padding is that of the
/// data divided by that of ones.
fn pool_padded(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, kind: &str, window: &mut Window) -> R<Val> {
    let x = tr.known(x);
    let lower = window.open;
    let fill = match (kind, x.elem.is_float()) {
        ("avg", _) => 0.0,
        (_, true) => f64::NEG_INFINITY,
        (_, false) => x.dtype().int_range().map_or(0.0, |(low, _)| low as f64),
    };
    let (padded, space) = window.padded(tr, &x, fill)?;
    let y = pool_of(tr, n, &padded, kind, window, true)?;
    let y = with_space(tr, &y, space);
    if kind != "avg" || n.flag("count_include_pad") {
        return Ok(y);
    }
    let one = tr.number(x.elem, 1.0);
    let ones = tr.full(&one, &x.dims.clone())?;
    window.open = lower;
    let (ones, space) = window.padded(tr, &ones, 0.0)?;
    let share = pool_of(tr, n, &ones, kind, window, true)?;
    let share = with_space(tr, &share, space);
    tr.div(&y, &share)
}

fn max_pool(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let y = pool(tr, n, &x, "max")?;
    if !n.wants(1) {
        return Ok(vec![y.into()]);
    }
    let window = Window::read(n, &x, kernel_attr(n)?)?;
    if window.open.is_some() {
        return unsupported("places of maxima under `auto_pad` over extents that are not known");
    }
    let attrs = [
        ("pool_size", ints(&window.kernel)),
        ("strides", ints(&window.strides)),
        ("dilation", ints(&window.dilations)),
        ("padding", ints(&window.padding())),
        ("ceil_mode", flag(n.flag("ceil_mode"))),
        ("column_major", flag(n.int("storage_order", 0) == 1)),
    ];
    let at = tr.op("nn.max_pool_positions", &[&x], &attrs)?;
    let at = without_late(tr, n, &at, &x, &window)?;
    Ok(vec![y.into(), at.into()])
}

fn max_unpool(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, at) = (n.t(0)?, n.t(1)?);
    let x = tr.known(&x);
    let window = Window::read(n, &x, kernel_attr(n)?)?;
    let mut dims = x.part(..2)?.to_vec();
    for a in 0..window.kernel.len() {
        let less = window.before[a] + window.behind[a];
        dims.push((x.dim(2 + a)? - 1) * window.strides[a] + (window.kernel[a] - less));
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

/// Emits the absolute value of each element to a power.
fn powered(tr: &mut Tr<'_>, x: &Val, p: f64) -> R<Val> {
    let a = tr.unary("abs", x)?;
    if p == 1.0 {
        return Ok(a);
    }
    tr.by("power", &a, p)
}

/// A sum over windows is their average, padding included, times the number of taps.
fn lp_pool(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let p = if n.opset < 2 {
        n.float("p", 2.0)
    } else {
        n.int("p", 2) as f64
    };
    let y = powered(tr, &x, p)?;
    let mut window = Window::read(n, &x, kernel_attr(n)?)?;
    let (y, space) = window.padded(tr, &y, 0.0)?;
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
    let mean = with_space(tr, &mean, space);
    let mean = without_late(tr, n, &mean, &x, &window)?;
    let sum = tr.by(
        "multiply",
        &mean,
        window.kernel.iter().product::<i64>() as f64,
    )?;
    Ok(vec![tr.by("power", &sum, 1.0 / p)?.into()])
}
