//! Tests of the server over the real protocol.

mod support;

use serde_json::{Value, json};
use support::{Client, URI};

const TEXT: &str = "\
// Adds twice.
def @twice(%x: Tensor[(n, 4), float32]) -> Tensor[(n, 4), float32] {
  let %y = add(%x, %x);
  nn.relu(%y)
}

type Pair[A] { Two(A, A), None_ }

def @main(%a: Tensor[(3, 4), float32]) {
  %0 = @twice(%a);
  let %p = Two(%0, %0);
  match (%p) {
    Two(%l, %r) => nn.softmax(%l, axis=-1),
    None_ => %a,
  }
}
";

fn text_of(hover: &Value) -> &str {
    hover["contents"]["value"].as_str().unwrap_or_default()
}

fn starts(list: &Value) -> Vec<(u64, u64)> {
    let mut all: Vec<_> = (list.as_array().expect("a list").iter())
        .map(|l| &l["range"]["start"])
        .map(|p| {
            (
                p["line"].as_u64().unwrap_or(99),
                p["character"].as_u64().unwrap_or(99),
            )
        })
        .collect();
    all.sort_unstable();
    all
}

fn labels(list: &Value) -> Vec<&str> {
    let items = list.as_array().expect("a list").iter();
    items.filter_map(|i| i["label"].as_str()).collect()
}

#[test]
fn hover_says_types_and_where_facts_come_from() {
    let mut c = Client::open(TEXT);
    let y = c.at("textDocument/hover", (2, 7));
    assert!(text_of(&y).contains("%y: Tensor[(n, 4), float32]"), "{y}");
    assert!(text_of(&y).contains("`n` is bound in line 2"), "{y}");
    let f = c.at("textDocument/hover", (9, 9));
    assert!(text_of(&f).contains("def @twice: fn"), "{f}");
    assert!(text_of(&f).contains("Adds twice."), "{f}");
    let op = c.at("textDocument/hover", (12, 24));
    assert!(
        text_of(&op).contains("nn.softmax(%data, axis: int = -1)"),
        "{op}"
    );
    assert!(
        text_of(&op).contains("here it gives `Tensor[(3, 4), float32]`"),
        "{op}"
    );
    let key = c.at("textDocument/hover", (12, 35));
    assert!(text_of(&key).contains("axis: int"), "{key}");
    let ctor = c.at("textDocument/hover", (10, 12));
    assert!(text_of(&ctor).contains("a constructor of `Pair`"), "{ctor}");
    let graph = c.at("textDocument/hover", (9, 3));
    assert!(
        text_of(&graph).contains("%0: Tensor[(3, 4), float32]"),
        "{graph}"
    );
    assert_eq!(c.close(), Some(0));
}

