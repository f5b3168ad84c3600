//! Archives of arrays: PKWARE's APPNOTE 4.3, members stored as they are or deflated.
//!
//! The file is untrusted: every position and size is checked against the actual bytes.

use std::borrow::Cow;

use super::Unreadable;

/// A member of an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    deflated: bool,
    /// The offset of its header.
    header: usize,
    /// Its length in the file, and its declared uncompressed length.
    packed: usize,
    size: usize,
}

/// No array of this many bytes is extracted from a compressed member: a few bytes there can declare
/// any size.
const LARGEST: usize = 1 << 36;

/// Returns whether a file is an archive.
pub fn is(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// A number of `N` bytes at a place.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let own = bytes.get(at..at.checked_add(N)?)?;
    Some(own.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
}

fn size<const N: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    number::<N>(bytes, at)?.try_into().ok()
}

/// The members of an archive.
///
/// # Errors
/// It is damaged, or in a form that NumPy does not write.
pub fn members(bytes: &[u8]) -> Result<Vec<Member>, Unreadable> {
    let directory = directory(bytes).ok_or("is a damaged archive: its directory is not there")?;
    let (count, mut at) = directory;
    let mut out = Vec::new();
    for _ in 0..count {
        let damaged = "is a damaged archive: its directory ends early";
        let (member, next) = member(bytes, at).ok_or(damaged)??;
        out.push(member);
        at = next;
    }
    Ok(out)
}

/// Returns the number of members, and the offset of their directory.
fn directory(bytes: &[u8]) -> Option<(usize, usize)> {
    const END: usize = 22;
    let last = bytes.len().checked_sub(END)?;
    let first = last.saturating_sub(0xffff);
    let end = (first..=last)
        .rev()
        .find(|&at| bytes[at..].starts_with(b"PK\x05\x06"))?;
    let (count, at) = (size::<2>(bytes, end + 10)?, size::<4>(bytes, end + 16)?);
    if count != 0xffff && at != 0xffff_ffff {
        return Some((count, at));
    }
    // The 64-bit form: a locator before the end has its offset.
    let locator = end.checked_sub(20)?;
    if !bytes[locator..].starts_with(b"PK\x06\x07") {
        return Some((count, at));
    }
    let long = size::<8>(bytes, locator + 8)?;
    if !bytes.get(long..)?.starts_with(b"PK\x06\x06") {
        return None;
    }
    Some((
        size::<8>(bytes, long.checked_add(32)?)?,
        size::<8>(bytes, long.checked_add(48)?)?,
    ))
}

/// Reads a member of the directory, and returns the offset of the next one. `None` where the bytes
/// end.
fn member(bytes: &[u8], at: usize) -> Option<Result<(Member, usize), Unreadable>> {
    if !bytes.get(at..)?.starts_with(b"PK\x01\x02") {
        return None;
    }
    let (flags, method) = (number::<2>(bytes, at + 8)?, number::<2>(bytes, at + 10)?);
    let (mut packed, mut full) = (size::<4>(bytes, at + 20)?, size::<4>(bytes, at + 24)?);
    let mut header = size::<4>(bytes, at + 42)?;
    let (names, extras) = (size::<2>(bytes, at + 28)?, size::<2>(bytes, at + 30)?);
    let comment = size::<2>(bytes, at + 32)?;
    let name = bytes.get(at + 46..at + 46 + names)?;
    let name = String::from_utf8_lossy(name).into_owned();
    let extra = bytes.get(at + 46 + names..at + 46 + names + extras)?;
    longer(extra, [&mut full, &mut packed, &mut header])?;
    let next = at + 46 + names + extras + comment;
    if flags & 1 != 0 {
        return Some(Err(format!("has `{name}` encrypted").into()));
    }
    let deflated = match method {
        0 => false,
        8 => true,
        _ => {
            return Some(Err(format!(
                "has `{name}` compressed in a way that NumPy does not use"
            )
            .into()));
        }
    };
    let member = Member {
        name,
        deflated,
        header,
        packed,
        size: full,
    };
    Some(Ok((member, next)))
}

/// Replaces numbers that are marked as too large by their 64-bit forms.
fn longer(mut extra: &[u8], numbers: [&mut usize; 3]) -> Option<()> {
    let mut fields: &[u8] = &[];
    while extra.len() >= 4 {
        let (id, len) = (number::<2>(extra, 0)?, size::<2>(extra, 2)?);
        let own = extra.get(4..4 + len)?;
        if id == 1 {
            fields = own;
        }
        extra = &extra[4 + len..];
    }
    for n in numbers {
        if *n == 0xffff_ffff {
            *n = size::<8>(fields, 0)?;
            fields = &fields[8..];
        }
    }
    Some(())
}

