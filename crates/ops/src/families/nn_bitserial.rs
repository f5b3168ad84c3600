//! Arithmetic on numbers of few bits, bit by bit.

use relax_loops::{Combiner, Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::conv_attrs;
use super::nn_conv::{canonical_arg, numbers, padding_of, pairs, steps};
use super::util::{dtype_or, finish, int_list};
use super::util_te::Done;
use crate::AttrTy::{Bool, Int, Ints, Str};
use crate::{
    AttrDef, AttrTy, ComputeError, Default, Fusion, Layout, OpDef, RelCx, RelResult, Subject, Te,
    attr, input,
};

const WEIGHT_BITS: AttrDef = attr("weight_bits", Int, Default::Int(1), "bits of the weight");
const PACK: AttrDef = attr(
    "pack_dtype",
    AttrTy::DType,
    Default::DType(""),
    "the type of the words that bits are packed into",
);
const OUT: AttrDef = attr(
    "out_dtype",
    AttrTy::DType,
    Default::DType(""),
    "element type of the result",
);
const UNIPOLAR: AttrDef = attr(
    "unipolar",
    Bool,
    Default::Bool(true),
    "whether the weight's bits stand for 1 and -1; else for 1 and 0",
);

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.bitpack",
        "The bits of the numbers along an axis, packed into words.",
        bitpack,
    )
    .inputs(&[input("data", "the numbers")])
    .attrs(&[
        attr("bits", Int, Default::Int(1), "how many bits of each number"),
        attr("pack_axis", Int, Default::Int(1), "the axis that is packed"),
        attr("bit_axis", Int, Default::Int(-1), "the new axis of bits"),
        attr(
            "pack_type",
            AttrTy::DType,
            Default::DType(""),
            "the type of words",
        ),
        attr(
            "name",
            Str,
            Default::Str("BitPack"),
            "a name for the computation",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(bitpack_compute),
    OpDef::new(
        "nn.bitserial_conv2d",
        "2-D convolution of numbers of few bits.",
        conv2d,
    )
    .inputs(&[
        input("data", "NCHW or NHWC"),
        input(
            "weight",
            "OIHW or HWIO; or packed, with an axis of bits at the end",
        ),
    ])
    .attrs(&[
        conv_attrs::strides(&[1, 1]),
        conv_attrs::padding(&[0, 0]),
        attr(
            "kernel_size",
            Ints,
            Default::Ints(&[3, 3]),
            "height and width of the weight",
        ),
        conv_attrs::CHANNELS,
        attr("activation_bits", Int, Default::Int(1), "bits of the data"),
        WEIGHT_BITS,
        conv_attrs::data_layout("NCHW"),
        conv_attrs::kernel_layout("OIHW"),
        PACK,
        OUT,
        UNIPOLAR,
    ])
    .fusion(Fusion::OutElementwise)
    .compute(conv2d_compute),
    OpDef::new(
        "nn.bitserial_dense",
        "`y = x · wᵀ` of numbers of few bits.",
        dense,
    )
    .inputs(&[
        input("data", "(m, k)"),
        input("weight", "(units, k); or packed, (units, bits, k / word)"),
    ])
    .attrs(&[
        attr(
            "units",
            Int,
            Default::Required,
            "the number of result columns",
        ),
        attr("data_bits", Int, Default::Int(1), "bits of the data"),
        WEIGHT_BITS,
        PACK,
        OUT,
        UNIPOLAR,
    ])
    .fusion(Fusion::OutElementwise)
    .compute(dense_compute),
];

/// A number of bits, 1 to 32.
fn bits(cx: &RelCx<'_>, name: &'static str) -> RelResult<i64> {
    match cx.int(name)? {
        n if (1..=32).contains(&n) => Ok(n),
        n => cx.refuse(Subject::Attr(name), format!("`{name}={n}` must be 1 to 32")),
    }
}

fn bitpack(cx: &mut RelCx<'_>) -> RelResult {
    let (mut dims, _) = cx.ranked(0)?;
    let bits = bits(cx, "bits")?;
    let rank = dims.len() as i64;
    let (pack, new) = (cx.int("pack_axis")?, cx.int("bit_axis")?);
    if !(0..rank).contains(&pack) {
        let text = format!("`pack_axis={pack}` is out of range: the tensor has rank {rank}");
        return cx.refuse(Subject::Attr("pack_axis"), text);
    }
    if !(0..=rank).contains(&new) {
        let text = format!("`bit_axis={new}` must be 0 to {rank}");
        return cx.refuse(Subject::Attr("bit_axis"), text);
    }
    let Some(word) = cx.dtype("pack_type").filter(|d| d.is_uint() && d.bits >= 8) else {
        return cx.refuse(
            Subject::Attr("pack_type"),
            "`pack_type` must be uint8, uint16, uint32 or uint64",
        );
    };
    let width = i64::from(word.bits);
    let rule = format!("the packed axis must be a multiple of {width}, the bits of {word}");
    let extent = dims[pack as usize].clone();
    cx.require_multiple(&extent, width, Subject::Arg(0), &rule, |n| {
        format!("{rule}, but is {n}")
    })?;
    dims[pack as usize] = dims[pack as usize].floordiv(&Dim::from(width));
    dims.insert(new as usize, Dim::from(bits));
    finish(cx, dims, word)
}

fn bitpack_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let (pack, new) = (te.int("pack_axis")? as usize, te.int("bit_axis")? as usize);
    let word = te.out(0).dtype;
    let width = i64::from(word.bits);
    let mut shape = x.shape.clone();
    shape[pack] = shape[pack].floor_div(width);
    shape.insert(new, Ex::idx(te.int("bits")?));
    // The first number of a word is stored in its highest bit.
    let y = te.reduce("pack", &shape, &[Ex::idx(width)], Combiner::Sum, |i, r| {
        let mut at = i.to_vec();
        let b = at.remove(new);
        at[pack] = &at[pack] * width + &r[0];
        bit(&x.at(&at), &b)
            .cast(word)
            .shl((Ex::idx(width - 1) - &r[0]).cast(word))
    });
    te.output(&y);
    Ok(())
}

/// A bit of a number, 0 or 1, as `int64`.
fn bit(x: &Ex, b: &Ex) -> Ex {
    x.cast(DType::I64).shr(b) & Ex::int(DType::I64, 1)
}

/// Reads bit `b` of a number of a packed tensor, at `position` along the axis `axis` of words.
fn packed_bit(t: &TensorRef, mut at: Vec<Ex>, axis: usize, position: &Ex) -> Ex {
    let width = i64::from(t.dtype.bits);
    at[axis] = position.floor_div(width);
    bit(
        &t.at(&at),
        &(Ex::idx(width - 1) - position.floor_mod(width)),
    )
}

/// Returns the contribution of one pair of bits: their product, shifted to its place value.
fn term(unipolar: bool, x: &Ex, w: &Ex, shift: &Ex, dtype: DType) -> Ex {
    let w = if unipolar { w * 2 - 1 } else { w.clone() };
    (x * &w).shl(shift).cast(dtype)
}

fn conv2d(cx: &mut RelCx<'_>) -> RelResult {
    let text = cx.attr("data_layout").as_str().unwrap_or("").to_owned();
    let Some((own, canonical)) = layouts(&text) else {
        let text = format!("`data_layout=\"{text}\"` must be \"NCHW\" or \"NHWC\"");
        return cx.refuse(Subject::Attr("data_layout"), text);
    };
    let (data, _) = canonical_arg(cx, 0, &own, &canonical)?;
    let (w, _) = cx.ranked(1)?;
    if w.len() != 4 && w.len() != 5 {
        let text = format!("the weight has rank 4, or 5 when packed, not {}", w.len());
        return cx.refuse(Subject::Arg(1), text);
    }
    bits(cx, "activation_bits")?;
    bits(cx, "weight_bits")?;
    let channels = cx.int("channels")?;
    let kernel = int_list(cx, "kernel_size")?;
    let (strides, padding) = (steps(cx, "strides", 2, 1)?, padding_of(cx, 2)?);
    if kernel.len() != 2 {
        return cx.refuse(
            Subject::Attr("kernel_size"),
            "`kernel_size` needs two numbers",
        );
    }
    let mut out = vec![data[0].clone(), Dim::from(channels)];
    for k in 0..2 {
        let pad = padding[k]
            .0
            .saturating_add(padding[k].1)
            .saturating_sub(kernel[k]);
        let room = &data[2 + k] + &Dim::from(pad);
        out.push(room.floordiv(&Dim::from(strides[k])) + Dim::ONE);
    }
    let Some(dtype) = cx.dtype("out_dtype") else {
        return cx.refuse(Subject::Attr("out_dtype"), "`out_dtype` must be given");
    };
    finish(cx, canonical.convert_dims(&own, &out), dtype)
}

fn layouts(text: &str) -> Option<(Layout, Layout)> {
    let own = Layout::parse(text).filter(|_| text == "NCHW" || text == "NHWC")?;
    Some((own, Layout::parse("NCHW")?))
}

fn conv2d_compute(te: &mut Te<'_>) -> Done {
    let (x, w) = (te.arg(0), te.arg(1));
    let (own, canonical) = layouts(te.str("data_layout")).ok_or("unknown layout")?;
    let hwio = te.str("kernel_layout").starts_with("HWIO");
    let dtype = te.out(0).dtype;
    let (x_bits, w_bits) = (te.int("activation_bits")?, te.int("weight_bits")?);
    let (unipolar, strides) = (te.flag("unipolar"), numbers(te, "strides", 2));
    let kernel = te.ints("kernel_size").unwrap_or_default();
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), 2).ok_or("`padding` has a wrong length")?;
    let channels = te.int("channels")?;
    let [kh, kw] = kernel[..] else {
        return Err("`kernel_size` needs two numbers".into());
    };
    let data = own.convert_extents(&canonical, &x.shape);
    let mut shape = vec![data[0].clone(), Ex::idx(channels)];
    for k in 0..2 {
        let room = &data[2 + k] + (padding[k].0 + padding[k].1 - kernel[k]);
        shape.push(room.floor_div(strides[k]) + 1);
    }
    let shape = canonical.convert_extents(&own, &shape);
    let over = [
        data[1].clone(),
        Ex::idx(kh),
        Ex::idx(kw),
        Ex::idx(w_bits),
        Ex::idx(x_bits),
    ];
    let y = te.reduce("bitserial_conv", &shape, &over, Combiner::Sum, |i, r| {
        let at = canonical.index_from(&own, i);
        let mut from = vec![at[0].clone(), r[0].clone()];
        let mut inside = Ex::bool(true);
        for k in 0..2 {
            let p = &at[2 + k] * strides[k] + &r[1 + k] - padding[k].0;
            inside = inside & p.ge(0i64) & p.lt(&data[2 + k]);
            from.push(p);
        }
        let xb = bit(&x.at(&own.index_from(&canonical, &from)), &r[4]);
        let zero = Ex::int(DType::I64, 0);
        let (tap, axis) = if hwio {
            (
                vec![r[1].clone(), r[2].clone(), r[0].clone(), at[1].clone()],
                2,
            )
        } else {
            (
                vec![at[1].clone(), r[0].clone(), r[1].clone(), r[2].clone()],
                1,
            )
        };
        let wb = if w.rank() == 4 {
            bit(&w.at(&tap), &r[3])
        } else {
            let mut tap = tap;
            tap.push(r[3].clone());
            packed_bit(&w, tap, axis, &r[0])
        };
        let value = term(unipolar, &xb, &wb, &(&r[3] + &r[4]), DType::I64);
        Ex::where_(&inside, &value, &zero).cast(dtype)
    });
    te.output(&y);
    Ok(())
}

