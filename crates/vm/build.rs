//! Generates the listing's parser from `grammar/vm.lalrpop` at the repository root.

include!("../../grammar/generate.rs");

fn main() {
    generate("vm");
}
