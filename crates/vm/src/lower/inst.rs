//! Instructions of lowered programs: for most of them one instruction of the machine.

use relax_base::Symbol;
use relax_loops::Ex;
use relax_lower::lir::{self, Alloc, Inst, KernelId};
use relax_tensor::DType;

use super::{Call, Translation, Unsupported};
use crate::builtin::{Builtin, Plain};
use crate::code::{Arg, Callee};

impl Translation<'_> {
    /// Returns the argument for a kernel's result: its shape, or the tensor allocated for it.
    fn target(&mut self, given: Option<&Alloc>) -> Result<Arg, Unsupported> {
        match given {
            None => Ok(Arg::Void),
            Some(Alloc { place: Some(r), .. }) => Ok(self.seen(*r)),
            Some(out) => self.shape(&out.dims),
        }
    }

    /// Assigns the result of an instruction of the machine.
    fn assign(&mut self, dst: lir::Reg, plain: Plain, args: Vec<Arg>) {
        let dst = self.reg(dst);
        self.call(plain, args, Some(dst));
    }

    /// Assigns the result of an instruction of one operand.
    fn assign_of(&mut self, dst: lir::Reg, plain: Plain, src: lir::Reg) {
        let args = vec![self.seen(src)];
        self.assign(dst, plain, args);
    }

    /// Assigns the results of a call: a single one directly, several as the fields of a tuple.
    fn results(&mut self, callee: Callee, args: Vec<Arg>, dsts: &[lir::Reg]) {
        if let [dst] = dsts {
            let dst = self.reg(*dst);
            return self.emit(callee, args, Some(dst));
        }
        let all = self.temp();
        self.owners.insert(all);
        self.emit(callee, args, Some(all));
        for (i, &dst) in dsts.iter().enumerate() {
            self.assign(dst, Plain::GetItem, vec![Arg::Reg(all), Arg::Int(i as i64)]);
        }
    }

    /// Translates an instruction.
    pub(super) fn inst(&mut self, inst: &Inst) -> Result<(), Unsupported> {
        match inst {
            // Constants are used directly as operands. Reference counting is implicit in the
            // values.
            Inst::Const { .. } | Inst::Retain(_) | Inst::Release(_) => {}
            Inst::Scalar { dst, value } => self.scalar_into(*dst, value)?,
            Inst::Unbox { dst, src } => self.assign_of(*dst, Plain::Element, *src),
            Inst::Box { dst, src } => self.assign_of(*dst, Plain::Copy, *src),
            Inst::Tuple { dst, fields } => {
                let fields = self.all_seen(fields);
                self.assign(*dst, Plain::MakeTuple, fields);
            }
            Inst::Field { dst, src, index } => {
                let args = vec![self.seen(*src), Arg::Int(i64::from(*index))];
                self.assign(*dst, Plain::GetItem, args);
            }
            Inst::Adt { dst, tag, fields } => {
                let args = self.with_all(Arg::Int(i64::from(*tag)), fields);
                self.assign(*dst, Plain::MakeAdt, args);
            }
            Inst::Closure {
                dst,
                func,
                captures,
            } => {
                let args = self.with_all(Arg::Func(func.0), captures);
                self.assign(*dst, Plain::MakeClosure, args);
            }
            Inst::Capture { dst, index } => {
                let args = vec![Arg::Reg(0), Arg::Int(i64::from(*index))];
                self.assign(*dst, Plain::GetItem, args);
            }
            Inst::This { dst } => self.assign(*dst, Plain::Copy, vec![Arg::Reg(0)]),
            Inst::RefNew { dst, value } => self.assign_of(*dst, Plain::RefNew, *value),
            Inst::RefRead { dst, cell } => self.assign_of(*dst, Plain::RefRead, *cell),
            Inst::RefWrite { cell, value } => {
                let args = vec![self.seen(*cell), self.seen(*value)];
                self.call(Plain::RefWrite, args, None);
            }
            Inst::Shape { dst, dims } => {
                let shape = self.shape(dims)?;
                self.assign(*dst, Plain::Copy, vec![shape]);
            }
            Inst::Text { dst, text } => {
                let text = self.pool.text(text.as_str());
                self.assign(*dst, Plain::Copy, vec![text]);
            }
            Inst::Dim { dst, src, axis } => {
                let args = vec![self.seen(*src), Arg::Int(i64::from(*axis))];
                self.assign(*dst, Plain::Extent, args);
            }
            Inst::Kernel {
                dsts,
                kernel,
                args,
                given,
                place,
            } => self.kernel(dsts, *kernel, args, given, *place)?,
            Inst::Call {
                dst,
                func,
                args,
                lent: _,
            } => {
                let (args, dst) = (self.all_seen(args), self.reg(*dst));
                self.emit(Callee::Func(func.0), args, Some(dst));
            }
            Inst::CallClosure { dst, callee, args } => {
                let args = self.with_all(self.seen(*callee), args);
                self.assign(*dst, Plain::InvokeClosure, args);
            }
            Inst::CallPacked { dst, name, args } => {
                let name = self.pool.text(name.as_str());
                let args = self.with_all(name, args);
                self.assign(*dst, Plain::CallPacked, args);
            }
            Inst::CallDps {
                dsts,
                name,
                args,
                given,
            } => self.call_dps(dsts, *name, args, given)?,
            Inst::Storage { dst, bytes } => {
                let bytes = self.scalar(bytes)?;
                self.assign(*dst, Plain::AllocStorage, vec![bytes]);
            }
            Inst::Place {
                dst,
                storage,
                offset,
                tensor,
            } => {
                let mut args = vec![self.seen(*storage), self.scalar(offset)?];
                args.push(self.shape(&tensor.dims)?);
                args.push(self.pool.text(&tensor.dtype.to_string()));
                self.assign(*dst, Plain::AllocTensor, args);
            }
            // Extends the live range up to here.
            Inst::Kill { src } => self.call(Plain::Kill, vec![self.seen(*src)], None),
            Inst::CheckTensor {
                src,
                rank,
                dtype,
                place,
            } => self.check_tensor(*src, *rank, *dtype, *place),
            // The machine's values carry their kind; a value of the wrong kind fails at its use.
            Inst::CheckValue { .. } => {}
            Inst::CheckKind { src, kind, place } => self.check_kind(*src, *kind, *place),
            Inst::CheckDims {
                a,
                b,
                or_one,
                place,
                message,
            } => self.check_dims((a, b), *or_one, *place, *message)?,
        }
        Ok(())
    }

    /// Returns the arguments for registers behind a first one.
    fn with_all(&self, first: Arg, regs: &[lir::Reg]) -> Vec<Arg> {
        let mut all = vec![first];
        all.extend(self.all_seen(regs));
        all
    }

    fn scalar_into(&mut self, dst: lir::Reg, value: &Ex) -> Result<(), Unsupported> {
        let dst = self.reg(dst);
        let before = self.blocks[self.here].calls.len();
        let value = self.scalar(value)?;
        let made = self.blocks[self.here].calls.len() > before;
        match self.blocks[self.here].calls.last_mut() {
            // The expression's last node is computed directly into the destination.
            Some(Call { dst: to, .. }) if made && to.map(Arg::Reg) == Some(value) => {
                *to = Some(dst);
            }
            _ => self.call(Plain::Copy, vec![value], Some(dst)),
        }
        Ok(())
    }

    fn kernel(
        &mut self,
        dsts: &[lir::Reg],
        kernel: KernelId,
        args: &[lir::Reg],
        given: &[Option<Alloc>],
        place: Symbol,
    ) -> Result<(), Unsupported> {
        let mut all = self.all_seen(args);
        for out in given {
            all.push(self.target(out.as_ref())?);
        }
        self.at(place);
        self.results(Callee::Kernel(kernel.0), all, dsts);
        Ok(())
    }

    fn call_dps(
        &mut self,
        dsts: &[lir::Reg],
        name: Symbol,
        args: &[lir::Reg],
        given: &[Alloc],
    ) -> Result<(), Unsupported> {
        let mut all = vec![self.pool.text(name.as_str()), Arg::Int(given.len() as i64)];
        for out in given {
            all.push(self.shape(&out.dims)?);
            all.push(self.pool.text(&out.dtype.to_string()));
        }
        all.extend(self.all_seen(args));
        self.results(Callee::Builtin(Builtin::Plain(Plain::CallDps)), all, dsts);
        Ok(())
    }

    fn check_tensor(
        &mut self,
        src: lir::Reg,
        rank: Option<u32>,
        dtype: Option<DType>,
        place: Symbol,
    ) {
        let rank = rank.map_or(-1, i64::from);
        let dtype = dtype.map_or(Arg::Void, |d| self.pool.text(&d.to_string()));
        let args = vec![self.seen(src), Arg::Int(rank), dtype];
        self.at(place);
        self.call(Plain::CheckTensor, args, None);
    }

    fn check_kind(&mut self, src: lir::Reg, kind: lir::Kind, place: Symbol) {
        let (name, fields) = match kind {
            lir::Kind::Tensor => ("tensor", -1),
            lir::Kind::Tuple(n) => ("tuple", i64::from(n)),
            lir::Kind::Adt => ("adt", -1),
            lir::Kind::Shape => ("shape", -1),
        };
        let args = vec![self.seen(src), self.pool.text(name), Arg::Int(fields)];
        self.at(place);
        self.call(Plain::CheckKind, args, None);
    }

    fn check_dims(
        &mut self,
        (a, b): (&Ex, &Ex),
        or_one: bool,
        place: Symbol,
        message: Symbol,
    ) -> Result<(), Unsupported> {
        let args = vec![
            self.scalar(a)?,
            self.scalar(b)?,
            Arg::Int(i64::from(or_one)),
            self.pool.text(message.as_str()),
        ];
        self.at(place);
        self.call(Plain::CheckEqual, args, None);
        Ok(())
    }
}
