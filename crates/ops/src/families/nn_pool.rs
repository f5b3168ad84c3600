//! Pooling: over windows, global, and to a given output size.

use relax_loops::{Combiner, Ex, Hint, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::nn_conv::{numbers, padding_of, pairs, reach, steps};
use super::util_te::{narrowed, widened};
use crate::{
    AttrDef, AttrTy, ComputeError, Default, Former, Fusion, Input, Layout, OpDef, RelCx, RelResult,
    Subject, Te, attr, input,
};

const DATA: &[Input] = &[input("data", "the input, in its layout")];
const CEIL: AttrDef = attr(
    "ceil_mode",
    AttrTy::Bool,
    Default::Bool(false),
    "whether a last partial window counts",
);
const COUNT_PAD: AttrDef = attr(
    "count_include_pad",
    AttrTy::Bool,
    Default::Bool(false),
    "whether a mean counts padding",
);
const OUT_LAYOUT: AttrDef = attr(
    "out_layout",
    AttrTy::Str,
    Default::Str(""),
    "layout of the result; that of the data where empty",
);

macro_rules! window_attrs {
    ($ones:expr, $zeros:expr, $layout:expr $(, $more:expr)*) => {
        &[
            attr("pool_size", AttrTy::Ints, Default::Required, "extents of the window"),
            attr("strides", AttrTy::Ints, Default::Ints($ones), "steps along the spatial axes"),
            attr("dilation", AttrTy::Ints, Default::Ints($ones), "distance of taps along the spatial axes"),
            attr("padding", AttrTy::Ints, Default::Ints($zeros), "padding before and after each spatial axis"),
            attr("layout", AttrTy::Str, Default::Str($layout), "layout of the data"),
            OUT_LAYOUT,
            CEIL,
            $($more,)*
        ]
    };
}

macro_rules! adaptive_attrs {
    ($layout:expr) => {
        &[
            attr(
                "output_size",
                AttrTy::Ints,
                Default::Ints(&[]),
                "extents of the result; one number for all; those of the data where empty",
            ),
            attr(
                "layout",
                AttrTy::Str,
                Default::Str($layout),
                "layout of the data",
            ),
            OUT_LAYOUT,
        ]
    };
}

/// The attributes of average pooling over two axes, shared with the quantised form.
pub(super) const POOL2D: &[AttrDef] = window_attrs!(&[1, 1], &[0, 0], "NCHW", COUNT_PAD);

const GLOBAL: &[AttrDef] = &[
    attr(
        "layout",
        AttrTy::Str,
        Default::Str("NCHW"),
        "layout of the data",
    ),
    OUT_LAYOUT,
];

macro_rules! window {
    ($name:literal, $n:literal, max, $attrs:expr) => {
        OpDef::new($name, "The maximum over each window.", |cx| {
            window_rel(cx, $n)
        })
        .layout(super::layout_rules::image)
        .affine_ordered(super::affine_rules::selection)
        .in_relax(super::relax_rules::LAYOUTS[$n - 1])
        .inputs(DATA)
        .attrs($attrs)
        .fusion(Fusion::OutElementwise)
        .compute(|te| window(te, $n, true))
    };
    ($name:literal, $n:literal, avg, $attrs:expr) => {
        OpDef::new($name, "The mean over each window.", |cx| window_rel(cx, $n))
            .layout(super::layout_rules::image)
            .in_relax(super::relax_rules::LAYOUTS[$n - 1])
            .inputs(DATA)
            .attrs($attrs)
            .fusion(Fusion::OutElementwise)
            .compute(|te| window(te, $n, false))
    };
}

macro_rules! adaptive {
    ($name:literal, $n:literal, $max:literal, $layout:literal $(, $hook:ident)?) => {
        OpDef::new(
            $name,
            "Pooling to a given output size: windows tile the input as evenly as they can.",
            |cx| adaptive_rel(cx, $n),
        )
        $(.$hook())?
        .layout(super::layout_rules::image)
        .in_relax(super::relax_rules::LAYOUTS[$n - 1])
        .inputs(DATA)
        .attrs(adaptive_attrs!($layout))
        .fusion(Fusion::OutElementwise)
        .compute(|te| adaptive(te, $n, $max))
    };
}

/// The family.
pub static OPS: &[OpDef] = &[
    window!("nn.max_pool1d", 1, max, window_attrs!(&[1], &[0], "NCW"))
        .hinted(super::hinted_windows::max_pool1d),
    window!(
        "nn.max_pool2d",
        2,
        max,
        window_attrs!(&[1, 1], &[0, 0], "NCHW")
    )
    .gradient(super::gradients::max_pool2d)
    .hinted(super::hinted_windows::max_pool2d)
    .rounds_once(),
    window!(
        "nn.max_pool3d",
        3,
        max,
        window_attrs!(&[1, 1, 1], &[0, 0, 0], "NCDHW")
    ),
    window!(
        "nn.avg_pool1d",
        1,
        avg,
        window_attrs!(&[1], &[0], "NCW", COUNT_PAD)
    )
    .affine_rule(super::affine_totals::window_mean)
    .hinted(super::hinted_windows::avg_pool1d),
    // Relax also has the padding flag for maximum pooling, where it has no effect.
    window!(
        "relax.nn.max_pool1d",
        1,
        max,
        window_attrs!(&[1], &[0], "NCW", COUNT_PAD)
    ),
    window!("relax.nn.max_pool2d", 2, max, POOL2D).gradient(super::gradients::max_pool2d),
    window!(
        "relax.nn.max_pool3d",
        3,
        max,
        window_attrs!(&[1, 1, 1], &[0, 0, 0], "NCDHW", COUNT_PAD)
    ),
    window!("nn.avg_pool2d", 2, avg, POOL2D)
        .affine_rule(super::affine_totals::window_mean)
        .hinted(super::hinted_windows::avg_pool2d),
    window!(
        "nn.avg_pool3d",
        3,
        avg,
        window_attrs!(&[1, 1, 1], &[0, 0, 0], "NCDHW", COUNT_PAD)
    ),
    adaptive!("nn.adaptive_max_pool1d", 1, true, "NCW"),
    adaptive!("nn.adaptive_max_pool2d", 2, true, "NCHW")
        .former(&[Former::name("contrib.adaptive_max_pool2d", 6)])
        .cost(super::costs::tiled),
    adaptive!("nn.adaptive_max_pool3d", 3, true, "NCDHW"),
    adaptive!("nn.adaptive_avg_pool1d", 1, false, "NCW", full_precision),
    adaptive!("nn.adaptive_avg_pool2d", 2, false, "NCHW", full_precision)
        .former(&[Former::name("contrib.adaptive_avg_pool2d", 6)])
        .cost(super::costs::tiled),
    adaptive!("nn.adaptive_avg_pool3d", 3, false, "NCDHW", full_precision),
    OpDef::new(
        "nn.global_max_pool2d",
        "The maximum of each channel.",
        |cx| global_rel(cx, 2),
    )
    .affine_ordered(super::affine_rules::selection)
    .layout(super::layout_rules::image)
    .inputs(DATA)
    .attrs(GLOBAL)
    .fusion(Fusion::OutElementwise)
    .compute(|te| global(te, 2, true)),
    OpDef::new("nn.global_avg_pool2d", "The mean of each channel.", |cx| {
        global_rel(cx, 2)
    })
    .gradient(super::gradients_parts::global_avg_pool2d)
    .affine_rule(super::affine_totals::global_mean)
    .full_precision()
    .layout(super::layout_rules::image)
    .inputs(DATA)
    .attrs(GLOBAL)
    .fusion(Fusion::OutElementwise)
    .compute(|te| global(te, 2, false)),
];

/// Returns the positions of the last `n` of D, H, W in a layout; `None` where one is missing or
/// split.
fn spatial_axes(layout: &str, n: usize) -> Option<Vec<usize>> {
    let layout = Layout::parse(layout)?;
    let whole = |c: char| {
        (layout.factor(c) == 1)
            .then(|| layout.position(c))
            .flatten()
    };
    "DHW"[3 - n..].chars().map(whole).collect()
}

fn axes_rel(cx: &RelCx<'_>, n: usize, rank: usize) -> RelResult<Vec<usize>> {
    let text = cx.attr("layout").as_str().unwrap_or("");
    match spatial_axes(text, n) {
        Some(axes) => match crate::Layout::parse(text).map(|l| l.rank()) {
            Some(wanted) if wanted != rank => {
                let message = format!(
                    "layout `{text}` asks for rank {wanted}, but the tensor has rank {rank}"
                );
                cx.refuse(Subject::Arg(0), message)
            }
            _ => Ok(axes),
        },
        None => {
            let message = format!(
                "`layout=\"{text}\"` must have the unsplit axes {}",
                &"DHW"[3 - n..]
            );
            cx.refuse(Subject::Attr("layout"), message)
        }
    }
}

pub(super) fn window_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let (mut dims, dtype) = cx.ranked(0)?;
    let axes = axes_rel(cx, n, dims.len())?;
    let size = steps(cx, "pool_size", n, 1)?;
    let (strides, dilation) = (steps(cx, "strides", n, 1)?, steps(cx, "dilation", n, 1)?);
    let padding = padding_of(cx, n)?;
    let ceil = cx.flag("ceil_mode");
    for (i, &axis) in axes.iter().enumerate() {
        if dims[axis].is_any() {
            continue;
        }
        let window = reach(&Dim::from(size[i]), dilation[i]);
        let pad = Dim::from(padding[i].0.saturating_add(padding[i].1));
        let padded = &dims[axis] + &pad;
        cx.require_at_least(
            &padded,
            &window,
            Subject::Attr("pool_size"),
            "the window lies within the padded axis",
            |_, _| format!("the window is larger than the padded axis {axis}"),
        )?;
        let mut room = padded - window;
        if ceil {
            room = room + Dim::from(strides[i] - 1);
        }
        dims[axis] = room.floordiv(&Dim::from(strides[i])) + Dim::ONE;
    }
    cx.set_tensor(dims, dtype)
}

