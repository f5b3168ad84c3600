//! The server's main loop.
//!
//! One thread owns the documents and replies in order. Changes only update the text; analysis is on
//! demand, so that a burst of changes costs one analysis. Diagnostics are sent when no message is
//! pending. Long-running work (passes, runs) has a thread of its own, with a copy of the text.

mod capabilities;
mod jobs;
mod questions;
mod workspace;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use crossbeam_channel::{Receiver, Sender, unbounded};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification as note;
use lsp_types::request as ask;
use lsp_types::*;
use relax_base::Symbol;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;
use crate::address;
use crate::document::Document;
use crate::features;
use crate::text::Encoding;
use crate::workspace::Workspace;

/// The settings: `initializationOptions`, or the section `relax` of the editor's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct Settings {
    /// Inlay hints for inferred types.
    pub inlay_hints: Switch,
    /// Code lenses above functions.
    pub code_lens: Switch,
    /// Whether undecidable equalities of dimensions are errors.
    pub strict_shapes: bool,
    /// The tool that runs functions; by default it is looked for beside the server.
    pub run_tool: Option<String>,
}

/// An on/off setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(default)]
pub struct Switch {
    /// Whether it is on.
    pub enable: bool,
}

impl Default for Switch {
    fn default() -> Self {
        Switch { enable: true }
    }
}

/// The request for the content of virtual documents: explanations, modules after a pass.
enum TextContent {}

#[derive(Deserialize)]
struct TextContentParams {
    uri: Uri,
}

impl ask::Request for TextContent {
    type Params = Value;
    type Result = Value;
    const METHOD: &'static str = "workspace/textDocumentContent";
}

/// The language id of a text in TVMScript: a Python file with another one is ignored.
const TVMSCRIPT: &str = "tvmscript";

struct Server {
    out: Sender<Message>,
    documents: FxHashMap<String, Document>,
    settings: Settings,
    encoding: Encoding,
    snippets: bool,
    configuration: bool,
    /// Documents whose diagnostics are to be sent.
    stale: FxHashSet<String>,
    cancelled: FxHashSet<RequestId>,
    jobs: Sender<Message>,
    next_request: i32,
    /// The files of the open folders.
    workspace: Workspace,
    /// The channel for the initial scan of the folders, while it runs.
    reading: Option<Receiver<Workspace>>,
    /// Files that changed on disk since the last scan.
    changed: Vec<PathBuf>,
    /// Whether the editor notifies about file changes.
    watches: bool,
    /// Whether the editor supports virtual documents with the scheme `relax`.
    virtual_documents: bool,
    /// Whether the editor supports refreshing inlay hints, and code lenses.
    refreshes: (bool, bool),
    /// The tokens last sent for each document, with their result id.
    tokens: FxHashMap<String, (String, Vec<SemanticToken>)>,
    next_tokens: u64,
    /// The number of jobs that have not replied.
    busy: usize,
    names: Names,
}

/// The bound on the names that the process has interned, of which none is ever freed.
struct Names {
    /// The bytes that may be added; `None` once they are told, and where there is no bound.
    most: Option<usize>,
    /// The bytes when the session's texts had been read.
    first: Option<usize>,
}

/// The error of a request: its code and message.
type Refusal = (ErrorCode, String);
type Answer = Result<Value, Refusal>;

/// Returns the error for a broken connection.
fn broken(e: impl std::fmt::Display) -> Error {
    Error::Protocol(e.to_string())
}

