//! The native cost of calls in the layout that they are written in: the cost model of
//! `choose-layouts`.
//!
//! The numbers are nanoseconds on one thread of a machine with AVX-512 (some 118 GFLOP/s), measured
//! by `cargo run --release -p relax-runtime --example bench_kernels`, which runs every kernel in
//! both layouts. On other machines all of them are larger or smaller; only their ratios matter:
//! which windows have a kernel at all, that Winograd requires channels first, and what moving a
//! tensor costs in comparison.

use relax_ir::{AttrValue, Attrs};
use relax_sym::Dim;
use relax_tensor::DType;

use super::conv_forms::Layouts;
use crate::{Known, Layout, Priced};

/// A call of a kernel.
const CALL: f64 = 1000.0;
/// Moving an element of at most four bytes in a change of layout.
const MOVE: f64 = 0.55;
/// A float multiplication in a matrix product.
const PRODUCT: f64 = 0.0192;
/// Copying an element of a window next to those of other pixels, channels first.
const UNFOLD: f64 = 0.12;
/// The same with channels last: locating a position of the window, and copying an element there.
const GATHER: (f64, f64) = (3.0, 0.22);
/// A multiplication of bytes with a 32-bit sum: channels first and last.
const BYTES: (f64, f64) = (0.0075, 0.0056);
/// A multiplication of bytes in a depthwise window: channels first and last.
const BYTES_DEPTHWISE: (f64, f64) = (0.18, 0.12);
/// An iteration of a loop over a window that no kernel supports.
const LOOP: f64 = 1.6;
/// An iteration of such a loop of a transposed convolution, which searches for the inputs that
/// contribute to an output.
const SCATTERED: f64 = 6.5;

fn int(attrs: &Attrs, name: &str) -> Option<i64> {
    attrs.get(name)?.as_int()
}
fn text<'a>(attrs: &'a Attrs, name: &str) -> &'a str {
    attrs.get(name).and_then(AttrValue::as_str).unwrap_or("")
}

/// Returns an attribute that holds a number for each of two axes, or one for both.
fn pair(attrs: &Attrs, name: &str) -> Option<[f64; 2]> {
    let given = attrs.get(name)?;
    let given = given.as_ints().or_else(|| Some(vec![given.as_int()?]))?;
    match given[..] {
        [both] => Some([both as f64; 2]),
        [a, b] => Some([a as f64, b as f64]),
        _ => None,
    }
}

/// Returns the extents of a tensor in one layout, in the axis order of another.
fn in_order(t: &Known, from: &Layout, to: &Layout) -> Option<[f64; 4]> {
    if t.extents.len() != from.rank() || !from.convertible(to) {
        return None;
    }
    let dims: Vec<Dim> = t.extents.iter().map(|&d| Dim::from(d)).collect();
    let moved: Option<Vec<i64>> = (from.convert_dims(to, &dims).iter())
        .map(Dim::as_const)
        .collect();
    let moved: [i64; 4] = moved?.try_into().ok()?;
    Some(moved.map(|d| d as f64))
}

/// Moves elements, without arithmetic.
pub fn moved(s: &Priced<'_>) -> Option<f64> {
    let t = s.results.first()?;
    let words = (t.dtype.size() as f64 / 4.0).max(1.0);
    Some(CALL + MOVE * words * t.elements())
}

