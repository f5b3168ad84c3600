//! What a pass is given.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use relax_base::{Diagnostic, Diagnostics, Span};
use relax_infer::{InferOptions, Typing};
use relax_ir::{ExprId, FuncId, GlobalId, Module, Scopes};

use crate::analysis::Analyses;
use crate::purity::Purity;
use crate::{Options, codes};

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
    /// nodes that were made since have the error type; ask again after changing functions. A pass
    /// over [each function](crate::Contract::each_function) gets the types that the module had
    /// before it.
    ///
    /// # Errors
    /// The module has type errors.
    pub fn typing(&mut self) -> Result<Arc<Typing>, Diagnostics> {
        self.analyses.types(self.module, self.infer)
    }

    /// The bodies of all functions with what can be dropped or moved in them, as the module is now:
    /// found on demand, for each function kept as long as neither it nor what the functions that it
    /// calls do changes.
    pub(crate) fn bodies_with_purity(
        &mut self,
    ) -> Result<Vec<(GlobalId, ExprId, Arc<Purity>)>, Diagnostics> {
        let mut all = Vec::new();
        for (global, body) in self.module.global_bodies() {
            let func = self.module.global_func(global).expect("it has a body");
            let purity = self.analyses.purity(self.module, func, self.infer)?;
            all.push((global, body, purity));
        }
        Ok(all)
    }

    /// The scopes of a function: found on demand, kept as long as the function stays.
    pub fn scopes(&mut self, func: FuncId) -> Arc<Scopes> {
        self.analyses.scopes(self.module, func)
    }

    /// Returns how strictly types are found.
    pub fn infer_options(&self) -> InferOptions {
        *self.infer
    }

    /// Finds the types and says everything that there is to say about them: for `infer-type`.
    pub(crate) fn say_types(&mut self) -> Result<(), Diagnostics> {
        let found = (self.analyses).types_with_warnings(self.module, self.infer)?;
        self.diagnostics.extend((*found.warnings).clone());
        Ok(())
    }

    /// Returns what a pass finds out about each function before it changes any: `find` runs on
    /// functions in parallel, on the threads of rayon's pool, and gets the module, the function and
    /// its body. Results come in the order of the text, so the program that is made does not depend
    /// on the number of threads. Rewriting is left to the pass: functions share the module's nodes.
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
