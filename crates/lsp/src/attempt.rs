//! Entry points for fuzzing the server: edits of a document with all requests in between, and
//! arbitrary messages.
//!
//! Both panic on a defect of the server, and never because of what an editor sends.

use std::ops::ControlFlow;

use lsp_server::{Connection, Message, Notification, Request, RequestId};
use lsp_types::{Position, Range};
use serde_json::{Value, json};

use crate::document::Document;
use crate::features;
use crate::server::serve;
use crate::text::Encoding;

/// The number of edits to one document.
const CHANGES: usize = 4;
/// The limit on messages in one input.
const MESSAGES: usize = 64;

/// A random number generator (xorshift64*).
struct Random(u64);

impl Random {
    fn of(text: &str) -> Random {
        let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        Random(sum | 1)
    }
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % n.max(1) as u64) as usize
    }
}

/// Returns the last character boundary at or before an offset.
fn whole(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

/// Opens a document, edits it, and makes every request at some position after each edit: the
/// document's diagnostics must equal those of a fresh one. The text determines the edits.
///
/// # Panics
/// The two differ.
pub fn edits(text: &str) {
    let mut random = Random::of(text);
    let mut doc = Document::new(text.to_owned(), 0, Encoding::Utf16, false);
    doc.diagnostics();
    for _ in 0..CHANGES {
        let now = doc.text.as_str();
        let from = whole(now, random.below(now.len() + 1));
        let to = whole(now, (from + random.below(12)).min(now.len())).max(from);
        let first = whole(now, random.below(now.len() + 1));
        let last = whole(now, (first + random.below(24)).min(now.len())).max(first);
        let with = match random.below(3) {
            0 => String::new(),
            _ => now[first..last].to_owned(),
        };
        doc.edit(from..to, &with);
        let said = doc.diagnostics();
        let now = doc.text.as_str().to_owned();
        let mut fresh = Document::new(now.clone(), 0, Encoding::Utf16, false);
        assert_eq!(
            fresh.diagnostics(),
            said,
            "a fresh document says otherwise:\n{now}"
        );
        let at = doc.text.position(random.below(now.len() + 1));
        ask(&mut doc, at);
    }
}

/// Makes every request at a position.
fn ask(doc: &mut Document, at: Position) {
    let range = Range::new(at, Position::new(at.line + 20, 0));
    let uri = "file:///t.relay".parse().expect("an address");
    features::hover::hover(doc, at);
    features::complete::complete(doc, at, true);
    features::signature::help(doc, at);
    features::refs::references(doc, at);
    let _ = features::refs::rename(doc, at, "fresh_name");
    features::hints::hints(doc, range);
    features::tokens::tokens(doc, Some(range));
    features::fold::folds(doc);
    features::select::select(doc, at);
    features::symbols::symbols(doc);
    features::lens::lenses(doc, &uri);
    features::actions::actions(doc, &uri, range);
    features::format::format(doc, Some(range));
}

/// Sends a server the messages in a text, one per line: objects with `method` and `params`, and
/// `id` for requests. Methods that run programs or walk folders are left out.
///
/// # Panics
/// A step of the server failed, or the server exited.
pub fn messages(lines: &str) {
    let (server, client) = Connection::memory();
    let serving = std::thread::spawn(move || serve(&server, None));
    let request = |id: i32, method: &str, params| {
        Message::from(Request::new(RequestId::from(id), method.to_owned(), params))
    };
    let notice =
        |method: &str, params: Value| Message::from(Notification::new(method.to_owned(), params));
    let capabilities = json!({ "capabilities": {} });
    let mut all = vec![
        request(-1, "initialize", capabilities),
        notice("initialized", json!({})),
    ];
    for (id, line) in (1..).zip(lines.lines().take(MESSAGES)) {
        let Ok(Value::Object(mut said)) = serde_json::from_str(line) else {
            continue;
        };
        let params = said.remove("params").unwrap_or_default();
        match (said.get("method"), said.get("id")) {
            (Some(Value::String(method)), _) if !is_tried(method) => {}
            (Some(Value::String(method)), Some(_)) => all.push(request(id, method, params)),
            (Some(Value::String(method)), None) => all.push(notice(method, params)),
            _ => {}
        }
    }
    all.push(request(-2, "shutdown", Value::Null));
    all.push(notice("exit", Value::Null));
    for message in all {
        client.sender.send(message).expect("the server listens");
    }
    let ended = client.receiver.iter().try_for_each(|message| {
        if let Message::Notification(n) = &message
            && n.method == "window/logMessage"
        {
            panic!("a step of the server failed: {}", n.params);
        }
        match message {
            Message::Response(r) if r.id == RequestId::from(-2) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert!(ended.is_break(), "the server ended before it was asked to");
    drop(client);
    serving
        .join()
        .expect("the server does not panic")
        .expect("the server ends well");
}

/// Returns whether a method is tried: not one that starts processes, reads folders, or ends the
/// session.
fn is_tried(method: &str) -> bool {
    let left_out = [
        "workspace/executeCommand",
        "workspace/didChangeWorkspaceFolders",
        "workspace/didChangeWatchedFiles",
        "initialize",
        "shutdown",
        "exit",
    ];
    !left_out.contains(&method)
}
