//! All operators, each defined entirely in one place.
//!
//! An [`OpDef`] holds an operator's name, inputs, attributes, type relation, computation over
//! indices, effects, fusion kind and the hooks that passes query. Families of operators are in one
//! file each under `families/`. Printing, parsing of attributes, checking, evaluating, lowering,
//! completion and documentation read the [`Registry`].
//!
//! Invariant: nothing outside an operator's own entry names it.

mod affine;
pub mod call_requirements;
mod compute;
mod cost;
mod def;
mod expand;
mod extents;
pub mod families;
mod foreign;
mod former;
pub mod hinted;
mod hooks;
mod layout;
mod order;
mod registry;
mod relation;
mod release;
mod request;
mod scale;
pub mod stage;

pub use affine::{Affine, AffineFn, AffineRole, AffineSite, Number};
pub use compute::{ComputeError, Te};
pub use cost::{CostFn, Known, Priced};
pub use def::{
    Arity, AttrDef, AttrTy, ComputeFn, Default, Effects, Fusion, Input, OpDef, attr, input,
};
pub use expand::{Build, GradientFn, InferenceFn, Site};
pub use foreign::is_foreign;
pub use former::{Former, OldCall};
pub use hooks::{Hooks, Lowering, Precision, StaticForm};
pub use layout::{Axis, Layout};
pub use order::{LayoutFn, Operand, Order, Part, Relaid, Relayout, Runs, reshaped_runs};
pub use registry::{Registry, registry};
pub use relation::{Fit, Mismatch, Refusal, RelCx, RelFn, RelHost, RelResult, Stop, Subject};
pub use relax_ir::{AttrValue, DTy};
pub use relax_loops::TensorInfo;
pub use release::{NoRelease, Release};
pub use request::{Made, NoProgram, Request};
pub use scale::{Channels, Contraction, Lie, ScaleRole, ScaleSite};
