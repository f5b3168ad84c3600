//! All passes by name, and the named pipelines.

use crate::pass::kebab;
use crate::passes::{PASSES, relax};
use crate::{Options, PassDef, PassRun};

/// Passes that are replaced for a module read from TVMScript, by Relax's own passes of the same
/// name.
const OF_RELAX: &[(&str, &str)] = &[
    ("canonicalize-bindings", "relax-canonicalize-bindings"),
    ("combine-parallel-dense", "relax-combine-parallel-matmul"),
    ("convert-layout", "relax-convert-layout"),
    ("dead-code-elimination", "relax-dead-code-elimination"),
    ("eliminate-common-subexpr", "relax-eliminate-common-subexpr"),
    ("fold-constant", "relax-fold-constant"),
    ("fuse-ops", "relax-fuse-ops"),
    ("gradient", "relax-gradient"),
    ("inline", "relax-inline"),
    ("lambda-lift", "relax-lambda-lift"),
    ("lower-shapes", "relax-lower-shapes"),
    ("merge-composite", "relax-fuse-ops-by-pattern"),
    ("simplify-inference", "relax-decompose-ops"),
    ("plan-memory", "relax-plan-memory"),
    ("to-mixed-precision", "relax-to-mixed-precision"),
];

/// TVM's names of Relax's passes that differ from ours in more than spelling.
const NAMES: &[(&str, &str)] = &[
    ("CallTIRRewrite", "call-tir-rewrite"),
    ("CombineParallelMatmul", "combine-parallel-dense"),
    ("DecomposeOpsForInference", "simplify-inference"),
    ("FoldBatchnormToConv2D", "fold-scale-axis"),
    ("FuseOpsByPattern", "merge-composite"),
    ("FuseTIR", "fuse-tir"),
    ("InlinePrivateFunctions", "inline"),
    ("LegalizeOps", "legalize"),
    ("StaticPlanBlockMemory", "plan-memory"),
    ("VMShapeLower", "lower-shapes"),
];

/// Returns the passes over Relax's bindings and dataflow blocks, sorted by name. They leave
/// functions alone that are not in Relax's form.
pub fn of_relax() -> Vec<&'static PassDef> {
    let mut all: Vec<&PassDef> = relax::PASSES.iter().flat_map(|p| p.iter()).collect();
    all.sort_by_key(|p| p.name);
    all
}

/// Returns whether a pass is one over Relax's bindings.
pub(crate) fn is_relax(pass: &PassDef) -> bool {
    let mut all = relax::PASSES.iter().flat_map(|p| p.iter());
    all.any(|p| p.name == pass.name)
}

/// Returns the pass that a pipeline names, by our name or by TVM's.
pub(crate) fn named(name: &str) -> Option<&'static PassDef> {
    let theirs = NAMES.iter().find(|n| n.0 == name).map(|n| n.1);
    let ours = || theirs.map_or_else(|| kebab(name), str::to_owned);
    let begins = name.starts_with(|c: char| c.is_ascii_uppercase());
    let camel = begins && name.contains(|c: char| c.is_ascii_lowercase());
    find(name).or_else(|| find(&ours()).filter(|_| camel))
}

/// Returns the run that replaces a pass's for a module read from TVMScript; explicit options are
/// passed on if the replacement has them.
pub(crate) fn for_script(run: &PassRun) -> Option<PassRun> {
    let (_, name) = OF_RELAX.iter().find(|n| n.0 == run.pass.name)?;
    let pass = find(name)?;
    let (mut options, unsaid) = (Options::defaults(pass), Options::defaults(run.pass));
    for (i, (name, value)) in options.values.iter_mut().enumerate() {
        let given = run.options.values.iter().position(|v| v.0 == *name);
        // A default is that of the other pass, unless it was given explicitly.
        let said = |at: &usize| {
            run.options.values[*at] != unsaid.values[*at] || !run.options.places[*at].is_none()
        };
        if let Some(at) = given.filter(said) {
            *value = run.options.values[at].1.clone();
            options.places[i] = run.options.places[at];
        }
    }
    Some(PassRun { pass, options })
}

