//! The data in an object: constants, constructors without fields, texts, closures, the table of
//! weights.

use std::mem::offset_of;

use cranelift_module::{DataDescription, DataId, Linkage};
use relax_lower::lir::{DataId as DataIdOf, FnId, Inst};
use relax_runtime::object::{IMMORTAL, Kind, RxClosure, RxObject, RxTensor};
use relax_runtime::weights::{RxWeight, RxWeights, TABLE_HEAD};
use relax_tensor::Tensor;
use rustc_hash::FxHashSet;

use crate::env::{Env, put};
use crate::func::Program;
use crate::kernel::dl_dtype;
use crate::prepack::{Prepacked, WeightsFile};

const TENSOR: u8 = Kind::Tensor as u8;
const ADT: u8 = Kind::Adt as u8;
const CLOSURE: u8 = Kind::Closure as u8;
const STRING: u8 = Kind::String as u8;

/// The bytes that every object starts with.
fn header(kind: u8, tag: u32, count: u32) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<RxObject>()];
    put(
        &mut bytes,
        offset_of!(RxObject, refs),
        IMMORTAL.to_le_bytes(),
    );
    put(&mut bytes, offset_of!(RxObject, kind), [kind]);
    put(&mut bytes, offset_of!(RxObject, tag), tag.to_le_bytes());
    put(&mut bytes, offset_of!(RxObject, count), count.to_le_bytes());
    bytes
}

/// Puts constants and other immortal objects into read-only data. Returns the table of the tensors
/// whose elements are in a file.
pub(super) fn objects(
    env: &mut Env<'_>,
    program: &mut Program<'_>,
    weights: &Prepacked,
) -> Option<DataId> {
    let lowered = program.lowered;
    let outside: FxHashSet<DataIdOf> = weights.outside.iter().copied().collect();
    for (id, t) in lowered.data.iter() {
        let elements = match &weights.file {
            _ if !outside.contains(&id) => Elements::Beside,
            None => Elements::At(elements_symbol(id)),
            Some(_) => Elements::Later,
        };
        program.tensors.insert(id, tensor(env, t, elements));
    }
    let table = (weights.file.as_ref()).map(|file| table(env, program, file));
    let (mut tags, mut texts) = (FxHashSet::default(), FxHashSet::default());
    for f in lowered.funcs.values() {
        for inst in f.blocks.values().flat_map(|b| &b.insts) {
            match inst {
                Inst::Adt { tag, fields, .. } if fields.is_empty() && tags.insert(*tag) => {
                    let id = env.data("ctor", &header(ADT, *tag, 0), 16);
                    program.ctors.insert(*tag, id);
                }
                Inst::Text { text, .. } if texts.insert(*text) => {
                    let mut bytes = header(STRING, 0, text.as_str().len() as u32);
                    bytes.extend(text.as_str().bytes());
                    bytes.push(0);
                    let id = env.data("string", &bytes, 16);
                    program.texts.insert(*text, id);
                }
                _ => {}
            }
        }
    }
    let closures: Vec<FnId> = lowered
        .funcs
        .iter()
        .filter(|(_, f)| f.captures == Some(0))
        .map(|(id, _)| id)
        .collect();
    for id in closures {
        let arity = lowered.funcs[id].params.len() as u32;
        let mut bytes = header(CLOSURE, arity, 0);
        bytes.resize(size_of::<RxClosure>(), 0);
        let mut data = DataDescription::new();
        data.define(bytes.into());
        data.set_align(16);
        for (f, offset) in [
            (program.funcs[&id], offset_of!(RxClosure, code)),
            (program.entries[&id], offset_of!(RxClosure, entry)),
        ] {
            let f = env.module.declare_func_in_data(f, &mut data);
            data.write_function_addr(offset as u32, f);
        }
        program.closures.insert(
            id,
            env.fresh(&format!("relax.closure.{}", id.0), false, &data),
        );
    }
    table
}

