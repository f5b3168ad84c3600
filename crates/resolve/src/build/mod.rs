//! Name resolution from syntax tree to module: the shared state, and the order of work.

mod absent;
pub(crate) mod attr_type;
mod attrs;
mod call;
mod damage;
mod dims;
mod elements;
mod expr;
mod former;
mod function;
mod given;
mod grad_item;
mod graph;
mod items;
mod literal;
mod meta;
mod names;
mod ndarray;
mod opaque;
mod pattern;
mod prelude;
mod program;
mod program_buffers;
pub(crate) mod program_cx;
mod program_stages;
mod relation;
pub(crate) mod scalar;
mod scalar_op;
mod scope;
mod stmt;
mod types;
pub(crate) mod user_op;

use relax_base::{Diagnostic, Diagnostics, SourceFile, Span, Symbol};
use relax_ir::{
    AdtId, AttrsId, CtorId, ExprId, FuncId, GlobalId, Module, OpId, RelId, TypeId, VarId,
};
use relax_ops::{Registry, Release, registry};
use relax_sym::DimVar;
use relax_syntax::OldForm;
use relax_syntax::ast::{self, Ast};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use attr_type::element_type;
use expr::Task;
use function::FnFrame;
use meta::MetaTable;
use scope::Scopes;
use stmt::{Flow, Pending};

use crate::Options;

pub use attrs::fit as fit_attribute;
pub use given::{Given, GivenTypes};
pub use prelude::{PreludeNames, prelude_files, prelude_gradients, prelude_names};

/// Resolves a syntax tree parsed from `file`.
pub fn resolve(ast: &Ast, file: &SourceFile, options: &Options) -> (Module, Diagnostics) {
    resolve_noting(ast, file, options, &mut Vec::new())
}

/// Like [`resolve`], for a tree with supplied data.
pub fn resolve_given(
    ast: &Ast,
    file: &SourceFile,
    options: &Options,
    given: Given,
) -> (Module, GivenTypes, Diagnostics) {
    resolved(ast, file, options, given, &mut Vec::new())
}

/// Like [`resolve`]; obsolete forms that only the resolver can recognise are added to `old`.
pub fn resolve_noting(
    ast: &Ast,
    file: &SourceFile,
    options: &Options,
    old: &mut Vec<OldForm>,
) -> (Module, Diagnostics) {
    let (module, _, diagnostics) = resolved(ast, file, options, Given::default(), old);
    (module, diagnostics)
}

fn resolved(
    ast: &Ast,
    file: &SourceFile,
    options: &Options,
    given: Given,
    old: &mut Vec<OldForm>,
) -> (Module, GivenTypes, Diagnostics) {
    let mut r = Resolver::new(ast, file, options);
    r.along = given::Along::new(given);
    r.file_items();
    r.prelude_items();
    r.missing_constants();
    r.unknown_calls();
    old.append(&mut r.old);
    r.module.shrink();
    if r.diags.len() > 1 {
        r.diags.sort();
    }
    (r.module, r.along.types, r.diags)
}

/// The number of errors after which no more suggestions are searched: nobody reads that many at
/// once, and each search takes time proportional to the module.
const MANY_ERRORS: usize = 128;

/// Returns the TVM release that a text's header implies, as far as releases can be told apart.
fn header_release(ast: &Ast) -> Option<Release> {
    match ast.version?.0.as_str() {
        "0.0.1" | "0.0.2" | "0.0.3" => Some(Release(5)),
        "0.0.4" => Some(Release(6)),
        _ => None,
    }
}

/// What happens to an unknown dimension variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DimMode {
    /// It is bound: in a signature, `match_shape`, `match_cast`.
    Bind,
    /// It is an error.
    Reject,
}

