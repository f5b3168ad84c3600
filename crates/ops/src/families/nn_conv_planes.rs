//! Convolutions over volumes as convolutions over images, which have kernels.
//!
//! A plane of the result is the sum of convolutions of some planes of the data, one for each tap
//! along the depth. So with these planes as additional channels, each plane of the result is an
//! image of a batch. A window of one element along height and width needs no adjacent planes: depth
//! is then the height of an image, and height and width together are its width.

use relax_ir::{AttrValue, ExprId};
use relax_tensor::{DType, Tensor};

use super::conv_forms::{pairs, per_axis};
use super::nn_conv_live::Live;
use crate::expand::{Build, Site};

/// What is convolved: numbers, or the integers that stand for them.
pub(super) enum Operands {
    /// Data and weight of float32.
    Floats([ExprId; 2]),
    /// The six operands of `qnn.conv2d`, of which the data has one zero point, and that.
    Integers([ExprId; 6], i64),
}

impl Operands {
    /// Returns the data and the weight.
    fn pair(&self) -> [ExprId; 2] {
        match *self {
            Operands::Floats(both) => both,
            Operands::Integers([x, w, ..], _) => [x, w],
        }
    }

    /// Returns what padding consists of.
    fn padding(&self, b: &mut dyn Build) -> Option<ExprId> {
        let zero = match *self {
            Operands::Floats(_) => Tensor::zeros(DType::F32, &[]),
            Operands::Integers([x, ..], zero) => Tensor::scalar_i64(b.dtype(x)?, zero),
        };
        Some(b.constant(zero))
    }

    /// Emits the convolution of images made of these.
    fn convolve(
        &self,
        b: &mut dyn Build,
        [x, w]: [ExprId; 2],
        attrs: &[(&str, AttrValue)],
    ) -> ExprId {
        match *self {
            Operands::Floats(_) => b.call("nn.conv2d", &[x, w], attrs),
            Operands::Integers([_, _, rest @ ..], _) => {
                let mut attrs = attrs.to_vec();
                attrs.push(("out_dtype", AttrValue::DType(DType::I32)));
                let [x_zero, w_zero, x_scale, w_scale] = rest;
                let args = [x, w, x_zero, w_zero, x_scale, w_scale];
                b.call("qnn.conv2d", &args, &attrs)
            }
        }
    }
}

/// The number of products per element of the data below which rearranging planes costs more than it
/// saves.
const FEW: i64 = 32;
/// The number of results of a group below which the same holds.
const SHORT: i64 = 8;

/// The parameters along one of the three axes.
struct Along {
    data: i64,
    stride: i64,
    dilation: i64,
    live: Live<i64>,
}

impl Along {
    /// Returns the extent of the result; `None` where the window does not fit.
    fn result(&self) -> Option<i64> {
        let room = self.padded() - (self.live.taps - 1) * self.dilation;
        (room > 0).then(|| (room - 1) / self.stride + 1)
    }

    /// Returns the data's extent with its padding.
    fn padded(&self) -> i64 {
        self.data + self.live.padding.0 + self.live.padding.1
    }

    /// Returns whether result positions correspond one to one to data positions.
    fn plain(&self) -> bool {
        self.live.taps == 1 && self.stride == 1 && self.live.padding == (0, 0)
    }
}

fn ints(list: &[i64]) -> AttrValue {
    AttrValue::ints(list)
}

fn reshape(b: &mut dyn Build, x: ExprId, shape: &[i64]) -> ExprId {
    b.call("reshape", &[x], &[("newshape", ints(shape))])
}

/// Rewrites `nn.conv3d` of float32, of known extents. Where each channel has a window of its own, there
/// is a kernel.
pub(super) fn of_volume(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let [x, w] = *site.args.first_chunk()?;
    let float = |e| b.dtype(e) == Some(DType::F32);
    let floats = float(x) && float(w) && float(site.call);
    floats.then(|| convolved(b, site, &Operands::Floats([x, w])))?
}

