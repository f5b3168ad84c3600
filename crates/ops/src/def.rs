//! What an operator is.

use relax_ir::{AttrValue, Attrs};

use crate::expand::{GradientFn, InferenceFn};
use crate::families::layout_rules;
use crate::{ComputeError, CostFn, Former, LayoutFn, RelCx, RelResult, Te};

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
    /// A list of integers; an integer stands for the list of it where TVM reads it so.
    Ints,
    /// A list of floats.
    Floats,
    /// A list of integers, symbolic dimensions and `?` (`newshape=[n, 4]`).
    Dims,
    /// A list of lists of integers (`pad_width=[[0, 0], [1, 1]]`).
    IntLists,
    /// A list of strings.
    Strs,
    /// Integers, or one integer, kept apart (`indices_or_sections`).
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
    /// The value; `None` where one must be given.
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
    /// The type of its value. `None` is accepted besides where TVM accepts it.
    pub ty: AttrTy,
    /// Its default. Attributes with their default value are not printed.
    pub default: Default,
    /// What it means, one line.
    pub doc: &'static str,
}

/// An input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Input {
    /// Its name.
    pub name: &'static str,
    /// What it means, one line.
    pub doc: &'static str,
}

/// How many arguments a call takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// As many as inputs are declared.
    Fixed,
    /// Any number, at least as many as declared.
    AtLeast,
}

/// TVM's `TOpPattern`: how an operator takes part in fusion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fusion {
    /// One output element from the input elements at the same index.
    Elementwise = 0,
    /// The same under broadcasting.
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

/// What evaluating a call does besides giving a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effects {
    /// Nothing: may be dropped, shared, reordered.
    Pure,
    /// Gives another value each time.
    Stateful,
    /// Changes something: kept, in order.
    Effect,
}

/// How the compiler comes by the value of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, std::default::Default)]
pub enum Lowering {
    /// By the operator's computation.
    #[default]
    Computed,
    /// `call_tir`: runs the tensor program that is the first argument on the tensors of the second,
    /// writing tensors of the shapes that the third gives.
    CallTir,
    /// `call_dps_packed`: the same with a function registered at run time.
    CallDpsPacked,
    /// `call_tir_inplace`: runs the tensor program on the tensors of the second argument; those
    /// that `inplace_indices` names are written, and are the result.
    CallTirInplace,
    /// `memory.alloc_storage`: a block of as many bytes as the first argument says.
    AllocStorage,
    /// `memory.alloc_tensor`: a tensor in the block of the first argument, as many bytes from its
    /// start as the second says, of the extents that the third gives.
    AllocTensor,
    /// `memory.kill`: the value is used up to here.
    Kill,
}

/// A type relation: see [`RelCx`].
pub type RelFn = fn(&mut RelCx<'_>) -> RelResult;
/// A computation: reads `te`'s inputs and attributes, builds stages, names the outputs.
pub type ComputeFn = fn(&mut Te<'_>) -> Result<(), ComputeError>;

/// Where an operator is computed when a program goes to a narrower float (TVM's mixed-precision
/// conversion categories).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Precision {
    /// Always in the narrower type: it gains speed.
    Narrow,
    /// Where its operands are.
    Follow,
    /// Always in `float32`: sums and steep functions lose too much.
    Full,
}

/// What a scale of the operand along an axis does to an operator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScaleRole {
    /// It is the scaling: a product.
    Product,
    /// A positive scale can be moved to the other side of it.
    Positive,
    /// It adds another operand, which is to be scaled too.
    Sum,
    /// It adds a vector along `axis`, which is to be scaled too.
    Bias,
    /// A convolution with layout attributes: the scale can be folded into the weight.
    Convolution,
    /// A product with a matrix of rows per output: the same.
    Dense,
}

/// The operator that takes as attributes what this one takes as tensors: an input named like one of
/// that operator's attributes becomes the attribute, others stay arguments; attributes that both
/// have are kept.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StaticForm {
    /// Its name.
    pub name: &'static str,
    /// Inputs whose attribute has another name: input, attribute.
    pub renamed: &'static [(&'static str, &'static str)],
}

