//! Run-time checks of values against types: kinds, ranks, element types and extents.

use std::sync::Arc;

use relax_base::Symbol;
use relax_ir::{Module, Shape, Type, TypeId};
use relax_loops::{Ex, Var};
use relax_sym::{Atom, Dim, DimVar};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::described::describe;
use crate::lir::{Hold, Inst, Kind, Reg};

/// Collects the instructions that check values. A dimension variable without a value gets that of
/// the first extent that is the variable alone; the contents of data values and functions are not
/// checked: inference has done so.
pub(crate) struct TypeCheck<'a> {
    m: &'a Module,
    insts: Vec<Inst>,
    regs: &'a mut Vec<Hold>,
    /// Dimensions with the register that holds each.
    dims: FxHashMap<DimVar, Ex>,
    /// Extents that are expressions: they are checked when all variables are known.
    later: Vec<(Dim, Ex, Symbol, u32)>,
}

impl<'a> TypeCheck<'a> {
    /// Creates an empty check; `regs` is the function's list of registers.
    pub fn new(m: &'a Module, regs: &'a mut Vec<Hold>) -> TypeCheck<'a> {
        TypeCheck {
            m,
            insts: Vec::new(),
            regs,
            dims: FxHashMap::default(),
            later: Vec::new(),
        }
    }

    /// Records a dimension variable as an extent of a value, whose instruction is added.
    pub fn known(&mut self, v: DimVar, src: Reg, axis: u32) {
        if !self.dims.contains_key(&v) {
            let dst = self.reg(true);
            self.insts.push(Inst::Dim { dst, src, axis });
            self.dims.insert(v, Ex::var(Var(dst.0), DType::I64));
        }
    }

    fn reg(&mut self, dim: bool) -> Reg {
        self.regs.push(if dim { Hold::Dim } else { Hold::Value });
        Reg(self.regs.len() as u32 - 1)
    }

    /// Checks kinds, ranks and element types of all parts of a value from outside, including data
    /// values and functions.
    pub fn whole(&mut self, ty: TypeId, src: Reg, place: Symbol) {
        if let Some(described) = describe(self.m, ty) {
            let described = Arc::new(described);
            self.insts.push(Inst::CheckValue {
                src,
                described,
                place,
            });
        }
    }

    /// Checks a value and its parts.
    pub fn value(&mut self, ty: TypeId, r: Reg, place: Symbol) {
        let m = self.m;
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
    pub fn finish(mut self) -> Vec<Inst> {
        for (d, found, place, axis) in std::mem::take(&mut self.later) {
            let Some(expected) = relax_ir::dim_to_ex(&d, |v| self.dims.get(&v).cloned()) else {
                // A variable that occurs only in expressions: the body fails where it needs it.
                continue;
            };
            self.insts.push(Inst::CheckDims {
                a: expected,
                b: found,
                or_one: false,
                place,
                message: match d.as_const() {
                    Some(_) => Symbol::new(&format!("axis {axis} should be {{}}, but is {{}}")),
                    None => {
                        let d = self.m.show_dim(&d);
                        Symbol::new(&format!("axis {axis}, {d}, should be {{}}, but is {{}}"))
                    }
                },
            });
        }
        self.insts
    }
}
