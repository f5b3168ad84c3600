//! Convolutions whose weight was transformed beforehand: Winograd's, and as a matrix in tiles.

use relax_loops::{Combiner, Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::conv_attrs;
use super::nn_conv::{
    CONV2D_ATTRS, Layouts, canonical_arg, numbers, padded, padding_of, pairs, reach, steps,
};
use super::util::{dtype_or, finish, int_list};
use super::util_te::Done;
use super::vision_nms::of_rank;
use super::winograd::matrices;
use crate::AttrTy::{Int, Ints, Str};
use crate::{
    AttrDef, AttrTy, ComputeError, Default, Former, Fusion, Input, OpDef, RelCx, RelResult,
    Subject, Te, attr, former, input,
};

const TILE: AttrDef = attr(
    "tile_size",
    Int,
    Default::Required,
    "how many results are computed at once along an axis",
);

macro_rules! winograd_attrs {
    ($ones:expr, $zeros:expr, $data:expr, $kernel:expr) => {
        &[
            TILE,
            attr(
                "strides",
                Ints,
                Default::Ints($ones),
                "steps along the spatial axes: 1",
            ),
            conv_attrs::padding($zeros),
            attr(
                "dilation",
                Ints,
                Default::Ints($ones),
                "distance of taps: 1",
            ),
            attr("groups", Int, Default::Int(1), "groups of channels: 1"),
            conv_attrs::CHANNELS,
            attr(
                "kernel_size",
                Ints,
                Default::None,
                "spatial extents of the weight before it was transformed",
            ),
            conv_attrs::data_layout($data),
            attr(
                "kernel_layout",
                Str,
                Default::Str($kernel),
                "layout of the weight before it was transformed",
            ),
            conv_attrs::OUT_LAYOUT,
            conv_attrs::OUT_DTYPE,
        ]
    };
}

const CONV: &[Input] = &[
    input("data", "the data, in their layout"),
    input("weight", "the transformed weight"),
];
const WEIGHT: &[Input] = &[input("weight", "the weight")];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.contrib_conv2d_winograd_weight_transform",
        "The weight of a 2-D convolution, (o, i, kh, kw), transformed for Winograd's algorithm.",
        |cx| weight_rel(cx, 2),
    )
    .inputs(WEIGHT)
    .attrs(&[TILE])
    .fusion(Fusion::OutElementwise)
    .compute(|te| weight_compute(te, 2)),
    OpDef::new(
        "nn.contrib_conv3d_winograd_weight_transform",
        "The weight of a 3-D convolution, (o, i, kd, kh, kw), transformed for Winograd's algorithm; \
         along the depth only where it has 3 to 7 taps.",
        |cx| weight_rel(cx, 3),
    )
    .inputs(WEIGHT)
    .attrs(&[TILE])
    .fusion(Fusion::OutElementwise)
    .compute(|te| weight_compute(te, 3)),
    OpDef::new(
        "nn.contrib_conv2d_winograd_without_weight_transform",
        "2-D convolution by Winograd's algorithm with a transformed weight.",
        |cx| winograd_rel(cx, 2),
    )
    .result_dtype("out_dtype")
    .inputs(CONV)
    .attrs(winograd_attrs!(&[1, 1], &[0, 0], "NCHW", "OIHW"))
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv_compute(te, 2)),
    OpDef::new(
        "nn.contrib_conv3d_winograd_without_weight_transform",
        "3-D convolution by Winograd's algorithm with a transformed weight.",
        |cx| winograd_rel(cx, 3),
    )
    .result_dtype("out_dtype")
    .inputs(CONV)
    .attrs(winograd_attrs!(&[1, 1, 1], &[0, 0, 0], "NCDHW", "OIDHW"))
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv_compute(te, 3)),
    OpDef::new(
        "nn.contrib_conv2d_winograd_nnpack_weight_transform",
        "The weight of a 3x3 convolution transformed for the NNPACK library, which alone knows its form.",
        nnpack_rel,
    )
    .uncomputed("the transformed weight is in a form of the NNPACK library, which only that library reads")
    .result_dtype("out_dtype")
    .inputs(WEIGHT)
    .attrs(&[
        attr("convolution_algorithm", Int, Default::Required, "NNPACK's number of the algorithm"),
        attr("out_dtype", AttrTy::DType, Default::DType(""), "element type of the result; that of the weight where void"),
    ]),
    OpDef::new(
        "nn.contrib_conv2d_gemm_weight_transform",
        "The weight of a 2-D convolution, (kh, kw, i, o), as a transposed matrix in tiles.",
        gemm_weight_rel,
    )
    .former(&[Former::form(
        "nn.contrib_conv2d_gemm_weight_transform",
        19,
        former::named_tiles,
    )])
    .inputs(&[input("weights", "the weight, HWIO")])
    .attrs(&[
        attr("tile_rows", Int, Default::Required, "output channels of a tile"),
        attr("tile_cols", Int, Default::Required, "taps and input channels of a tile"),
    ])
    .fusion(Fusion::OutElementwise)
    .compute(gemm_weight_compute),
    OpDef::new(
        "nn.contrib_conv2d_gemm_without_weight_transform",
        "2-D convolution with a weight in tiles.",
        |cx| conv_rel(cx, 2),
    )
    .result_dtype("out_dtype")
    .inputs(CONV)
    .attrs(CONV2D_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(gemm_compute),
];

