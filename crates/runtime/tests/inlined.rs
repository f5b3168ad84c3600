//! Instructions of the processor's vectors are instructions: none became a call.
//!
//! A closure does not enable the instruction set of the function that it stands in, nor do the
//! functions of `core` that take one. An intrinsic in such a place is a call where the place is not
//! inlined, and a kernel that computes the same as before takes several times as long.
#![cfg(all(not(debug_assertions), target_arch = "x86_64", target_os = "linux"))]

use std::collections::BTreeSet;
use std::hint::black_box;

/// How names of `core::arch`'s functions contain its path.
const PATH: &[u8] = b"core_arch3x86";

/// The names of functions below [`PATH`] in an executable's table of symbols.
fn intrinsics(executable: &[u8]) -> BTreeSet<String> {
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    (executable.windows(PATH.len()).enumerate())
        .filter(|(_, window)| *window == PATH)
        .map(|(at, _)| {
            let rest = &executable[at + PATH.len()..];
            let end = rest.iter().position(|b| !is_name(b));
            String::from_utf8_lossy(&rest[..end.unwrap_or(rest.len())]).into_owned()
        })
        .filter(|name| name.contains("_mm"))
        .collect()
}

#[test]
fn intrinsics_are_inlined() {
    // All kernels are part of this executable.
    assert!(black_box(relax_runtime::symbols()).len() > 50);
    let path = std::env::current_exe().expect("a path");
    let executable = std::fs::read(path).expect("an executable");
    let kernel = b"relax_runtime7kernels";
    assert!(
        executable.windows(kernel.len()).any(|w| w == kernel),
        "the executable has no names of functions"
    );
    let found = intrinsics(&executable);
    assert!(
        found.is_empty(),
        "calls where there should be instructions: {found:#?}"
    );
}
