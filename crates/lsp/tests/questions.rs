//! Requests on complete and damaged files, over the real protocol, beyond those in `protocol.rs`.

mod support;

use serde_json::{Value, json};
use support::Client;

fn text_of(hover: &Value) -> &str {
    hover["contents"]["value"].as_str().unwrap_or_default()
}

fn labels(list: &Value) -> Vec<&str> {
    let items = list.as_array().expect("a list").iter();
    items.filter_map(|i| i["label"].as_str()).collect()
}

const TEXT: &str = "\
op my.scale[s: Shape](%x: Tensor[s, float32], factor: float64 = 1.0) -> Tensor[s, float32] {
  compute %x * factor
}
def @main(%x: Tensor[(n, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, strides=[2, 2], padding=[1, 1]);
  %1 = multiply(%0, 2.5f);
  nn.relu(%1) // done
}
";

#[test]
fn hovers_show_constants_and_where_dimensions_come_from() {
    let mut c = Client::open(TEXT);
    let graph = c.at("textDocument/hover", (5, 3));
    assert!(
        text_of(&graph).contains("%1: Tensor[(n, 4, 4, 4), float32]"),
        "{graph}"
    );
    assert!(
        text_of(&graph).contains("`n` is bound in line 4"),
        "{graph}"
    );
    let constant = c.at("textDocument/hover", (5, 21));
    assert!(text_of(&constant).contains("value: `2.5`"), "{constant}");
    let attr = c.at("textDocument/hover", (4, 27));
    assert!(text_of(&attr).contains("strides"), "{attr}");
    c.close();
}

#[test]
fn completion_offers_the_attributes_that_are_not_there() {
    let mut c = Client::open(TEXT);
    c.change(4, 39, 39, " ");
    let list = c.at("textDocument/completion", (4, 40));
    let all = labels(&list);
    for wanted in ["groups=", "kernel_size=", "data_layout="] {
        assert!(all.contains(&wanted), "no {wanted} among {all:?}");
    }
    for there in ["strides=", "padding="] {
        assert!(!all.contains(&there), "{there} is there already: {all:?}");
    }
    // Not inside an attribute's value, nor in comments.
    let value = c.at("textDocument/completion", (4, 33));
    assert!(!labels(&value).contains(&"groups="), "{value}");
    let comment = c.at("textDocument/completion", (6, 18));
    assert_eq!(comment, json!([]));
    // Those of an operator of the file, while its call is incomplete.
    c.change(6, 2, 13, "my.scale(%1, ");
    let list = c.at("textDocument/completion", (6, 15));
    assert!(labels(&list).contains(&"factor="), "{list}");
    let help = c.at("textDocument/signatureHelp", (6, 15));
    assert!(
        help["signatures"][0]["label"]
            .as_str()
            .is_some_and(|l| l.starts_with("my.scale(%x: ") && l.contains("factor")),
        "{help}"
    );
    assert_eq!(help["activeParameter"], 1, "{help}");
    c.close();
}

#[test]
fn a_wrong_shape_names_the_other_place() {
    let mut c = Client::open(TEXT);
    c.wait_diagnostics();
    c.change(3, 60, 61, "5");
    let said = c.wait_diagnostics();
    let first = &said[0];
    assert_eq!(first["severity"], 1, "{said}");
    let related = &first["relatedInformation"];
    assert!(
        related
            .as_array()
            .is_some_and(|all| !all.is_empty() && all[0]["location"]["uri"] == support::URI),
        "{said}"
    );
    assert_eq!(first["source"], "relax");
    c.close();
}

#[test]
fn a_broken_function_leaves_the_others_answers() {
    let broken = format!("def @half(%a: float32) {{ let %b = add(%a, ;\n}}\n{TEXT}");
    let mut c = Client::open(&broken);
    let said = c.wait_diagnostics();
    let lines: Vec<_> = (said.as_array().expect("a list").iter())
        .map(|d| d["range"]["start"]["line"].as_u64())
        .collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|&l| l < Some(3)),
        "{said}"
    );
    let hover = c.at("textDocument/hover", (7, 3));
    assert!(
        text_of(&hover).contains("%1: Tensor[(n, 4, 4, 4), float32]"),
        "{hover}"
    );
    let inside = c.at("textDocument/completion", (0, 42));
    assert!(labels(&inside).contains(&"%a"), "{inside}");
    let found = c.whole("textDocument/documentSymbol");
    let names: Vec<_> = (found.as_array().expect("a list").iter())
        .filter_map(|s| s["name"].as_str())
        .collect();
    assert_eq!(names, ["@half", "my.scale", "@main"], "{found}");
    c.close();
}

