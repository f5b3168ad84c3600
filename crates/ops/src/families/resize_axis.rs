//! Resampling along one axis by a factor, an extent and a region that are operands.
//!
//! Interpolation on a grid is separable, so that images and volumes of any rank are resized axis by
//! axis.

use relax_loops::{Ex, UnOp};
use relax_sym::Dim;
use relax_tensor::DType;

use super::util::{axis_attr, finish, need_scalar, shaped, word};
use super::util_te::{Done, clamp, set};
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const COORDINATES: &[&str] = &[
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
];

/// The family.
pub static OPS: &[OpDef] = &[OpDef::new(
    "image.resize_axis",
    "Resizes along one axis. Other axes are resized by further calls.",
    resize,
)
.inputs(&[
    input("data", "the input"),
    input("scale", "the factor, a scalar: that of coordinates, which may differ from that of the extents"),
    input("size", "the extent of the result, a scalar"),
    input("roi", "for `tf_crop_and_resize`, start and end of the region, between 0 and 1"),
])
.attrs(&[
    attr("axis", Int, Default::Required, "the axis"),
    attr("method", Str, Default::Str("linear"), "`nearest`, `linear` or `cubic`"),
    attr(
        "coordinate_transformation_mode",
        Str,
        Default::Str("half_pixel"),
        "how an output index becomes an input coordinate: `half_pixel`, `half_pixel_symmetric`, `pytorch_half_pixel`, `align_corners`, `asymmetric`, `tf_half_pixel_for_nn` or `tf_crop_and_resize`",
    ),
    attr(
        "rounding_method",
        Str,
        Default::Str("round_prefer_floor"),
        "how `nearest` rounds: `round_prefer_floor`, `round_prefer_ceil`, `floor` or `ceil`",
    ),
    attr("cubic_alpha", Float, Default::Float(-0.75), "the spline's parameter"),
    attr("exclude_outside", Bool, Default::Bool(false), "whether taps outside are left out"),
    attr("antialias", Bool, Default::Bool(false), "whether taps spread when the result is smaller"),
    attr("extrapolation_value", Float, Default::Float(0.0), "the value outside of the region"),
])
.fusion(Fusion::Injective)
.data_dependent()
.compute(resize_compute)];

fn resize(cx: &mut RelCx<'_>) -> RelResult {
    word(cx, "method", &["nearest", "linear", "cubic"])?;
    word(cx, "coordinate_transformation_mode", COORDINATES)?;
    word(
        cx,
        "rounding_method",
        &["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"],
    )?;
    need_scalar(cx, 1, "the factor")?;
    need_scalar(cx, 2, "the extent")?;
    let (roi, _) = shaped(cx, 3)?;
    if roi.is_some_and(|r| r.len() != 1) {
        return cx.refuse(Subject::Arg(3), "the region is a vector of start and end");
    }
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let axis = axis_attr(cx, "axis", dims.len())?;
    dims[axis] = Dim::ANY;
    finish(cx, dims, dtype)
}

fn f(v: f64) -> Ex {
    Ex::float(DType::F64, v)
}

/// The input coordinate of an output index.
fn coordinate(mode: &str, i: &Ex, extent: &Ex, target: &Ex, scale: &Ex, roi: (&Ex, &Ex)) -> Ex {
    let (x, n, goal) = (
        i.cast(DType::F64),
        extent.cast(DType::F64),
        target.cast(DType::F64),
    );
    let long = scale * &n;
    let half = (&x + f(0.5)) / scale - f(0.5);
    match mode {
        "align_corners" => {
            let at = &x * (&n - f(1.0)) / (&long - f(1.0));
            Ex::where_(&long.eq(1.0), &f(0.0), &at)
        }
        "asymmetric" => x / scale,
        "tf_half_pixel_for_nn" => (x + f(0.5)) / scale,
        "pytorch_half_pixel" => Ex::where_(&long.eq(1.0), &f(-0.5), &half),
        "half_pixel_symmetric" => &n / f(2.0) * (f(1.0) - goal / long) + half,
        "tf_crop_and_resize" => {
            let (start, end) = roi;
            let wide = end - start;
            let many = &x * &wide * (&n - f(1.0)) / (&long - f(1.0));
            let one = &wide * (&n - f(1.0)) / f(2.0);
            Ex::where_(&long.eq(1.0), &one, &many) + start * (&n - f(1.0))
        }
        _ => half,
    }
}

/// The weight of a tap at a distance.
fn weight(method: &str, alpha: f64, distance: &Ex) -> Ex {
    let d = distance.unary(UnOp::Abs);
    if method == "linear" {
        return (f(1.0) - d).max(0.0);
    }
    let (d2, a) = (&d * &d, alpha);
    let d3 = &d2 * &d;
    let near = f(a + 2.0) * &d3 - f(a + 3.0) * &d2 + f(1.0);
    let far = f(a) * &d3 - f(5.0 * a) * &d2 + f(8.0 * a) * &d - f(4.0 * a);
    let far = Ex::where_(&d.lt(2.0), &far, &f(0.0));
    Ex::where_(&d.le(1.0), &near, &far)
}

/// The index that `nearest` takes for a coordinate, as a float.
fn rounded(method: &str, at: &Ex) -> Ex {
    match method {
        "floor" => at.unary(UnOp::Floor),
        "ceil" => at.unary(UnOp::Ceil),
        "round_prefer_ceil" => (at + f(0.5)).unary(UnOp::Floor),
        _ => (at - f(0.5)).unary(UnOp::Ceil),
    }
}

