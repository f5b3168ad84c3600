//! Multiplication of integers by factors of the form `multiplier * 2^shift`.

use relax_loops::Ex;
use relax_tensor::DType as DT;

use super::elementwise::identity;
use super::util::{int_list, need_eq, shaped};
use super::util_te::Done;
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "fixed_point_multiply",
        "Each element times `multiplier / 2^31 * 2^shift`, rounded.",
        identity,
    )
    .inputs(&[input("data", "the input, int32")])
    .attrs(&[
        attr(
            "multiplier",
            Int,
            Default::Required,
            "the factor, with 31 fractional bits",
        ),
        attr("shift", Int, Default::Required, "the power of two"),
    ])
    .fusion(Fusion::Elementwise)
    .compute(fixed_point_multiply_compute),
    OpDef::new(
        "fixed_point_multiply_per_axis",
        "`fixed_point_multiply` with factors and shifts for each index of some axes.",
        per_axis,
    )
    .inputs(&[
        input("data", "the input, int32"),
        input("fp_multiplier", "the factors"),
        input("left_shift", "the shifts to the left"),
        input("right_shift", "the shifts to the right"),
    ])
    .attrs(&[
        attr(
            "is_lshift_required",
            Bool,
            Default::Bool(false),
            "whether any shift is to the left",
        ),
        attr(
            "is_rshift_required",
            Bool,
            Default::Bool(false),
            "whether any shift is to the right",
        ),
        attr(
            "axes",
            Ints,
            Default::Required,
            "the axes that the factors run along",
        ),
    ])
    .fusion(Fusion::Broadcast)
    .compute(per_axis_compute),
];

fn per_axis(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, _) = shaped(cx, 0)?;
    let axes = int_list(cx, "axes")?;
    let Some(dims) = dims else {
        return cx.set_out(cx.args[0]);
    };
    let wanted = (axes.iter())
        .map(|&axis| Ok(dims[cx.axis("axes", axis, dims.len())?].clone()))
        .collect::<RelResult<Vec<_>>>()?;
    for i in 1..4 {
        let Some(found) = shaped(cx, i)?.0 else {
            continue;
        };
        if found.len() != wanted.len() {
            let (n, m) = (found.len(), wanted.len());
            return cx.refuse(
                Subject::Arg(i),
                format!("this must have an axis for each of the {m} in `axes`, but has rank {n}"),
            );
        }
        for (a, b) in found.iter().zip(&wanted) {
            let rule = "there is one number for each index of the axes";
            need_eq(cx, a, b, Subject::Arg(i), rule)?;
        }
    }
    cx.set_out(cx.args[0])
}

/// `(x << left) * m >> (right + 31)` in 64 bits, rounded, as 32 bits.
fn multiply_shift(x: &Ex, m: &Ex, left: Option<&Ex>, right: &Ex) -> Ex {
    let [m, right] = [m, right].map(|e| e.cast(DT::I64));
    let mut wide = x.cast(DT::I64);
    if let Some(left) = left {
        wide = wide.shl(left.cast(DT::I64));
    }
    let shift = right + 31;
    let half = Ex::idx(1).shl(&shift - 1);
    (wide * m + half).shr(shift).cast(DT::I32)
}

fn fixed_point_multiply_compute(te: &mut Te<'_>) -> Done {
    let (m, s) = (te.int("multiplier")?, te.int("shift")?);
    te.elementwise(|x| {
        let dtype = x.dtype();
        let x = x.cast(DT::I32);
        // A factor of one half is just a shift, in 32 bits.
        let y = if m == 1 << 30 {
            match s.saturating_sub(1) {
                n @ 1.. => x.shl(n),
                0 => x.clone(),
                n => {
                    let n = n.saturating_neg();
                    (&x + Ex::int(DT::I32, 1).shl(n - 1)).shr(n)
                }
            }
        } else {
            let left = (s > 0).then(|| Ex::idx(s));
            multiply_shift(
                &x,
                &Ex::idx(m),
                left.as_ref(),
                &Ex::idx(s.min(0).saturating_neg()),
            )
        };
        y.cast(dtype)
    })
}

fn per_axis_compute(te: &mut Te<'_>) -> Done {
    let [x, m, left, right] = [0, 1, 2, 3].map(|k| te.arg(k));
    let rank = x.rank();
    let axes = te.ints("axes").ok_or("`axes` is no list")?;
    let axes: Vec<usize> = axes
        .iter()
        .map(|&a| if a < 0 { a + rank as i64 } else { a } as usize)
        .collect();
    if axes.iter().any(|&a| a >= rank) || [&m, &left, &right].iter().any(|t| t.rank() != axes.len())
    {
        return Err("`axes` does not fit the data or the factors".into());
    }
    let shifts_left = te.flag("is_lshift_required");
    let y = te.compute("y", &x.shape, |i| {
        let at: Vec<Ex> = axes.iter().map(|&a| i[a].clone()).collect();
        let left = shifts_left.then(|| left.at(&at));
        multiply_shift(&x.at(i), &m.at(&at), left.as_ref(), &right.at(&at)).cast(x.dtype)
    });
    te.output(&y);
    Ok(())
}