struct Resolver<'a> {
    ast: &'a Ast,
    file: &'a SourceFile,
    options: &'a Options,
    registry: &'static Registry,
    module: Module,
    diags: Diagnostics,
    scopes: Scopes,
    /// Whether nodes get spans: false for the prelude, which is in no source map.
    places: bool,

    globals: FxHashMap<Symbol, GlobalId>,
    ctors: FxHashMap<Symbol, CtorId>,
    adts: FxHashMap<Symbol, AdtId>,
    relations: FxHashMap<Symbol, RelId>,
    user_ops: FxHashMap<Symbol, OpId>,
    /// In an `op` item: its element types.
    elements: elements::Elements,
    /// In a `grad` item: the attributes that it refers to.
    grad: Option<Vec<grad_item::Referred>>,
    op_names: FxHashMap<Symbol, Option<OpId>>,
    /// Cached lookups of bare names.
    callees: FxHashMap<Symbol, relax_ir::Expr>,
    /// `call_packed` and `Constant`, the built-in call forms.
    forms: call::Forms,
    dtypes: FxHashMap<Symbol, Option<DType>>,
    prelude_queue: Vec<prelude::Wanted>,
    /// The number of fields of each constructor, known before the fields are resolved.
    ctor_fields: Vec<u32>,
    /// The number of parameters of each data type, likewise.
    adt_params: Vec<u32>,

    /// Graph bindings. TVM's printer numbers them across the whole module and refers to them from
    /// branches other than the one that binds them, so they are unscoped.
    graph: scope::GraphBindings,
    /// Uses of graph variables in scopes where something visible at their binding is not.
    astray: Vec<graph::Astray>,
    /// The index of the current item, and of its function.
    item: u32,
    item_func: Option<FuncId>,
    /// Variables bound to a `shape(…)`, and the shape.
    shapes: FxHashMap<VarId, ExprId>,
    /// Free variables of an expression file; `None` inside a definition.
    free: Option<Vec<VarId>>,
    free_names: FxHashMap<Symbol, VarId>,
    /// Names already reported in this item, so that each error is reported once.
    reported: FxHashSet<(char, Symbol)>,
    /// The number of errors so far, including suppressed duplicates.
    mistakes: usize,
    /// The number of variables before this item.
    item_vars: usize,
    dim_mode: DimMode,
    new_dims: Vec<DimVar>,

    tasks: Vec<Task>,
    values: Vec<ExprId>,
    /// Patterns of the clauses of unfinished matches.
    clause_patterns: Vec<relax_ir::PatId>,
    pending: Vec<Pending>,
    flows: Vec<Flow>,
    fns: Vec<FnFrame>,
    last_fn: Option<FuncId>,

    /// Accesses in the current tensor program.
    accesses: Vec<relax_loops::Access>,
    default_attrs: FxHashMap<OpId, AttrsId>,
    /// The most recent explicit attributes for each operator, for sharing.
    last_attrs: FxHashMap<OpId, AttrsId>,
    schemas: FxHashMap<OpId, std::rc::Rc<attrs::Schema>>,
    meta: Option<MetaTable<'a>>,
    meta_failed: bool,
    along: given::Along,
    /// Placeholder constants, by index.
    stubs: FxHashMap<u32, relax_ir::ConstId>,
    /// The span of the first placeholder.
    stub_place: Option<Span>,
    /// Spans of constants whose metadata section is missing.
    missing: Vec<Span>,
    /// Arguments of opaque calls that are globals of other modules.
    kernels: FxHashSet<ast::ExprId>,
    /// Spans of unknown operators.
    unknown_ops: Vec<Span>,
    /// Obsolete forms.
    old: Vec<OldForm>,
    /// Whether a variable was bound whose name ends with a dot and a number: an apparent projection
    /// may refer to such a variable.
    dotted: bool,
    /// The TVM release that wrote the text, if anything tells.
    release: Option<Release>,
}