/// `RxWeights` of the runtime, with its tensors.
fn table(env: &mut Env<'_>, program: &Program<'_>, file: &WeightsFile) -> DataId {
    let offsets: Vec<(DataIdOf, u64)> = file.parts.iter().map(|p| (p.0, p.2)).collect();
    let mut name = file.name.clone().into_bytes();
    name.push(0);
    let name = env.data("weights", &name, 1);
    let mut bytes = vec![0; TABLE_HEAD + offsets.len() * size_of::<RxWeight>()];
    for (at, word) in [
        (offset_of!(RxWeights, length), file.len),
        (offset_of!(RxWeights, hash), file.hash),
        (offset_of!(RxWeights, count), offsets.len() as u64),
    ] {
        put(&mut bytes, at, word.to_le_bytes());
    }
    let part = |i: usize| TABLE_HEAD + i * size_of::<RxWeight>();
    for (i, (_, at)) in offsets.iter().enumerate() {
        let offset = part(i) + offset_of!(RxWeight, offset);
        put(&mut bytes, offset, at.to_le_bytes());
    }
    let mut data = DataDescription::new();
    data.define(bytes.into());
    data.set_align(16);
    let gv = env.module.declare_data_in_data(name, &mut data);
    data.write_data_addr(offset_of!(RxWeights, file) as u32, gv, 0);
    for (i, (id, _)) in offsets.iter().enumerate() {
        let gv = env
            .module
            .declare_data_in_data(program.tensors[id], &mut data);
        let at = part(i) + offset_of!(RxWeight, tensor);
        data.write_data_addr(at as u32, gv, 0);
    }
    env.fresh("relax.weights", true, &data)
}

/// The symbol of a constant's elements, where they are not in the module.
pub(crate) fn elements_symbol(id: DataIdOf) -> String {
    format!("relax.elements.of.{}", id.0)
}

/// The location of a constant's elements.
enum Elements {
    /// In the module.
    Beside,
    /// At a symbol from outside.
    At(String),
    /// In a file that is mapped before the tensor is read.
    Later,
}

/// Returns a tensor's size in bytes. Its elements may not have been read yet and are not accessed.
pub(crate) fn bytes_of(t: &Tensor) -> usize {
    Tensor::byte_len(t.dtype(), t.shape()).unwrap_or_default()
}

/// An immortal tensor object.
fn tensor(env: &mut Env<'_>, t: &Tensor, elements: Elements) -> DataId {
    let later = matches!(elements, Elements::Later);
    let elements = match elements {
        // An empty section cannot be addressed on every target: one byte represents no elements.
        Elements::Beside if bytes_of(t) == 0 => Some(env.data("elements", &[0], 64)),
        Elements::Beside => Some(env.data("elements", t.bytes(), 64)),
        Elements::At(name) => {
            let id = (env.module).declare_data(&name, Linkage::Import, false, false);
            Some(id.expect("each constant has its own symbol"))
        }
        Elements::Later => None,
    };
    let shape: Vec<u8> = t.shape().iter().flat_map(|d| d.to_le_bytes()).collect();
    let shape = if shape.is_empty() {
        None
    } else {
        Some(env.data("shape", &shape, 8))
    };
    let mut object = header(TENSOR, 1, 0);
    object.resize(size_of::<RxTensor>(), 0);
    let (dtype, rank) = (dl_dtype(t.dtype()) as u32, t.shape().len() as u32);
    put(
        &mut object,
        offset_of!(RxTensor, dtype),
        dtype.to_le_bytes(),
    );
    put(&mut object, offset_of!(RxTensor, ndim), rank.to_le_bytes());
    let bytes = bytes_of(t) as u64;
    put(
        &mut object,
        offset_of!(RxTensor, nbytes),
        bytes.to_le_bytes(),
    );
    let mut data = DataDescription::new();
    data.define(object.into());
    data.set_align(64);
    if let Some(elements) = elements {
        let gv = env.module.declare_data_in_data(elements, &mut data);
        data.write_data_addr(offset_of!(RxTensor, data) as u32, gv, 0);
    }
    if let Some(shape) = shape {
        let gv = env.module.declare_data_in_data(shape, &mut data);
        data.write_data_addr(offset_of!(RxTensor, shape) as u32, gv, 0);
    }
    env.tensor_count += 1;
    let name = format!("relax.tensor.{}", env.tensor_count);
    env.fresh(&name, later, &data)
}
