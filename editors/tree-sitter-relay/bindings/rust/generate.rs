//! Writes `src/parser.c` from `grammar.js`: `cargo run --example generate`. It needs `node`.

use std::path::Path;

use tree_sitter_generate::{OptLevel, generate_parser_in_directory};

/// What current and older Neovim both load.
const ABI: usize = 14;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::args().nth(1);
    let out = out.map(std::path::PathBuf::from);
    let mut said = Vec::new();
    let grammar = None::<&Path>;
    let js = Some("node");
    let level = OptLevel::default();
    let done =
        generate_parser_in_directory(root, out, grammar, ABI, None, js, true, level, &mut said);
    if let Err(e) = done {
        eprintln!("{e}");
        std::process::exit(1);
    }
}
