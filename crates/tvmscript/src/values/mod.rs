//! Constructs of Relay without a counterpart in Relax, as values of Relax: closures, data types
//! with `match`, references, type parameters, and branches that compute.
//!
//! A function becomes a global one that takes its captured values after its own parameters, and a
//! closure of it where it is used as a value. An instance of a data type is a tuple of its
//! constructor's number and an object that holds the fields. A reference is a list of one element.
//! A value of a type parameter is any object, cast to its type where that is known. A branch that
//! computes is a function of its own: TVM plans memory as if both branches ran.
//!
//! Invariant: nothing here recurses over the program's depth: nested constructs become functions on
//! a worklist.

mod call;
mod chain;
mod finish;
mod lift;
mod matching;
mod types;

use relax_base::{Diagnostic, Span, Symbol};
use relax_ir::{
    Expr, ExprId, FuncId, GlobalId, GlobalKind, Module, Type, TypeId, TypeSource, VarId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes;
use lift::{Known, Work};

/// A module in which everything is a value of Relax, with the types of new expressions.
#[derive(Debug)]
pub struct Values {
    /// The module. Each variable has a type.
    pub module: Module,
    exprs: FxHashMap<ExprId, TypeId>,
}

impl TypeSource for Values {
    fn var(&self, _: VarId) -> Option<TypeId> {
        None
    }
    fn expr(&self, id: ExprId) -> Option<TypeId> {
        self.exprs.get(&id).copied()
    }
    fn ret(&self, _: FuncId) -> Option<TypeId> {
        None
    }
}

/// Returns whether a module has constructs without a counterpart in Relax.
pub fn needs_values(m: &Module) -> bool {
    if m.script.is_some() {
        return false;
    }
    let own = m.globals.values().filter(|g| !g.prelude);
    let funcs = own.filter_map(|g| match g.kind {
        GlobalKind::Func(f) => Some(f),
        GlobalKind::Prim(_) => None,
    });
    let bodies: Vec<FuncId> = funcs.collect();
    let typed = |f: &FuncId| !m.funcs[*f].type_params.is_empty();
    bodies.iter().any(typed)
        || m.post_order(bodies.iter().map(|f| m.funcs[*f].body))
            .into_iter()
            .any(|e| match m.exprs[e] {
                Expr::If { .. }
                | Expr::Match { .. }
                | Expr::Ctor(_)
                | Expr::Func(_)
                | Expr::RefNew(_)
                | Expr::RefRead(_)
                | Expr::RefWrite(..) => true,
                Expr::Global(g) => m.globals[g].prelude,
                Expr::Tuple(list) => list.is_empty(),
                _ => false,
            })
}

/// Converts a typed module to values of Relax. The errors name the constructs that have no form.
pub fn values(m: &Module, types: &dyn TypeSource) -> Result<Values, Vec<Diagnostic>> {
    let mut module = m.clone();
    let any = module.types.intern(Type::Object);
    let mut lowering = Lowering {
        names: module.globals.values().map(|g| g.name).collect(),
        m: module,
        types,
        any,
        reps: FxHashMap::default(),
        exprs: FxHashMap::default(),
        known: FxHashMap::default(),
        made_types: FxHashMap::default(),
        rest: FxHashMap::default(),
        work: Vec::new(),
        effects: false,
        cells: None,
        place: Span::NONE,
        name: Symbol::new("main"),
        errors: Vec::new(),
    };
    lowering.module();
    if !lowering.errors.is_empty() {
        return Err(lowering.errors);
    }
    Ok(Values {
        module: lowering.m,
        exprs: lowering.exprs,
    })
}

struct Lowering<'t> {
    /// The module, to which the new functions are added.
    m: Module,
    types: &'t dyn TypeSource,
    any: TypeId,
    /// The representation of a type.
    reps: FxHashMap<TypeId, TypeId>,
    /// The types of new expressions.
    exprs: FxHashMap<ExprId, TypeId>,
    /// Variables that are bound to functions, which are global now.
    known: FxHashMap<VarId, Known>,
    /// The types in Relay of variables for parts of scrutinees.
    made_types: FxHashMap<VarId, TypeId>,
    /// The functions that continue with the next clause of a `match`.
    rest: FxHashMap<(VarId, usize), Known>,
    work: Vec<Work>,
    names: FxHashSet<Symbol>,
    /// Whether anything in the program has an effect: then calls of closures may have one.
    effects: bool,
    /// The functions that create, read and write a reference.
    cells: Option<[GlobalId; 3]>,
    /// The source location of the current construct.
    place: Span,
    /// The function being converted.
    name: Symbol,
    errors: Vec<Diagnostic>,
}

