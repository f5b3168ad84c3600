//! The module: owner of all arenas.

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
    /// An operator: built in (numbered by the registry from 0) or of the module (`op` items,
    /// numbered from [`OpId::FIRST_USER`]).
    pub struct OpId("op");
}

impl OpId {
    /// The id of the first `op` item of a module.
    pub const FIRST_USER: OpId = OpId(1 << 16);
    /// The index among the module's `op` items, for one of those.
    pub fn user_index(self) -> Option<usize> {
        self.0.checked_sub(Self::FIRST_USER.0).map(|i| i as usize)
    }
}

/// What a global name stands for.
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
    /// Its name, without sigil.
    pub name: Symbol,
    /// What it stands for.
    pub kind: GlobalKind,
    /// Where the name is defined.
    pub span: Span,
    /// Whether it came from the prelude: not printed, dropped when unused.
    pub prelude: bool,
}

/// A data type.
#[derive(Clone, PartialEq, Debug)]
pub struct Adt {
    /// Its name.
    pub name: Symbol,
    /// Its type parameters.
    pub params: Vec<TypeParamId>,
    /// Its constructors; their position is their tag.
    pub ctors: Vec<CtorId>,
    /// Whether it is an `extern type`.
    pub opaque: bool,
    /// Where it stands.
    pub span: Span,
    /// Whether it came from the prelude.
    pub prelude: bool,
}

/// A constructor.
#[derive(Clone, PartialEq, Debug)]
pub struct Ctor {
    /// Its name.
    pub name: Symbol,
    /// Its type.
    pub adt: AdtId,
    /// Types of its fields, over the type's parameters.
    pub fields: Vec<TypeId>,
    /// Position among the constructors of its type.
    pub tag: u32,
    /// Where it stands.
    pub span: Span,
}

/// A dimension variable.
#[derive(Clone, PartialEq, Debug)]
pub struct DimInfo {
    /// Its name.
    pub name: Symbol,
    /// Where it is bound.
    pub span: Span,
}

/// An operator defined by an `op` item.
#[derive(Clone, PartialEq, Debug)]
pub struct UserOp {
    /// Its name.
    pub name: Symbol,
    /// Its signature and default attributes, as a function whose body is only a stand-in for
    /// the computation.
    pub type_params: Vec<TypeParamId>,
    /// Dimension variables of the signature.
    pub dims: Vec<DimVar>,
    /// Tensor parameters: name and type.
    pub params: Vec<(Symbol, TypeId)>,
    /// Result type; `None` when `relations` determine it.
    pub ret: Option<TypeId>,
    /// Relations over the arguments and the result (`where R`).
    pub constraints: Vec<crate::Constraint>,
    /// Attributes with their type names and defaults (`None`: required).
    pub attrs: Vec<(Symbol, Symbol, Option<AttrValue>)>,
    /// The computation: a tensor program with inputs in order of `params`, then the output.
    /// Attributes stand in it as scalar variables named like them (see `attr_vars`).
    pub program: Option<Arc<Program>>,
    /// The scalar variable of `program` behind each attribute.
    pub attr_vars: Vec<relax_loops::Var>,
    /// Where it stands.
    pub span: Span,
    /// Whether it came from the prelude.
    pub prelude: bool,
}

/// The metadata section of a text, as far as it is not constants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Values under `meta[key][index]` that are no constants, as JSON text of the whole section.
    pub raw: Option<Arc<str>>,
    /// Constants that stand in for those of a missing section, by their index in its list of
    /// constants; in ascending order of ids. Their values mean nothing: they are not computed with
    /// before the program runs, and are printed as references.
    pub stubs: Vec<(u32, ConstId)>,
}

impl Metadata {
    /// The index of the constant that this one stands in for, if it does.
    pub fn stub(&self, id: ConstId) -> Option<u32> {
        if self.stubs.is_empty() {
            return None;
        }
        let at = self.stubs.binary_search_by_key(&id, |s| s.1).ok()?;
        Some(self.stubs[at].0)
    }