/// Serves a connection until shutdown, or until its input ends. With more than `most_names` bytes of
/// names beyond those of the session's beginning it says that it is to be relieved.
///
/// # Errors
/// The peer violated the protocol, or disconnected.
pub fn serve(connection: &Connection, most_names: Option<usize>) -> Result<(), Error> {
    let (id, params) = connection.initialize_start().map_err(broken)?;
    // Virtual documents are newer than the protocol types. Older editors announce them by an
    // option.
    let virtual_documents = params
        .pointer("/capabilities/workspace/textDocumentContent")
        .is_some_and(Value::is_object)
        || params.pointer("/initializationOptions/virtualDocuments") == Some(&Value::Bool(true));
    let params: InitializeParams = serde_json::from_value(params).map_err(broken)?;
    let encoding = Encoding::of(&params);
    let workspace = params.capabilities.workspace.as_ref();
    let configuration = workspace.and_then(|w| w.configuration).unwrap_or(false);
    let watches = workspace.and_then(|w| w.did_change_watched_files.as_ref());
    let watches = watches
        .and_then(|w| w.dynamic_registration)
        .unwrap_or(false);
    let refreshes = (
        workspace.and_then(|w| w.inlay_hint.as_ref()?.refresh_support) == Some(true),
        workspace.and_then(|w| w.code_lens.as_ref()?.refresh_support) == Some(true),
    );
    let folders = folders(&params);
    let text = params.capabilities.text_document.as_ref();
    let items = text.and_then(|t| t.completion.as_ref()?.completion_item.as_ref());
    let snippets = items.and_then(|i| i.snippet_support).unwrap_or(false);
    let settings = (params.initialization_options)
        .and_then(|o| serde_json::from_value(o).ok())
        .unwrap_or_default();
    let result = serde_json::json!({
        "capabilities": capabilities::capabilities(encoding),
        "serverInfo": { "name": "relax-lsp", "version": env!("CARGO_PKG_VERSION") },
    });
    connection.initialize_finish(id, result).map_err(broken)?;
    let (jobs, done) = unbounded();
    let mut server = Server {
        out: connection.sender.clone(),
        documents: FxHashMap::default(),
        settings,
        encoding,
        snippets,
        configuration,
        stale: FxHashSet::default(),
        cancelled: FxHashSet::default(),
        jobs,
        next_request: 0,
        workspace: Workspace::new(Vec::new(), encoding),
        reading: None,
        changed: Vec::new(),
        watches,
        virtual_documents,
        refreshes,
        tokens: FxHashMap::default(),
        next_tokens: 0,
        busy: 0,
        names: Names {
            most: most_names,
            first: None,
        },
    };
    server.ask_settings();
    server.read_workspace(folders);
    server.run(connection, &done).map_err(Error::Protocol)
}

/// Returns the folders the editor has open.
#[allow(deprecated)] // Older editors support only one folder.
fn folders(params: &InitializeParams) -> Vec<PathBuf> {
    let many = params.workspace_folders.iter().flatten();
    let mut all: Vec<PathBuf> = many.filter_map(|f| address::path(f.uri.as_str())).collect();
    if all.is_empty()
        && let Some(root) = &params.root_uri
    {
        all.extend(address::path(root.as_str()));
    }
    all
}

fn params<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    serde_json::from_value(value).map_err(|e| (ErrorCode::InvalidParams, e.to_string()))
}

fn json(value: impl serde::Serialize) -> Answer {
    serde_json::to_value(value).map_err(|e| (ErrorCode::InternalError, e.to_string()))
}

impl Server {
    fn run(&mut self, connection: &Connection, done: &Receiver<Message>) -> Result<(), String> {
        let mut queue: VecDeque<Message> = VecDeque::new();
        loop {
            // All pending messages are read before any is answered, so that requests cancelled
            // meanwhile cost nothing.
            self.gather(connection, done, &mut queue);
            let Some(message) = queue.pop_front() else {
                if self.send_diagnostics() {
                    continue;
                }
                self.count_names();
                let next = crossbeam_channel::select! {
                    recv(connection.receiver) -> m => m.ok(),
                    recv(done) -> m => {
                        self.replied(m.map_err(|e| e.to_string())?);
                        continue;
                    }
                };
                match next {
                    Some(m) => self.sort_in(m, &mut queue),
                    None => {
                        while self.busy > 0 {
                            self.replied(done.recv().map_err(|e| e.to_string())?);
                        }
                        return Ok(());
                    }
                }
                continue;
            };
            match message {
                Message::Request(r) => {
                    if connection.handle_shutdown(&r).map_err(|e| e.to_string())? {
                        return Ok(());
                    }
                    self.request(r);
                }
                Message::Notification(n) => self.guarded(|s| s.notification(n)).unwrap_or(()),
                Message::Response(r) => self.guarded(|s| s.response(r)).unwrap_or(()),
            }
        }
    }

    fn gather(
        &mut self,
        connection: &Connection,
        done: &Receiver<Message>,
        queue: &mut VecDeque<Message>,
    ) {
        // Messages after a shutdown are read by the connection itself.
        let ends = |queue: &VecDeque<Message>| matches!(queue.back(), Some(Message::Request(r)) if r.method == "shutdown");
        while !ends(queue)
            && let Ok(m) = connection.receiver.try_recv()
        {
            self.sort_in(m, queue);
        }
        while let Ok(m) = done.try_recv() {
            self.replied(m);
        }
    }

