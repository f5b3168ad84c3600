//! The verifier: the invariants that hold for every module between passes.
//!
//! Invariant 1: ids belong to their arenas; user-defined operators (`op` items) exist.
//! Invariant 2: the expression graph is acyclic: recursion goes through names only.
//! Invariant 3: every variable has one binding site, and is used only where it is visible. A shared
//!   node is evaluated in the innermost scope that encloses all its users (see
//!   [`Scopes`](crate::Scopes)), so it uses only what is visible there. The body of a global has no
//!   free variables. The variable of a statement that is evaluated for its effect is not used.
//! Invariant 4: patterns give each constructor as many operands as it has fields.
//! Invariant 5: the bindings of a dataflow block are free of control flow, its outputs are among
//!   its variables, and the block's body uses only outputs.
//! Invariant 6: globals, data types and the constructors of a type have distinct names; the index
//!   of a constructor in its type's list is its tag.
//! Invariant 7: the components of a type have smaller ids.
//! Invariant 8: an expression file's expression is a global function.
//!
//! The placeholders for reported errors ([`Expr::Error`], [`Type::Error`](crate::Type::Error)) are
//! allowed: modules with errors are verified too. A violation is a bug in the preceding pass, not
//! an error in the user's program.

use std::fmt;

use relax_base::{Arena, Id, SideTable, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, IdTable, Module, PatId, Pattern,
    ScopeId, Scopes, TypeId, VarId, VarStyle,
};

/// A violated invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach {
    /// The number of the invariant in the module documentation.
    pub invariant: u32,
    /// A description of the violation.
    pub message: String,
    /// The offending node, if it is one.
    pub at: Option<ExprId>,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (invariant {})", self.message, self.invariant)
    }
}

type Check = Result<(), Breach>;

fn breach<T>(invariant: u32, message: impl Into<String>) -> Result<T, Breach> {
    Err(Breach {
        invariant,
        message: message.into(),
        at: None,
    })
}

fn breach_at(invariant: u32, message: impl Into<String>, at: ExprId) -> Check {
    breach(invariant, message).map_err(|b| Breach { at: Some(at), ..b })
}

fn within<I: Id + fmt::Debug, T>(arena: &Arena<I, T>, id: I) -> Check {
    match arena.get(id) {
        Some(_) => Ok(()),
        None => breach(1, format!("{id:?} belongs to no arena")),
    }
}

impl Module {
    /// Checks the invariants of everything reachable from the globals; returns the first violation.
    pub fn verify(&self) -> Result<(), Breach> {
        Verified::default().verify(self, |_, _| {}).map(drop)
    }

    /// Checks the invariants of one function; returns the first violation.
    pub fn verify_function(&self, func: FuncId) -> Result<(), Breach> {
        let mut verifier = Verifier {
            m: self,
            at: (GlobalId(0), 1),
            known: Verified::default(),
            marks: IdTable::default(),
        };
        verifier.global(func, Symbol::new(""), &mut |_, _| {})
    }
}

/// The verified parts of a module, which need not be verified again: nodes are immutable, and a
/// changed function is a new one.
#[derive(Clone, Default, Debug)]
pub struct Verified {
    /// The number of verified types in the arena.
    types: usize,
    /// The names of the globals, in order: if they change, references may have changed their
    /// meaning.
    names: Vec<Symbol>,
    /// The verified function of each global, and its serial number.
    functions: FxHashMap<GlobalId, (FuncId, u32)>,
    /// The number of functions verified so far.
    count: u32,
    /// The binding site of each variable. Binders in functions that have been replaced are stale.
    binders: SideTable<VarId, Option<Binder>>,
}

#[derive(Clone, Copy, Debug)]
struct Binder {
    global: GlobalId,
    number: u32,
    place: Place,
}

