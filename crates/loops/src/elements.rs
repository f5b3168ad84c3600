//! Programs that are generic in element types.
//!
//! The computation of an `op` item is written once. Where a tensor's element type is a type parameter
//! of the item, its program has a [`DType::param`]: buffers and expressions of this type, numbers as
//! they are written. Of such a program nothing is executed; [`Program::at_types`] gives the program
//! for the element types of a call. With narrow floats several operations are done in float32, and
//! rounded once, as those of built-in operators are.

use std::fmt;

use relax_tensor::DType;

use crate::exec::{binary_exists, unary_exists};
use crate::verify::computes;
use crate::{
    BinOp, Buf, Buffer, Compute, Ex, ExKind, Program, Role, Stage, UnOp, map_expr, visit_expr,
};

/// Returns the type in which several operations on such values are done, as sums of them are: narrow
/// floats lack the precision.
pub fn wide(dtype: DType) -> DType {
    match dtype.is_float() && dtype.bits == 16 {
        true => DType::F32,
        false => dtype,
    }
}

/// Returns the number of operations in an expression whose results are rounded.
pub fn roundings(e: &Ex) -> usize {
    let mut count = 0;
    visit_expr(e, |e| {
        count += usize::from(match e.kind() {
            _ if e.dtype().is_integral() => false,
            ExKind::Unary(op, _) => !matches!(op, UnOp::Neg | UnOp::Abs),
            ExKind::Binary(op, ..) => {
                matches!(
                    op,
                    BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Pow
                )
            }
            _ => false,
        });
    });
    count
}

/// What a program computes for no elements of some type.
#[derive(Clone, PartialEq, Debug)]
pub enum Unfit {
    /// Anything: nothing is computed with such elements.
    Elements,
    /// A function, by its name in texts.
    Function(&'static str),
    /// A whole number that is none of the type.
    Integer(i64),
    /// A number that may have a fraction.
    Float(f64),
    /// A variable of floats, whose value would lose its fraction.
    Variable(relax_base::Symbol),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Elements => f.write_str("nothing is computed with them"),
            Unfit::Function(name) => write!(f, "it applies `{name}` to them"),
            Unfit::Integer(value) => write!(f, "it has the number {value} among them"),
            Unfit::Float(value) => write!(f, "it has the number {value:?} among them"),
            Unfit::Variable(name) => write!(f, "it has `{name}` among them, which is a float"),
        }
    }
}

impl Program {
    /// Returns the first part of the computations that has no meaning where the type parameter with
    /// this index stands for `dtype`; `None` where all have one.
    pub fn unfit(&self, index: u8, dtype: DType) -> Option<Unfit> {
        if !computes(dtype) {
            return Some(Unfit::Elements);
        }
        let param = DType::param(index);
        let mut found = None;
        for root in self.computed() {
            visit_expr(root, |e| {
                if found.is_none() {
                    found = self.node_unfit(e, param, dtype);
                }
            });
        }
        found
    }

    /// Returns the expressions of the computations.
    fn computed(&self) -> impl Iterator<Item = &Ex> {
        self.stages
            .iter()
            .filter_map(computation)
            .flat_map(|compute| {
                let extents = compute.reduce.iter().flat_map(|r| &r.axes).map(|a| &a.1);
                extents.chain([&compute.value])
            })
    }

    fn node_unfit(&self, e: &Ex, param: DType, dtype: DType) -> Option<Unfit> {
        let function = |name, exists: bool| (!exists).then_some(Unfit::Function(name));
        match e.kind() {
            ExKind::Int(v) if e.dtype() == param => {
                let fits = match dtype.int_range() {
                    Some((least, most)) => (least..=most).contains(&i128::from(*v)),
                    None => true,
                };
                (!fits || dtype.is_bool()).then_some(Unfit::Integer(*v))
            }
            ExKind::Float(v) if e.dtype() == param => {
                (!dtype.is_float()).then_some(Unfit::Float(*v))
            }
            ExKind::Unary(op, a) if a.dtype() == param => {
                function(op.name(), unary_exists(*op, dtype))
            }
            ExKind::Binary(op, a, _) if a.dtype() == param => {
                let name = op.call().unwrap_or(op.name());
                let chosen = matches!(op, BinOp::Min | BinOp::Max) || op.is_comparison();
                let truth = chosen || matches!(op, BinOp::And | BinOp::Or | BinOp::Xor);
                let exists = truth || !dtype.is_bool();
                function(name, exists && binary_exists(*op, dtype))
            }
            ExKind::Cast(a) if e.dtype() == param && !dtype.is_float() => {
                self.attribute(a).map(Unfit::Variable)
            }
            _ => None,
        }
    }

