//! The module, which owns all arenas.

use std::sync::Arc;

use relax_base::{Arena, SideTable, Span, Symbol};
use relax_loops::Program;
use relax_sym::{Dim, DimVar};
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

use crate::lists::Lists;
use crate::{
    AttrValue, Attrs, AttrsId, Block, BlockId, Damage, Expr, ExprId, ExprList, FuncId, Function,
    PatId, Pattern, RelId, RelationDef, TypeArena, TypeId, TypeParamId, Var, VarId, VarStyle,
};

relax_base::define_id! {
    /// A global function or tensor program.
    pub struct GlobalId("@");
    /// An algebraic data type or opaque (`extern`) type.
    pub struct AdtId("adt");
    /// A constructor.
    pub struct CtorId("ctor");
    /// A constant.
    pub struct ConstId("c");
    /// An operator: built in (numbered by the registry from 0) or user-defined (`op` items,
    /// numbered from [`OpId::FIRST_USER`]).
    pub struct OpId("op");
}

impl OpId {
    /// The id of a module's first `op` item.
    pub const FIRST_USER: OpId = OpId(1 << 16);
    /// Returns the index among the module's `op` items, if this is one.
    pub fn user_index(self) -> Option<usize> {
        self.0.checked_sub(Self::FIRST_USER.0).map(|i| i as usize)
    }
}

/// The definition of a global name.
#[derive(Clone, Debug)]
pub enum GlobalKind {
    /// A function.
    Func(FuncId),
    /// A tensor program.
    Prim(Arc<Program>),
}

/// A global definition.
#[derive(Clone, Debug)]
pub struct Global {
    /// The name, without sigil.
    pub name: Symbol,
    /// The definition.
    pub kind: GlobalKind,
    /// The span of the defining name.
    pub span: Span,
    /// Whether it is part of the prelude: not printed, and dropped when unused.
    pub prelude: bool,
}

/// A data type.
#[derive(Clone, PartialEq, Debug)]
pub struct Adt {
    /// The name.
    pub name: Symbol,
    /// The type parameters.
    pub params: Vec<TypeParamId>,
    /// The constructors; the index is the tag.
    pub ctors: Vec<CtorId>,
    /// Whether it is an `extern type`.
    pub opaque: bool,
    /// The span.
    pub span: Span,
    /// Whether it is part of the prelude.
    pub prelude: bool,
}

/// A constructor.
#[derive(Clone, PartialEq, Debug)]
pub struct Ctor {
    /// The name.
    pub name: Symbol,
    /// The data type.
    pub adt: AdtId,
    /// The field types, over the data type's parameters.
    pub fields: Vec<TypeId>,
    /// The index among the constructors of the data type.
    pub tag: u32,
    /// The span.
    pub span: Span,
}

/// A dimension variable.
#[derive(Clone, PartialEq, Debug)]
pub struct DimInfo {
    /// The name.
    pub name: Symbol,
    /// The span of the binding.
    pub span: Span,
}

/// A user-defined operator (an `op` item).
#[derive(Clone, PartialEq, Debug)]
pub struct UserOp {
    /// The name.
    pub name: Symbol,
    /// Type parameters of the signature. The signature and default attributes are held like a
    /// function's, with a placeholder for the body.
    pub type_params: Vec<TypeParamId>,
    /// Dimension variables of the signature.
    pub dims: Vec<DimVar>,
    /// Tensor parameters: name and type.
    pub params: Vec<(Symbol, TypeId)>,
    /// Result type; `None` when `relations` determine it.
    pub ret: Option<TypeId>,
    /// Type relations over the arguments and the result (`where R`).
    pub constraints: Vec<crate::Constraint>,
    /// The attributes, with their type names and defaults (`None`: required).
    pub attrs: Vec<(Symbol, Symbol, Option<AttrValue>)>,
    /// The computation: a tensor program with one input for each of `params`, in order, and the
    /// output last. Attributes occur in it as scalar variables of the same name (see `attr_vars`).
    pub program: Option<Arc<Program>>,
    /// The scalar variable of `program` for each attribute.
    pub attr_vars: Vec<relax_loops::Var>,
    /// The span.
    pub span: Span,
    /// Whether it is part of the prelude.
    pub prelude: bool,
}

/// The metadata section of a text, except for its constants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The JSON text of the whole section, if it contains `meta[key][index]` values other than
    /// constants.
    pub raw: Option<Arc<str>>,
    /// Placeholder constants for those of a missing section, by their index in its list of
    /// constants; in ascending order of ids. Their values are meaningless: they are not evaluated
    /// at compile time, and are printed as references.
    pub stubs: Vec<(u32, ConstId)>,
}

