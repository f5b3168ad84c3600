//! Layouts, windows and padding of convolutions, for relations and computations alike.

use relax_sym::Dim;

use crate::{ComputeError, DTy, Layout, RelCx, RelResult, Subject, Te};

/// The spatial letters of `n` axes.
pub(super) fn spatial(n: usize) -> &'static str {
    &"DHW"[3 - n..]
}

/// The layouts of one call: as given, and the canonical ones they convert to.
pub(super) struct Layouts {
    pub data: Layout,
    pub kernel: Layout,
    pub out: Layout,
    pub canonical: Layout,
    pub canonical_kernel: Layout,
}

/// Returns whether a layout has this spelling.
fn is(layout: &Layout, text: &str) -> bool {
    Layout::parse(text).as_ref() == Some(layout)
}

impl Layouts {
    /// Reads the layout attributes; the canonical weight layout starts with `io`.
    pub(super) fn read(
        get: &dyn Fn(&str) -> String,
        n: usize,
        io: &str,
    ) -> Result<Layouts, (&'static str, String)> {
        let canonical = Layout::parse(&format!("NC{}", spatial(n))).expect("a layout");
        let canonical_kernel = Layout::parse(&format!("{io}{}", spatial(n))).expect("a layout");
        let parse = |name: &'static str, text: &str, like: &Layout, form: &str| {
            let layout = Layout::parse(text).filter(|l| l.convertible(like));
            layout.ok_or_else(|| {
                let message = format!("`{name}=\"{text}\"` is no layout of {form}{}", spatial(n));
                (name, message)
            })
        };
        let data = parse("data_layout", &get("data_layout"), &canonical, "NC")?;
        let kernel = parse(
            "kernel_layout",
            &get("kernel_layout"),
            &canonical_kernel,
            io,
        )?;
        let out = match get("out_layout") {
            text if text.is_empty() => data.clone(),
            text => parse("out_layout", &text, &canonical, "NC")?,
        };
        Ok(Layouts {
            data,
            kernel,
            out,
            canonical,
            canonical_kernel,
        })
    }
    /// Returns whether a kernel supports a 2-D convolution directly in these layouts, with channels
    /// last (`Some(true)`) or first. `depthwise`: the weight is (channels, multiplier, …);
    /// `single`: that multiplier is 1.
    pub(super) fn tuned(&self, depthwise: bool, single: bool) -> Option<bool> {
        if self.out != self.data {
            return None;
        }
        let images = is(&self.data, "NCHW") && is(&self.kernel, "OIHW");
        if images || is(&self.data, "NCW") && is(&self.kernel, "OIW") {
            return Some(false);
        }
        if is(&self.data, "NWC") && is(&self.kernel, "WIO") && (!depthwise || single) {
            return Some(true);
        }
        // The kernel's weight layout is (kh, kw, i, o). A depthwise weight has channels before
        // their multiplier there, as in `HWOI`; with a multiplier of 1 the element order is the
        // same.
        let last = match depthwise {
            false => is(&self.kernel, "HWIO"),
            true => is(&self.kernel, "HWOI") || single && is(&self.kernel, "HWIO"),
        };
        (is(&self.data, "NHWC") && last).then_some(true)
    }
    /// Returns whether a kernel supports windows over volumes that each channel has of its own
    /// directly in these layouts, as [`Layouts::tuned`].
    pub(super) fn tuned_volume(&self, single: bool) -> Option<bool> {
        if self.out != self.data {
            return None;
        }
        if is(&self.data, "NCDHW") && is(&self.kernel, "OIDHW") {
            return Some(false);
        }
        // With a multiplier of 1 the elements of both have the same order.
        let last = is(&self.kernel, "DHWIO") || is(&self.kernel, "DHWOI");
        (is(&self.data, "NDHWC") && last && single).then_some(true)
    }
    /// Returns whether a kernel supports a transposed convolution of images or lines directly in
    /// these layouts.
    pub(super) fn tuned_transpose(&self) -> bool {
        let images = is(&self.data, "NCHW") && is(&self.kernel, "IOHW");
        let lines = is(&self.data, "NCW") && is(&self.kernel, "IOW");
        (images || lines) && self.out == self.data
    }
    /// Reads them for a relation.
    pub(super) fn of_rel(cx: &RelCx<'_>, n: usize, io: &str) -> RelResult<Layouts> {
        let get = |name: &str| cx.attr(name).as_str().unwrap_or("").to_owned();
        match Layouts::read(&get, n, io) {
            Ok(l) => Ok(l),
            Err((name, message)) => cx.refuse(Subject::Attr(name), message),
        }
    }
    /// Reads them for a computation.
    pub(super) fn of_te(te: &Te<'_>, n: usize, io: &str) -> Result<Layouts, ComputeError> {
        Layouts::read(&|name| te.str(name).to_owned(), n, io).map_err(|e| e.1.into())
    }
}

