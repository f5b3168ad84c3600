//! Placement of graph bindings: the scope tree of a function, and the scope of each node.
//!
//! A node with several users belongs to the innermost scope that encloses all of them (TVM's rule).
//! Function bodies, branches, match clauses and the bodies of `let`s and dataflow blocks are
//! scopes.

use relax_base::Id;

use crate::{Expr, ExprId, IdTable, Module, VarId};

relax_base::define_id! {
    /// A scope of a [`Scopes`] tree; the root is `ScopeId(0)`.
    pub struct ScopeId("scope");
}

/// The construct that opened a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScopeKind {
    /// The root expression.
    Root,
    /// The body of a closure (the [`Expr::Func`] node).
    Body(ExprId),
    /// The `then` branch of an `if`.
    Then(ExprId),
    /// The `else` branch of an `if`.
    Else(ExprId),
    /// A clause of a `match`, by index.
    Clause(ExprId, u32),
    /// The scope of the variables bound by a `let` or a dataflow block: its body, and the value of
    /// a recursive `let`.
    Binding(ExprId),
}

#[derive(Clone, Debug)]
struct Scope {
    kind: ScopeKind,
    parent: ScopeId,
    depth: u32,
    /// A skip pointer to a farther ancestor, for finding ancestors in logarithmic time.
    jump: ScopeId,
}

/// The scope tree of an expression.
#[derive(Clone, Debug)]
pub struct Scopes {
    scopes: relax_base::Arena<ScopeId, Scope>,
    of: IdTable<ExprId, Option<ScopeId>>,
    binder: IdTable<VarId, Option<ScopeId>>,
    /// The nodes, users before operands.
    order: Vec<ExprId>,
}

impl Scopes {
    /// The root scope.
    pub const ROOT: ScopeId = ScopeId(0);

    /// Computes the scope tree of `root`.
    pub fn new(m: &Module, root: ExprId) -> Scopes {
        Scopes::of_order(m, root, m.post_order([root]))
    }

    /// Computes the scope tree of `root`, whose nodes are `order`, in post-order.
    pub(crate) fn of_order(m: &Module, root: ExprId, mut order: Vec<ExprId>) -> Scopes {
        order.reverse();
        let mut this = Scopes {
            scopes: relax_base::Arena::new(),
            of: IdTable::default(),
            binder: IdTable::default(),
            order: Vec::new(),
        };
        this.scopes.push(Scope {
            kind: ScopeKind::Root,
            parent: Self::ROOT,
            depth: 0,
            jump: Self::ROOT,
        });
        this.of.set(root, Some(Self::ROOT));
        for &id in &order {
            this.visit(m, id);
        }
        this.order = order;
        this
    }

    fn open(&mut self, kind: ScopeKind, parent: ScopeId) -> ScopeId {
        let up = &self.scopes[parent];
        let far = &self.scopes[up.jump];
        let even = up.depth - far.depth == far.depth - self.scopes[far.jump].depth;
        let (depth, jump) = (up.depth + 1, if even { far.jump } else { parent });
        self.scopes.push(Scope {
            kind,
            parent,
            depth,
            jump,
        })
    }

    fn used(&mut self, id: ExprId, scope: ScopeId) {
        let place = self.of.entry(id);
        match *place {
            None => *place = Some(scope),
            Some(old) if old == scope => {}
            Some(old) => {
                let common = self.common(old, scope);
                self.of.set(id, Some(common));
            }
        }
    }

    fn visit(&mut self, m: &Module, id: ExprId) {
        let here = self.of[id].expect("users come before what they use");
        match &m.exprs[id] {
            Expr::Func(f) => {
                let inner = self.open(ScopeKind::Body(id), here);
                for &p in &m.funcs[*f].params {
                    self.binder.set(p, Some(inner));
                }
                self.used(m.funcs[*f].body, inner);
            }
            Expr::Let { var, value, body } => {
                let inner = self.open(ScopeKind::Binding(id), here);
                self.binder.set(*var, Some(inner));
                // A closure may refer to the variable that it is bound to.
                let recursive = matches!(m.exprs[*value], Expr::Func(_));
                self.used(*value, if recursive { inner } else { here });
                self.used(*body, inner);
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                self.used(*cond, here);
                let inner = self.open(ScopeKind::Then(id), here);
                self.used(*then, inner);
                let inner = self.open(ScopeKind::Else(id), here);
                self.used(*otherwise, inner);
            }
            Expr::Match { value, clauses, .. } => {
                self.used(*value, here);
                for (i, clause) in clauses.iter().enumerate() {
                    let inner = self.open(ScopeKind::Clause(id, i as u32), here);
                    for v in m.pattern_vars(clause.pattern) {
                        self.binder.set(v, Some(inner));
                    }
                    self.used(clause.body, inner);
                }
            }
            Expr::Dataflow { block, body } => {
                let mut inner = here;
                for binding in &m.blocks[*block].bindings {
                    self.used(binding.value, inner);
                    inner = self.open(ScopeKind::Binding(id), inner);
                    self.binder.set(binding.var, Some(inner));
                }
                self.used(*body, inner);
            }
            _ => m.for_each_child(id, |c| self.used(c, here)),
        }
    }

    /// Returns the innermost common ancestor of two scopes.
    pub fn common(&self, mut a: ScopeId, mut b: ScopeId) -> ScopeId {
        if self.depth(a) < self.depth(b) {
            std::mem::swap(&mut a, &mut b);
        }
        a = self.ancestor(a, self.depth(b));
        while a != b {
            let (x, y) = (&self.scopes[a], &self.scopes[b]);
            (a, b) = if x.jump == y.jump {
                (x.parent, y.parent)
            } else {
                (x.jump, y.jump)
            };
        }
        a
    }

    fn ancestor(&self, mut scope: ScopeId, depth: u32) -> ScopeId {
        while self.depth(scope) > depth {
            let s = &self.scopes[scope];
            scope = if self.scopes[s.jump].depth < depth {
                s.parent
            } else {
                s.jump
            };
        }
        scope
    }

    /// Returns whether `inner` is `outer` or nested in it.
    pub fn holds(&self, outer: ScopeId, inner: ScopeId) -> bool {
        self.depth(inner) >= self.depth(outer) && self.ancestor(inner, self.depth(outer)) == outer
    }

    /// Returns the nesting depth of a scope.
    pub fn depth(&self, scope: ScopeId) -> u32 {
        self.scopes[scope].depth
    }
    /// Returns the kind of a scope.
    pub fn kind(&self, scope: ScopeId) -> ScopeKind {
        self.scopes[scope].kind
    }
    /// Returns the parent of a scope; the root is its own parent.
    pub fn parent(&self, scope: ScopeId) -> ScopeId {
        self.scopes[scope].parent
    }
    /// Returns the number of scopes.
    pub fn len(&self) -> usize {
        self.scopes.len()
    }
    /// Always returns `false`: there is always the root.
    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }
    /// Returns the scope that an expression is evaluated in; `None` if it is not under the root.
    pub fn of(&self, id: ExprId) -> Option<ScopeId> {
        self.of[id]
    }
    /// Returns the scope in which a variable is visible; `None` if it is not bound under the root.
    pub fn of_var(&self, var: VarId) -> Option<ScopeId> {
        self.binder[var]
    }
    /// Returns the nodes, users before operands.
    pub fn order(&self) -> &[ExprId] {
        &self.order
    }
    /// Iterates over all scopes, outer ones first.
    pub fn ids(&self) -> impl Iterator<Item = ScopeId> + use<> {
        (0..self.scopes.len()).map(ScopeId::from_index)
    }
}
