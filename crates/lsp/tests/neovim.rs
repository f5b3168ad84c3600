//! Headless Neovim with the configuration in `editors/nvim` and the real server. If `nvim` is not
//! on the path, the test reports so and passes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const TEXT: &str = "\
def @main(%x: Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32] {
  let %y = add(%x, %x);
      nn.relux(%y)
}
";

#[test]
fn neovim_talks_to_the_server() {
    let version = Command::new("nvim").arg("--version").output();
    if version.is_err() {
        println!("skipped: nvim is not installed (Debian: apt-get install neovim)");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("neovim");
    std::fs::create_dir_all(&dir).expect("a folder");
    let (file, result) = (dir.join("test.relay"), dir.join("result.json"));
    std::fs::write(&file, TEXT).expect("it can be written");
    let _ = std::fs::remove_file(&result);
    let out = Command::new("nvim")
        .args(["--headless", "-u", "NONE", "-i", "NONE", "-n", "--cmd"])
        .arg(format!(
            "set runtimepath^={}",
            root.join("editors/nvim").display()
        ))
        .arg("-c")
        .arg(format!(
            "luafile {}",
            root.join("crates/lsp/tests/neovim.lua").display()
        ))
        .env("RELAX_LSP", env!("CARGO_BIN_EXE_relax-lsp"))
        .env("RELAX_FILE", &file)
        .env("RELAX_RESULT", &result)
        .env("XDG_STATE_HOME", &dir)
        .env("XDG_CACHE_HOME", &dir)
        .output()
        .expect("nvim runs");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let text = std::fs::read_to_string(&result).unwrap_or_else(|_| panic!("no result: {said}"));
    let found: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}\n{said}"));
    assert_eq!(found["filetype"], "relay", "{found}");
    let shown = found["diagnostics"].as_array().expect("a list");
    assert_eq!(shown.len(), 1, "{found}");
    assert!(
        shown[0]
            .as_str()
            .is_some_and(|m| m.contains("there is no operator or constructor `nn.relux`")),
        "{found}"
    );
    assert_eq!(found["mended"], 0, "{found}");
    assert!(
        found["hover"]
            .as_str()
            .is_some_and(|h| h.contains("%y: Tensor[(n, 4), float32]")),
        "{found}"
    );
    assert_eq!(
        found["renamed"],
        "def @main(%x: Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32] {\n  \
         let %twice = add(%x, %x);\n      nn.relu(%twice)\n}",
        "{found}"
    );
    assert_eq!(found["definition"], "relax:op/add.md", "{found}");
    assert!(
        found["page"].as_str().is_some_and(|p| p.contains("# add")),
        "{found}"
    );
    assert_eq!(
        found["formatted"],
        "def @main(%x: Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32] {\n  \
         let %twice = add(%x, %x);\n  nn.relu(%twice)\n}",
        "{found}"
    );
}
