//! Syntax tree to module: the state that all parts share, and the order of work.

mod absent;
mod attr_type;
mod attrs;
mod call;
mod damage;
mod dims;
mod expr;
mod former;
mod function;
mod given;
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

use expr::Task;
use function::FnFrame;
use meta::MetaTable;
use scope::Scopes;
use stmt::{Flow, Pending};

use crate::Options;

pub use attrs::fit as fit_attribute;
pub use given::{Given, GivenTypes};
pub use prelude::{PreludeNames, prelude_files, prelude_names};

/// Resolves a tree that was parsed from `file`.
pub fn resolve(ast: &Ast, file: &SourceFile, options: &Options) -> (Module, Diagnostics) {
    resolve_noting(ast, file, options, &mut Vec::new())
}

/// The same for a tree with what came along with it.
pub fn resolve_given(
    ast: &Ast,
    file: &SourceFile,
    options: &Options,
    given: Given,
) -> (Module, GivenTypes, Diagnostics) {
    resolved(ast, file, options, given, &mut Vec::new())
}

/// The same for a text; forms of earlier versions that it takes to know operators to see are added to
/// `old`.
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

/// The errors of a file after which an error no longer costs a search through the module: nobody reads
/// that many at once, and each would take time in proportion to the module.
const MANY_ERRORS: usize = 128;

/// The release whose texts have that header, as far as it is told apart from others.
fn header_release(ast: &Ast) -> Option<Release> {
    match ast.version?.0.as_str() {
        "0.0.1" | "0.0.2" | "0.0.3" => Some(Release(5)),
        "0.0.4" => Some(Release(6)),
        _ => None,
    }
}

/// Where a dimension variable that is not known may be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DimMode {
    /// Here: a signature, `match_shape`, `match_cast`.
    Bind,
    /// Not here.
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
    /// Whether nodes get places: false for the prelude, which is in no source map.
    places: bool,

    globals: FxHashMap<Symbol, GlobalId>,
    ctors: FxHashMap<Symbol, CtorId>,
    adts: FxHashMap<Symbol, AdtId>,
    relations: FxHashMap<Symbol, RelId>,
    user_ops: FxHashMap<Symbol, OpId>,
    op_names: FxHashMap<Symbol, Option<OpId>>,
    /// What the bare names that were looked up stand for.
    callees: FxHashMap<Symbol, relax_ir::Expr>,
    /// `call_packed` and `Constant`, the language's own call forms.
    forms: call::Forms,
    dtypes: FxHashMap<Symbol, Option<DType>>,
    prelude_queue: Vec<prelude::Wanted>,
    /// Number of fields of each constructor, known before the fields are resolved.
    ctor_fields: Vec<u32>,
    /// Number of parameters of each data type, likewise.
    adt_params: Vec<u32>,

    /// Graph bindings. TVM's printer numbers them through the whole module and refers to them from
    /// other branches than the one that binds them, so they have no scope.
    graph: scope::GraphBindings,
    /// Uses of them where not all is visible that was where they are bound.
    astray: Vec<graph::Astray>,
    /// The number of this item, and the function that it made.
    item: u32,
    item_func: Option<FuncId>,
    /// The variables bound to a `shape(…)`, and that.
    shapes: FxHashMap<VarId, ExprId>,
    /// Free variables of an expression file; `None` inside a definition.
    free: Option<Vec<VarId>>,
    free_names: FxHashMap<Symbol, VarId>,
    /// Names already reported in this item: one mistake, one error.
    reported: FxHashSet<(char, Symbol)>,
    /// How many mistakes were met so far, those included that were reported before.
    mistakes: usize,
    /// How many variables there were before this item.
    item_vars: usize,
    dim_mode: DimMode,
    new_dims: Vec<DimVar>,

    tasks: Vec<Task>,
    values: Vec<ExprId>,
    /// Patterns of the clauses whose match is not finished.
    clause_patterns: Vec<relax_ir::PatId>,
    pending: Vec<Pending>,
    flows: Vec<Flow>,
    fns: Vec<FnFrame>,
    last_fn: Option<FuncId>,

    /// Accesses of the tensor program that is being read.
    accesses: Vec<relax_loops::Access>,
    default_attrs: FxHashMap<OpId, AttrsId>,
    /// The attributes made last for calls of each operator that give some.
    last_attrs: FxHashMap<OpId, AttrsId>,
    schemas: FxHashMap<OpId, std::rc::Rc<attrs::Schema>>,
    meta: Option<MetaTable<'a>>,
    meta_failed: bool,
    along: given::Along,
    /// Placeholders, by the index of the constant.
    stubs: FxHashMap<u32, relax_ir::ConstId>,
    /// Where the first of them stands.
    stub_place: Option<Span>,
    /// Where constants stand whose metadata section is missing.
    missing: Vec<Span>,
    /// Globals of other modules, which opaque calls name.
    kernels: FxHashSet<Symbol>,
    /// Where operators stand that nobody knows.
    unknown_ops: Vec<Span>,
    /// Forms of earlier versions.
    old: Vec<OldForm>,
    /// Whether a variable was bound whose name ends with a dot and a number: what looks like a
    /// projection may be such a variable.
    dotted: bool,
    /// The release of TVM that wrote the text, where anything tells.
    release: Option<Release>,
}

impl<'a> Resolver<'a> {
    fn new(ast: &'a Ast, file: &'a SourceFile, options: &'a Options) -> Self {
        let mut module = Module::new();
        // About one node per expression and binding: growing by doubling would hold two copies.
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

    /// The place to record for a span of the tree.
    fn at(&self, span: Span) -> Span {
        if self.places { span } else { Span::NONE }
    }

    fn error(&mut self, d: Diagnostic) {
        self.mistakes += usize::from(d.is_error());
        self.diags.push(d);
    }

    /// Whether this name has not been reported as unknown in this item; `sort` tells apart names
    /// of different sorts.
    fn first_report(&mut self, sort: char, name: Symbol) -> bool {
        let first = self.reported.insert((sort, name));
        self.mistakes += usize::from(!first);
        first
    }

    fn error_expr(&mut self, span: Span) -> ExprId {
        let span = self.at(span);
        self.module.add(relax_ir::Expr::Error, span)
    }

    /// A call of what is not known: its parts are looked at all the same, and nothing is said about
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

    /// The built-in operator of that name, remembered per name.
    fn builtin_op(&mut self, name: Symbol) -> Option<OpId> {
        let registry = self.registry;
        *self
            .op_names
            .entry(name)
            .or_insert_with(|| registry.find(name.as_str()))
    }

    /// The element type of that name, remembered per name.
    fn dtype(&mut self, name: Symbol) -> Option<DType> {
        *self.dtypes.entry(name).or_insert_with(|| {
            let text = name.as_str();
            text.parse()
                .ok()
                .filter(|_| !text.is_empty() && text != "void")
        })
    }

    /// The text of a tree's expression that is a plain name.
    fn plain_name(&self, e: ast::ExprId) -> Option<Symbol> {
        match self.ast.exprs[e].kind {
            ast::ExprKind::Name(name) => Some(name),
            _ => None,
        }
    }
}
