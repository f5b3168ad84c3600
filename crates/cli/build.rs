//! Sets the text of `--version`, and tells relaxc where the runtime library is that it embeds.

use std::path::Path;

include!("../base/commit.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    version();
    carried();
    fixed();
}

/// Executables lie at a fixed address: each table of functions and names is right as it stands in
/// the file, where the loader would otherwise write 40,000 addresses into 200 pages before a tool
/// begins, more than half of its start.
fn fixed() {
    let gnu = env("CARGO_CFG_TARGET_OS") == "linux" && env("CARGO_CFG_TARGET_ENV") == "gnu";
    let known = ["x86_64", "aarch64"].contains(&env("CARGO_CFG_TARGET_ARCH").as_str());
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if gnu && known && !features.split(',').any(|f| f == "crt-static") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}

/// Locates the runtime library that relaxc embeds: among the libraries it is built with. Its file
/// name there is known for path dependencies, not for packages from a registry.
fn carried() {
    println!("cargo:rustc-check-cfg=cfg(relax_carried)");
    let out = env("OUT_DIR");
    let Some(profile) = Path::new(&out).ancestors().nth(3) else {
        return;
    };
    let fetched = ["git/checkouts", "registry/src"];
    let fetched = fetched
        .iter()
        .any(|f| env("CARGO_MANIFEST_DIR").contains(f));
    let elf = env("CARGO_CFG_TARGET_OS") == "linux";
    let known = ["x86_64", "aarch64"].contains(&env("CARGO_CFG_TARGET_ARCH").as_str());
    if elf && known && !fetched {
        let library = profile.join("deps/librelax_runtime.a");
        println!("cargo:rustc-cfg=relax_carried");
        println!("cargo:rustc-env=RELAX_CARRIED={}", library.display());
    }
}
