//! The bytecode file format: little-endian, versioned, with a checksum; tensors are aligned, so
//! that they can borrow from a mapped file.
//!
//! `docs/vm.md` specifies it byte by byte.

use relax_loops::Program;
use relax_tensor::{DType, Tensor};
use sha2::{Digest as _, Sha256};
use std::fmt;

use crate::Unsupported;
use crate::builtin::Builtin;
use crate::code::{Arg, Callee, Const, Entry, Executable, Function, Inst, computes};
use crate::kernel::{Bytes, Kernel};
use crate::verify::{self, Breach};
use bytes::{Read, Reader, Writer};

mod bytes;
mod program;

/// The magic number of the format.
pub const MAGIC: &[u8; 8] = b"relaxvm\0";

/// The version of the format.
const VERSION: u32 = 5;

/// The size of the part that the checksum does not cover: magic, version, checksum, length of the
/// header.
const HEADER: usize = 24;

/// The alignment of tensors.
const ALIGN: usize = 64;

/// The reason why a file cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum FileError {
    /// The magic number does not match.
    Foreign,
    /// The version does not match.
    Version(u32),
    /// The file is truncated or corrupted: the offset, and a description.
    Damaged(usize, String),
    /// The program violates a rule of the machine.
    Breach(Breach),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Foreign => f.write_str("this is no program of the Relax virtual machine"),
            FileError::Version(v) => write!(
                f,
                "version {v} of the format is not known here: this tool reads {VERSION}"
            ),
            FileError::Damaged(at, what) => write!(f, "the file is damaged at byte {at}: {what}"),
            FileError::Breach(b) => write!(f, "the program is malformed: {b}"),
        }
    }
}

impl std::error::Error for FileError {}

impl FileError {
    fn damaged(at: usize, what: &str) -> FileError {
        FileError::Damaged(at, what.to_owned())
    }
}

/// Serialises a program.
///
/// # Errors
/// Part of the program has no form in the format; currently this does not happen.
pub fn write(program: &Executable) -> Result<Vec<u8>, Unsupported> {
    let mut w = Writer::default();
    w.list(&program.consts, |w, c| match c {
        Const::Tensor(t) => {
            w.byte(0);
            w.text(&t.dtype().to_string());
            w.list(t.shape(), |w, &d| w.long(d as u64));
        }
        Const::Scalar(dtype, bits) => {
            w.byte(1);
            w.text(&dtype.to_string());
            w.long(*bits);
        }
        Const::Shape(dims) => {
            w.byte(2);
            w.list(dims, |w, &d| w.long(d as u64));
        }
        Const::Text(text) => {
            w.byte(3);
            w.text(text);
        }
    });
    w.list(&program.funcs, function);
    w.list(&program.kernels, |w, k| {
        w.text(&k.name);
        w.byte(u8::from(k.by_hand));
        w.list(&k.places, |w, p| w.text(p));
        w.word(k.inputs() as u32);
        w.word(k.outputs() as u32);
        w.bytes(&k.bytes());
    });
    w.list(&program.entries, |w, e| {
        w.text(&e.name);
        w.word(e.func);
        w.list(&e.params, |w, p| w.text(p));
        w.list(&e.types, |w, t| w.text(t));
    });
    w.text(&program.interface);
    let behind = tensors(program);
    w.0.extend(Sha256::digest(&behind));
    let head = w.0;
    let mut out = Vec::with_capacity(HEADER + head.len());
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend([0; 4]);
    out.extend((head.len() as u64).to_le_bytes());
    out.extend(head);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    out.extend(behind);
    // Tensors are not covered by the checksum: a file with a gigabyte of weights opens without
    // reading them.
    let end = HEADER + u64_at(&out, 16) as usize;
    let sum = crc32fast::hash(&out[16..end]);
    out[12..16].copy_from_slice(&sum.to_le_bytes());
    Ok(out)
}

/// Returns the elements of all tensors, each aligned to [`ALIGN`].
fn tensors(program: &Executable) -> Vec<u8> {
    let mut out = Vec::new();
    for c in &program.consts {
        if let Const::Tensor(t) = c {
            out.resize(out.len().next_multiple_of(ALIGN), 0);
            out.extend(t.bytes());
        }
    }
    out
}

/// Returns a 32-byte fingerprint of a file's header, which covers the program and, through the hash
/// of their elements, the tensors. Files of other programs, or with other weights, have different
/// fingerprints.
///
/// # Errors
/// As for [`read`], concerning the header.
pub fn fingerprint(bytes: &[u8]) -> Result<[u8; 32], FileError> {
    let end = head(bytes)?;
    Ok(Sha256::digest(&bytes[HEADER..end]).into())
}