/// Returns how many of the last spatial axes are transformed: the depth is transformed only with 3
/// to 7 taps.
fn transformed(n: usize, depth: Option<i64>) -> usize {
    match depth {
        Some(d) if n == 3 && !(3..=7).contains(&d) => 2,
        _ => n,
    }
}

fn weight_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let w = of_rank(cx, 0, n + 2)?;
    let dtype = cx.tensor(0)?.dtype;
    let tile = cx.int("tile_size")?;
    if tile < 1 {
        return cx.refuse(
            Subject::Attr("tile_size"),
            format!("`tile_size={tile}` must be positive"),
        );
    }
    let square = "the window must be as high as wide";
    super::util::need_eq(cx, &w[n], &w[n + 1], Subject::Arg(0), square)?;
    let grown = |d: &Dim| d + &Dim::from(tile) - Dim::ONE;
    if n == 3 && w[2].as_const().is_none() {
        return cx.refuse(
            Subject::Arg(0),
            "the weight's depth must be known: it decides the form of the result",
        );
    }
    let axes = transformed(n, w[2].as_const());
    let mut out: Vec<Dim> = w[2 + n - axes..].iter().map(grown).collect();
    out.extend(w[2..2 + n - axes].iter().cloned());
    out.extend(w[..2].iter().cloned());
    finish(cx, out, dtype)
}

/// Returns the extent of a weight, which must be known when the program is built.
fn constant(e: &Ex) -> Result<i64, ComputeError> {
    e.as_int()
        .ok_or_else(|| "Winograd's algorithm needs a weight of known extents".into())
}

/// A matrix as a tensor.
fn matrix(te: &mut Te<'_>, name: &str, rows: &[Vec<f64>], dtype: DType) -> TensorRef {
    let shape = [rows.len(), rows.first().map_or(0, Vec::len)].map(|n| Ex::idx(n as i64));
    let m = te.temp(name, dtype, &shape);
    te.nest(|n| {
        for (i, row) in rows.iter().enumerate() {
            for (j, v) in row.iter().enumerate() {
                n.store(
                    &m,
                    &[Ex::idx(i as i64), Ex::idx(j as i64)],
                    Ex::float(dtype, *v),
                );
            }
        }
    });
    m
}

fn winograd_of(tile: i64, taps: i64) -> Result<super::winograd::Matrices, ComputeError> {
    matrices(tile, taps).ok_or_else(|| {
        format!("Winograd's algorithm is known for 2 to 8 results and 3 to 7 taps, not for {tile} and {taps}").into()
    })
}