    /// Returns a variable of floats that an expression of variables and numbers alone contains.
    fn attribute(&self, e: &Ex) -> Option<relax_base::Symbol> {
        let (mut variable, mut reads) = (None, false);
        visit_expr(e, |e| match e.kind() {
            ExKind::Load(..) => reads = true,
            ExKind::Var(v) if e.dtype().is_float() => variable = Some(self.vars[*v].name),
            _ => {}
        });
        variable.filter(|_| !reads)
    }

    /// Returns the program of computations in which type parameters stand for the types that `of`
    /// gives for their indices.
    pub fn at_types(&self, of: &dyn Fn(u8) -> DType) -> Program {
        let computes = || self.stages.iter().filter_map(computation);
        let sums = computes().any(|c| c.reduce.is_some());
        let several = sums || computes().any(|c| roundings(&c.value) > 1);
        let inside = |dtype: DType| match several {
            true => wide(dtype),
            false => dtype,
        };
        let mut program = self.clone();
        for buffer in program.bufs.values_mut() {
            if let Some(param) = buffer.dtype.as_param() {
                let dtype = of(param);
                buffer.dtype = match buffer.role {
                    Role::Temp => inside(dtype),
                    _ => dtype,
                };
            }
        }
        let bufs = program.bufs.clone();
        let at = |e: &Ex| {
            map_expr(e, |e| {
                let dtype = inside(of(e.dtype().as_param()?));
                Some(match e.kind() {
                    ExKind::Int(v) => Ex::int(dtype, *v),
                    ExKind::Float(v) => Ex::float(dtype, *v),
                    ExKind::Cast(a) => a.cast(dtype),
                    ExKind::Load(buf, _) => Ex::new(e.kind().clone(), bufs[*buf].dtype).cast(dtype),
                    kind => Ex::new(kind.clone(), dtype),
                })
            })
        };
        for stage in std::mem::take(&mut program.stages) {
            let Stage::Compute(mut compute) = stage else {
                program.stages.push(stage);
                continue;
            };
            compute.value = at(&compute.value);
            for (_, extent) in compute.reduce.iter_mut().flat_map(|r| &mut r.axes) {
                *extent = at(extent);
            }
            program.push_rounded(compute);
        }
        program
    }

    /// Adds a computation, of values that may be wider than the elements of its buffer.
    fn push_rounded(&mut self, mut compute: Compute) {
        let (out, dtype) = (compute.out, self.bufs[compute.out].dtype);
        if compute.reduce.is_none() || compute.value.dtype() == dtype {
            compute.value = compute.value.cast(dtype);
            self.stages.push(Stage::Compute(compute));
            return;
        }
        let sums: Buf = self.bufs.push(Buffer {
            name: self.bufs[out].name,
            dtype: compute.value.dtype(),
            shape: self.bufs[out].shape.clone(),
            role: Role::Temp,
        });
        // Each stage has its own variables.
        let (mut axes, mut index) = (Vec::new(), Vec::new());
        for &axis in &compute.axes {
            let info = self.vars[axis].clone();
            let dtype = info.dtype;
            axes.push(self.vars.push(info));
            index.extend(axes.last().map(|&v| Ex::var(v, dtype)));
        }
        let value = Ex::new(ExKind::Load(sums, index), compute.value.dtype()).cast(dtype);
        compute.out = sums;
        self.stages.push(Stage::Compute(compute));
        self.stages.push(Stage::Compute(Compute {
            out,
            axes,
            reduce: None,
            value,
        }));
    }
}