/// The passes that a pipeline can name: those that are built in, and those of whoever uses this as
/// a library.
///
/// # Examples
/// ```
/// use relax_passes::{Contract, PassDef, Registry};
///
/// static COUNT: PassDef = PassDef {
///     name: "count-functions",
///     doc: "Counts the functions of a module.",
///     options: &[],
///     contract: Contract::PLAIN,
///     run: |cx| {
///         let functions = cx.module.global_bodies().len();
///         cx.count("functions", functions as u64);
///         Ok(())
///     },
/// };
///
/// let registry = Registry::default().with(&COUNT);
/// assert!(registry.find("count-functions").is_some());
/// assert_eq!(registry.all().len(), relax_passes::all().len() + 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    added: Vec<&'static PassDef>,
}

impl Registry {
    /// Adds a pass, replacing one with the same name.
    #[must_use]
    pub fn with(mut self, pass: &'static PassDef) -> Registry {
        self.added.retain(|p| p.name != pass.name);
        self.added.push(pass);
        self
    }

    /// Returns all passes, sorted by name.
    pub fn all(&self) -> Vec<&'static PassDef> {
        let mut all = all();
        all.retain(|p| self.added.iter().all(|a| a.name != p.name));
        all.extend(&self.added);
        all.sort_by_key(|p| p.name);
        all
    }

    /// Returns the pass with this name.
    pub fn find(&self, name: &str) -> Option<&'static PassDef> {
        let added = self.added.iter().copied().find(|p| p.name == name);
        added.or_else(|| find(name))
    }

    /// Returns the pass that a pipeline names, by our name or by TVM's.
    pub(crate) fn named(&self, name: &str) -> Option<&'static PassDef> {
        self.find(name).or_else(|| named(name))
    }
}

/// Returns all passes, sorted by name.
pub fn all() -> Vec<&'static PassDef> {
    let mut all: Vec<&PassDef> = PASSES.iter().flat_map(|p| p.iter()).collect();
    all.sort_by_key(|p| p.name);
    all
}

/// Returns the pass with this name.
pub fn find(name: &str) -> Option<&'static PassDef> {
    PASSES
        .iter()
        .flat_map(|p| p.iter())
        .chain(relax::PASSES.iter().flat_map(|p| p.iter()))
        .find(|p| p.name == name)
        .or_else(|| crate::testing::find(name))
}

/// Returns the named pipelines, such as `O2`, with their text.
pub fn named_pipelines() -> &'static [(&'static str, &'static str)] {
    &[
        ("O0", "infer-type"),
        (
            "O1",
            "infer-type,simplify-inference,fold-constant,dead-code-elimination",
        ),
        (
            "O2",
            "infer-type,simplify-inference,fold-constant,simplify-expr,eliminate-common-subexpr,\
             dead-code-elimination,fuse-ops{level=2}",
        ),
        (
            "O3",
            "infer-type,simplify-inference,fold-constant,\
             fold-scale-axis{direction=backward},fold-scale-axis{direction=forward},fold-constant,\
             canonicalize-ops,canonicalize-cast,fixpoint{max=3}(simplify-expr,eliminate-common-subexpr,\
             fold-constant),dead-code-elimination,fuse-ops{level=2}",
        ),
        // The pipelines of relaxc and relax-run at -O2 and -O3: `let`s do not separate operators,
        // and layers with a kernel of their own are kept.
        (
            "native2",
            "infer-type,to-graph-normal-form{into-functions=false},simplify-inference{keep-kernels=true},\
             promote-halves,rewrite-for-kernels,fold-constant,simplify-expr,raise-ops,choose-layouts,sink-reshapes,fold-constant,\
             simplify-fc-transpose,eliminate-common-subexpr,dead-code-elimination,fuse-ops{level=2}",
        ),
        (
            "native3",
            "infer-type,to-graph-normal-form{into-functions=false},simplify-inference{keep-kernels=true},\
             promote-halves,fold-constant,\
             fold-scale-axis{direction=backward},fold-scale-axis{direction=forward},rewrite-for-kernels,fold-constant,\
             canonicalize-ops,canonicalize-cast,fixpoint{max=3}(simplify-expr,eliminate-common-subexpr,\
             fold-constant),raise-ops,choose-layouts,sink-reshapes,fold-constant,simplify-fc-transpose,dead-code-elimination,\
             fuse-ops{level=2}",
        ),
    ]
}