const GRADIENT: &str = "\
op my.scale[s: Shape](%x: Tensor[s, float32], factor: float64 = 1.0) -> Tensor[s, float32] {
  compute %x * factor
}
grad my.scale(%x, factor) -> (%y, %g) {
  let %part = %g * factor;
  %part
}
def @main(%x: Tensor[(2,), float32]) { my.scale(%x) }
";

const ELEMENTS: &str = "\
op my.mean[t: BaseType](%x: Tensor[(n, c), t]) -> Tensor[(n,), t] {
  compute [%i] => sum(%k, c, %x[%i, %k]) / t(c)
}
def @main(%x: Tensor[(2, 3), float16]) { my.mean(%x) }
";

#[test]
fn element_types_are_names_of_an_operator() {
    let mut c = Client::open(ELEMENTS);
    assert_eq!(c.wait_diagnostics(), json!([]));
    let places = |list: &Value| -> Vec<(u64, u64)> {
        let starts = list
            .as_array()
            .expect("a list")
            .iter()
            .map(|l| &l["range"]["start"]);
        let place = |p: &Value| Some((p["line"].as_u64()?, p["character"].as_u64()?));
        let mut all: Vec<_> = starts.filter_map(place).collect();
        all.sort_unstable();
        all
    };
    // The conversion in the computation is a use, too.
    let used = c.at("textDocument/references", (0, 11));
    assert_eq!(places(&used), [(0, 11), (0, 43), (0, 63), (1, 43)]);
    let declared = c.at("textDocument/definition", (1, 43));
    assert_eq!(places(&declared), [(0, 11)]);
    let hover = c.at("textDocument/hover", (3, 44));
    let shown = text_of(&hover);
    assert!(
        shown.contains("my.mean") && shown.contains("Tensor[(2,), float16]"),
        "{hover}"
    );
    c.close();
}

#[test]
fn gradients_are_items_with_names_of_their_own() {
    let mut c = Client::open(GRADIENT);
    let found = c.whole("textDocument/documentSymbol");
    let names: Vec<_> = (found.as_array().expect("a list").iter())
        .filter_map(|s| s["name"].as_str())
        .collect();
    assert_eq!(names, ["my.scale", "grad my.scale", "@main"], "{found}");
    let line = |place: &Value| place["range"]["start"].clone();
    let start = |line: u32, character: u32| json!({ "line": line, "character": character });
    // The operator, an attribute, the gradient and a bound part.
    for (at, wanted) in [
        ((3, 8), start(0, 3)),
        ((4, 21), start(3, 18)),
        ((4, 15), start(3, 34)),
        ((5, 4), start(4, 6)),
    ] {
        let place = c.at("textDocument/definition", at);
        let place = place.get(0).unwrap_or(&place);
        assert_eq!(line(place), wanted, "{at:?}: {place}");
    }
    // The first token of the item is a keyword.
    let data = c.whole("textDocument/semanticTokens/full")["data"].clone();
    let tokens: Vec<u64> = (data.as_array().expect("a list").iter())
        .filter_map(Value::as_u64)
        .collect();
    let mut at = (0, 0);
    let kind = tokens.chunks(5).find_map(|t| {
        at = if t[0] == 0 {
            (at.0, at.1 + t[1])
        } else {
            (at.0 + t[0], t[1])
        };
        (at == (3, 0)).then_some(t[3])
    });
    assert_eq!(kind, Some(tokens[3]), "as `op`: {data}");
    // A mistake is in the item's own place.
    c.change(4, 19, 25, "faktor");
    let said = c.wait_diagnostics();
    let said = said.as_array().expect("a list").clone();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(line(&said[0]), start(4, 19), "{said:?}");
    c.close();
}

