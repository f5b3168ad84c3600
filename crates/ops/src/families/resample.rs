//! Resampling on a grid: the common part of image resizing and upsampling.
//!
//! Coordinates, rounding and weights are those of TVM's `topi.image.resize*` (and so of ONNX's
//! Resize), all in `float32`.

use relax_loops::{Ex, TensorRef, UnOp};
use relax_tensor::DType;

use crate::{ComputeError, Layout, Te};

/// The mapping of an output index to an input coordinate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Coordinates {
    HalfPixel,
    AlignCorners,
    Asymmetric,
    PytorchHalfPixel,
    TfHalfPixel,
    TfCrop,
}

impl Coordinates {
    pub(super) fn parse(text: &str) -> Option<Coordinates> {
        Some(match text {
            "half_pixel" => Coordinates::HalfPixel,
            "align_corners" => Coordinates::AlignCorners,
            "asymmetric" => Coordinates::Asymmetric,
            "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
            "tf_half_pixel_for_nn" => Coordinates::TfHalfPixel,
            "tf_crop_and_resize" => Coordinates::TfCrop,
            _ => return None,
        })
    }
}

/// The interpolation between grid points.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Nearest,
    Linear,
    Cubic,
}

impl Method {
    /// Reads `linear`, `bilinear`, `trilinear`, `nearest_neighbor`, `cubic`, `bicubic`.
    pub(super) fn parse(text: &str) -> Option<Method> {
        let text = text.to_lowercase();
        let text = text
            .strip_prefix("bi")
            .or(text.strip_prefix("tri"))
            .unwrap_or(&text);
        Some(match text {
            "nearest_neighbor" | "nearest" => Method::Nearest,
            "linear" => Method::Linear,
            "cubic" => Method::Cubic,
            _ => return None,
        })
    }
}

/// The parameters of a resampling besides shapes.
pub(super) struct Resample<'a> {
    pub method: Method,
    pub coordinates: Coordinates,
    /// `round`, `round_prefer_floor`, `round_prefer_ceil`, `floor`, `ceil` or empty for the
    /// default.
    pub rounding: &'a str,
    pub cubic_alpha: f64,
    /// Whether cubic weights outside the image are left out.
    pub cubic_exclude: bool,
    /// The value outside the cropped region, for [`Coordinates::TfCrop`].
    pub extrapolation: f64,
    /// For each spatial axis, start and end of the cropped region.
    pub roi: Vec<(f64, f64)>,
    /// Boxes, one for each result image: the cropped regions (start of each axis, then end of
    /// each), and the images that they belong to.
    pub boxes: Option<(TensorRef, TensorRef)>,
    pub out_dtype: DType,
}

fn f32_(v: f64) -> Ex {
    Ex::float(DType::F32, v)
}

/// One spatial axis: its extents, and the input coordinate of the output index.
struct AxisAt {
    extent: Ex,
    /// The coordinate, `float32`.
    at: Ex,
    /// The input index itself, where output extents are multiples of the input's.
    whole: Option<Ex>,
}

