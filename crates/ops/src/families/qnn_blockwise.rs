//! Products with weights quantised in blocks: signed integers of 8 or 4 bits with a scale for each
//! run of some weights of a row, as language models are stored.

use relax_loops::{Combiner, Ex, Hint};
use relax_sym::Dim;
use relax_tensor::DType;

use super::qnn_util::data_one_of;
use super::util_te::Done;
use crate::{AttrTy, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[OpDef::new(
    "qnn.blockwise_dense",
    "`y = x · wᵀ` with a weight of signed integers that share a scale in blocks along k: \
     `w[j, t] * scale[j, t / block_size]`. With 4 bits, a byte holds two weights, the first one in \
     its lower half.",
    relation,
)
.hinted(super::hinted::blockwise)
.inputs(&[
    input("data", "any leading axes, then k"),
    input("weight", "(n, k), or (n, k / 2) with 4 bits"),
    input("scale", "(n, k / block_size)"),
])
.attrs(&[
    attr(
        "bits",
        AttrTy::Int,
        Default::Int(8),
        "the bits of a weight, 8 or 4",
    ),
    attr(
        "block_size",
        AttrTy::Int,
        Default::Int(32),
        "the number of adjacent weights of a row that share a scale",
    ),
])
.fusion(Fusion::OutElementwise)
.compute(compute)];

/// Returns how many weights a byte holds; a reason where the attributes allow none.
fn in_byte(bits: i64, block: i64) -> Result<i64, String> {
    let in_byte = match bits {
        8 => 1,
        4 => 2,
        _ => return Err(format!("a weight has 8 or 4 bits, not {bits}")),
    };
    if block <= 0 || block % in_byte != 0 {
        return Err(format!(
            "a block has whole bytes, which {block} weights of {bits} bits are not"
        ));
    }
    Ok(in_byte)
}

fn relation(cx: &mut RelCx<'_>) -> RelResult {
    let block = cx.int("block_size")?;
    let in_byte = match in_byte(cx.int("bits")?, block) {
        Ok(n) => n,
        Err(why) => return cx.refuse(Subject::Call, why),
    };
    for (i, dtype) in [DType::F32, DType::I8, DType::F32].into_iter().enumerate() {
        data_one_of(cx, i, &[dtype])?;
    }
    let (data, dtype) = cx.ranked(0)?;
    let Some((k, leading)) = data.split_last() else {
        let text = format!("`{}` takes data of rank 1 or more", cx.name);
        return cx.refuse(Subject::Arg(0), text);
    };
    let mut rows = Vec::new();
    for (i, what) in [(1, "weight"), (2, "scale")] {
        let (shape, _) = cx.ranked(i)?;
        let [n, columns] = &shape[..] else {
            let text = format!("the {what} must be a matrix, not of rank {}", shape.len());
            return cx.refuse(Subject::Arg(i), text);
        };
        let each = Dim::from(if i == 1 { in_byte } else { block });
        let rule = format!("the columns of the {what} must cover the last axis of the data");
        cx.require_eq(&(columns * &each), k, Subject::Arg(i), &rule)?;
        rows.push(n.clone());
    }
    let rule = "weight and scale must have as many rows";
    cx.require_eq(&rows[1], &rows[0], Subject::Arg(2), rule)?;
    let mut out = leading.to_vec();
    out.push(rows[0].clone());
    cx.set_tensor(out, dtype)
}

fn compute(te: &mut Te<'_>) -> Done {
    let (bits, block) = (te.int("bits")?, te.int("block_size")?);
    let in_byte = in_byte(bits, block)?;
    let [x, w, scale] = [0, 1, 2].map(|i| te.arg(i));
    let last = x.rank() - 1;
    let mut shape = x.shape.clone();
    shape[last] = w.shape[0].clone();
    // Whole blocks, which the relation says is all of the axis.
    let k = &scale.shape[1] * block;
    let y = te.reduce("product", &shape, &[k], Combiner::Sum, |i, r| {
        let (column, t) = (&i[last], &r[0]);
        let mut at = i.to_vec();
        at[last] = t.clone();
        let weight = match in_byte {
            1 => w.at(&[column.clone(), t.clone()]).cast(DType::I32),
            _ => {
                let byte = w.at(&[column.clone(), t.floor_div(2)]).cast(DType::I32);
                // The wanted half becomes the upper one of a word, whose sign it has.
                let by: Ex = t.floor_mod(2).cast(DType::I32) * -4 + 28;
                byte.shl(by).shr(28)
            }
        };
        let scale = scale.at(&[column.clone(), t.floor_div(block)]);
        x.at(&at) * (weight.cast(DType::F32) * scale)
    });
    let hint = Hint::Blockwise {
        data: x.buf,
        weight: w.buf,
        scale: scale.buf,
        block,
        bits,
    };
    te.program.hints.push((y.buf, hint));
    te.output(&y);
    Ok(())
}