/// Emits the convolution of a call of `nn.conv3d`, of known extents, as that of images.
pub(super) fn convolved(b: &mut dyn Build, site: &Site, operands: &Operands) -> Option<ExprId> {
    let [x, w] = operands.pair();
    let text = |name: &str| site.value(name).as_str().unwrap_or_default().to_owned();
    let out_layout = text("out_layout");
    let known = text("data_layout") == "NCDHW"
        && text("kernel_layout") == "OIDHW"
        && (out_layout.is_empty() || out_layout == "NCDHW");
    if !known {
        return None;
    }
    let [n, c, data @ ..] = <[i64; 5]>::try_from(b.extents(x)?).ok()?;
    let [o, of, window @ ..] = <[i64; 5]>::try_from(b.extents(w)?).ok()?;
    let three = |name: &str| {
        let list = per_axis(site.value(name).as_ints()?, 3);
        <[i64; 3]>::try_from(list).ok()
    };
    let (strides, dilation) = (three("strides")?, three("dilation")?);
    let padding = pairs(&site.value("padding").as_ints()?, 3)?;
    let whole = data.iter().chain(&window).all(|&d| d > 0) && n > 0 && c > 0 && o > 0;
    if !whole || padding.iter().any(|p| p.0 < 0 || p.1 < 0) {
        return None;
    }
    let along = |k: usize| Along {
        data: data[k],
        stride: strides[k],
        dilation: dilation[k],
        live: Live::of(data[k], window[k], (strides[k], dilation[k]), padding[k]),
    };
    let [mut d, mut h, mut v] = [along(0), along(1), along(2)];
    let (depth, height, width) = (d.result()?, h.result()?, v.result()?);
    let groups = site.int("groups")?;
    let whole = groups > 0 && c % groups == 0 && o % groups == 0 && of == c / groups;
    let alone = groups > 1 && groups == c;
    // What windows of one element step over is left out first.
    let floats = matches!(operands, Operands::Floats(_));
    let single = [&d, &h, &v]
        .iter()
        .all(|a| a.live.taps == 1 && a.live.padding == (0, 0));
    let stepping = (h.stride, v.stride) != (1, 1);
    let mut x = x;
    if single && stepping && !alone && floats {
        let strides = [d.stride, h.stride, v.stride];
        let given = [
            ("begin", ints(&[0; 3])),
            ("end", ints(&data)),
            ("strides", ints(&strides)),
            ("axes", ints(&[2, 3, 4])),
        ];
        x = b.call("strided_slice", &[x], &given);
        for (axis, extent) in [(&mut d, depth), (&mut h, height), (&mut v, width)] {
            (axis.data, axis.stride) = (extent, 1);
        }
    }
    // Where planes stay where they are, that costs nothing.
    let lines = h.plain() && v.plain();
    let few = !lines && o / groups * h.live.taps * v.live.taps < FEW;
    let short = groups > 1 && o / groups < SHORT;
    if !whole || alone || few || groups > 1 && (short || !floats) {
        return None;
    }
    let mut w = w;
    let axes = [&d, &h, &v];
    if axes.iter().zip(window).any(|(a, all)| a.live.taps != all) {
        let begin: Vec<i64> = [0, 0]
            .into_iter()
            .chain(axes.map(|a| a.live.first))
            .collect();
        let ends = axes.map(|a| a.live.first + a.live.taps);
        let end: Vec<i64> = [o, of].into_iter().chain(ends).collect();
        let given = [("begin", ints(&begin)), ("end", ints(&end))];
        w = b.call("strided_slice", &[w], &given);
    }
    if lines {
        let image = reshape(b, x, &[n, c, d.data, h.data * v.data]);
        let w = reshape(b, w, &[o, of, d.live.taps, 1]);
        let flat = Along {
            data: h.data * v.data,
            ..h
        };
        let y = image_conv(b, operands, ([image, w], groups), [&d, &flat]);
        return Some(reshape(b, y, &[n, o, depth, height, width]));
    }
    let mut planes = planes(b, operands, [n, c], &d, h.data * v.data)?;
    if groups > 1 && d.live.taps > 1 {
        // The planes of a group's channels are adjacent.
        let apart = [n, depth, d.live.taps, groups, of, h.data * v.data];
        planes = reshape(b, planes, &apart);
        let axes = [("axes", ints(&[0, 1, 3, 2, 4, 5]))];
        planes = b.call("transpose", &[planes], &axes);
    }
    let image = reshape(b, planes, &[n * depth, d.live.taps * c, h.data, v.data]);
    if d.live.taps > 1 {
        w = b.call("transpose", &[w], &[("axes", ints(&[0, 2, 1, 3, 4]))]);
    }
    let w = reshape(b, w, &[o, d.live.taps * of, h.live.taps, v.live.taps]);
    let y = image_conv(b, operands, ([image, w], groups), [&h, &v]);
    Some(in_volume(b, y, [n, depth, o, height, width]))
}

