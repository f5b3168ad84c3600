//! Relay and Relax as a library: reads modules of any supported format; checks, prints, optimises,
//! evaluates, compiles and calls them.
//!
//! ```
//! use relax::{CompileOptions, Module, Tensor, Value};
//!
//! let mut module = Module::parse("def @main(%x: Tensor[(n, 2), float32]) { sum(%x, axis=[1]) }")?;
//! module.optimise("O2")?;
//! let program = module.compile(&CompileOptions::default())?;
//! let x = Tensor::from_slice(&[2, 2], &[1f32, 2.0, 3.0, 4.0]);
//! let Value::Tensor(sums) = &program.call(&[Value::Tensor(x)])? else { panic!("a tensor") };
//! assert_eq!(sums.slice::<f32>(), [3.0, 7.0]);
//! # Ok::<(), relax::Error>(())
//! ```
//!
//! Most callers need only [`Module`] and [`Program`]. [`Session`] and the free functions are the
//! lower-level parts they are built from, for tools with their own progress reports and source
//! maps.
//!
//! Nothing here prints or exits; that is left to the command line and the language server. Native
//! code is behind the feature `native`, weight files behind `weights`.

#[cfg(feature = "weights")]
mod apart;
mod arguments;
#[cfg(feature = "native")]
mod compiled;
mod contents;
pub mod entry;
mod error;
#[cfg(feature = "native")]
pub mod failure;
pub mod fit;
mod format;
pub mod inputs;
pub mod layout;
#[cfg(feature = "native")]
mod library;
mod lint;
pub mod mapped;
#[cfg(feature = "weights")]
pub mod model;
mod module;
#[cfg(feature = "native")]
pub mod native;
#[cfg(feature = "weights")]
mod npy;
#[cfg(feature = "weights")]
pub mod npz;
mod onnx;
mod operators;
mod optimise;
#[cfg(feature = "native")]
mod packed;
mod param;
pub mod parts;
pub mod picture;
mod print;
#[cfg(feature = "native")]
pub mod profile;
pub mod random;
mod report;
#[cfg(feature = "native")]
pub mod roofline;
mod script;
mod session;
pub mod show;
mod signature;
mod tree;
mod tvm_json;
mod typed;
mod types;
pub mod values;
#[cfg(feature = "native")]
pub mod vm;
#[cfg(feature = "weights")]
pub mod weights;
mod whole;
pub mod words;
mod written;

#[cfg(feature = "native")]
pub use compiled::{CompileOptions, Program, Progress};
pub use contents::{Contents, Held};
pub use error::Error;
pub use format::Format;
pub use lint::{code, is_allowed, is_unnecessary, lint};
pub use module::Module;
pub use onnx::onnx_model;
pub use operators::{Attribute, Operator, operators};
pub use optimise::{
    Found, PassConfig, PassEvent, PassObserver, PassOutcome, PassRun, Pipeline, Silent,
    run_pipeline, run_typed,
};
pub use print::{
    Mismatch, PrintMode, Style, TypeSource, difference, listed_constants, print, print_as,
};
#[cfg(feature = "native")]
pub use profile::Cost;
pub use relax_tvm::write::RELEASES as JSON_RELEASES;
pub use report::{Finding, Place, Report, Suggestion};
pub use script::print_tvmscript;
pub use session::{
    Beside, GivenTypes, Input, NoStubs, Read, ReadOptions, Release, Session, Stubs, TextOptions,
};
pub use signature::{Extent, Param, Signature, TensorType};
pub use tree::{Attr, Made, Node};
pub use tvm_json::json_graph;
pub use typed::{Check, CheckKind, InferOptions, Typed, TypedModule, Typing, check, check_typed};
pub use types::{Constructor, DataType, Several, Ty, Types, Walk};

/// The interface for writing passes: a pass is a [`passes::PassDef`]; [`Module::add_pass`]
/// registers it with a module, a [`passes::Registry`] with a session.
pub mod passes {
    pub use relax_passes::{
        BlockCx, BlockPass, Contract, Form, OptionDef, OptionType, OptionValue, Options, PassCx,
        PassDef, Registry, each_block, edit,
    };
}

pub use relax_base::explain::explain;
pub use relax_base::{BoxError, Code, Severity};
#[cfg(feature = "native")]
pub use relax_codegen::{DESCRIPTION, Given, Listing, Packed, Place as PackedPlace, Target, View};
pub use relax_tensor::{DType, Element, Tensor, Value};
