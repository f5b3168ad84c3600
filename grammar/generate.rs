// What the build scripts of the crates with a grammar share: `include!` brings it into each.

/// Generates the parser of `grammar/NAME.lalrpop`.
fn generate(name: &str) {
    // Where the package is now: this script may have been built where it was before.
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let grammar = std::path::Path::new(&package).join("../../grammar").join(name).with_extension("lalrpop");
    println!("cargo::rerun-if-changed={}", grammar.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("set by cargo");
    let done = lalrpop::Configuration::new()
        .set_out_dir(out)
        .emit_rerun_directives(false)
        .emit_comments(false)
        .emit_whitespace(false)
        .process_file(&grammar);
    if let Err(error) = done {
        panic!("grammar/{name}.lalrpop: {error}");
    }
}