/// The taps around a coordinate.
struct Taps {
    /// What distances are multiplied by before they are weighed.
    dense: Ex,
    /// The first one, from the index at or below the coordinate.
    first: Ex,
    count: Ex,
}

impl Taps {
    /// Taps `reach` to both sides; over a smaller result they spread by the factor.
    fn new(reach: i64, spread: Option<&Ex>) -> Taps {
        let Some(scale) = spread else {
            return Taps {
                dense: f(1.0),
                first: Ex::idx(1 - reach),
                count: Ex::idx(2 * reach),
            };
        };
        let dense = scale.min(1.0);
        let first = ((f(-1.0) * f(reach as f64)) / &dense)
            .unary(UnOp::Floor)
            .cast(DType::I64);
        let count = Ex::idx(2) - &first * 2;
        Taps {
            dense,
            first,
            count,
        }
    }
}

fn resize_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let scale = te.arg(1).scalar().cast(DType::F64);
    // An empty axis stays empty.
    let none = x.shape[axis].eq(0i64);
    let target = te.arg(2).scalar().cast(DType::I64);
    let target = Ex::where_(&none, &Ex::idx(0), &target);
    let region = te.arg(3);
    let roi = [0, 1].map(|k| region.at(&[Ex::idx(k)]).cast(DType::F64));
    let method = te.str("method").to_owned();
    let mode = te.str("coordinate_transformation_mode").to_owned();
    let rounding = te.str("rounding_method").to_owned();
    let alpha = te.float("cubic_alpha")?;
    let (exclude, spread) = (te.flag("exclude_outside"), te.flag("antialias"));
    let outside = te.float("extrapolation_value")?;
    let extent = x.shape[axis].clone();
    let shape = set(&x.shape, axis, target.clone());
    let at = |i: &[Ex]| {
        coordinate(
            &mode,
            &i[axis],
            &extent,
            &target,
            &scale,
            (&roi[0], &roi[1]),
        )
    };
    let cropped = |at: &Ex, value: Ex| {
        if mode != "tf_crop_and_resize" {
            return value;
        }
        let beyond = at.lt(0.0) | at.gt((&extent - 1).cast(DType::F64));
        Ex::where_(&beyond, &Ex::float(value.dtype(), outside), &value)
    };
    if method == "nearest" {
        let y = te.compute("resize", &shape, |i| {
            let at = at(i);
            let from = clamp(&rounded(&rounding, &at).cast(DType::I64), &extent);
            cropped(&at, x.at(&set(i, axis, from)))
        });
        te.output(&y);
        return Ok(());
    }
    let reach = if method == "linear" { 1 } else { 2 };
    // Positions and weights do not depend on the other axes: they are computed once for each index.
    let Taps {
        dense,
        first,
        count,
    } = Taps::new(reach, spread.then_some(&scale));
    let table = [target.clone(), count.clone()];
    // Floats of up to 32 bits are summed as float32, of which vectors hold twice as many.
    let sums = match x.dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        _ => DType::F64,
    };
    let places = te.temp("places", DType::I64, &table);
    let weights = te.temp("weights", sums, &table);
    let whole = te.temp("whole", sums, std::slice::from_ref(&target));
    te.nest(|n| {
        n.for_(target.clone(), |n, j| {
            let mut index = vec![Ex::idx(0); axis + 1];
            index[axis] = j.clone();
            let at = n.let_(at(&index));
            let base = n.let_(at.unary(UnOp::Floor).cast(DType::I64));
            let sum = n.cell(f(0.0));
            n.for_(count.clone(), |n, k| {
                let place = n.let_(&base + &first + k);
                let distance = (place.cast(DType::F64) - &at) * &dense;
                let w = weight(&method, alpha, &distance);
                let w = match exclude {
                    true => {
                        let inside = place.ge(0i64) & place.lt(&extent);
                        Ex::where_(&inside, &w, &f(0.0))
                    }
                    false => w,
                };
                let w = n.let_(w);
                let tap = [j.clone(), k.clone()];
                n.store(&places, &tap, clamp(&place, &extent));
                n.store(&weights, &tap, w.cast(sums));
                n.set(&sum, sum.scalar() + w);
            });
            n.store(&whole, std::slice::from_ref(j), sum.scalar().cast(sums));
        });
    });
    // The contribution of one tap to an element.
    let part = |i: &[Ex], k: &Ex| {
        let tap = [i[axis].clone(), k.clone()];
        weights.at(&tap) * x.at(&set(i, axis, places.at(&tap))).cast(sums)
    };
    let value = |i: &[Ex], sum: Ex| {
        let value = match exclude || spread {
            true => sum / whole.at(std::slice::from_ref(&i[axis])),
            false => sum,
        };
        cropped(&at(i), value).cast(x.dtype)
    };
    if !spread {
        let y = te.compute("resize", &shape, |i| {
            let sum =
                (1..2 * reach).fold(part(i, &Ex::idx(0)), |sum, k| sum + part(i, &Ex::idx(k)));
            value(i, sum)
        });
        te.output(&y);
        return Ok(());
    }
    let y = te.temp("resize", x.dtype, &shape);
    te.nest(|n| {
        n.grid(&shape, |n, i| {
            let sum = n.cell(Ex::float(sums, 0.0));
            n.for_(count, |n, k| n.set(&sum, sum.scalar() + part(i, k)));
            n.store(&y, i, value(i, sum.scalar()));
        });
    });
    te.output(&y);
    Ok(())
}
