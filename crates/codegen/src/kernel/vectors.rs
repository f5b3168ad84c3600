//! Stages as vector operations, through `rx_strips_f32` and `rx_sweep`.

use cranelift_codegen::ir::Value;
use relax_loops::Compute;
use relax_loops::select::vectors::{self, Form, Op, Operand, Read, Vectors, WINDOW_STEP};
use relax_loops::select::{strips, sweep};
use relax_runtime::kernels::combiner::Combiner as How;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::math::Math;
use relax_runtime::kernels::strips::{self as strip, Op as StripOp, RxStripOp, RxStrips};
use relax_runtime::kernels::sweep::{self as swept, INDEX, Op as SweepOp, RxSweep, RxSweepOp};
use relax_runtime::{abi, fields};
use relax_tensor::DType;

use super::encoding::{combiner, kind};
use super::{Kernel, Result, Unsupported};
use crate::scalar::words;

const _: () = assert!(vectors::AXES <= strip::AXES && vectors::AXES <= swept::AXES);
const _: () = assert!(strips::INPUTS <= strip::INPUTS && strips::OPS <= strip::OPS);
const _: () = assert!(sweep::INPUTS <= swept::INPUTS && sweep::OPERANDS <= swept::OPERANDS);
const _: () = assert!(WINDOW_STEP == swept::WINDOW_STEP);

/// An operation with numbered operands: the temporary that is written, and the arguments.
struct Numbered {
    to: i32,
    args: Vec<i32>,
}

/// The operations, with temporaries shared where their live ranges are disjoint, and the number of
/// temporaries. `in_place`: an operation may overwrite what it reads for the last time, since
/// element i of its result depends on elements i of its operands only.
fn numbered(v: &Vectors, in_place: bool) -> (Vec<Numbered>, usize) {
    let mut last = vec![0; v.steps.len()];
    for (k, step) in v.steps.iter().enumerate() {
        for a in &step.args {
            if let Operand::Temp(t) = a {
                last[*t] = k;
            }
        }
    }
    let (mut free, mut count) = (Vec::new(), 0);
    let mut place = vec![0usize; v.steps.len()];
    let first = v.inputs.len() + v.constants.len();
    let mut out = Vec::new();
    for (k, step) in v.steps.iter().enumerate() {
        let number = |a: &Operand| match *a {
            Operand::Input(i) => i as i32,
            Operand::Constant(c) => (v.inputs.len() + c) as i32,
            Operand::Temp(t) => (first + place[t]) as i32,
        };
        let args = step.args.iter().map(number).collect();
        let mut ending = Vec::new();
        for a in &step.args {
            if let Operand::Temp(t) = a
                && last[*t] == k
                && !ending.contains(&place[*t])
            {
                ending.push(place[*t]);
            }
        }
        if in_place {
            free.append(&mut ending);
        }
        place[k] = free.pop().unwrap_or_else(|| {
            count += 1;
            count - 1
        });
        free.append(&mut ending);
        // Unused results are free at once.
        if last[k] == 0 && k + 1 < v.steps.len() {
            free.push(place[k]);
        }
        let to = place[k] as i32;
        out.push(Numbered { to, args });
    }
    (out, count)
}

/// The number of an operation on strips; `None` for those that there are not.
fn on_strips(op: Op) -> Option<StripOp> {
    match op {
        Op::Copy => Some(StripOp::Copy),
        Op::SelectLt => Some(StripOp::SelectLt),
        Op::SelectLe => Some(StripOp::SelectLe),
        Op::SelectEq => Some(StripOp::SelectEq),
        Op::Unary(op) => StripOp::named(op.source_name()),
        Op::Binary(op) => StripOp::named(op.source_name()),
        Op::Select | Op::Cast | Op::Narrow | Op::MaxMin | Op::MinMax | Op::Rescale => None,
    }
}