/// Makes a volume of images, of which each is one of its planes.
fn in_volume(b: &mut dyn Build, y: ExprId, [n, depth, o, height, width]: [i64; 5]) -> ExprId {
    if depth == 1 {
        return reshape(b, y, &[n, o, 1, height, width]);
    }
    let y = reshape(b, y, &[n, depth, o, height, width]);
    b.call("transpose", &[y], &[("axes", ints(&[0, 2, 1, 3, 4]))])
}

/// Returns the planes of the data with padding: `(n, depth, c, plane)`.
fn padded_planes(
    b: &mut dyn Build,
    operands: &Operands,
    [n, c]: [i64; 2],
    d: &Along,
    plane: i64,
) -> Option<ExprId> {
    let [x, _] = operands.pair();
    let x = reshape(b, x, &[n, c, d.data, plane]);
    let x = b.call("transpose", &[x], &[("axes", ints(&[0, 2, 1, 3]))]);
    if d.live.padding == (0, 0) {
        return Some(x);
    }
    let none = ints(&[0, 0]);
    let around = ints(&[d.live.padding.0, d.live.padding.1]);
    let around = AttrValue::Array(vec![none.clone(), around, none.clone(), none].into());
    let zero = operands.padding(b)?;
    Some(b.call("nn.pad", &[x, zero], &[("pad_width", around)]))
}

/// Gathers the planes that each plane of the result is computed from: `(n, depth, taps, c, plane)`,
/// possibly with axes of extent one.
fn planes(
    b: &mut dyn Build,
    operands: &Operands,
    [n, c]: [i64; 2],
    d: &Along,
    plane: i64,
) -> Option<ExprId> {
    if d.data == 1 && d.live.taps == 1 && d.live.padding == (0, 0) {
        let [x, _] = operands.pair();
        return Some(reshape(b, x, &[n, c, d.data, plane]));
    }
    let mut x = padded_planes(b, operands, [n, c], d, plane)?;
    if d.live.taps == 1 {
        let (end, step) = (d.padded(), d.stride);
        let given = [
            ("begin", ints(&[0])),
            ("end", ints(&[end])),
            ("strides", ints(&[step])),
            ("axes", ints(&[1])),
        ];
        return Some(match step {
            1 => x,
            _ => b.call("strided_slice", &[x], &given),
        });
    }
    let reach = (d.live.taps - 1) * d.dilation + 1;
    let given = [
        ("axis", AttrValue::Int(1)),
        ("window_shape", ints(&[reach, c, plane])),
        ("strides", ints(&[d.stride, 1, 1])),
    ];
    x = b.call("sliding_window", &[x], &given);
    if d.dilation == 1 {
        return Some(x);
    }
    // Of a window of adjacent planes, those that taps are on.
    let depth = d.result().unwrap_or_default();
    let given = [
        ("begin", ints(&[0; 7])),
        ("end", ints(&[n, depth, 1, 1, reach, c, plane])),
        ("strides", ints(&[1, 1, 1, 1, d.dilation, 1, 1])),
    ];
    Some(b.call("strided_slice", &[x], &given))
}

/// Builds the convolution of images in groups, with its parameters along height and width.
fn image_conv(
    b: &mut dyn Build,
    operands: &Operands,
    ([x, w], groups): ([ExprId; 2], i64),
    [h, v]: [&Along; 2],
) -> ExprId {
    let channels = b
        .extents(w)
        .map_or(AttrValue::None, |w| AttrValue::Int(w[0]));
    let given = [
        ("strides", ints(&[h.stride, v.stride])),
        (
            "padding",
            ints(&[
                h.live.padding.0,
                v.live.padding.0,
                h.live.padding.1,
                v.live.padding.1,
            ]),
        ),
        ("dilation", ints(&[h.dilation, v.dilation])),
        ("groups", AttrValue::Int(groups)),
        ("channels", channels),
        ("kernel_size", ints(&[h.live.taps, v.live.taps])),
    ];
    operands.convolve(b, [x, w], &given)
}