impl Verified {
    /// Like [`Module::verify`], but skips functions that were verified before. Returns the number
    /// of functions verified, and passes their scope trees, a by-product, to `scopes`. After a
    /// violation nothing counts as verified.
    pub fn verify(
        &mut self,
        m: &Module,
        mut scopes: impl FnMut(FuncId, Scopes),
    ) -> Result<usize, Breach> {
        let mut before = std::mem::take(self);
        let mut names = m.globals.values().map(|g| g.name);
        if before.types > m.types.len() || !before.names.iter().all(|n| names.next() == Some(*n)) {
            before = Verified::default();
        }
        let first = before.count;
        let mut verifier = Verifier {
            m,
            at: (GlobalId(0), 1),
            known: before,
            marks: IdTable::default(),
        };
        verifier.module(&mut scopes)?;
        *self = verifier.known;
        Ok((self.count - first) as usize)
    }
}

/// The construct that binds a variable.
#[derive(Clone, Copy, Debug)]
enum Place {
    Params(Symbol),
    Expr(ExprId),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Params(name) => write!(f, "a parameter of @{name}"),
            Place::Expr(e) => write!(f, "{e:?}"),
        }
    }
}

struct Verifier<'m> {
    m: &'m Module,
    /// The global whose function is being verified, and the function's serial number.
    at: (GlobalId, u32),
    known: Verified,
    /// Twice the serial number of the function in which an expression was last met, and one more
    /// once its operands were.
    marks: IdTable<ExprId, u32>,
}