/// Returns the maximum of no elements.
fn lowest(dtype: DType) -> Ex {
    match dtype.int_range() {
        Some((least, _)) => Ex::int(dtype, least as i64),
        None if dtype == DType::F64 => Ex::float(dtype, f64::MIN),
        None if dtype == DType::F16 => Ex::float(dtype, -65504.0),
        None => Ex::float(dtype, f64::from(f32::MIN)),
    }
}

/// `x / count`: truncating on integers, as TVM does.
fn divided(x: &Ex, count: &Ex) -> Ex {
    x / count.cast(x.dtype())
}

fn window(te: &mut Te<'_>, n: usize, max: bool) -> Result<(), ComputeError> {
    let given = te.arg(0);
    let nhwc = te.str("layout") == "NHWC";
    let layout = nhwc || matches!(te.str("layout"), "NCHW" | "NCW");
    // A mean that counts padding counts none beyond it.
    let within = max || !te.flag("ceil_mode") || !te.flag("count_include_pad");
    // Lines with large strides: sorting their elements by remainders, as the kernel does, costs
    // more than the windows.
    let short = n == 2 || numbers(te, "strides", n).iter().all(|&s| s <= 2);
    let tuned = n <= 2 && layout && within && short;
    // The kernel is for float32, which narrow floats become as whole arrays.
    let wide = tuned.then(|| widened(te, &given));
    let x = wide.unwrap_or_else(|| given.clone());
    let y = window_of(te, &x, n, max)?;
    if tuned {
        // A line is an image of one row.
        let pair = |te: &Te<'_>, name: &str, one: i64| {
            let given = numbers(te, name, n);
            [if n == 2 { given[0] } else { one }, given[n - 1]]
        };
        let padding = pairs(&te.ints("padding").unwrap_or_default(), n)
            .ok_or("`padding` has a wrong length")?;
        let above = if n == 2 { padding[0] } else { (0, 0) };
        let beside = padding[n - 1];
        let hint = Hint::Pool2d {
            data: x.buf,
            nhwc,
            window: pair(te, "pool_size", 1),
            strides: pair(te, "strides", 1),
            padding: [above.0, beside.0, above.1, beside.1],
            dilation: pair(te, "dilation", 1),
            max,
            count_include_pad: te.flag("count_include_pad"),
        };
        te.program.hints.push((y.buf, hint));
    }
    let y = narrowed(te, &y, given.dtype);
    te.output(&y);
    Ok(())
}

