//! Live ranges of tensors: which results of tensor programs can be placed, and the last binding of
//! their scope that uses them.

use relax_infer::Typing;
use relax_ir::{DTy, Expr, ExprId, FuncId, IdSet, Module, OpId, Shape, Type, TypeId, VarId};
use relax_sym::{Dim, DimVar};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::element;
use crate::scope::dims_in_scope;
use crate::util::is_primitive;

/// A tensor of a result.
#[derive(Clone, Debug)]
pub(super) struct Out {
    pub dims: Box<[Dim]>,
    pub dtype: DType,
    /// In bytes.
    pub size: Dim,
}

/// The live range of a result of a tensor program, by the numbers of its scope's bindings.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub binding: usize,
    /// The last binding whose value uses it, perhaps its own.
    pub last: usize,
    pub outs: Vec<Out>,
}

/// A result during the analysis.
struct Candidate {
    scope: usize,
    /// The function nesting depth: a use in another function is a capture.
    depth: u32,
    life: Life,
    escapes: bool,
}

/// The live ranges in all scopes of a function.
pub(super) struct Lives {
    chains: FxHashMap<ExprId, Vec<Life>>,
}

/// The uses of an expression.
#[derive(Clone, Copy)]
enum How {
    /// As the value of a variable in a scope.
    Bound(VarId),
    /// As an input of a tensor program, or a condition: it is only read.
    Read,
    /// A use that may store the value.
    Kept,
}

enum Step {
    Visit(ExprId, How),
    /// The traversal reaches a binding of a scope.
    At(usize, usize),
    Enter,
    Leave,
}

struct Walk<'m> {
    m: &'m Module,
    typing: &'m Typing,
    call_tir: OpId,
    steps: Vec<Step>,
    /// The first `let` of each scope, and the binding that the traversal has reached.
    scopes: Vec<(ExprId, usize)>,
    depth: u32,
    /// The dimension variables that have a value.
    dims: FxHashSet<DimVar>,
    found: Vec<Candidate>,
    /// The results that a variable may be, entirely or in part.
    names: FxHashMap<VarId, Vec<usize>>,
    seen: IdSet,
}

impl Lives {
    /// Computes the live ranges in a function whose operations are all bound.
    pub fn new(m: &Module, typing: &Typing, func: FuncId, call_tir: OpId) -> Lives {
        let body = m.funcs[func].body;
        let mut walk = Walk {
            m,
            typing,
            call_tir,
            steps: vec![Step::Visit(body, How::Kept)],
            scopes: Vec::new(),
            depth: 0,
            dims: dims_in_scope(m, typing, func, body),
            found: Vec::new(),
            names: FxHashMap::default(),
            seen: IdSet::new(),
        };
        while let Some(step) = walk.steps.pop() {
            match step {
                Step::Visit(e, how) => walk.visit(e, how),
                Step::At(scope, binding) => walk.scopes[scope].1 = binding,
                Step::Enter => walk.depth += 1,
                Step::Leave => walk.depth -= 1,
            }
        }
        let mut chains: FxHashMap<ExprId, Vec<Life>> = FxHashMap::default();
        for c in walk.found {
            if !c.escapes {
                chains
                    .entry(walk.scopes[c.scope].0)
                    .or_default()
                    .push(c.life);
            }
        }
        Lives { chains }
    }

    /// Returns those in the scope that begins with a `let`, in order of their bindings.
    pub fn of_chain(&self, head: ExprId) -> &[Life] {
        self.chains.get(&head).map_or(&[], Vec::as_slice)
    }
}