impl Verifier<'_> {
    fn module(&mut self, scopes: &mut dyn FnMut(FuncId, Scopes)) -> Check {
        let m = self.m;
        for id in (self.known.types..m.types.len()).map(TypeId::from_index) {
            if m.types.children(id).iter().any(|c| *c >= id) {
                return breach(7, format!("{id:?} is made of a later type"));
            }
        }
        self.known.types = m.types.len();
        self.names()?;
        self.known.names = m.globals.values().map(|g| g.name).collect();
        // All changed functions are invalidated before any is verified: a variable may move from
        // one to another.
        let mut changed = Vec::new();
        for (id, global) in m.globals.iter() {
            let GlobalKind::Func(f) = global.kind else {
                self.known.functions.remove(&id);
                continue;
            };
            within(&m.funcs, f)?;
            if self
                .known
                .functions
                .get(&id)
                .is_none_or(|known| known.0 != f)
            {
                self.known.functions.remove(&id);
                changed.push((id, f, global.name));
            }
        }
        for (id, f, name) in changed {
            self.known.count += 1;
            self.at = (id, self.known.count);
            self.known.functions.insert(id, (f, self.known.count));
            self.global(f, name, scopes)?;
        }
        for (id, global) in m.globals.iter() {
            let Global {
                name,
                kind,
                span: _,
                prelude: _,
            } = global;
            if m.expression == Some(id) && matches!(kind, GlobalKind::Prim(_)) {
                return breach(8, format!("@{name} is no function"));
            }
        }
        match m.expression {
            Some(id) => within(&m.globals, id),
            None => Ok(()),
        }
    }

    fn names(&self) -> Check {
        let m = self.m;
        let mut seen: FxHashSet<Symbol> = FxHashSet::default();
        for global in m.globals.values() {
            if !seen.insert(global.name) {
                return breach(6, format!("@{} is defined twice", global.name));
            }
        }
        seen.clear();
        for (id, adt) in m.adts.iter() {
            if !seen.insert(adt.name) {
                return breach(6, format!("type {} is defined twice", adt.name));
            }
            for (tag, &ctor) in adt.ctors.iter().enumerate() {
                within(&m.ctors, ctor)?;
                let c = &m.ctors[ctor];
                if c.adt != id || c.tag as usize != tag {
                    let message = format!("constructor {} is not where its tag says", c.name);
                    return breach(6, message);
                }
            }
        }
        Ok(())
    }

    fn global(
        &mut self,
        func: FuncId,
        name: Symbol,
        give: &mut dyn FnMut(FuncId, Scopes),
    ) -> Check {
        let order = self.acyclic(func)?;
        let m = self.m;
        let Function {
            type_params: _,
            dims: _,
            params,
            ret: _,
            constraints: _,
            body,
            attrs: _,
            span: _,
        } = &m.funcs[func];
        for &param in params {
            within(&m.vars, param)?;
            self.bound(param, Place::Params(name))?;
        }
        let visible: FxHashSet<VarId> = params.iter().copied().collect();
        let scopes = Scopes::of_order(m, *body, order);
        for &id in scopes.order() {
            let mut fine = Ok(());
            m.for_each_bound(id, |var| {
                if fine.is_ok() {
                    fine = within(&m.vars, var).and_then(|()| self.bound(var, Place::Expr(id)));
                }
            });
            fine?;
            self.node(id, &visible, &scopes)?;
        }
        self.outputs(&scopes)?;
        give(func, scopes);
        Ok(())
    }

    fn bound(&mut self, var: VarId, place: Place) -> Check {
        let (global, number) = self.at;
        let binder = Binder {
            global,
            number,
            place,
        };
        if let Some(other) = self.known.binders.entry(var).replace(binder)
            && let Some(known) = self.known.functions.get(&other.global)
            && known.1 == other.number
        {
            let other = other.place;
            let name = self.m.vars[var].name;
            let message = format!("%{name} ({var:?}) is bound at {other} and at {place}");
            return breach(3, message);
        }
        Ok(())
    }

    /// Checks ids first, so that everything after may follow them; then cycles, by three-colour
    /// depth-first search. Returns the body's nodes in [post-order](Module::post_order).
    fn acyclic(&mut self, func: FuncId) -> Result<Vec<ExprId>, Breach> {
        let m = self.m;
        let (open, done) = (self.at.1 * 2, self.at.1 * 2 + 1);
        let mut order = Vec::with_capacity(64);
        let mut stack = Vec::with_capacity(64);
        stack.push((m.funcs[func].body, false));
        while let Some((id, expanded)) = stack.pop() {
            if expanded {
                self.marks.set(id, done);
                order.push(id);
                continue;
            }
            if self.marks[id] == done {
                continue;
            }
            self.ids(id)?;
            if m.is_leaf(id) {
                self.marks.set(id, done);
                order.push(id);
                continue;
            }
            let mark = self.marks.entry(id);
            if *mark == open {
                return breach(2, format!("{id:?} is a part of itself"));
            }
            *mark = open;
            stack.push((id, true));
            let (first, mut cycle) = (stack.len(), None);
            m.for_each_child(id, |c| match self.marks[c] {
                mark if mark == done => {}
                mark if mark == open => cycle = Some(c),
                _ => stack.push((c, false)),
            });
            stack[first..].reverse();
            if let Some(c) = cycle {
                return breach(2, format!("{c:?} is a part of itself"));
            }
        }
        Ok(order)
    }

    fn ids(&self, id: ExprId) -> Check {
        let m = self.m;
        within(&m.exprs, id)?;
        match &m.exprs[id] {
            Expr::Var(v) => within(&m.vars, *v),
            Expr::Global(g) => within(&m.globals, *g),
            Expr::Op(op) => match op.user_index() {
                Some(i) if i >= m.user_ops.len() => breach(1, format!("{op:?} does not exist")),
                _ => Ok(()),
            },
            Expr::Ctor(c) => within(&m.ctors, *c),
            Expr::Const(c) => within(&m.consts, *c),
            Expr::Func(f) => within(&m.funcs, *f),
            Expr::Let { var, .. } => within(&m.vars, *var),
            Expr::Dataflow { block, .. } => within(&m.blocks, *block),
            Expr::Match { clauses, .. } => {
                for clause in clauses {
                    within(&m.patterns, clause.pattern)?;
                    self.pattern(clause.pattern)?;
                }
                Ok(())
            }
            Expr::MatchCast { ty, .. } if ty.index() >= m.types.len() => {
                breach(1, format!("{ty:?} belongs to no arena"))
            }
            Expr::Extern(_)
            | Expr::Tuple(_)
            | Expr::Proj { .. }
            | Expr::Call { .. }
            | Expr::If { .. }
            | Expr::RefNew(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..)
            | Expr::Shape(_)
            | Expr::MatchShape { .. }
            | Expr::MatchCast { .. }
            | Expr::Error => Ok(()),
        }
    }

    fn pattern(&self, root: PatId) -> Check {
        let m = self.m;
        for id in m.sub_patterns(root) {
            if let Pattern::Ctor(c, args) = &m.patterns[id] {
                within(&m.ctors, *c)?;
                let ctor = &m.ctors[*c];
                if ctor.fields.len() != args.len() {
                    let message = format!(
                        "a pattern gives {} parts to {}, which has {} fields",
                        args.len(),
                        ctor.name,
                        ctor.fields.len()
                    );
                    return breach(4, message);
                }
            }
        }
        Ok(())
    }

    fn node(&self, id: ExprId, params: &FxHashSet<VarId>, scopes: &Scopes) -> Check {
        let m = self.m;
        match &m.exprs[id] {
            Expr::Var(v) => {
                let name = m.vars[*v].name;
                if m.vars[*v].style == VarStyle::Effect {
                    let message = format!("%{name} ({v:?}) names a statement, and is used");
                    return breach_at(3, message, id);
                }
                let Some(visible) = scopes.of_var(*v) else {
                    if params.contains(v) {
                        return Ok(());
                    }
                    return breach_at(3, format!("%{name} ({v:?}) is bound nowhere"), id);
                };
                let place = scopes.of(id).unwrap_or(Scopes::ROOT);
                if !scopes.holds(visible, place) {
                    let message = format!("%{name} ({v:?}) is used where it is not visible");
                    return breach_at(3, message, id);
                }
                Ok(())
            }
            Expr::Dataflow { block, body: _ } => {
                for binding in &m.blocks[*block].bindings {
                    if matches!(
                        m.exprs[binding.value],
                        Expr::If { .. } | Expr::Match { .. } | Expr::Dataflow { .. }
                    ) {
                        let name = m.vars[binding.var].name;
                        return breach(
                            6,
                            format!("%{name} binds control flow in a dataflow block"),
                        );
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks that only a dataflow block's outputs are used after it.
    fn outputs(&self, scopes: &Scopes) -> Check {
        let m = self.m;
        let (mut any, mut hidden) = (false, IdTable::<VarId, Option<ScopeId>>::default());
        for &id in scopes.order() {
            let Expr::Dataflow { block, body: _ } = m.exprs[id] else {
                continue;
            };
            let block = &m.blocks[block];
            let last = block.bindings.last().and_then(|b| scopes.of_var(b.var));
            let after = last.unwrap_or(Scopes::ROOT);
            let (mut outputs, mut bound) = (crate::IdSet::new(), crate::IdSet::new());
            for &output in &block.outputs {
                outputs.insert(output);
            }
            for binding in &block.bindings {
                bound.insert(binding.var);
                if !outputs.contains(binding.var) {
                    hidden.set(binding.var, Some(after));
                    any = true;
                }
            }
            for output in &block.outputs {
                if !bound.contains(*output) {
                    let name = m.vars[*output].name;
                    return breach(5, format!("the output %{name} is not bound in its block"));
                }
            }
        }
        if !any {
            return Ok(());
        }
        // A use after the block is a use by a node evaluated after it; the values bound in the
        // block are evaluated before the scope of the block's body begins.
        for &id in scopes.order() {
            let Some(place) = scopes.of(id) else { continue };
            let mut wrong = None;
            m.for_each_child(id, |c| {
                if let Expr::Var(v) = m.exprs[c]
                    && let Some(after) = hidden[v]
                    && scopes.holds(after, place)
                {
                    wrong = Some((v, c));
                }
            });
            if let Some((v, c)) = wrong {
                let name = m.vars[v].name;
                return breach_at(5, format!("%{name} is used after its dataflow block"), c);
            }
        }
        Ok(())
    }
}
