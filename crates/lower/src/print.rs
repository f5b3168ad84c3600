//! The lowered program as text.
//!
//! `%r3 = kernel k0(%r1, %r2) into alloc Tensor[(%r7, 4), float32] reuse
//! %r1`: one line per instruction. The text is for reading; nothing parses it.

use std::fmt::{self, Display, Formatter, Write as _};

use relax_loops::{BinOp, Ex, ExKind};

use crate::lir::{Alloc, Hold, Inst, LFunc, Lowered, Reg, Term};

struct Regs<'a>(&'a [Reg]);

impl Display for Regs<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, r) in self.0.iter().enumerate() {
            write!(f, "{}%r{}", if i == 0 { "" } else { ", " }, r.0)?;
        }
        Ok(())
    }
}

/// Arguments, with those that are lent.
struct Args<'a>(&'a [Reg], &'a [bool]);

impl Display for Args<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, r) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            let lent = self.1.get(i).copied().unwrap_or(false);
            let lent = if lent { "lend " } else { "" };
            write!(f, "{comma}{lent}%r{}", r.0)?;
        }
        Ok(())
    }
}

/// An expression over dimensions or scalars; they nest at most 64 and 256 deep.
struct Dim<'a>(&'a Ex);

impl Display for Dim<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.kind() {
            ExKind::Int(v) => write!(f, "{v}"),
            ExKind::Var(v) => write!(f, "%r{}", v.0),
            ExKind::Binary(op, a, b) => {
                let (a, b) = (Dim(a), Dim(b));
                match op {
                    BinOp::Add => write!(f, "({a} + {b})"),
                    BinOp::Sub => write!(f, "({a} - {b})"),
                    BinOp::Mul => write!(f, "({a} * {b})"),
                    BinOp::FloorDiv => write!(f, "({a} // {b})"),
                    BinOp::FloorMod => write!(f, "({a} % {b})"),
                    BinOp::Min => write!(f, "min({a}, {b})"),
                    BinOp::Max => write!(f, "max({a}, {b})"),
                    op => write!(f, "{op:?}({a}, {b})"),
                }
            }
            ExKind::Float(v) => write!(f, "{v:?}"),
            ExKind::Unary(op, a) => write!(f, "{op:?}({})", Dim(a)),
            ExKind::Select(c, a, b) => write!(f, "select({}, {}, {})", Dim(c), Dim(a), Dim(b)),
            ExKind::Cast(a) => write!(f, "{}({})", self.0.dtype(), Dim(a)),
            ExKind::Reinterpret(a) => write!(f, "bits of {} as {}", Dim(a), self.0.dtype()),
            ExKind::Load(..) => f.write_str("?"),
        }
    }
}

struct Dims<'a>(&'a [Ex]);

impl Display for Dims<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, d) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, Dim(d))?;
        }
        f.write_str(if self.0.len() == 1 { ",)" } else { ")" })
    }
}

impl Display for Alloc {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "alloc Tensor[{}, {}]", Dims(&self.dims), self.dtype)?;
        if let Some(r) = self.view {
            write!(f, " view %r{}", r.0)?;
        }
        match (self.place, self.reuse) {
            (Some(r), _) => write!(f, " place %r{}", r.0),
            (None, Some(r)) if self.grows => write!(f, " grow %r{}", r.0),
            (None, Some(r)) => write!(f, " reuse %r{}", r.0),
            (None, None) => Ok(()),
        }
    }
}

