//! The element types of calls of `op` items: what a type parameter may stand for follows from the
//! computation, so that it is a relation of the item, as operators have theirs.

use relax_base::Id;
use relax_ir::{AttrsId, Constraint, DTy, NoProgram, OpId, RelRef, Type, TypeId};
use relax_ops::{RelResult, Stop, Subject};
use relax_tensor::DType;

use crate::relations::refusal;
use crate::solver::Solver;
use crate::unknown::Lit;

impl Solver<'_> {
    /// Returns the relation of an item's operands and its result; `None` where their types say all.
    pub fn item_relation(&self, op: OpId, args: &[TypeId], ret: TypeId) -> Option<Constraint> {
        let item = self.m.user_op(op)?;
        item.element_params(&self.types).next()?;
        Some(Constraint {
            rel: RelRef::Op(op, AttrsId::NONE),
            args: args.iter().copied().chain([ret]).collect(),
        })
    }

    /// Runs the relation of an item: refuses operands of element types that it does not compute
    /// with.
    pub fn run_item(&mut self, op: OpId, args: &[TypeId]) -> RelResult {
        let Some(item) = self.m.user_op(op) else {
            return Ok(());
        };
        let mut open = false;
        for (i, &arg) in args.iter().enumerate() {
            let Some(param) = item.element_param(&self.types, i) else {
                continue;
            };
            let ty = self.resolve(arg);
            let dtype = match &self.types[ty] {
                Type::Tensor(tensor) => tensor.dtype,
                Type::Infer(_) => {
                    open = true;
                    continue;
                }
                _ => continue,
            };
            match self.head_dtype(dtype) {
                DTy::Known(dtype) => {
                    if let Some(unfit) = item.unfit(param, dtype) {
                        let why = NoProgram::NoElements(item.name, dtype, unfit);
                        return Err(refusal(Subject::Arg(i), why.to_string()));
                    }
                }
                DTy::Infer(v) => {
                    open = true;
                    let only_floats = || {
                        item.unfit(param, DType::I32).is_some()
                            && item.unfit(param, DType::F32).is_none()
                    };
                    let lit = &mut self.unknowns[v.index()].lit;
                    if *lit == Lit::Int && only_floats() {
                        *lit = Lit::Float;
                    }
                }
                // Checked at each call.
                DTy::Param(_) | DTy::Unknown => {}
            }
        }
        if open { Err(Stop::Wait) } else { Ok(()) }
    }
}
