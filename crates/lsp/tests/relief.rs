//! Servers that take each other's place, behind one session.

mod support;

use serde_json::{Value, json};
use support::{Client, URI};

/// A text of a name that no other has, and of an equality of dimensions that strict settings refuse.
fn text(round: i32) -> String {
    let name = format!("name{round}_{}", "x".repeat(900));
    format!(
        "def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) -> Tensor[(n,), float32] {{\n  \
         let %{name} = add(%x, %x);\n  let %same: Tensor[(n,), float32] = %y;\n  add(%{name}, %same)\n}}\n"
    )
}

fn versions(c: &Client) -> Vec<i64> {
    let said = c.said("textDocument/publishDiagnostics").into_iter();
    said.filter_map(|m| m["params"]["version"].as_i64())
        .collect()
}

fn relieved(c: &Client) -> usize {
    let said = c.said("window/logMessage").into_iter();
    said.filter(|m| {
        m["params"]["message"]
            .as_str()
            .is_some_and(|t| t.contains("takes over"))
    })
    .count()
}

#[test]
fn names_are_bounded_in_a_long_session() {
    let folder = std::env::temp_dir().join(format!("relax-lsp-relief-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let uri = format!("file://{}", folder.display());
    let capabilities = json!({ "workspace": {
        "configuration": true, "didChangeWatchedFiles": { "dynamicRegistration": true },
    } });
    let mut c = Client::start_with(json!(uri), capabilities, Value::Null, |command| {
        command.arg("--max-names=8000");
    });
    c.settings = Some(json!({ "strictShapes": true, "inlayHints": { "enable": false } }));
    c.open_document(URI, &text(0));
    // Once by the default settings, perhaps, and once by those that it was given.
    while c.wait_diagnostics()[0]["severity"] != 1 {}
    let before = versions(&c).len();
    let rounds = 60;
    for round in 1..=rounds {
        c.replace(URI, round + 1, &text(round));
        let found = c.wait_diagnostics();
        assert_eq!(
            (found[0]["code"].as_str(), found[0]["severity"].as_i64()),
            (Some("RX0402"), Some(1))
        );
        let hover = c.at("textDocument/hover", (1, 8));
        let shown = hover["contents"]["value"].as_str().unwrap_or_default();
        assert!(shown.contains(&format!("%name{round}_")), "{shown}");
    }
    let servers = 1 + relieved(&c);
    // Each round is of about a kilobyte of names; a server ends after some eight.
    assert!(
        (4..=1 + rounds as usize / 4).contains(&servers),
        "{servers} servers"
    );
    // What was published once is not published again.
    let all: Vec<i64> = versions(&c)[before..].to_vec();
    assert_eq!(all, Vec::from_iter(2..=i64::from(rounds) + 1));
    assert_eq!(c.said("client/registerCapability").len(), 1);
    let asked = c.said("workspace/configuration").len();
    assert!(
        (servers - 1..=servers).contains(&asked),
        "{asked} of {servers}"
    );
    assert!(c.said("$/relax/full").is_empty());
    assert_eq!(c.close(), Some(0));
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_session_without_bound_names_has_one_server() {
    let mut c = Client::open(&text(0));
    for round in 1..=20 {
        c.replace(URI, round + 1, &text(round));
        c.wait_diagnostics();
    }
    assert_eq!(relieved(&c), 0);
    assert_eq!(c.close(), Some(0));
}

#[test]
fn an_end_without_shutdown_is_a_failure() {
    let mut c = Client::open(&text(0));
    c.wait_diagnostics();
    c.tell("exit", Value::Null);
    assert_eq!(c.wait(), Some(1));
    // The editor is gone.
    let mut c = Client::open(&text(0));
    c.wait_diagnostics();
    assert_eq!(c.wait(), Some(0));
}

/// The server behind a session.
#[cfg(target_os = "linux")]
fn server_of(c: &Client) -> String {
    let all = format!("/proc/{0}/task/{0}/children", c.process());
    loop {
        let children = std::fs::read_to_string(&all).expect("the session's process");
        if let Some(child) = children.split_whitespace().next() {
            return child.to_owned();
        }
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
fn kill(process: &str) {
    let done = std::process::Command::new("kill")
        .args(["-9", process])
        .status();
    assert!(done.expect("kill").success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_dies_is_replaced() {
    let mut c = Client::open(&text(0));
    c.wait_diagnostics();
    // An edit after which the texts on both sides are what is typed, not what was opened.
    c.change(1, 6, 7, "%ä");
    c.wait_diagnostics();
    let published = versions(&c).len();
    for _ in 0..4 {
        let server = server_of(&c);
        kill(&server);
        c.wait_for("window/logMessage");
        assert_ne!(server_of(&c), server);
        let hover = c.at("textDocument/hover", (1, 8));
        let shown = hover["contents"]["value"].as_str().unwrap_or_default();
        assert!(shown.contains("%äname0_"), "{shown}");
    }
    assert_eq!(versions(&c).len(), published);
    // It does not go on for ever.
    kill(&server_of(&c));
    assert_eq!(c.ended(), Some(2));
}