impl<'a> Resolver<'a> {
    fn new(ast: &'a Ast, file: &'a SourceFile, options: &'a Options) -> Self {
        let mut module = Module::new();
        // There is about one node per expression and binding: growing by doubling would hold two
        // copies.
        module.exprs = relax_base::Arena::with_capacity(ast.exprs.len() + ast.stmts.len());
        Resolver {
            ast,
            file,
            options,
            registry: registry(),
            module,
            diags: Diagnostics::new(),
            scopes: Scopes::default(),
            places: true,
            globals: FxHashMap::default(),
            ctors: FxHashMap::default(),
            adts: FxHashMap::default(),
            relations: FxHashMap::default(),
            user_ops: FxHashMap::default(),
            elements: elements::Elements::default(),
            grad: None,
            op_names: FxHashMap::default(),
            callees: FxHashMap::default(),
            forms: call::Forms::default(),
            dtypes: FxHashMap::default(),
            prelude_queue: Vec::new(),
            ctor_fields: Vec::new(),
            adt_params: Vec::new(),
            graph: scope::GraphBindings::default(),
            astray: Vec::new(),
            item: 0,
            item_func: None,
            shapes: FxHashMap::default(),
            free: None,
            free_names: FxHashMap::default(),
            reported: FxHashSet::default(),
            mistakes: 0,
            item_vars: 0,
            dim_mode: DimMode::Reject,
            new_dims: Vec::new(),
            tasks: Vec::new(),
            values: Vec::new(),
            clause_patterns: Vec::new(),
            pending: Vec::new(),
            flows: Vec::new(),
            fns: Vec::new(),
            last_fn: None,
            accesses: Vec::new(),
            default_attrs: FxHashMap::default(),
            last_attrs: FxHashMap::default(),
            schemas: FxHashMap::default(),
            meta: None,
            meta_failed: false,
            along: given::Along::default(),
            stubs: FxHashMap::default(),
            stub_place: None,
            missing: Vec::new(),
            kernels: FxHashSet::default(),
            unknown_ops: Vec::new(),
            old: Vec::new(),
            dotted: false,
            release: options.release.or_else(|| header_release(ast)),
        }
    }

    /// Returns the span to record for a span of the tree.
    fn at(&self, span: Span) -> Span {
        if self.places { span } else { Span::NONE }
    }

    fn error(&mut self, d: Diagnostic) {
        self.mistakes += usize::from(d.is_error());
        self.diags.push(d);
    }

    /// Returns whether this name has not been reported as unknown in this item; `sort` is its
    /// namespace.
    fn first_report(&mut self, sort: char, name: Symbol) -> bool {
        let first = self.reported.insert((sort, name));
        self.mistakes += usize::from(!first);
        first
    }

    fn error_expr(&mut self, span: Span) -> ExprId {
        let span = self.at(span);
        self.module.add(relax_ir::Expr::Error, span)
    }

    /// Returns a call of an unknown callee: its operands are kept, and nothing is reported about
    /// what depends on it.
    fn broken(&mut self, callee: Span, parts: &[ExprId]) -> relax_ir::Expr {
        let callee = self.error_expr(callee);
        relax_ir::Expr::Call {
            callee,
            args: self.module.make_list(parts),
            attrs: AttrsId::NONE,
            type_args: 0,
        }
    }

    fn error_type(&mut self) -> TypeId {
        self.module.types.error()
    }

    /// Returns the built-in operator of this name, cached.
    fn builtin_op(&mut self, name: Symbol) -> Option<OpId> {
        let registry = self.registry;
        *self
            .op_names
            .entry(name)
            .or_insert_with(|| registry.find(name.as_str()))
    }

    /// Returns the element type of this name, cached.
    fn dtype(&mut self, name: Symbol) -> Option<DType> {
        *self
            .dtypes
            .entry(name)
            .or_insert_with(|| element_type(name.as_str()))
    }

    /// Returns the text of an expression that is a plain name.
    fn plain_name(&self, e: ast::ExprId) -> Option<Symbol> {
        match self.ast.exprs[e].kind {
            ast::ExprKind::Name(name) => Some(name),
            _ => None,
        }
    }
}
