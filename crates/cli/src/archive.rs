//! Static libraries: one more object in an archive.
//!
//! The archive is in the format of System V and GNU: a first member `/` (or `/SYM64/`) lists the
//! global symbols with the position of the member that defines each. Archivers read every member
//! anew to make that list and trip over the intermediate code that Rust's objects carry; the old
//! list plus our symbols is right without.

use std::borrow::Cow;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;

/// An archive with one more member, without the bytes of that: they stand between the third part
/// and [`padding`].
pub type Parts<'a> = [Cow<'a, [u8]>; 3];

/// The archive with an object of `object_size` bytes under `name` as its last member, which defines
/// `symbols`. `None` when `archive` does not start with a list of symbols.
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
    // The list may end in zeros that fill it up: names added behind them would be out of step.
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
    // Members start at even positions.
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

/// Returns what follows a member of that size: members start at even positions.
pub fn padding(size: usize) -> &'static [u8] {
    &b"\n"[..size % 2]
}

/// The header of a member: no times or owners, so that the same input gives the same bytes.
fn member(name: &str, size: usize) -> Vec<u8> {
    format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).into_bytes()
}
