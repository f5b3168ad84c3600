//! Nests that a kernel for lines computes: sorting, the index of an extreme, running sums.

use relax_tensor::{DType, TypeCode};

use crate::{Buf, Hint, Lines, Program, Role, Stage};

/// A nest along the lines of an array that writes one or two buffers.
#[derive(Clone, PartialEq, Debug)]
pub struct LinesNest {
    /// The array.
    pub data: Buf,
    /// The axis that lines run along.
    pub axis: usize,
    /// The operation; of a nest that sorts, without `indices`.
    pub work: Lines,
    /// The buffer of values.
    pub values: Option<Buf>,
    /// The buffer of indices.
    pub indices: Option<Buf>,
}

/// Returns the operation that the hints of all buffers written by a nest describe together.
pub fn find(program: &Program, nest: &Stage) -> Option<LinesNest> {
    if !matches!(nest, Stage::Nest(_)) {
        return None;
    }
    let mut all: Option<LinesNest> = None;
    for buf in nest.written() {
        if program.bufs[buf].role == Role::Local {
            continue;
        }
        let Some(&Hint::Lines { data, axis, work }) = program.hint(buf) else {
            return None;
        };
        let (work, indices) = match work {
            Lines::Sorted { ascend, indices } => {
                // The same work for both buffers.
                let sorted = Lines::Sorted {
                    ascend,
                    indices: false,
                };
                (sorted, indices)
            }
            Lines::Extreme { .. } => (work, true),
            Lines::Running { .. } => (work, false),
        };
        let found = all.get_or_insert(LinesNest {
            data,
            axis,
            work,
            values: None,
            indices: None,
        });
        let same = (found.data, found.axis, found.work) == (data, axis, work);
        let place = if indices {
            &mut found.indices
        } else {
            &mut found.values
        };
        if !same || place.replace(buf).is_some() {
            return None;
        }
    }
    let of = |b: Buf| program.bufs[b].dtype;
    all.filter(|w| {
        takes(of(w.data), w.work)
            && program.bufs[w.data].role != Role::Local
            && w.values.is_none_or(|b| of(b) == of(w.data))
            && (w.indices).is_none_or(|b| matches!(of(b), DType::I32 | DType::I64))
    })
}

/// Returns whether there is a kernel for an operation along lines of an element type.
pub fn takes(dtype: DType, work: Lines) -> bool {
    is_element(dtype) && (dtype != DType::BOOL || matches!(work, Lines::Extreme { .. }))
}

/// Returns whether kernels of the runtime take elements of a type at all.
pub fn is_element(dtype: DType) -> bool {
    let bits = match dtype.code {
        TypeCode::Int => &[8, 16, 32, 64][..],
        TypeCode::UInt => &[1, 8, 16, 32, 64],
        TypeCode::Float => &[16, 32, 64],
        TypeCode::BFloat => &[16],
        _ => &[],
    };
    dtype.lanes == 1 && bits.contains(&dtype.bits)
}
