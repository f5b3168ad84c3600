//! Generates the listing's parser from `grammar/vm.lalrpop` at the top of the house.

use std::path::Path;

fn main() {
    let grammar = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grammar");
    println!(
        "cargo::rerun-if-changed={}",
        grammar.join("vm.lalrpop").display()
    );
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("set by cargo");
    let done = lalrpop::Configuration::new()
        .set_out_dir(out)
        .emit_rerun_directives(false)
        .emit_comments(false)
        .emit_whitespace(false)
        .process_file(grammar.join("vm.lalrpop"));
    if let Err(error) = done {
        panic!("grammar/vm.lalrpop: {error}");
    }
}