    /// Passes the reply of a job.
    fn replied(&mut self, m: Message) {
        self.busy -= 1;
        // The writer ends with the connection.
        let _ = self.out.send(m);
    }

    /// Says once that the names are too many, when nothing else is to be done.
    fn count_names(&mut self) {
        let Some(most) = self.names.most else { return };
        // What is in the folders is read once, and again by another server.
        let reading = self.reading.as_ref().is_some_and(Receiver::is_empty);
        if self.busy > 0 || reading || self.documents.is_empty() {
            return;
        }
        let now = Symbol::interned();
        let first = *self.names.first.get_or_insert(now);
        if now - first > most {
            self.names.most = None;
            let full = Notification::new(crate::front::FULL.into(), Value::Null);
            let _ = self.out.send(full.into());
        }
    }

    fn sort_in(&mut self, m: Message, queue: &mut VecDeque<Message>) {
        if let Message::Notification(n) = &m
            && n.method == "$/cancelRequest"
        {
            if let Ok(p) = serde_json::from_value::<CancelParams>(n.params.clone()) {
                let id: RequestId = match p.id {
                    NumberOrString::Number(n) => n.into(),
                    NumberOrString::String(s) => s.into(),
                };
                let waits = |m: &Message| matches!(m, Message::Request(r) if r.id == id);
                if queue.iter().any(waits) {
                    self.cancelled.insert(id);
                }
            }
            return;
        }
        queue.push_back(m);
    }

