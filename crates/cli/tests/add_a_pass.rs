//! `docs/add-a-pass.md` shows a pass exactly as in the repository.

use std::path::Path;

#[test]
fn the_page_shows_a_pass_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file");
    let (page, pass) = (
        read("docs/add-a-pass.md"),
        read("crates/passes/src/passes/div_to_mul.rs"),
    );
    let (_, block) = page.split_once("```rust\n").expect("an example");
    let (block, _) = block.split_once("```").expect("its end");
    // The example is in a list, and indented.
    let plain: Vec<&str> = block
        .lines()
        .map(|l| l.strip_prefix("   ").unwrap_or(l))
        .collect();
    assert_eq!(plain.join("\n").trim(), pass.trim());
    assert!(
        page.contains(
            read("tests/passes/div-to-mul.relay")
                .lines()
                .next()
                .expect("a line")
        )
    );
}
