//! Convolution with computed offsets, correlation of two images, a sliding buffer.

use relax_loops::{Combiner, Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::conv_attrs;
use super::nn_conv::{
    Layouts, at_canonical, canonical_arg, numbers, padded, padding_of, pairs, reach, steps,
};
use super::util::{axis_attr, dtype_or, finish, need_eq, need_multiple, tensor_type, word};
use super::util_te::{Done, set};
use super::vision_nms::of_rank;
use crate::AttrTy::{Bool, Int, Ints, Str};
use crate::layout::Layout;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.deformable_conv2d",
        "2-D convolution whose taps are moved by offsets, one pair for each tap and place.",
        deformable,
    )
    .result_dtype("out_dtype")
    .layout(super::layout_rules::deformable_convolution)
    .inputs(&[
        input("data", "(n, c, h, w) in its layout"),
        input(
            "offset",
            "(n, 2 * taps * deformable groups, oh, ow) in the data's layout",
        ),
        input("weight", "(o, i, kh, kw) in its layout"),
    ])
    .attrs(&[
        conv_attrs::strides(&[1, 1]),
        conv_attrs::padding(&[0, 0]),
        conv_attrs::dilation(&[1, 1]),
        attr(
            "deformable_groups",
            Int,
            Default::Int(1),
            "groups of channels that have their own offsets",
        ),
        conv_attrs::GROUPS,
        conv_attrs::CHANNELS,
        conv_attrs::KERNEL_SIZE,
        conv_attrs::data_layout("NCHW"),
        conv_attrs::kernel_layout("OIHW"),
        conv_attrs::OUT_LAYOUT,
        conv_attrs::OUT_DTYPE,
    ])
    .fusion(Fusion::OutElementwise)
    .compute(deformable_compute),
    OpDef::new(
        "nn.correlation",
        "How alike the surroundings of places in two images are, for displacements up to a limit.",
        correlation,
    )
    .inputs(&[
        input("data1", "(n, c, h, w)"),
        input("data2", "(n, c, h, w)"),
    ])
    .attrs(&[
        attr(
            "kernel_size",
            Int,
            Default::Int(1),
            "the side of the surroundings, an odd number",
        ),
        attr(
            "max_displacement",
            Int,
            Default::Int(1),
            "the greatest displacement",
        ),
        attr("stride1", Int, Default::Int(1), "steps in the first image"),
        attr("stride2", Int, Default::Int(1), "steps of the displacement"),
        attr(
            "padding",
            Ints,
            Default::Ints(&[0, 0]),
            "zeros around both images",
        ),
        attr(
            "is_multiply",
            Bool,
            Default::Bool(true),
            "whether elements are multiplied; else their distance is taken",
        ),
        attr("layout", Str, Default::Str("NCHW"), "layout of the data"),
    ])
    .fusion(Fusion::OutElementwise)
    .compute(correlation_compute),
    OpDef::new(
        "nn.fifo_buffer",
        "A buffer moved along an axis by the extent of the data, which are put at its end.",
        fifo,
    )
    .inputs(&[
        input("data", "the latest input"),
        input("buffer", "the inputs before"),
    ])
    .attrs(&[attr("axis", Int, Default::Int(0), "the axis")])
    .compute(fifo_compute),
];

fn positive(cx: &RelCx<'_>, name: &'static str) -> RelResult<i64> {
    match cx.int(name)? {
        v if v >= 1 => Ok(v),
        v => cx.refuse(
            Subject::Attr(name),
            format!("`{name}={v}` must be at least 1"),
        ),
    }
}

