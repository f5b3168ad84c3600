//! Fast paths of frequent builtins, executed without an argument list.

use relax_loops::BinOp;
use relax_tensor::DType;

use super::Machine;
use crate::builtin::{Builtin, Plain};
use crate::code::Arg;
use crate::fault::Trouble;
use crate::value::{Node, Value};

impl Machine<'_> {
    /// Returns a reference to an argument's value; `None` if it is not stored anywhere.
    #[inline]
    pub(super) fn look(&self, arg: Arg, base: usize) -> Option<&Value> {
        match arg {
            Arg::Reg(r) | Arg::Last(r) => Some(&self.registers[base + r as usize]),
            Arg::Const(c) => Some(&self.consts[c as usize]),
            Arg::Void | Arg::Int(_) | Arg::Func(_) => None,
        }
    }

    /// Empties the register of a moved argument.
    #[inline]
    fn give_up(&mut self, arg: Arg, base: usize) {
        if let Arg::Last(r) = arg {
            self.registers[base + r as usize] = Value::Void;
        }
    }

    /// Executes a frequent builtin without an argument list; `None` for other builtins.
    #[inline]
    pub(super) fn quick(
        &mut self,
        b: Builtin,
        args: &[Arg],
        base: usize,
    ) -> Result<Option<Value>, Box<Trouble>> {
        let wrong = || Trouble::malformed(format_args!("an argument of {b} is of another kind"));
        let Builtin::Plain(plain) = b else {
            return self.scalar(b, args, base);
        };
        Ok(Some(match plain {
            Plain::Copy => self.read(args[0], base),
            Plain::Kill => {
                self.give_up(args[0], base);
                Value::Void
            }
            Plain::GetTag => match self.look(args[0], base).and_then(Value::node) {
                Some(Node::Adt(tag, _)) => {
                    let tag = u64::from(*tag);
                    self.give_up(args[0], base);
                    Value::Scalar(DType::I64, tag)
                }
                _ => return Err(wrong()),
            },
            Plain::GetItem => {
                let (whole, Arg::Int(index)) = (args[0], args[1]) else {
                    return Ok(None);
                };
                let fields = match self.look(whole, base).and_then(Value::node) {
                    Some(Node::Tuple(f) | Node::Adt(_, f) | Node::Closure(_, f)) => f,
                    _ => return Err(wrong()),
                };
                let found = usize::try_from(index).ok().and_then(|i| fields.get(i));
                let found = found.ok_or_else(wrong)?.clone();
                self.give_up(whole, base);
                found
            }
            Plain::Element => {
                let found = self.look(args[0], base).and_then(Value::scalar);
                let (dtype, bits) = found.ok_or_else(wrong)?;
                self.give_up(args[0], base);
                Value::Scalar(dtype, bits)
            }
            _ => return Ok(None),
        }))
    }

    /// Executes a scalar function without an argument list; `None` for other builtins.
    #[inline]
    fn scalar(&self, b: Builtin, args: &[Arg], base: usize) -> Result<Option<Value>, Box<Trouble>> {
        let bits = |at: usize, dtype| match args[at] {
            Arg::Reg(r) | Arg::Last(r) => match &self.registers[base + r as usize] {
                Value::Scalar(d, bits) if *d == dtype => Ok(*bits),
                _ => Err(wrong_scalar(b)),
            },
            Arg::Int(v) if dtype == DType::I64 => Ok(v as u64),
            Arg::Const(c) => match &self.consts[c as usize] {
                Value::Scalar(d, bits) if *d == dtype => Ok(*bits),
                _ => Err(wrong_scalar(b)),
            },
            _ => Err(wrong_scalar(b)),
        };
        let (dtype, result) = match b {
            Builtin::Plain(_) => return Ok(None),
            Builtin::Unary(op, t) => {
                let test = matches!(
                    op,
                    relax_loops::UnOp::IsNan
                        | relax_loops::UnOp::IsInf
                        | relax_loops::UnOp::IsFinite
                );
                let out = if test { DType::BOOL } else { t };
                (out, relax_loops::scalar::unary(op, t, bits(0, t)?))
            }
            Builtin::Binary(op, t) => {
                let out = if op.is_comparison() { DType::BOOL } else { t };
                let (a, b) = (bits(0, t)?, bits(1, t)?);
                let result = common(op, t, a, b);
                (
                    out,
                    result.or_else(|| relax_loops::scalar::binary(op, t, a, b)),
                )
            }
            Builtin::Cast(from, to) => (to, relax_loops::scalar::cast(from, to, bits(0, from)?)),
            Builtin::Bits(from, to) => (to, Some(bits(0, from)?)),
        };
        match result {
            Some(bits) => Ok(Some(Value::Scalar(dtype, bits))),
            None => Err(wrong_scalar(b)),
        }
    }
}

/// Evaluates frequent binary functions, equivalently to [`relax_loops::scalar::binary`].
#[inline]
fn common(op: BinOp, dtype: DType, a: u64, b: u64) -> Option<u64> {
    macro_rules! of {
        ($a:expr, $b:expr, $add:expr, $sub:expr, $mul:expr) => {{
            let (a, b) = ($a, $b);
            Some(match op {
                BinOp::Add => $add(a, b),
                BinOp::Sub => $sub(a, b),
                BinOp::Mul => $mul(a, b),
                BinOp::Eq => u64::from(a == b),
                BinOp::Ne => u64::from(a != b),
                BinOp::Lt => u64::from(a < b),
                BinOp::Le => u64::from(a <= b),
                BinOp::Gt => u64::from(a > b),
                BinOp::Ge => u64::from(a >= b),
                _ => return None,
            })
        }};
    }
    match dtype {
        DType::I64 => of!(
            a as i64,
            b as i64,
            |a: i64, b| a.wrapping_add(b) as u64,
            |a: i64, b| a.wrapping_sub(b) as u64,
            |a: i64, b| a.wrapping_mul(b) as u64
        ),
        DType::I32 => of!(
            a as i32,
            b as i32,
            |a: i32, b| u64::from(a.wrapping_add(b) as u32),
            |a: i32, b| u64::from(a.wrapping_sub(b) as u32),
            |a: i32, b| u64::from(a.wrapping_mul(b) as u32)
        ),
        DType::F32 => of!(
            f32::from_bits(a as u32),
            f32::from_bits(b as u32),
            |a: f32, b: f32| u64::from((a + b).to_bits()),
            |a: f32, b: f32| u64::from((a - b).to_bits()),
            |a: f32, b: f32| u64::from((a * b).to_bits())
        ),
        _ => None,
    }
}

fn wrong_scalar(b: Builtin) -> Box<Trouble> {
    Trouble::malformed(format_args!("an argument of {b} is not of its type"))
}
