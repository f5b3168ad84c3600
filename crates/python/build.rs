//! Sets the name by which libraries written by `Program.save` find the package's runtime.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,relax_ir_native.so");
    }
}