/// The number of an operation of a sweep, and that of the function that it is a call of; `None` for
/// those that there are not.
fn in_sweeps(op: Op) -> Option<(SweepOp, Option<Math>)> {
    let plain = match op {
        Op::Copy => SweepOp::Copy,
        Op::Select => SweepOp::Select,
        Op::SelectLt => SweepOp::SelectLt,
        Op::SelectLe => SweepOp::SelectLe,
        Op::SelectEq => SweepOp::SelectEq,
        Op::Cast => SweepOp::Cast,
        Op::Narrow => SweepOp::Narrow,
        Op::MaxMin => SweepOp::MaxMin,
        Op::MinMax => SweepOp::MinMax,
        Op::Rescale => SweepOp::Rescale,
        Op::Unary(op) => match SweepOp::named(op.source_name()) {
            Some(plain) => plain,
            None => return Some((SweepOp::Math, Some(Math::named(op.source_name())?))),
        },
        Op::Binary(op) => match SweepOp::named(op.source_name()) {
            Some(plain) => plain,
            None => return Some((SweepOp::Math2, Some(Math::named(op.source_name())?))),
        },
    };
    Some((plain, None))
}

/// The type that elements are passed as: narrow floats that are only chosen among are integers of as
/// many bits.
fn as_held(v: &Vectors, result: DType, dtype: DType) -> DType {
    let narrow = |d: DType| matches!(d, DType::F16 | DType::BF16);
    let bits = narrow(result) && v.steps.last().is_some_and(|s| s.to == DType::U16);
    if bits && narrow(dtype) {
        DType::U16
    } else {
        dtype
    }
}

/// The error for an operation that the runtime does not have. A test holds that there is none.
fn unknown(op: Op) -> Unsupported {
    Unsupported(format!("the vector operation {op:?}"))
}

fn bytes(numbers: impl IntoIterator<Item = i32>) -> Vec<u8> {
    numbers.into_iter().flat_map(i32::to_le_bytes).collect()
}

/// What both forms take: numbers, and the addresses of what is read and written.
struct Arrays {
    extents: Vec<Value>,
    data: Vec<Value>,
    steps: Vec<Value>,
    out: Value,
}