impl Resample<'_> {
    fn axis(&self, k: usize, n: &Ex, i: &Ex, extent: &Ex, target: &Ex) -> AxisAt {
        let (x, size, goal) = (
            i.cast(DType::F32),
            extent.cast(DType::F32),
            target.cast(DType::F32),
        );
        let scale = &size / &goal;
        let nearest = self.method == Method::Nearest && self.coordinates == Coordinates::Asymmetric;
        let whole = match (extent.as_int(), target.as_int()) {
            (Some(n), Some(m)) if nearest && n > 0 && m % n == 0 && m > 0 => {
                Some(i.floor_div(m / n))
            }
            _ => None,
        };
        let half = f32_(0.5);
        let last = (extent - 1).cast(DType::F32);
        // A result of one element has index 0, whatever the factor.
        let goal_last = (target - 1).max(1i64).cast(DType::F32);
        let at = match self.coordinates {
            Coordinates::HalfPixel => (&x + &half) * &scale - &half,
            Coordinates::AlignCorners => &last / &goal_last * &x,
            Coordinates::Asymmetric => &scale * &x,
            Coordinates::PytorchHalfPixel => Ex::where_(
                &target.gt(1i64),
                &((&x + &half) * &scale - &half),
                &f32_(0.0),
            ),
            Coordinates::TfHalfPixel => (&x + &half) * &scale,
            Coordinates::TfCrop => {
                let (start, end) = self.region(k, n);
                let step = (&end - &start) * &last / &goal_last;
                let many = &start * &last + &x * &step;
                let one = f32_(0.5) * (start + end) * &last;
                Ex::where_(&target.gt(1i64), &many, &one)
            }
        };
        AxisAt {
            extent: extent.clone(),
            at,
            whole,
        }
    }

    /// The start and end of the cropped region along axis `k` for image `n` of the result.
    fn region(&self, k: usize, n: &Ex) -> (Ex, Ex) {
        if let Some((boxes, _)) = &self.boxes {
            let at = |f: usize| boxes.at(&[n.clone(), Ex::idx(f as i64)]).cast(DType::F32);
            return (at(k), at(k + 2));
        }
        let (start, end) = self.roi.get(k).copied().unwrap_or((0.0, 0.0));
        (f32_(start), f32_(end))
    }

    fn closest(&self, axis: &AxisAt) -> Ex {
        if let Some(whole) = &axis.whole {
            return whole.clone();
        }
        let at = &axis.at;
        let rounding = match self.rounding {
            "" if self.coordinates == Coordinates::AlignCorners => "round",
            "" => "floor",
            other => other,
        };
        let rounded = match rounding {
            "round_prefer_floor" => (at - f32_(0.5)).unary(UnOp::Ceil),
            "round_prefer_ceil" => (at + f32_(0.5)).unary(UnOp::Floor),
            "floor" => (at + f32_(1e-5)).unary(UnOp::Floor),
            "ceil" => (at - f32_(1e-5)).unary(UnOp::Ceil),
            _ => at.unary(UnOp::Round),
        };
        rounded.cast(DType::I64)
    }

    fn cubic_weights(&self, axis: &AxisAt) -> Vec<Ex> {
        let floor = axis.at.unary(UnOp::Floor);
        let t = &axis.at - &floor;
        let (a, t2) = (self.cubic_alpha, &t * &t);
        let t3 = &t2 * &t;
        let w = vec![
            f32_(a) * (&t3 - f32_(2.0) * &t2 + &t),
            f32_(a + 2.0) * &t3 - f32_(3.0 + a) * &t2 + f32_(1.0),
            f32_(-(a + 2.0)) * &t3 + f32_(3.0 + 2.0 * a) * &t2 - f32_(a) * &t,
            f32_(-a) * &t3 + f32_(a) * &t2,
        ];
        if !self.cubic_exclude {
            return w;
        }
        let base = floor.cast(DType::I64);
        let kept: Vec<Ex> = (0..4)
            .map(|i| {
                let outside = (&base + (i - 1)).lt(0i64) | (&base + i).gt(&axis.extent);
                Ex::where_(&outside, &f32_(0.0), &w[i as usize])
            })
            .collect();
        let sum = &kept[0] + &kept[1] + &kept[2] + &kept[3];
        kept.iter().map(|w| w / &sum).collect()
    }

    /// The value at the coordinates: taps along the last axis are combined first.
    fn value(&self, axes: &[AxisAt], pixel: &dyn Fn(&[Ex]) -> Ex) -> Ex {
        if self.method == Method::Nearest {
            let at: Vec<Ex> = axes.iter().map(|a| self.closest(a)).collect();
            return pixel(&at);
        }
        let taps: i64 = if self.method == Method::Linear { 2 } else { 4 };
        let first = if self.method == Method::Linear { 0 } else { -1 };
        let bases: Vec<Ex> = axes
            .iter()
            .map(|a| a.at.unary(UnOp::Floor).cast(DType::I64))
            .collect();
        // All taps in row-major order, then combined axis by axis from the last.
        let count = taps.pow(axes.len() as u32);
        let mut values: Vec<Ex> = (0..count)
            .map(|tap| {
                let mut rest = tap;
                let mut at = bases.clone();
                for b in at.iter_mut().rev() {
                    *b = &*b + (first + rest % taps);
                    rest /= taps;
                }
                pixel(&at)
            })
            .collect();
        for (axis, base) in axes.iter().zip(&bases).rev() {
            values = if self.method == Method::Linear {
                let t = &axis.at - base.cast(DType::F32);
                let back = f32_(1.0) - &t;
                values
                    .chunks(2)
                    .map(|v| &v[0] * &back + &v[1] * &t)
                    .collect()
            } else {
                let w = self.cubic_weights(axis);
                let dot = |v: &[Ex]| &v[0] * &w[0] + &v[1] * &w[1] + &v[2] * &w[2] + &v[3] * &w[3];
                values.chunks(4).map(dot).collect()
            };
        }
        values.remove(0)
    }

    /// Resamples `x` (in `layout`) to the extents `target` of its spatial axes.
    pub(super) fn stage(
        &self,
        te: &mut Te<'_>,
        x: &TensorRef,
        layout: &Layout,
        target: &[Ex],
    ) -> Result<TensorRef, ComputeError> {
        let letters = &"DHW"[3 - target.len()..];
        let canonical = Layout::parse(&format!("NC{letters}")).expect("a layout");
        if !layout.convertible(&canonical) {
            return Err("the layout has other axes".into());
        }
        let dims = layout.convert_extents(&canonical, &x.shape);
        let mut shape = dims.clone();
        shape[2..].clone_from_slice(target);
        if let Some((boxes, _)) = &self.boxes {
            shape[0] = boxes.shape[0].clone();
        }
        // Elements that are only selected keep their type.
        let chosen = self.method == Method::Nearest && self.coordinates != Coordinates::TfCrop;
        let mut from = x.clone();
        let mut now = dims.clone();
        for axes in self.passes(&dims, target) {
            let done = axes.start == 0;
            for k in axes.clone() {
                now[2 + k] = target[k].clone();
            }
            now[0] = shape[0].clone();
            let extents = canonical.convert_extents(layout, &now);
            from = te.compute("resample", &extents, |i| {
                let index = canonical.index_from(layout, i);
                let at: Vec<AxisAt> = (axes.clone())
                    .map(|k| self.axis(k, &index[0], &index[2 + k], &dims[2 + k], &target[k]))
                    .collect();
                let pixel = |at: &[Ex]| {
                    let mut read = index.clone();
                    if let Some((_, images)) = &self.boxes {
                        read[0] = images.at(&index[..1]).cast(DType::I64);
                    }
                    for (k, a) in axes.clone().zip(at) {
                        read[2 + k] = a.min(&dims[2 + k] - 1).max(0i64);
                    }
                    let element = from.at(&layout.index_from(&canonical, &read));
                    if chosen {
                        element
                    } else {
                        element.cast(DType::F32)
                    }
                };
                let mut value = self.value(&at, &pixel);
                if self.coordinates == Coordinates::TfCrop {
                    for axis in &at {
                        let last = (&axis.extent - 1).cast(DType::F32);
                        let outside = axis.at.lt(0.0) | axis.at.gt(last);
                        value = Ex::where_(&outside, &f32_(self.extrapolation), &value);
                    }
                }
                value.cast(if done { self.out_dtype } else { DType::F32 })
            });
        }
        Ok(from)
    }

    /// Returns the spatial axes in groups that are resampled one after the other: taps along the
    /// last axis are combined first anyway, once per row that is read. Where far more rows are read
    /// than the result has, all axes are resampled at once.
    fn passes(&self, dims: &[Ex], target: &[Ex]) -> Vec<std::ops::Range<usize>> {
        let n = target.len();
        let mut rows = dims[2..].iter().zip(&target[..n - 1]);
        let few = rows.all(|(d, t)| {
            let known = d.as_int().zip(t.as_int());
            known.is_some_and(|(d, t)| d <= t.saturating_mul(2))
        });
        let at_once = self.method == Method::Nearest
            || self.coordinates == Coordinates::TfCrop
            || self.boxes.is_some();
        match n > 1 && few && !at_once {
            true => (0..n).rev().map(|k| k..k + 1).collect(),
            false => std::iter::once(0..n).collect(),
        }
    }
}
