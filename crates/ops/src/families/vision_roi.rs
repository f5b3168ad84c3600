//! Pooling over regions of an image.

use relax_loops::{Combiner, Ex, TensorRef, UnOp};
use relax_sym::Dim;
use relax_tensor::DType;

use super::util::{finish, word};
use super::util_te::Done;
use super::vision_nms::of_rank;
use crate::AttrTy::{Bool, Float, Int, Ints, Str};
use crate::{AttrDef, Default, Fusion, Input, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const INPUTS: &[Input] = &[
    input("data", "the images, in their layout"),
    input(
        "rois",
        "(regions, 5): image, left, top, right, bottom of each",
    ),
];
const SIZE: AttrDef = attr(
    "pooled_size",
    Ints,
    Default::Required,
    "height and width of the result",
);
const SCALE: AttrDef = attr(
    "spatial_scale",
    Float,
    Default::Required,
    "from coordinates of regions to those of the data",
);
const LAYOUT: AttrDef = attr(
    "layout",
    Str,
    Default::Str("NCHW"),
    "layout of the data: \"NCHW\" or \"NHWC\"",
);

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "vision.roi_align",
        "Each region cut into bins; of each bin, the mean or maximum of interpolated samples.",
        roi,
    )
    .layout(super::layout_rules::whole_image)
    .inputs(INPUTS)
    .attrs(&[
        SIZE,
        SCALE,
        attr(
            "sample_ratio",
            Int,
            Default::Int(-1),
            "samples along each side of a bin; as many as it has elements where not positive",
        ),
        LAYOUT,
        attr(
            "mode",
            Str,
            Default::Str("avg"),
            "\"avg\": the mean, \"max\": the maximum, \"max_weighted\": the greatest of the elements around the samples, \
             each by its weight",
        ),
        attr(
            "aligned",
            Bool,
            Default::Bool(false),
            "whether regions may have sides of less than one element",
        ),
    ])
    .meta_attrs("relay.attrs.ROIAlignAttrs")
    .fusion(Fusion::OutElementwise)
    .compute(roi_align),
    OpDef::new(
        "vision.roi_pool",
        "Each region cut into bins; of each bin, the maximum.",
        roi,
    )
    .layout(super::layout_rules::whole_image)
    .inputs(INPUTS)
    .attrs(&[SIZE, SCALE, LAYOUT])
    .meta_attrs("relay.attrs.ROIPoolAttrs")
    .fusion(Fusion::OutElementwise)
    .compute(roi_pool),
];

fn roi(cx: &mut RelCx<'_>) -> RelResult {
    let (data, rois) = (of_rank(cx, 0, 4)?, of_rank(cx, 1, 2)?);
    if rois[1].as_const().is_some_and(|n| n < 5) {
        return cx.refuse(
            Subject::Arg(1),
            "each region has 5 numbers: image, left, top, right, bottom",
        );
    }
    let layout = word(cx, "layout", &["NCHW", "NHWC"])?;
    if !cx.attr("mode").is_none() {
        word(cx, "mode", &["avg", "max", "max_weighted"])?;
    }
    let size = cx.ints("pooled_size")?.unwrap_or_default();
    let [h, w] = size[..] else {
        return cx.refuse(
            Subject::Attr("pooled_size"),
            "`pooled_size` needs two numbers, height and width",
        );
    };
    if h < 1 || w < 1 {
        return cx.refuse(
            Subject::Attr("pooled_size"),
            format!("`pooled_size` must be positive, not {h} by {w}"),
        );
    }
    let (h, w) = (Dim::from(h), Dim::from(w));
    let out = if layout == "NCHW" {
        vec![rois[0].clone(), data[1].clone(), h, w]
    } else {
        vec![rois[0].clone(), h, w, data[3].clone()]
    };
    let dtype = cx.tensor(0)?.dtype;
    finish(cx, out, dtype)
}

/// The operands and parameters of both operators.
struct Regions {
    data: TensorRef,
    rois: TensorRef,
    /// Regions, channels, height and width of the result.
    extents: [Ex; 4],
    height: Ex,
    width: Ex,
    nchw: bool,
    scale: Ex,
}

impl Regions {
    fn new(te: &Te<'_>) -> Result<Regions, crate::ComputeError> {
        let (data, rois) = (te.arg(0), te.arg(1));
        let nchw = te.str("layout") != "NHWC";
        let size = te.ints("pooled_size").unwrap_or_default();
        let [h, w] = size[..] else {
            return Err("`pooled_size` needs two numbers".into());
        };
        let (c, y, x) = if nchw { (1, 2, 3) } else { (3, 1, 2) };
        Ok(Regions {
            extents: [
                rois.shape[0].clone(),
                data.shape[c].clone(),
                Ex::idx(h),
                Ex::idx(w),
            ],
            height: data.shape[y].clone(),
            width: data.shape[x].clone(),
            scale: Ex::float(rois.dtype, te.float("spatial_scale")?),
            data,
            rois,
            nchw,
        })
    }
    /// Returns the index of an element, with channels in the position that the layout gives them.
    fn index(&self, n: &Ex, c: &Ex, y: &Ex, x: &Ex) -> [Ex; 4] {
        if self.nchw {
            [n.clone(), c.clone(), y.clone(), x.clone()]
        } else {
            [n.clone(), y.clone(), x.clone(), c.clone()]
        }
    }
    fn result(&self, te: &mut Te<'_>) -> TensorRef {
        let [n, c, h, w] = &self.extents;
        te.temp("pooled", self.data.dtype, &self.index(n, c, h, w))
    }
    /// A number of a region.
    fn field(&self, r: &Ex, k: i64) -> Ex {
        self.rois.at(&[r.clone(), Ex::idx(k)])
    }
}

