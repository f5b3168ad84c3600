//! One function of the module as control flow over registers.
//!
//! The graph is walked scope by scope: each scope's nodes are emitted in order of evaluation into the
//! current block, and a node that opens scopes (a `let`, an `if`, a `match`, a dataflow block)
//! puts them on an explicit stack. Shared nodes are emitted once, in the innermost scope that holds
//! all their users.

use std::rc::Rc;
use std::sync::Arc;

use relax_base::{Diagnostic, Symbol};
use relax_ir::{Expr, ExprId, FuncId, Module, Shape, Type, TypeId, VarId, dim_to_ex};
use relax_loops::{Ex, Var};
use relax_ops::Lowering as OpLowering;
use relax_sym::{Atom, Dim, DimVar};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::info::{Captured, Info};
use crate::lir::{Block, BlockId, FnId, Hold, Inst, LFunc, Reg, Term};
use crate::{Lowering, codes, described};

mod call;
mod checks;
mod matching;
mod memory;

/// What comes after the nodes of a scope.
enum Then {
    /// The function ends with the scope's value.
    Return,
    /// The value is that of a `let` or dataflow node.
    Node(ExprId),
    /// The value is bound to the variable of the next binding of a dataflow block.
    Dataflow(ExprId, usize),
    /// The value is handed to the block after a branching node; then its next branch follows.
    Branch(ExprId, usize),
}

/// A scope that is being emitted.
struct Frame {
    scope: relax_ir::ScopeId,
    next: usize,
    root: ExprId,
    tail: bool,
    then: Then,
}

/// A branching node whose branches are being emitted.
struct Branching {
    /// Where the branches meet, unless they end the function.
    join: Option<BlockId>,
    /// Block, scope and value of each branch.
    branches: Vec<(BlockId, relax_ir::ScopeId, ExprId)>,
}

/// Lowers one function (a global's or a closure's).
pub(crate) struct FnLower<'a, 'm> {
    pub lw: &'a mut Lowering<'m>,
    info: Rc<Info>,
    f: LFunc,
    cur: BlockId,
    vars: FxHashMap<VarId, Reg>,
    nodes: FxHashMap<ExprId, Reg>,
    /// Where a dimension can be read: a tensor or shape value, and the axis.
    dims: FxHashMap<DimVar, (Reg, u32)>,
    /// Blocks of memory that this function made, and tensors that it placed in them.
    storages: FxHashSet<Reg>,
    placed: FxHashSet<Reg>,
    branching: FxHashMap<ExprId, Branching>,
    frames: Vec<Frame>,
    /// For numbering closures.
    name: Symbol,
}

/// A function that waits to be lowered.
pub(crate) struct Job {
    pub id: FnId,
    pub func: FuncId,
    pub name: Symbol,
    /// For closures: the node and what it captures.
    pub closure: Option<(ExprId, Vec<Captured>, Rc<Info>)>,
}

type Result<T> = std::result::Result<T, Box<Diagnostic>>;

impl<'a, 'm> FnLower<'a, 'm> {
    /// Lowers the function of a job.
    pub fn run(lw: &'a mut Lowering<'m>, job: &Job) -> Result<LFunc> {
        let m = lw.m;
        let func = &m.funcs[job.func];
        let info = match &job.closure {
            Some((_, _, info)) => info.clone(),
            None => Rc::new(Info::new(m, func.body)),
        };
        let captures = job.closure.as_ref().map(|c| c.1.len() as u32);
        let mut f = LFunc::new(job.name, captures, func.span);
        f.place = (lw.place)(func.span);
        let mut this = FnLower {
            lw,
            info,
            f,
            cur: BlockId(0),
            vars: FxHashMap::default(),
            nodes: FxHashMap::default(),
            dims: FxHashMap::default(),
            storages: FxHashSet::default(),
            placed: FxHashSet::default(),
            branching: FxHashMap::default(),
            frames: Vec::new(),
            name: job.name,
        };
        this.cur = this.block(Vec::new());
        for &p in &func.params {
            let r = this.reg();
            this.f.params.push(r);
            this.bind(p, r);
        }
        this.f.forms.result = this.scalar_type(this.type_of(func.body));
        if job.closure.is_some() {
            let types = func.params.iter().map(|&p| this.lw.typing.vars[p]);
            let given = types.map(|ty| Arc::new(described::all_of(this.m(), ty)));
            this.f.forms.given = given.collect();
        }
        let mut scope = relax_ir::Scopes::ROOT;
        if let Some((node, captured, _)) = &job.closure {
            scope = this.info.opened[node][0];
            for (i, c) in captured.iter().enumerate() {
                let dst = this.reg();
                this.emit(Inst::Capture {
                    dst,
                    index: i as u32,
                });
                match c {
                    Captured::Var(v) => this.bind(*v, dst),
                    Captured::Node(e) => {
                        this.nodes.insert(*e, dst);
                        this.name_dims(this.type_of(*e), dst);
                    }
                    Captured::Dim(d) => {
                        this.dims.insert(*d, (dst, 0));
                    }
                }
            }
            if let Some(&own) = this.info.bound_closure.get(node) {
                let dst = this.reg();
                this.emit(Inst::This { dst });
                this.vars.insert(own, dst);
            }
        }
        this.frames.push(Frame {
            scope,
            next: 0,
            root: func.body,
            tail: true,
            then: Then::Return,
        });
        this.walk()?;
        Ok(this.f)
    }