/// What passes ask of an operator beside its type and computation. A hook that is absent means
/// that the operator takes no part.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Whether the output shape depends on input values (TVM's `TShapeDataDependent`).
    pub data_dependent_shape: bool,
    /// For an operator that takes as tensors what another one takes as attributes
    /// (`dyn.reshape`): that other operator.
    pub static_form: Option<StaticForm>,
    /// Where the operator is computed when a program goes to a narrower float.
    pub precision: Precision,
    /// Whether an element of a narrow float is computed in float32 and rounded once.
    pub rounds_once: bool,
    /// The attribute that gives the element type of the result, to be changed with the precision.
    pub result_dtype: Option<&'static str>,
    /// What a scale along an axis does to it, for folding scales into weights.
    pub scale: Option<ScaleRole>,
    /// The operator on the same operands with the same attributes that is faster and less precise.
    pub fast_form: Option<&'static str>,
    /// The gradients of the arguments.
    pub gradient: Option<GradientFn>,
    /// What a call computes outside of training.
    pub inference: Option<InferenceFn>,
    /// What Relax takes a call apart into for inference: all of its results.
    pub decomposed: Option<InferenceFn>,
    /// Operators with kernels of their own that compute a call faster, where there are some.
    pub for_kernels: Option<InferenceFn>,
    /// Whether native code has a kernel for the operator as a whole, faster than what `inference`
    /// makes of it.
    pub whole_kernel: bool,
    /// For an operator whose value depends on the operand's extents alone: the value, given these
    /// and the element type of the result.
    pub of_shape: Option<fn(&[i64], relax_tensor::DType) -> relax_tensor::Tensor>,
    /// Whether it is about where values are, and is to stay although its value is known.
    pub device_bound: bool,
    /// Whether the result holds the operand's elements in the same order, under another shape.
    pub reshape: bool,
    /// Whether it only keeps what comes before it apart from what follows in fusion.
    pub fusion_barrier: bool,
    /// Whether it stands for something that other stages do: no kernel is made of it.
    pub not_computed: bool,
    /// Whether the type of a call is the one that its type arguments give, and anything where there
    /// are none.
    pub told: bool,
    /// How the compiler comes by the value of a call.
    pub lowering: Lowering,
    /// For an operator that has no computation and no lowering of its own: why, one sentence
    /// without full stop; empty for others.
    pub uncomputed: &'static str,
    /// Whether its first operand is a kernel, which the text need not hold.
    pub calls_kernel: bool,
    /// How it works on operands whose axes stand in another order; see [`OpDef::layout_rule`].
    pub layout: Option<LayoutFn>,
    /// What TVM's Relax asks for beyond the relation: asked of programs in TVMScript.
    pub in_relax: Option<RelFn>,
    /// What a call costs natively, for operators where the order of axes decides that, and for
    /// those that move axes.
    pub cost: Option<CostFn>,
}

impl Hooks {
    /// Returns whether its value can be made from the operands' values, by its computation, before
    /// the program runs.
    pub fn computable(&self) -> bool {
        self.lowering == Lowering::Computed && !self.not_computed && !self.device_bound
    }
}

/// An operator.
#[derive(Clone, Copy, Debug)]
pub struct OpDef {
    /// Its name, `nn.conv2d`.
    pub name: &'static str,
    /// What it computes: a sentence, perhaps more.
    pub doc: &'static str,
    /// Its inputs.
    pub inputs: &'static [Input],
    /// How many arguments a call takes.
    pub arity: Arity,
    /// Its attributes, in the order TVM prints them.
    pub attrs: &'static [AttrDef],
    /// The type key under which TVM writes the attributes of this operator as one object of the
    /// metadata section (`f(%x, meta[relay.attrs.ScanopAttrs][0])`), for operators that TVM
    /// registers without an attribute type; `None` where they are written as `name=value`.
    pub meta_attrs: Option<&'static str>,
    /// How other releases wrote calls of it.
    pub former: &'static [Former],
    /// The infix spelling that stands for it (`+`); empty for none.
    pub sugar: &'static str,
    /// Its type relation.
    pub relation: RelFn,
    /// Its computation; `None` only for operators that the compiler treats itself
    /// (`call_tir`), and for those that say why they have none ([`Hooks::uncomputed`]).
    pub compute: Option<ComputeFn>,
    /// How it takes part in fusion.
    pub fusion: Fusion,
    /// What evaluating it does.
    pub effects: Effects,
    /// For passes.
    pub hooks: Hooks,
}

