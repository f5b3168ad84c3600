//! A client that speaks the protocol with the real server over pipes.
#![allow(dead_code)] // Each test uses a part of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A server and a document.
pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: i64,
    /// The document opened last, which requests refer to.
    last: String,
    /// The diagnostics last received.
    pub diagnostics: Value,
    /// The settings that the server is given when it asks; `None`: it gets no answer.
    pub settings: Option<Value>,
    /// The server's own messages, notifications and requests.
    pub said: Vec<Value>,
}

/// The URI of the document.
pub const URI: &str = "file:///test.relay";

impl Client {
    /// Starts a server and opens a document.
    pub fn open(text: &str) -> Client {
        let completion = json!({ "completionItem": { "snippetSupport": true } });
        let caps = json!({ "textDocument": { "completion": completion } });
        let mut client = Client::start(Value::Null, caps, Value::Null);
        client.open_document(URI, text);
        client
    }

    /// Starts a server for a folder.
    pub fn start(folder: Value, capabilities: Value, options: Value) -> Client {
        Client::start_with(folder, capabilities, options, |_| {})
    }

    /// Starts a server with additional command-line configuration.
    pub fn start_with(
        folder: Value,
        capabilities: Value,
        options: Value,
        add: impl FnOnce(&mut Command),
    ) -> Client {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax-lsp"));
        add(&mut command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut client = Client {
            child,
            input,
            output,
            next: 0,
            last: URI.to_owned(),
            diagnostics: Value::Null,
            settings: None,
            said: Vec::new(),
        };
        client.ask(
            "initialize",
            json!({
                "processId": null, "rootUri": folder, "capabilities": capabilities,
                "initializationOptions": options,
            }),
        );
        client.tell("initialized", json!({}));
        client
    }

    /// Opens a document.
    pub fn open_document(&mut self, uri: &str, text: &str) {
        self.open_as(uri, "relay", text);
    }

    /// Opens a document in a language.
    pub fn open_as(&mut self, uri: &str, language: &str, text: &str) {
        let doc = json!({ "uri": uri, "languageId": language, "version": 1, "text": text });
        self.last = uri.to_owned();
        self.tell("textDocument/didOpen", json!({ "textDocument": doc }));
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("it listens");
        self.input.flush().expect("it listens");
    }

    fn receive(&mut self) -> Value {
        let mut len = 0;
        loop {
            let mut line = String::new();
            let n = self.output.read_line(&mut line).expect("it speaks");
            assert!(n > 0, "the server is gone");
            if let Some(v) = line.strip_prefix("Content-Length: ") {
                len = v.trim().parse().expect("a number");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut bytes = vec![0; len];
        self.output.read_exact(&mut bytes).expect("it speaks");
        let message: Value = serde_json::from_slice(&bytes).expect("JSON");
        if message["method"] == "textDocument/publishDiagnostics" {
            self.diagnostics = message["params"]["diagnostics"].clone();
        }
        if message["method"].is_string() {
            self.said.push(message.clone());
            if let (Some(settings), true) = (&self.settings, message["id"].is_number()) {
                let result = match message["method"] == "workspace/configuration" {
                    true => json!([settings]),
                    false => Value::Null,
                };
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                self.send(&answer);
            }
        }
        message
    }

    /// Returns the server's own messages of a method.
    pub fn said(&self, method: &str) -> Vec<&Value> {
        self.said.iter().filter(|m| m["method"] == method).collect()
    }

    /// The id of the process that the editor started.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of a server that ends by itself; returns its exit code.
    pub fn ended(mut self) -> Option<i32> {
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).expect("it speaks");
        self.child.wait().expect("it ends").code()
    }

    /// Leaves the server, and waits for its end; returns its exit code.
    pub fn wait(mut self) -> Option<i32> {
        drop(self.input);
        self.child.wait().expect("it ends").code()
    }

    /// Replaces the text of a document.
    pub fn replace(&mut self, uri: &str, version: i32, text: &str) {
        let document = json!({ "uri": uri, "version": version });
        let params = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
        self.tell("textDocument/didChange", params);
    }

    /// Sends a notification.
    pub fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request and waits for its answer: the whole message.
    pub fn ask_message(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.receive();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Sends a request and waits for its result.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask_message(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends a request about a position of the document.
    pub fn at(&mut self, method: &str, (line, character): (u32, u32)) -> Value {
        let position = json!({ "line": line, "character": character });
        let params = json!({
            "textDocument": { "uri": self.last },
            "position": position,
            "context": { "includeDeclaration": true, "triggerKind": 1, "isRetrigger": false },
        });
        self.ask(method, params)
    }

    /// Sends a request about the document.
    pub fn whole(&mut self, method: &str) -> Value {
        let range = json!({
            "start": { "line": 0, "character": 0 }, "end": { "line": 9999, "character": 0 },
        });
        let options = json!({ "tabSize": 2, "insertSpaces": true });
        let context = json!({ "diagnostics": [] });
        let document = json!({ "uri": self.last });
        let params = json!({
            "textDocument": document, "range": range, "options": options, "context": context,
        });
        self.ask(method, params)
    }

    /// Replaces a range of one line.
    pub fn change(&mut self, line: u32, from: u32, to: u32, text: &str) {
        let range = json!({
            "start": { "line": line, "character": from }, "end": { "line": line, "character": to },
        });
        let document = json!({ "uri": self.last, "version": 2 });
        let changes = json!([{ "range": range, "text": text }]);
        let params = json!({ "textDocument": document, "contentChanges": changes });
        self.tell("textDocument/didChange", params);
    }

    /// Waits for diagnostics.
    pub fn wait_diagnostics(&mut self) -> Value {
        loop {
            let message = self.receive();
            if message["method"] == "textDocument/publishDiagnostics" {
                return self.diagnostics.clone();
            }
        }
    }

    /// Waits for a notification or request from the server.
    pub fn wait_for(&mut self, method: &str) {
        while self.receive()["method"] != method {}
    }

    /// Shuts the server down; returns its exit code.
    pub fn close(mut self) -> Option<i32> {
        self.ask("shutdown", Value::Null);
        self.tell("exit", Value::Null);
        self.child.wait().expect("it ends").code()
    }
}
