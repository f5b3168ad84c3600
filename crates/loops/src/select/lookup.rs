//! Stages that look bytes up in a table of all their values, where these lie in the order of the
//! result.

use relax_tensor::DType;

use super::operations::Split;
use crate::extents::{elements, numbers};
use crate::{BinOp, Buf, Compute, Ex, ExKind, Program};

/// The values of a byte.
const VALUES: i64 = 256;

/// A table, and the bytes that are looked up in it.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// The table, from the least value of a byte on.
    pub table: Buf,
    /// The bytes.
    pub data: Buf,
}

/// Returns what a byte is added to for its place in a table.
pub(super) fn least(byte: DType) -> i64 {
    i64::from(byte == DType::I8) * (VALUES / 2)
}

/// Returns the table and the bytes of a stage that does nothing else.
pub(super) fn find(program: &Program, c: &Compute) -> Option<Lookup> {
    let ExKind::Load(table, index) = c.value.kind() else {
        return None;
    };
    let [place] = &index[..] else {
        return None;
    };
    let (byte, offset) = match place.kind() {
        ExKind::Binary(BinOp::Add, x, offset) => (x, offset.as_int()?),
        _ => (place, 0),
    };
    let ExKind::Cast(byte) = byte.kind() else {
        return None;
    };
    let table = *table;
    let of = &program.bufs[table];
    let fits = is_byte(of.dtype)
        && of.dtype == program.bufs[c.out].dtype
        && elements(&of.shape) == Some(VALUES)
        && is_byte(byte.dtype())
        && offset == least(byte.dtype());
    let data = as_it_lies(program, c, byte)?;
    fits.then_some(Lookup { table, data })
}

/// Returns whether elements of a type are bytes that a table may be of.
pub(super) fn is_byte(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::U8)
}

/// Returns the buffer that an expression reads in the order of the stage's results, all of it and
/// nothing twice.
pub(super) fn as_it_lies(program: &Program, c: &Compute, e: &Ex) -> Option<Buf> {
    let ExKind::Load(buf, index) = e.kind() else {
        return None;
    };
    let shape = numbers(&program.bufs[*buf].shape)?;
    let all = elements(&program.bufs[c.out].shape)?;
    if c.reduce.is_some() || elements(&program.bufs[*buf].shape) != Some(all) {
        return None;
    }
    let alone = Compute {
        value: e.clone(),
        ..c.clone()
    };
    let stage = Split::new(program, &alone, program.loops(&alone));
    let read = stage.load(e, *buf, index)?;
    let (mut steps, mut size) = (vec![0i64; stage.axes.len()], 1i64);
    for ((along, rest), extent) in read.index.iter().zip(&shape).rev() {
        for (step, by) in steps.iter_mut().zip(along) {
            *step = step.checked_add(by.as_int()?.checked_mul(size)?)?;
        }
        if rest.as_int() != Some(0) {
            return None;
        }
        size = size.checked_mul(*extent)?;
    }
    let mut behind = 1;
    for (step, (_, extent)) in steps.iter().zip(&stage.axes).rev() {
        let extent = extent.as_int()?;
        if extent != 1 && *step != behind {
            return None;
        }
        behind *= extent;
    }
    Some(*buf)
}
