//! Calls.

use relax_ir::{Expr, ExprId, GlobalKind, Shape, Type, TypeId};
use relax_loops::{BinOp, Ex, ExKind, MOST_EXTENT, Stage, Var, interval, substitute, visit_expr};
use relax_ops::Lowering as OpLowering;
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::{FnLower, Result, lowering};
use crate::lir::{Alloc, Inst, KernelId, Reg, Term};

impl FnLower<'_, '_> {
    /// The arguments of a call.
    fn args(&self, e: ExprId) -> Vec<ExprId> {
        match &self.m().exprs[e] {
            Expr::Call { args, .. } => self.m().list(*args).to_vec(),
            _ => Vec::new(),
        }
    }

    /// In tail position a call of a function becomes a jump; `false` for everything else.
    pub(super) fn tail_call(&mut self, e: ExprId) -> Result<bool> {
        let m = self.m();
        let Expr::Call { callee, .. } = m.exprs[e] else {
            return Ok(false);
        };
        let args = self.args(e);
        match &m.exprs[callee] {
            Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) => Ok(false),
            Expr::Func(f) if self.lw.fused_kernel(*f).is_some() => Ok(false),
            Expr::Global(g) => {
                if !matches!(m.globals[*g].kind, GlobalKind::Func(f) if self.lw.fused_kernel(f).is_none())
                {
                    return Ok(false);
                }
                self.check_args(e, callee, &args)?;
                let args = args
                    .into_iter()
                    .map(|a| self.value(a))
                    .collect::<Result<_>>()?;
                let func = self.lw.global(*g, m.span(e))?;
                self.end(Term::TailCall {
                    func,
                    args,
                    lent: Vec::new(),
                });
                Ok(true)
            }
            _ => {
                self.check_args(e, callee, &args)?;
                let args = args
                    .into_iter()
                    .map(|a| self.value(a))
                    .collect::<Result<_>>()?;
                let callee = self.value(callee)?;
                self.end(Term::TailClosure { callee, args });
                Ok(true)
            }
        }
    }

    /// A call in any other position.
    pub(super) fn call(&mut self, e: ExprId) -> Result<Reg> {
        let m = self.m();
        let Expr::Call { callee, .. } = m.exprs[e] else {
            unreachable!("a call")
        };
        let args = self.args(e);
        match &m.exprs[callee] {
            Expr::Op(op) => match lowering(*op) {
                OpLowering::Computed => {
                    let kernel = self.lw.op_kernel(e)?;
                    self.kernel_call(e, kernel, &args)
                }
                OpLowering::CallTir => self.call_tir(e, &args),
                OpLowering::CallDpsPacked => self.call_dps(e, &args),
                OpLowering::CallTirInplace => self.call_tir_inplace(e, &args),
                OpLowering::AllocStorage => self.alloc_storage(e, &args),
                OpLowering::AllocTensor => self.alloc_tensor(e, &args),
                OpLowering::Kill => self.kill(&args),
            },
            Expr::Ctor(c) => {
                let fields = args
                    .into_iter()
                    .map(|a| self.value(a))
                    .collect::<Result<_>>()?;
                let dst = self.reg();
                self.emit(Inst::Adt {
                    dst,
                    tag: m.ctors[*c].tag,
                    fields,
                });
                Ok(dst)
            }
            Expr::Extern(name) => {
                let args = args
                    .into_iter()
                    .map(|a| self.value(a))
                    .collect::<Result<_>>()?;
                let dst = self.reg();
                self.emit(Inst::CallPacked {
                    dst,
                    name: *name,
                    args,
                });
                Ok(dst)
            }
            Expr::Func(f) if let Some(kernel) = self.lw.fused_kernel(*f) => {
                self.kernel_call(e, kernel, &args)
            }
            Expr::Global(g) => match m.globals[*g].kind {
                GlobalKind::Func(f) if let Some(kernel) = self.lw.fused_kernel(f) => {
                    self.kernel_call(e, kernel, &args)
                }
                GlobalKind::Func(_) => {
                    self.check_args(e, callee, &args)?;
                    let args = args
                        .into_iter()
                        .map(|a| self.value(a))
                        .collect::<Result<_>>()?;
                    let func = self.lw.global(*g, m.span(e))?;
                    let dst = self.reg();
                    self.emit(Inst::Call {
                        dst,
                        func,
                        args,
                        lent: Vec::new(),
                    });
                    Ok(dst)
                }
                GlobalKind::Prim(_) => {
                    self.unsupported(e, "a direct call of a tensor program (use `call_tir`)")
                }
            },
            _ => {
                self.check_args(e, callee, &args)?;
                let args = args
                    .into_iter()
                    .map(|a| self.value(a))
                    .collect::<Result<_>>()?;
                let callee = self.value(callee)?;
                let dst = self.reg();
                self.emit(Inst::CallClosure { dst, callee, args });
                Ok(dst)
            }
        }
    }

    /// The tensors of an argument, tuples taken apart.
    pub(super) fn tensors(&mut self, e: ExprId, out: &mut Vec<Reg>) -> Result<()> {
        let m = self.m();
        let mut work = vec![e];
        while let Some(e) = work.pop() {
            match &m.exprs[e] {
                Expr::Tuple(fields) => work.extend(m.list(*fields).iter().rev()),
                _ => {
                    let (r, ty) = (self.value(e)?, self.type_of(e));
                    self.fields(r, ty, out);
                }
            }
        }
        Ok(())
    }

    pub(super) fn type_of(&self, e: ExprId) -> TypeId {
        self.lw.typing.type_of(self.m(), e)
    }

    /// The tensors of a value by its type.
    fn fields(&mut self, r: Reg, ty: TypeId, out: &mut Vec<Reg>) {
        let m = self.m();
        let mut work = vec![(r, ty)];
        while let Some((r, ty)) = work.pop() {
            let Type::Tuple(fields) = &m.types[ty] else {
                out.push(r);
                continue;
            };
            let from = work.len();
            for (index, &f) in fields.iter().enumerate() {
                let dst = self.reg();
                self.emit(Inst::Field {
                    dst,
                    src: r,
                    index: index as u32,
                });
                work.push((dst, f));
            }
            work[from..].reverse();
        }
    }

    /// Calls a kernel on the arguments' tensors and builds the result's value.
    fn kernel_call(&mut self, e: ExprId, kernel: KernelId, args: &[ExprId]) -> Result<Reg> {
        let mut regs = Vec::new();
        for &a in args {
            self.tensors(a, &mut regs)?;
        }
        let ty = self.type_of(e);
        let given = self.outputs_by_type(e, kernel, ty)?;
        Ok(self.kernel_inst(e, kernel, regs, ty, given))
    }

    /// The outputs of a kernel with dimensions that no input binds (`zeros(shape=[n, 3])`): these
    /// are allocated before it runs, with the extents of the call's type. `None` where the inputs
    /// bind all.
    fn outputs_by_type(
        &mut self,
        e: ExprId,
        kernel: KernelId,
        ty: TypeId,
    ) -> Result<Option<Vec<Alloc>>> {
        let program = &self.lw.out.kernels[kernel].program;
        let bound = |d: &relax_loops::Var| {
            let is = |x: &Ex| matches!(x.kind(), relax_loops::ExKind::Var(v) if v == d);
            (program.inputs.iter()).any(|b| program.bufs[*b].shape.iter().any(is))
        };
        if program.dims.iter().all(bound) {
            return Ok(None);
        }
        self.lw.out.kernels[kernel].holds_outputs = true;
        let m = self.m();
        let (mut given, mut work) = (Vec::new(), vec![ty]);
        while let Some(t) = work.pop() {
            match &m.types[t] {
                Type::Tuple(fields) => work.extend(fields.iter().rev()),
                Type::Tensor(t) => {
                    let (Some(dims), Some(dtype)) = (t.shape.dims(), t.dtype.known()) else {
                        return Ok(None);
                    };
                    if dims.iter().any(|d| !d.is_known()) {
                        return Ok(None);
                    }
                    let dims: Result<Vec<Ex>> = dims.iter().map(|d| self.dim(e, d)).collect();
                    given.push(Alloc {
                        dtype,
                        dims: dims?,
                        reuse: None,
                        grows: false,
                        view: None,
                        place: None,
                    });
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(given))
    }

    /// A kernel instruction, and the tuples around its results.
    pub(super) fn kernel_inst(
        &mut self,
        e: ExprId,
        kernel: KernelId,
        args: Vec<Reg>,
        ty: TypeId,
        given: Option<Vec<Alloc>>,
    ) -> Reg {
        let n = self.lw.out.kernels[kernel].program.outputs.len();
        let dsts: Vec<Reg> = (0..n).map(|_| self.reg()).collect();
        let given = match given {
            Some(g) => g.into_iter().map(Some).collect(),
            None => self.allocs(kernel, &args),
        };
        self.emit(Inst::Kernel {
            dsts: dsts.clone(),
            kernel,
            args,
            given,
            place: self.place(e),
        });
        self.gather(ty, &dsts)
    }

    /// The allocation of a kernel's results, where the inputs' extents decide theirs.
    fn allocs(&mut self, kernel: KernelId, args: &[Reg]) -> Vec<Option<Alloc>> {
        let program = &self.lw.out.kernels[kernel].program;
        // The argument and axis that each dimension is read from.
        let mut found: FxHashMap<Var, (Reg, u32)> = FxHashMap::default();
        for (&buf, &r) in program.inputs.iter().zip(args) {
            for (axis, e) in program.bufs[buf].shape.iter().enumerate() {
                if let ExKind::Var(v) = e.kind() {
                    found.entry(*v).or_insert((r, axis as u32));
                }
            }
        }
        let checked = program.stages.iter().any(Stage::is_guard);
        let range = |_: Var| Some((0, MOST_EXTENT));
        let wanted: Vec<Option<(DType, Vec<Ex>)>> = (program.outputs.iter())
            .map(|&o| {
                let b = &program.bufs[o];
                let known = b
                    .shape
                    .iter()
                    .all(|e| is_dim(e, &|v| found.contains_key(&v)));
                // Extents that the program itself checks for negative values may be negative here.
                let safe = !checked || b.shape.iter().all(|e| interval(e, &range).lo >= 0);
                (known && safe).then(|| (b.dtype, b.shape.clone()))
            })
            .collect();
        let mut read: FxHashMap<Var, Ex> = FxHashMap::default();
        let mut allocs = Vec::with_capacity(wanted.len());
        for w in wanted {
            let Some((dtype, shape)) = w else {
                allocs.push(None);
                continue;
            };
            let mut dims = Vec::with_capacity(shape.len());
            for e in shape {
                visit_expr(&e, |x| {
                    if let ExKind::Var(v) = x.kind()
                        && !read.contains_key(v)
                    {
                        let (src, axis) = found[v];
                        let dst = self.dim_reg();
                        self.emit(Inst::Dim { dst, src, axis });
                        read.insert(*v, Ex::var(Var(dst.0), DType::I64));
                    }
                });
                dims.push(substitute(&e, &|v| read.get(&v).cloned()));
            }
            allocs.push(Some(Alloc {
                dtype,
                dims,
                reuse: None,
                grows: false,
                view: None,
                place: None,
            }));
        }
        allocs
    }

    /// The value of a type from the tensors that it consists of.
    fn gather(&mut self, ty: TypeId, tensors: &[Reg]) -> Reg {
        enum Work {
            Visit(TypeId),
            Tuple(usize),
        }
        let m = self.m();
        let mut next = tensors.iter();
        let mut done: Vec<Reg> = Vec::new();
        let mut work = vec![Work::Visit(ty)];
        while let Some(w) = work.pop() {
            match w {
                Work::Visit(t) => match &m.types[t] {
                    Type::Tuple(fields) => {
                        work.push(Work::Tuple(fields.len()));
                        work.extend(fields.iter().rev().map(|&f| Work::Visit(f)));
                    }
                    _ => done.push(*next.next().expect("one tensor per leaf of the type")),
                },
                Work::Tuple(n) => {
                    let fields = done.split_off(done.len() - n);
                    let dst = self.reg();
                    self.emit(Inst::Tuple { dst, fields });
                    done.push(dst);
                }
            }
        }
        done[0]
    }

    /// The result tensors specified by a shape argument and `dtype`: one, or a tuple of them.
    pub(super) fn wanted(&mut self, e: ExprId, shape: ExprId) -> Result<Vec<Alloc>> {
        let m = self.m();
        let shapes: Vec<ExprId> = match &m.exprs[shape] {
            Expr::Tuple(list) => m.list(*list).to_vec(),
            _ => vec![shape],
        };
        let outs = relax_programs::flatten(m, self.type_of(e));
        let Some(outs) = outs.filter(|o| o.len() == shapes.len()) else {
            return self.unsupported(e, "a result of unknown rank or element type");
        };
        let mut wanted = Vec::new();
        for (s, out) in shapes.into_iter().zip(outs) {
            let dims = match &m.exprs[s] {
                Expr::Shape(dims) => dims.iter().map(|d| self.dim(e, d)).collect::<Result<_>>()?,
                _ => {
                    // A shape value: its type has the number of dimensions.
                    let src = self.value(s)?;
                    let Type::Shape(Shape::Dims(dims)) = &m.types[self.type_of(s)] else {
                        return self.unsupported(e, "a shape of unknown rank");
                    };
                    (0..dims.len() as u32)
                        .map(|axis| {
                            let dst = self.dim_reg();
                            self.emit(Inst::Dim { dst, src, axis });
                            Ex::var(Var(dst.0), DType::I64)
                        })
                        .collect()
                }
            };
            wanted.push(Alloc {
                dtype: out.dtype,
                dims,
                reuse: None,
                grows: false,
                view: None,
                place: None,
            });
        }
        Ok(wanted)
    }

    fn call_tir(&mut self, e: ExprId, args: &[ExprId]) -> Result<Reg> {
        let m = self.m();
        let [callee, inputs, shape] = *args else {
            return self.unsupported(e, "this form of `call_tir`");
        };
        let Expr::Global(g) = m.exprs[callee] else {
            return self.unsupported(e, "a `call_tir` of something that is no tensor program");
        };
        let GlobalKind::Prim(program) = &m.globals[g].kind else {
            return self.unsupported(e, "a `call_tir` of a function");
        };
        let kernel = self.lw.prim_kernel(g, program.clone());
        let given = self.wanted(e, shape)?;
        let mut regs = Vec::new();
        self.tensors(inputs, &mut regs)?;
        let ty = self.type_of(e);
        Ok(self.kernel_inst(e, kernel, regs, ty, Some(given)))
    }

    fn call_dps(&mut self, e: ExprId, args: &[ExprId]) -> Result<Reg> {
        let m = self.m();
        let [callee, inputs, shape] = *args else {
            return self.unsupported(e, "this form of `call_dps_packed`");
        };
        let Expr::Extern(name) = m.exprs[callee] else {
            return self.unsupported(e, "a `call_dps_packed` without a name");
        };
        let given = self.wanted(e, shape)?;
        let mut regs = Vec::new();
        self.tensors(inputs, &mut regs)?;
        let dsts: Vec<Reg> = given.iter().map(|_| self.reg()).collect();
        self.emit(Inst::CallDps {
            dsts: dsts.clone(),
            name,
            args: regs,
            given,
        });
        let ty = self.type_of(e);
        Ok(self.gather(ty, &dsts))
    }
}

/// Returns whether an extent is arithmetic that [`Inst`]s support on dimensions.
fn is_dim(e: &Ex, known: &dyn Fn(Var) -> bool) -> bool {
    let (mut fine, mut nodes) = (true, 0);
    visit_expr(e, |x| {
        nodes += 1;
        fine &= match x.kind() {
            ExKind::Int(_) => true,
            ExKind::Var(v) => known(*v),
            ExKind::Binary(op, ..) => matches!(
                op,
                BinOp::Add
                    | BinOp::Sub
                    | BinOp::Mul
                    | BinOp::FloorDiv
                    | BinOp::FloorMod
                    | BinOp::Min
                    | BinOp::Max
            ),
            _ => false,
        };
    });
    fine && nodes <= 64
}
