//! The pass manager, which runs pipelines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relax_base::{Diagnostic, Diagnostics, Span};
use relax_infer::{InferOptions, Typing};
use relax_ir::Module;
use relax_loops::Program;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::{Analyses, State, Typed};
use crate::passes::relax;
use crate::{
    Analysis, Form, Found, Options, PassCx, PassRun, Pipeline, Step, annotate, attributes, blocks,
    code, codes, parallel, registry,
};

/// The options of running a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Verifies the module and infers its types again after each pass that changed something.
    pub verify_each: bool,
    /// The options of type inference.
    pub infer: InferOptions,
    /// The number of nodes above which functions are rewritten in parallel. It has no other effect:
    /// the result of a pass for a function depends on that function alone.
    pub parallel_from: usize,
    /// Recomputes the analyses that passes declare to preserve, and panics if any differs. For
    /// tests of passes.
    pub check_preserved: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            verify_each: true,
            infer: InferOptions::default(),
            parallel_from: 1 << 13,
            check_preserved: false,
        }
    }
}

/// A run of a pass, before or after it.
pub struct Event<'a> {
    /// The pass and its options.
    pub run: &'a PassRun,
    /// The index of this run in the pipeline, from 0.
    pub index: usize,
    /// The module.
    pub module: &'a Module,
    /// Its types, when they are known.
    pub typing: Option<&'a Typing>,
    /// Whether the pass changed the module; false before it.
    pub changed: bool,
    /// The time that the pass took, including analyses that it requested; zero before it.
    pub time: Duration,
    /// The time that it took to verify the module and to infer its types, before the pass or after
    /// it.
    pub checking: Duration,
    /// The pass's statistics.
    pub counts: &'a BTreeMap<&'static str, u64>,
}

/// An observer of a pipeline.
pub trait Observer {
    /// Called before a pass.
    fn before(&mut self, _event: &Event<'_>) {}
    /// Called after a pass succeeded.
    fn after(&mut self, _event: &Event<'_>) {}
}

/// An observer that does nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct Silent;

impl Observer for Silent {}

/// The result of a pipeline, besides the module.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The types of the module, when they are known.
    pub typing: Option<Arc<Typing>>,
    /// The warnings of the inference that computed these types; none where they were inferred for
    /// single functions.
    pub warnings: Option<Arc<Diagnostics>>,
    /// Warnings and remarks from the passes.
    pub diagnostics: Diagnostics,
    /// The errors, and the pass that caused them; the module is then in the state in which that
    /// pass left it.
    pub failure: Option<(PassRun, Diagnostics)>,
    /// The number of computed analyses: each at most once for each state in which it was queried.
    pub found: Found,
}

impl Outcome {
    /// Returns the types of the module with their warnings, for a later run; see [`run_typed`].
    #[must_use]
    pub fn typed(&self) -> Option<Typed> {
        Some(Typed {
            typing: self.typing.clone()?,
            warnings: self.warnings.clone()?,
        })
    }
}

/// Runs a pipeline over a module. Errors are in the [outcome](Outcome::failure).
pub fn run(
    pipeline: &Pipeline,
    module: &mut Module,
    config: &Config,
    observer: &mut dyn Observer,
) -> Outcome {
    run_typed(pipeline, module, None, config, observer)
}

/// Like [`run`], over a module whose types were inferred before, with the same options: they are
/// not inferred again.
pub fn run_typed(
    pipeline: &Pipeline,
    module: &mut Module,
    typed: Option<Typed>,
    config: &Config,
    observer: &mut dyn Observer,
) -> Outcome {
    let mut analyses = Analyses::default();
    if let Some(typed) = typed {
        analyses.take_types(module, typed);
    }
    let mut manager = Manager {
        module,
        config,
        observer,
        analyses,
        diagnostics: Diagnostics::new(),
        index: 0,
        forms: Vec::new(),
        settled: FxHashMap::default(),
        counted: 0,
    };
    let failure = manager.steps(&pipeline.steps).err().map(|f| *f);
    let typing = manager.analyses.known_types(manager.module);
    let typed = manager.analyses.known_with_warnings(manager.module);
    Outcome {
        typing,
        warnings: typed.map(|t| t.warnings),
        diagnostics: manager.diagnostics,
        failure,
        found: manager.analyses.found,
    }
}

type Failure = Box<(PassRun, Diagnostics)>;

/// The note on a module that a pass broke.
const BUG: &str = "this is a mistake of the pass, not of the program: please report it";

struct Manager<'a> {
    module: &'a mut Module,
    config: &'a Config,
    observer: &'a mut dyn Observer,
    analyses: Analyses,
    diagnostics: Diagnostics,
    index: usize,
    /// The forms that the module is known to be in.
    forms: Vec<Form>,
    /// The module as idempotent passes (with their options) last left it.
    settled: FxHashMap<String, State>,
    /// The number of live nodes when they were last counted.
    counted: usize,
}

