//! Operator definitions.

use std::borrow::Cow;

use relax_ir::{AttrValue, Attrs};

use crate::expand::{GradientFn, InferenceFn};
use crate::families::layout_rules;
use crate::hooks::{Hooks, Lowering, Precision, StaticForm};
use crate::relation::RelFn;
use crate::scale::ScaleRole;
use crate::{AffineFn, AffineRole, ComputeError, CostFn, Former, LayoutFn, RelCx, RelResult, Te};

/// The type of an attribute's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttrTy {
    /// An integer.
    Int,
    /// A float.
    Float,
    /// `True` or `False`.
    Bool,
    /// A string.
    Str,
    /// An element type, written as a string (`"int32"`); the empty string is `void`.
    DType,
    /// An element type, or a list of them where there are several results.
    DTypes,
    /// A list of integers; a single integer is accepted as a list of one where TVM accepts it.
    Ints,
    /// A list of floats.
    Floats,
    /// A list of integers, symbolic dimensions and `?` (`newshape=[n, 4]`).
    Dims,
    /// A list of lists of integers (`pad_width=[[0, 0], [1, 1]]`).
    IntLists,
    /// A list of strings.
    Strs,
    /// Integers, or a single integer, which are distinguished (`indices_or_sections`).
    IntOrInts,
    /// Anything.
    Any,
}

/// The default of an attribute.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Default {
    /// Must be given, and is always printed.
    Required,
    /// `None`.
    None,
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(&'static str),
    /// An element type by name; empty is `void`.
    DType(&'static str),
    /// A list of integers.
    Ints(&'static [i64]),
    /// A list of floats.
    Floats(&'static [f64]),
}

impl Default {
    /// Returns the default value; `None` for a required attribute.
    pub fn value(self) -> Option<AttrValue> {
        Some(match self {
            Default::Required => return None,
            Default::None => AttrValue::None,
            Default::Int(v) => AttrValue::Int(v),
            Default::Float(v) => AttrValue::Float(v),
            Default::Bool(v) => AttrValue::Bool(v),
            Default::Str(v) => AttrValue::Str(v.into()),
            Default::DType(v) => v.parse().map_or(AttrValue::None, AttrValue::DType),
            Default::Ints(v) => AttrValue::ints(v),
            Default::Floats(v) => AttrValue::array(v.iter().map(|&x| AttrValue::Float(x))),
        })
    }
}

/// An attribute.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttrDef {
    /// Its name.
    pub name: &'static str,
    /// The type of its value. `None` is also accepted where TVM accepts it.
    pub ty: AttrTy,
    /// Its default. Attributes with their default value are not printed.
    pub default: Default,
    /// Its meaning, in one line.
    pub doc: &'static str,
}

/// An input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input {
    /// Its name.
    pub name: &'static str,
    /// Its meaning, in one line.
    pub doc: &'static str,
    /// Whether the type needs the value of a constant here. It is an operand of the call itself,
    /// never a variable's value.
    pub literal: bool,
}

impl Input {
    /// Declares that the type needs the value of a constant here.
    pub const fn literal(mut self) -> Input {
        self.literal = true;
        self
    }
}

/// The number of arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// Exactly the declared inputs.
    Fixed,
    /// Any number, at least as many as declared.
    AtLeast,
}

/// TVM's `TOpPattern`: the role of an operator in fusion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fusion {
    /// One output element from the input elements at the same index.
    Elementwise = 0,
    /// Like `Elementwise`, under broadcasting.
    Broadcast = 1,
    /// One output element from one input element at a computed index.
    Injective = 2,
    /// A reduction.
    Reduction = 3,
    /// Complex, but element-wise operators can be fused to its output.
    OutElementwise = 4,
    /// A tuple.
    Tuple = 7,
    /// Never fused.
    Opaque = 8,
}

/// The side effects of evaluating a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effects {
    /// None: a call may be dropped, shared and reordered.
    Pure,
    /// Produces a different value each time.
    Stateful,
    /// Has a side effect: calls are kept, in order.
    Effect,
}

