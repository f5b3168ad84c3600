//! Scalar functions on one element, with their semantics in a tensor program.
//!
//! An element is its bits as in memory, zero-extended to 64.

use relax_tensor::DType;

use super::num::{self, Class, Num};
use crate::{BinOp, UnOp};

impl Num {
    /// Converts bits in memory to an integer lane.
    fn lane(self, bits: u64) -> i64 {
        self.wrap(bits as i64)
    }
    /// Converts an integer lane to bits in memory.
    fn store(self, lane: i64) -> u64 {
        match self {
            Num::Bool => u64::from(lane != 0),
            Num::I(b) | Num::U(b) if b < 64 => lane as u64 & ((1 << b) - 1),
            _ => lane as u64,
        }
    }
}

/// Evaluates a unary function of an element; tests (`IsNan`) yield a `bool`. `None` where the
/// function is not defined on the type.
pub fn unary(op: UnOp, dtype: DType, a: u64) -> Option<u64> {
    let num = Num::of(dtype).filter(|&n| num::unary_exists(op, n))?;
    let test = matches!(op, UnOp::IsNan | UnOp::IsInf | UnOp::IsFinite);
    let mut flag = [0i64];
    Some(match num.class() {
        Class::Int => {
            num::int_unary(op, num, &mut flag, &[num.lane(a)]);
            if test {
                flag[0] as u64
            } else {
                num.store(flag[0])
            }
        }
        Class::Single => {
            let a = [num::single_from_bits(num, a)];
            if test {
                num::float_test(op, &mut flag, &a);
                return Some(flag[0] as u64);
            }
            let mut d = [0f32];
            num::single_unary(op, &mut d, &a);
            num::single_bits(num, d[0])
        }
        Class::Double => {
            let a = [f64::from_bits(a)];
            if test {
                num::float_test(op, &mut flag, &a);
                return Some(flag[0] as u64);
            }
            let mut d = [0f64];
            num::double_unary(op, &mut d, &a);
            d[0].to_bits()
        }
    })
}

/// Evaluates a binary function of two elements; comparisons yield a `bool`. `None` where the
/// function is not defined on the type.
pub fn binary(op: BinOp, dtype: DType, a: u64, b: u64) -> Option<u64> {
    let num = Num::of(dtype).filter(|&n| num::binary_exists(op, n))?;
    let mut flag = [0i64];
    Some(match num.class() {
        Class::Int => {
            num::int_binary(op, num, &mut flag, &[num.lane(a)], &[num.lane(b)]);
            if op.is_comparison() {
                flag[0] as u64
            } else {
                num.store(flag[0])
            }
        }
        Class::Single => {
            let (a, b) = (num::single_from_bits(num, a), num::single_from_bits(num, b));
            if op.is_comparison() {
                num::single_compare(op, &mut flag, &[a], &[b]);
                return Some(flag[0] as u64);
            }
            let mut d = [0f32];
            num::single_binary(op, &mut d, &[a], &[b]);
            num::single_bits(num, d[0])
        }
        Class::Double => {
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            if op.is_comparison() {
                num::double_compare(op, &mut flag, &[a], &[b]);
                return Some(flag[0] as u64);
            }
            let mut d = [0f64];
            num::double_binary(op, &mut d, &[a], &[b]);
            d[0].to_bits()
        }
    })
}

/// Converts an element to another type. `None` for types that tensor programs do not compute with.
pub fn cast(from: DType, to: DType, a: u64) -> Option<u64> {
    let (from, to) = (Num::of(from)?, Num::of(to)?);
    let single = num::single_from_bits;
    Some(match (from.class(), to.class()) {
        (Class::Int, Class::Int) => to.store(to.wrap(from.lane(a))),
        (Class::Single, Class::Int) => {
            let mut d = [0];
            num::cast_float_int(to, &mut d, &[single(from, a)]);
            to.store(d[0])
        }
        (Class::Double, Class::Int) => {
            let mut d = [0];
            num::cast_float_int(to, &mut d, &[f64::from_bits(a)]);
            to.store(d[0])
        }
        (Class::Int, Class::Single) => {
            let mut d = [0.0];
            num::cast_int_single(from, to, &mut d, &[from.lane(a)]);
            num::single_bits(to, d[0])
        }
        (Class::Single, Class::Single) => num::single_bits(to, single(from, a)),
        (Class::Double, Class::Single) => {
            let mut d = [0.0];
            num::cast_double_single(to, &mut d, &[f64::from_bits(a)]);
            num::single_bits(to, d[0])
        }
        (Class::Int, Class::Double) => {
            let mut d = [0.0];
            num::cast_int_double(from, &mut d, &[from.lane(a)]);
            d[0].to_bits()
        }
        (Class::Single, Class::Double) => f64::from(single(from, a)).to_bits(),
        (Class::Double, Class::Double) => a,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Ex, execute};
    use relax_tensor::Tensor;

    fn bits(t: &Tensor) -> u64 {
        let mut word = [0; 8];
        word[..t.bytes().len()].copy_from_slice(t.bytes());
        u64::from_le_bytes(word)
    }

    /// Computes one element by executing a program of one element.
    fn executed(value: impl Fn(Ex) -> Ex, input: &Tensor) -> Option<u64> {
        let mut b = Builder::new("one");
        let x = b.input("x", input.dtype(), &[]);
        let y = b.compute("y", &[], |_| value(x.scalar()));
        b.output(&y);
        let outputs = execute(&b.program, std::slice::from_ref(input)).ok()?;
        Some(bits(&outputs[0]))
    }

    #[test]
    fn a_scalar_is_computed_as_an_element_is() {
        let types = [
            DType::BOOL,
            DType::I8,
            DType::U8,
            DType::I32,
            DType::U64,
            DType::F16,
            DType::BF16,
            DType::F32,
            DType::F64,
        ];
        let mut compared = 0;
        for dtype in types {
            for seed in [0.0, 1.0, 2.5, 100.0, 250.0] {
                let t = Tensor::scalar_f64(dtype, seed);
                for op in [
                    UnOp::Neg,
                    UnOp::Abs,
                    UnOp::Exp,
                    UnOp::Sqrt,
                    UnOp::Floor,
                    UnOp::IsNan,
                    UnOp::Popcount,
                ] {
                    let Some(own) = unary(op, dtype, bits(&t)) else {
                        continue;
                    };
                    let Some(told) = executed(|x| x.unary(op), &t) else {
                        continue;
                    };
                    assert_eq!(own, told, "{op:?} of {seed} as {dtype}");
                    compared += 1;
                }
                for op in [
                    BinOp::Add,
                    BinOp::Mul,
                    BinOp::Sub,
                    BinOp::FloorDiv,
                    BinOp::FloorMod,
                    BinOp::Lt,
                    BinOp::Max,
                    BinOp::Pow,
                ] {
                    let other = Tensor::scalar_f64(dtype, 3.0);
                    let Some(own) = binary(op, dtype, bits(&t), bits(&other)) else {
                        continue;
                    };
                    let three = if dtype.is_float() {
                        Ex::float(dtype, 3.0)
                    } else {
                        Ex::int(dtype, 3)
                    };
                    let Some(told) = executed(|x| x.binary(op, &three), &t) else {
                        continue;
                    };
                    assert_eq!(own, told, "{op:?} of {seed} as {dtype}");
                    compared += 1;
                }
                for to in types {
                    let own = cast(dtype, to, bits(&t)).expect("all of these are computed with");
                    let told = executed(|x| x.cast(to), &t).expect("it runs");
                    assert_eq!(own, told, "{seed} of {dtype} as {to}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 800, "{compared}");
    }
}
