//! What a pass is given.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use relax_base::{Diagnostic, Diagnostics, Span, Symbol};
use relax_infer::{InferOptions, Typing};
use relax_ir::{ExprId, FuncId, GlobalId, GlobalKind, Module};
use relax_loops::Program;
use rustc_hash::FxHashSet;

use crate::{Options, codes};

/// Which functions a module's globals stand for. Nodes are immutable and a changed function is a new
/// one, so two equal states mean an unchanged program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct State(Vec<(Symbol, Item)>);

/// What a global stands for.
#[derive(Clone, Debug)]
enum Item {
    Func(FuncId),
    /// Held, so that no other program can come to lie at its place.
    Prim(Arc<Program>),
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        match (self, other) {
            (Item::Func(a), Item::Func(b)) => a == b,
            (Item::Prim(a), Item::Prim(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Item {}

impl State {
    pub fn of(m: &Module) -> State {
        let globals = m.globals.values().map(|g| match &g.kind {
            GlobalKind::Func(f) => (g.name, Item::Func(*f)),
            GlobalKind::Prim(p) => (g.name, Item::Prim(p.clone())),
        });
        State(globals.collect())
    }

    /// The tensor programs that are not those of an earlier state.
    pub fn programs_since(&self, before: &State) -> Vec<Arc<Program>> {
        let place = |(_, item): &(Symbol, Item)| match item {
            Item::Prim(p) => Some(Arc::as_ptr(p)),
            Item::Func(_) => None,
        };
        let old: FxHashSet<*const Program> = before.0.iter().filter_map(place).collect();
        let new = self.0.iter().filter_map(|(_, item)| match item {
            Item::Prim(p) => Some(p.clone()),
            Item::Func(_) => None,
        });
        new.filter(|p| !old.contains(&Arc::as_ptr(p))).collect()
    }
}

/// The module's types, as long as they are those of the module.
#[derive(Debug, Default)]
pub(crate) struct Analyses {
    typing: Option<(State, Arc<Typing>)>,
    /// How often types were found.
    pub inferred: usize,
}

impl Analyses {
    /// The types, if they were found for the module as it is now.
    pub fn known(&self, m: &Module) -> Option<Arc<Typing>> {
        let (state, typing) = self.typing.as_ref()?;
        (*state == State::of(m)).then(|| typing.clone())
    }

    /// The types; finds them when the module changed since. Warnings are dropped: they were said
    /// when the text was checked.
    pub fn typing(
        &mut self,
        m: &mut Module,
        options: &InferOptions,
    ) -> Result<Arc<Typing>, Diagnostics> {
        if let Some(typing) = self.known(m) {
            return Ok(typing);
        }
        self.inferred += 1;
        let (typing, diagnostics) = relax_infer::infer(m, options);
        if diagnostics.has_errors() {
            return Err(diagnostics);
        }
        let typing = Arc::new(typing);
        self.typing = Some((State::of(m), typing.clone()));
        Ok(typing)
    }

    pub fn set(&mut self, m: &Module, typing: Arc<Typing>) {
        self.typing = Some((State::of(m), typing));
    }

    pub fn forget(&mut self) {
        self.typing = None;
    }
}

/// One run of a pass over a module.
pub struct PassCx<'a> {
    /// The module. A changed function is a new [`relax_ir::Function`]
    /// ([`Module::rewrite_globals`] and [`Module::set_global_body`] see to it): that is how the
    /// manager learns of changes.
    pub module: &'a mut Module,
    /// The options, complete.
    pub options: &'a Options,
    /// Warnings and remarks. Errors are returned instead.
    pub diagnostics: &'a mut Diagnostics,
    pub(crate) analyses: &'a mut Analyses,
    pub(crate) infer: &'a InferOptions,
    pub(crate) counts: &'a mut BTreeMap<&'static str, u64>,
}

impl PassCx<'_> {
    /// The types of the module as it is now: found on demand, kept until the module changes. Ids of
    /// nodes that were made since have the error type; ask again after changing functions.
    pub fn typing(&mut self) -> Result<Arc<Typing>, Diagnostics> {
        self.analyses.typing(self.module, self.infer)
    }

    /// How strictly types are found.
    pub fn infer_options(&self) -> InferOptions {
        *self.infer
    }

    /// The types for printing become `typing`: for `infer-type`.
    pub(crate) fn set_typing(&mut self, typing: Arc<Typing>) {
        self.analyses.set(self.module, typing);
    }

    /// What a pass finds out about each function before it changes any: `find` runs on functions in parallel, on
    /// the threads of rayon's pool, and gets the module, the function and its body. Results come in the order of
    /// the text, so the program that is made does not depend on the number of threads. Rewriting is left to
    /// the pass: functions share the module's nodes.
    pub fn functions<T: Send>(
        &self,
        find: impl Fn(&Module, FuncId, ExprId) -> T + Sync,
    ) -> Vec<(GlobalId, T)> {
        let m = &*self.module;
        let bodies = m.global_bodies();
        let one = |(global, body): (GlobalId, ExprId)| {
            let func = m.global_func(global).expect("it has a body");
            (global, find(m, func, body))
        };
        match bodies.len() {
            0 | 1 => bodies.into_iter().map(one).collect(),
            _ => bodies.into_par_iter().map(one).collect(),
        }
    }

    /// Counts what the pass did, for `--stats`: `cx.count("calls inlined", 1)`.
    pub fn count(&mut self, what: &'static str, n: u64) {
        *self.counts.entry(what).or_default() += n;
    }

    /// The error for a construct that the pass cannot treat.
    pub fn unsupported(&self, span: Span, message: impl Into<String>) -> Diagnostics {
        Diagnostic::error(codes::UNSUPPORTED, span, message).into()
    }
}
