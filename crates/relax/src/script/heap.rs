//! Recovers shapes from the shape heap of TVM's virtual machine: what `vm.builtin.match_shape`
//! stores in the heap, and what programs compute from it, is known from types, so shapes made from
//! the heap become explicit shapes.

use std::sync::Arc;

use relax_infer::Typing;
use relax_ir::{AttrValue, Expr, ExprId, GlobalKind, Module, Shape, TensorType, Type, VarId};
use relax_loops::{BinOp, Ex, ExKind, Program, Stage, Stmt, statements};
use relax_sym::Dim;
use rustc_hash::{FxHashMap, FxHashSet};

use super::places::{called, outside, type_of};

/// The cells of a heap, as far as they are known.
type Cells = Vec<Option<Dim>>;

/// Facts about values derived from heaps.
#[derive(Default)]
pub(super) struct Heaps {
    cells: FxHashMap<VarId, Cells>,
    /// Shapes made from heaps.
    pub shapes: FxHashMap<VarId, Vec<Dim>>,
    /// Bindings that only serve the heap and are dropped.
    pub gone: FxHashSet<VarId>,
}

impl Heaps {
    /// Analyses the bindings of a body. Tensors allocated with such shapes get types.
    pub fn of(m: &mut Module, typing: &Typing, body: ExprId) -> Heaps {
        let mut heaps = Heaps::default();
        let mut at = body;
        loop {
            let bindings: Vec<(VarId, ExprId)> = match m.exprs[at] {
                Expr::Let { var, value, .. } => vec![(var, value)],
                Expr::Dataflow { block, .. } => {
                    let all = m.blocks[block].bindings.iter();
                    all.map(|b| (b.var, b.value)).collect()
                }
                _ => return heaps,
            };
            for (var, value) in bindings {
                heaps.bind(m, typing, var, value);
            }
            if let Expr::Let { body, .. } | Expr::Dataflow { body, .. } = m.exprs[at] {
                at = body;
            }
        }
    }

    fn bind(&mut self, m: &mut Module, typing: &Typing, var: VarId, value: ExprId) {
        if let Some(n) = size(m, value) {
            self.cells.insert(var, vec![None; n]);
            self.gone.insert(var);
            return;
        }
        if self.cells.is_empty() {
            return;
        }
        let about = match outside(m, value) {
            Some((name, args)) => match name.as_str() {
                "vm.builtin.match_shape" => self.matched(m, typing, &args),
                "vm.builtin.make_shape" => self.made(m, &args).map(|dims| {
                    self.shapes.insert(var, dims);
                }),
                _ => self.computed(m, value),
            },
            None => self.computed(m, value),
        };
        if about.is_some() {
            self.gone.insert(var);
        } else {
            self.placed(m, var, value);
        }
    }

    fn heap(&mut self, m: &Module, e: ExprId) -> Option<&mut Cells> {
        match m.exprs[e] {
            Expr::Var(v) => self.cells.get_mut(&v),
            _ => None,
        }
    }

    /// Handles `match_shape(x, heap, rank, code, at, …, text)`.
    fn matched(&mut self, m: &Module, typing: &Typing, args: &[ExprId]) -> Option<()> {
        let (&x, &heap) = (args.first()?, args.get(1)?);
        let dims = match &m.types[type_of(m, typing, x)?] {
            Type::Tensor(TensorType { shape, .. }) | Type::Shape(shape) => shape.dims(),
            _ => None,
        };
        let codes = pairs(m, args.get(3..args.len().checked_sub(1)?)?)?;
        let cells = self.heap(m, heap)?;
        for (i, (code, at)) in codes.into_iter().enumerate() {
            if code == 1 {
                let known = dims.and_then(|d| d.get(i)).filter(|d| d.is_known());
                *cells.get_mut(usize::try_from(at).ok()?)? = known.cloned();
            }
        }
        Some(())
    }

    /// Handles `make_shape(heap, rank, code, at, …)`.
    fn made(&mut self, m: &Module, args: &[ExprId]) -> Option<Vec<Dim>> {
        let codes = pairs(m, args.get(2..)?)?;
        let cells = self.heap(m, *args.first()?)?;
        let cell = |at: i64| cells.get(usize::try_from(at).ok()?)?.clone();
        let extent = |(code, at)| match code {
            0 => Some(Dim::from(at)),
            _ => cell(at),
        };
        codes.into_iter().map(extent).collect()
    }

