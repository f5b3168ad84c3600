//! The names and constants of a program.

use relax_tensor::{DType, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Arg, Const};

/// Converts a label to an identifier.
pub(super) fn identifier(label: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let text: String = label.chars().map(clean).collect();
    match text.chars().next() {
        Some(c) if !c.is_ascii_digit() => text,
        _ => format!("k_{text}"),
    }
}

/// Returns a unique name: the wanted one, with a numeric suffix if it is taken.
pub(super) fn fresh(taken: &mut FxHashSet<String>, wanted: &str) -> String {
    let mut name = wanted.to_owned();
    let mut k = 1;
    while !taken.insert(name.clone()) {
        k += 1;
        name = format!("{wanted}_{k}");
    }
    name
}

/// The constant pool; constants other than tensors are deduplicated.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) consts: Vec<Const>,
    texts: FxHashMap<String, u32>,
    shapes: FxHashMap<Vec<i64>, u32>,
    scalars: FxHashMap<(DType, u64), u32>,
}

impl Pool {
    fn push(consts: &mut Vec<Const>, c: Const) -> u32 {
        consts.push(c);
        consts.len() as u32 - 1
    }
    pub(super) fn text(&mut self, text: &str) -> Arg {
        let consts = &mut self.consts;
        let new = || Pool::push(consts, Const::Text(text.to_owned()));
        Arg::Const(*self.texts.entry(text.to_owned()).or_insert_with(new))
    }
    pub(super) fn shape(&mut self, dims: Vec<i64>) -> Arg {
        let consts = &mut self.consts;
        let new = || Pool::push(consts, Const::Shape(dims.clone()));
        Arg::Const(*self.shapes.entry(dims.clone()).or_insert_with(new))
    }
    pub(super) fn scalar(&mut self, t: &Tensor) -> Arg {
        let bits = crate::value::element(t).unwrap_or(0);
        if t.dtype() == DType::I64 {
            return Arg::Int(bits as i64);
        }
        let consts = &mut self.consts;
        let new = || Pool::push(consts, Const::Scalar(t.dtype(), bits));
        Arg::Const(*self.scalars.entry((t.dtype(), bits)).or_insert_with(new))
    }
}
