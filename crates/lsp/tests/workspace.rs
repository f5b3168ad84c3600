//! Features that concern several documents, over the real protocol: files that are not open, the
//! prelude, token deltas, changes of settings.

mod support;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::Client;

/// Creates a folder of files for one test.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("workspace {name}"));
    let _ = std::fs::remove_dir_all(&dir);
    for (file, text) in files {
        let path = dir.join(file);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        std::fs::write(path, text).expect("it can be written");
    }
    dir
}

fn uri(path: &Path) -> String {
    relax_lsp::address::of_path(path).expect("UTF-8")
}

fn capabilities() -> Value {
    let watched = json!({ "dynamicRegistration": true });
    let refresh = json!({ "refreshSupport": true });
    json!({ "workspace": {
        "didChangeWatchedFiles": watched, "inlayHint": refresh, "codeLens": refresh,
    } })
}

/// Returns the files of locations, with their lines.
fn places(list: &Value) -> Vec<(String, u64)> {
    let file = |l: &Value| {
        let uri = l["uri"].as_str().unwrap_or_default();
        uri.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let all = list.as_array().expect("a list").iter();
    let mut all: Vec<_> = all
        .map(|l| (file(l), l["range"]["start"]["line"].as_u64().unwrap_or(99)))
        .collect();
    all.sort();
    all
}

fn found(c: &mut Client, query: &str) -> Vec<String> {
    let list = c.ask("workspace/symbol", json!({ "query": query }));
    let all = list.as_array().expect("a list").iter();
    let mut all: Vec<String> = all
        .map(|s| {
            let uri = s["location"]["uri"].as_str().unwrap_or_default();
            let file = uri.rsplit('/').next().unwrap_or_default();
            format!("{} in {file}", s["name"].as_str().unwrap_or_default())
        })
        .collect();
    all.sort();
    all
}

const OPEN: &str = "\
def @main(%x: Tensor[(4,), float32]) -> Tensor[(4,), float32] {
  nn.relu(@help(%x))
}
def @help(%x: Tensor[(4,), float32]) -> Tensor[(4,), float32] { nn.relu(%x) }
";
const CLOSED: &str = "\
def @other(%x: Tensor[(4,), float32], %l: List[float32]) -> Tensor[(4,), float32] {
  nn.relu(%x)
}
";
/// A damaged file is indexed as far as it parses.
const BROKEN: &str = "def @broken(%x: float32) { let = 1; nn.relu(%x) }\ndef @help() { 1 }\n";

#[test]
fn references_and_symbols_of_all_files() {
    let dir = folder(
        "symbols",
        &[
            ("open.relay", OPEN),
            ("sub dir/closed.relay", CLOSED),
            ("broken.relay", BROKEN),
            ("target/made.relay", CLOSED),
            ("note.txt", "def @no() { 1 }"),
        ],
    );
    let options = json!({ "virtualDocuments": true });
    let mut c = Client::start(json!(uri(&dir)), capabilities(), options);
    c.open_document(&uri(&dir.join("open.relay")), OPEN);
    assert_eq!(found(&mut c, "other"), ["@other in closed.relay"]);
    assert_eq!(
        found(&mut c, "help"),
        ["@help in broken.relay", "@help in open.relay"]
    );
    // Built-in names have the same meaning everywhere.
    let relu = c.at("textDocument/references", (1, 4));
    assert_eq!(
        places(&relu),
        [
            ("broken.relay".to_owned(), 0),
            ("closed.relay".to_owned(), 1),
            ("nn.relu.md".to_owned(), 0),
            ("open.relay".to_owned(), 1),
            ("open.relay".to_owned(), 3),
        ]
    );
    // Declared names are local to their file.
    let help = c.at("textDocument/references", (1, 13));
    assert_eq!(
        places(&help),
        [("open.relay".to_owned(), 1), ("open.relay".to_owned(), 3)]
    );

    // The editor notifies about file changes.
    let closed = dir.join("sub dir/closed.relay");
    std::fs::write(&closed, CLOSED.replace("@other", "@renamed")).expect("written");
    std::fs::remove_file(dir.join("broken.relay")).expect("removed");
    let changes = json!([
        { "uri": uri(&closed), "type": 2 }, { "uri": uri(&dir.join("broken.relay")), "type": 3 },
    ]);
    c.tell(
        "workspace/didChangeWatchedFiles",
        json!({ "changes": changes }),
    );
    assert_eq!(found(&mut c, "other"), Vec::<String>::new());
    assert_eq!(found(&mut c, "renamed"), ["@renamed in closed.relay"]);
    assert_eq!(found(&mut c, "help"), ["@help in open.relay"]);

    // For open files, the editor's text takes precedence.
    c.open_document(&uri(&closed), "def @typed() { 1 }\n");
    assert_eq!(found(&mut c, "renamed"), Vec::<String>::new());
    assert_eq!(found(&mut c, "typed"), ["@typed in closed.relay"]);

    // Another folder.
    let more = folder("more", &[("more.relay", "def @more() { 1 }")]);
    let event = json!({ "added": [{ "uri": uri(&more), "name": "more" }], "removed": [] });
    c.tell(
        "workspace/didChangeWorkspaceFolders",
        json!({ "event": event }),
    );
    assert_eq!(found(&mut c, "@more"), ["@more in more.relay"]);
    let event = json!({ "added": [], "removed": [{ "uri": uri(&more), "name": "more" }] });
    c.tell(
        "workspace/didChangeWorkspaceFolders",
        json!({ "event": event }),
    );
    assert_eq!(found(&mut c, "@more"), Vec::<String>::new());
    assert_eq!(c.close(), Some(0));
}