/// Returns the end of the header of a well-formed file.
fn head(all: &[u8]) -> Result<usize, FileError> {
    let magic = all.get(..8).ok_or(FileError::Foreign)?;
    if magic != MAGIC {
        return Err(FileError::Foreign);
    }
    let short = |at| FileError::damaged(at, "it ends there");
    let header = all.get(..HEADER).ok_or_else(|| short(all.len()))?;
    let word = |at: usize| u64_at(header, at);
    let version = word(8) as u32;
    if version != VERSION {
        return Err(FileError::Version(version));
    }
    let end = usize::try_from(word(16)).ok();
    let end = end.and_then(|n| n.checked_add(HEADER));
    let end = end.filter(|&e| e <= all.len());
    let end = end.ok_or_else(|| short(all.len()))?;
    if crc32fast::hash(&all[16..end]) != (word(8) >> 32) as u32 {
        let what = "the checksum is not that of the content";
        return Err(FileError::damaged(12, what));
    }
    Ok(end)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = bytes.get(at..at + 8) {
        word.copy_from_slice(found);
    }
    u64::from_le_bytes(word)
}

fn function(w: &mut Writer, f: &Function) {
    w.text(&f.name);
    w.word(f.params);
    w.word(f.registers);
    w.byte(u8::from(f.closure));
    w.list(&f.code, |w, inst| match inst {
        Inst::Call { callee, args, dst } => {
            match callee {
                Callee::Func(k) => {
                    w.byte(0);
                    w.word(*k);
                }
                Callee::Kernel(k) => {
                    w.byte(1);
                    w.word(*k);
                }
                Callee::Builtin(b) => {
                    w.byte(2);
                    w.text(&b.to_string());
                }
            }
            w.list(args, |w, a| argument(w, *a));
            w.word(dst.unwrap_or(u32::MAX));
        }
        Inst::Ret(value) => {
            w.byte(3);
            argument(w, *value);
        }
        Inst::If(r, to) => {
            w.byte(4);
            w.word(*r);
            w.word(*to);
        }
        Inst::Goto(to) => {
            w.byte(5);
            w.word(*to);
        }
    });
    w.list(&f.places, |w, (at, place)| {
        w.word(*at);
        w.text(place);
    });
}

fn argument(w: &mut Writer, arg: Arg) {
    let (kind, value) = match arg {
        Arg::Void => (0, 0),
        Arg::Reg(r) => (1, u64::from(r)),
        Arg::Last(r) => (2, u64::from(r)),
        Arg::Int(v) => (3, v as u64),
        Arg::Const(c) => (4, u64::from(c)),
        Arg::Func(f) => (5, u64::from(f)),
    };
    w.byte(kind);
    match arg {
        Arg::Void => {}
        Arg::Int(_) => w.long(value),
        _ => w.word(value as u32),
    }
}

/// Reads a program. Its tensors borrow from `bytes`.
///
/// # Errors
/// The bytes are not a valid file, or its program violates a rule. No allocation exceeds what the
/// bytes justify.
pub fn read(bytes: Bytes) -> Result<Executable, FileError> {
    let program = open(bytes)?;
    for kernel in &program.kernels {
        kernel.program().map_err(Clone::clone)?;
    }
    Ok(program)
}

/// Like [`read`], but for callers that may not need the tensor programs because they have native
/// code: each is parsed and verified on first use.
///
/// # Errors
/// As for [`read`], except for the tensor programs.
pub fn open(bytes: Bytes) -> Result<Executable, FileError> {
    let all = (*bytes).as_ref();
    let end = head(all)?;
    let mut r = Reader {
        bytes: &all[..end],
        at: HEADER,
    };
    let mut next = end;
    let consts = r.list(|r| constant(r, &bytes, &mut next))?;
    let funcs = r.list(read_function)?;
    let kernels = r.list(|r| read_kernel(r, &bytes))?;
    let entries = r.list(|r| {
        Ok(Entry {
            name: r.text()?,
            func: r.word()?,
            params: r.list(Reader::text)?,
            types: r.list(Reader::text)?,
        })
    })?;
    let interface = r.text()?;
    r.take(32)?;
    if r.at != end {
        return Err(FileError::damaged(r.at, "more follows than a program has"));
    }
    let program = Executable {
        funcs,
        kernels,
        consts,
        entries,
        interface,
    };
    verify::code(&program).map_err(FileError::Breach)?;
    Ok(program)
}

