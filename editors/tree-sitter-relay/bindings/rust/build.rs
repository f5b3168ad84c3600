//! Compiles the generated parser.

fn main() {
    let src = std::path::Path::new("src");
    let mut build = cc::Build::new();
    build.std("c11").include(src).warnings(false);
    for file in ["parser.c", "scanner.c"] {
        let path = src.join(file);
        build.file(&path);
        println!("cargo:rerun-if-changed={}", path.display());
    }
    build.compile("tree-sitter-relay");
}