    fn m(&self) -> &'m Module {
        self.lw.m
    }

    fn reg(&mut self) -> Reg {
        self.f.reg(Hold::Value)
    }

    fn dim_reg(&mut self) -> Reg {
        self.f.reg(Hold::Dim)
    }

    fn block(&mut self, params: Vec<Reg>) -> BlockId {
        let term = Term::NoMatch(Symbol::new(""));
        self.f.blocks.push(Block {
            params,
            insts: Vec::new(),
            term,
        })
    }

    fn emit(&mut self, inst: Inst) {
        let cur = self.cur;
        self.f.blocks[cur].insts.push(inst);
    }

    fn end(&mut self, term: Term) {
        let cur = self.cur;
        self.f.blocks[cur].term = term;
    }

    /// Where an expression stands, for messages.
    fn place(&self, e: ExprId) -> Symbol {
        (self.lw.place)(self.m().span(e))
    }

    fn unsupported<T>(&self, e: ExprId, what: &str) -> Result<T> {
        let text = format!("native code does not support {what}");
        Err(Box::new(Diagnostic::error(
            codes::UNSUPPORTED,
            self.m().span(e),
            text,
        )))
    }

    /// Binds a variable, and the dimensions that its type names first.
    fn bind(&mut self, v: VarId, r: Reg) {
        self.vars.insert(v, r);
        self.name_dims(self.lw.typing.vars[v], r);
        self.note_form(self.lw.typing.vars[v], r);
    }

    fn known_type(&self, ty: TypeId) -> Option<&'m Type> {
        let types = &self.lw.m.types;
        (ty.0 as usize).lt(&types.len()).then(|| &types[ty])
    }

    /// The element type of a tensor of rank 0.
    fn scalar_type(&self, ty: TypeId) -> Option<DType> {
        match self.known_type(ty)? {
            Type::Tensor(t) if t.shape.dims().is_some_and(<[Dim]>::is_empty) => t.dtype.known(),
            _ => None,
        }
    }

    /// Notes what the type of a register says about how it may be handed over.
    fn note_form(&mut self, ty: TypeId, r: Reg) {
        if let Some(dtype) = self.scalar_type(ty) {
            self.f.forms.scalars.insert(r, dtype);
        } else if let Some(Type::Adt(adt, _)) = self.known_type(ty)
            && !self.m().adts[*adt].opaque
        {
            self.f.forms.data.insert(r);
        }
    }

    fn name_dims(&mut self, ty: TypeId, r: Reg) {
        let m = self.m();
        if ty.0 as usize >= m.types.len() {
            return;
        }
        let shape = match &m.types[ty] {
            Type::Tensor(t) => &t.shape,
            Type::Shape(s) => s,
            _ => return,
        };
        for (axis, d) in shape.dims().unwrap_or(&[]).iter().enumerate() {
            if let Some(Atom::Var(v)) = d.as_atom() {
                self.dims.entry(v).or_insert((r, axis as u32));
            }
        }
    }

    /// The register that holds an expression's value; leaves are made (and checked) where they are used.
    fn value(&mut self, e: ExprId) -> Result<Reg> {
        if let Some(&r) = self.nodes.get(&e) {
            return Ok(r);
        }
        let r = self.leaf(e)?;
        if self.checked(e) {
            self.checks(e, r)?;
        }
        Ok(r)
    }

    fn leaf(&mut self, e: ExprId) -> Result<Reg> {
        let m = self.m();
        match &m.exprs[e] {
            Expr::Var(v) => match self.vars.get(v) {
                Some(&r) => Ok(r),
                None => self.unsupported(e, &format!("the variable %{} here", m.vars[*v].name)),
            },
            Expr::Const(c) => {
                let data = self.lw.data(*c);
                let dst = self.reg();
                self.emit(Inst::Const { dst, data });
                Ok(dst)
            }
            Expr::Global(g) => {
                let func = self.lw.global_closure(*g, m.span(e))?;
                let dst = self.reg();
                self.emit(Inst::Closure {
                    dst,
                    func,
                    captures: Vec::new(),
                });
                Ok(dst)
            }
            Expr::Ctor(c) => {
                let func = self.lw.ctor_closure(*c);
                let dst = self.reg();
                self.emit(Inst::Closure {
                    dst,
                    func,
                    captures: Vec::new(),
                });
                Ok(dst)
            }
            Expr::Op(op) => {
                let func = self.lw.op_closure(*op, e)?;
                let dst = self.reg();
                self.emit(Inst::Closure {
                    dst,
                    func,
                    captures: Vec::new(),
                });
                Ok(dst)
            }
            Expr::Extern(name) => {
                let dst = self.reg();
                self.emit(Inst::Text { dst, text: *name });
                Ok(dst)
            }
            Expr::Func(f) => self.closure(e, *f),
            _ => self.unsupported(e, "this expression here"),
        }
    }

    /// Emits scopes until none is left.
    fn walk(&mut self) -> Result<()> {
        while let Some(frame) = self.frames.last_mut() {
            let (scope, root, tail) = (frame.scope, frame.root, frame.tail);
            let node = self
                .info
                .nodes
                .get(&scope)
                .and_then(|n| n.get(frame.next))
                .copied();
            frame.next += 1;
            match node {
                Some(e) => {
                    // What is to be checked comes back first.
                    let tail = tail && e == root && !self.checked(e);
                    if tail && self.tail_call(e)? {
                        self.end_frame();
                    } else {
                        self.node(e, tail)?;
                    }
                }
                None => {
                    let r = self.value(root)?;
                    if tail {
                        self.end(Term::Return(r));
                        self.end_frame();
                    } else {
                        let frame = self.frames.pop().expect("looked at above");
                        self.finished(frame.then, r)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The last frame, in tail position, has ended the function: so have the frames around it whose
    /// value it is, up to a branching node with a branch still to be emitted.
    fn end_frame(&mut self) {
        while let Some(frame) = self.frames.pop() {
            match frame.then {
                Then::Return => return,
                Then::Node(_) | Then::Dataflow(..) => {}
                Then::Branch(e, k) => {
                    if self.start_branch(e, k + 1, true) {
                        return;
                    }
                }
            }
        }
    }

    /// A scope in another position has the value `r`.
    fn finished(&mut self, then: Then, r: Reg) -> Result<()> {
        match then {
            Then::Return => unreachable!("the body of a function is in tail position"),
            Then::Node(e) => {
                self.nodes.insert(e, r);
                self.checks(e, r)?;
            }
            Then::Dataflow(e, k) => self.dataflow_bound(e, k, r, false),
            Then::Branch(e, k) => {
                let join = self.branching[&e].join.expect("not in tail position");
                self.end(Term::Jump(join, vec![r]));
                if !self.start_branch(e, k + 1, false) {
                    self.cur = join;
                    let value = self.f.blocks[join].params[0];
                    self.nodes.insert(e, value);
                    self.checks(e, value)?;
                }
            }
        }
        Ok(())
    }

    /// Starts branch `k` of a branching node; `false` when there is none.
    fn start_branch(&mut self, e: ExprId, k: usize, tail: bool) -> bool {
        let Some(&(block, scope, root)) = self.branching[&e].branches.get(k) else {
            return false;
        };
        self.cur = block;
        self.frames.push(Frame {
            scope,
            next: 0,
            root,
            tail,
            then: Then::Branch(e, k),
        });
        true
    }

    /// Sets up the branches of a node and starts the first. Clause bodies of a `match` bring their
    /// blocks along; others get fresh ones.
    fn branches(
        &mut self,
        e: ExprId,
        branches: Vec<(BlockId, relax_ir::ScopeId, ExprId)>,
        tail: bool,
    ) {
        let join = (!tail).then(|| {
            let r = self.reg();
            self.note_form(self.type_of(e), r);
            self.block(vec![r])
        });
        self.branching.insert(e, Branching { join, branches });
        self.start_branch(e, 0, tail);
    }

    /// Emits one node of the current scope.
    fn node(&mut self, e: ExprId, tail: bool) -> Result<()> {
        let m = self.m();
        let r = match &m.exprs[e] {
            Expr::Var(_)
            | Expr::Global(_)
            | Expr::Op(_)
            | Expr::Ctor(_)
            | Expr::Extern(_)
            | Expr::Const(_) => {
                return Ok(());
            }
            Expr::Error => return self.unsupported(e, "an expression with an error"),
            Expr::Tuple(fields) => {
                let fields = m
                    .list(*fields)
                    .iter()
                    .map(|&f| self.value(f))
                    .collect::<Result<_>>()?;
                let dst = self.reg();
                self.emit(Inst::Tuple { dst, fields });
                dst
            }
            Expr::Proj { tuple, index } => {
                let src = self.value(*tuple)?;
                let dst = self.reg();
                self.emit(Inst::Field {
                    dst,
                    src,
                    index: *index,
                });
                dst
            }
            Expr::Func(f) => {
                // A fused group is code of its callers, not a value, unless something else uses it.
                if self.lw.fused_kernel(*f).is_some() {
                    return Ok(());
                }
                self.closure(e, *f)?
            }
            Expr::Call { .. } => self.call(e)?,
            Expr::Let { var, value, body } => {
                if !matches!(m.exprs[*value], Expr::Func(f) if self.lw.fused_kernel(f).is_none()) {
                    let r = self.value(*value)?;
                    self.bind(*var, r);
                }
                let scope = self.info.opened[&e][0];
                self.frames.push(Frame {
                    scope,
                    next: 0,
                    root: *body,
                    tail,
                    then: Then::Node(e),
                });
                return Ok(());
            }
            Expr::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.value(*cond)?;
                let scopes = self.info.opened[&e].clone();
                let (yes, no) = (self.block(Vec::new()), self.block(Vec::new()));
                self.end(Term::If {
                    cond,
                    then: yes,
                    otherwise: no,
                });
                let branches = vec![(yes, scopes[0], *then), (no, scopes[1], *otherwise)];
                self.branches(e, branches, tail);
                return Ok(());
            }
            Expr::Match { value, clauses, .. } => {
                let src = self.value(*value)?;
                let scopes = self.info.opened[&e].clone();
                let blocks = self.decide(e, src, clauses)?;
                let branches = (blocks.into_iter().zip(scopes).zip(clauses.iter()))
                    .map(|((block, scope), clause)| (block, scope, clause.body))
                    .collect();
                self.branches(e, branches, tail);
                return Ok(());
            }
            Expr::RefNew(v) => {
                let value = self.value(*v)?;
                let dst = self.reg();
                self.emit(Inst::RefNew { dst, value });
                dst
            }
            Expr::RefRead(cell) => {
                let cell = self.value(*cell)?;
                let dst = self.reg();
                self.emit(Inst::RefRead { dst, cell });
                dst
            }
            Expr::RefWrite(cell, value) => {
                let (cell, value) = (self.value(*cell)?, self.value(*value)?);
                self.emit(Inst::RefWrite { cell, value });
                let dst = self.reg();
                self.emit(Inst::Tuple {
                    dst,
                    fields: Vec::new(),
                });
                dst
            }
            Expr::Shape(dims) => {
                let dims = dims.iter().map(|d| self.dim(e, d)).collect::<Result<_>>()?;
                let dst = self.reg();
                self.emit(Inst::Shape { dst, dims });
                dst
            }
            Expr::MatchShape { value, dims } => {
                let src = self.value(*value)?;
                self.match_dims(e, src, dims)?;
                src
            }
            Expr::MatchCast { value, ty } => {
                let src = self.value(*value)?;
                self.match_cast(e, src, *ty)?;
                src
            }
            Expr::Dataflow { block, .. } => {
                let bindings = &m.blocks[*block].bindings;
                let Some(b) = bindings.first() else {
                    // Passes may have left nothing of it.
                    let Expr::Dataflow { body, .. } = m.exprs[e] else {
                        unreachable!("a dataflow node")
                    };
                    let r = self.value(body)?;
                    self.nodes.insert(e, r);
                    return self.checks(e, r);
                };
                let r = self.value(b.value)?;
                self.dataflow_bound(e, 0, r, tail);
                return Ok(());
            }
        };
        self.nodes.insert(e, r);
        self.checks(e, r)
    }

    /// Binding `k` of a dataflow block has its value; goes on with the next, or with the body.
    fn dataflow_bound(&mut self, e: ExprId, k: usize, r: Reg, tail: bool) {
        let m = self.m();
        let Expr::Dataflow { block, body } = m.exprs[e] else {
            unreachable!("a dataflow node")
        };
        let bindings = &m.blocks[block].bindings;
        self.bind(bindings[k].var, r);
        let scope = self.info.opened[&e][k];
        let (root, then, tail) = match bindings.get(k + 1) {
            Some(next) => (next.value, Then::Dataflow(e, k + 1), false),
            None => (body, Then::Node(e), tail || self.is_tail(e)),
        };
        self.frames.push(Frame {
            scope,
            next: 0,
            root,
            tail,
            then,
        });
    }

    /// Whether a node is the value of a frame in tail position.
    fn is_tail(&self, e: ExprId) -> bool {
        self.frames.last().is_some_and(|f| f.tail && f.root == e) && !self.checked(e)
    }

    /// A closure value.
    fn closure(&mut self, e: ExprId, f: FuncId) -> Result<Reg> {
        let captured = self.info.captures(self.m(), e, f);
        let mut captures = Vec::with_capacity(captured.len());
        for c in &captured {
            captures.push(match c {
                Captured::Var(v) => match self.vars.get(v) {
                    Some(&r) => r,
                    None => return self.unsupported(e, "this capture"),
                },
                Captured::Node(n) => self.value(*n)?,
                Captured::Dim(d) => {
                    let dims = vec![self.dim(e, &Dim::var(*d))?];
                    let dst = self.reg();
                    self.emit(Inst::Shape { dst, dims });
                    dst
                }
            });
        }
        let name = self.name;
        let func = self
            .lw
            .queue_closure(f, name, (e, captured, self.info.clone()));
        let dst = self.reg();
        self.emit(Inst::Closure {
            dst,
            func,
            captures,
        });
        if let Some(&v) = self.info.bound_closure.get(&e) {
            self.vars.insert(v, dst);
        }
        Ok(dst)
    }

    /// A dimension as an expression over dimension registers.
    fn dim(&mut self, e: ExprId, d: &Dim) -> Result<Ex> {
        let mut known = FxHashMap::default();
        for v in d.free_vars() {
            let Some(&(src, axis)) = self.dims.get(&v) else {
                let name = self.m().dims[v].name;
                return self.unsupported(
                    e,
                    &format!("the dimension `{name}`, which no value in scope has,"),
                );
            };
            let dst = self.dim_reg();
            self.emit(Inst::Dim { dst, src, axis });
            known.insert(v, Ex::var(Var(dst.0), DType::I64));
        }
        match dim_to_ex(d, |v| known.get(&v).cloned()) {
            Some(ex) => Ok(ex),
            None => self.unsupported(e, "an unknown dimension here"),
        }
    }

    /// `match_shape`: new variables are bound, other dimensions checked.
    fn match_dims(&mut self, e: ExprId, src: Reg, dims: &[Dim]) -> Result<()> {
        let place = self.place(e);
        self.emit(Inst::CheckTensor {
            src,
            rank: Some(dims.len() as u32),
            dtype: None,
            place,
        });
        for (axis, d) in dims.iter().enumerate() {
            if let Some(Atom::Var(v)) = d.as_atom()
                && !self.dims.contains_key(&v)
            {
                self.dims.insert(v, (src, axis as u32));
                continue;
            }
            if d.is_any() {
                continue;
            }
            let b = self.dim(e, d)?;
            let dst = self.dim_reg();
            self.emit(Inst::Dim {
                dst,
                src,
                axis: axis as u32,
            });
            let a = Ex::var(Var(dst.0), DType::I64);
            let which = match d.as_const() {
                Some(_) => format!("axis {axis}"),
                None => format!("axis {axis}, {},", self.m().show_dim(d)),
            };
            let message = Symbol::new(&format!("{which} should be {{}}, but is {{}}"));
            self.emit(Inst::CheckDims {
                a: b,
                b: a,
                or_one: false,
                place,
                message,
            });
        }
        Ok(())
    }

    fn match_cast(&mut self, e: ExprId, src: Reg, ty: TypeId) -> Result<()> {
        let m = self.m();
        let (shape, dtype) = match &m.types[ty] {
            Type::Tensor(t) => (&t.shape, t.dtype.known()),
            Type::Shape(s) => (s, None),
            _ => return Ok(()),
        };
        let place = self.place(e);
        let rank = shape.dims().map(|d| d.len() as u32);
        self.emit(Inst::CheckTensor {
            src,
            rank,
            dtype,
            place,
        });
        match shape {
            Shape::Dims(dims) => self.match_dims(e, src, dims),
            _ => Ok(()),
        }
    }
}

pub(crate) fn lowering(op: relax_ir::OpId) -> OpLowering {
    relax_ops::registry()
        .get(op)
        .map_or(OpLowering::Computed, |d| d.hooks.lowering)
}