/// One axis of regions: where they begin, and the extents of their bins.
struct Side {
    start: Ex,
    bin: Ex,
}

impl Regions {
    /// The axis whose ends are two fields of a region `r`, cut in so many bins.
    fn side(&self, r: &Ex, (from, to): (i64, i64), bins: &Ex, aligned: bool) -> Side {
        let start = self.field(r, from) * &self.scale;
        let extent = self.field(r, to) * &self.scale - &start;
        let extent = if aligned { extent } else { extent.max(1i64) };
        let bin = extent / bins.cast(self.rois.dtype);
        Side { start, bin }
    }
}

/// The position of sample `i` of `of` in a bin.
fn sample(side: &Side, bins: &Ex, i: &Ex, of: &Ex) -> Ex {
    let t = side.bin.dtype();
    let part = (i.cast(t) + Ex::float(t, 0.5)) * &side.bin / of.cast(t);
    &side.start + &(bins.cast(t) * &side.bin) + part
}

/// A position within the image, as its neighbouring elements and how near the second one is. `hold`
/// keeps what is used several times.
fn around(v: &Ex, extent: &Ex, hold: &mut dyn FnMut(Ex) -> Ex) -> [Ex; 3] {
    let v = v.max(0i64);
    let low = hold(v.cast(DType::I64));
    let last = extent - 1;
    let end = low.ge(&last);
    let fraction = Ex::where_(&end, &v.same(0.0), &(&v - &low.cast(v.dtype())));
    let (low, high) = (low.min(&last), (&low + 1).min(&last));
    [hold(low), hold(high), hold(fraction)]
}

/// The four elements around a position, times their weights.
fn weighted(
    [y0, y1, fy]: &[Ex; 3],
    [x0, x1, fx]: &[Ex; 3],
    tap: impl Fn(&Ex, &Ex, Ex) -> Ex,
) -> [Ex; 4] {
    let (gy, gx) = (fy.same(1.0) - fy, fx.same(1.0) - fx);
    [
        tap(y0, x0, &gy * &gx),
        tap(y0, x1, &gy * fx),
        tap(y1, x0, fy * &gx),
        tap(y1, x1, fy * fx),
    ]
}

