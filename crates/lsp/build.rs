//! What `--version` says.

include!("../base/commit.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    version();
}
