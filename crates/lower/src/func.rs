//! One function of the module as control flow over registers.
//!
//! The graph is walked scope by scope: each scope's nodes are emitted in order of evaluation into
//! the current block, and a node that opens scopes (a `let`, an `if`, a `match`, a dataflow block)
//! puts them on an explicit stack. Shared nodes are emitted once, in the innermost scope that holds
//! all their users.

use std::rc::Rc;
use std::sync::Arc;

use relax_base::{Diagnostic, Symbol};
use relax_ir::{Expr, ExprId, FuncId, Module, Type, TypeId, VarId};
use relax_ops::Lowering as OpLowering;
use relax_sym::{Atom, Dim, DimVar};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::info::{Captured, Info};
use crate::lir::{Block, BlockId, FnId, Hold, Inst, LFunc, Reg, Term};
use crate::{Lowering, codes, described};

mod call;
mod checks;
mod dims;
mod matching;
mod memory;
mod scopes;

use scopes::{Branching, Frame, Then};

/// Lowers one function (a global's or a closure's).
pub(crate) struct FnLower<'a, 'm> {
    pub lw: &'a mut Lowering<'m>,
    info: Rc<Info>,
    f: LFunc,
    cur: BlockId,
    vars: FxHashMap<VarId, Reg>,
    nodes: FxHashMap<ExprId, Reg>,
    /// The tensor or shape value, and its axis, that a dimension is read from.
    dims: FxHashMap<DimVar, (Reg, u32)>,
    /// Blocks of memory that this function allocated, and tensors that it placed in them.
    storages: FxHashSet<Reg>,
    placed: FxHashSet<Reg>,
    branching: FxHashMap<ExprId, Branching>,
    frames: Vec<Frame>,
    /// For numbering closures.
    name: Symbol,
}

/// A function to be lowered.
pub(crate) struct Job {
    pub id: FnId,
    pub func: FuncId,
    pub name: Symbol,
    /// For closures: the node and its captures.
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

    /// Returns an expression's source location, for messages.
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

    /// Binds the dimensions that a variable's type names first, then the variable.
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

    /// Records what the type of a register implies about its possible representations.
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

    /// The register that holds an expression's value; leaves are emitted (and checked) at their
    /// uses.
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
            Expr::Let { .. } | Expr::If { .. } | Expr::Match { .. } | Expr::Dataflow { .. } => {
                return self.open(e, tail);
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
        };
        self.nodes.insert(e, r);
        self.checks(e, r)
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
}

pub(crate) fn lowering(op: relax_ir::OpId) -> OpLowering {
    relax_ops::registry()
        .get(op)
        .map_or(OpLowering::Computed, |d| d.hooks.lowering)
}
