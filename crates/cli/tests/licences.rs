//! Licences of linked code: every crate in the tools has a licence that permits use, modification
//! and redistribution.

use std::process::Command;

/// Licences that only require their text to be included.
const FREE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Returns whether one alternative of a licence expression requires permissive licences only.
fn is_free(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let free = |l: &str| FREE.contains(&l.trim());
    // Alternatives within a conjunction count too: `(MIT OR Apache-2.0) AND Unicode-3.0`.
    let both = (expression.split(" AND ")).all(|part| part.split(" OR ").any(free));
    both || (expression.split(" OR ")).any(|part| part.split(" AND ").all(free))
}

#[test]
fn expressions_are_read() {
    assert!(is_free("MIT OR Apache-2.0") && is_free("MIT/Apache-2.0"));
    assert!(is_free("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(is_free("GPL-3.0 OR MIT"));
    assert!(!is_free("GPL-3.0") && !is_free("MIT AND GPL-3.0"));
}

#[test]
fn every_dependency_is_free() {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc");
    let host = String::from_utf8_lossy(&host.stdout).into_owned();
    let host = (host.lines().find_map(|l| l.strip_prefix("host: "))).expect("a host");
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .args(["--filter-platform", host, "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo runs");
    if !out.status.success() {
        // Crates that nothing built here needs are not downloaded.
        eprintln!("skipped: {}", String::from_utf8_lossy(&out.stderr));
        return;
    }
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    let resolved = json["resolve"]["nodes"].as_array().expect("what is used");
    let used: Vec<&str> = resolved.iter().filter_map(|n| n["id"].as_str()).collect();
    let mut others = Vec::new();
    for package in json["packages"].as_array().expect("packages") {
        let id = package["id"].as_str().expect("an id");
        let licence = package["license"].as_str().unwrap_or("none");
        if used.contains(&id) && !is_free(licence) {
            others.push(format!("{}: {licence}", package["name"]));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
}