impl Metadata {
    /// Returns the index of the constant that this is a placeholder for, if it is one.
    pub fn stub(&self, id: ConstId) -> Option<u32> {
        if self.stubs.is_empty() {
            return None;
        }
        let at = self.stubs.binary_search_by_key(&id, |s| s.1).ok()?;
        Some(self.stubs[at].0)
    }

    /// Returns an index above those of all placeholders.
    pub fn stubs_end(&self) -> u32 {
        self.stubs.iter().map(|s| s.0 + 1).max().unwrap_or(0)
    }
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// The version in the text's header, if it has one.
    pub version: Option<Symbol>,
    /// All expressions.
    pub exprs: Arena<ExprId, Expr>,
    /// The spans of expressions.
    pub spans: SideTable<ExprId, Span>,
    /// The spans of attributes written in the text: by call, in ascending order, and name.
    pub attr_spans: Vec<(ExprId, Symbol, Span)>,
    /// All local variables.
    pub vars: Arena<VarId, Var>,
    /// Attributes of parameters, such as `virtual_device`.
    pub var_attrs: FxHashMap<VarId, Attrs>,
    /// All patterns.
    pub patterns: Arena<PatId, Pattern>,
    /// The spans of patterns.
    pub pattern_spans: SideTable<PatId, Span>,
    /// All functions.
    pub funcs: Arena<FuncId, Function>,
    /// All dataflow blocks.
    pub blocks: Arena<BlockId, Block>,
    /// All types.
    pub types: TypeArena,
    /// All dimension variables.
    pub dims: Arena<DimVar, DimInfo>,
    /// All constants.
    pub consts: Arena<ConstId, Tensor>,
    /// Constants written as plain numbers: `true` if the literal had no suffix, so that its element
    /// type is inferred from the context.
    pub literals: FxHashMap<ConstId, bool>,
    /// The original parameter names of constants that were bound to parameters.
    pub const_names: FxHashMap<ConstId, Symbol>,
    /// Global definitions, in source order.
    pub globals: Arena<GlobalId, Global>,
    /// Data types.
    pub adts: Arena<AdtId, Adt>,
    /// Constructors.
    pub ctors: Arena<CtorId, Ctor>,
    /// `rel` items.
    pub relations: Arena<RelId, RelationDef>,
    /// User-defined operators (`op` items); the one at index `i` is `OpId(OpId::FIRST_USER.0 + i)`.
    pub user_ops: Vec<UserOp>,
    /// `grad` items.
    pub grads: Vec<Arc<crate::GradItem>>,
    /// The global that holds an expression file's expression; its parameters are the free
    /// variables.
    pub expression: Option<GlobalId>,
    /// Whether that expression is a function literal, which then is the global's function itself.
    pub literal: bool,
    /// The type of a type file.
    pub type_item: Option<TypeId>,
    /// The number of type holes (`_`) in the text: `TypeInfer(0)` up to this index (exclusive).
    pub type_holes: u32,
    /// The metadata section apart from constants.
    pub metadata: Metadata,
    /// References into the metadata section in the place of a `?`, `meta[tir.Mul][0]`: the
    /// dimension with mark `i` ([`Dim::mark`]) is spelled as entry `i - 1`.
    pub meta_dims: Vec<(Symbol, u32)>,
    /// The parts that come from erroneous text.
    pub damage: Damage,
    /// TVMScript-specific information, if the module was read from TVMScript.
    pub script: Option<Arc<crate::Script>>,
    pub(crate) attrs: Arena<AttrsId, Attrs>,
    pub(crate) lists: Lists,
    pub(crate) type_args: Arena<TypeArgsId, Box<[TypeId]>>,
    /// The functions that a share of a module works on; `None` for a whole module.
    pub(crate) share: Option<Arc<[GlobalId]>>,
}

relax_base::define_id! {
    /// Explicit type arguments of a call; `TypeArgsId(0)` is the empty list.
    pub(crate) struct TypeArgsId("ta");
}

impl Module {
    /// Creates an empty module.
    pub fn new() -> Module {
        Module {
            attrs: vec![Attrs::new()].into(),
            type_args: vec![Box::default()].into(),
            ..Module::default()
        }
    }

    /// Releases excess capacity.
    pub fn shrink(&mut self) {
        self.exprs.shrink();
        self.spans.shrink();
        self.vars.shrink();
        self.patterns.shrink();
        self.consts.shrink();
        self.lists.shrink();
        self.types.shrink();
        self.attrs.shrink();
        self.attr_spans.shrink_to_fit();
    }