/// Padding before and after each of some axes.
pub(super) type Pairs = Vec<(i64, i64)>;

/// Returns the padding before and after each of `n` axes, from TVM's forms: one number for all, one
/// for each axis, or those before all axes and then those after. `None` for other lengths.
pub(super) fn pairs(padding: &[i64], n: usize) -> Option<Pairs> {
    match padding.len() {
        1 => Some(vec![(padding[0], padding[0]); n]),
        l if l == n => Some(padding.iter().map(|&p| (p, p)).collect()),
        l if l == 2 * n => Some((0..n).map(|i| (padding[i], padding[n + i])).collect()),
        _ => None,
    }
}

/// Returns one number per axis, from TVM's forms: one for all, or one for each. Lists of other
/// lengths are returned unchanged.
pub(super) fn per_axis(values: Vec<i64>, n: usize) -> Vec<i64> {
    match values[..] {
        [one] => vec![one; n],
        _ => values,
    }
}

/// Returns the list-valued attribute of `n` numbers, which must all be at least `least`.
pub(super) fn steps(
    cx: &RelCx<'_>,
    name: &'static str,
    n: usize,
    least: i64,
) -> RelResult<Vec<i64>> {
    let values = per_axis(cx.ints(name)?.unwrap_or_default(), n);
    if values.len() != n {
        let text = format!(
            "`{name}` needs one number per spatial axis ({n}), not {}",
            values.len()
        );
        return cx.refuse(Subject::Attr(name), text);
    }
    if let Some(bad) = values.iter().find(|&&v| v < least) {
        return cx.refuse(
            Subject::Attr(name),
            format!("`{name}` must be at least {least}, not {bad}"),
        );
    }
    Ok(values)
}

/// The padding attribute as pairs.
pub(super) fn padding_of(cx: &RelCx<'_>, n: usize) -> RelResult<Pairs> {
    let values = cx.ints("padding")?.unwrap_or_default();
    match pairs(&values, n) {
        Some(p) if values.iter().all(|&v| v >= 0) => Ok(p),
        Some(_) => cx.refuse(Subject::Attr("padding"), "`padding` must not be negative"),
        None => {
            let text = format!(
                "`padding` needs 1, {n} or {} numbers, not {}",
                2 * n,
                values.len()
            );
            cx.refuse(Subject::Attr("padding"), text)
        }
    }
}

/// Returns the extents of a rank-checked argument in a canonical layout.
pub(super) fn canonical_arg(
    cx: &mut RelCx<'_>,
    i: usize,
    from: &Layout,
    to: &Layout,
) -> RelResult<(Vec<Dim>, DTy)> {
    let (dims, dtype) = cx.ranked(i)?;
    if dims.len() != from.rank() {
        let text = format!(
            "the layout asks for rank {}, the tensor has rank {}",
            from.rank(),
            dims.len()
        );
        return cx.refuse(Subject::Arg(i), text);
    }
    Ok((from.convert_dims(to, &dims), dtype))
}

/// Returns the number of elements that a window spans: `(k - 1) * dilation + 1`.
pub(super) fn reach(k: &Dim, dilation: i64) -> Dim {
    (k - &Dim::ONE) * Dim::from(dilation) + Dim::ONE
}