/// A convolution over two axes, plain or quantised.
pub fn conv2d(s: &Priced<'_>) -> Option<f64> {
    let l = Layouts::read(&|name| text(s.attrs, name).to_owned(), 2, "OI").ok()?;
    let [data, weight, ..] = s.operands else {
        return None;
    };
    let out = s.results.first()?;
    let [_, c, h, w] = in_order(data, &l.data, &l.canonical)?;
    let [n, o, oh, ow] = in_order(out, &l.out, &l.canonical)?;
    let [wo, wi, kh, kw] = in_order(weight, &l.kernel, &l.canonical_kernel)?;
    let groups = int(s.attrs, "groups")? as f64;
    // The weight is then (channels, multiplier, ...), as in the relation.
    let by_channel = groups > 1.0 && c == groups && wo == groups;
    let taps = kh * kw;
    let deep = if by_channel { 1.0 } else { wi };
    let (pixels, sums) = (n * oh * ow, n * o * oh * ow * taps * deep);
    let Some(last) = l.tuned(by_channel, wi == 1.0) else {
        return Some(CALL + LOOP * sums);
    };
    let depthwise = groups > 1.0 && c == groups;
    let either = |(first, when_last): (f64, f64)| if last { when_last } else { first };
    let floats = [data.dtype, weight.dtype, out.dtype] == [DType::F32; 3];
    let bytes = |t: &Known| matches!(t.dtype, DType::I8 | DType::U8);
    if !floats {
        // Kernels of wider integers and loops for all other types have no preferred layout.
        let each = match bytes(data) && bytes(weight) && out.dtype == DType::I32 {
            true if depthwise => either(BYTES_DEPTHWISE),
            true => either(BYTES),
            false => LOOP,
        };
        return Some(CALL + each * sums);
    }
    let (steps, dilation) = (pair(s.attrs, "strides")?, pair(s.attrs, "dilation")?);
    let small = (kh, kw, steps, dilation) == (3.0, 3.0, [1.0; 2], [1.0; 2]);
    if depthwise && (!last || o == c) {
        // For each channel: a call, the copy with its padding where the image cannot be read in
        // place, the sums.
        let each = match (last, small) {
            (true, _) => 30.0 + 0.07 * oh * ow * taps,
            (false, true) => 28.0 + 0.026 * oh * ow * taps,
            (false, false) => 28.0 + 0.15 * h * w + 0.035 * oh * ow * taps,
        };
        return Some(CALL + n * o * each);
    }
    if small
        && groups == 1.0
        && !last
        && let Some(part) = filtering(c, o, oh, ow)
    {
        return Some(CALL + part * PRODUCT * sums);
    }
    let plain = taps == 1.0 && steps == [1.0; 2] && groups == 1.0;
    let copied = match last {
        _ if plain => 0.0,
        true => pixels * taps * groups * (GATHER.0 + GATHER.1 * deep),
        false => UNFOLD * pixels * taps * groups * deep,
    };
    Some(CALL + PRODUCT * sums + copied)
}

/// Returns the time of Winograd relative to direct sums, with channels first; `None` where the
/// kernel does not use it. See `crates/runtime/src/kernels/conv/ways.rs`, which says where the
/// numbers come from: all are multiplications of one lane for a pair of channels.
fn filtering(c: f64, o: f64, oh: f64, ow: f64) -> Option<f64> {
    let (rows, columns) = ((oh / 4.0).ceil(), (ow / 4.0).ceil());
    let (tiles, pixels) = (rows * columns, oh * ow);
    if c < 16.0 || o < 16.0 || tiles == 0.0 {
        return None;
    }
    let up = |n: f64, unit: f64| (n / unit).ceil() * unit;
    let few = tiles <= 12.0;
    let lanes = if few { tiles } else { up(tiles, 16.0) };
    let high = (f64::from(160 << 10) / (36.0 * c * columns)).floor();
    let blocks = (rows / high.clamp(1.0, rows)).ceil();
    let minimal = match few {
        true => {
            let transforms = 300.0 * blocks + (3600.0 / o + 1500.0 / c) * tiles;
            17.0 * lanes * up(o, 16.0) / o + transforms
        }
        false => {
            let transforms = 400.0 * blocks + (1450.0 / o + 750.0 / c) * tiles;
            40.0 * lanes * up(o, 8.0) / o + transforms
        }
    };
    let runs = (pixels / 16.0).ceil() + if ow % 16.0 == 0.0 { 0.0 } else { oh };
    let unfolded = 9.0 * (1.1 * up(pixels, 8.0) * up(o, 4.0) + 170.0 * runs) / o;
    let copied = 10.0 * (oh + 2.0) * (ow + 2.0) / o;
    let direct = 9.0 * 1.02 * pixels * up(o, 16.0) / o + 16.0 * pixels / c + copied;
    // The time is that of the machine of this file's other numbers.
    let part = 36.0 * lanes + 90.0 * blocks + tiles * (200.0 / o + 150.0 / c);
    (minimal < unfolded && 0.8 * minimal < direct).then_some((1.3 * part / (9.0 * pixels)).min(1.0))
}

