//! Checking, and printing with types.

use relax_base::Diagnostics;
use relax_ir::{ExprId, FuncId, GlobalKind, Module, Type, TypeId, VarId};

pub use relax_infer::{Check, CheckKind, InferOptions, Typing};

use crate::{Contents, Session, TypeSource};

/// A typed module as what a printer reads.
#[derive(Clone, Copy)]
pub struct TypedModule<'a> {
    /// The module.
    pub module: &'a Module,
    /// Its types.
    pub typing: &'a Typing,
}

impl TypedModule<'_> {
    fn known(&self, t: TypeId) -> Option<TypeId> {
        (self.module.types[t] != Type::Error).then_some(t)
    }
}

impl TypeSource for TypedModule<'_> {
    fn expr(&self, id: ExprId) -> Option<TypeId> {
        self.known(self.typing.exprs[id])
    }
    fn var(&self, id: VarId) -> Option<TypeId> {
        self.known(self.typing.vars[id])
    }
    fn ret(&self, id: FuncId) -> Option<TypeId> {
        match &self.module.types[self.typing.funcs[id]] {
            Type::Func(f) => self.known(f.ret),
            _ => None,
        }
    }
}

impl Session {
    /// Reads a text and finds its types, with everything there is to say about both. What depends on
    /// a mistake is not judged; all else is, so that independent mistakes are said at once. The module
    /// and its types are usable where there are no errors.
    pub fn check(
        &mut self,
        name: &str,
        contents: impl Into<Contents>,
        options: &InferOptions,
    ) -> (Module, Typing, Diagnostics) {
        let (mut module, mut diagnostics) = self.read(name, contents);
        let (typing, more) = check(&mut module, options);
        diagnostics.extend(more);
        diagnostics.sort();
        (module, typing, diagnostics)
    }
}

/// Finds the types of a module, with everything there is to say about them.
pub fn check(module: &mut Module, options: &InferOptions) -> (Typing, Diagnostics) {
    let (typing, mut diagnostics) = relax_infer::infer(module, options);
    // Tensor programs have rules of their own: bounds, reductions, buffers written before read.
    for (id, global) in module.globals.iter() {
        if let GlobalKind::Prim(program) = &global.kind
            && !module.damage.globals.contains(&id)
        {
            diagnostics.extend(relax_loops::verify(program).diagnostics(program));
        }
    }
    (typing, diagnostics)
}
