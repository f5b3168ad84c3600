//! Checks the crates' dependencies against `cargo metadata`, the sources, and the table in
//! ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The direct dependencies that each crate may have.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("tensor", &[]),
    ("runtime", &[]),
    ("testkit", &["tensor"]),
    ("sym", &["base"]),
    ("syntax", &["base"]),
    ("loops", &["base", "tensor"]),
    ("ir", &["base", "sym", "tensor", "loops"]),
    ("ops", &["base", "sym", "tensor", "loops", "ir"]),
    (
        "resolve",
        &[
            "base", "syntax", "sym", "tensor", "loops", "ir", "ops", "tvm",
        ],
    ),
    ("infer", &["base", "sym", "tensor", "loops", "ir", "ops"]),
    (
        "programs",
        &["base", "sym", "tensor", "loops", "ir", "ops", "infer"],
    ),
    (
        "passes",
        &[
            "base", "syntax", "sym", "tensor", "loops", "ir", "ops", "infer", "programs", "resolve",
        ],
    ),
    (
        "interp",
        &[
            "base", "sym", "tensor", "loops", "ir", "ops", "infer", "programs",
        ],
    ),
    (
        "lower",
        &[
            "base", "sym", "tensor", "loops", "ir", "ops", "infer", "programs",
        ],
    ),
    (
        "vm",
        &[
            "base", "tensor", "loops", "syntax", "ir", "resolve", "lower",
        ],
    ),
    ("codegen", &["base", "tensor", "loops", "lower", "runtime"]),
    ("tvm", &["base", "tensor", "syntax", "sym", "ir", "ops"]),
    ("onnx", &["base", "sym", "tensor", "ir", "ops", "programs"]),
    (
        "tvmscript",
        &["base", "sym", "tensor", "loops", "ir", "ops"],
    ),
    (
        "relax",
        &[
            "base",
            "syntax",
            "sym",
            "tensor",
            "loops",
            "ir",
            "ops",
            "resolve",
            "infer",
            "programs",
            "passes",
            "interp",
            "lower",
            "vm",
            "codegen",
            "tvm",
            "tvmscript",
            "onnx",
        ],
    ),
    (
        "lsp",
        &[
            "base", "tensor", "syntax", "sym", "ir", "ops", "resolve", "passes", "relax",
        ],
    ),
    (
        "cli",
        &[
            "base", "syntax", "sym", "tensor", "ir", "passes", "relax", "lower", "vm", "codegen",
            "runtime", "interp", "tvm",
        ],
    ),
    ("python", &["relax", "cli", "lsp"]),
    (
        "fuzzing",
        &[
            "base", "syntax", "tensor", "ir", "passes", "interp", "onnx", "tvm", "relax", "lsp",
            "testkit", "lower", "codegen", "runtime", "vm",
        ],
    ),
];

/// External crates that only one crate (or those named) may use.
const KEPT: &[(&str, &str)] = &[
    ("cranelift-codegen", "codegen"),
    ("cranelift-object", "codegen"),
    ("cranelift-jit", "codegen"),
    ("ariadne", "cli"),
    ("clap", "cli lsp"),
    ("lalrpop-util", "syntax tvmscript vm"),
    ("logos", "syntax tvmscript vm"),
    ("prost", "onnx"),
    ("lsp-server", "lsp"),
    ("lsp-types", "lsp"),
    ("pyo3", "python"),
    ("numpy", "python"),
];

/// A crate of the workspace, from Cargo's metadata.
struct Room {
    /// Its dependencies.
    uses: Vec<String>,
    /// The folder of its manifest.
    folder: PathBuf,
}

fn rooms() -> BTreeMap<String, Room> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let out = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
            manifest,
        ])
        .output()
        .expect("cargo runs");
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    let mut all = BTreeMap::new();
    for package in json["packages"].as_array().expect("a list of packages") {
        let name = package["name"].as_str().expect("a name");
        let name = name.strip_prefix("relax-").unwrap_or(name).to_owned();
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let folder = manifest.parent().expect("a folder").to_owned();
        let uses = package["dependencies"]
            .as_array()
            .expect("a list of dependencies");
        let normal = uses.iter().filter(|d| d["kind"].is_null());
        let uses = normal
            .map(|d| d["name"].as_str().expect("a name").to_owned())
            .collect();
        all.insert(name, Room { uses, folder });
    }
    all
}

/// Returns the workspace crates among dependencies.
fn ours(uses: &[String]) -> BTreeSet<&str> {
    let ours = |u: &&String| *u == "relax" || u.starts_with("relax-");
    let used = uses.iter().filter(ours);
    used.map(|u| u.strip_prefix("relax-").unwrap_or(u))
        .collect()
}

/// Returns the allowed dependencies of a crate.
fn allowed(room: &str) -> BTreeSet<&'static str> {
    let found = ARROWS.iter().find(|a| a.0 == room);
    let (_, allowed) = found.unwrap_or_else(|| panic!("room `{room}` is not on the map"));
    allowed.iter().copied().collect()
}

#[test]
fn arrows_are_what_rooms_are_built_with() {
    let rooms = rooms();
    for (room, Room { uses, .. }) in &rooms {
        let (allowed, used) = (allowed(room), ours(uses));
        let more: Vec<_> = used.difference(&allowed).collect();
        assert!(more.is_empty(), "`{room}` may not use {more:?}");
        let fewer: Vec<_> = allowed.difference(&used).collect();
        assert!(fewer.is_empty(), "`{room}` may use {fewer:?}, and does not");
        for (krate, keeper) in KEPT {
            let knows = uses.iter().any(|u| u == krate);
            assert!(
                !knows || keeper.split(' ').any(|k| k == room),
                "only `{keeper}` may know `{krate}`, not `{room}`"
            );
        }
    }
    for (room, _) in ARROWS {
        assert!(rooms.contains_key(*room), "there is no room `{room}`");
    }
}

