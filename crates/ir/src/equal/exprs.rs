//! Comparison of functions and expressions, driven by a worklist of pairs.

use relax_sym::Dim;

use super::report::{ROOT, Step, Trail};
use super::{Check, Comparer, Pair};
use crate::{Attrs, BlockId, Expr, ExprId, FuncId, GlobalId, Module, PatId, Pattern, VarId};

impl Comparer<'_> {
    /// Compares signatures; the bodies are pushed onto the worklist.
    pub(super) fn functions(&mut self, f: FuncId, g: FuncId, at: Option<&Pair>) -> Check {
        let (x, y) = (&self.a.funcs[f], &self.b.funcs[g]);
        if x.params.len() != y.params.len() {
            let what = format!(
                "functions of {} and {} parameters",
                x.params.len(),
                y.params.len()
            );
            return self.differ_at(&what, at);
        }
        if x.type_params.len() != y.type_params.len() {
            return self.differ_at("the numbers of type parameters differ", at);
        }
        for (&p, &q) in x.type_params.iter().zip(&y.type_params) {
            let kinds = (self.a.types.params[p].kind, self.b.types.params[q].kind);
            if kinds.0 != kinds.1 {
                return self.differ_at("the type parameters differ", at);
            }
            // A type that inference made of the function's may have bound them already.
            self.params.bind(p, q);
        }
        self.dims.unbind(&x.dims, &y.dims);
        for (&v, &w) in x.params.iter().zip(&y.params) {
            self.var(v, w, at)?;
        }
        // The syntax of an expression file cannot state its result type.
        let unsaid = |m: &Module, f: FuncId| {
            !m.literal && m.expression.and_then(|g| m.global_func(g)) == Some(f)
        };
        if !unsaid(self.a, f) || !unsaid(self.b, g) {
            self.opt_ty(x.ret, y.ret, at, "result type")?;
        }
        self.constraints(&x.constraints, &y.constraints, at)?;
        self.attrs(&x.attrs, &y.attrs, at)
    }

    /// Compares two variables at their binding sites.
    pub(super) fn var(&mut self, v: VarId, w: VarId, at: Option<&Pair>) -> Check {
        let (x, y) = (&self.a.vars[v], &self.b.vars[w]);
        if !self.vars.pair(v, w) {
            let what = format!("%{} and %{} are bound differently", x.name, y.name);
            return self.differ_at(&what, at);
        }
        let what = format!("type of %{}", x.name);
        self.opt_ty(x.ty, y.ty, at, &what)?;
        let (none, a, b) = (Attrs::new(), self.a, self.b);
        let s = a.var_attrs.get(&v).unwrap_or(&none);
        let t = b.var_attrs.get(&w).unwrap_or(&none);
        self.attrs(s, t, at)
    }

    pub(super) fn push(&mut self, a: ExprId, b: ExprId, parent: u32, step: Step) {
        self.trail.push(Trail { parent, step });
        let trail = self.trail.len() as u32 - 1;
        self.stack.push(Pair { a, b, trail });
    }

    pub(super) fn run(&mut self, a: ExprId, b: ExprId) -> Check {
        self.trail.clear();
        self.stack.clear();
        self.stack.push(Pair { a, b, trail: ROOT });
        while let Some(pair) = self.stack.pop() {
            let first = self.stack.len();
            self.exprs(&pair)?;
            self.stack[first..].reverse();
        }
        Ok(())
    }

    pub(super) fn lists(
        &mut self,
        x: &[ExprId],
        y: &[ExprId],
        pair: &Pair,
        step: fn(u32) -> Step,
    ) -> Check {
        if x.len() != y.len() {
            let what = format!("{} and {} parts", x.len(), y.len());
            return self.differ_at(&what, Some(pair));
        }
        for (i, (&s, &t)) in x.iter().zip(y).enumerate() {
            self.push(s, t, pair.trail, step(i as u32));
        }
        Ok(())
    }

    pub(super) fn exprs(&mut self, pair: &Pair) -> Check {
        let (a, b) = (self.a, self.b);
        let at = Some(pair);
        let leaf = a.is_leaf(pair.a);
        if !leaf && !b.is_leaf(pair.b) {
            if self.nodes.known(pair.a, pair.b) {
                return Ok(());
            }
            if !self.nodes.pair(pair.a, pair.b) {
                return self.differ_at("one side shares a node and the other repeats it", at);
            }
        }
        let trail = pair.trail;
        match (&a.exprs[pair.a], &b.exprs[pair.b]) {
            (Expr::Var(v), Expr::Var(w)) => {
                if self.vars.pair(*v, *w) {
                    return Ok(());
                }
                let what = format!(
                    "%{} and %{} are different variables",
                    a.vars[*v].name, b.vars[*w].name
                );
                self.differ_at(&what, at)
            }
            (Expr::Global(g), Expr::Global(h)) if a.globals[*g].name == b.globals[*h].name => {
                Ok(())
            }
            (Expr::Global(g), Expr::Global(h))
                if self.renamed_left.contains(g) && self.renamed_right.contains(h) =>
            {
                self.renamed_globals(*g, *h, pair)
            }
            (Expr::Op(p), Expr::Op(q)) if self.ops(*p, *q) => Ok(()),
            (Expr::Ctor(c), Expr::Ctor(d)) if a.ctors[*c].name == b.ctors[*d].name => Ok(()),
            (Expr::Extern(n), Expr::Extern(o)) if n == o => Ok(()),
            (Expr::Const(c), Expr::Const(d)) if a.consts[*c] == b.consts[*d] => Ok(()),
            (Expr::Tuple(x), Expr::Tuple(y)) => {
                self.lists(a.list(*x), b.list(*y), pair, Step::Field)
            }
            (Expr::Proj { tuple: x, index: i }, Expr::Proj { tuple: y, index: j }) if i == j => {
                self.push(*x, *y, trail, Step::Tuple);
                Ok(())
            }
            (Expr::Func(f), Expr::Func(g)) => {
                self.functions(*f, *g, at)?;
                self.push(a.funcs[*f].body, b.funcs[*g].body, trail, Step::FuncBody);
                Ok(())
            }
            (
                &Expr::Call {
                    callee: f,
                    args: x,
                    attrs: p,
                    type_args: s,
                },
                &Expr::Call {
                    callee: g,
                    args: y,
                    attrs: q,
                    type_args: t,
                },
            ) => {
                self.push(f, g, trail, Step::Callee);
                self.lists(a.list(x), b.list(y), pair, Step::Arg)?;
                self.attrs(a.attrs(p), b.attrs(q), at)?;
                let (s, t) = (a.type_args(s), b.type_args(t));
                if s.len() != t.len() {
                    return self.differ_at("the numbers of type arguments differ", at);
                }
                for (&s, &t) in s.iter().zip(t) {
                    self.ty(s, t, at)?;
                }
                Ok(())
            }
            _ => self.scopes(pair),
        }
    }

    /// Compares globals that may have different names, the same ones everywhere.
    fn renamed_globals(&mut self, g: GlobalId, h: GlobalId, pair: &Pair) -> Check {
        if !self.global_pairs.there.contains_key(&g) {
            self.renamed.push((g, h));
        }
        if self.global_pairs.pair(g, h) {
            return Ok(());
        }
        let (g, h) = (self.a.globals[g].name, self.b.globals[h].name);
        let what = format!("@{g} and @{h} are different functions");
        self.differ_at(&what, Some(pair))
    }

    /// Compares what binds, branches or asks for shapes, and reports pairs of different kinds.
    fn scopes(&mut self, pair: &Pair) -> Check {
        let (a, b) = (self.a, self.b);
        let (at, trail) = (Some(pair), pair.trail);
        match (&a.exprs[pair.a], &b.exprs[pair.b]) {
            (
                &Expr::Let {
                    var: v,
                    value: x,
                    body: s,
                },
                &Expr::Let {
                    var: w,
                    value: y,
                    body: t,
                },
            ) => {
                self.var(v, w, at)?;
                self.push(x, y, trail, Step::Value(v));
                // For the body of a `let`, the trail is not extended: in a long chain the body is
                // no deeper than the `let` itself.
                self.push(s, t, trail, Step::LetBody);
                Ok(())
            }
            (
                &Expr::If {
                    cond: c,
                    then: x,
                    otherwise: s,
                },
                &Expr::If {
                    cond: d,
                    then: y,
                    otherwise: t,
                },
            ) => {
                self.push(c, d, trail, Step::Cond);
                self.push(x, y, trail, Step::Then);
                self.push(s, t, trail, Step::Else);
                Ok(())
            }
            (
                Expr::Match {
                    value: x,
                    clauses: s,
                    complete: c,
                },
                Expr::Match {
                    value: y,
                    clauses: t,
                    complete: d,
                },
            ) => {
                if c != d || s.len() != t.len() {
                    return self.differ_at("the matches differ", at);
                }
                self.push(*x, *y, trail, Step::Scrutinee);
                for (i, (c, d)) in s.iter().zip(t).enumerate() {
                    self.patterns(c.pattern, d.pattern, pair)?;
                    self.push(c.body, d.body, trail, Step::Clause(i as u32));
                }
                Ok(())
            }
            (Expr::RefNew(x), Expr::RefNew(y)) | (Expr::RefRead(x), Expr::RefRead(y)) => {
                self.push(*x, *y, trail, Step::Ref);
                Ok(())
            }
            (Expr::RefWrite(x, s), Expr::RefWrite(y, t)) => {
                self.push(*x, *y, trail, Step::Ref);
                self.push(*s, *t, trail, Step::Written);
                Ok(())
            }
            (Expr::Shape(x), Expr::Shape(y)) if self.dim_lists(x, y) => Ok(()),
            (Expr::MatchShape { value: x, dims: s }, Expr::MatchShape { value: y, dims: t })
                if self.dim_lists(s, t) =>
            {
                self.push(*x, *y, trail, Step::Arg(0));
                Ok(())
            }
            (&Expr::MatchCast { value: x, ty: s }, &Expr::MatchCast { value: y, ty: t }) => {
                self.ty(s, t, at)?;
                self.push(x, y, trail, Step::Arg(0));
                Ok(())
            }
            (&Expr::Dataflow { block: p, body: s }, &Expr::Dataflow { block: q, body: t }) => {
                self.blocks(p, q, pair)?;
                self.push(s, t, trail, Step::LetBody);
                Ok(())
            }
            (Expr::Error, Expr::Error) => Ok(()),
            _ => {
                let what = format!(
                    "{} and {}",
                    a.show_expr(pair.a, self.op),
                    b.show_expr(pair.b, self.op)
                );
                self.differ_at(&what, at)
            }
        }
    }

    pub(super) fn dim_lists(&mut self, x: &[Dim], y: &[Dim]) -> bool {
        x.len() == y.len() && x.iter().zip(y).all(|(d, e)| self.dim(d, e))
    }

    pub(super) fn blocks(&mut self, p: BlockId, q: BlockId, pair: &Pair) -> Check {
        let (x, y) = (&self.a.blocks[p], &self.b.blocks[q]);
        if x.bindings.len() != y.bindings.len() || x.outputs.len() != y.outputs.len() {
            return self.differ_at("the dataflow blocks differ", Some(pair));
        }
        for (c, d) in x.bindings.iter().zip(&y.bindings) {
            self.var(c.var, d.var, Some(pair))?;
            self.push(c.value, d.value, pair.trail, Step::Value(c.var));
        }
        for (&v, &w) in x.outputs.iter().zip(&y.outputs) {
            if !self.vars.pair(v, w) {
                return self.differ_at("the outputs differ", Some(pair));
            }
        }
        Ok(())
    }

    pub(super) fn patterns(&mut self, p: PatId, q: PatId, pair: &Pair) -> Check {
        let (x, y) = (self.a.sub_patterns(p), self.b.sub_patterns(q));
        let mut same = x.len() == y.len();
        for (&p, &q) in x.iter().zip(&y) {
            same &= match (&self.a.patterns[p], &self.b.patterns[q]) {
                (Pattern::Wildcard, Pattern::Wildcard) => true,
                (Pattern::Var(v), Pattern::Var(w)) => {
                    self.var(*v, *w, Some(pair))?;
                    true
                }
                (Pattern::Ctor(c, s), Pattern::Ctor(d, t)) => {
                    self.a.ctors[*c].name == self.b.ctors[*d].name && s.len() == t.len()
                }
                (Pattern::Tuple(s), Pattern::Tuple(t)) => s.len() == t.len(),
                _ => false,
            };
        }
        if same {
            Ok(())
        } else {
            self.differ_at("the patterns differ", Some(pair))
        }
    }
}