#[test]
fn files_are_looked_at_again_where_the_editor_does_not_watch() {
    let dir = folder("unwatched", &[("a.relay", CLOSED)]);
    let mut c = Client::start(json!(uri(&dir)), json!({}), json!({}));
    assert_eq!(found(&mut c, "other"), ["@other in a.relay"]);
    std::fs::write(dir.join("b.relay"), OPEN).expect("written");
    assert_eq!(found(&mut c, "help"), ["@help in b.relay"]);
    std::fs::remove_file(dir.join("a.relay")).expect("removed");
    assert_eq!(found(&mut c, "other"), Vec::<String>::new());
    c.close();
}

const USES: &str = "\
def @main(%l: List[float32]) -> List[float32] {
  Cons(1f, @tl(%l))
}
";

#[test]
fn definitions_lead_into_the_prelude() {
    let options = json!({ "virtualDocuments": true });
    let mut c = Client::start(Value::Null, json!({}), options);
    c.open_document(support::URI, USES);
    for (at, name) in [((1, 3), "Cons"), ((1, 12), "@tl"), ((0, 16), "List")] {
        let place = c.at("textDocument/definition", at);
        let uri = place[0]["uri"].as_str().expect("a place").to_owned();
        assert!(uri.starts_with("relax:prelude/"), "{place}");
        let text = c.ask("workspace/textDocumentContent", json!({ "uri": uri }));
        let text = text["text"].as_str().expect("a text");
        let start = &place[0]["range"]["start"];
        let line = start["line"].as_u64().expect("a line") as usize;
        let column = start["character"].as_u64().expect("a column") as usize;
        let line = text.lines().nth(line).expect("the line is there");
        assert!(line[column..].starts_with(name), "{name} in {line}");
    }
    let refused = c.ask_message(
        "textDocument/rename",
        json!({
            "textDocument": { "uri": support::URI }, "newName": "X",
            "position": { "line": 1, "character": 3 },
        }),
    );
    assert!(
        refused["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("defined in the prelude")),
        "{refused}"
    );
    // The prelude is an ordinary text, with references into it.
    let text = c.ask(
        "workspace/textDocumentContent",
        json!({ "uri": "relax:op/nn.relu.md" }),
    );
    assert!(
        text["text"]
            .as_str()
            .is_some_and(|t| t.starts_with("# nn.relu")),
        "{text}"
    );
    c.close();
}

#[test]
fn editors_without_virtual_documents_get_files() {
    let cache = folder("cache", &[]);
    let mut c = Client::start_with(Value::Null, json!({}), json!({}), |command| {
        command.env("XDG_CACHE_HOME", &cache);
    });
    c.open_document(support::URI, USES);
    let place = c.at("textDocument/definition", (1, 3));
    let path = relax_lsp::address::path(place[0]["uri"].as_str().expect("a place"));
    let path = path.expect("a file");
    assert!(path.starts_with(&cache), "{place}");
    let text = std::fs::read_to_string(path).expect("it is there");
    assert!(text.contains("Cons("), "{text}");
    c.close();
}

#[test]
fn tokens_are_told_as_changes() {
    let mut c = Client::open("def @f(%x: float32) { %x }\ndef @g(%x: float32) { %x }\n");
    let list = |v: &Value| -> Vec<u64> {
        let all = v.as_array().expect("a list").iter();
        all.filter_map(Value::as_u64).collect()
    };
    let document = json!({ "uri": support::URI });
    let first = c.whole("textDocument/semanticTokens/full");
    let mut data = list(&first["data"]);
    let mut id = first["resultId"].clone();
    let changes = [(0, 22, 24, "nn.relu(%x)"), (1, 0, 3, ""), (1, 0, 0, "def")];
    for (line, from, to, text) in changes {
        c.change(line, from, to, text);
        let p = json!({ "textDocument": document, "previousResultId": id });
        let delta = c.ask("textDocument/semanticTokens/full/delta", p);
        let edits = delta["edits"].as_array().expect("edits").clone();
        assert_eq!(edits.len(), 1, "{delta}");
        for e in edits {
            let start = e["start"].as_u64().expect("a number") as usize;
            let gone = e["deleteCount"].as_u64().expect("a number") as usize;
            let new = list(&e["data"]);
            assert!(new.len() < 40, "only what changed: {delta}");
            data.splice(start..start + gone, new);
        }
        let whole = c.whole("textDocument/semanticTokens/full");
        assert_eq!(list(&whole["data"]), data);
        id = whole["resultId"].clone();
    }
    // No changes; and an unknown result id gets the full tokens.
    let p = json!({ "textDocument": document, "previousResultId": id });
    let delta = c.ask("textDocument/semanticTokens/full/delta", p);
    assert_eq!(delta["edits"], json!([]));
    let p = json!({ "textDocument": document, "previousResultId": "no such" });
    let delta = c.ask("textDocument/semanticTokens/full/delta", p);
    assert_eq!(list(&delta["data"]), data);
    c.close();
}

#[test]
fn a_change_of_settings_has_the_editor_ask_again() {
    let mut c = Client::start(Value::Null, capabilities(), json!({}));
    c.open_document(support::URI, USES);
    for (hints, lenses, asked) in [
        (false, true, "workspace/inlayHint/refresh"),
        (false, false, "workspace/codeLens/refresh"),
    ] {
        let settings = json!({ "relax": {
            "inlayHints": { "enable": hints }, "codeLens": { "enable": lenses },
        } });
        c.tell(
            "workspace/didChangeConfiguration",
            json!({ "settings": settings }),
        );
        c.wait_for(asked);
    }
    c.close();
}
