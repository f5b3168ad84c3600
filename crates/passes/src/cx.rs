//! The context of a pass.

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
    /// The module. A changed function is a new [`relax_ir::Function`] (which
    /// [`Module::rewrite_globals`] and [`Module::set_global_body`] take care of): that is how the
    /// manager detects changes.
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
    /// Returns the types of the current module: computed on demand, cached until the module
    /// changes. Nodes created since have the error type; call this again after changing functions.
    /// A pass over [each function](crate::Contract::each_function) gets the types that the module
    /// had before it.
    ///
    /// # Errors
    /// The module has type errors.
    pub fn typing(&mut self) -> Result<Arc<Typing>, Diagnostics> {
        self.analyses.types(self.module, self.infer)
    }

    /// Returns the bodies of all functions with their purity, for the current module: computed on
    /// demand, cached for each function as long as neither it nor the effects of its callees
    /// change.
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

    /// Returns the scopes of a function: computed on demand, cached as long as the function is
    /// unchanged.
    pub fn scopes(&mut self, func: FuncId) -> Arc<Scopes> {
        self.analyses.scopes(self.module, func)
    }

    /// Returns the options of type inference.
    pub fn infer_options(&self) -> InferOptions {
        *self.infer
    }

    /// Computes the types and reports all their diagnostics: for `infer-type`.
    pub(crate) fn say_types(&mut self) -> Result<(), Diagnostics> {
        let found = (self.analyses).types_with_warnings(self.module, self.infer)?;
        self.diagnostics.extend((*found.warnings).clone());
        Ok(())
    }

    /// Returns the results of an analysis of each function before any is changed: `find` runs on
    /// functions in parallel, on the threads of rayon's pool, and receives the module, the function
    /// and its body. Results are in the order of the text, so that the resulting program does not
    /// depend on the number of threads. Rewriting is left to the pass: functions share the module's
    /// nodes.
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

    /// Records a statistic, for `--stats`: `cx.count("calls inlined", 1)`.
    pub fn count(&mut self, what: &'static str, n: u64) {
        *self.counts.entry(what).or_default() += n;
    }

    /// Returns the error for a construct that the pass does not support.
    pub fn unsupported(&self, span: Span, message: impl Into<String>) -> Diagnostics {
        Diagnostic::error(codes::UNSUPPORTED, span, message).into()
    }
}
