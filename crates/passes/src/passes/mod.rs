//! The passes, one file each. A new file's `PASSES` is added to the list below.

mod infer_type;

use crate::PassDef;

/// All passes.
pub(crate) static PASSES: &[&[PassDef]] = &[
    infer_type::PASSES,
];
