//! The properties of operators that passes and the lowering ask for.

use crate::AffineRole;
use crate::expand::{GradientFn, InferenceFn};
use crate::hinted::HintedFn;
use crate::relation::RelFn;
use crate::scale::ScaleRole;
use crate::{CostFn, LayoutFn};
use relax_ir::Attrs;

/// How the compiler implements a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, std::default::Default)]
pub enum Lowering {
    /// By the operator's computation.
    #[default]
    Computed,
    /// `call_tir`: runs the tensor program that is the first argument on the tensors of the second,
    /// writing tensors of the shapes given by the third.
    CallTir,
    /// `call_dps_packed`: the same with a function that is registered at run time.
    CallDpsPacked,
    /// `call_tir_inplace`: runs the tensor program on the tensors of the second argument; those
    /// that `inplace_indices` names are overwritten and are the results.
    CallTirInplace,
    /// `memory.alloc_storage`: allocates a block of as many bytes as the first argument says.
    AllocStorage,
    /// `memory.alloc_tensor`: a tensor in the block of the first argument, at the byte offset given
    /// by the second, of the extents given by the third.
    AllocTensor,
    /// `memory.kill`: ends the live range of the value.
    Kill,
}

/// The precision of an operator when a program is converted to a narrower float (TVM's
/// mixed-precision conversion categories).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Precision {
    /// Always the narrower type: it is faster there.
    Narrow,
    /// The type of its operands.
    Follow,
    /// Always `float32`: sums and steep functions lose too much precision otherwise.
    Full,
}

/// The operator that takes as attributes what this one takes as tensors: an input with the name of
/// one of that operator's attributes becomes the attribute, other inputs stay arguments; attributes
/// that both have are kept.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StaticForm {
    /// Its name.
    pub name: &'static str,
    /// Inputs whose attribute has a different name: input, attribute.
    pub renamed: &'static [(&'static str, &'static str)],
}

/// An operator's properties that passes query, besides its type relation and its computation. An
/// absent hook means that the operator is not subject to that transformation.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Whether the output shape depends on input values (TVM's `TShapeDataDependent`).
    pub data_dependent_shape: bool,
    /// The static form of an operator with operands instead of attributes (`dyn.reshape`).
    pub static_form: Option<StaticForm>,
    /// The precision of the operator when a program is converted to a narrower float.
    pub precision: Precision,
    /// Whether a call computes an element of a narrow float in float32 and rounds it once, by its
    /// attributes.
    pub rounds_once: fn(&Attrs) -> bool,
    /// The attribute that gives the result's element type, which changes with the precision.
    pub result_dtype: Option<&'static str>,
    /// How it interacts with a scale along an axis, for folding scales into weights.
    pub scale: Option<ScaleRole>,
    /// Its part in computing with integers that stand for numbers.
    pub affine: Option<AffineRole>,
    /// A faster and less precise operator with the same operands and attributes.
    pub fast_form: Option<&'static str>,
    /// The gradients of the arguments, where no `grad` item of the prelude gives them.
    pub gradient: Option<GradientFn>,
    /// The replacement of a call outside of training.
    pub inference: Option<InferenceFn>,
    /// The decomposition of a call for inference in Relax: all of its results.
    pub decomposed: Option<InferenceFn>,
    /// Equivalent operators that have kernels of their own, which compute a call faster.
    pub for_kernels: Option<InferenceFn>,
    /// Whether native code has a kernel for the whole operator, faster than `inference`'s result.
    pub whole_kernel: bool,
    /// For an operator whose value depends only on the operand's extents: computes the value from
    /// these and the element type of the result.
    pub of_shape: Option<fn(&[i64], relax_tensor::DType) -> relax_tensor::Tensor>,
    /// Whether it is about the placement of values on devices, and never folded.
    pub device_bound: bool,
    /// Whether the result holds the operand's elements in the same order, under another shape.
    pub reshape: bool,
    /// Whether all elements of the result are elements of the first operand, in any order and
    /// number.
    pub same_elements: bool,
    /// For an operator whose result has ranges of indices of its operand along some axes: whether it
    /// leaves an axis as it is.
    pub leaves_whole: Option<fn(&Attrs, usize) -> bool>,
    /// Whether the result lies in the memory of the first operand.
    pub same_memory: bool,
    /// Whether it is only a barrier in fusion, between what precedes and what follows it.
    pub fusion_barrier: bool,
    /// Whether it only marks what other stages do: no kernel is generated for it.
    pub not_computed: bool,
    /// Whether the type of a call is given by its type arguments, and unconstrained without them.
    pub told: bool,
    /// How the compiler implements a call.
    pub lowering: Lowering,
    /// For an operator that has neither a computation nor a lowering of its own: the reason, one
    /// sentence without a full stop; empty for others.
    pub uncomputed: &'static str,
    /// Whether its first operand is a kernel, which the text may omit.
    pub calls_kernel: bool,
    /// How it works on operands with permuted axes; see [`crate::OpDef::layout_rule`].
    pub layout: Option<LayoutFn>,
    /// The additional requirements of TVM's Relax beyond the relation, which programs in TVMScript
    /// are checked against.
    pub in_relax: Option<RelFn>,
    /// The calls whose computation may have a hint.
    pub hinted: Option<HintedFn>,
    /// The native cost of a call, for operators whose cost depends on the order of axes, and for
    /// those that move axes.
    pub cost: Option<CostFn>,
}

impl Hooks {
    /// No operator has any of them unless it says so.
    pub const NONE: Hooks = Hooks {
        data_dependent_shape: false,
        static_form: None,
        precision: Precision::Follow,
        rounds_once: |_| false,
        result_dtype: None,
        scale: None,
        affine: None,
        fast_form: None,
        gradient: None,
        inference: None,
        decomposed: None,
        for_kernels: None,
        whole_kernel: false,
        of_shape: None,
        device_bound: false,
        reshape: false,
        same_elements: false,
        leaves_whole: None,
        same_memory: false,
        fusion_barrier: false,
        not_computed: false,
        told: false,
        lowering: Lowering::Computed,
        uncomputed: "",
        calls_kernel: false,
        layout: None,
        in_relax: None,
        hinted: None,
        cost: None,
    };

    /// Returns whether its computation can evaluate it on constants at compile time.
    pub fn computable(&self) -> bool {
        self.lowering == Lowering::Computed && !self.not_computed && !self.device_bound
    }
}