fn weight_compute(te: &mut Te<'_>, n: usize) -> Done {
    let w = te.arg(0);
    let tile = te.int("tile_size")?;
    let taps: Vec<i64> = w.shape[2..]
        .iter()
        .map(constant)
        .collect::<Result<_, _>>()?;
    let axes = transformed(n, taps.first().copied());
    let plain = n - axes;
    let mut gs = Vec::new();
    for &t in &taps[plain..] {
        let m = winograd_of(tile, t)?;
        gs.push(matrix(te, "g", &m.g, w.dtype));
    }
    let mut shape: Vec<Ex> = taps[plain..]
        .iter()
        .map(|t| Ex::idx(t + tile - 1))
        .collect();
    shape.extend(w.shape[2..2 + plain].iter().cloned());
    shape.extend(w.shape[..2].iter().cloned());
    let over: Vec<Ex> = taps[plain..].iter().map(|&t| Ex::idx(t)).collect();
    let y = te.reduce("transformed", &shape, &over, Combiner::Sum, |i, r| {
        let mut at = i[n..].to_vec();
        at.extend(i[axes..n].iter().cloned());
        at.extend(r.iter().cloned());
        let factors = (0..axes).map(|k| gs[k].at(&[i[k].clone(), r[k].clone()]));
        factors.fold(w.at(&at), |value, g| value * g)
    });
    te.output(&y);
    Ok(())
}

/// The type relation of a convolution whose weight may have any shape: `channels` and `kernel_size`
/// determine the result. The weight is the result of the weight transformation: its channels are
/// its last axes.
fn winograd_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let l = Layouts::of_rel(cx, n, "OI")?;
    let (data, _) = canonical_arg(cx, 0, &l.data, &l.canonical)?;
    let channels = Dim::from(cx.int("channels")?);
    if let Some(w) = (cx.tensor(1)?.shape.dims()).filter(|w| w.len() == n + 2) {
        let (own, inner) = (w[n].clone(), w[n + 1].clone());
        let what = "the transformed weight has its output channels before its last axis";
        super::util::need_eq(cx, &own, &channels, Subject::Arg(1), what)?;
        let what = "the transformed weight has the data's channels last";
        super::util::need_eq(cx, &inner, &data[1], Subject::Arg(1), what)?;
    }
    conv_rel(cx, n)
}

pub(super) fn conv_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let l = Layouts::of_rel(cx, n, "OI")?;
    let (data, dtype) = canonical_arg(cx, 0, &l.data, &l.canonical)?;
    let (strides, dilation) = (steps(cx, "strides", n, 1)?, steps(cx, "dilation", n, 1)?);
    let padding = padding_of(cx, n)?;
    let channels = cx.int("channels")?;
    let kernel = int_list(cx, "kernel_size")?;
    if kernel.len() != n {
        let text = format!("`kernel_size` needs {n} numbers, not {}", kernel.len());
        return cx.refuse(Subject::Attr("kernel_size"), text);
    }
    let mut out = vec![data[0].clone(), Dim::from(channels)];
    for k in 0..n {
        let size = &data[2 + k];
        if size.is_any() {
            out.push(Dim::ANY);
            continue;
        }
        let pad = Dim::from(padding[k].0.saturating_add(padding[k].1));
        let room = size + &pad - reach(&Dim::from(kernel[k]), dilation[k]);
        out.push(room.floordiv(&Dim::from(strides[k])) + Dim::ONE);
    }
    let dtype = dtype_or(cx, "out_dtype", dtype);
    finish(cx, l.canonical.convert_dims(&l.out, &out), dtype)
}