impl Display for Inst {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Inst::Const { dst, data } => write!(f, "%r{} = constant {}", dst.0, data.0),
            Inst::Kernel {
                dsts,
                kernel,
                args,
                given,
                place: _,
            } => {
                write!(f, "{} = kernel {}({})", Regs(dsts), kernel.0, Regs(args))?;
                for (i, g) in given.iter().enumerate() {
                    f.write_str(if i == 0 { " into " } else { ", " })?;
                    match g {
                        Some(g) => write!(f, "{g}")?,
                        None => f.write_str("alloc by the kernel")?,
                    }
                }
                Ok(())
            }
            Inst::Tuple { dst, fields } => write!(f, "%r{} = tuple({})", dst.0, Regs(fields)),
            Inst::Scalar { dst, value } => write!(f, "%r{} = {}", dst.0, Dim(value)),
            Inst::Unbox { dst, src } => write!(f, "%r{} = element of %r{}", dst.0, src.0),
            Inst::Box { dst, src } => write!(f, "%r{} = tensor of %r{}", dst.0, src.0),
            Inst::RefRead { dst, cell } => write!(f, "%r{} = ref_read(%r{})", dst.0, cell.0),
            Inst::Field { dst, src, index } => write!(f, "%r{} = field %r{}.{index}", dst.0, src.0),
            Inst::Adt { dst, tag, fields } => {
                write!(f, "%r{} = constructor {tag}({})", dst.0, Regs(fields))
            }
            Inst::Closure {
                dst,
                func,
                captures,
            } => write!(f, "%r{} = closure {}[{}]", dst.0, func.0, Regs(captures)),
            Inst::Capture { dst, index } => write!(f, "%r{} = capture {index}", dst.0),
            Inst::This { dst } => write!(f, "%r{} = this closure", dst.0),
            Inst::Call {
                dst,
                func,
                args,
                lent,
            } => write!(f, "%r{} = call {}({})", dst.0, func.0, Args(args, lent)),
            Inst::CallClosure { dst, callee, args } => {
                write!(f, "%r{} = call %r{}({})", dst.0, callee.0, Regs(args))
            }
            Inst::CallPacked { dst, name, args } => {
                write!(
                    f,
                    "%r{} = call_packed {:?}({})",
                    dst.0,
                    name.as_str(),
                    Regs(args)
                )
            }
            Inst::CallDps {
                dsts,
                name,
                args,
                given,
            } => {
                write!(
                    f,
                    "{} = call_dps_packed {:?}({})",
                    Regs(dsts),
                    name.as_str(),
                    Regs(args)
                )?;
                for (i, g) in given.iter().enumerate() {
                    write!(f, "{}{g}", if i == 0 { " into " } else { ", " })?;
                }
                Ok(())
            }
            Inst::Storage { dst, bytes } => write!(f, "%r{} = storage {}", dst.0, Dim(bytes)),
            Inst::Place {
                dst,
                storage,
                offset,
                tensor,
            } => {
                let at = Dim(offset);
                write!(f, "%r{} = {tensor} in %r{} at {at}", dst.0, storage.0)
            }
            Inst::Kill { src } => write!(f, "kill %r{}", src.0),
            Inst::RefNew { dst, value } => write!(f, "%r{} = ref(%r{})", dst.0, value.0),
            Inst::RefWrite { cell, value } => write!(f, "ref_write(%r{}, %r{})", cell.0, value.0),
            Inst::Shape { dst, dims } => write!(f, "%r{} = shape{}", dst.0, Dims(dims)),
            Inst::Text { dst, text } => write!(f, "%r{} = text {:?}", dst.0, text.as_str()),
            Inst::Dim { dst, src, axis } => write!(f, "%r{} = dim %r{}[{axis}]", dst.0, src.0),
            Inst::CheckTensor {
                src, rank, dtype, ..
            } => {
                write!(f, "check %r{}", src.0)?;
                if let Some(rank) = rank {
                    write!(f, " of rank {rank}")?;
                }
                match dtype {
                    Some(d) => write!(f, " of {d}"),
                    None => Ok(()),
                }
            }
            Inst::CheckKind { src, kind, .. } => write!(f, "check %r{} is {kind:?}", src.0),
            Inst::CheckValue { src, .. } => write!(f, "check %r{} part by part", src.0),
            Inst::CheckDims { a, b, or_one, .. } => {
                let or = if *or_one { " or 1" } else { "" };
                write!(f, "check {} == {}{or}", Dim(a), Dim(b))
            }
            Inst::Retain(r) => write!(f, "retain %r{}", r.0),
            Inst::Release(r) => write!(f, "release %r{}", r.0),
        }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Return(r) => write!(f, "return %r{}", r.0),
            Term::Jump(to, args) => write!(f, "jump bb{}({})", to.0, Regs(args)),
            Term::If {
                cond,
                then,
                otherwise,
            } => write!(
                f,
                "if %r{} then bb{} else bb{}",
                cond.0, then.0, otherwise.0
            ),
            Term::Switch {
                src,
                cases,
                default,
            } => {
                write!(f, "switch %r{}", src.0)?;
                for (tag, to) in cases {
                    write!(f, " {tag}: bb{},", to.0)?;
                }
                write!(f, " else bb{}", default.0)
            }
            Term::TailCall { func, args, lent } => {
                write!(f, "tail call {}({})", func.0, Args(args, lent))
            }
            Term::TailClosure { callee, args } => {
                write!(f, "tail call %r{}({})", callee.0, Regs(args))
            }
            Term::NoMatch(place) => write!(f, "no match, {place}"),
        }
    }
}

impl Display for LFunc {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "@{}(", self.name)?;
        for (i, &r) in self.params.iter().enumerate() {
            write!(f, "{}%r{}", if i == 0 { "" } else { ", " }, r.0)?;
            match self.hold(r) {
                Hold::Lent => f.write_str(" lent")?,
                Hold::Scalar(dtype) => write!(f, ": {dtype}")?,
                Hold::Value | Hold::Dim => {}
            }
        }
        f.write_str(")")?;
        if let Some(dtype) = self.result {
            write!(f, " -> {dtype}")?;
        }
        if let Some(n) = self.captures {
            write!(f, " captures {n}")?;
        }
        f.write_str(" {\n")?;
        for (id, block) in self.blocks.iter() {
            writeln!(f, "bb{}({}):", id.0, Regs(&block.params))?;
            for inst in &block.insts {
                writeln!(f, "  {inst}")?;
            }
            writeln!(f, "  {}", block.term)?;
        }
        f.write_str("}\n")
    }
}

impl Lowered {
    /// The program as text: entries, constants, kernels by name, functions.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for e in &self.entries {
            let _ = writeln!(
                out,
                "entry @{} = function {}: {}",
                e.name, e.func.0, e.signature
            );
        }
        for (id, t) in self.data.iter() {
            let _ = writeln!(out, "constant {} = {t:?}", id.0);
        }
        for (id, k) in self.kernels.iter() {
            let _ = writeln!(out, "kernel {} = {}", id.0, k.label);
        }
        for (id, func) in self.funcs.iter() {
            let _ = write!(out, "\nfunction {} {func}", id.0);
        }
        out
    }
}
