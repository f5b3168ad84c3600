//! A fingerprint of the sources, so that `relaxc` links the library that its code was generated
//! for.

use std::path::{Path, PathBuf};

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(dir).expect("the crate's own folder");
    for entry in entries {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            files(&path, out);
        } else {
            out.push(path);
        }
    }
}

fn main() {
    let mut all = Vec::new();
    for dir in ["src", "include"] {
        println!("cargo:rerun-if-changed={dir}");
        files(Path::new(dir), &mut all);
    }
    all.sort();
    // FNV-1a, 64 bits.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for path in all {
        let text = std::fs::read(&path).expect("readable");
        let name = path.to_string_lossy().replace('\\', "/");
        for byte in name.bytes().chain([0]).chain(text).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=RELAX_RUNTIME_SOURCES={hash:016x}");
}