/// Returns the contents of a member.
///
/// # Errors
/// It is not within the file, or its contents do not match its entry.
pub fn contents<'b>(bytes: &'b [u8], member: &Member) -> Result<Cow<'b, [u8]>, Unreadable> {
    let outside = "does not lie in the archive";
    let own = || {
        let at = member.header;
        if !bytes.get(at..)?.starts_with(b"PK\x03\x04") {
            return None;
        }
        let (names, extras) = (size::<2>(bytes, at + 26)?, size::<2>(bytes, at + 28)?);
        let begin = at + 30 + names + extras;
        bytes.get(begin..begin.checked_add(member.packed)?)
    };
    let own = own().ok_or(outside)?;
    if !member.deflated {
        return match member.packed == member.size {
            true => Ok(Cow::Borrowed(own)),
            false => Err("is damaged: its sizes disagree".into()),
        };
    }
    // The compression ratio is limited to this.
    let most = own
        .len()
        .saturating_mul(1100)
        .saturating_add(64)
        .min(LARGEST);
    if member.size > most {
        return Err("is damaged: so few bytes do not hold so many".into());
    }
    match miniz_oxide::inflate::decompress_to_vec_with_limit(own, member.size) {
        Ok(out) if out.len() == member.size => Ok(Cow::Owned(out)),
        _ => Err("is damaged: it cannot be decompressed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(out: &mut Vec<u8>, fields: &[(usize, usize)]) {
        for &(n, bytes) in fields {
            out.extend(&n.to_le_bytes()[..bytes]);
        }
    }

    /// An archive of one member.
    fn archive(name: &str, method: usize, data: &[u8], size: usize) -> Vec<u8> {
        let mut out = b"PK\x03\x04".to_vec();
        let sizes = [(0, 4), (data.len(), 4), (size, 4), (name.len(), 2)];
        put(&mut out, &[(20, 2), (0, 2), (method, 2), (0, 4)]);
        put(&mut out, &sizes);
        put(&mut out, &[(0, 2)]);
        out.extend(name.as_bytes());
        out.extend(data);
        let directory = out.len();
        out.extend(b"PK\x01\x02");
        put(&mut out, &[(20, 2), (20, 2), (0, 2), (method, 2), (0, 4)]);
        put(&mut out, &sizes);
        put(&mut out, &[(0, 2), (0, 2), (0, 2), (0, 2), (0, 4), (0, 4)]);
        out.extend(name.as_bytes());
        let length = out.len() - directory;
        out.extend(b"PK\x05\x06");
        put(
            &mut out,
            &[
                (0, 2),
                (0, 2),
                (1, 2),
                (1, 2),
                (length, 4),
                (directory, 4),
                (0, 2),
            ],
        );
        out
    }

    fn read(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Unreadable> {
        let each = |m: Member| Ok((m.name.clone(), contents(bytes, &m)?.into_owned()));
        members(bytes)?.into_iter().map(each).collect()
    }

    #[test]
    fn members_are_stored_or_deflated() {
        let data = b"a member, a member, a member".repeat(10);
        let deflated = miniz_oxide::deflate::compress_to_vec(&data, 6);
        for bytes in [
            archive("x.npy", 0, &data, data.len()),
            archive("x.npy", 8, &deflated, data.len()),
        ] {
            assert!(is(&bytes));
            assert_eq!(read(&bytes), Ok(vec![("x.npy".to_owned(), data.clone())]));
        }
    }

    #[test]
    fn hostile_archives_are_errors() {
        let deflated = miniz_oxide::deflate::compress_to_vec(&[7; 1000], 6);
        for (what, bytes) in [
            ("nothing", Vec::new()),
            ("no directory", b"PK\x03\x04".to_vec()),
            ("another size than it has", archive("x", 0, b"abc", 1000)),
            (
                "more than so few bytes hold",
                archive("x", 8, &deflated, 0x7fff_ffff),
            ),
            ("more than it inflates to", archive("x", 8, &deflated, 1001)),
            ("less than it inflates to", archive("x", 8, &deflated, 999)),
            ("no deflated data", archive("x", 8, b"\xff\xff\xff\xff", 4)),
            ("another method", archive("x", 12, b"abc", 3)),
        ] {
            read(&bytes).expect_err(what);
        }
    }

    #[test]
    fn no_bytes_of_an_archive_do_harm() {
        let good = archive(
            "x.npy",
            8,
            &miniz_oxide::deflate::compress_to_vec(&[7; 100], 6),
            100,
        );
        for at in 0..good.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                let _ = read(&bad);
                // Two bytes, for sizes.
                if let Some(next) = bad.get_mut(at + 1) {
                    *next = byte;
                }
                let _ = read(&bad);
            }
            let _ = read(&good[..at]);
        }
    }
}
