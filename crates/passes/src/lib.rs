//! Passes, which optimise or simplify a module, and the manager that runs them.
//!
//! A pass is a [`PassDef`] in a file of its own under `passes/`: a name, options, and a function
//! over a [`PassCx`]. [`Pipeline::parse`] parses `'infer-type,fuse-ops{level=2}'`, [`run`] runs it.
//! `docs/add-a-pass.md` shows how to add one, `docs/passes.md` describes each.
//!
//! Invariant: a pass keeps the module verified ([`relax_ir::Module::verify`]) and typed, and
//! preserves what the program computes.
//! Invariant: properties that passes query of arbitrary operators are in the operators' entries
//! ([`relax_ops::Hooks`]); passes name only the operators that they create calls of and those of
//! their patterns, which `tests/operator_names.rs` checks against the registry.

mod abstracted;
mod analysis;
mod annotate;
mod attributes;
mod bind;
mod blocks;
mod build;
mod code;
pub mod codes;
mod contract;
mod cx;
pub mod declared;
pub mod edit;
mod evaluate;
mod impurity;
mod manager;
mod meant;
mod parallel;
mod pass;
mod passes;
pub mod pattern;
mod pipeline;
mod purity;
mod registry;
mod run_by_blocks;
mod scope;
mod testing;
mod util;

pub use analysis::{Analysis, Found, Typed};
pub use bind::{Bound, Extents, bind_extents, bind_params};
pub use blocks::{BlockCx, BlockPass, each_block};
pub use contract::{Contract, Floats, Form};
pub use cx::PassCx;
pub use manager::{Config, Event, Observer, Outcome, Silent, run, run_typed};
pub use pass::{OptionDef, OptionType, OptionValue, Options, PassDef, PassRun};
pub use pipeline::{Pipeline, Step};
pub use registry::{Registry, all, find, named_pipelines, of_relax};
