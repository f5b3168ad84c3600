//! Parsing of listings.

use base64_simd::STANDARD;
use lalrpop_util::ParseError;
use logos::Logos;
use relax_loops::Program;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::Arc;

use super::ast::{Item, RawArg, RawCallee, RawConst, RawFunc, RawInst};
use super::token::Tok;
use super::{INTERFACE, KERNELS, grammar, name, unquoted};
use crate::Kernel;
use crate::code::{Arg, Callee, Const, Entry, Executable, Function, Inst, computes};

/// The reason why a listing cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ListingError {
    /// The line, from 1; 0 if the program as a whole violates a rule.
    pub line: usize,
    /// A description of the error.
    pub message: String,
}

impl fmt::Display for ListingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ListingError {}

/// Parses a listing.
///
/// # Errors
/// The first syntax error, or rule that the program violates.
pub fn read<'t>(text: &'t str) -> Result<Executable, ListingError> {
    let error = |at: usize, message: String| ListingError {
        line: 1 + text.as_bytes()[..at.min(text.len())]
            .iter()
            .filter(|&&b| b == b'\n')
            .count(),
        message,
    };
    let cut = |text: &'t str, mark: &str| match text.find(&format!("\n{mark}")) {
        Some(at) => (&text[..=at], &text[at + 1 + mark.len()..]),
        None => (text, ""),
    };
    let (before, tail) = cut(text, KERNELS);
    let (head, interface) = cut(before, INTERFACE);
    let tokens = Tok::lexer(head).spanned().map(|(tok, span)| match tok {
        Ok(tok) => Ok((span.start, tok, span.end)),
        Err(()) => Err(()),
    });
    let items = grammar::ListingParser::new()
        .parse(tokens)
        .map_err(|e| match e {
            ParseError::User { error: () } => {
                let bad = Tok::lexer(head).spanned().find(|t| t.0.is_err());
                let at = bad.map_or(0, |t| t.1.start);
                error(at, "the listing has no such word".to_owned())
            }
            ParseError::UnrecognizedToken { token, expected } => {
                let found = &head[token.0..token.2];
                error(
                    token.0,
                    format!("expected {}, found `{found}`", expected.join(", ")),
                )
            }
            ParseError::ExtraToken { token } => {
                error(token.0, "the listing ends before".to_owned())
            }
            ParseError::InvalidToken { location }
            | ParseError::UnrecognizedEof { location, .. } => {
                error(location, "the listing ends too early".to_owned())
            }
        })?;
    let kernels_at = before.len();
    let mut heads = Vec::new();
    let (mut funcs, mut kernels) = (FxHashMap::default(), FxHashMap::default());
    for item in &items {
        match item {
            Item::Func(_, f) => {
                let number = funcs.len() as u32;
                funcs.entry(name(f.name)).or_insert(number);
            }
            Item::Kernel(at, k, by_hand, program) => {
                kernels.insert((*k).to_owned(), heads.len() as u32);
                let program = program.map(bytes_of).transpose();
                let program = program.map_err(|m| error(*at, m))?;
                heads.push(((*k).to_owned(), *by_hand, program));
            }
            _ => {}
        }
    }
    let names = Names { funcs, kernels };
    let mut out = Executable {
        kernels: together(heads, tail).map_err(|m| error(kernels_at, m))?,
        interface: interface.trim_end_matches('\n').to_owned(),
        ..Executable::default()
    };
    for item in items {
        match item {
            Item::Const(at, number, c) => {
                if number as usize != out.consts.len() {
                    let next = out.consts.len();
                    return Err(error(at, format!("the next constant is c[{next}]")));
                }
                out.consts.push(constant(c).map_err(|m| error(at, m))?);
            }
            Item::Entry(at, e) => {
                let func = names.func(e.func).map_err(|m| error(at, m))?;
                let types = e.params.iter().map(|p| p.1).chain([e.result]);
                out.entries.push(Entry {
                    name: name(e.name),
                    func,
                    params: e.params.iter().map(|p| unquoted(p.0)).collect(),
                    types: types.map(unquoted).collect(),
                });
            }
            Item::Func(at, f) => out
                .funcs
                .push(function(f, &names).map_err(|(place, m)| error(place.unwrap_or(at), m))?),
            Item::Kernel(..) => {}
        }
    }
    crate::verify(&out).map_err(|b| ListingError {
        line: 0,
        message: b.to_string(),
    })?;
    Ok(out)
}

/// A kernel's name, whether it is hand-written, and its program if given inline.
type Head = (String, bool, Option<Program>);

