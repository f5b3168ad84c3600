//! Intentionally wrong passes, for tests of how the tools handle wrong passes. They are found by
//! name if the environment has `RELAX_TEST_PASSES`, and are not listed.

use relax_base::Span;
use relax_ir::VarStyle;

use crate::{Contract, PassDef};

/// Returns whether the environment enables them.
fn wanted() -> bool {
    std::env::var_os("RELAX_TEST_PASSES").is_some()
}

/// Returns the wrong pass with this name.
pub(crate) fn find(name: &str) -> Option<&'static PassDef> {
    PASSES.iter().find(|p| p.name == name && wanted())
}

static PASSES: &[PassDef] = &[
    PassDef {
        name: "test-crash",
        doc: "Panics.",
        options: &[],
        contract: Contract::PLAIN,
        run: |_| panic!("`test-crash` does what it says"),
    },
    PassDef {
        name: "test-break",
        doc: "Leaves functions whose result is a variable that nothing binds.",
        options: &[],
        contract: Contract::PLAIN,
        run: |cx| {
            for (global, _) in cx.module.global_bodies() {
                let (_, lost) = cx.module.fresh_var("lost", None, VarStyle::Let);
                cx.module.set_global_body(global, lost);
            }
            Ok(())
        },
    },
    PassDef {
        name: "test-ill-type",
        doc: "Leaves functions that call the empty tuple.",
        options: &[],
        contract: Contract::PLAIN,
        run: |cx| {
            for (global, _) in cx.module.global_bodies() {
                let unit = cx.module.tuple(&[], Span::NONE);
                let call = cx.module.call(unit, &[], Span::NONE);
                cx.module.set_global_body(global, call);
            }
            Ok(())
        },
    },
];