/// A transposed convolution over two axes: a kernel exists for channels first only.
pub fn conv2d_transpose(s: &Priced<'_>) -> Option<f64> {
    let l = Layouts::read(&|name| text(s.attrs, name).to_owned(), 2, "IO").ok()?;
    let [data, weight, ..] = s.operands else {
        return None;
    };
    let out = s.results.first()?;
    let [n, c, h, w] = in_order(data, &l.data, &l.canonical)?;
    let [_, o, oh, ow] = in_order(out, &l.out, &l.canonical)?;
    let [_, og, kh, kw] = in_order(weight, &l.kernel, &l.canonical_kernel)?;
    let floats = [data.dtype, weight.dtype, out.dtype] == [DType::F32; 3];
    if floats && l.tuned_transpose() {
        let sums = n * c * h * w * og * kh * kw;
        return Some(CALL + PRODUCT * sums + UNFOLD * n * h * w * o * kh * kw);
    }
    let groups = int(s.attrs, "groups")? as f64;
    Some(CALL + SCATTERED * n * o * oh * ow * kh * kw * (c / groups))
}

/// Returns the cost per element of the tensor, which depends on whether channels are last in
/// `layout`.
fn by_channels_last(s: &Priced<'_>, t: &Known, (first, last): (f64, f64)) -> Option<f64> {
    let layout = Layout::parse(text(s.attrs, "layout"))?;
    let channels = layout.position('C')?;
    let at_end = channels + 1 == layout.rank();
    // A few channels fill a small part of vectors.
    let few = (8.0 / *t.extents.get(channels)? as f64).max(1.0);
    Some(CALL + t.elements() * if at_end { few * last } else { first })
}

/// Each output is one input: rows of all channels are copied, short runs are shuffled.
pub fn repeated(s: &Priced<'_>) -> Option<f64> {
    by_channels_last(s, s.results.first()?, (0.2, 0.1))
}
/// Each output is computed from the inputs around a position, which is determined once for all
/// channels or for each.
pub fn interpolated(s: &Priced<'_>) -> Option<f64> {
    by_channels_last(s, s.results.first()?, (3.9, 0.75))
}
/// Windows, which are copied beside each other where their sizes differ. Where channels are first,
/// those that are wide are reduced row by row, each with a beginning and an end.
pub fn tiled(s: &Priced<'_>) -> Option<f64> {
    let data = s.operands.first()?;
    let layout = Layout::parse(text(s.attrs, "layout"))?;
    let out = pair(s.attrs, "output_size")?;
    let mut window = [1.0; 2];
    for ((axis, size), out) in ['H', 'W'].into_iter().zip(&mut window).zip(out) {
        *size = *data.extents.get(layout.position(axis)?)? as f64 / out.max(1.0);
    }
    let [high, wide] = window;
    let even = high.fract() == 0.0 && wide.fract() == 0.0;
    let apart = if wide > 8.0 {
        150.0 / (high * wide) + 8.0 / wide
    } else {
        0.0
    };
    let first = apart + if even { 0.1 } else { 1.0 };
    by_channels_last(s, data, (first, 0.25))
}