impl Walk<'_> {
    fn visit(&mut self, e: ExprId, how: How) {
        let m = self.m;
        if let Expr::Var(v) = m.exprs[e] {
            return self.used(v, how);
        }
        let kernel = matches!(&m.exprs[e], Expr::Func(f) if is_primitive(&m.funcs[*f]));
        if kernel || !m.is_leaf(e) && !self.seen.insert(e) {
            // Nothing in a kernel is planned, but it may have variables from outside. Operations are
            // bound, so nothing is visited twice; if it is, its operands may be live at any time.
            for v in m.free_vars(e) {
                self.used(v, How::Kept);
            }
            return;
        }
        match &m.exprs[e] {
            Expr::Let { .. } => self.scope(e),
            Expr::Tuple(fields) => {
                let fields = m.list(*fields);
                self.steps
                    .extend(fields.iter().map(|&f| Step::Visit(f, how)));
            }
            Expr::Proj { tuple, .. } => self.steps.push(Step::Visit(*tuple, how)),
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                self.steps.push(Step::Visit(*otherwise, How::Kept));
                self.steps.push(Step::Visit(*then, How::Kept));
                self.steps.push(Step::Visit(*cond, How::Read));
            }
            Expr::Func(f) => {
                self.steps.push(Step::Leave);
                self.steps.push(Step::Visit(m.funcs[*f].body, How::Kept));
                self.steps.push(Step::Enter);
            }
            Expr::Call { callee, args, .. } if m.exprs[*callee] == Expr::Op(self.call_tir) => {
                for (i, &a) in m.list(*args).iter().enumerate() {
                    let how = if i == 1 { How::Read } else { How::Kept };
                    self.steps.push(Step::Visit(a, how));
                }
            }
            _ => m.for_each_child(e, |c| self.steps.push(Step::Visit(c, How::Kept))),
        }
    }

    /// Visits the bindings of a scope, in order, then its value, which outlives it.
    fn scope(&mut self, head: ExprId) {
        let (m, scope) = (self.m, self.scopes.len());
        self.scopes.push((head, 0));
        let first = self.steps.len();
        let (bindings, at) = crate::util::let_chain(m, head);
        for (binding, &(var, value)) in bindings.iter().enumerate() {
            self.candidate(scope, binding, var, value);
            self.steps.push(Step::At(scope, binding));
            self.steps.push(Step::Visit(value, How::Bound(var)));
        }
        self.steps.push(Step::At(scope, bindings.len()));
        self.steps.push(Step::Visit(at, How::Kept));
        self.steps[first..].reverse();
    }

    fn candidate(&mut self, scope: usize, binding: usize, var: VarId, value: ExprId) {
        let m = self.m;
        let called = matches!(m.exprs[value], Expr::Call { callee, .. } if m.exprs[callee] == Expr::Op(self.call_tir));
        if !called {
            return;
        }
        let Some(outs) = outs(m, self.typing.exprs[value], &self.dims) else {
            return;
        };
        self.names.insert(var, vec![self.found.len()]);
        self.found.push(Candidate {
            scope,
            depth: self.depth,
            life: Life {
                binding,
                last: binding,
                outs,
            },
            escapes: false,
        });
    }

    fn used(&mut self, v: VarId, how: How) {
        let Some(all) = self.names.get(&v) else {
            return;
        };
        for &c in all {
            let c = &mut self.found[c];
            c.escapes |= matches!(how, How::Kept) || c.depth != self.depth;
            c.life.last = c.life.last.max(self.scopes[c.scope].1);
        }
        if let How::Bound(var) = how
            && var != v
        {
            let all = all.clone();
            self.names.entry(var).or_default().extend(all);
        }
    }
}

/// Returns the tensors of a result: one, or the fields of a tuple. `None` where sizes are not known
/// before the call.
fn outs(m: &Module, ty: TypeId, scope: &FxHashSet<DimVar>) -> Option<Vec<Out>> {
    let all = match &m.types[ty] {
        Type::Tuple(fields) if fields.len() > 1 => fields.to_vec(),
        Type::Tensor(_) => vec![ty],
        _ => return None,
    };
    let one = |t: &TypeId| {
        let Type::Tensor(t) = &m.types[*t] else {
            return None;
        };
        let (Shape::Dims(dims), DTy::Known(dtype)) = (&t.shape, t.dtype) else {
            return None;
        };
        let bytes = Dim::from(element(dtype)?);
        let size = dims.iter().fold(bytes, |n, d| &n * d);
        let value = |d: &Dim| d.is_known() && d.free_vars().iter().all(|v| scope.contains(v));
        let known = size.is_known() && dims.iter().all(value);
        known.then(|| Out {
            dims: dims.clone(),
            dtype,
            size,
        })
    };
    all.iter().map(one).collect()
}