fn conv_compute(te: &mut Te<'_>, n: usize) -> Done {
    let l = Layouts::of_te(te, n, "OI")?;
    let (x, w) = (te.arg(0), te.arg(1));
    let dtype = te.out(0).dtype;
    let (tile, taps) = (te.int("tile_size")?, numbers(te, "kernel_size", n));
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), n).ok_or("`padding` has a wrong length")?;
    let one = |name: &str| numbers(te, name, n).iter().all(|&v| v == 1);
    if !one("strides") || !one("dilation") || te.int("groups")? != 1 {
        return Err("Winograd's algorithm needs strides, dilation and groups of 1".into());
    }
    let axes = transformed(n, taps.first().copied());
    let plain = n - axes;
    if w.rank() != n + 2 {
        return Err("the weight must have the form that the weight transformation gives".into());
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for &t in &taps[plain..] {
        let m = winograd_of(tile, t)?;
        a.push(matrix(te, "a", &m.a, dtype));
        b.push(matrix(te, "b", &m.b, dtype));
    }
    let p = padded(te, &x, (&l.data, &l.canonical), &padding, 0.0);
    let data = l.data.convert_extents(&l.canonical, &x.shape);
    let mut shape = vec![data[0].clone(), w.shape[n].clone()];
    for k in 0..n {
        shape.push(&data[2 + k] + (padding[k].0 + padding[k].1 - taps[k] + 1));
    }
    let sizes: Vec<Ex> = taps[plain..]
        .iter()
        .map(|t| Ex::idx(t + tile - 1))
        .collect();
    let tiles: Vec<Ex> = (0..axes)
        .map(|k| (&shape[2 + plain + k] + (tile - 1)).floor_div(tile))
        .collect();
    let depth: Vec<Ex> = (0..plain).map(|k| &shape[2 + k] + (taps[k] - 1)).collect();
    // The inputs of each tile, transformed: (n, c, depth…, tiles…, size…).
    let mut inner = data[..2].to_vec();
    inner.extend(depth.iter().chain(&tiles).chain(&sizes).cloned());
    let v = te.reduce("inputs", &inner, &sizes, Combiner::Sum, |i, r| {
        let mut at = i[..2 + plain].to_vec();
        let mut inside = Ex::bool(true);
        for k in 0..axes {
            let place = &i[2 + plain + k] * tile + &r[k];
            inside = inside & place.lt(&p.shape[2 + plain + k]);
            at.push(place);
        }
        let value = p.at(&at).cast(dtype);
        let value = Ex::where_(&inside, &value, &value.same(0.0));
        let at = |k: usize| [r[k].clone(), i[2 + n + k].clone()];
        (0..axes).fold(value, |value, k| value * b[k].at(&at(k)))
    });
    // The products, summed over channels (and taps of the axes that are not transformed).
    let mut products = vec![data[0].clone(), w.shape[n].clone()];
    products.extend(
        shape[2..2 + plain]
            .iter()
            .chain(&tiles)
            .chain(&sizes)
            .cloned(),
    );
    let mut over = vec![data[1].clone()];
    over.extend(taps[..plain].iter().map(|&t| Ex::idx(t)));
    let m = te.reduce("products", &products, &over, Combiner::Sum, |i, r| {
        let mut v_at = i.to_vec();
        v_at[1] = r[0].clone();
        let mut w_at = i[2 + n..].to_vec();
        for k in 0..plain {
            v_at[2 + k] = &i[2 + k] + &r[1 + k];
            w_at.push(r[1 + k].clone());
        }
        w_at.extend([i[1].clone(), r[0].clone()]);
        v.at(&v_at) * w.at(&w_at).cast(dtype)
    });
    let out = l.canonical.convert_extents(&l.out, &shape);
    let y = te.reduce("winograd", &out, &sizes, Combiner::Sum, |i, r| {
        let at = l.canonical.index_from(&l.out, i);
        let mut from = at[..2 + plain].to_vec();
        from.extend((0..axes).map(|k| at[2 + plain + k].floor_div(tile)));
        from.extend(r.iter().cloned());
        let within = |k: usize| [r[k].clone(), at[2 + plain + k].floor_mod(tile)];
        (0..axes).fold(m.at(&from), |value, k| value * a[k].at(&within(k)))
    });
    te.output(&y);
    Ok(())
}

fn nnpack_rel(cx: &mut RelCx<'_>) -> RelResult {
    let w = of_rank(cx, 0, 4)?;
    for extent in &w[2..] {
        let rule = "the window must be 3 by 3";
        super::util::need_eq(cx, extent, &Dim::from(3), Subject::Arg(0), rule)?;
    }
    let dtype = cx.tensor(0)?.dtype;
    let dtype = dtype_or(cx, "out_dtype", dtype);
    let eight = Dim::from(8);
    finish(
        cx,
        vec![w[0].clone(), w[1].clone(), eight.clone(), eight],
        dtype,
    )
}