/// Returns the sources under a folder, without comments and code that is only built for tests.
fn files(root: &Path) -> Vec<(PathBuf, String)> {
    let (mut open, mut all) = (vec![root.to_owned()], Vec::new());
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            open.extend(entries.map(|e| e.expect("an entry").path()));
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            let whole = std::fs::read_to_string(&path).expect("a text");
            let own = whole.split("#[cfg(test)]\nmod tests {").next();
            let lines = own.unwrap_or_default().lines();
            let code = lines.filter(|l| !l.trim_start().starts_with("//"));
            let text = code.collect::<Vec<_>>().join("\n");
            all.push((path, text));
        }
    }
    all
}

/// Dependencies that only tests use must be dev-dependencies.
#[test]
fn rooms_use_what_they_are_built_with() {
    // Named so that Cargo builds the library beside the tools, which link it into their output.
    const BESIDE: &[(&str, &str)] = &[("cli", "runtime")];
    for (room, Room { uses, folder }) in rooms() {
        let text: String = files(&folder.join("src"))
            .into_iter()
            .map(|f| f.1)
            .collect();
        for used in ours(&uses) {
            let name = match used {
                "relax" => "relax::".to_owned(),
                _ => format!("relax_{used}"),
            };
            assert!(
                text.contains(&name) || BESIDE.contains(&(&*room, used)),
                "nothing in `{room}` but tests uses `{used}`"
            );
        }
    }
}

/// Returns the crate in each line of the map's table, with the crates in its last column.
fn drawn() -> Vec<(String, BTreeSet<String>)> {
    let map = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let map = std::fs::read_to_string(map).expect("the map");
    let (_, table) = map.split_once("| room | holds | → |").expect("a table");
    let rows = table.lines().skip(2).take_while(|l| l.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let [room, .., to] = cells[..] else {
            panic!("a row of three cells: {line}")
        };
        let words = to.split(|c: char| !c.is_ascii_alphanumeric());
        let known = |w: &&str| ARROWS.iter().any(|a| a.0 == *w);
        let to = words.filter(known).map(str::to_owned).collect();
        (room.trim().to_owned(), to)
    };
    rows.map(row).collect()
}

/// The table lists each crate's dependencies, without transitive ones.
#[test]
fn the_map_draws_every_arrow() {
    let drawn = drawn();
    let rooms: BTreeSet<&str> = drawn.iter().map(|d| d.0.as_str()).collect();
    let known: BTreeSet<&str> = ARROWS.iter().map(|a| a.0).collect();
    assert_eq!(rooms, known, "the rooms of the table");
    for (room, to) in &drawn {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = Vec::new();
        for to in to {
            let fits = allowed(room).contains(to.as_str());
            assert!(
                fits,
                "the table lets `{room}` use `{to}`, which it does not"
            );
            open.push(to);
        }
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(allowed(next));
            }
        }
        let missing: Vec<_> = (allowed(room).into_iter())
            .filter(|a| !reached.contains(a))
            .collect();
        assert!(
            missing.is_empty(),
            "the table does not say that `{room}` uses {missing:?}"
        );
    }
}

/// Holds a section of the map, which lists files by name, against the files that have a line for
/// which `wanted` returns true; `apart` are the rooms that it does not list.
fn files_on_the_map(section: &str, apart: &[&str], wanted: impl Fn(&str) -> bool) {
    let map = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let map = std::fs::read_to_string(map).expect("the map");
    let (_, listed) = map.split_once(section).expect("a section");
    let (listed, _) = listed.split_once("\n## ").expect("a section after it");
    let mut found = BTreeSet::new();
    for (room, Room { folder, .. }) in rooms() {
        if apart.contains(&&*room) {
            continue;
        }
        let root = folder.join("src");
        for (file, text) in files(&root) {
            if text.lines().map(str::trim_start).any(&wanted) {
                let inside = file.strip_prefix(&root).expect("a file of the room");
                found.insert(format!("`{room}/src/{}`", inside.display()));
            }
        }
    }
    let unlisted: Vec<_> = found.iter().filter(|f| !listed.contains(*f)).collect();
    assert!(
        unlisted.is_empty(),
        "not on the map, {section}: {unlisted:?}"
    );
    let named = listed.split('`').skip(1).step_by(2);
    let gone: Vec<_> = named
        .filter(|n| n.ends_with(".rs") && !found.contains(&format!("`{n}`")))
        .collect();
    assert!(
        gone.is_empty(),
        "on the map, {section}, for nothing: {gone:?}"
    );
}

/// Mutable and lazily initialised statics must be listed in the map, with their reason.
#[test]
fn global_state_is_on_the_map() {
    const CHANGES: &[&str] = &["Mutex", "Atomic", "Lock<", "Once ", "RefCell", "Limited"];
    files_on_the_map("## Global state", &["testkit", "fuzzing"], |l| {
        let declares = l.starts_with("static ") || l.starts_with("pub static ");
        declares && CHANGES.iter().any(|c| l.contains(c))
    });
}

/// Files with unsafe code must be listed in the map, with their reason, but those of the rooms that
/// are made of it: the runtime and the code generator.
#[test]
fn unsafe_code_is_on_the_map() {
    let apart = &["runtime", "codegen", "testkit", "fuzzing"];
    files_on_the_map("## Unsafe code", apart, |l| {
        let code = l.split("//").next().unwrap_or_default();
        let forms = ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"];
        forms.iter().any(|f| code.contains(f))
    });
}
