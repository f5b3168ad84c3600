//! All passes by name, and the pipelines that have a name.

use crate::PassDef;
use crate::passes::PASSES;

/// All passes, sorted by name.
pub fn all() -> Vec<&'static PassDef> {
    let mut all: Vec<&PassDef> = PASSES.iter().flat_map(|p| p.iter()).collect();
    all.sort_by_key(|p| p.name);
    all
}

/// The pass of that name.
pub fn find(name: &str) -> Option<&'static PassDef> {
    PASSES
        .iter()
        .flat_map(|p| p.iter())
        .find(|p| p.name == name)
        .or_else(|| crate::testing::find(name))
}

/// The pipelines that have a name, `O2`, with their text.
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
        // What relaxc and relax-run do at -O2 and -O3: `let`s do not keep operators apart, and layers with
        // a kernel of their own stay whole.
        (
            "native2",
            "infer-type,to-graph-normal-form{into-functions=false},simplify-inference{keep-kernels=true},\
             fold-constant,simplify-expr,choose-layouts,fold-constant,simplify-fc-transpose,\
             eliminate-common-subexpr,dead-code-elimination,fuse-ops{level=2}",
        ),
        (
            "native3",
            "infer-type,to-graph-normal-form{into-functions=false},simplify-inference{keep-kernels=true},\
             fold-constant,\
             fold-scale-axis{direction=backward},fold-scale-axis{direction=forward},fold-constant,\
             canonicalize-ops,canonicalize-cast,fixpoint{max=3}(simplify-expr,eliminate-common-subexpr,\
             fold-constant),choose-layouts,fold-constant,simplify-fc-transpose,dead-code-elimination,\
             fuse-ops{level=2}",
        ),
    ]
}
