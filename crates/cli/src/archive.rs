//! Appending an object to a static library.
//!
//! The archive is in the System V/GNU format: a first member `/` (or `/SYM64/`) lists the global
//! symbols with the offset of the member that defines each. Archivers rebuild that list by reading
//! every member, and fail on the bitcode in Rust's objects; extending the existing list by our
//! symbols avoids that.

use std::borrow::Cow;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;

/// An archive with one more member, except for the member's bytes: these go between the third part
/// and [`padding`].
pub type Parts<'a> = [Cow<'a, [u8]>; 3];

/// Appends an object of `object_size` bytes named `name`, which defines `symbols`, to an archive.
/// Returns `None` if `archive` does not start with a symbol list.
pub fn with_object<'a>(
    archive: &'a [u8],
    name: &str,
    object_size: usize,
    symbols: &[String],
) -> Option<Parts<'a>> {
    let rest = archive.strip_prefix(MAGIC)?;
    let header = rest.get(..HEADER)?;
    let text = |from: usize, to: usize| {
        std::str::from_utf8(&header[from..to])
            .ok()
            .map(str::trim_end)
    };
    let title = text(0, 16)?;
    let width = match title {
        "/" => 4,
        "/SYM64/" => 8,
        _ => return None,
    };
    let size: usize = text(48, 58)?.parse().ok()?;
    let list = rest.get(HEADER..HEADER + size)?;
    let members = rest.get(HEADER + size + size % 2..)?;
    let number = |at: usize| -> Option<u64> {
        let bytes = list.get(at..at + width)?;
        Some(bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
    };
    let count = number(0)? as usize;
    // The list may be padded with zeros: names appended after them would be misaligned.
    let strings = list.get(width * (count + 1)..)?;
    let ends = strings.iter().enumerate().filter(|b| *b.1 == 0);
    let end = match count.checked_sub(1) {
        Some(last) => ends.map(|b| b.0).nth(last)? + 1,
        None => 0,
    };
    let strings = &strings[..end];
    let names: Vec<u8> = symbols.iter().flat_map(|s| s.bytes().chain([0])).collect();
    let new_size = width * (count + 1 + symbols.len()) + strings.len() + names.len();
    let shift = (new_size + new_size % 2) as i64 - (size + size % 2) as i64;
    // Members start at even offsets.
    let padding = members.len() % 2;
    let own = (MAGIC.len() + HEADER + new_size + new_size % 2 + members.len() + padding) as u64;

    let mut out = MAGIC.to_vec();
    let put = |out: &mut Vec<u8>, n: u64| out.extend(&n.to_be_bytes()[8 - width..]);
    out.extend(member(title, new_size));
    put(&mut out, (count + symbols.len()) as u64);
    for k in 0..count {
        let at = number(width * (k + 1))?;
        put(&mut out, at.checked_add_signed(shift)?);
    }
    symbols.iter().for_each(|_| put(&mut out, own));
    out.extend(strings);
    out.extend(names);
    out.extend(std::iter::repeat_n(b'\n', new_size % 2));
    let mut last = vec![b'\n'; padding];
    debug_assert_eq!((out.len() + members.len() + last.len()) as u64, own);
    last.extend(member(&format!("{name}/"), object_size));
    Some([out.into(), members.into(), last.into()])
}

/// Returns the padding after a member of this size: members start at even offsets.
pub fn padding(size: usize) -> &'static [u8] {
    &b"\n"[..size % 2]
}

/// Returns the header of a member, without times or owners, so that output is reproducible.
fn member(name: &str, size: usize) -> Vec<u8> {
    format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).into_bytes()
}