    /// Adds an expression.
    pub fn add(&mut self, expr: Expr, span: Span) -> ExprId {
        let id = self.exprs.push(expr);
        if !span.is_none() {
            self.spans.set(id, span);
        }
        id
    }
    /// Stores a list of expressions.
    pub fn make_list(&mut self, items: &[ExprId]) -> ExprList {
        self.lists.add(items)
    }
    /// Maps a list's expressions; returns the same list if `f` changes none of them.
    pub(crate) fn map_list(
        &mut self,
        list: ExprList,
        f: &mut impl FnMut(ExprId) -> ExprId,
    ) -> ExprList {
        self.lists.map(list, f)
    }
    /// Returns the expressions of a list.
    pub fn list(&self, list: ExprList) -> &[ExprId] {
        self.lists.get(list)
    }
    /// Returns the span of a call's attribute `name` in the text.
    pub fn attr_span(&self, call: ExprId, name: &str) -> Option<Span> {
        let from = self.attr_spans.partition_point(|a| a.0 < call);
        let mut own = self.attr_spans[from..].iter().take_while(|a| a.0 == call);
        own.find(|a| a.1 == name).map(|a| a.2)
    }
    /// Stores attributes.
    pub fn make_attrs(&mut self, attrs: Attrs) -> AttrsId {
        if attrs.is_empty() {
            return AttrsId::NONE;
        }
        self.attrs.push(attrs)
    }
    /// Returns the attributes with this id.
    pub fn attrs(&self, id: AttrsId) -> &Attrs {
        &self.attrs[id]
    }
    /// Stores explicit type arguments.
    pub fn make_type_args(&mut self, args: &[TypeId]) -> u32 {
        if args.is_empty() {
            return 0;
        }
        self.type_args.push(args.into()).0
    }
    /// Returns the type arguments with this index.
    pub fn type_args(&self, index: u32) -> &[TypeId] {
        &self.type_args[TypeArgsId(index)]
    }

    /// Adds a call without attributes.
    pub fn call(&mut self, callee: ExprId, args: &[ExprId], span: Span) -> ExprId {
        self.call_attrs(callee, args, Attrs::new(), span)
    }
    /// Adds a call with attributes.
    pub fn call_attrs(
        &mut self,
        callee: ExprId,
        args: &[ExprId],
        attrs: Attrs,
        span: Span,
    ) -> ExprId {
        let (args, attrs) = (self.make_list(args), self.make_attrs(attrs));
        self.add(
            Expr::Call {
                callee,
                args,
                attrs,
                type_args: 0,
            },
            span,
        )
    }
    /// Adds a tuple.
    pub fn tuple(&mut self, fields: &[ExprId], span: Span) -> ExprId {
        let fields = self.make_list(fields);
        self.add(Expr::Tuple(fields), span)
    }
    /// Adds a constant.
    pub fn constant(&mut self, value: Tensor, span: Span) -> ExprId {
        let id = self.consts.push(value);
        self.add(Expr::Const(id), span)
    }
    /// Creates a fresh variable; returns it with a reference to it.
    pub fn fresh_var(
        &mut self,
        name: impl Into<Symbol>,
        ty: Option<TypeId>,
        style: VarStyle,
    ) -> (VarId, ExprId) {
        let var = self.vars.push(Var {
            name: name.into(),
            ty,
            span: Span::NONE,
            style,
        });
        let expr = self.add(Expr::Var(var), Span::NONE);
        (var, expr)
    }
    /// Creates a fresh dimension variable.
    pub fn fresh_dim(&mut self, name: impl Into<Symbol>, span: Span) -> Dim {
        Dim::var(self.dims.push(DimInfo {
            name: name.into(),
            span,
        }))
    }

    /// Returns the global with this name.
    pub fn global(&self, name: &str) -> Option<GlobalId> {
        let name = Symbol::find(name)?;
        let found = self.globals.iter().find(|(_, g)| g.name == name);
        found.map(|(id, _)| id)
    }
    /// Returns whether this is a Relax module from TVMScript that has not been lowered.
    pub fn is_script(&self) -> bool {
        self.script.as_ref().is_some_and(|s| !s.lowered)
    }
    /// Returns the function of a global; `None` for tensor programs.
    pub fn global_func(&self, id: GlobalId) -> Option<FuncId> {
        if let GlobalKind::Func(f) = self.globals[id].kind {
            Some(f)
        } else {
            None
        }
    }
    /// Returns the `op` item with this id; `None` for built-in operators.
    pub fn user_op(&self, id: OpId) -> Option<&UserOp> {
        self.user_ops.get(id.user_index()?)
    }
}
