//! Variables that may share memory: names, parts and holders of a tensor that lies in a block, the
//! block itself, and what a program returns that wrote the tensor.
//!
//! Variables are put into classes, more of them than necessary where it is not known what a call
//! returns or keeps: a block that ends late is only memory that is free later.

use relax_ir::{Expr, ExprId, FuncId, Module, VarId};
use relax_ops::{Effects, Lowering};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Bind, Code, Value, each_var};
use crate::util::called_op;

/// Returns whether a module says by itself where tensors lie.
pub(super) fn places_tensors(m: &Module) -> bool {
    let bodies = m.global_bodies().into_iter().map(|g| g.1);
    m.post_order(bodies).into_iter().any(|e| {
        let lowering = called_op(m, e).map(|d| d.hooks.lowering);
        matches!(
            lowering,
            Some(Lowering::AllocStorage | Lowering::AllocTensor | Lowering::CallTirInplace)
        )
    })
}

/// How a variable ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// As its type says.
    Alone,
    /// As a block of memory, with all that lies in it.
    Block,
    /// Elsewhere, or with its block.
    Never,
}

/// The classes of a function's variables.
#[derive(Default)]
pub(super) struct Sharing {
    /// Towards the representative of its class, for every variable that is not its own.
    towards: FxHashMap<VarId, VarId>,
    /// The body that binds each variable, and the body around each.
    home: FxHashMap<VarId, usize>,
    around: Vec<Option<usize>>,
    /// Of each class: the outermost body that binds one of its variables; `None` if it holds
    /// something that the function was given.
    outermost: FxHashMap<VarId, Option<usize>>,
    storages: FxHashSet<VarId>,
    /// The classes with blocks of memory.
    stored: FxHashSet<VarId>,
}

impl Sharing {
    /// Finds them.
    pub fn of(m: &Module, func: FuncId, code: &Code) -> Sharing {
        let mut this = Sharing {
            around: vec![None; code.seqs.len()],
            ..Sharing::default()
        };
        let mut given = m.funcs[func].params.clone();
        for (s, seq) in code.seqs.iter().enumerate() {
            for b in seq.parts.iter().flat_map(|p| &p.binds) {
                this.home.insert(b.var, s);
                for inner in b.value.bodies() {
                    this.around[inner] = Some(s);
                }
                if let Value::Func { func, .. } = b.value {
                    given.extend(&m.funcs[func].params);
                }
            }
        }
        for b in code.binds() {
            let held = this.held_by(m, code, b);
            for v in held {
                this.join(b.var, v);
            }
            let lowering = b.expr().and_then(|e| called_op(m, e));
            if lowering.is_some_and(|d| d.hooks.lowering == Lowering::AllocStorage) {
                this.storages.insert(b.var);
            }
        }
        this.stored = this.storages.iter().map(|&v| this.of_var(v)).collect();
        for (&v, &s) in &this.home {
            let all = this.outermost.entry(this.of_var(v)).or_insert(Some(s));
            *all = all.map(|other| common(&this.around, other, s));
        }
        for v in given {
            let class = this.of_var(v);
            this.outermost.insert(class, None);
        }
        this
    }

    /// Returns the representative of a variable's class.
    pub fn of_var(&self, mut v: VarId) -> VarId {
        while let Some(&next) = self.towards.get(&v) {
            v = next;
        }
        v
    }

    /// Returns how a variable ends that the body `s` binds: what lies in a block ends with that, in
    /// the outermost body that sees any of it.
    pub fn end(&self, v: VarId, s: usize) -> End {
        let class = self.of_var(v);
        if self.outermost.get(&class) != Some(&Some(s)) {
            return End::Never;
        }
        match (self.stored.contains(&class), self.storages.contains(&v)) {
            (false, _) => End::Alone,
            (true, true) => End::Block,
            (true, false) => End::Never,
        }
    }

