//! Suggestions for unknown pass names: a misspelling, or TVM's name for a pass.

use relax_base::did_you_mean;

use crate::pass::kebab;
use crate::{Registry, registry};

/// Passes of TVM that pipelines do not accept and whose names differ from ours in more than
/// spelling, with their equivalents.
const TVM: &[(&str, &str)] = &[
    ("AlterOpLayout", "choose-layouts"),
    (
        "BackwardFoldScaleAxis",
        "fold-scale-axis{direction=backward}",
    ),
    ("FirstOrderGradient", "gradient{mode=first-order}"),
    ("ForwardFoldScaleAxis", "fold-scale-axis{direction=forward}"),
    ("ManifestAlloc", "plan-memory"),
    ("MemoryPlan", "plan-memory"),
    ("MergeCompilerRegions", "partition-graph{merge=true}"),
    ("MergeCompositeFunctions", "partition-graph"),
    ("MetaScheduleLayoutRewrite", "choose-layouts"),
    ("PartialEvaluate", "partial-eval"),
    ("SimplifyExprPostAlterOp", "simplify-expr"),
];

impl Registry {
    /// Returns the pass, with options where it needs them, or the named pipeline that an unknown
    /// name stands for; `None` if there is no similar one.
    pub fn meant(&self, name: &str) -> Option<String> {
        // `relay.transform.FuseOps()`, as in Python.
        let call = name.split_once('(').map_or(name, |c| c.0);
        let last = call.rsplit('.').next().unwrap_or(call);
        if let Some((_, ours)) = TVM.iter().find(|t| t.0 == last) {
            return Some((*ours).to_owned());
        }
        if let Some(pass) = self.named(last) {
            return Some(pass.name.to_owned());
        }
        let ours = kebab(last);
        if self.find(&ours).is_some() {
            return Some(ours);
        }
        let names = self.all().into_iter().map(|p| p.name);
        let names = names.chain(registry::named_pipelines().iter().map(|p| p.0));
        let near = did_you_mean(name, names.clone()).or_else(|| did_you_mean(&ours, names));
        near.map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tvms_names_are_known() {
        let registry = Registry::default();
        for (theirs, ours) in [
            ("FuseOps", "fuse-ops"),
            ("relay.transform.ToANormalForm()", "to-a-normal-form"),
            (
                "relay._transform.SimplifyFCTranspose",
                "simplify-fc-transpose",
            ),
            ("CombineParallelConv2D", "combine-parallel-conv2d"),
            ("eliminate_common_subexpr", "eliminate-common-subexpr"),
            ("Foldconstant", "fold-constant"),
            ("ForwardFoldScaleAxis", "fold-scale-axis{direction=forward}"),
        ] {
            assert_eq!(registry.meant(theirs).as_deref(), Some(ours), "{theirs}");
        }
        assert_eq!(registry.meant("ToCPS"), None);
    }

    #[test]
    fn what_is_suggested_is_there() {
        for (theirs, ours) in TVM {
            let mut map = relax_base::SourceMap::new();
            let file = map.add("<pipeline>", *ours).expect("short");
            assert!(
                crate::Pipeline::parse(&file, &Registry::default()).is_ok(),
                "{theirs}: {ours}"
            );
        }
    }
}