    /// Handles a call of a program that only updates a heap.
    fn computed(&mut self, m: &Module, value: ExprId) -> Option<()> {
        let Expr::Call { callee, args, .. } = m.exprs[value] else {
            return None;
        };
        let [heap] = *m.list(args) else {
            return None;
        };
        let program: Arc<Program> = match m.exprs[callee] {
            Expr::Global(g) => match &m.globals[g].kind {
                GlobalKind::Prim(p) => p.clone(),
                GlobalKind::Func(_) => return None,
            },
            Expr::Extern(name) => m
                .script
                .as_ref()?
                .kept(name)?
                .inplace
                .as_ref()?
                .program
                .clone(),
            _ => return None,
        };
        let cells = self.heap(m, heap)?;
        for stage in &program.stages {
            let Stage::Nest(body) = stage else {
                continue;
            };
            for s in statements(body) {
                let Stmt::Store { index, value, .. } = s else {
                    return None;
                };
                let [at] = &index[..] else {
                    return None;
                };
                let at = usize::try_from(at.as_int()?).ok()?;
                let number = extent(value, cells);
                *cells.get_mut(at)? = number;
            }
        }
        Some(())
    }

    /// Handles a tensor allocated with such a shape.
    fn placed(&self, m: &mut Module, var: VarId, value: ExprId) -> Option<()> {
        let (name, args, _) = called(m, value)?;
        let Expr::Var(shape) = m.exprs[*args.get(1)?] else {
            return None;
        };
        let dims = self
            .shapes
            .get(&shape)
            .filter(|_| name.ends_with("alloc_tensor"))?;
        let dtype = m.types.as_tensor(m.vars[var].ty?)?.dtype;
        let shape = Shape::Dims(dims.clone().into());
        let ty = m.types.intern(Type::Tensor(TensorType { shape, dtype }));
        m.vars[var].ty = Some(ty);
        Some(())
    }
}

/// Returns the number of cells of a heap allocation.
fn size(m: &Module, e: ExprId) -> Option<usize> {
    let (name, args, attrs) = called(m, e)?;
    let AttrValue::Dict(given) = attrs.get("attrs")? else {
        return None;
    };
    let func = given.iter().find(|g| g.0.as_str() == "func")?;
    let makes = func.1.as_str() == Some("vm.builtin.alloc_shape_heap");
    if name != "call_builtin_with_ctx" || !makes {
        return None;
    }
    let Expr::Tuple(args) = m.exprs[*args.first()?] else {
        return None;
    };
    let n = number(m, *m.list(args).first()?)?;
    // Larger sizes occur in no real program and are rejected.
    usize::try_from(n).ok().filter(|&n| n <= 1 << 16)
}

fn number(m: &Module, e: ExprId) -> Option<i64> {
    called(m, e)?.2.get("value")?.as_int()
}

fn pairs(m: &Module, args: &[ExprId]) -> Option<Vec<(i64, i64)>> {
    let both = |p: &[ExprId]| Some((number(m, *p.first()?)?, number(m, *p.get(1)?)?));
    args.chunks(2).map(both).collect()
}

/// Returns the value that a program computes from a heap.
fn extent(root: &Ex, cells: &Cells) -> Option<Dim> {
    let (mut work, mut out) = (vec![(root, false)], Vec::<Dim>::new());
    while let Some((e, ready)) = work.pop() {
        match e.kind() {
            ExKind::Int(v) => out.push(Dim::from(*v)),
            ExKind::Load(_, index) => {
                let at = index.first()?.as_int()?;
                out.push(cells.get(usize::try_from(at).ok()?)?.clone()?);
            }
            ExKind::Cast(a) => work.push((a, false)),
            ExKind::Binary(_, a, b) if !ready => work.extend([(e, true), (b, false), (a, false)]),
            ExKind::Binary(op, ..) => {
                let (b, a) = (out.pop()?, out.pop()?);
                out.push(match op {
                    BinOp::Add => &a + &b,
                    BinOp::Sub => &a - &b,
                    BinOp::Mul => &a * &b,
                    BinOp::FloorDiv => a.floordiv(&b),
                    BinOp::Min => a.min(&b),
                    BinOp::Max => a.max(&b),
                    _ => return None,
                });
            }
            _ => return None,
        }
    }
    out.pop().filter(Dim::is_known)
}