fn read_kernel(r: &mut Reader<'_>, bytes: &Bytes) -> Read<Kernel> {
    let name = r.text()?;
    let by_hand = r.byte()? != 0;
    let places = r.list(Reader::text)?;
    let sides = (r.word()? as usize, r.word()? as usize);
    let length = r.count()?;
    let from = r.at;
    r.take(length)?;
    let mut kernel = Kernel::stored(name, sides, bytes, (from, r.at));
    (kernel.by_hand, kernel.places) = (by_hand, places);
    Ok(kernel)
}

/// Serialises a tensor program.
pub(crate) fn program_bytes(p: &Program) -> Vec<u8> {
    let mut w = Writer::default();
    program::write(&mut w, p);
    w.0
}

/// Parses the output of [`program_bytes`], starting at an offset.
pub(crate) fn program_of(bytes: &[u8], from: usize) -> Result<Program, FileError> {
    let mut r = Reader { bytes, at: from };
    let found = program::read(&mut r)?;
    match r.at == bytes.len() {
        true => Ok(found),
        false => Err(FileError::damaged(
            r.at,
            "more follows than a tensor program has",
        )),
    }
}

fn constant(r: &mut Reader<'_>, bytes: &Bytes, next: &mut usize) -> Read<Const> {
    let at = r.at;
    let bad = |what: &str| FileError::Damaged(at, what.to_owned());
    match r.byte()? {
        kind @ (0 | 1) => {
            let dtype = r.text()?.parse().ok().filter(|&t| computes(t));
            let dtype: DType = dtype.ok_or_else(|| bad("no element type"))?;
            if kind == 1 {
                return Ok(Const::Scalar(dtype, r.long()?));
            }
            let shape = r.list(|r| Ok(r.long()? as i64))?;
            let start = next.next_multiple_of(ALIGN);
            let size =
                Tensor::byte_len(dtype, &shape).ok_or_else(|| bad("no tensor has such extents"))?;
            *next = start
                .checked_add(size)
                .ok_or_else(|| bad("no tensor is so large"))?;
            let borrowed = Tensor::from_owner(dtype, &shape, bytes.clone(), start);
            let all = (**bytes).as_ref();
            // A file that was read rather than mapped may not be aligned.
            let copied =
                || Tensor::from_bytes(dtype, &shape, all.get(start..start.checked_add(size)?)?);
            let tensor = borrowed
                .or_else(copied)
                .ok_or_else(|| bad("its tensor's bytes are missing"))?;
            Ok(Const::Tensor(tensor))
        }
        2 => Ok(Const::Shape(r.list(|r| Ok(r.long()? as i64))?)),
        3 => Ok(Const::Text(r.text()?)),
        _ => Err(bad("no constant is of that kind")),
    }
}

fn read_function(r: &mut Reader<'_>) -> Read<Function> {
    Ok(Function {
        name: r.text()?,
        params: r.word()?,
        registers: r.word()?,
        closure: r.byte()? != 0,
        code: r.list(instruction)?,
        places: r.list(|r| Ok((r.word()?, r.text()?)))?,
    })
}

fn instruction(r: &mut Reader<'_>) -> Read<Inst> {
    let at = r.at;
    let callee = match r.byte()? {
        0 => Callee::Func(r.word()?),
        1 => Callee::Kernel(r.word()?),
        2 => {
            let name = r.text()?;
            let found: Result<Builtin, ()> = name.parse();
            Callee::Builtin(
                found
                    .map_err(|()| FileError::Damaged(at, format!("no builtin is named {name}")))?,
            )
        }
        3 => return Ok(Inst::Ret(read_argument(r)?)),
        4 => return Ok(Inst::If(r.word()?, r.word()?)),
        5 => return Ok(Inst::Goto(r.word()?)),
        _ => {
            return Err(FileError::Damaged(
                at,
                "no instruction is of that kind".to_owned(),
            ));
        }
    };
    let args = r.list(read_argument)?.into();
    let dst = Some(r.word()?).filter(|&d| d != u32::MAX);
    Ok(Inst::Call { callee, args, dst })
}

fn read_argument(r: &mut Reader<'_>) -> Read<Arg> {
    let at = r.at;
    Ok(match r.byte()? {
        0 => Arg::Void,
        1 => Arg::Reg(r.word()?),
        2 => Arg::Last(r.word()?),
        3 => Arg::Int(r.long()? as i64),
        4 => Arg::Const(r.word()?),
        5 => Arg::Func(r.word()?),
        _ => {
            return Err(FileError::Damaged(
                at,
                "no argument is of that kind".to_owned(),
            ));
        }
    })
}