/// Widens padded rows until all elements are whole steps along one: short rows make a long one then.
fn in_whole_steps(padded: &mut [Ex], axes: &[usize], step: i64) {
    let all = axes
        .iter()
        .try_fold(1i64, |all, &axis| all.checked_mul(padded[axis].as_int()?));
    if all.is_some_and(|n| n % step != 0) {
        let last = &mut padded[axes[axes.len() - 1]];
        *last = Ex::idx(last.as_int().map_or(0, |n| n + (-n).rem_euclid(step)));
    }
}

/// Builds the maximum or the mean over each window of `x`, by the attributes of pooling.
pub(super) fn window_of(
    te: &mut Te<'_>,
    x: &TensorRef,
    n: usize,
    max: bool,
) -> Result<TensorRef, ComputeError> {
    let axes = spatial_axes(te.str("layout"), n).ok_or("the layout has no such axes")?;
    let size = numbers(te, "pool_size", n);
    let (strides, dilation) = (numbers(te, "strides", n), numbers(te, "dilation", n));
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), n).ok_or("`padding` has a wrong length")?;
    let ceil = te.flag("ceil_mode");
    let mut shape = x.shape.clone();
    // How far windows reach beyond the padding: where the extent is known, often not at all.
    let mut beyond = vec![0; n];
    for (i, &axis) in axes.iter().enumerate() {
        let extra = if ceil { strides[i] - 1 } else { 0 };
        let reach = (size[i] - 1) * dilation[i] + 1;
        let room = &x.shape[axis] + (padding[i].0 + padding[i].1 + extra - reach);
        shape[axis] = room.floor_div(strides[i]) + 1;
        beyond[i] = match (shape[axis].as_int(), room.as_int()) {
            (Some(count), Some(room)) => ((count - 1) * strides[i] - room + extra).max(0),
            _ => extra,
        };
    }
    let ceil = beyond.iter().any(|&b| b > 0);
    let fill = if max {
        lowest(x.dtype)
    } else {
        Ex::int(x.dtype, 0)
    };
    let p = if ceil || padding.iter().any(|&p| p != (0, 0)) {
        let mut padded = x.shape.clone();
        for (i, &axis) in axes.iter().enumerate() {
            padded[axis] = &x.shape[axis] + (padding[i].0 + padding[i].1 + beyond[i]);
        }
        in_whole_steps(&mut padded, &axes, strides[n - 1]);
        te.compute("pad", &padded, |at| {
            let mut from = at.to_vec();
            let mut inside = Ex::bool(true);
            for (i, &axis) in axes.iter().enumerate() {
                from[axis] = &at[axis] - padding[i].0;
                inside = inside & from[axis].ge(0i64) & from[axis].lt(&x.shape[axis]);
            }
            Ex::where_(&inside, &x.at(&from), &fill)
        })
    } else {
        x.clone()
    };
    let over: Vec<Ex> = size.iter().map(|&k| Ex::idx(k)).collect();
    let combiner = if max { Combiner::Max } else { Combiner::Sum };
    let pooled = te.reduce("pool", &shape, &over, combiner, |i, r| {
        let mut at = i.to_vec();
        for (k, &axis) in axes.iter().enumerate() {
            at[axis] = &i[axis] * strides[k] + &r[k] * dilation[k];
        }
        p.at(&at)
    });
    let y = if max {
        pooled
    } else {
        let include = te.flag("count_include_pad");
        let within = padding.iter().all(|&p| p == (0, 0)) || include;
        if within && !ceil {
            let count = Ex::idx(size.iter().product::<i64>().max(1));
            return Ok(te.compute("pool_avg", &shape, |i| divided(&pooled.at(i), &count)));
        }
        // The number of elements of a window depends only on its position in the image.
        let places: Vec<Ex> = axes.iter().map(|&axis| shape[axis].clone()).collect();
        let counts = te.compute("pool_count", &places, |i| {
            let mut count = Ex::idx(1);
            for (k, &axis) in axes.iter().enumerate() {
                let d = dilation[k];
                let start = &i[k] * strides[k] - padding[k].0;
                let last = &start + (size[k] - 1) * d;
                count = if include {
                    let end = last.min(&x.shape[axis] + (padding[k].1 - 1));
                    count * ((end - start).floor_div(d) + 1)
                } else {
                    let skipped = (Ex::idx(d - 1) - &start).floor_div(d).max(0i64);
                    let end = last.min(&x.shape[axis] - 1);
                    count * ((end - (start + skipped * d)).floor_div(d) + 1)
                };
            }
            count.max(1i64).cast(x.dtype)
        });
        te.compute("pool_avg", &shape, |i| {
            let place: Vec<Ex> = axes.iter().map(|&axis| i[axis].clone()).collect();
            pooled.at(i) / counts.at(&place)
        })
    };
    Ok(y)
}