fn deformable(cx: &mut RelCx<'_>) -> RelResult {
    let l = Layouts::of_rel(cx, 2, "OI")?;
    let (data, dtype) = canonical_arg(cx, 0, &l.data, &l.canonical)?;
    let groups = positive(cx, "groups")?;
    let rule = "the data's channels, which `groups` divides,";
    need_multiple(cx, &data[1], groups, Subject::Attr("groups"), rule)?;
    let (count, groups) = (groups, Dim::from(groups));
    let offsets = Dim::from(positive(cx, "deformable_groups")?);
    let (strides, dilation) = (steps(cx, "strides", 2, 1)?, steps(cx, "dilation", 2, 1)?);
    let padding = padding_of(cx, 2)?;
    let kernel_size = cx.ints("kernel_size")?;
    if kernel_size.as_ref().is_some_and(|k| k.len() != 2) {
        return cx.refuse(
            Subject::Attr("kernel_size"),
            "`kernel_size` needs two numbers",
        );
    }
    let channels = cx.attr("channels").as_int().map(Dim::from);
    let (channels, taps) = match (kernel_size, channels) {
        (Some(k), Some(channels)) => {
            let taps: Vec<Dim> = k.into_iter().map(Dim::from).collect();
            let shape = [
                channels.clone(),
                data[1].floordiv(&groups),
                taps[0].clone(),
                taps[1].clone(),
            ];
            let shape = l.canonical_kernel.convert_dims(&l.kernel, &shape);
            let ty = tensor_type(cx, shape, dtype)?;
            cx.require_arg(
                2,
                ty,
                "the weight does not fit the data, `channels`, `kernel_size` and `groups`",
            )?;
            (channels, taps)
        }
        (kernel_size, channels) => {
            let (w, _) = canonical_arg(cx, 2, &l.kernel, &l.canonical_kernel)?;
            for (i, k) in kernel_size.unwrap_or_default().into_iter().enumerate() {
                let rule = "`kernel_size` and the weight's height and width must agree";
                cx.require_eq(&w[2 + i], &Dim::from(k), Subject::Attr("kernel_size"), rule)?;
            }
            if let Some(c) = channels {
                let rule = "`channels` and the weight's output channels must agree";
                cx.require_eq(&w[0], &c, Subject::Attr("channels"), rule)?;
            }
            let rule = "the weight's input channels must be the data's, divided by `groups`";
            need_eq(cx, &w[1], &data[1].floordiv(&groups), Subject::Arg(2), rule)?;
            (w[0].clone(), w[2..].to_vec())
        }
    };
    let rule = "the result's channels, which `groups` divides,";
    need_multiple(cx, &channels, count, Subject::Attr("groups"), rule)?;
    let mut out = vec![data[0].clone(), channels];
    for k in 0..2 {
        let pad = Dim::from(padding[k].0.saturating_add(padding[k].1));
        let room = &data[2 + k] + &pad - reach(&taps[k], dilation[k]);
        out.push(room.floordiv(&Dim::from(strides[k])) + Dim::ONE);
    }
    let pairs = &taps[0] * &taps[1] * &offsets * Dim::from(2);
    let offset = [data[0].clone(), pairs, out[2].clone(), out[3].clone()];
    let offset = tensor_type(cx, l.canonical.convert_dims(&l.data, &offset), dtype)?;
    cx.require_arg(
        1,
        offset,
        "there is a pair of offsets for each tap, deformable group and place of the result",
    )?;
    let dtype = dtype_or(cx, "out_dtype", dtype);
    finish(cx, l.canonical.convert_dims(&l.out, &out), dtype)
}

