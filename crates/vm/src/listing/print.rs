//! Printing of listings.

use base64_simd::STANDARD;
use std::fmt::Write as _;

use super::{INTERFACE, KERNELS, global, quoted};
use crate::code::{Arg, Callee, Const, Executable, Function, Inst};
use crate::{Unsupported, programs};

/// The number of elements in the comment beside a tensor.
const SHOWN: usize = 8;

/// Prints the listing of a program; [`super::read`] is the inverse.
///
/// # Errors
/// Part of the program has no form in a listing; currently this does not happen.
pub fn print(program: &Executable) -> Result<String, Unsupported> {
    let mut out = String::from("#[vm = \"1\"]\n");
    for e in &program.entries {
        let params = e.params.iter().zip(&e.types);
        let params: Vec<String> = params
            .map(|(p, t)| format!("{}: {}", quoted(p), quoted(t)))
            .collect();
        let (result, func) = (
            e.types.last().map_or("", String::as_str),
            &program.funcs[e.func as usize].name,
        );
        let (name, params, result) = (global(&e.name), params.join(", "), quoted(result));
        let _ = writeln!(
            out,
            "entry {name}({params}) -> {result} = {};",
            global(func)
        );
    }
    for (i, c) in program.consts.iter().enumerate() {
        let _ = write!(out, "c[{i}] = ");
        constant(&mut out, c);
    }
    for f in &program.funcs {
        out.push('\n');
        function(&mut out, program, f);
    }
    if !program.kernels.is_empty() {
        out.push('\n');
    }
    let mut texts = Vec::new();
    for k in &program.kernels {
        let _ = write!(out, "kernel #{}", k.name);
        out.push_str(if k.by_hand { " written" } else { "" });
        if programs::has_text(k) {
            texts.push(k);
        } else {
            let bytes = STANDARD.encode_to_string(k.bytes());
            let _ = write!(out, " \"{bytes}\"");
        }
        out.push_str(";\n");
    }
    if !program.interface.is_empty() {
        out.push('\n');
        out.push_str(INTERFACE);
        out.push_str(program.interface.trim_end());
        out.push('\n');
    }
    if !texts.is_empty() {
        out.push('\n');
        out.push_str(KERNELS);
        out.push_str(&programs::text(texts));
    }
    Ok(out)
}

fn numbers(dims: &[i64]) -> String {
    let all: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("({})", all.join(", "))
}

fn constant(out: &mut String, c: &Const) {
    let _ = match c {
        Const::Tensor(t) => {
            let shown: Vec<String> = (0..t.len().min(SHOWN))
                .map(|i| t.get_f64(i).to_string())
                .collect();
            let more = if t.len() > SHOWN { ", …" } else { "" };
            let (dims, bytes) = (numbers(t.shape()), STANDARD.encode_to_string(t.bytes()));
            writeln!(
                out,
                "tensor {} {dims} \"{bytes}\"; // {}{more}",
                t.dtype(),
                shown.join(", ")
            )
        }
        Const::Scalar(dtype, bits) => writeln!(out, "scalar {dtype} 0x{bits:x};"),
        Const::Shape(dims) => writeln!(out, "shape {};", numbers(dims)),
        Const::Text(text) => writeln!(out, "text {};", quoted(text)),
    };
}

fn function(out: &mut String, program: &Executable, f: &Function) {
    let sort = if f.closure { "closure" } else { "function" };
    let _ = writeln!(
        out,
        "{sort} {}({}) registers {} {{",
        global(&f.name),
        f.params,
        f.registers
    );
    for (at, inst) in f.code.iter().enumerate() {
        let _ = write!(out, "  {at}: {}", Shown { program, inst });
        let place = f.place(at as u32);
        if !place.is_empty() {
            let _ = write!(out, " at {}", quoted(place));
        }
        out.push_str(";\n");
    }
    out.push_str("}\n");
}

/// An instruction of a program, formatted as in the listing.
pub(crate) struct Shown<'p> {
    pub program: &'p Executable,
    pub inst: &'p Inst,
}

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let p = self.program;
        let func = |i: u32| {
            p.funcs
                .get(i as usize)
                .map_or("@?".to_owned(), |f| global(&f.name))
        };
        let arg = |a: &Arg| match a {
            Arg::Void => "%void".to_owned(),
            Arg::Reg(r) => format!("%{r}"),
            Arg::Last(r) => format!("%{r}!"),
            Arg::Int(v) => format!("i{v}"),
            Arg::Const(c) => format!("c[{c}]"),
            Arg::Func(i) => func(*i),
        };
        match self.inst {
            Inst::Call { callee, args, dst } => {
                f.write_str("call ")?;
                match callee {
                    Callee::Func(i) => f.write_str(&func(*i))?,
                    Callee::Kernel(k) => {
                        write!(
                            f,
                            "#{}",
                            p.kernels.get(*k as usize).map_or("?", |k| &k.name)
                        )?;
                    }
                    Callee::Builtin(b) => write!(f, "{b}")?,
                }
                if !args.is_empty() {
                    let args: Vec<String> = args.iter().map(arg).collect();
                    write!(f, " in: {}", args.join(", "))?;
                }
                match dst {
                    Some(dst) => write!(f, " dst: %{dst}"),
                    None => Ok(()),
                }
            }
            Inst::Ret(a) => write!(f, "ret {}", arg(a)),
            Inst::If(r, to) => write!(f, "if %{r}, {to}"),
            Inst::Goto(to) => write!(f, "goto {to}"),
        }
    }
}