fn adaptive_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let (mut dims, dtype) = cx.ranked(0)?;
    let axes = axes_rel(cx, n, dims.len())?;
    let size = cx.ints("output_size")?.unwrap_or_default();
    if size.len() > n || n == 3 && size.len() == 2 {
        let text = format!(
            "`output_size` needs at most {n} numbers, not {}",
            size.len()
        );
        return cx.refuse(Subject::Attr("output_size"), text);
    }
    if size.iter().any(|&s| s < 1) {
        return cx.refuse(
            Subject::Attr("output_size"),
            "`output_size` must be positive",
        );
    }
    for (i, &axis) in axes.iter().enumerate() {
        if let Some(&s) = if size.len() == 1 {
            size.first()
        } else {
            size.get(i)
        } {
            dims[axis] = Dim::from(s);
        }
    }
    cx.set_tensor(dims, dtype)
}

fn adaptive(te: &mut Te<'_>, n: usize, max: bool) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let axes = spatial_axes(te.str("layout"), n).ok_or("the layout has no such axes")?;
    let size = te.ints("output_size").unwrap_or_default();
    let mut shape = x.shape.clone();
    for (i, &axis) in axes.iter().enumerate() {
        if let Some(&s) = if size.len() == 1 {
            size.first()
        } else {
            size.get(i)
        } {
            shape[axis] = Ex::idx(s);
        }
    }
    let y = tiled(te, &x, &axes, &shape, max);
    te.output(&y);
    Ok(())
}