fn deformable_compute(te: &mut Te<'_>) -> Done {
    let l = Layouts::of_te(te, 2, "OI")?;
    let (x, offset, w) = (te.arg(0), te.arg(1), te.arg(2));
    let dtype = te.out(0).dtype;
    let (groups, offsets) = (te.int("groups")?, te.int("deformable_groups")?);
    let (strides, dilation) = (numbers(te, "strides", 2), numbers(te, "dilation", 2));
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), 2).ok_or("`padding` has a wrong length")?;
    let data = l.data.convert_extents(&l.canonical, &x.shape);
    let weight = l.kernel.convert_extents(&l.canonical_kernel, &w.shape);
    let place = l.data.convert_extents(&l.canonical, &offset.shape);
    let (rows, columns) = (weight[2].clone(), weight[3].clone());
    // The data at the moved taps: (n, c, kh, kw, oh, ow).
    let moved = [
        data[0].clone(),
        data[1].clone(),
        rows.clone(),
        columns.clone(),
        place[2].clone(),
        place[3].clone(),
    ];
    let t = x.dtype;
    let per_group = data[1].floor_div(offsets);
    let moved = te.compute("moved", &moved, |i| {
        let first = i[1].floor_div(&per_group) * (&rows * &columns * 2);
        let at = |k: usize| {
            let channel = &first + (&i[2] * &columns + &i[3]) * 2 + k as i64;
            let shift = [i[0].clone(), channel, i[4].clone(), i[5].clone()];
            let shift = at_canonical(&offset, &l.data, &l.canonical, &shift);
            let whole = &i[4 + k] * strides[k] - padding[k].0 + &i[2 + k] * dilation[k];
            whole.cast(t) + shift
        };
        let (y, x_) = (at(0), at(1));
        let outside = y.lt(0i64) | x_.lt(0i64) | y.ge(data[2].cast(t)) | x_.ge(data[3].cast(t));
        let low = |v: &Ex| v.unary(relax_loops::UnOp::Floor).cast(DType::I64);
        let (y0, x0) = (low(&y), low(&x_));
        let (fy, fx) = (&y - &y0.cast(t), &x_ - &x0.cast(t));
        let one = fy.same(1.0);
        let tap = |dy: i64, dx: i64, wy: &Ex, wx: &Ex| {
            let (py, px) = (&y0 + dy, &x0 + dx);
            let inside = py.ge(0i64) & py.lt(&data[2]) & px.ge(0i64) & px.lt(&data[3]);
            let from = [i[0].clone(), i[1].clone(), py, px];
            let value = wx * wy * at_canonical(&x, &l.data, &l.canonical, &from);
            Ex::where_(&inside, &value, &value.same(0.0))
        };
        let (gy, gx) = (&one - &fy, &one - &fx);
        let value =
            tap(0, 0, &gy, &gx) + tap(1, 0, &fy, &gx) + tap(0, 1, &gy, &fx) + tap(1, 1, &fy, &fx);
        Ex::where_(&outside, &value.same(0.0), &value)
    });
    let shape = [
        data[0].clone(),
        weight[0].clone(),
        place[2].clone(),
        place[3].clone(),
    ];
    let shape = l.canonical.convert_extents(&l.out, &shape);
    let over = [weight[1].clone(), rows, columns];
    let y = te.reduce("deformable_conv", &shape, &over, Combiner::Sum, |i, r| {
        let at = l.canonical.index_from(&l.out, i);
        let group = if groups == 1 {
            Ex::idx(0)
        } else {
            at[1].floor_div(weight[0].floor_div(groups))
        };
        let channel = group * &weight[1] + &r[0];
        let from = [
            at[0].clone(),
            channel,
            r[1].clone(),
            r[2].clone(),
            at[2].clone(),
            at[3].clone(),
        ];
        let tap = [at[1].clone(), r[0].clone(), r[1].clone(), r[2].clone()];
        let tap = at_canonical(&w, &l.kernel, &l.canonical_kernel, &tap);
        moved.at(&from).cast(dtype) * tap.cast(dtype)
    });
    te.output(&y);
    Ok(())
}

fn correlation(cx: &mut RelCx<'_>) -> RelResult {
    let (a, b) = (of_rank(cx, 0, 4)?, of_rank(cx, 1, 4)?);
    word(cx, "layout", &["NCHW"])?;
    for (x, y) in a.iter().zip(&b) {
        need_eq(
            cx,
            x,
            y,
            Subject::Arg(1),
            "both images have the same extents",
        )?;
    }
    let kernel = positive(cx, "kernel_size")?;
    if kernel % 2 == 0 {
        let text = format!("`kernel_size={kernel}` must be odd");
        return cx.refuse(Subject::Attr("kernel_size"), text);
    }
    let far = cx.int("max_displacement")?;
    let (stride1, stride2) = (positive(cx, "stride1")?, positive(cx, "stride2")?);
    let padding = padding_of(cx, 2)?;
    if !(0..=1 << 30).contains(&far) || kernel > 1 << 30 {
        let text = format!("`max_displacement={far}` is out of range");
        return cx.refuse(Subject::Attr("max_displacement"), text);
    }
    let size = 2 * (far / stride2) + 1;
    let border = 2 * (far + (kernel - 1) / 2);
    let extent = |d: &Dim, k: usize| {
        let pad = padding[k].0.saturating_add(padding[k].1);
        let room = d + &Dim::from(pad.saturating_add(stride1 - 1 - border));
        room.floordiv(&Dim::from(stride1))
    };
    let out = vec![
        a[0].clone(),
        Dim::from(size * size),
        extent(&a[2], 0),
        extent(&b[3], 1),
    ];
    let dtype = cx.tensor(0)?.dtype;
    finish(cx, out, dtype)
}

