//! Descriptions of values as read-only data, for `rx_check_value`.

use cranelift_module::DataId;
use relax_lower::described::{Described, Part};
use relax_runtime::given::form;

use crate::env::Env;
use crate::kernel::dl_dtype;

/// Returns the words of a description: see [`relax_runtime::given`].
pub(crate) fn data(env: &mut Env<'_>, described: &Described) -> DataId {
    let mut bytes = Vec::new();
    for word in words(described) {
        bytes.extend(word.to_le_bytes());
    }
    env.data("described", &bytes, 8)
}

/// Lays out the parts first, since parts refer to the offsets of other parts.
fn words(Described(parts): &Described) -> Vec<i64> {
    let mut starts = Vec::with_capacity(parts.len());
    let mut length = 0i64;
    for part in parts {
        starts.push(length);
        length += match part {
            Part::Any => 1,
            Part::Same(_) | Part::Shape(_) | Part::Closure(_) | Part::Cell(_) => 2,
            Part::Tensor(..) => 3,
            Part::Tuple(fields) => 2 + fields.len() as i64,
            Part::Adt(ctors) => {
                let fields: usize = ctors.iter().map(|c| 2 + c.len()).sum();
                2 + fields as i64
            }
        };
    }
    let mut out: Vec<i64> = Vec::with_capacity(length as usize);
    for part in parts {
        let start = |part: &u32| starts[*part as usize];
        let rank = |rank: &Option<u32>| rank.map_or(-1, i64::from);
        match part {
            Part::Any => out.push(form::ANY),
            Part::Same(other) => out.extend([form::SAME, start(other)]),
            Part::Tensor(ranks, dtype) => {
                out.extend([form::TENSOR, rank(ranks), dtype.map_or(-1, dl_dtype)]);
            }
            Part::Shape(ranks) => out.extend([form::SHAPE, rank(ranks)]),
            Part::Tuple(fields) => {
                out.extend([form::TUPLE, fields.len() as i64]);
                out.extend(fields.iter().map(start));
            }
            Part::Adt(ctors) => {
                out.extend([form::ADT, ctors.len() as i64]);
                // The offset of each constructor's fields, then the fields of all.
                let mut at = out.len() as i64 + ctors.len() as i64;
                for fields in ctors {
                    out.push(at);
                    at += 1 + fields.len() as i64;
                }
                for fields in ctors {
                    out.push(fields.len() as i64);
                    out.extend(fields.iter().map(start));
                }
            }
            Part::Closure(arity) => out.extend([form::CLOSURE, i64::from(*arity)]),
            Part::Cell(inside) => out.extend([form::CELL, start(inside)]),
        }
    }
    out
}
