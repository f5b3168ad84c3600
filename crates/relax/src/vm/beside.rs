//! Files of native kernels that accompany a bytecode file, so that kernels are compiled only once.
//! `docs/vm.md` specifies the format byte by byte, and the trust model.

use std::sync::Arc;

use relax_base::Diagnostics;
use relax_codegen::{Fixup, Image, Packable, Signature, Target8};
use relax_tensor::{DType, Tensor};
use relax_vm::{Const, Executable};

use super::native::{Native, definitions, one, sites};
use crate::Error;

/// The magic number of the format.
const MAGIC: &[u8; 8] = b"relaxvmn";

/// The version of the format.
const VERSION: u32 = 3;

/// The size of the part that the checksum does not cover.
const HEADER: usize = 24;

/// The alignment of packed weights.
const ALIGN: usize = 64;

/// Compiles a program's kernels for this machine and serialises them. `fingerprint` is that of the
/// bytecode file.
///
/// # Errors
/// A kernel uses something that has no native code.
pub fn native_file(program: &Executable, fingerprint: [u8; 32]) -> Result<Vec<u8>, Diagnostics> {
    let address = |t: &Tensor| t.bytes().as_ptr() as usize;
    let number = |t: &Tensor| {
        let same = |c: &Const| matches!(c, Const::Tensor(k) if address(k) == address(t));
        let found = program.consts.iter().position(same)?;
        u32::try_from(found).ok()
    };
    let image = Image::compile(&definitions(program)?, &sites(program), &number);
    let image = image.map_err(|d| one(*d))?;
    let mut w = Writer(fingerprint.to_vec());
    w.text(&relax_codegen::needs());
    w.list(&image.signatures, |w, s| {
        for side in [&s.inputs, &s.outputs] {
            w.list(side, |w, &(dtype, rank)| {
                w.text(&dtype.to_string());
                w.word(rank as u32);
            });
        }
        w.0.push(u8::from(s.given));
        w.list(&s.packable, |w, &Packable { input, zero }| {
            w.word(input as u32);
            w.word(zero.map_or(u32::MAX, |z| z as u32));
        });
    });
    w.list(&image.imports, |w, name| w.text(name));
    w.list(&image.fixups, |w, f| {
        let (kind, of) = match f.of {
            Target8::Here(at) => (0, at),
            Target8::Import(i) => (1, i),
        };
        w.word(f.at);
        w.0.push(kind);
        w.word(of);
        w.long(f.addend as u64);
    });
    w.list(&image.variants, |w, &(kernel, mask, at)| {
        w.word(kernel);
        w.long(mask);
        w.word(at);
    });
    w.list(&image.packed, |w, (kernel, input, constant, packed)| {
        w.word(*kernel);
        w.word(*input);
        w.word(*constant);
        w.long(packed.len() as u64);
    });
    w.list(&image.bytes, |w, &b| w.0.push(b));
    let head = w.0;
    let mut out = Vec::with_capacity(HEADER + head.len());
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend([0; 4]);
    out.extend((head.len() as u64).to_le_bytes());
    out.extend(head);
    let sum = crc32fast::hash(&out[16..]);
    out[12..16].copy_from_slice(&sum.to_le_bytes());
    for (.., packed) in &image.packed {
        out.resize(out.len().next_multiple_of(ALIGN), 0);
        out.extend(packed.bytes());
    }
    Ok(out)
}

