//! Which functions a call may call, followed through names, tuples and branches.
//!
//! A function that has another name is the same function: what has effects under one has them under
//! the other, and a pass that removes names changes no function's effects. What is a parameter, in a
//! cell or the result of a call is not followed: types say that it has none.

use relax_base::Id;
use relax_ir::{Expr, ExprId, FuncId, GlobalKind, Module, VarId};
use rustc_hash::FxHashMap;

use super::has_effect;

/// The nesting of tuples beyond which their fields are not followed.
const DEEPEST: usize = 8;

/// A value that may be called: an expression, or a field of it (the outermost last).
type Place = (ExprId, Vec<u32>);

/// The functions of a module and what calls may call: nodes of a graph, from callees to callers.
pub(super) struct Callees<'m> {
    m: &'m Module,
    /// What variables are bound to.
    bound: FxHashMap<VarId, ExprId>,
    /// The nodes of places, after those of functions.
    nodes: FxHashMap<Place, usize>,
    /// Places whose values were not followed yet.
    open: Vec<Place>,
    callers: Vec<Vec<usize>>,
    impure: Vec<bool>,
}

impl<'m> Callees<'m> {
    pub fn new(m: &'m Module) -> Callees<'m> {
        let n = m.funcs.len();
        Callees {
            m,
            bound: FxHashMap::default(),
            nodes: FxHashMap::default(),
            open: Vec::new(),
            callers: vec![Vec::new(); n],
            impure: vec![false; n],
        }
    }

    /// Adds the variables that an expression itself binds, but to what is not followed: most are
    /// bound to results of calls.
    pub fn bind(&mut self, e: ExprId) {
        let m = self.m;
        let mut bind = |var: VarId, value: ExprId| {
            if !matches!(m.exprs[value], Expr::Call { .. }) {
                self.bound.insert(var, value);
            }
        };
        match m.exprs[e] {
            Expr::Let { var, value, .. } => bind(var, value),
            Expr::Dataflow { block, .. } => {
                let bindings = m.blocks[block].bindings.iter();
                bindings.for_each(|b| bind(b.var, b.value));
            }
            _ => {}
        }
    }

    /// Adds a call in a function.
    pub fn call(&mut self, by: FuncId, callee: ExprId) {
        self.flows((callee, Vec::new()), by.index());
    }

    /// Adds an effect in a function.
    pub fn impure(&mut self, f: FuncId) {
        self.impure[f.index()] = true;
    }

    /// Returns which functions have no effects, once all that is bound and called has been added.
    pub fn solve(&mut self) -> Vec<bool> {
        while let Some(place) = self.open.pop() {
            self.follow(place);
        }
        let mut found: Vec<usize> = (0..self.impure.len()).filter(|&n| self.impure[n]).collect();
        while let Some(node) = found.pop() {
            for &caller in &self.callers[node] {
                if !std::mem::replace(&mut self.impure[caller], true) {
                    found.push(caller);
                }
            }
        }
        self.impure[..self.m.funcs.len()]
            .iter()
            .map(|i| !i)
            .collect()
    }

    /// Returns whether calling what an expression gives, which some function calls, has effects.
    pub fn may_have_effects(&self, callee: ExprId) -> bool {
        let node = self.nodes.get(&(callee, Vec::new()));
        node.is_some_and(|&n| self.impure[n])
    }

    /// Adds that the value of a place may be that of a node.
    fn flows(&mut self, from: Place, to: usize) {
        let next = self.callers.len();
        let node = *self.nodes.entry(from.clone()).or_insert(next);
        if node == next {
            self.callers.push(Vec::new());
            self.impure.push(false);
            self.open.push(from);
        }
        self.callers[node].push(to);
    }

    /// Adds where the value of a place comes from.
    fn follow(&mut self, place: Place) {
        let (m, node) = (self.m, self.nodes[&place]);
        let (e, mut fields) = place;
        match &m.exprs[e] {
            Expr::Func(f) if fields.is_empty() => self.callers[f.index()].push(node),
            Expr::Global(g) if fields.is_empty() => {
                if let GlobalKind::Func(f) = m.globals[*g].kind {
                    self.callers[f.index()].push(node);
                }
            }
            Expr::Op(op) => self.impure[node] |= has_effect(*op),
            Expr::Extern(_) => self.impure[node] = true,
            Expr::Var(v) => {
                if let Some(&value) = self.bound.get(v) {
                    self.flows((value, fields), node);
                }
            }
            Expr::Let { body, .. } | Expr::Dataflow { body, .. } => {
                self.flows((*body, fields), node);
            }
            Expr::MatchCast { value, .. } => self.flows((*value, fields), node),
            Expr::If {
                then, otherwise, ..
            } => {
                self.flows((*then, fields.clone()), node);
                self.flows((*otherwise, fields), node);
            }
            Expr::Match { clauses, .. } => {
                for c in clauses {
                    self.flows((c.body, fields.clone()), node);
                }
            }
            Expr::Proj { tuple, index } if fields.len() < DEEPEST => {
                fields.push(*index);
                self.flows((*tuple, fields), node);
            }
            Expr::Tuple(list) => {
                let field = fields.pop().and_then(|i| m.list(*list).get(i as usize));
                if let Some(&field) = field {
                    self.flows((field, fields), node);
                }
            }
            _ => {}
        }
    }
}