impl OpDef {
    /// An operator with the given name, documentation and relation: no inputs, no attributes,
    /// opaque, pure. Refine it with the methods below; all work in `const`.
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
            hooks: Hooks {
                data_dependent_shape: false,
                static_form: None,
                precision: Precision::Follow,
                rounds_once: false,
                result_dtype: None,
                scale: None,
                fast_form: None,
                gradient: None,
                inference: None,
                decomposed: None,
                for_kernels: None,
                whole_kernel: false,
                of_shape: None,
                device_bound: false,
                reshape: false,
                fusion_barrier: false,
                not_computed: false,
                told: false,
                lowering: Lowering::Computed,
                uncomputed: "",
                calls_kernel: false,
                layout: None,
                in_relax: None,
                cost: None,
            },
        }
    }
    /// Declares the inputs.
    pub const fn inputs(mut self, inputs: &'static [Input]) -> OpDef {
        self.inputs = inputs;
        self
    }
    /// Gives the infix spelling.
    pub const fn sugar(mut self, sugar: &'static str) -> OpDef {
        self.sugar = sugar;
        self
    }
    /// Says how other releases wrote calls of it.
    pub const fn former(mut self, former: &'static [Former]) -> OpDef {
        self.former = former;
        self
    }
    /// Takes any number of arguments.
    pub const fn variadic(mut self) -> OpDef {
        self.arity = Arity::AtLeast;
        self
    }
    /// Declares the attributes.
    pub const fn attrs(mut self, attrs: &'static [AttrDef]) -> OpDef {
        self.attrs = attrs;
        self
    }
    /// Says that TVM writes the attributes as an object of the metadata section, under this type
    /// key.
    pub const fn meta_attrs(mut self, key: &'static str) -> OpDef {
        self.meta_attrs = Some(key);
        self
    }
    /// Gives the computation.
    pub const fn compute(mut self, f: ComputeFn) -> OpDef {
        self.compute = Some(f);
        self
    }
    /// Gives the fusion kind.
    pub const fn fusion(mut self, fusion: Fusion) -> OpDef {
        self.fusion = fusion;
        self
    }
    /// Gives the effects.
    pub const fn effects(mut self, effects: Effects) -> OpDef {
        self.effects = effects;
        self
    }
    /// Says that the output shape depends on input values.
    pub const fn data_dependent(mut self) -> OpDef {
        self.hooks.data_dependent_shape = true;
        self
    }
    /// Says why there is no computation.
    pub const fn uncomputed(mut self, why: &'static str) -> OpDef {
        self.hooks.uncomputed = why;
        self
    }
    /// Says that the first operand is a kernel.
    pub const fn calls_kernel(mut self) -> OpDef {
        self.hooks.calls_kernel = true;
        self
    }
    /// Says that the compiler treats calls in its own way.
    pub const fn lowering(mut self, lowering: Lowering) -> OpDef {
        self.hooks.lowering = lowering;
        self
    }
    /// Says how it works on operands whose axes stand in another order.
    pub const fn layout(mut self, f: LayoutFn) -> OpDef {
        self.hooks.layout = Some(f);
        self
    }
    /// Says what Relax asks for beyond the relation.
    pub const fn in_relax(mut self, rule: RelFn) -> OpDef {
        self.hooks.in_relax = Some(rule);
        self
    }
    /// The type relation, with what Relax asks for beyond it where the program is Relax in
    /// TVMScript.
    pub fn relate(&self, cx: &mut RelCx<'_>) -> RelResult {
        (self.relation)(cx)?;
        match self.hooks.in_relax {
            Some(rule) if cx.host.as_written() => rule(cx),
            _ => Ok(()),
        }
    }
    /// Says what a call costs natively.
    pub const fn cost(mut self, f: CostFn) -> OpDef {
        self.hooks.cost = Some(f);
        self
    }
    /// Gives the gradients of the arguments.
    pub const fn gradient(mut self, f: GradientFn) -> OpDef {
        self.hooks.gradient = Some(f);
        self
    }
    /// Says what a call computes outside of training.
    pub const fn inference(mut self, f: InferenceFn) -> OpDef {
        self.hooks.inference = Some(f);
        self
    }
    /// Says by which operators with kernels of their own a call is computed faster.
    pub const fn for_kernels(mut self, f: InferenceFn) -> OpDef {
        self.hooks.for_kernels = Some(f);
        self
    }
    /// Says what Relax takes a call apart into for inference.
    pub const fn decomposed(mut self, f: InferenceFn) -> OpDef {
        self.hooks.decomposed = Some(f);
        self
    }
    /// Says that native code has a kernel for the operator as a whole.
    pub const fn whole_kernel(mut self) -> OpDef {
        self.hooks.whole_kernel = true;
        self
    }
    /// Says that the value depends on the operand's extents alone, and how.
    pub const fn of_shape(
        mut self,
        f: fn(&[i64], relax_tensor::DType) -> relax_tensor::Tensor,
    ) -> OpDef {
        self.hooks.of_shape = Some(f);
        self
    }
    /// Says that it is about where values are.
    pub const fn device_bound(mut self) -> OpDef {
        self.hooks.device_bound = true;
        self
    }
    /// Says that only the shape changes.
    pub const fn reshape(mut self) -> OpDef {
        self.hooks.reshape = true;
        self
    }
    /// Says that what comes before is not fused with what follows.
    pub const fn fusion_barrier(mut self) -> OpDef {
        self.hooks.fusion_barrier = true;
        self
    }
    /// Says that no kernel is made of it.
    pub const fn not_computed(mut self) -> OpDef {
        self.hooks.not_computed = true;
        self
    }
    /// Says that a call's type is what its type arguments give.
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
    /// Says which inputs become attributes of other names (see [`StaticForm`]).
    pub const fn renamed(mut self, renamed: &'static [(&'static str, &'static str)]) -> OpDef {
        if let Some(form) = &mut self.hooks.static_form {
            form.renamed = renamed;
        }
        self
    }
    /// Says that a narrower float is worth a cast (see [`Precision::Narrow`]).
    pub const fn narrow_precision(mut self) -> OpDef {
        self.hooks.precision = Precision::Narrow;
        self
    }
    /// Says that an element of float16 or bfloat16 is computed in float32 and rounded once: of the
    /// operands cast to float32, with the result cast back, the operator gives the same.
    pub const fn rounds_once(mut self) -> OpDef {
        self.hooks.rounds_once = true;
        self
    }
    /// Says that a narrower float loses too much (see [`Precision::Full`]).
    pub const fn full_precision(mut self) -> OpDef {
        self.hooks.precision = Precision::Full;
        self
    }
    /// Says what a scale does to it.
    pub const fn scale(mut self, role: ScaleRole) -> OpDef {
        self.hooks.scale = Some(role);
        self
    }
    /// Names the attribute that gives the result's element type.
    pub const fn result_dtype(mut self, attr: &'static str) -> OpDef {
        self.hooks.result_dtype = Some(attr);
        self
    }
    /// Returns how it works on operands whose axes stand in another order: as its entry says, and
    /// otherwise as follows from its kind. One operand element by element, or two under
    /// broadcasting, do not mind as long as no attribute names an axis.
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
    /// Returns whether an attribute of calls chooses the layout, so that users can ask for another
    /// one.
    pub fn has_layout_choice(&self) -> bool {
        let chooses = |a: &AttrDef| ["data_layout", "layout"].contains(&a.name);
        self.hooks.layout.is_some() && self.attrs.iter().any(chooses)
    }
    /// The attributes of a call that gives none.
    pub fn default_attrs(&self) -> Attrs {
        (self.attrs.iter())
            .map(|a| (a.name.into(), a.default.value().unwrap_or(AttrValue::None)))
            .collect()
    }
    /// The attribute of extents that must be given: a `shape(…)` after the inputs is its value.
    pub fn shape_attr(&self) -> Option<&AttrDef> {
        let mut all =
            (self.attrs.iter()).filter(|a| a.ty == AttrTy::Dims && a.default == Default::Required);
        all.next().filter(|_| all.next().is_none())
    }
    /// The attribute of that name.
    pub fn attr(&self, name: &str) -> Option<&AttrDef> {
        self.attrs.iter().find(|a| a.name == name)
    }
}

/// Shorthand: `input("data", "the input tensor")`.
pub const fn input(name: &'static str, doc: &'static str) -> Input {
    Input { name, doc }
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