/// Operators along an axis that have a kernel if that axis is the last one.
pub fn along_rows(s: &Priced<'_>) -> Option<f64> {
    let t = s.operands.first()?;
    let (axis, rank) = (int(s.attrs, "axis")?, t.extents.len() as i64);
    let last = axis == -1 || axis + 1 == rank;
    let row = *t.extents.last()? as f64;
    let each = if last {
        0.2 + 22.0 / row.max(1.0)
    } else {
        1.05
    };
    Some(CALL + each * t.elements())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    fn cost(name: &str, given: &[(&'static str, AttrValue)], shapes: &[&[i64]]) -> f64 {
        let def = registry().find(name).and_then(|op| registry().get(op));
        let def = def.expect("an operator");
        let mut attrs = def.default_attrs();
        for (name, value) in given {
            attrs.set(*name, value.clone());
        }
        let known = |shape: &&[i64]| Known {
            extents: shape.to_vec(),
            dtype: DType::F32,
        };
        let (result, operands) = shapes.split_last().expect("a result");
        let operands: Vec<Known> = operands.iter().map(known).collect();
        let price = def.hooks.cost.expect("it has a cost");
        let results = [known(result)];
        price(&Priced {
            attrs: &attrs,
            operands: &operands,
            results: &results,
        })
        .expect("a cost")
    }

    fn conv(groups: i64, last: bool, x: [i64; 3], w: [i64; 4], y: [i64; 3]) -> f64 {
        let word = |s: &str| AttrValue::Str(s.into());
        let ([c, h, wide], [o, i, kh, kw], [co, oh, ow]) = (x, w, y);
        let mut given = vec![("groups", AttrValue::Int(groups))];
        given.push(("strides", AttrValue::ints(&[h / oh, wide / ow])));
        if !last {
            let shapes: [&[i64]; 3] = [&[1, c, h, wide], &w, &[1, co, oh, ow]];
            return cost("nn.conv2d", &given, &shapes);
        }
        given.push(("data_layout", word("NHWC")));
        given.push(("kernel_layout", word("HWIO")));
        let shapes: [&[i64]; 3] = [&[1, h, wide, c], &[kh, kw, i, o], &[1, oh, ow, co]];
        cost("nn.conv2d", &given, &shapes)
    }

    /// The measurements, in microseconds: channels first and last.
    #[test]
    fn the_model_is_near_what_was_measured() {
        for (groups, x, w, y, first, last) in [
            (
                1,
                [64, 56, 56],
                [64, 64, 3, 3],
                [64, 56, 56],
                1033.0,
                2884.0,
            ),
            (
                1,
                [3, 224, 224],
                [64, 3, 7, 7],
                [64, 112, 112],
                2353.0,
                4826.0,
            ),
            (
                1,
                [3, 224, 224],
                [32, 3, 3, 3],
                [32, 112, 112],
                271.0,
                732.0,
            ),
            (
                1,
                [64, 56, 56],
                [128, 64, 3, 3],
                [128, 28, 28],
                1127.0,
                1214.0,
            ),
            (
                1,
                [128, 28, 28],
                [128, 128, 3, 3],
                [128, 28, 28],
                972.0,
                2448.0,
            ),
            (
                1,
                [256, 14, 14],
                [256, 256, 3, 3],
                [256, 14, 14],
                955.0,
                2206.0,
            ),
            (
                1,
                [64, 28, 28],
                [64, 64, 5, 5],
                [64, 28, 28],
                1706.0,
                2004.0,
            ),
            (
                4,
                [128, 28, 28],
                [128, 32, 3, 3],
                [128, 28, 28],
                690.0,
                966.0,
            ),
            (
                1,
                [256, 14, 14],
                [256, 256, 1, 1],
                [256, 14, 14],
                240.0,
                245.0,
            ),
            (
                1,
                [64, 56, 56],
                [128, 64, 1, 1],
                [128, 56, 56],
                471.0,
                550.0,
            ),
            (
                32,
                [32, 112, 112],
                [32, 1, 3, 3],
                [32, 112, 112],
                94.0,
                316.0,
            ),
            (
                128,
                [128, 56, 56],
                [128, 1, 3, 3],
                [128, 56, 56],
                89.0,
                249.0,
            ),
            (
                128,
                [128, 56, 56],
                [128, 1, 3, 3],
                [128, 28, 28],
                86.0,
                66.0,
            ),
            (
                512,
                [512, 14, 14],
                [512, 1, 3, 3],
                [512, 14, 14],
                36.0,
                86.0,
            ),
            (
                128,
                [128, 28, 28],
                [128, 1, 5, 5],
                [128, 28, 28],
                118.0,
                145.0,
            ),
        ] {
            for (is_last, measured) in [(false, first), (true, last)] {
                let cost = conv(groups, is_last, x, w, y) / 1000.0;
                let ratio = cost / measured;
                assert!(
                    (0.75..1.33).contains(&ratio),
                    "{x:?} {w:?} {y:?}, channels last {is_last}: {cost} us for {measured} us"
                );
            }
        }
    }

    #[test]
    fn layouts_without_a_kernel_cost_more() {
        let word = |s: &str| AttrValue::Str(s.into());
        let shapes: [&[i64]; 3] = [&[1, 8, 8, 16], &[3, 16, 3, 16], &[1, 6, 6, 16]];
        let odd = [
            ("data_layout", word("NHWC")),
            ("kernel_layout", word("HIWO")),
        ];
        assert!(
            cost("nn.conv2d", &odd, &shapes)
                > 10.0 * conv(1, true, [16, 8, 8], [16, 16, 3, 3], [16, 6, 6])
        );
        let (x, y): (&[i64], &[i64]) = (&[1, 16, 16, 128], &[1, 32, 32, 64]);
        let last = [
            ("data_layout", word("NHWC")),
            ("kernel_layout", word("HWOI")),
        ];
        let last = cost("nn.conv2d_transpose", &last, &[x, &[4, 4, 64, 128], y]);
        let (x, y): (&[i64], &[i64]) = (&[1, 128, 16, 16], &[1, 64, 32, 32]);
        let first = cost("nn.conv2d_transpose", &[], &[x, &[128, 64, 4, 4], y]);
        assert!(last > 100.0 * first);
    }
}
