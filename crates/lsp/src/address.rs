//! URIs of texts: files, and the server's virtual documents.

use std::path::{Path, PathBuf};

/// Resolves percent escapes; `None` if the result is not UTF-8.
pub fn unescape(text: &str) -> Option<String> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        let code = (b == b'%').then(|| {
            let digits = [bytes.clone().next()?, bytes.clone().nth(1)?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
        });
        match code.flatten() {
            Some(c) => {
                plain.push(c);
                bytes.nth(1);
            }
            None => plain.push(b),
        }
    }
    String::from_utf8(plain).ok()
}

/// Returns the path of a `file:` URI. Editors escape differently, so paths are compared rather than
/// URIs.
pub fn path(address: &str) -> Option<PathBuf> {
    let rest = address.strip_prefix("file://")?;
    // A host name before the path is ignored.
    let plain = unescape(&rest[rest.find('/')?..])?;
    let drive = plain.as_bytes().get(2) == Some(&b':');
    Some(PathBuf::from(if drive { &plain[1..] } else { &plain }))
}

/// Returns the `file:` URI of an absolute path; `None` if the path is not UTF-8.
pub fn of_path(path: &Path) -> Option<String> {
    let text = path.to_str()?.replace('\\', "/");
    let mut out = String::from("file://");
    if !text.starts_with('/') {
        out.push('/');
    }
    for b in text.bytes() {
        let bare = b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'.' | b'_' | b'~');
        match bare {
            true => out.push(b as char),
            false => out.push_str(&format!("%{b:02X}")),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_addresses_are_one_another() {
        for text in ["/a/b.relay", "/with space/é.relay", "/100%/x.relay"] {
            let address = of_path(Path::new(text)).expect("UTF-8");
            assert!(address.is_ascii());
            assert_eq!(path(&address), Some(PathBuf::from(text)));
        }
        assert_eq!(
            path("file:///c%3A/a.relay"),
            Some(PathBuf::from("c:/a.relay"))
        );
        assert_eq!(path("untitled:Untitled-1"), None);
        assert_eq!(unescape("%"), Some("%".into()));
        assert_eq!(unescape("%ff"), None);
    }
}
