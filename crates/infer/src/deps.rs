//! Dependencies between functions, and traversal of expressions' children.

use relax_base::Id;
use relax_ir::{Expr, ExprId, FuncId, GlobalId};

use crate::solver::Solver;

impl Solver<'_> {
    /// Returns groups of mutually dependent functions, dependencies first (Tarjan's algorithm on an
    /// explicit stack). Functions with complete signatures have no dependencies and no dependents.
    pub fn dependency_groups(
        &self,
        funcs: &[(GlobalId, FuncId)],
        complete: &[bool],
    ) -> Vec<Vec<(GlobalId, FuncId)>> {
        let edges: Vec<Vec<usize>> = {
            let mut position = vec![usize::MAX; self.m.globals.len()];
            for (i, (g, _)) in funcs.iter().enumerate() {
                position[g.index()] = i;
            }
            let mut seen = vec![u32::MAX; self.m.exprs.len()];
            (funcs.iter().enumerate())
                .map(|(i, &(_, f))| {
                    let mut out = Vec::new();
                    self.for_globals(f, i as u32, &mut seen, &mut |g| {
                        if !complete[g.index()] && position[g.index()] != usize::MAX {
                            out.push(position[g.index()]);
                        }
                    });
                    out
                })
                .collect()
        };
        let n = funcs.len();
        let (mut index, mut low) = (vec![usize::MAX; n], vec![0; n]);
        let (mut on_stack, mut stack) = (vec![false; n], Vec::new());
        let (mut groups, mut next) = (Vec::new(), 0);
        for root in 0..n {
            if index[root] != usize::MAX {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some(&mut (v, ref mut edge)) = work.last_mut() {
                if *edge == 0 && index[v] == usize::MAX {
                    (index[v], low[v]) = (next, next);
                    next += 1;
                    stack.push(v);
                    on_stack[v] = true;
                }
                if let Some(&w) = edges[v].get(*edge) {
                    *edge += 1;
                    if index[w] == usize::MAX {
                        work.push((w, 0));
                    } else if on_stack[w] {
                        low[v] = low[v].min(index[w]);
                    }
                    continue;
                }
                work.pop();
                if let Some(&(parent, _)) = work.last() {
                    low[parent] = low[parent].min(low[v]);
                }
                if low[v] == index[v] {
                    let mut group = Vec::new();
                    while let Some(w) = stack.pop() {
                        on_stack[w] = false;
                        group.push(w);
                        if w == v {
                            break;
                        }
                    }
                    group.sort_unstable();
                    groups.push(group.into_iter().map(|w| funcs[w]).collect());
                }
            }
        }
        groups
    }

    /// Calls `f` for every global that a function's body refers to.
    fn for_globals(&self, func: FuncId, mark: u32, seen: &mut [u32], f: &mut dyn FnMut(GlobalId)) {
        let mut stack = vec![self.m.funcs[func].body];
        while let Some(e) = stack.pop() {
            if std::mem::replace(&mut seen[e.index()], mark) == mark {
                continue;
            }
            if let Expr::Global(g) = self.m.exprs[e] {
                f(g);
            }
            self.for_parts(e, &mut |part| stack.push(part));
        }
    }

    /// Calls `f` for every child of an expression, including function bodies.
    pub fn for_parts(&self, e: ExprId, f: &mut dyn FnMut(ExprId)) {
        match &self.m.exprs[e] {
            Expr::Var(_)
            | Expr::Global(_)
            | Expr::Op(_)
            | Expr::Ctor(_)
            | Expr::Extern(_)
            | Expr::Const(_)
            | Expr::Shape(_)
            | Expr::Error => {}
            Expr::Tuple(list) => self.m.list(*list).iter().for_each(|&e| f(e)),
            Expr::Proj { tuple: e, .. }
            | Expr::RefNew(e)
            | Expr::RefRead(e)
            | Expr::MatchShape { value: e, .. }
            | Expr::MatchCast { value: e, .. } => f(*e),
            Expr::Func(func) => f(self.m.funcs[*func].body),
            Expr::Call { callee, args, .. } => {
                f(*callee);
                self.m.list(*args).iter().for_each(|&e| f(e));
            }
            Expr::Let { value, body, .. } => {
                f(*value);
                f(*body);
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                f(*cond);
                f(*then);
                f(*otherwise);
            }
            Expr::Match { value, clauses, .. } => {
                f(*value);
                clauses.iter().for_each(|c| f(c.body));
            }
            Expr::RefWrite(a, b) => {
                f(*a);
                f(*b);
            }
            Expr::Dataflow { block, body } => {
                let block = &self.m.blocks[*block];
                block.bindings.iter().for_each(|b| f(b.value));
                f(*body);
            }
        }
    }
}