    /// An index above those of all constants that are not there.
    pub fn stubs_end(&self) -> u32 {
        self.stubs.iter().map(|s| s.0 + 1).max().unwrap_or(0)
    }
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Whether the text had a version header.
    pub version: Option<Symbol>,
    /// All expressions.
    pub exprs: Arena<ExprId, Expr>,
    /// Where expressions stand.
    pub spans: SideTable<ExprId, Span>,
    /// Where the attributes of calls stand that the text gives: by call, in ascending order, and
    /// name.
    pub attr_spans: Vec<(ExprId, Symbol, Span)>,
    /// All local variables.
    pub vars: Arena<VarId, Var>,
    /// `virtual_device` and the like on parameters.
    pub var_attrs: FxHashMap<VarId, Attrs>,
    /// All patterns.
    pub patterns: Arena<PatId, Pattern>,
    /// Where patterns stand.
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
    /// Constants written as plain numbers: where the literal had no suffix, its element type may
    /// still follow the context.
    pub literals: FxHashMap<ConstId, bool>,
    /// What constants were called that were bound to parameters.
    pub const_names: FxHashMap<ConstId, Symbol>,
    /// Global definitions, in order of the text.
    pub globals: Arena<GlobalId, Global>,
    /// Data types.
    pub adts: Arena<AdtId, Adt>,
    /// Constructors.
    pub ctors: Arena<CtorId, Ctor>,
    /// `rel` items.
    pub relations: Arena<RelId, RelationDef>,
    /// `op` items; the one at index `i` is `OpId(OpId::FIRST_USER.0 + i)`.
    pub user_ops: Vec<UserOp>,
    /// The global that an expression file's expression became; its parameters are the free
    /// variables.
    pub expression: Option<GlobalId>,
    /// Whether the expression is a function literal, and that global the function itself.
    pub literal: bool,
    /// The type of a type file.
    pub type_item: Option<TypeId>,
    /// How many types of the text inference has to find: `TypeInfer(0)` up to here (exclusive)
    /// stand for a `_` each.
    pub type_holes: u32,
    /// What the metadata section held beside constants.
    pub metadata: Metadata,
    /// References into the metadata section that stand for a `?`, `meta[tir.Mul][0]`: the dimension
    /// with mark `i` ([`Dim::mark`]) is spelled as entry `i - 1`.
    pub meta_dims: Vec<(Symbol, u32)>,
    /// What stands for text with mistakes.
    pub damage: Damage,
    /// What a text in TVMScript said beside all this.
    pub script: Option<Arc<crate::Script>>,
    pub(crate) attrs: Arena<AttrsId, Attrs>,
    pub(crate) lists: Lists,
    pub(crate) type_args: Arena<TypeArgsId, Box<[TypeId]>>,
    /// The functions that a share of a module is about; `None` for a module of its own.
    pub(crate) share: Option<Arc<[GlobalId]>>,
}

relax_base::define_id! {
    /// Explicit type arguments of a call; `TypeArgsId(0)` is the empty list.
    pub(crate) struct TypeArgsId("ta");
}

impl Module {
    /// An empty module.
    pub fn new() -> Module {
        Module {
            attrs: vec![Attrs::new()].into(),
            type_args: vec![Box::default()].into(),
            ..Module::default()
        }
    }

    /// Gives back the room that is reserved for more nodes.
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
    /// The same list over other expressions: the list itself where `f` changes none.
    pub(crate) fn map_list(
        &mut self,
        list: ExprList,
        f: &mut impl FnMut(ExprId) -> ExprId,
    ) -> ExprList {
        self.lists.map(list, f)
    }
    /// The expressions of a list.
    pub fn list(&self, list: ExprList) -> &[ExprId] {
        self.lists.get(list)
    }
    /// Returns where the text gives the attribute `name` of a call.
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
    /// The attributes behind an id.
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
    /// The type arguments behind a call's index.
    pub fn type_args(&self, index: u32) -> &[TypeId] {
        &self.type_args[TypeArgsId(index)]
    }

    /// A call without attributes.
    pub fn call(&mut self, callee: ExprId, args: &[ExprId], span: Span) -> ExprId {
        self.call_attrs(callee, args, Attrs::new(), span)
    }
    /// A call with attributes.
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
    /// A tuple.
    pub fn tuple(&mut self, fields: &[ExprId], span: Span) -> ExprId {
        let fields = self.make_list(fields);
        self.add(Expr::Tuple(fields), span)
    }
    /// A constant.
    pub fn constant(&mut self, value: Tensor, span: Span) -> ExprId {
        let id = self.consts.push(value);
        self.add(Expr::Const(id), span)
    }
    /// A fresh variable and a reference to it.
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
    /// A fresh dimension variable.
    pub fn fresh_dim(&mut self, name: impl Into<Symbol>, span: Span) -> Dim {
        Dim::var(self.dims.push(DimInfo {
            name: name.into(),
            span,
        }))
    }

    /// The global of that name.
    pub fn global(&self, name: &str) -> Option<GlobalId> {
        self.globals
            .iter()
            .find(|(_, g)| g.name == name)
            .map(|(id, _)| id)
    }
    /// Returns whether this is Relax in TVMScript, and still as it was written.
    pub fn is_script(&self) -> bool {
        self.script.as_ref().is_some_and(|s| !s.lowered)
    }
    /// The function behind a global; `None` for tensor programs.
    pub fn global_func(&self, id: GlobalId) -> Option<FuncId> {
        if let GlobalKind::Func(f) = self.globals[id].kind {
            Some(f)
        } else {
            None
        }
    }
    /// The `op` item behind an id; `None` for built-in operators.
    pub fn user_op(&self, id: OpId) -> Option<&UserOp> {
        self.user_ops.get(id.user_index()?)
    }
}
