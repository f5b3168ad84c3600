//! Sets the text of `--version`.

include!("../base/commit.rs");

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    version();
}
