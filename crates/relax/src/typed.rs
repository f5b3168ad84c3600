//! Type checking, and types for the printer.

use std::sync::Arc;

use relax_base::Diagnostics;
use relax_ir::{ExprId, FuncId, GlobalKind, Module, Type, TypeId, VarId};

pub use relax_infer::{Check, CheckKind, InferOptions, Typing};
pub use relax_passes::Typed;

use crate::{Contents, Format, Session, TypeSource};

/// A module with its types, as the printer's type source.
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
    /// Parses and type-checks a text; returns all diagnostics. Code that depends on an error is not
    /// checked further, everything else is, so that independent errors are reported together. The
    /// module and its types are valid only if there are no errors.
    pub fn check(
        &mut self,
        name: &str,
        contents: impl Into<Contents>,
        options: &InferOptions,
    ) -> (Module, Typing, Diagnostics) {
        let (module, checked) = self.check_all(name, contents, options);
        (module, checked.typing, checked.diagnostics)
    }

    /// Like [`Session::check`]; syntax and resolution diagnostics are included.
    pub(crate) fn check_all(
        &mut self,
        name: &str,
        contents: impl Into<Contents>,
        options: &InferOptions,
    ) -> (Module, Checked) {
        let (mut module, mut diagnostics) = self.read(name, contents);
        let mut checked = check_all(&mut module, options);
        diagnostics.extend(checked.diagnostics);
        diagnostics.sort();
        checked.diagnostics = diagnostics;
        (module, checked)
    }

    /// Like [`Session::check`]; the returned types and warnings can be passed to
    /// [`native::passes`](crate::native::passes) and [`run_typed`](crate::run_typed), so that types
    /// are not inferred again.
    pub fn check_typed(
        &mut self,
        name: &str,
        contents: impl Into<Contents>,
        options: &InferOptions,
    ) -> (Module, Typed, Diagnostics) {
        let (module, mut checked) = self.check_all(name, contents, options);
        let diagnostics = std::mem::take(&mut checked.diagnostics);
        (module, checked.typed(), diagnostics)
    }
}

impl Session {
    /// Like [`Session::check_typed`]; also runs the lints on texts without errors (see
    /// [`lint`](crate::lint)), and drops the diagnostics that comments suppress.
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

/// The result of checking a module.
pub(crate) struct Checked {
    pub(crate) typing: Typing,
    /// The warnings of type inference, a subset of all diagnostics.
    pub(crate) warnings: Diagnostics,
    /// All diagnostics.
    pub(crate) diagnostics: Diagnostics,
}

impl Checked {
    /// Returns the types and warnings, if there were no errors, for pipelines on the same module.
    pub(crate) fn typed(self) -> Typed {
        let mut typing = self.typing;
        // Rewriting starts from a copy of the types.
        typing.exprs.lend_all();
        typing.vars.lend_all();
        Typed {
            typing: Arc::new(typing),
            warnings: Arc::new(self.warnings),
        }
    }
}

/// Infers the types of a module; returns them with all diagnostics.
///
/// ```
/// let mut session = relax::Session::default();
/// let (mut module, _) = session.read("a.relay", b"def @main() { @f(1) } def @f(%x: (int32,)) { 1 }".to_vec());
/// let (_, found) = relax::check(&mut module, &relax::InferOptions::default());
/// assert!(found.has_errors());
/// ```
pub fn check(module: &mut Module, options: &InferOptions) -> (Typing, Diagnostics) {
    let checked = check_all(module, options);
    (checked.typing, checked.diagnostics)
}

/// Like [`check`]; the returned types and warnings can be passed to
/// [`run_typed`](crate::run_typed), so that types are not inferred again.
pub fn check_typed(module: &mut Module, options: &InferOptions) -> (Typed, Diagnostics) {
    let mut checked = check_all(module, options);
    let diagnostics = std::mem::take(&mut checked.diagnostics);
    (checked.typed(), diagnostics)
}

pub(crate) fn check_all(module: &mut Module, options: &InferOptions) -> Checked {
    let (typing, warnings) = relax_infer::infer(module, options);
    let mut diagnostics = warnings.clone();
    diagnostics.extend(relax_infer::check_gradients(module, options));
    // Tensor programs are checked separately: bounds, reductions, buffers written before they are
    // read.
    for (id, global) in module.globals.iter() {
        if let GlobalKind::Prim(program) = &global.kind
            && !module.damage.globals.contains(&id)
        {
            diagnostics.extend(relax_loops::verify(program).diagnostics(program));
        }
    }
    Checked {
        typing,
        warnings,
        diagnostics,
    }
}