fn dense(cx: &mut RelCx<'_>) -> RelResult {
    let (mut data, dtype) = cx.ranked(0)?;
    if data.len() != 2 {
        let text = format!("`{}` takes a matrix, not rank {}", cx.name, data.len());
        return cx.refuse(Subject::Arg(0), text);
    }
    let (w, _) = cx.ranked(1)?;
    if w.len() != 2 && w.len() != 3 {
        let text = format!("the weight has rank 2, or 3 when packed, not {}", w.len());
        return cx.refuse(Subject::Arg(1), text);
    }
    bits(cx, "data_bits")?;
    bits(cx, "weight_bits")?;
    let units = Dim::from(cx.int("units")?);
    if let Some([rows, ..]) = cx.tensor(1)?.shape.dims() {
        let (rows, rule) = (
            rows.clone(),
            "the weight has one row for each of the `units`",
        );
        super::util::need_eq(cx, &rows, &units, Subject::Arg(1), rule)?;
    }
    data[1] = units;
    let dtype = dtype_or(cx, "out_dtype", dtype);
    finish(cx, data, dtype)
}

fn dense_compute(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (x, w) = (te.arg(0), te.arg(1));
    let dtype = te.out(0).dtype;
    let (x_bits, w_bits) = (te.int("data_bits")?, te.int("weight_bits")?);
    let unipolar = te.flag("unipolar");
    let shape = [x.shape[0].clone(), w.shape[0].clone()];
    let over = [x.shape[1].clone(), Ex::idx(w_bits), Ex::idx(x_bits)];
    let y = te.reduce("bitserial_dense", &shape, &over, Combiner::Sum, |i, r| {
        let xb = bit(&x.at(&[i[0].clone(), r[0].clone()]), &r[2]);
        let wb = if w.rank() == 2 {
            bit(&w.at(&[i[1].clone(), r[0].clone()]), &r[1])
        } else {
            let at = vec![i[1].clone(), r[1].clone(), Ex::idx(0)];
            packed_bit(&w, at, 2, &r[0])
        };
        term(unipolar, &xb, &wb, &(&r[1] + &r[2]), dtype)
    });
    te.output(&y);
    Ok(())
}