impl Kernel<'_, '_, '_> {
    /// Emits a stage as vector operations.
    pub(super) fn vectors(&mut self, c: &Compute, v: &Vectors) -> Result<()> {
        match v.form {
            Form::Strips => self.strips(c, v),
            Form::Sweep => self.sweep(c, v),
        }
    }

    /// Emits what is read: the first element of each input, and its steps along all axes.
    fn arrays(&mut self, c: &Compute, v: &Vectors) -> Result<Arrays> {
        self.place(c.out)?;
        let out = self.places[&c.out].data;
        let extents: Vec<Value> = (v.axes.iter())
            .map(|(_, e)| self.eval(e))
            .collect::<Result<_>>()?;
        let (mut data, mut steps, mut checks) = (vec![], vec![], vec![]);
        for read in &v.inputs {
            match read {
                Read::Memory(input) => {
                    let (first, along) = self.input_steps(input, &v.axes, &extents, &mut checks)?;
                    data.push(first);
                    steps.extend(along);
                }
                Read::Index(along, rest) => {
                    data.push(self.eval(rest)?);
                    for step in along {
                        steps.push(self.eval(step)?);
                    }
                }
            }
        }
        if !checks.is_empty() {
            self.check_box(&extents, &checks);
        }
        Ok(Arrays {
            extents,
            data,
            steps,
            out,
        })
    }

    /// The element types of the inputs; that of an index is [`INDEX`].
    fn kinds(&self, c: &Compute, v: &Vectors) -> Vec<i32> {
        let result = self.program.bufs[c.out].dtype;
        let of = |r: &Read| match r {
            Read::Memory(input) => kind(as_held(v, result, self.program.bufs[input.buf].dtype)),
            Read::Index(..) => None,
        };
        let of = |r| of(r).map_or(INDEX, |k| k as i32);
        v.inputs.iter().map(of).collect()
    }

    fn strips(&mut self, c: &Compute, v: &Vectors) -> Result<()> {
        let arrays = self.arrays(c, v)?;
        let constants = v.constants.iter();
        let values: Vec<u8> = constants.flat_map(|c| (c.0 as u32).to_le_bytes()).collect();
        let (ops, temps) = numbered(v, true);
        let mut code = Vec::new();
        for (step, op) in v.steps.iter().zip(&ops) {
            let found = on_strips(step.op).ok_or_else(|| unknown(step.op))?;
            let arg = |k: usize| *op.args.get(k).unwrap_or(&op.args[0]);
            let op = RxStripOp {
                code: found as i32,
                dst: op.to,
                args: [0, 1, 2, 3].map(arg),
            };
            code.extend(bytes([op.code, op.dst].into_iter().chain(op.args)));
        }
        let mut kinds = self.kinds(c, v);
        let out = kind(self.program.bufs[c.out].dtype).unwrap_or(Kind::F32);
        kinds.push(out as i32);
        if kinds.iter().all(|k| *k == Kind::F32 as i32) {
            kinds.clear();
        }
        let [kinds, values, code] = [bytes(kinds), values, code].map(|b| self.constant(&b));
        let [extents, data, steps] =
            [&arrays.extents, &arrays.data, &arrays.steps].map(|x| words(self.b, x));
        let f = self.structure::<RxStrips>();
        self.put_ints(
            &f,
            fields!(RxStrips {
                axes: v.result_axes as i64,
                reduced: (v.axes.len() - v.result_axes) as i64,
                inputs: v.inputs.len() as i64,
                constants: v.constants.len() as i64,
                ops: ops.len() as i64,
                temps: temps as i64,
                combiner: combined(c) as i64,
            }),
        );
        self.put(
            &f,
            fields!(RxStrips {
                extents: extents,
                data: data,
                kinds: kinds,
                strides: steps,
                values: values,
                program: code,
                out: arrays.out,
            }),
        );
        self.run_with(abi::rx_strips_f32, f);
        Ok(())
    }

    fn sweep(&mut self, c: &Compute, v: &Vectors) -> Result<()> {
        let arrays = self.arrays(c, v)?;
        let constants = v.constants.iter();
        let values: Vec<u8> = constants.flat_map(|c| c.0.to_le_bytes()).collect();
        let (ops, temps) = numbered(v, false);
        let number = |dtype: DType| kind(dtype).unwrap_or(Kind::F32) as i32;
        let mut code = Vec::new();
        for (step, op) in v.steps.iter().zip(&ops) {
            let (found, function) = in_sweeps(step.op).ok_or_else(|| unknown(step.op))?;
            let mut args = [-1; 4];
            let numbers = op.args.iter().copied().chain(function.map(|f| f as i32));
            args.iter_mut().zip(numbers).for_each(|(to, n)| *to = n);
            let op = RxSweepOp {
                code: found as i32,
                kind: number(step.from),
                to: number(step.to),
                dst: op.to,
                args,
            };
            code.extend(bytes(
                [op.code, op.kind, op.to, op.dst].into_iter().chain(op.args),
            ));
        }
        let result = self.program.bufs[c.out].dtype;
        let kinds = bytes(self.kinds(c, v));
        let [values, code, kinds] = [values, code, kinds].map(|b| self.constant(&b));
        let [extents, data, steps] =
            [&arrays.extents, &arrays.data, &arrays.steps].map(|x| words(self.b, x));
        let f = self.structure::<RxSweep>();
        self.put_ints(
            &f,
            fields!(RxSweep {
                axes: v.result_axes as i64,
                reduced: (v.axes.len() - v.result_axes) as i64,
                inputs: v.inputs.len() as i64,
                constants: v.constants.len() as i64,
                ops: ops.len() as i64,
                temps: temps as i64,
                combiner: combined(c) as i64,
                out_type: i64::from(number(as_held(v, result, result))),
            }),
        );
        self.put(
            &f,
            fields!(RxSweep {
                extents: extents,
                data: data,
                kinds: kinds,
                strides: steps,
                values: values,
                program: code,
                out: arrays.out,
            }),
        );
        self.run_with(abi::rx_sweep, f);
        Ok(())
    }
}

/// Returns what a stage's reduction combines elements with.
fn combined(c: &Compute) -> How {
    c.reduce.as_ref().map_or(How::Sum, |r| combiner(r.combiner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_loops::{BinOp, UnOp};

    #[test]
    fn the_runtime_has_every_operation_that_is_selected() {
        for op in UnOp::ALL.iter().map(|op| Op::Unary(*op)) {
            assert_eq!(strips::takes(op), on_strips(op).is_some(), "{op:?}");
            let counts = matches!(op, Op::Unary(UnOp::Popcount | UnOp::Clz));
            assert_eq!(in_sweeps(op).is_some(), !counts, "{op:?}");
        }
        for op in BinOp::ALL.iter().map(|op| Op::Binary(*op)) {
            assert_eq!(strips::takes(op), on_strips(op).is_some(), "{op:?}");
            // Those are exchanged.
            let turned = matches!(op, Op::Binary(BinOp::Gt | BinOp::Ge));
            assert_eq!(in_sweeps(op).is_some(), !turned, "{op:?}");
        }
    }
}
