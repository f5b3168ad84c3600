//! Functions of the program: tail-recursive ones become loops, others are inlined at their calls.
//!
//! `fn (s…) { let p = …; if (c) { let a = …; f(s′…) } else { r }
//! }` is a loop while `c` holds with state `s`: the bindings before the condition are written
//! before the loop, at the end of its body, and after it.

use relax_ir::{Expr, ExprId, FuncId, VarId};
use relax_tensor::DType;

use super::graph::Attr;
use super::walk::{Own, Val, Walk};

/// The limit on nested loops and calls, which are written recursively.
const DEEPEST: usize = 64;

/// A function in the form of a loop.
struct Shape {
    /// The conditional at its end.
    choice: ExprId,
    cond: ExprId,
    /// The continuing branch, and the tail call in it.
    on: ExprId,
    call: ExprId,
    args: Vec<ExprId>,
    /// The exiting branch.
    end: ExprId,
    /// Whether the first branch is the continuing one.
    while_true: bool,
}

impl Walk<'_> {
    /// Writes a call of a function of the program.
    pub(super) fn function(&mut self, e: ExprId, f: FuncId, own: Own) -> Val {
        let m = self.m;
        let Expr::Call { args, .. } = &m.exprs[e] else {
            return Val::Failed;
        };
        let args: Vec<Val> = m.list(*args).iter().map(|&a| self.atom(a)).collect();
        let params = m.funcs[f].params.clone();
        if args.len() != params.len() || args.iter().any(|a| matches!(a, Val::Failed)) {
            return Val::Failed;
        }
        if self.depth >= DEEPEST {
            return self.failed(e, "functions that call each other this deep");
        }
        self.depth += 1;
        let body = m.funcs[f].body;
        let value = match self.mentions(body, own) {
            false => {
                self.bind(&params, &args);
                self.body(body, None)
            }
            true => match self.shape(body, own) {
                Some(shape) => self.looped(e, f, &shape, args),
                None => self.failed(
                    e,
                    "a function that calls itself other than as its last step",
                ),
            },
        };
        self.depth -= 1;
        value
    }

    fn bind(&mut self, params: &[VarId], values: &[Val]) {
        for (&p, v) in params.iter().zip(values) {
            let ty = self.m.vars[p].ty.or_else(|| self.types.var(p));
            let tensor = ty.and_then(|t| self.m.types.as_tensor(t));
            if let (Val::Tensor(name), Some(dims)) = (v, tensor.and_then(|t| t.shape.dims())) {
                self.g.bind_extents(name, dims);
            }
            self.vars.insert(p, v.clone());
        }
    }

    /// Returns whether an expression mentions a function.
    fn mentions(&self, body: ExprId, own: Own) -> bool {
        let m = self.m;
        let mut all = m.pre_order([body]).into_iter();
        all.any(|e| match m.exprs[e] {
            Expr::Var(v) => own == Own::Local(v),
            Expr::Global(g) => own == Own::Global(g),
            _ => false,
        })
    }

    /// Returns the function as a loop, if it has that form.
    fn shape(&self, body: ExprId, own: Own) -> Option<Shape> {
        let choice = self.last(body);
        let Expr::If {
            cond,
            then,
            otherwise,
        } = self.m.exprs[self.bound(choice)]
        else {
            return None;
        };
        let before = self.prefix_mentions(body, choice, own);
        let (while_true, on, end) = match (self.mentions(then, own), self.mentions(otherwise, own))
        {
            (true, false) => (true, then, otherwise),
            (false, true) => (false, otherwise, then),
            _ => return None,
        };
        let call = self.last(on);
        let Expr::Call { callee, args, .. } = self.m.exprs[self.bound(call)] else {
            return None;
        };
        let itself = match self.m.exprs[callee] {
            Expr::Var(v) => own == Own::Local(v),
            Expr::Global(g) => own == Own::Global(g),
            _ => false,
        };
        let args = self.m.list(args).to_vec();
        if before || !itself || self.prefix_mentions(on, call, own) {
            return None;
        }
        if args.iter().any(|&a| self.mentions(a, own)) {
            return None;
        }
        Some(Shape {
            choice,
            cond,
            on,
            call,
            args,
            end,
            while_true,
        })
    }

    /// Returns the final expression after bindings. A binding whose variable is the final
    /// expression counts as that expression.
    fn last(&self, from: ExprId) -> ExprId {
        let m = self.m;
        let mut e = from;
        loop {
            match m.exprs[e] {
                Expr::Let { var, body, .. } if !self.is_variable(body, var) => e = body,
                Expr::Dataflow { body, .. } => e = body,
                _ => return e,
            }
        }
    }

    /// Returns whether an expression is a variable, possibly through aliases.
    fn is_variable(&self, from: ExprId, var: VarId) -> bool {
        let m = self.m;
        let (mut e, mut var) = (from, var);
        loop {
            match m.exprs[e] {
                Expr::Var(v) => return v == var,
                Expr::Let {
                    var: other,
                    value,
                    body,
                } if matches!(m.exprs[value], Expr::Var(v) if v == var) => (e, var) = (body, other),
                _ => return false,
            }
        }
    }

    /// Returns the value of the last binding, or the expression itself.
    fn bound(&self, e: ExprId) -> ExprId {
        match self.m.exprs[e] {
            Expr::Let { value, .. } => value,
            _ => e,
        }
    }

    /// Returns whether bindings before an expression mention a function.
    fn prefix_mentions(&self, from: ExprId, until: ExprId, own: Own) -> bool {
        let m = self.m;
        let mut e = from;
        while e != until {
            match m.exprs[e] {
                Expr::Let { value, body, .. } => {
                    if self.mentions(value, own) {
                        return true;
                    }
                    e = body;
                }
                Expr::Dataflow { block, body } => {
                    let mut all = m.blocks[block].bindings.iter();
                    if all.any(|b| self.mentions(b.value, own)) {
                        return true;
                    }
                    e = body;
                }
                _ => return false,
            }
        }
        false
    }

    /// Returns the continuation condition of the loop for the bound state.
    fn goes_on(&mut self, body: ExprId, shape: &Shape) -> Option<String> {
        self.body(body, Some(shape.choice));
        match (self.atom(shape.cond), shape.while_true) {
            (Val::Tensor(name), true) => Some(name),
            (Val::Tensor(name), false) => {
                let out = self.g.fresh("going_on");
                self.g
                    .node("Not", vec![name], Vec::new(), vec![out.clone()]);
                Some(out)
            }
            _ => None,
        }
    }

    fn looped(&mut self, e: ExprId, f: FuncId, shape: &Shape, args: Vec<Val>) -> Val {
        let m = self.m;
        let (params, body) = (m.funcs[f].params.clone(), m.funcs[f].body);
        self.bind(&params, &args);
        let Some(first) = self.goes_on(body, shape) else {
            return Val::Failed;
        };
        let mut initial = vec![String::new(), first];
        for a in &args {
            if !self.flat(a, &mut initial) {
                return self.failed(e, "a loop over functions");
            }
        }
        // The body takes the state as inputs and returns the next state.
        self.g.open();
        self.g.scalar_input("iteration", DType::I64);
        self.g.scalar_input("on", DType::BOOL);
        let state: Vec<Val> = params.iter().map(|&p| self.parameter(p)).collect();
        self.bind(&params, &state);
        self.body(body, Some(shape.choice));
        self.body(shape.on, Some(shape.call));
        let next: Vec<Val> = shape.args.iter().map(|&a| self.atom(a)).collect();
        self.bind(&params, &next);
        let Some(cond) = self.goes_on(body, shape) else {
            self.g.close("body");
            return Val::Failed;
        };
        self.g.output(&cond, "on", None);
        let place = m.spans[e];
        for (&p, v) in params.iter().zip(&next) {
            let ty = m.vars[p].ty.or_else(|| self.types.var(p));
            self.outputs(v, ty, place);
        }
        let graph = self.g.close("body");
        let mut names = Vec::new();
        let last: Vec<Val> = args.iter().map(|a| self.renamed(a, &mut names)).collect();
        if graph.output.len() != names.len() + 1 {
            return self.failed(e, "a loop whose state changes its form");
        }
        self.g
            .node("Loop", initial, vec![("body", Attr::Graph(graph))], names);
        // Computed from the final state.
        self.bind(&params, &last);
        self.body(body, Some(shape.choice));
        self.body(shape.end, None)
    }

    /// Collects the names of a value's tensors. The nesting of tuples is bounded by the type
    /// checker.
    fn flat(&mut self, v: &Val, out: &mut Vec<String>) -> bool {
        match v {
            Val::Tensor(name) => out.push(name.clone()),
            Val::Tuple(fields) => return fields.iter().all(|f| self.flat(f, out)),
            Val::Shape(dims) => match self.g.extents(dims) {
                Some(name) => out.push(name),
                None => return false,
            },
            Val::Function(..) | Val::Failed => return false,
        }
        true
    }
}