/// A computation: reads the inputs and attributes from `te`, builds stages, names the outputs.
pub type ComputeFn = fn(&mut Te<'_>) -> Result<(), ComputeError>;

/// An operator.
#[derive(Clone, Copy, Debug)]
pub struct OpDef {
    /// Its name, `nn.conv2d`.
    pub name: &'static str,
    /// A description of what it computes: one or more sentences.
    pub doc: &'static str,
    /// Its inputs.
    pub inputs: &'static [Input],
    /// The number of arguments of a call.
    pub arity: Arity,
    /// Its attributes, in the order TVM prints them.
    pub attrs: &'static [AttrDef],
    /// The type key under which TVM writes the attributes of this operator as one object of the
    /// metadata section (`f(%x, meta[relay.attrs.ScanopAttrs][0])`), for operators that TVM
    /// registers without an attribute type; `None` where they are written as `name=value`.
    pub meta_attrs: Option<&'static str>,
    /// The spellings of its calls in other releases.
    pub former: &'static [Former],
    /// The infix operator that denotes it (`+`); empty for none.
    pub sugar: &'static str,
    /// Its type relation.
    pub relation: RelFn,
    /// Its computation; `None` only for operators that the compiler itself implements (`call_tir`),
    /// and for those that state why they have none ([`Hooks::uncomputed`]).
    pub compute: Option<ComputeFn>,
    /// Its role in fusion.
    pub fusion: Fusion,
    /// The side effects of evaluating it.
    pub effects: Effects,
    /// The properties that passes query.
    pub hooks: Hooks,
}

impl OpDef {
    /// Creates an operator with the given name, documentation and relation: no inputs, no
    /// attributes, opaque, pure. Refine it with the methods below, which are all `const`.
    pub const fn new(name: &'static str, doc: &'static str, relation: RelFn) -> OpDef {
        OpDef {
            name,
            doc,
            inputs: &[],
            arity: Arity::Fixed,
            attrs: &[],
            meta_attrs: None,
            former: &[],
            sugar: "",
            relation,
            compute: None,
            fusion: Fusion::Opaque,
            effects: Effects::Pure,
            hooks: Hooks::NONE,
        }
    }
    /// Declares the inputs.
    pub const fn inputs(mut self, inputs: &'static [Input]) -> OpDef {
        self.inputs = inputs;
        self
    }
    /// Sets the infix operator that denotes it.
    pub const fn sugar(mut self, sugar: &'static str) -> OpDef {
        self.sugar = sugar;
        self
    }
    /// Declares how other releases wrote calls of it.
    pub const fn former(mut self, former: &'static [Former]) -> OpDef {
        self.former = former;
        self
    }
    /// Accepts any number of arguments.
    pub const fn variadic(mut self) -> OpDef {
        self.arity = Arity::AtLeast;
        self
    }
    /// Declares the attributes.
    pub const fn attrs(mut self, attrs: &'static [AttrDef]) -> OpDef {
        self.attrs = attrs;
        self
    }
    /// Declares that TVM writes the attributes as an object of the metadata section, under this
    /// type key.
    pub const fn meta_attrs(mut self, key: &'static str) -> OpDef {
        self.meta_attrs = Some(key);
        self
    }
    /// Sets the computation.
    pub const fn compute(mut self, f: ComputeFn) -> OpDef {
        self.compute = Some(f);
        self
    }
    /// Sets the fusion kind.
    pub const fn fusion(mut self, fusion: Fusion) -> OpDef {
        self.fusion = fusion;
        self
    }
    /// Sets the effects.
    pub const fn effects(mut self, effects: Effects) -> OpDef {
        self.effects = effects;
        self
    }
    /// Declares that the output shape depends on input values.
    pub const fn data_dependent(mut self) -> OpDef {
        self.hooks.data_dependent_shape = true;
        self
    }
    /// Sets the reason why there is no computation.
    pub const fn uncomputed(mut self, why: &'static str) -> OpDef {
        self.hooks.uncomputed = why;
        self
    }
    /// Declares that the first operand is a kernel.
    pub const fn calls_kernel(mut self) -> OpDef {
        self.hooks.calls_kernel = true;
        self
    }
    /// Declares how the compiler itself implements calls.
    pub const fn lowering(mut self, lowering: Lowering) -> OpDef {
        self.hooks.lowering = lowering;
        self
    }
    /// Sets how it works on operands with permuted axes.
    pub const fn layout(mut self, f: LayoutFn) -> OpDef {
        self.hooks.layout = Some(f);
        self
    }
    /// Sets Relax's additional requirements beyond the relation.
    pub const fn in_relax(mut self, rule: RelFn) -> OpDef {
        self.hooks.in_relax = Some(rule);
        self
    }
    /// Runs the type relation, with Relax's additional requirements where the program is Relax in
    /// TVMScript.
    pub fn relate(&self, cx: &mut RelCx<'_>) -> RelResult {
        (self.relation)(cx)?;
        match self.hooks.in_relax {
            Some(rule) if cx.host.as_written() => rule(cx),
            _ => Ok(()),
        }
    }
    /// Sets which calls have a hint.
    pub const fn hinted(mut self, f: crate::hinted::HintedFn) -> OpDef {
        self.hooks.hinted = Some(f);
        self
    }
    /// Sets the native cost of a call.
    pub const fn cost(mut self, f: CostFn) -> OpDef {
        self.hooks.cost = Some(f);
        self
    }
    /// Sets the gradients of the arguments.
    pub const fn gradient(mut self, f: GradientFn) -> OpDef {
        self.hooks.gradient = Some(f);
        self
    }
    /// Sets its part in computing with integers that stand for numbers.
    pub const fn affine(mut self, role: AffineRole) -> OpDef {
        self.hooks.affine = Some(role);
        self
    }
    /// Sets how it is computed with integers that stand for numbers.
    pub const fn affine_rule(self, f: AffineFn) -> OpDef {
        self.affine(AffineRole::Rule(f))
    }
    /// Sets how it is computed with integers that stand for numbers, in whose order its results
    /// are.
    pub const fn affine_ordered(self, f: AffineFn) -> OpDef {
        self.affine(AffineRole::Ordered(f))
    }
    /// Sets how it is computed as sums of products of integers that stand for numbers.
    pub const fn affine_product(self, f: AffineFn) -> OpDef {
        self.affine(AffineRole::Product(f))
    }
    /// Sets the replacement of a call outside of training.
    pub const fn inference(mut self, f: InferenceFn) -> OpDef {
        self.hooks.inference = Some(f);
        self
    }
    /// Sets the operators with kernels of their own that compute a call faster.
    pub const fn for_kernels(mut self, f: InferenceFn) -> OpDef {
        self.hooks.for_kernels = Some(f);
        self
    }
    /// Sets Relax's decomposition of a call for inference.
    pub const fn decomposed(mut self, f: InferenceFn) -> OpDef {
        self.hooks.decomposed = Some(f);
        self
    }
    /// Declares that native code has a kernel for the operator as a whole.
    pub const fn whole_kernel(mut self) -> OpDef {
        self.hooks.whole_kernel = true;
        self
    }
    /// Declares that the value depends only on the operand's extents, and how.
    pub const fn of_shape(
        mut self,
        f: fn(&[i64], relax_tensor::DType) -> relax_tensor::Tensor,
    ) -> OpDef {
        self.hooks.of_shape = Some(f);
        self
    }
    /// Declares that it concerns the placement of values on devices.
    pub const fn device_bound(mut self) -> OpDef {
        self.hooks.device_bound = true;
        self
    }
    /// Declares that only the shape changes.
    pub const fn reshape(mut self) -> OpDef {
        self.hooks.reshape = true;
        self.same_elements().same_memory()
    }
    /// Declares that the result has ranges of indices of the operand along the axes that do not stay
    /// whole.
    pub const fn leaves_whole(mut self, whole: fn(&Attrs, usize) -> bool) -> OpDef {
        self.hooks.leaves_whole = Some(whole);
        self
    }
    /// Declares that all elements of the result are the first operand's.
    pub const fn same_elements(mut self) -> OpDef {
        self.hooks.same_elements = true;
        self
    }
    /// Declares that the result lies in the memory of the first operand.
    pub const fn same_memory(mut self) -> OpDef {
        self.hooks.same_memory = true;
        self
    }
    /// Declares that what precedes it is not fused with what follows.
    pub const fn fusion_barrier(mut self) -> OpDef {
        self.hooks.fusion_barrier = true;
        self
    }
    /// Declares that no kernel is generated for it.
    pub const fn not_computed(mut self) -> OpDef {
        self.hooks.not_computed = true;
        self
    }
    /// Declares that a call's type is the one that its type arguments give.
    pub const fn told(mut self) -> OpDef {
        self.hooks.told = true;
        self
    }
    /// Names the faster, less precise operator on the same operands.
    pub const fn fast_form(mut self, name: &'static str) -> OpDef {
        self.hooks.fast_form = Some(name);
        self
    }
    /// Names the operator that takes as attributes what this one takes as tensors.
    pub const fn static_form(mut self, name: &'static str) -> OpDef {
        self.hooks.static_form = Some(StaticForm { name, renamed: &[] });
        self
    }
    /// Declares which inputs become attributes of other names (see [`StaticForm`]).
    pub const fn renamed(mut self, renamed: &'static [(&'static str, &'static str)]) -> OpDef {
        if let Some(form) = &mut self.hooks.static_form {
            form.renamed = renamed;
        }
        self
    }
    /// Declares that a narrower float is worth a cast (see [`Precision::Narrow`]).
    pub const fn narrow_precision(mut self) -> OpDef {
        self.hooks.precision = Precision::Narrow;
        self
    }
    /// Declares that an element of float16 or bfloat16 is computed in float32 and rounded once: the
    /// operator applied to the operands cast to float32, with the result cast back, gives the same.
    pub const fn rounds_once(self) -> OpDef {
        self.rounds_once_where(|_| true)
    }
    /// Declares the same of calls with certain attributes.
    pub const fn rounds_once_where(mut self, holds: fn(&Attrs) -> bool) -> OpDef {
        self.hooks.rounds_once = holds;
        self
    }
    /// Declares that a narrower float loses too much precision (see [`Precision::Full`]).
    pub const fn full_precision(mut self) -> OpDef {
        self.hooks.precision = Precision::Full;
        self
    }
    /// Sets how it interacts with a scale.
    pub const fn scale(mut self, role: ScaleRole) -> OpDef {
        self.hooks.scale = Some(role);
        self
    }
    /// Names the attribute that gives the result's element type.
    pub const fn result_dtype(mut self, attr: &'static str) -> OpDef {
        self.hooks.result_dtype = Some(attr);
        self
    }
    /// Returns the layout rule, that is, how the operator works on operands with permuted axes: the
    /// one of its entry, or else the one that follows from its kind. Element-wise operators, also
    /// with two operands under broadcasting, work in any order as long as no attribute names an
    /// axis.
    pub fn layout_rule(&self) -> Option<LayoutFn> {
        let names_axis = |a: &AttrDef| ["axis", "axes", "layout"].contains(&a.name);
        if self.hooks.layout.is_some() || self.attrs.iter().any(names_axis) {
            return self.hooks.layout;
        }
        match (self.fusion, self.inputs.len(), self.arity) {
            (Fusion::Elementwise, 1, Arity::Fixed) => Some(layout_rules::same),
            (Fusion::Broadcast, 2, Arity::Fixed) => Some(layout_rules::broadcast),
            _ => None,
        }
    }
    /// Returns whether an attribute of calls selects the layout, so that users can request another
    /// one.
    pub fn has_layout_choice(&self) -> bool {
        let chooses = |a: &AttrDef| ["data_layout", "layout"].contains(&a.name);
        self.hooks.layout.is_some() && self.attrs.iter().any(chooses)
    }
    /// Returns the default attributes, those of a call without any.
    pub fn default_attrs(&self) -> Attrs {
        (self.attrs.iter())
            .map(|a| (a.name.into(), a.default.value().unwrap_or(AttrValue::None)))
            .collect()
    }
    /// Returns the attributes of a call: the given ones, or the defaults for an operator that is
    /// called as a value.
    pub fn attrs_of<'a>(&self, given: &'a Attrs) -> Cow<'a, Attrs> {
        match given.is_empty() && !self.attrs.is_empty() {
            true => Cow::Owned(self.default_attrs()),
            false => Cow::Borrowed(given),
        }
    }
    /// Returns the attribute of extents that must be given: a `shape(…)` after the inputs is its
    /// value.
    pub fn shape_attr(&self) -> Option<&AttrDef> {
        let mut all =
            (self.attrs.iter()).filter(|a| a.ty == AttrTy::Dims && a.default == Default::Required);
        all.next().filter(|_| all.next().is_none())
    }
    /// Returns the attribute of that name.
    pub fn attr(&self, name: &str) -> Option<&AttrDef> {
        self.attrs.iter().find(|a| a.name == name)
    }
    /// Returns the attribute behind the one of that name.
    pub fn attr_after(&self, name: &str) -> Option<&AttrDef> {
        self.attrs.iter().skip_while(|a| a.name != name).nth(1)
    }
}

/// Shorthand: `input("data", "the input tensor")`.
pub const fn input(name: &'static str, doc: &'static str) -> Input {
    Input {
        name,
        doc,
        literal: false,
    }
}

/// Shorthand: `attr("axis", AttrTy::Int, Default::Int(-1), "the axis")`.
pub const fn attr(name: &'static str, ty: AttrTy, default: Default, doc: &'static str) -> AttrDef {
    AttrDef {
        name,
        ty,
        default,
        doc,
    }
}