fn computation(stage: &Stage) -> Option<&Compute> {
    match stage {
        Stage::Compute(compute) => Some(compute),
        Stage::Nest(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use relax_base::Symbol;

    use super::*;
    use crate::{Combiner, Reduce, VarInfo};

    const T: DType = DType::param(0);

    /// `value` of the elements of an input, for each index.
    fn program(value: impl FnOnce(&mut Program, Ex) -> Ex) -> Program {
        let mut p = Program::new("p");
        let mut buffer = |name: &str, role| {
            p.bufs.push(Buffer {
                name: Symbol::new(name),
                dtype: T,
                shape: vec![Ex::idx(4)],
                role,
            })
        };
        let (x, out) = (buffer("x", Role::Input), buffer("out", Role::Output));
        p.inputs.push(x);
        p.outputs.push(out);
        let (axis, i) = p.fresh("i", DType::I64);
        let element = Ex::new(ExKind::Load(x, vec![i]), T);
        let value = value(&mut p, element);
        p.stages.push(Stage::Compute(Compute {
            out,
            axes: vec![axis],
            reduce: None,
            value,
        }));
        p
    }

    fn value(p: &Program) -> &Ex {
        p.computed().last().expect("one computation")
    }

    #[test]
    fn numbers_take_the_types_of_the_call() {
        let p = program(|_, x| &(&x * Ex::float(T, 0.1)) + &Ex::int(T, 3));
        let single = p.at_types(&|_| DType::F32);
        assert!(crate::verify(&single).problems.is_empty());
        let mut constants = Vec::new();
        visit_expr(value(&single), |e| {
            constants.extend(e.as_float().filter(|_| e.dtype() == DType::F32));
        });
        assert_eq!(
            constants,
            [Ex::float(DType::F32, 0.1).as_float().unwrap(), 3.0]
        );
        assert_eq!(p.unfit(0, DType::F64), None);
        assert_eq!(p.unfit(0, DType::I32), Some(Unfit::Float(0.1)));
        assert_eq!(p.unfit(0, DType::VOID), Some(Unfit::Elements));
        // Another parameter's type does not matter to it.
        assert_eq!(p.unfit(1, DType::I32), None);
    }

    #[test]
    fn narrow_floats_are_rounded_once() {
        let once = program(|_, x| &x * &x).at_types(&|_| DType::F16);
        assert!(matches!(value(&once).kind(), ExKind::Binary(..)));
        let twice = program(|_, x| &(&x * &x) + &x).at_types(&|_| DType::BF16);
        assert!(crate::verify(&twice).problems.is_empty());
        let ExKind::Cast(sum) = value(&twice).kind() else {
            panic!("{twice:?}");
        };
        assert_eq!(
            (value(&twice).dtype(), sum.dtype()),
            (DType::BF16, DType::F32)
        );
        let wider = program(|_, x| &(&x * &x) + &x).at_types(&|_| DType::F64);
        assert!(matches!(value(&wider).kind(), ExKind::Binary(..)));
    }

    #[test]
    fn conversions_vanish_or_appear() {
        let p = program(|_, x| x.cast(DType::F32).unary(UnOp::Exp).cast(T));
        let same = p.at_types(&|_| DType::F32);
        assert!(matches!(value(&same).kind(), ExKind::Unary(UnOp::Exp, x)
            if matches!(x.kind(), ExKind::Load(..))));
        let byte = p.at_types(&|_| DType::U8);
        assert!(crate::verify(&byte).problems.is_empty());
        assert!(matches!(value(&byte).kind(), ExKind::Cast(_)));
        assert_eq!(p.unfit(0, DType::U8), None);
    }

    #[test]
    fn functions_and_numbers_say_what_fits() {
        let unary = |op| program(|_, x| x.unary(op));
        let binary = |op| program(|_, x| x.binary(op, &x).cast(T));
        let number = |v| program(|_, x| x.binary(BinOp::Max, &Ex::int(T, v)));
        for (p, dtype, fits) in [
            (unary(UnOp::Exp), DType::BF16, true),
            (unary(UnOp::Exp), DType::I32, false),
            (unary(UnOp::Popcount), DType::U16, true),
            (unary(UnOp::Popcount), DType::F32, false),
            (unary(UnOp::Floor), DType::I8, true),
            (binary(BinOp::Add), DType::I8, true),
            (binary(BinOp::Add), DType::BOOL, false),
            (binary(BinOp::Xor), DType::BOOL, true),
            (binary(BinOp::Lt), DType::BOOL, true),
            (number(127), DType::I8, true),
            (number(128), DType::I8, false),
            (number(-1), DType::U64, false),
            (number(1), DType::BOOL, false),
        ] {
            assert_eq!(p.unfit(0, dtype).is_none(), fits, "{dtype} in {p:?}");
        }
    }

    #[test]
    fn attributes_of_floats_ask_for_floats() {
        let p = program(|p, x| {
            let name = Symbol::new("factor");
            let dtype = DType::F64;
            let var = p.vars.push(VarInfo { name, dtype });
            &x * &Ex::var(var, dtype).cast(T)
        });
        assert_eq!(p.unfit(0, DType::F16), None);
        assert_eq!(
            p.unfit(0, DType::I64),
            Some(Unfit::Variable("factor".into()))
        );
    }

    #[test]
    fn reductions_are_of_the_parameter_too() {
        let mut p = program(|_, x| x);
        let (var, _) = p.fresh("k", DType::I64);
        if let Stage::Compute(c) = &mut p.stages[0] {
            let axes = vec![(var, Ex::idx(4))];
            let combiner = Combiner::Max;
            c.reduce = Some(Reduce { axes, combiner });
        }
        assert!(crate::same_program(&p, &p.clone()));
        let bytes = p.at_types(&|_| DType::I8);
        assert!(crate::verify(&bytes).problems.is_empty());
        assert!(!crate::same_program(&p, &bytes));
        assert_eq!(bytes.stages.len(), 1);
        // Sums of narrow floats are wide, and rounded in a stage of its own.
        let half = p.at_types(&|_| DType::F16);
        assert!(crate::verify(&half).problems.is_empty(), "{half:?}");
        assert_eq!(half.stages.len(), 2);
    }
}