#[test]
fn data_is_folded_as_a_region() {
    let numbers = "    1, 2, 3,\n".repeat(30);
    let text = format!(
        "def @f() {{\n  my_call([\n{numbers}  ])\n}}\n#[metadata]\n{{\n  \"root\": 1\n}}\n"
    );
    let mut c = Client::open(&text);
    let folds = c.whole("textDocument/foldingRange");
    let regions: Vec<_> = (folds.as_array().expect("a list").iter())
        .filter(|f| f["kind"] == "region")
        .map(|f| f["startLine"].as_u64().unwrap_or(99))
        .collect();
    assert_eq!(regions, [1, 34], "{folds}");
    c.close();
}

#[test]
fn a_part_is_formatted_alone() {
    let mut c =
        Client::open("def @f(%x: float32) {\n    %x\n}\n\ndef @g(%x: float32) {\n    %x\n}\n");
    let range = json!({
        "start": { "line": 4, "character": 0 }, "end": { "line": 6, "character": 1 },
    });
    let options = json!({ "tabSize": 2, "insertSpaces": true });
    let document = json!({ "uri": support::URI });
    let p = json!({ "textDocument": document, "range": range, "options": options });
    let edits = c.ask("textDocument/rangeFormatting", p);
    let lines: Vec<_> = (edits.as_array().expect("a list").iter())
        .map(|e| e["range"]["start"]["line"].as_u64())
        .collect();
    assert_eq!(lines, [Some(5)], "{edits}");
    c.close();
}