fn gemm_weight_rel(cx: &mut RelCx<'_>) -> RelResult {
    let w = of_rank(cx, 0, 4)?;
    let dtype = cx.tensor(0)?.dtype;
    let (n, k) = (cx.int("tile_rows")?, cx.int("tile_cols")?);
    for (name, v) in [("tile_rows", n), ("tile_cols", k)] {
        if v < 1 {
            return cx.refuse(
                Subject::Attr(name),
                format!("`{name}={v}` must be positive"),
            );
        }
    }
    let tiles = |d: &Dim, size: i64| (d + &Dim::from(size - 1)).floordiv(&Dim::from(size));
    let depth = &w[0] * &w[1] * &w[2];
    let out = vec![
        tiles(&w[3], n),
        tiles(&depth, k),
        Dim::from(n),
        Dim::from(k),
    ];
    finish(cx, out, dtype)
}

fn gemm_weight_compute(te: &mut Te<'_>) -> Done {
    let w = te.arg(0);
    let (n, k) = (te.int("tile_rows")?, te.int("tile_cols")?);
    let depth = &w.shape[0] * &w.shape[1] * &w.shape[2];
    let tiles = |d: &Ex, size: i64| (d + (size - 1)).floor_div(size);
    let shape = [
        tiles(&w.shape[3], n),
        tiles(&depth, k),
        Ex::idx(n),
        Ex::idx(k),
    ];
    let y = te.compute("tiles", &shape, |i| {
        let (row, column) = (&i[1] * k + &i[3], &i[0] * n + &i[2]);
        let inside = row.lt(&depth) & column.lt(&w.shape[3]);
        let value = w.at(&gemm_index(&row, column, &w.shape[1], &w.shape[2]));
        Ex::where_(&inside, &value, &value.same(0.0))
    });
    te.output(&y);
    Ok(())
}

/// Returns the index (kh, kw, i, o) of a row and column of the weight as a matrix.
fn gemm_index(row: &Ex, column: Ex, width: &Ex, channels: &Ex) -> [Ex; 4] {
    let tap = row.floor_div(channels);
    [
        tap.floor_div(width),
        tap.floor_mod(width),
        row.floor_mod(channels),
        column,
    ]
}

fn gemm_compute(te: &mut Te<'_>) -> Done {
    let l = Layouts::of_te(te, 2, "OI")?;
    let (x, w) = (te.arg(0), te.arg(1));
    let dtype = te.out(0).dtype;
    let taps = numbers(te, "kernel_size", 2);
    let (strides, dilation) = (numbers(te, "strides", 2), numbers(te, "dilation", 2));
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), 2).ok_or("`padding` has a wrong length")?;
    if te.int("groups")? != 1 {
        return Err("a weight in tiles is for one group".into());
    }
    if w.rank() != 4 {
        return Err("the weight must have the form that the weight transformation gives".into());
    }
    let p = padded(te, &x, (&l.data, &l.canonical), &padding, 0.0);
    let data = l.data.convert_extents(&l.canonical, &x.shape);
    let mut shape = vec![data[0].clone(), Ex::idx(te.int("channels")?)];
    for k in 0..2 {
        let window = (taps[k] - 1) * dilation[k] + 1;
        let room = &data[2 + k] + (padding[k].0 + padding[k].1 - window);
        shape.push(room.floor_div(strides[k]) + 1);
    }
    let shape = l.canonical.convert_extents(&l.out, &shape);
    let over = [Ex::idx(taps[0]), Ex::idx(taps[1]), data[1].clone()];
    let y = te.reduce("gemm_conv", &shape, &over, Combiner::Sum, |i, r| {
        let at = l.canonical.index_from(&l.out, i);
        let row = (&r[0] * taps[1] + &r[1]) * &data[1] + &r[2];
        let tile = [
            at[1].floor_div(&w.shape[2]),
            row.floor_div(&w.shape[3]),
            at[1].floor_mod(&w.shape[2]),
            row.floor_mod(&w.shape[3]),
        ];
        let from = [
            at[0].clone(),
            r[2].clone(),
            &at[2] * strides[0] + &r[0] * dilation[0],
            &at[3] * strides[1] + &r[1] * dilation[1],
        ];
        p.at(&from).cast(dtype) * w.at(&tile).cast(dtype)
    });
    te.output(&y);
    Ok(())
}
