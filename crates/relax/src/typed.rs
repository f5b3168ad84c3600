//! Checking, and printing with types.

use relax_base::Diagnostics;
use relax_ir::{ExprId, FuncId, GlobalKind, Module, Type, TypeId, VarId};

pub use relax_infer::{Check, CheckKind, InferOptions, Typing};

use crate::{Contents, Format, Session, TypeSource};

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

impl Session {
    /// The same, with what is hardly meant in a text without errors (see [`lint`](crate::lint)), and without
    /// what comments of it allow.
    ///
    /// ```
    /// use relax::{InferOptions, Session};
    ///
    /// let text = b"def @main(%x: int32) { let %unused = %x + 1; %x }".to_vec();
    /// let found = Session::default().review("a.relay", text, &InferOptions::default());
    /// assert_eq!(found.iter().next().expect("a warning").code.to_string(), "RX0920");
    /// ```
    pub fn review(
        &mut self,
        name: &str,
        contents: impl Into<Contents>,
        options: &InferOptions,
    ) -> Diagnostics {
        let contents = contents.into();
        let format = self.options.format;
        let format = format.unwrap_or_else(|| Format::detect(name, contents.bytes()));
        if format != Format::Relay {
            return self.check(name, contents, options).2;
        }
        let mut diagnostics = Diagnostics::new();
        let Some(file) = self.add(name, contents.into_vec(), &mut diagnostics) else {
            return diagnostics;
        };
        let mut read = self.read_tree(&file, &mut diagnostics);
        let (typing, more) = check(&mut read.module, options);
        diagnostics.extend(more);
        if !diagnostics.has_errors() {
            let names = relax_resolve::names::names(&read.ast);
            diagnostics.extend(crate::lint(&read.ast, &names, &read.module, &typing, true));
        }
        diagnostics.sort();
        let mut kept = Diagnostics::new();
        kept.extend(
            diagnostics
                .into_iter()
                .filter(|d| !crate::is_allowed(&file, d)),
        );
        kept
    }
}

/// Finds the types of a module, with everything there is to say about them.
///
/// ```
/// let mut session = relax::Session::default();
/// let (mut module, _) = session.read("a.relay", b"def @main() { @f(1) } def @f(%x: (int32,)) { 1 }".to_vec());
/// let (_, found) = relax::check(&mut module, &relax::InferOptions::default());
/// assert!(found.has_errors());
/// ```
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