/// How the windows of an axis of `n` elements lie, of which there are `m`.
enum Tiles {
    /// All have so many elements, one beside the other.
    Even(i64),
    /// They have so many elements at most, and may overlap.
    Uneven(i64),
    /// Extents are not known.
    Open,
}

impl Tiles {
    fn of(n: &Ex, m: &Ex) -> Self {
        let (Some(n), Some(m)) = (n.as_int(), m.as_int().filter(|&m| m > 0)) else {
            return Self::Open;
        };
        if n % m == 0 {
            return Self::Even(n / m);
        }
        let width = |o: i64| ((o + 1) * n + m - 1) / m - o * n / m;
        Self::Uneven((0..m).map(width).max().unwrap_or(1))
    }
}

/// Pools `x` to `shape`: output index `o` of `m` covers `[o * n / m, ceil((o + 1) * n / m))` of an
/// axis of `n`. Windows have the width of the widest, in which narrower ones are bounded.
fn tiled(te: &mut Te<'_>, x: &TensorRef, axes: &[usize], shape: &[Ex], max: bool) -> TensorRef {
    let from = |i: &Ex, axis: usize| (i * &x.shape[axis]).floor_div(&shape[axis]);
    let to =
        |i: &Ex, axis: usize| ((i + 1) * &x.shape[axis] + &shape[axis] - 1).floor_div(&shape[axis]);
    let tiles: Vec<Tiles> = (axes.iter())
        .map(|&a| Tiles::of(&x.shape[a], &shape[a]))
        .collect();
    let fill = if max {
        lowest(x.dtype)
    } else {
        Ex::int(x.dtype, 0)
    };
    let over: Vec<Ex> = (tiles.iter().zip(axes))
        .map(|(tiles, &a)| match tiles {
            Tiles::Even(width) | Tiles::Uneven(width) => Ex::idx(*width),
            Tiles::Open => (&x.shape[a] + &shape[a] - 1).floor_div(&shape[a]) + 1,
        })
        .collect();
    let combiner = if max { Combiner::Max } else { Combiner::Sum };
    let pooled = te.reduce("pool", shape, &over, combiner, |i, r| {
        let (mut at, mut inside) = (i.to_vec(), Ex::bool(true));
        for (k, &axis) in axes.iter().enumerate() {
            at[axis] = match tiles[k] {
                Tiles::Even(width) => &i[axis] * width + &r[k],
                Tiles::Uneven(_) | Tiles::Open => {
                    // The widest window; narrower ones skip the rest.
                    let at = from(&i[axis], axis) + &r[k];
                    inside = inside & at.lt(to(&i[axis], axis));
                    at
                }
            };
        }
        Ex::where_(&inside, &x.at(&at), &fill)
    });
    if max {
        return pooled;
    }
    let even = (tiles.iter()).try_fold(1, |count, tiles| match tiles {
        Tiles::Even(width) => Some(count * width),
        _ => None,
    });
    if let Some(count) = even {
        let count = Ex::idx(count);
        return te.compute("pool_avg", shape, |i| divided(&pooled.at(i), &count));
    }
    let places: Vec<Ex> = axes.iter().map(|&a| shape[a].clone()).collect();
    let counts = te.compute("pool_count", &places, |i| {
        let widths = (i.iter().zip(axes)).map(|(i, &a)| to(i, a) - from(i, a));
        let count = widths.fold(Ex::idx(1), |count, width| count * width);
        count.cast(x.dtype)
    });
    te.compute("pool_avg", shape, |i| {
        let place: Vec<Ex> = axes.iter().map(|&a| i[a].clone()).collect();
        pooled.at(i) / counts.at(&place)
    })
}

fn global_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let (mut dims, dtype) = cx.ranked(0)?;
    for axis in axes_rel(cx, n, dims.len())? {
        dims[axis] = Dim::ONE;
    }
    cx.set_tensor(dims, dtype)
}

fn global(te: &mut Te<'_>, n: usize, max: bool) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let axes = spatial_axes(te.str("layout"), n).ok_or("the layout has no such axes")?;
    let mut shape = x.shape.clone();
    for &axis in &axes {
        shape[axis] = Ex::idx(1);
    }
    let y = tiled(te, &x, &axes, &shape, max);
    te.output(&y);
    Ok(())
}