/// The tool that runs functions is a script here, which echoes its input.
#[cfg(unix)]
#[test]
fn a_lens_runs_its_function() {
    use std::os::unix::fs::PermissionsExt;

    let tool = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-tool.sh");
    std::fs::write(&tool, "#!/bin/sh\necho \"$@\"\ncat\n").expect("it can be written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&tool, mode).expect("it is ours");
    let options = json!({ "runTool": tool });
    let mut c = Client::start(Value::Null, json!({}), options);
    c.open_document(support::URI, TEXT);
    let lenses = c.whole("textDocument/codeLens");
    let run = (lenses.as_array().expect("a list").iter())
        .find(|l| l["command"]["command"] == "relax.run")
        .expect("a lens");
    let command = json!({
        "command": run["command"]["command"], "arguments": run["command"]["arguments"],
    });
    let done = c.ask("workspace/executeCommand", command);
    assert_eq!(done["text"], format!("- --random 0 --entry main\n{TEXT}"));
    c.close();
}

const CALLS: &str = "\
type Tree { Leaf(float32), Node(Tree, Tree) }
def @leaf(%x: float32) -> Tree { Leaf(%x) }
def @sum(%t: Tree) -> float32 {
  match (%t) { Leaf(%x) => %x, Node(%l, %r) => add(@sum(%l), @sum(%r)) }
}
def @main(%x: float32) { let %t = Node(@leaf(%x), @leaf(%x)); @sum(%t) }
";

#[test]
fn types_and_callers_are_found() {
    let mut c = Client::open(CALLS);
    let place = c.at("textDocument/typeDefinition", (5, 30));
    assert_eq!(place[0]["range"]["start"]["line"], 0, "{place}");
    let place = c.at("textDocument/typeDefinition", (5, 40));
    assert_eq!(place[0]["range"]["start"]["line"], 0, "{place}");
    let items = c.at("textDocument/prepareCallHierarchy", (2, 6));
    assert_eq!(items[0]["name"], "@sum", "{items}");
    let item = json!({ "item": items[0] });
    let incoming = c.ask("callHierarchy/incomingCalls", item.clone());
    let from: Vec<_> = (incoming.as_array().expect("a list").iter())
        .map(|i| {
            (
                i["from"]["name"].as_str(),
                i["fromRanges"].as_array().map(Vec::len),
            )
        })
        .collect();
    assert_eq!(
        from,
        [(Some("@sum"), Some(2)), (Some("@main"), Some(1))],
        "{incoming}"
    );
    let outgoing = c.ask("callHierarchy/outgoingCalls", item);
    assert_eq!(outgoing[0]["to"]["name"], "@sum", "{outgoing}");
    c.close();
}

#[test]
fn of_many_variables_the_nearest_are_offered() {
    let lets: String = (0..20_000)
        .map(|i| format!("  let %v{i} = %x;\n"))
        .collect();
    let text = format!("def @main(%x: float32) {{\n{lets}  %\n}}\n");
    let mut c = Client::open(&text);
    let list = c.at("textDocument/completion", (20_001, 3));
    assert_eq!(list["isIncomplete"], true);
    let all = labels(&list["items"]);
    assert!(
        all.len() < 1_000 && all.contains(&"%v19999"),
        "{}",
        all.len()
    );
    c.change(20_001, 2, 3, "%v123");
    let list = c.at("textDocument/completion", (20_001, 7));
    assert!(
        labels(&list["items"]).iter().all(|l| l.contains('1')),
        "{list}"
    );
    c.close();
}

#[test]
fn missing_clauses_are_an_action() {
    let text = CALLS.replace("Leaf(%x) => %x, ", "");
    let mut c = Client::open(&text);
    c.wait_diagnostics();
    let found = c.whole("textDocument/codeAction");
    let titles: Vec<_> = (found.as_array().expect("a list").iter())
        .filter_map(|a| a["title"].as_str())
        .collect();
    assert!(titles.contains(&"add the missing clauses"), "{titles:?}");
    c.close();
}

const SCRIPT: &str = "\
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), dtype=\"float32\")) -> R.Tensor((2, 3), dtype=\"float32\"):
        lv = R.nn.relu(x)
        gv = R.add(lv, wrong)
        return gv
";

#[test]
fn texts_in_tvmscript_are_known_when_the_editor_says_so() {
    let mut c = Client::start(Value::Null, json!({}), Value::Null);
    c.open_as("file:///there.py", "tvmscript", SCRIPT);
    let said = c.wait_diagnostics();
    let said = said.as_array().expect("a list").clone();
    let message = said[0]["message"].as_str().unwrap_or_default();
    assert!(
        said.len() == 1 && message.contains("`wrong` is not defined"),
        "{said:?}"
    );
    assert_eq!(said[0]["range"]["start"]["line"], 8, "{said:?}");
    c.open_as(
        "file:///right.py",
        "tvmscript",
        &SCRIPT.replace("wrong", "x"),
    );
    assert_eq!(c.wait_diagnostics(), json!([]));
    let bound = c.at("textDocument/hover", (7, 9));
    assert!(
        text_of(&bound).contains("lv: Tensor[(2, 3), float32]"),
        "{bound}"
    );
    let used = c.at("textDocument/hover", (7, 23));
    assert!(
        text_of(&used).contains("x: Tensor[(2, 3), float32]"),
        "{used}"
    );
    // The text is Python: it is not formatted as Relay.
    let uri = json!({ "textDocument": { "uri": "file:///right.py" }, "options": { "tabSize": 4, "insertSpaces": true } });
    assert_eq!(c.ask("textDocument/formatting", uri), Value::Null);
    c.close();
}