/// Loads the kernels of a file that [`native_file`] made. Returns `Ok(None)` for files that belong
/// to another program, machine or build of this library: they must be regenerated.
///
/// # Safety
/// The file's code is executed: whoever can write to the file can do anything this process can.
///
/// # Errors
/// The file is damaged, or memory is exhausted.
pub unsafe fn open_native(
    program: &Executable,
    fingerprint: [u8; 32],
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    threads: usize,
) -> Result<Option<Native>, Error> {
    let damaged = || Error::File("it is damaged".to_owned());
    let all = (*bytes).as_ref();
    let header = all.get(..HEADER).filter(|h| h.starts_with(MAGIC));
    let header = header.ok_or_else(|| Error::File("it holds no native kernels".to_owned()))?;
    let mut r = Reader(&header[8..]);
    if r.word() != Some(VERSION) {
        return Ok(None);
    }
    let sum = r.word();
    let length = r.long().and_then(|n| usize::try_from(n).ok());
    let end = length
        .and_then(|n| n.checked_add(HEADER))
        .ok_or_else(damaged)?;
    let head = all.get(HEADER..end).ok_or_else(damaged)?;
    if Some(crc32fast::hash(&all[16..end])) != sum {
        return Err(damaged());
    }
    let mut r = Reader(head);
    if r.take(32) != Some(&fingerprint) || r.text() != Some(relax_codegen::needs()) {
        return Ok(None);
    }
    let image = image(&mut r, &bytes, end).ok_or_else(damaged)?;
    let constant = |c: u32| match program.consts.get(c as usize) {
        Some(Const::Tensor(t)) => Some(t.clone()),
        _ => None,
    };
    // SAFETY: the file is that of this program, and of a machine like this one.
    let kernels = unsafe { image.load(&constant)? };
    let native = Native::with(kernels, threads);
    native.map(Some).map_err(|d| {
        let first = d.iter().next();
        Error::Misused(first.map_or_else(String::new, |d| d.message.clone()))
    })
}

/// Reads the rest of the header, and the packed weights after it.
fn image(
    r: &mut Reader<'_>,
    bytes: &Arc<dyn AsRef<[u8]> + Send + Sync>,
    end: usize,
) -> Option<Image> {
    let signatures = r.list(|r| {
        let mut side = || r.list(|r| Some((r.text()?.parse().ok()?, r.word()? as usize)));
        Some(Signature {
            inputs: side()?,
            outputs: side()?,
            given: r.take(1)?[0] != 0,
            packable: r.list(|r| {
                let (input, zero) = (r.word()? as usize, r.word()?);
                let zero = (zero != u32::MAX).then_some(zero as usize);
                Some(Packable { input, zero })
            })?,
        })
    })?;
    let fits = |s: &Signature| {
        let there = |&input: &usize| input < s.inputs.len();
        (s.packable.iter()).all(|p| there(&p.input) && p.zero.iter().all(there))
    };
    signatures.iter().all(fits).then_some(())?;
    let imports = r.list(Reader::text)?;
    let fixups = r.list(|r| {
        let (at, kind, of) = (r.word()?, r.take(1)?[0], r.word()?);
        let of = match kind {
            0 => Target8::Here(of),
            1 => Target8::Import(of),
            _ => return None,
        };
        let addend = r.long()? as i64;
        Some(Fixup { at, of, addend })
    })?;
    let variants = r.list(|r| Some((r.word()?, r.long()?, r.word()?)))?;
    let mut next = end;
    let packed = r.list(|r| {
        let (kernel, input, constant) = (r.word()?, r.word()?, r.word()?);
        let shape = [i64::try_from(r.long()?).ok()?];
        let start = next.next_multiple_of(ALIGN);
        next = start.checked_add(Tensor::byte_len(DType::F32, &shape)?)?;
        let packed = Tensor::from_owner(DType::F32, &shape, bytes.clone(), start)?;
        Some((kernel, input, constant, packed))
    })?;
    let n = r.word()? as usize;
    let bytes = r.take(n)?.to_vec();
    r.0.is_empty().then_some(Image {
        signatures,
        bytes,
        fixups,
        imports,
        variants,
        packed,
    })
}

struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, v: u32) {
        self.0.extend(v.to_le_bytes());
    }
    fn long(&mut self, v: u64) {
        self.0.extend(v.to_le_bytes());
    }
    fn text(&mut self, text: &str) {
        self.list(text.as_bytes(), |w, &b| w.0.push(b));
    }
    fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Writer, &T)) {
        self.word(items.len() as u32);
        items.iter().for_each(|i| one(self, i));
    }
}

/// The remaining bytes; reads return `None` past the end.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, n: usize) -> Option<&'b [u8]> {
        let (found, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(found)
    }
    fn word(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    }
    fn long(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    }
    fn text(&mut self) -> Option<String> {
        let n = self.word()? as usize;
        String::from_utf8(self.take(n)?.to_vec()).ok()
    }
    fn list<T>(&mut self, one: impl FnMut(&mut Reader<'b>) -> Option<T>) -> Option<Vec<T>> {
        let mut one = one;
        let n = self.word()? as usize;
        // Each item takes at least one byte.
        (n <= self.0.len()).then_some(())?;
        (0..n).map(|_| one(self)).collect()
    }
}
