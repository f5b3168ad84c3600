//! Generates the parser from `grammar/tvmscript.lalrpop` at the top of the house.

use std::path::Path;

fn main() {
    // Where the package is now: this script may have been built where it was before.
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let grammar = Path::new(&package).join("../../grammar");
    println!(
        "cargo::rerun-if-changed={}",
        grammar.join("tvmscript.lalrpop").display()
    );
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("set by cargo");
    let done = lalrpop::Configuration::new()
        .set_out_dir(out)
        .emit_rerun_directives(false)
        .emit_comments(false)
        .emit_whitespace(false)
        .process_file(grammar.join("tvmscript.lalrpop"));
    if let Err(error) = done {
        panic!("grammar/tvmscript.lalrpop: {error}");
    }
}
