//! Arguments of the linker for the package's library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RELAX_FOLD_FUNCTIONS");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The name by which libraries written by `Program.save` find the package's runtime.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,relax_ir_native.so");
        // Equal functions once, which only some linkers can do: rustc's own on x86-64 is one.
        if std::env::var_os("RELAX_FOLD_FUNCTIONS").is_some() {
            println!("cargo:rustc-cdylib-link-arg=-Wl,--icf=all");
        }
    }
}