fn bytes_of(program: &str) -> Result<Program, String> {
    let bytes = STANDARD.decode_to_vec(program);
    let bytes = bytes.map_err(|_| "the kernel's program is no base64".to_owned())?;
    crate::file::program_of(&bytes, 0).map_err(|e| e.to_string())
}

/// Combines kernels with their programs, most of which are in the text.
fn together(heads: Vec<Head>, text: &str) -> Result<Vec<Kernel>, String> {
    let mut programs: FxHashMap<_, _> = crate::programs::read(text)?.into_iter().collect();
    let kernel = |(name, by_hand, own): Head| {
        let program = own.map(Arc::new).or_else(|| programs.remove(&name));
        let program = program.ok_or_else(|| format!("there is no tensor program @{name}"))?;
        Ok(Kernel::new(name, program, by_hand, Vec::new()))
    };
    heads.into_iter().map(kernel).collect()
}

struct Names {
    funcs: FxHashMap<String, u32>,
    kernels: FxHashMap<String, u32>,
}

impl Names {
    fn func(&self, text: &str) -> Result<u32, String> {
        let found = self.funcs.get(&name(text)).copied();
        found.ok_or_else(|| format!("there is no function @{text}"))
    }
}

fn constant(c: RawConst<'_>) -> Result<Const, String> {
    let dtype = |t: &str| {
        let found = t.parse::<DType>().ok().filter(|&t| computes(t));
        found.ok_or_else(|| format!("`{t}` is no element type"))
    };
    Ok(match c {
        RawConst::Tensor(t, dims, bytes) => {
            let bytes = STANDARD
                .decode_to_vec(bytes)
                .map_err(|_| "the tensor's bytes are no base64".to_owned())?;
            let tensor = Tensor::from_bytes(dtype(t)?, &dims, &bytes);
            Const::Tensor(tensor.ok_or("the tensor has another number of bytes")?)
        }
        RawConst::Scalar(t, bits) => Const::Scalar(dtype(t)?, bits),
        RawConst::Shape(dims) => Const::Shape(dims),
        RawConst::Text(text) => Const::Text(unquoted(text)),
    })
}

type Placed<T> = Result<T, (Option<usize>, String)>;

fn function(f: RawFunc<'_>, names: &Names) -> Placed<Function> {
    let count =
        |n: i64| u32::try_from(n).map_err(|_| (None, format!("{n} is no number of registers")));
    let mut out = Function {
        name: name(f.name),
        params: count(f.params)?,
        registers: count(f.registers)?,
        closure: f.closure,
        ..Function::default()
    };
    for line in f.code {
        let here = out.code.len();
        let at = |m: String| (Some(line.start), m);
        if line.number != here as i64 {
            return Err(at(format!("the next instruction is {here}")));
        }
        let goal = |n: i64| u32::try_from(n).map_err(|_| format!("there is no instruction {n}"));
        out.code.push(match line.inst {
            RawInst::Call(callee, args, dst) => {
                let callee = callee_of(&callee, names).map_err(at)?;
                let args: Result<Vec<Arg>, String> = args.iter().map(|a| arg(a, names)).collect();
                let args = args.map_err(at)?.into();
                Inst::Call { callee, args, dst }
            }
            RawInst::Ret(a) => Inst::Ret(arg(&a, names).map_err(at)?),
            RawInst::If(r, to) => Inst::If(r, goal(to).map_err(at)?),
            RawInst::Goto(to) => Inst::Goto(goal(to).map_err(at)?),
        });
        if let Some(place) = line.place {
            out.places.push((here as u32, unquoted(place)));
        }
    }
    Ok(out)
}

fn callee_of(callee: &RawCallee<'_>, names: &Names) -> Result<Callee, String> {
    Ok(match callee {
        RawCallee::Func(n) => Callee::Func(names.func(n)?),
        RawCallee::Kernel(n) => {
            let found = names.kernels.get(*n).copied();
            Callee::Kernel(found.ok_or_else(|| format!("there is no kernel #{n}"))?)
        }
        RawCallee::Builtin(n) => {
            let found = n.parse();
            Callee::Builtin(found.map_err(|()| format!("there is no builtin {n}"))?)
        }
    })
}

fn arg(a: &RawArg<'_>, names: &Names) -> Result<Arg, String> {
    Ok(match a {
        RawArg::Void => Arg::Void,
        RawArg::Reg(r) => Arg::Reg(*r),
        RawArg::Last(r) => Arg::Last(*r),
        RawArg::Int(v) => Arg::Int(*v),
        RawArg::Const(c) => Arg::Const(*c),
        RawArg::Func(n) => Arg::Func(names.func(n)?),
    })
}