    /// Runs a step; a panic is logged and drops the analysis results, not the server.
    fn guarded<T>(&mut self, step: impl FnOnce(&mut Self) -> T) -> Result<T, String> {
        let result = catch_unwind(AssertUnwindSafe(|| step(self)));
        result.map_err(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let said = said.unwrap_or_else(|| "a defect of the server".into());
            let strict = self.settings.strict_shapes;
            for d in self.documents.values_mut() {
                let text = d.text.as_str().to_owned();
                let fresh = Document::new(text, d.version, self.encoding, strict);
                *d = fresh.in_tvmscript(d.script);
            }
            self.notify::<note::LogMessage>(LogMessageParams {
                typ: MessageType::ERROR,
                message: format!("relax-lsp: {said}"),
            });
            said
        })
    }

    fn notify<N: note::Notification>(&self, params: N::Params) {
        let n = Notification::new(N::METHOD.into(), params);
        let _ = self.out.send(n.into());
    }

    fn ask<R: ask::Request>(&mut self, params: R::Params) {
        self.next_request += 1;
        let id = RequestId::from(self.next_request);
        let _ = self
            .out
            .send(Request::new(id, R::METHOD.into(), params).into());
    }

    fn ask_settings(&mut self) {
        if self.configuration {
            let item = ConfigurationItem {
                scope_uri: None,
                section: Some("relax".into()),
            };
            self.ask::<ask::WorkspaceConfiguration>(ConfigurationParams { items: vec![item] });
        }
    }

    fn set(&mut self, value: Value) {
        let value = value.get("relax").cloned().unwrap_or(value);
        if !value.is_object() {
            return;
        }
        if let Ok(settings) = serde_json::from_value::<Settings>(value) {
            let strict = settings.strict_shapes;
            let old = std::mem::replace(&mut self.settings, settings);
            if old.strict_shapes != strict {
                for (key, doc) in &mut self.documents {
                    doc.set_strict(strict);
                    self.stale.insert(key.clone());
                }
            }
            // Makes the editor request them again.
            if self.refreshes.0 && old.inlay_hints != self.settings.inlay_hints {
                self.ask::<ask::InlayHintRefreshRequest>(());
            }
            if self.refreshes.1 && old.code_lens != self.settings.code_lens {
                self.ask::<ask::CodeLensRefresh>(());
            }
        }
    }

    /// The server's only requests are for settings.
    fn response(&mut self, r: Response) {
        if let Ok(Value::Array(list)) = r.response_result
            && let Some(first) = list.into_iter().next()
        {
            self.set(first);
        }
    }

    fn notification(&mut self, n: Notification) {
        use note::Notification as _;
        match n.method.as_str() {
            note::DidOpenTextDocument::METHOD => {
                let Ok(p) = params::<DidOpenTextDocumentParams>(n.params) else {
                    return;
                };
                let (key, d) = (p.text_document.uri.to_string(), p.text_document);
                let strict = self.settings.strict_shapes;
                let doc = Document::new(d.text, d.version, self.encoding, strict)
                    .in_tvmscript(d.language_id == TVMSCRIPT);
                self.documents.insert(key.clone(), doc);
                self.stale.insert(key);
            }
            note::DidChangeTextDocument::METHOD => {
                let Ok(p) = params::<DidChangeTextDocumentParams>(n.params) else {
                    return;
                };
                let key = p.text_document.uri.to_string();
                let Some(doc) = self.documents.get_mut(&key) else {
                    return;
                };
                for change in p.content_changes {
                    match change.range {
                        Some(r) => {
                            let (from, to) = (doc.text.offset(r.start), doc.text.offset(r.end));
                            doc.edit(from..to, &change.text);
                        }
                        None => doc.set(change.text),
                    }
                }
                doc.version = p.text_document.version;
                self.stale.insert(key);
            }
            note::DidCloseTextDocument::METHOD => {
                let Ok(p) = params::<DidCloseTextDocumentParams>(n.params) else {
                    return;
                };
                let key = p.text_document.uri.to_string();
                self.documents.remove(&key);
                self.tokens.remove(&key);
                self.stale.remove(&key);
                self.publish(p.text_document.uri, Vec::new(), None);
            }
            note::DidChangeWatchedFiles::METHOD => {
                if let Ok(p) = params(n.params) {
                    self.files_changed(p);
                }
            }
            note::DidChangeWorkspaceFolders::METHOD => {
                if let Ok(p) = params(n.params) {
                    self.folders_changed(p);
                }
            }
            note::DidChangeConfiguration::METHOD => {
                if self.configuration {
                    self.ask_settings();
                } else if let Ok(p) = params::<DidChangeConfigurationParams>(n.params) {
                    self.set(p.settings);
                }
            }
            _ => {}
        }
    }

    fn publish(&self, uri: Uri, diagnostics: Vec<Diagnostic>, version: Option<i32>) {
        self.notify::<note::PublishDiagnostics>(PublishDiagnosticsParams {
            uri,
            diagnostics,
            version,
        });
    }

    /// Sends the diagnostics of one changed document; returns whether there was one.
    fn send_diagnostics(&mut self) -> bool {
        let Some(key) = self.stale.iter().next().cloned() else {
            return false;
        };
        self.stale.remove(&key);
        let _ = self.guarded(|s| {
            let Ok(uri) = key.parse::<Uri>() else { return };
            if let Some(doc) = s.documents.get_mut(&key) {
                let found = features::diagnostics::all(doc, &uri);
                let version = doc.version;
                s.publish(uri, found, Some(version));
            }
        });
        true
    }

    fn request(&mut self, r: Request) {
        let id = r.id.clone();
        if self.cancelled.remove(&id) {
            let said = "cancelled".to_owned();
            let response = Response::new_err(id, ErrorCode::RequestCanceled as i32, said);
            let _ = self.out.send(response.into());
            return;
        }
        let answer = self.guarded(|s| s.answer(r));
        let response = match answer {
            Ok(Some(Ok(value))) => Response::new_ok(id, value),
            Ok(Some(Err((code, said)))) => Response::new_err(id, code as i32, said),
            // A job replies later.
            Ok(None) => return,
            Err(said) => Response::new_err(id, ErrorCode::InternalError as i32, said),
        };
        let _ = self.out.send(response.into());
    }

    fn doc(&mut self, uri: &Uri) -> Result<&mut Document, Refusal> {
        let missing = || {
            (
                ErrorCode::InvalidParams,
                "this document is not open".to_owned(),
            )
        };
        self.documents.get_mut(uri.as_str()).ok_or_else(missing)
    }

    fn at(&mut self, p: &TextDocumentPositionParams) -> Result<(&mut Document, Position), Refusal> {
        Ok((self.doc(&p.text_document.uri)?, p.position))
    }

    /// Returns the reply to a request; `None` if a job replies later.
    fn answer(&mut self, r: Request) -> Option<Answer> {
        use ask::Request as _;
        let Request {
            id,
            method,
            params: p,
        } = r;
        Some(match method.as_str() {
            ask::ExecuteCommand::METHOD => return self.command(id, p),
            TextContent::METHOD => return self.content(id, p),
            _ => self.question(&method, p),
        })
    }
}
