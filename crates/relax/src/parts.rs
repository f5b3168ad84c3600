//! Traversal of a result value with its type, which names constructors.

use relax_ir::{Module, TypeId};
use relax_tensor::{Tensor, Value};

use crate::types::{Bound, Scopes};

/// A value and its type.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a> {
    /// The module that the type belongs to.
    pub module: &'a Module,
    /// The type.
    pub ty: TypeId,
    /// The value.
    pub value: &'a Value,
}

/// A part of a value, as the traversal visits it.
#[derive(Clone, PartialEq, Debug)]
pub enum Part<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// An opaque value.
    Opaque(&'static str),
    /// Opens a tuple or a constructor's value: the constructor's name, and the number of fields.
    Open(Option<String>, usize),
    /// A separator between two fields.
    Between,
    /// Closes what [`Part::Open`] opened.
    Close(Option<String>, usize),
}

enum Step<'a> {
    See(&'a Value, Bound),
    Say(Part<'a>),
}

/// Calls `look` on every part of a value, in order.
pub fn parts<'a>(typed: &Typed<'a>, look: &mut dyn FnMut(Part<'a>)) {
    let mut scopes = Scopes::new(typed.module);
    let whole = Bound::outer(typed.ty);
    let mut work = vec![Step::See(typed.value, whole)];
    while let Some(step) = work.pop() {
        let (value, ty) = match step {
            Step::Say(part) => {
                look(part);
                continue;
            }
            Step::See(value, ty) => (value, scopes.behind(ty)),
        };
        let (name, fields) = match value {
            Value::Tensor(t) => {
                look(Part::Tensor(t));
                continue;
            }
            Value::Opaque(what) => {
                look(Part::Opaque(what));
                continue;
            }
            Value::Tuple(fields) => (None, fields),
            Value::Adt(tag, fields) => (Some(constructor(&scopes, ty, *tag)), fields),
        };
        let types = scopes.all_fields(ty, value);
        look(Part::Open(name.clone(), fields.len()));
        work.push(Step::Say(Part::Close(name, fields.len())));
        for (i, (field, ty)) in fields.iter().zip(types).enumerate().rev() {
            work.push(Step::See(field, ty));
            if i > 0 {
                work.push(Step::Say(Part::Between));
            }
        }
    }
}

/// Returns the name of a constructor, or its tag where the type does not determine it.
fn constructor(scopes: &Scopes<'_>, ty: Bound, tag: u32) -> String {
    let name = scopes.constructor(ty, tag);
    name.map_or_else(|| format!("constructor {tag}"), str::to_owned)
}