#[test]
fn names_are_found_and_renamed() {
    let mut c = Client::open(TEXT);
    let found = c.at("textDocument/definition", (9, 9));
    assert_eq!(starts(&found), [(1, 4)]);
    let found = c.at("textDocument/references", (1, 6));
    assert_eq!(starts(&found), [(1, 4), (9, 7)]);
    let found = c.at("textDocument/references", (10, 12));
    assert_eq!(starts(&found), [(6, 15), (10, 11), (12, 4)]);
    let found = c.at("textDocument/references", (1, 24));
    assert_eq!(starts(&found), [(1, 23), (1, 51)]);
    let found = c.at("textDocument/references", (6, 10));
    assert_eq!(starts(&found), [(6, 10), (6, 19), (6, 22)]);
    let found = c.at("textDocument/documentHighlight", (10, 16));
    assert_eq!(starts(&found), [(9, 2), (10, 15), (10, 19)]);

    let rename = |c: &mut Client, line: u32, character: u32, new: &str| {
        let position = json!({ "line": line, "character": character });
        let document = json!({ "uri": URI });
        let p = json!({ "textDocument": document, "position": position, "newName": new });
        c.ask_message("textDocument/rename", p)
    };
    let done = rename(&mut c, 2, 7, "z");
    let edits = done["result"]["changes"][URI].clone();
    assert_eq!(starts(&edits), [(2, 7), (3, 11)]);
    // Two variables would become one.
    let refused = rename(&mut c, 12, 9, "%r");
    assert!(
        refused["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("something else")),
        "{refused}"
    );
    let refused = rename(&mut c, 2, 7, "no name");
    assert!(
        refused["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("is no name")),
        "{refused}"
    );
    let refused = rename(&mut c, 12, 24, "x");
    assert!(
        refused["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("is built in")),
        "{refused}"
    );
    c.close();
}

#[test]
fn diagnostics_come_with_places_and_fixes() {
    let mut c = Client::open(TEXT);
    assert_eq!(c.wait_diagnostics(), json!([]));
    c.change(2, 11, 14, "ad");
    let said = c.wait_diagnostics();
    assert_eq!(said[0]["code"], "RX0203", "{said}");
    assert_eq!(
        said[0]["codeDescription"]["href"],
        "relax:explain/RX0203.md"
    );
    let actions = c.whole("textDocument/codeAction");
    let list = actions.as_array().expect("a list");
    let fix = list
        .iter()
        .find(|a| a["kind"] == "quickfix")
        .expect("a suggestion");
    assert_eq!(
        fix["edit"]["changes"][URI][0]["newText"], "add",
        "{actions}"
    );
    assert!(
        list.iter()
            .any(|a| a["command"]["command"] == "relax.explain")
    );
    c.change(2, 11, 13, "add");
    assert_eq!(c.wait_diagnostics(), json!([]));
    // A wrong shape refers to the location that the other shape came from.
    c.change(8, 22, 26, "5, 6");
    let said = c.wait_diagnostics();
    assert!(!said.as_array().expect("a list").is_empty());
    c.close();
}

#[test]
fn completion_knows_its_place() {
    let mut c = Client::open(TEXT);
    let locals = c.at("textDocument/completion", (3, 11));
    assert_eq!(labels(&locals)[..2], ["%y", "%x"], "{locals}");
    let in_clause = c.at("textDocument/completion", (12, 31));
    let all = labels(&in_clause);
    assert!(
        all.contains(&"%l") && all.contains(&"%p") && !all.contains(&"%y"),
        "{all:?}"
    );
    let globals = c.at("textDocument/completion", (9, 8));
    let all = labels(&globals);
    assert!(
        all.contains(&"@twice") && all.contains(&"@main") && !all.contains(&"%a"),
        "{all:?}"
    );
    let inside = c.at("textDocument/completion", (12, 34));
    let all = labels(&inside);
    for wanted in ["axis=", "nn.conv2d", "Two", "@twice", "let", "match …"] {
        assert!(all.contains(&wanted), "no {wanted} among {all:?}");
    }
    let types = c.at("textDocument/completion", (8, 14));
    let all = labels(&types);
    assert!(
        all.contains(&"Tensor") && all.contains(&"Pair") && !all.contains(&"nn.relu"),
        "{all:?}"
    );
    let item = json!({ "label": "nn.relu", "kind": 2 });
    let resolved = c.ask("completionItem/resolve", item);
    assert!(
        resolved["documentation"]["value"]
            .as_str()
            .is_some_and(|d| d.contains("nn.relu(")),
        "{resolved}"
    );
    // While the line is incomplete.
    c.change(3, 2, 13, "nn.batch_flatten(%");
    let half = c.at("textDocument/completion", (3, 20));
    assert!(labels(&half).contains(&"%y"), "{half}");
    c.close();
}

#[test]
fn signatures_show_the_active_parameter() {
    let mut c = Client::open(TEXT);
    let help = c.at("textDocument/signatureHelp", (12, 38));
    assert_eq!(
        help["signatures"][0]["label"],
        "nn.softmax(%data, axis: int = -1)"
    );
    assert_eq!(help["activeParameter"], 1);
    let help = c.at("textDocument/signatureHelp", (9, 15));
    assert_eq!(
        help["signatures"][0]["label"],
        "@twice(%x: Tensor[(n, 4), float32])"
    );
    assert_eq!(help["activeParameter"], 0);
    c.close();
}

#[test]
fn hints_symbols_folds_and_selections() {
    let mut c = Client::open(TEXT);
    let hints = c.whole("textDocument/inlayHint");
    let all = labels(&hints);
    assert_eq!(
        all,
        [
            ": Tensor[(n, 4), float32]",
            " -> Tensor[(3, 4), float32]",
            ": Tensor[(3, 4), float32]",
            ": Pair[Tensor[(3, 4), float32]]",
            ": Tensor[(3, 4), float32]",
            ": Tensor[(3, 4), float32]",
        ]
    );
    let symbols = c.whole("textDocument/documentSymbol");
    let names: Vec<_> = symbols
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(names, ["@twice", "Pair", "@main"]);
    assert_eq!(symbols[1]["children"][0]["name"], "Two");
    let found = c.ask("workspace/symbol", json!({ "query": "tw" }));
    let names: Vec<_> = found
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(names, ["@twice", "Two"]);
    let folds = c.whole("textDocument/foldingRange");
    let lines: Vec<_> = (folds.as_array().expect("a list").iter())
        .map(|f| (f["startLine"].as_u64(), f["endLine"].as_u64()))
        .collect();
    assert_eq!(
        lines,
        [
            (Some(1), Some(3)),
            (Some(8), Some(14)),
            (Some(11), Some(13))
        ]
    );
    let positions = json!([{ "line": 2, "character": 15 }]);
    let document = json!({ "uri": URI });
    let p = json!({ "textDocument": document, "positions": positions });
    let chain = c.ask("textDocument/selectionRange", p);
    let mut widths = Vec::new();
    let mut at = &chain[0];
    while !at.is_null() {
        widths.push((
            at["range"]["start"]["line"].as_u64(),
            at["range"]["start"]["character"].as_u64(),
        ));
        at = &at["parent"];
    }
    assert_eq!(widths[0], (Some(2), Some(15)), "{chain}");
    assert_eq!(widths.last(), Some(&(Some(0), Some(0))), "{chain}");
    assert!(widths.len() >= 5, "{chain}");
    c.close();
}

#[test]
fn settings_turn_hints_off() {
    let mut c = Client::open(TEXT);
    let settings =
        json!({ "relax": { "inlayHints": { "enable": false }, "codeLens": { "enable": false } } });
    c.tell(
        "workspace/didChangeConfiguration",
        json!({ "settings": settings }),
    );
    assert_eq!(c.whole("textDocument/inlayHint"), json!([]));
    assert_eq!(c.whole("textDocument/codeLens"), json!([]));
    c.close();
}

#[test]
fn tokens_are_told_apart() {
    let mut c = Client::open("def @f(%x: float32) { nn.relu(%x) } // é😀\n");
    let data = c.whole("textDocument/semanticTokens/full")["data"].clone();
    let data: Vec<u64> = data
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    let sorts: Vec<_> = data.chunks(5).map(|t| (t[1], t[2], t[3], t[4])).collect();
    assert_eq!(
        sorts,
        [
            (0, 3, 0, 0),   // def
            (4, 2, 2, 1),   // @f
            (3, 2, 1, 1),   // %x
            (4, 7, 3, 2),   // float32
            (11, 7, 12, 2), // nn.relu
            (8, 2, 1, 0),   // %x
            (6, 6, 8, 0),   // the comment, in UTF-16
        ]
    );
    c.close();
}

#[test]
fn formatting_edits_only_what_changes() {
    let mut c =
        Client::open("def @f(%x: float32) {\n    %x\n}\n\ndef @g(%x: float32) {\n  %x\n}\n");
    let edits = c.whole("textDocument/formatting");
    assert_eq!(edits.as_array().map(Vec::len), Some(1), "{edits}");
    assert_eq!(edits[0]["newText"], "  %x\n");
    assert_eq!(starts(&edits), [(1, 0)]);
    // The first function has errors: the second one is still formatted.
    c.change(1, 0, 6, "  let = ");
    c.change(5, 0, 4, "        %x");
    let edits = c.whole("textDocument/formatting");
    assert_eq!(starts(&edits), [(5, 0)], "{edits}");
    c.close();
}

#[test]
fn commands_show_texts() {
    let mut c = Client::open(TEXT);
    let lenses = c.whole("textDocument/codeLens");
    assert_eq!(starts(&lenses), [(1, 4), (1, 4), (8, 4), (8, 4)]);
    let command = |c: &mut Client, name: &str, arguments: Value| {
        c.ask_message(
            "workspace/executeCommand",
            json!({ "command": name, "arguments": arguments }),
        )
    };
    let said = command(&mut c, "relax.explain", json!(["RX0301"]));
    assert!(
        said["result"]["text"]
            .as_str()
            .is_some_and(|t| t.starts_with("# RX0301")),
        "{said}"
    );
    let passes = command(&mut c, "relax.passes", json!([]));
    assert!(
        passes["result"]
            .as_array()
            .is_some_and(|l| l.contains(&json!("to-a-normal-form"))),
        "{passes}"
    );
    let after = command(
        &mut c,
        "relax.showAfter",
        json!([URI, "main", "to-a-normal-form"]),
    );
    assert!(
        after["result"]["text"]
            .as_str()
            .is_some_and(|t| t.contains("def @main")),
        "{after}"
    );
    let wrong = command(
        &mut c,
        "relax.showAfter",
        json!([URI, "main", "no-such-pass"]),
    );
    assert!(
        wrong["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("no-such-pass")),
        "{wrong}"
    );
    let uri = format!("relax:after/to-a-normal-form?{URI}");
    let text = c.ask("workspace/textDocumentContent", json!({ "uri": uri }));
    assert_eq!(text["text"], after["result"]["text"]);
    c.close();
}

#[test]
fn what_it_does_not_know_is_refused() {
    let mut c = Client::open(TEXT);
    let answer = c.ask_message("textDocument/moniker", json!({}));
    assert_eq!(answer["error"]["code"], -32601);
    let answer = c.ask_message("textDocument/hover", json!({ "wrong": true }));
    assert_eq!(answer["error"]["code"], -32602);
    c.tell(
        "textDocument/didClose",
        json!({ "textDocument": { "uri": URI } }),
    );
    assert_eq!(c.wait_diagnostics(), json!([]));
    assert_eq!(c.close(), Some(0));
}