    fn join(&mut self, a: VarId, b: VarId) {
        let (a, b) = (self.of_var(a), self.of_var(b));
        if a != b {
            self.towards.insert(a, b);
        }
    }

    /// Returns the variables of whose memory a binding's value may hold some.
    fn held_by(&mut self, m: &Module, code: &Code, b: &Bind) -> Vec<VarId> {
        match b.value {
            Value::Plain(e) => self.held(m, e),
            Value::If {
                cond,
                then,
                otherwise,
            } => {
                self.held(m, cond);
                let mut all = self.held(m, code.seqs[then].value);
                all.extend(self.held(m, code.seqs[otherwise].value));
                all
            }
            Value::Func { body, .. } => {
                let (mut open, mut all) = (vec![body], Vec::new());
                while let Some(s) = open.pop() {
                    each_var(m, code.seqs[s].value, |v| all.push(v));
                    for b in code.seqs[s].parts.iter().flat_map(|p| &p.binds) {
                        if let Value::Plain(e) | Value::If { cond: e, .. } = b.value {
                            each_var(m, e, |v| all.push(v));
                        }
                        open.extend(b.value.bodies());
                    }
                }
                all
            }
        }
    }

    /// Returns the variables of whose memory an expression's value may hold some. What a call may
    /// put into something else that it is given is joined.
    fn held(&mut self, m: &Module, e: ExprId) -> Vec<VarId> {
        let mut of: FxHashMap<ExprId, Vec<VarId>> = FxHashMap::default();
        for e in m.post_order([e]) {
            let mut parts = Vec::new();
            m.for_each_child(e, |c| {
                parts.extend(of.get(&c).into_iter().flatten().copied())
            });
            let held = match m.exprs[e] {
                Expr::Var(v) => vec![v],
                Expr::Call { args, .. } => match called_op(m, e).map(|d| (d, d.hooks.lowering)) {
                    Some((_, Lowering::CallTir | Lowering::CallDpsPacked)) => Vec::new(),
                    Some((_, Lowering::AllocStorage | Lowering::Kill)) => Vec::new(),
                    Some((d, Lowering::Computed))
                        if d.effects == Effects::Pure && !d.hooks.told =>
                    {
                        Vec::new()
                    }
                    Some((_, Lowering::AllocTensor)) => {
                        let storage = m.list(args).first();
                        storage.and_then(|s| of.get(s)).cloned().unwrap_or_default()
                    }
                    Some((_, Lowering::CallTirInplace)) => match written(m, e) {
                        Some(all) => (all.iter().filter_map(|t| of.get(t)))
                            .flatten()
                            .copied()
                            .collect(),
                        None => parts,
                    },
                    _ => self.joined(parts),
                },
                Expr::RefWrite(..) => self.joined(parts),
                _ => parts,
            };
            of.insert(e, held);
        }
        of.remove(&e).unwrap_or_default()
    }

    fn joined(&mut self, all: Vec<VarId>) -> Vec<VarId> {
        for pair in all.windows(2) {
            self.join(pair[0], pair[1]);
        }
        all
    }
}

/// Returns the tensors that a `call_tir_inplace` writes, if they are listed.
fn written(m: &Module, e: ExprId) -> Option<Vec<ExprId>> {
    let Expr::Call { args, attrs, .. } = m.exprs[e] else {
        return None;
    };
    let Expr::Tuple(fields) = m.exprs[*m.list(args).get(1)?] else {
        return None;
    };
    let fields = m.list(fields);
    let indices = m.attrs(attrs).get("inplace_indices")?.as_ints()?;
    let field = |i: &i64| fields.get(usize::try_from(*i).ok()?).copied();
    indices.iter().map(field).collect()
}

/// Returns the innermost body around two, or one of them.
fn common(around: &[Option<usize>], a: usize, b: usize) -> usize {
    let up = |s: usize| std::iter::successors(Some(s), |s| around[*s]);
    let all: FxHashSet<usize> = up(a).collect();
    up(b).find(|s| all.contains(s)).unwrap_or(0)
}