fn correlation_compute(te: &mut Te<'_>) -> Done {
    let (a, b) = (te.arg(0), te.arg(1));
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), 2).ok_or("`padding` has a wrong length")?;
    let (kernel, far) = (te.int("kernel_size")?, te.int("max_displacement")?);
    let (stride1, stride2) = (te.int("stride1")?, te.int("stride2")?);
    let multiply = te.flag("is_multiply");
    let radius = far / stride2;
    let size = 2 * radius + 1;
    let border = 2 * (far + (kernel - 1) / 2);
    let extent = |k: usize| {
        let room = &a.shape[2 + k] + (padding[k].0 + padding[k].1 + stride1 - 1 - border);
        room.floor_div(stride1)
    };
    let shape = [
        a.shape[0].clone(),
        Ex::idx(size * size),
        extent(0),
        extent(1),
    ];
    let over = [a.shape[1].clone(), Ex::idx(kernel), Ex::idx(kernel)];
    // With zeros around both, no place that is compared lies outside of an image.
    let layout = Layout::parse("NCHW").ok_or("no layout")?;
    let [a_, b] = [&a, &b].map(|x| padded(te, x, (&layout, &layout), &padding, 0.0));
    let sum = te.reduce("correlation", &shape, &over, Combiner::Sum, |i, r| {
        let (y, x) = (&i[2] * stride1 + far + &r[1], &i[3] * stride1 + far + &r[2]);
        let dy = (i[1].floor_div(size) - radius) * stride2;
        let dx = (i[1].floor_mod(size) - radius) * stride2;
        let read = |t: &TensorRef, y: Ex, x: Ex| t.at(&[i[0].clone(), r[0].clone(), y, x]);
        let p = read(&a_, y.clone(), x.clone());
        let q = read(&b, y + dy, x + dx);
        if multiply {
            p * q
        } else {
            (p - q).unary(relax_loops::UnOp::Abs)
        }
    });
    let y = te.compute("mean", &shape, |i| {
        let count = Ex::idx(kernel * kernel) * &a.shape[1];
        sum.at(i) / count.cast(a.dtype)
    });
    te.output(&y);
    Ok(())
}

fn fifo(cx: &mut RelCx<'_>) -> RelResult {
    let (data, _) = cx.ranked(0)?;
    let (buffer, dtype) = cx.ranked(1)?;
    if data.len() != buffer.len() {
        let text = format!(
            "data and buffer must have the same rank, but have {} and {}",
            data.len(),
            buffer.len()
        );
        return cx.refuse(Subject::Call, text);
    }
    let axis = axis_attr(cx, "axis", buffer.len())?;
    for (k, (d, b)) in data.iter().zip(&buffer).enumerate() {
        if k != axis {
            need_eq(
                cx,
                d,
                b,
                Subject::Arg(0),
                "data and buffer agree beside the axis",
            )?;
        }
    }
    cx.require_at_least(
        &buffer[axis],
        &data[axis],
        Subject::Arg(0),
        "the buffer is at least as long as the data",
        |b, d| format!("the data are longer ({d}) than the buffer ({b}) along the axis"),
    )?;
    finish(cx, buffer, dtype)
}

fn fifo_compute(te: &mut Te<'_>) -> Done {
    let (x, buffer) = (te.arg(0), te.arg(1));
    let axis = te.axis("axis", buffer.rank())?;
    let kept = &buffer.shape[axis] - &x.shape[axis];
    let y = te.compute("fifo", &buffer.shape, |i| {
        let old = buffer.at(&set(i, axis, &i[axis] + &x.shape[axis]));
        let new = x.at(&set(i, axis, &i[axis] - &kept)).cast(buffer.dtype);
        Ex::where_(&i[axis].lt(&kept), &old, &new)
    });
    te.output(&y);
    Ok(())
}