fn roi_align(te: &mut Te<'_>) -> Done {
    let g = Regions::new(te)?;
    let (ratio, mode) = (te.int("sample_ratio")?, te.str("mode"));
    let (mean, heaviest) = (!mode.starts_with("max"), mode == "max_weighted");
    let aligned = te.flag("aligned");
    let t = g.rois.dtype;
    let (height, width) = (g.height.cast(t), g.width.cast(t));
    let outside = |y: &Ex, x: &Ex| y.lt(-1i64) | y.gt(&height) | x.lt(-1i64) | x.gt(&width);
    if mean && ratio > 0 {
        // As many samples for each region: a sum over them.
        let samples = Ex::idx(ratio);
        let count = (&samples * &samples).cast(g.data.dtype);
        let [n, c, h, w] = &g.extents;
        let shape = g.index(n, c, h, w);
        let over = [samples.clone(), samples.clone()];
        let out = te.reduce("pooled", &shape, &over, Combiner::Sum, |i, k| {
            let (r, at) = (&i[0], if g.nchw { [1, 2, 3] } else { [3, 1, 2] });
            let [channel, row, column] = at.map(|k| &i[k]);
            let image = g.field(r, 0).cast(DType::I64);
            let y = sample(&g.side(r, (2, 4), h, aligned), row, &k[0], &samples);
            let x = sample(&g.side(r, (1, 3), w, aligned), column, &k[1], &samples);
            let rows = around(&y, &g.height, &mut |e| e);
            let columns = around(&x, &g.width, &mut |e| e);
            let [a, b, c, d] = weighted(&rows, &columns, |y, x, weight| {
                let value = g.data.at(&g.index(&image, channel, y, x));
                weight.cast(g.data.dtype) * value
            });
            let value = a + b + c + d;
            Ex::where_(&outside(&y, &x), &value.same(0.0), &value) / &count
        });
        te.output(&out);
        return Ok(());
    }
    let out = g.result(te);
    te.nest(|n| {
        n.for_(g.extents[0].clone(), |n, r| {
            let image = n.let_(g.field(r, 0).cast(DType::I64));
            let mut side = |ends: (i64, i64), bins: &Ex| {
                let Side { start, bin } = g.side(r, ends, bins, aligned);
                let side = Side {
                    start: n.let_(start),
                    bin: n.let_(bin),
                };
                let samples = if ratio > 0 {
                    Ex::idx(ratio)
                } else {
                    n.let_(side.bin.unary(UnOp::Ceil).cast(DType::I64))
                };
                (side, samples)
            };
            let (top, rows) = side((2, 4), &g.extents[2]);
            let (left, columns) = side((1, 3), &g.extents[3]);
            let count = n.let_((&rows * &columns).cast(g.data.dtype));
            n.grid(&g.extents[1..], |n, at| {
                let start = if mean {
                    Ex::float(g.data.dtype, 0.0)
                } else {
                    Ex::float(g.data.dtype, f64::NEG_INFINITY)
                };
                let sum = n.cell(start);
                n.for_(rows.clone(), |n, i| {
                    let y = n.let_(sample(&top, &at[1], i, &rows));
                    n.for_(columns.clone(), |n, j| {
                        let x = n.let_(sample(&left, &at[2], j, &columns));
                        let ys = around(&y, &g.height, &mut |e| n.let_(e));
                        let xs = around(&x, &g.width, &mut |e| n.let_(e));
                        let [a, b, c, d] = weighted(&ys, &xs, |y, x, weight| {
                            let value = g.data.at(&g.index(&image, &at[0], y, x));
                            weight.cast(g.data.dtype) * value
                        });
                        let value = if heaviest {
                            a.max(b).max(c).max(d)
                        } else {
                            a + b + c + d
                        };
                        let value = Ex::where_(&outside(&y, &x), &value.same(0.0), &value);
                        let next = if mean {
                            sum.scalar() + value / &count
                        } else {
                            sum.scalar().max(value)
                        };
                        n.set(&sum, next);
                    });
                });
                n.store(&out, &g.index(r, &at[0], &at[1], &at[2]), sum.scalar());
            });
        });
    });
    te.output(&out);
    Ok(())
}

fn roi_pool(te: &mut Te<'_>) -> Done {
    let g = Regions::new(te)?;
    let out = g.result(te);
    let t = g.rois.dtype;
    te.nest(|n| {
        n.for_(g.extents[0].clone(), |n, r| {
            let image = n.let_(g.field(r, 0).cast(DType::I64));
            let corner = |k: i64| {
                let at = (g.field(r, k) * &g.scale).unary(UnOp::Round);
                at.cast(DType::I64)
            };
            let mut side = |from: i64, to: i64, bins: &Ex| {
                let start = n.let_(corner(from));
                let extent = (corner(to) - &start + 1).max(1i64);
                (start, n.let_(extent.cast(t) / bins.cast(t)))
            };
            let (top, bin_h) = side(2, 4, &g.extents[2]);
            let (left, bin_w) = side(1, 3, &g.extents[3]);
            n.grid(&g.extents[1..], |n, at| {
                // Slightly less than the bin, so that rounding does not include a neighbour.
                let little = Ex::float(t, 0.00001);
                let mut range = |i: &Ex, bin: &Ex, start: &Ex, extent: &Ex| {
                    let low = (i.cast(t) * bin + &little).unary(UnOp::Floor);
                    let high = ((i + 1).cast(t) * bin - &little).unary(UnOp::Ceil);
                    let cut = |v: Ex| (v.cast(DType::I64) + start).max(0i64).min(extent);
                    (n.let_(cut(low)), n.let_(cut(high)))
                };
                let (y0, y1) = range(&at[1], &bin_h, &top, &g.height);
                let (x0, x1) = range(&at[2], &bin_w, &left, &g.width);
                let some = y0.lt(&y1) & x0.lt(&x1);
                let zero = Ex::float(g.data.dtype, 0.0);
                let least = least(g.data.dtype);
                let best = n.cell(Ex::where_(&some, &least, &zero));
                n.grid(&[&y1 - &y0, &x1 - &x0], |n, k| {
                    let (y, x) = (&y0 + &k[0], &x0 + &k[1]);
                    let value = g.data.at(&g.index(&image, &at[0], &y, &x));
                    n.set(&best, best.scalar().max(value));
                });
                n.store(&out, &g.index(r, &at[0], &at[1], &at[2]), best.scalar());
            });
        });
    });
    te.output(&out);
    Ok(())
}

/// Returns the least value of a type.
fn least(dtype: DType) -> Ex {
    match dtype {
        DType::F64 => Ex::float(dtype, f64::MIN),
        DType::F16 => Ex::float(dtype, -65504.0),
        _ => match dtype.int_range() {
            Some((low, _)) if !dtype.is_float() => Ex::int(dtype, low as i64),
            _ => Ex::float(dtype, f32::MIN.into()),
        },
    }
}
