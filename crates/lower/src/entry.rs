//! What callers from outside hand over is checked against the signature before anything runs.
//!
//! Inside a program types hold by inference; a caller from C, Rust or Python has only read them. An
//! entry therefore starts with a function that compares kinds, ranks, element types and extents of
//! all arguments, and fails with the parameter's place and both values.

use relax_base::Symbol;
use relax_ir::{GlobalId, GlobalKind, Shape, Type};
use relax_loops::{Ex, Var};
use relax_sym::{Atom, Dim, DimVar};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::Lowering;
use crate::lir::{Block, BlockId, FnId, Hold, Inst, Kind, LFunc, Reg, Term};

/// The function that checks the arguments of `g` and goes on at `func`.
pub(crate) fn checked(lw: &mut Lowering<'_>, g: GlobalId, func: FnId) -> FnId {
    let m = lw.m;
    let GlobalKind::Func(function) = m.globals[g].kind else {
        return func;
    };
    let function = &m.funcs[function];
    let params: Vec<Reg> = (0..function.params.len() as u32).map(Reg).collect();
    let mut e = Entry {
        insts: Vec::new(),
        regs: vec![Hold::Value; params.len()],
        dims: FxHashMap::default(),
        later: Vec::new(),
    };
    for (&p, &r) in function.params.iter().zip(&params) {
        let at = (lw.place)(m.vars[p].span);
        let place = Symbol::new(&format!("{at}: %{}", m.vars[p].name));
        e.value(m, lw.typing.vars[p], r, place);
    }
    e.expressions();
    let name = Symbol::new(&format!("{}.checked", m.globals[g].name));
    let mut f = LFunc::new(name, None, function.span);
    f.params.clone_from(&params);
    f.regs = e.regs;
    f.forms.is_entry = true;
    f.blocks.push(Block {
        params: Vec::new(),
        insts: e.insts,
        term: Term::TailCall {
            func,
            args: params,
            lent: Vec::new(),
        },
    });
    debug_assert_eq!(f.blocks.ids().next(), Some(BlockId(0)));
    lw.out.funcs.push(f)
}

struct Entry {
    insts: Vec<Inst>,
    regs: Vec<Hold>,
    /// Dimensions with the register that holds each.
    dims: FxHashMap<DimVar, Ex>,
    /// Extents that are expressions: they wait until all variables are known.
    later: Vec<(Dim, Ex, Symbol, u32)>,
}

impl Entry {
    fn reg(&mut self, dim: bool) -> Reg {
        self.regs.push(if dim { Hold::Dim } else { Hold::Value });
        Reg(self.regs.len() as u32 - 1)
    }

    /// Checks a value and its parts.
    fn value(&mut self, m: &relax_ir::Module, ty: relax_ir::TypeId, r: Reg, place: Symbol) {
        let mut work = vec![(ty, r, place)];
        while let Some((ty, src, place)) = work.pop() {
            if ty.0 as usize >= m.types.len() {
                continue;
            }
            let kind = match &m.types[ty] {
                Type::Tensor(_) => Kind::Tensor,
                Type::Shape(_) => Kind::Shape,
                Type::Tuple(fields) => Kind::Tuple(fields.len() as u32),
                Type::Adt(adt, _) if !m.adts[*adt].opaque => Kind::Adt,
                _ => continue,
            };
            self.insts.push(Inst::CheckKind { src, kind, place });
            match &m.types[ty] {
                Type::Tensor(t) => {
                    let rank = t.shape.dims().map(|d| d.len() as u32);
                    let dtype = t.dtype.known();
                    self.insts.push(Inst::CheckTensor {
                        src,
                        rank,
                        dtype,
                        place,
                    });
                    self.extents(&t.shape, src, place);
                }
                Type::Shape(shape) => {
                    let rank = shape.dims().map(|d| d.len() as u32);
                    self.insts.push(Inst::CheckTensor {
                        src,
                        rank,
                        dtype: None,
                        place,
                    });
                    self.extents(shape, src, place);
                }
                Type::Tuple(fields) => {
                    for (index, &field) in fields.iter().enumerate() {
                        let dst = self.reg(false);
                        self.insts.push(Inst::Field {
                            dst,
                            src,
                            index: index as u32,
                        });
                        let place = Symbol::new(&format!("{place}.{index}"));
                        work.push((field, dst, place));
                    }
                }
                _ => {}
            }
        }
    }

    fn extents(&mut self, shape: &Shape, src: Reg, place: Symbol) {
        let dims = shape.dims().unwrap_or(&[]);
        for (axis, d) in dims.iter().enumerate() {
            let axis = axis as u32;
            if !d.is_known() {
                continue;
            }
            let dst = self.reg(true);
            self.insts.push(Inst::Dim { dst, src, axis });
            let found = Ex::var(Var(dst.0), DType::I64);
            match d.as_atom() {
                Some(Atom::Var(v)) if !self.dims.contains_key(&v) => {
                    self.dims.insert(v, found);
                }
                _ => self.later.push((d.clone(), found, place, axis)),
            }
        }
    }

    /// Checks the extents that are constants, variables bound before, or expressions.
    fn expressions(&mut self) {
        for (d, found, place, axis) in std::mem::take(&mut self.later) {
            let Some(expected) = relax_ir::dim_to_ex(&d, |v| self.dims.get(&v).cloned()) else {
                // A variable that no extent is alone: the body fails where it needs it.
                continue;
            };
            self.insts.push(Inst::CheckDims {
                a: expected,
                b: found,
                or_one: false,
                place,
                message: Symbol::new(&format!("axis {axis} should be {{}}, but is {{}}")),
            });
        }
    }
}