impl Lowering<'_> {
    fn module(&mut self) {
        let roots: Vec<GlobalId> = (self.m.globals.iter())
            .filter(|(_, g)| !g.prelude)
            .map(|(id, _)| id)
            .collect();
        let graph = self.m.call_graph();
        let (mut used, mut open) = (FxHashSet::default(), roots);
        while let Some(g) = open.pop() {
            if used.insert(g) {
                open.extend(graph.get(&g).into_iter().flatten());
            }
        }
        self.m.retain_globals(&used);
        self.effects = self.has_effects();
        let own: Vec<GlobalId> = self.m.globals.ids().collect();
        for &g in own.iter().rev() {
            if self.m.global_func(g).is_some() {
                self.global(g);
            }
        }
        while let Some(work) = self.work.pop() {
            self.place = Span::NONE;
            self.run(work);
        }
        self.m.adts = relax_base::Arena::default();
        self.finish();
    }

    /// Converts a function of the program.
    fn global(&mut self, g: GlobalId) {
        let Some(f) = self.m.global_func(g) else {
            return;
        };
        let item = &self.m.globals[g];
        let (name, span, prelude) = (item.name, item.span, item.prelude);
        let function = self.m.funcs[f].clone();
        let ret = function.ret.or_else(|| self.types.ret(f));
        if name == "main" {
            self.place = span;
            let params = function.params.iter().map(|&p| self.var_type(p));
            let all: Vec<TypeId> = ret.into_iter().chain(params).collect();
            for ty in all {
                if let Some(what) = self.opaque(ty) {
                    self.refuse(format!("`@main` takes or gives {what}, which"));
                }
            }
        }
        self.m.globals[g].prelude = false;
        self.work.push(Work::global(g, f, &function, ret, prelude));
    }

    /// Returns a description of a value that a caller outside the program could not destructure or
    /// create.
    fn opaque(&self, ty: TypeId) -> Option<&'static str> {
        let mut open = vec![ty];
        while let Some(ty) = open.pop() {
            match &self.m.types[ty] {
                Type::Func(_) => return Some("a function"),
                Type::Ref(_) => return Some("a reference"),
                Type::Adt(adt, _) if !self.m.adts[*adt].opaque => {
                    return Some("an instance of a data type");
                }
                Type::Tuple(fields) => open.extend(fields),
                _ => {}
            }
        }
        None
    }

    /// Returns whether anything has an effect, even if only inside of the program.
    fn has_effects(&self) -> bool {
        let m = &self.m;
        let bodies = m.global_bodies();
        let order = m.post_order(bodies.into_iter().map(|b| b.1));
        order.into_iter().any(|e| match m.exprs[e] {
            Expr::RefNew(_) | Expr::RefRead(_) | Expr::RefWrite(..) => true,
            Expr::Match { complete, .. } => !complete,
            Expr::Call { callee, attrs, .. } => match m.exprs[callee] {
                Expr::Extern(_) => !finish::vouched(m, attrs),
                Expr::Op(op) => finish::effectful(op),
                _ => false,
            },
            _ => false,
        })
    }

    /// Reports a construct that has no form.
    fn refuse(&mut self, what: impl std::fmt::Display) {
        let message = format!("{what} has no form in TVMScript");
        let d = Diagnostic::error(codes::NO_FORM, self.place, message);
        if self.errors.last() != Some(&d) {
            self.errors.push(d);
        }
    }

    /// Returns a name for a new function.
    fn fresh_name(&mut self, base: &str) -> Symbol {
        let clean = crate::print::python(base);
        let mut name = Symbol::new(&clean);
        let mut i = 1;
        while !self.names.insert(name) {
            i += 1;
            name = Symbol::from(format!("{clean}_{i}").as_str());
        }
        name
    }
}