impl Manager<'_> {
    /// Returns whether anything changed. The recursion depth is bounded by the parser's limit on
    /// nesting.
    fn steps(&mut self, steps: &[Step]) -> Result<bool, Failure> {
        let mut changed = false;
        for step in steps {
            match step {
                Step::Pass(run) => match self.pass(run) {
                    Ok(c) => changed |= c,
                    Err(d) => return Err(Box::new((run.clone(), d))),
                },
                Step::Fixpoint { max, steps } => {
                    for _ in 0..*max {
                        if !self.steps(steps)? {
                            break;
                        }
                        changed = true;
                    }
                }
            }
        }
        Ok(changed)
    }

    /// Establishes the forms that a pass requires.
    fn prepare(&mut self, run: &PassRun) -> Result<(), Diagnostics> {
        for &form in run.pass.contract.needs {
            if form == Form::Typed {
                self.analyses.types(self.module, &self.config.infer)?;
            } else if form == Form::Relax {
                self.normalize()?;
            } else if !self.forms.contains(&form) {
                let (name, pass) = (run.pass.name, form.pass());
                let message = format!("`{name}` needs {form}, and no pass before it gives that");
                let d = Diagnostic::error(codes::FORM, Span::NONE, message);
                return Err(d
                    .note(format!("`{pass},{name}` runs it on that form"))
                    .into());
            }
        }
        Ok(())
    }

    /// Brings the module to Relax's form, unless its functions are. There is no event for it: it
    /// is the beginning of the pass that needs it.
    fn normalize(&mut self) -> Result<(), Diagnostics> {
        if code::in_form(self.module) {
            return Ok(());
        }
        let run = registry::named(Form::Relax.pass()).expect("the pass that gives it");
        let run = PassRun {
            pass: run,
            options: Options::defaults(run),
        };
        let typing = self.analyses.types(self.module, &self.config.infer)?;
        let first = self.module.exprs.next_id();
        let mut counts = BTreeMap::new();
        (run.pass.run)(&mut self.context(&run.options, &mut counts))?;
        attributes::complete(self.module, first);
        annotate::annotate(self.module, &typing);
        self.analyses
            .changed(self.module, run.pass.contract.preserves);
        self.retype(&run)
    }

    /// Returns what a pass with these options works on.
    fn context<'b>(
        &'b mut self,
        options: &'b Options,
        counts: &'b mut BTreeMap<&'static str, u64>,
    ) -> PassCx<'b> {
        PassCx {
            module: self.module,
            options,
            diagnostics: &mut self.diagnostics,
            analyses: &mut self.analyses,
            infer: &self.config.infer,
            counts,
        }
    }

    fn pass(&mut self, run: &PassRun) -> Result<bool, Diagnostics> {
        let own = self.module.is_script().then(|| registry::for_script(run));
        let own = own.flatten();
        let run = own.as_ref().unwrap_or(run);
        let (contract, key) = (run.pass.contract, run.to_string());
        if contract.idempotent && self.settled.get(&key) == Some(&State::of(self.module)) {
            return Ok(false);
        }
        let begin = Instant::now();
        if self.config.verify_each && self.index == 0 {
            // Existing errors are not the passes' fault.
            self.analyses.types(self.module, &self.config.infer)?;
        }
        let unknown = run.options.unknown_functions(run.pass, self.module);
        if unknown.has_errors() {
            return Err(unknown);
        }
        let before = State::of(self.module);
        self.prepare(run)?;
        let mut counts = BTreeMap::new();
        if self.analyses.known_types(self.module).is_none() && annotate::missing(self.module) {
            // Inferred before a pass drops what inference depends on. The verifier reports errors.
            let _ = self.analyses.types(self.module, &self.config.infer);
        }
        let typing = self.analyses.known_types(self.module);
        self.observer.before(&Event {
            run,
            index: self.index,
            module: self.module,
            typing: typing.as_deref(),
            changed: false,
            time: Duration::ZERO,
            checking: begin.elapsed(),
            counts: &counts,
        });
        let relax = self.module.is_script() && registry::is_relax(run.pass);
        let bodies =
            relax.then(|| -> FxHashSet<_> { self.module.global_bodies().into_iter().collect() });
        let begin = Instant::now();
        let first = self.module.exprs.next_id();
        for analysis in contract.asks {
            match analysis {
                Analysis::Types => drop(self.analyses.types(self.module, &self.config.infer)?),
                Analysis::Effects => drop(self.analyses.effects(self.module, &self.config.infer)?),
            }
        }
        if self.config.check_preserved {
            // Computed so that there is something to preserve.
            drop(self.analyses.effects(self.module, &self.config.infer));
        }
        let shared = self.module.exprs.len() >= self.config.parallel_from;
        let mut cx = self.context(&run.options, &mut counts);
        if contract.each_function && shared {
            parallel::run(run.pass, &mut cx)?;
        } else {
            (run.pass.run)(&mut cx)?;
        }
        if let (Some(bodies), Some(typing)) = (bodies, &typing) {
            let mut anew = self.module.global_bodies();
            anew.retain(|g| !bodies.contains(g));
            let anew: Vec<_> = anew.into_iter().map(|g| g.0).collect();
            relax::results::adopt(self.module, typing, &anew);
        }
        let time = begin.elapsed();
        let changed = before != State::of(self.module);
        if changed {
            self.forms.retain(|f| contract.keeps.contains(f));
            attributes::complete(self.module, first);
            if let Some(typing) = &typing {
                annotate::annotate(self.module, typing);
            }
            self.analyses.changed(self.module, contract.preserves);
            if self.config.check_preserved {
                let untrue = self.analyses.untrue(self.module, &self.config.infer);
                assert!(untrue.is_empty(), "`{run}` does not preserve {untrue:?}");
            }
        }
        let blocks = typing.filter(|_| contract.each_block);
        self.forms.extend(contract.gives);
        let begin = Instant::now();
        self.check(run, &before, blocks, changed)?;
        let checking = begin.elapsed();
        if contract.idempotent {
            self.settled.insert(key, State::of(self.module));
        }
        let typing = self.analyses.known_types(self.module);
        self.observer.after(&Event {
            run,
            index: self.index,
            module: self.module,
            typing: typing.as_deref(),
            changed,
            time,
            checking,
            counts: &counts,
        });
        self.index += 1;
        Ok(changed)
    }

    /// Checks the output of a pass against its contract; `blocks` are the types from before a pass
    /// that may only change dataflow blocks.
    fn check(
        &mut self,
        run: &PassRun,
        before: &State,
        blocks: Option<Arc<Typing>>,
        changed: bool,
    ) -> Result<(), Diagnostics> {
        let verify = changed && self.config.verify_each;
        if verify {
            self.verify(run, before)?;
        }
        // Before types are inferred, since nodes are renumbered; but comparisons with old nodes
        // come first.
        if blocks.is_none() {
            self.collect();
        }
        if verify {
            self.retype(run)?;
        }
        if let Some(types) = blocks {
            if verify && let Some(what) = self.blocks_changed(before, &types) {
                let message = format!("`{}` sees dataflow blocks only, but {what}", run.pass.name);
                let d = Diagnostic::error(codes::BROKEN_MODULE, Span::NONE, message);
                return Err(d.note(BUG).into());
            }
            self.collect();
        }
        if changed && self.config.check_preserved {
            let otherwise = self
                .analyses
                .typed_otherwise(self.module, &self.config.infer);
            assert!(otherwise.is_none(), "after `{run}`: {otherwise:?}");
        }
        Ok(())
    }

    /// Verifies the output of a pass.
    fn verify(&mut self, run: &PassRun, before: &State) -> Result<(), Diagnostics> {
        if let Err(breach) = self.analyses.verify(self.module) {
            let message = format!("`{}` left a broken module: {breach}", run.pass.name);
            let d = Diagnostic::error(codes::BROKEN_MODULE, Span::NONE, message).note(BUG);
            return Err(d.into());
        }
        let programs = State::of(self.module).programs_since(before);
        let problems = |p: &Arc<Program>| relax_loops::verify(p).diagnostics(p);
        let found = parallel::mapped(&programs, problems);
        match found.into_iter().find(|p| !p.is_empty()) {
            Some(problems) => {
                let message = format!("`{}` left a broken tensor program", run.pass.name);
                let d = Diagnostic::error(codes::BROKEN_MODULE, Span::NONE, message).note(BUG);
                let mut all = Diagnostics::from(d);
                all.extend(problems);
                Err(all)
            }
            None => Ok(()),
        }
    }

    /// Infers the types of the module after a pass.
    fn retype(&mut self, run: &PassRun) -> Result<(), Diagnostics> {
        if let Err(errors) = self.analyses.types(self.module, &self.config.infer) {
            let message = format!("`{}` left a module whose types do not fit", run.pass.name);
            let d = Diagnostic::error(codes::ILL_TYPED, Span::NONE, message).note(BUG);
            let mut all = Diagnostics::from(d);
            all.extend(errors);
            return Err(all);
        }
        Ok(())
    }

    /// Returns a description of a change outside of dataflow blocks by a pass over these.
    fn blocks_changed(&self, before: &State, types: &Typing) -> Option<String> {
        let m = &*self.module;
        let now = self.analyses.known_types(m)?;
        let (before, after) = (before.functions(), State::of(m).functions());
        if before.len() != after.len() {
            return Some("there are other functions now".into());
        }
        for (old, new) in before.into_iter().zip(after) {
            let outputs = match blocks::kept(m, m.funcs[old].body, m.funcs[new].body) {
                Ok(outputs) => outputs,
                Err(what) => return Some(what),
            };
            if let Some(v) = outputs.into_iter().find(|v| types.vars[*v] != now.vars[*v]) {
                let show = |t| m.show_type(t);
                return Some(format!(
                    "%{}, which leaves one, had type {} and has type {}",
                    m.vars[v].name,
                    show(types.vars[v]),
                    show(now.vars[v])
                ));
            }
        }
        None
    }

    /// Drops unreachable nodes, once they are half of the module.
    fn collect(&mut self) {
        const SMALL: usize = 1 << 14;
        // With so few new nodes, they cannot be half of it.
        if self.module.exprs.len() < SMALL.max(self.counted * 2) {
            return;
        }
        let live = self
            .module
            .post_order(self.module.global_bodies().iter().map(|b| b.1))
            .len();
        if live <= self.module.exprs.len() / 2 {
            *self.module = self.module.compact().module;
            self.analyses.forget();
            // Functions were renumbered.
            self.settled.clear();
        }
        self.counted = live;
    }
}
