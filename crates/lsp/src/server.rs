//! The server: messages in, messages out.
//!
//! One thread owns the documents and answers in order. Changes only change text; what is known of it is
//! found when it is asked for, so a burst of changes costs one analysis. Diagnostics are sent when no
//! message waits. What may take long (passes, runs) has a thread of its own and a copy of the text.

mod jobs;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_channel::{Receiver, Sender, unbounded};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification as note;
use lsp_types::request as ask;
use lsp_types::*;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::document::Document;
use crate::features::{self, lens};
use crate::text::Encoding;

/// What can be set: `initializationOptions`, or the section `relax` of the editor's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct Settings {
    /// Types that are not written, as inlay hints.
    pub inlay_hints: Switch,
    /// Commands above functions.
    pub code_lens: Switch,
    /// Equalities of dimensions that cannot be decided are errors.
    pub strict_shapes: bool,
    /// The tool that runs functions; looked for beside the server when it is not given.
    pub run_tool: Option<String>,
}

/// On or off.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default)]
pub struct Switch {
    /// On.
    pub enable: bool,
}

impl Default for Switch {
    fn default() -> Self {
        Switch { enable: true }
    }
}

/// Texts the server shows that are no files: explanations, modules after a pass.
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
}

/// An error of a request: its code and what it says.
type Refusal = (ErrorCode, String);
type Answer = Result<Value, Refusal>;

/// Serves a connection until it is shut down.
///
/// # Errors
/// The peer breaks the protocol, or is gone.
pub fn serve(connection: &Connection) -> Result<(), String> {
    let (id, params) = connection.initialize_start().map_err(|e| e.to_string())?;
    let params: InitializeParams = serde_json::from_value(params).map_err(|e| e.to_string())?;
    let general = params.capabilities.general.as_ref();
    let offered = general.and_then(|g| g.position_encodings.clone());
    let encoding = Encoding::choose(&offered.unwrap_or_default());
    let workspace = params.capabilities.workspace.as_ref();
    let configuration = workspace.and_then(|w| w.configuration).unwrap_or(false);
    let text = params.capabilities.text_document.as_ref();
    let items = text.and_then(|t| t.completion.as_ref()?.completion_item.as_ref());
    let snippets = items.and_then(|i| i.snippet_support).unwrap_or(false);
    let settings = (params.initialization_options)
        .and_then(|o| serde_json::from_value(o).ok())
        .unwrap_or_default();
    let result = serde_json::json!({
        "capabilities": capabilities(encoding),
        "serverInfo": { "name": "relax-lsp", "version": env!("CARGO_PKG_VERSION") },
    });
    connection
        .initialize_finish(id, result)
        .map_err(|e| e.to_string())?;
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
    };
    server.ask_settings();
    server.run(connection, &done)
}

fn capabilities(encoding: Encoding) -> Value {
    let mut all = serde_json::to_value(ServerCapabilities {
        position_encoding: Some(encoding.kind()),
        text_document_sync: Some(TextDocumentSyncCapability::Options(
            TextDocumentSyncOptions {
                open_close: Some(true),
                change: Some(TextDocumentSyncKind::INCREMENTAL),
                ..TextDocumentSyncOptions::default()
            },
        )),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions {
            resolve_provider: Some(true),
            trigger_characters: Some(["%", "@", ".", ":", "["].map(String::from).to_vec()),
            ..CompletionOptions::default()
        }),
        signature_help_provider: Some(SignatureHelpOptions {
            trigger_characters: Some(vec!["(".into(), ",".into()]),
            ..SignatureHelpOptions::default()
        }),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        document_highlight_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        workspace_symbol_provider: Some(OneOf::Left(true)),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![
                CodeActionKind::QUICKFIX,
                CodeActionKind::SOURCE_FIX_ALL,
            ]),
            ..CodeActionOptions::default()
        })),
        code_lens_provider: Some(CodeLensOptions {
            resolve_provider: Some(false),
        }),
        document_formatting_provider: Some(OneOf::Left(true)),
        document_range_formatting_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: WorkDoneProgressOptions::default(),
        })),
        folding_range_provider: Some(FoldingRangeProviderCapability::Simple(true)),
        selection_range_provider: Some(SelectionRangeProviderCapability::Simple(true)),
        semantic_tokens_provider: Some(
            SemanticTokensOptions {
                legend: features::tokens::legend(),
                range: Some(true),
                full: Some(SemanticTokensFullOptions::Bool(true)),
                ..SemanticTokensOptions::default()
            }
            .into(),
        ),
        inlay_hint_provider: Some(OneOf::Left(true)),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: [lens::EXPLAIN, lens::RUN, lens::AFTER, lens::PASSES]
                .map(String::from)
                .to_vec(),
            ..ExecuteCommandOptions::default()
        }),
        ..ServerCapabilities::default()
    })
    .unwrap_or_default();
    // Newer than the types: virtual documents.
    all["workspace"] = serde_json::json!({ "textDocumentContent": { "schemes": ["relax"] } });
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
            // Everything that waits is looked at before anything is answered, so that what was
            // cancelled meanwhile costs nothing.
            self.gather(connection, done, &mut queue);
            let Some(message) = queue.pop_front() else {
                if self.send_diagnostics() {
                    continue;
                }
                let next = crossbeam_channel::select! {
                    recv(connection.receiver) -> m => m.ok(),
                    recv(done) -> m => {
                        self.out.send(m.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
                        continue;
                    }
                };
                match next {
                    Some(m) => self.sort_in(m, &mut queue),
                    None => return Ok(()),
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
        while let Ok(m) = connection.receiver.try_recv() {
            self.sort_in(m, queue);
        }
        while let Ok(m) = done.try_recv() {
            let _ = self.out.send(m);
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

    /// Runs a step; a defect in it is logged and costs the analyses, not the server.
    fn guarded<T>(&mut self, step: impl FnOnce(&mut Self) -> T) -> Result<T, String> {
        let result = catch_unwind(AssertUnwindSafe(|| step(self)));
        result.map_err(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let said = said.unwrap_or_else(|| "a defect of the server".into());
            let copies: Vec<(String, String, i32)> = (self.documents.iter())
                .map(|(k, d)| (k.clone(), d.text.as_str().to_owned(), d.version))
                .collect();
            for (key, text, version) in copies {
                let strict = self.settings.strict_shapes;
                let fresh = Document::new(text, version, self.encoding, strict);
                self.documents.insert(key, fresh);
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
            self.settings = settings;
            for (key, doc) in &mut self.documents {
                doc.set_strict(strict);
                self.stale.insert(key.clone());
            }
        }
    }

    /// The only answers the server waits for are settings.
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
                let doc = Document::new(d.text, d.version, self.encoding, strict);
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
                self.stale.remove(&key);
                self.publish(p.text_document.uri, Vec::new(), None);
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

    /// Sends the diagnostics of one document that changed; whether there was one.
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
            // A job answers later.
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

    /// The answer to a request; `None` when a job gives it later.
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

    fn question(&mut self, method: &str, p: Value) -> Answer {
        use ask::Request as _;
        match method {
            ask::HoverRequest::METHOD => {
                let p: HoverParams = params(p)?;
                let (doc, at) = self.at(&p.text_document_position_params)?;
                json(features::hover::hover(doc, at))
            }
            ask::Completion::METHOD => {
                let p: CompletionParams = params(p)?;
                let snippets = self.snippets;
                let (doc, at) = self.at(&p.text_document_position)?;
                json(features::complete::complete(doc, at, snippets))
            }
            ask::ResolveCompletionItem::METHOD => json(features::complete::resolve(params(p)?)),
            ask::SignatureHelpRequest::METHOD => {
                let p: SignatureHelpParams = params(p)?;
                let (doc, at) = self.at(&p.text_document_position_params)?;
                json(features::signature::help(doc, at))
            }
            ask::GotoDefinition::METHOD => {
                let p: GotoDefinitionParams = params(p)?;
                let uri = p.text_document_position_params.text_document.uri.clone();
                let (doc, at) = self.at(&p.text_document_position_params)?;
                let found = features::refs::definition(doc, at);
                let places = found.into_iter().map(|r| Location::new(uri.clone(), r));
                json(places.collect::<Vec<_>>())
            }
            ask::References::METHOD => {
                let p: ReferenceParams = params(p)?;
                let uri = p.text_document_position.text_document.uri.clone();
                let all = p.context.include_declaration;
                let (doc, at) = self.at(&p.text_document_position)?;
                let found = features::refs::references(doc, at);
                let found = found.into_iter().filter(|f| all || !f.1);
                let places = found.map(|f| Location::new(uri.clone(), f.0));
                json(places.collect::<Vec<_>>())
            }
            ask::DocumentHighlightRequest::METHOD => {
                let p: DocumentHighlightParams = params(p)?;
                let (doc, at) = self.at(&p.text_document_position_params)?;
                let kind = |binds| match binds {
                    true => DocumentHighlightKind::WRITE,
                    false => DocumentHighlightKind::READ,
                };
                let found = features::refs::references(doc, at).into_iter();
                let found = found.map(|(range, binds)| DocumentHighlight {
                    range,
                    kind: Some(kind(binds)),
                });
                json(found.collect::<Vec<_>>())
            }
            ask::PrepareRenameRequest::METHOD => {
                let p: TextDocumentPositionParams = params(p)?;
                let (doc, at) = self.at(&p)?;
                match features::refs::rename_range(doc, at) {
                    Ok((range, placeholder)) => {
                        json(PrepareRenameResponse::RangeWithPlaceholder { range, placeholder })
                    }
                    Err(said) => Err((ErrorCode::RequestFailed, said)),
                }
            }
            ask::Rename::METHOD => {
                let p: RenameParams = params(p)?;
                let uri = p.text_document_position.text_document.uri.clone();
                let (doc, at) = self.at(&p.text_document_position)?;
                match features::refs::rename(doc, at, &p.new_name) {
                    Ok(edits) => json(features::actions::workspace(&uri, edits)),
                    Err(said) => Err((ErrorCode::RequestFailed, said)),
                }
            }
            ask::DocumentSymbolRequest::METHOD => {
                let p: DocumentSymbolParams = params(p)?;
                let doc = self.doc(&p.text_document.uri)?;
                json(features::symbols::symbols(doc))
            }
            ask::WorkspaceSymbolRequest::METHOD => {
                let p: WorkspaceSymbolParams = params(p)?;
                json(self.workspace_symbols(&p.query))
            }
            ask::CodeActionRequest::METHOD => {
                let p: CodeActionParams = params(p)?;
                let uri = p.text_document.uri;
                let doc = self.doc(&uri)?;
                json(features::actions::actions(doc, &uri, p.range))
            }
            ask::CodeLensRequest::METHOD => {
                let p: CodeLensParams = params(p)?;
                if !self.settings.code_lens.enable {
                    return json(Vec::<CodeLens>::new());
                }
                let uri = p.text_document.uri;
                let doc = self.doc(&uri)?;
                json(lens::lenses(doc, &uri))
            }
            ask::Formatting::METHOD => {
                let p: DocumentFormattingParams = params(p)?;
                let doc = self.doc(&p.text_document.uri)?;
                json(features::format::format(doc, None))
            }
            ask::RangeFormatting::METHOD => {
                let p: DocumentRangeFormattingParams = params(p)?;
                let doc = self.doc(&p.text_document.uri)?;
                json(features::format::format(doc, Some(p.range)))
            }
            ask::FoldingRangeRequest::METHOD => {
                let p: FoldingRangeParams = params(p)?;
                let doc = self.doc(&p.text_document.uri)?;
                json(features::fold::folds(doc))
            }
            ask::SelectionRangeRequest::METHOD => {
                let p: SelectionRangeParams = params(p)?;
                let doc = self.doc(&p.text_document.uri)?;
                let all = p.positions.into_iter();
                let all = all.map(|at| features::select::select(doc, at));
                json(all.collect::<Vec<_>>())
            }
            ask::SemanticTokensFullRequest::METHOD => {
                let p: SemanticTokensParams = params(p)?;
                let doc = self.doc(&p.text_document.uri)?;
                let data = features::tokens::tokens(doc, None);
                json(SemanticTokens {
                    result_id: None,
                    data,
                })
            }
            ask::SemanticTokensRangeRequest::METHOD => {
                let p: SemanticTokensRangeParams = params(p)?;
                let doc = self.doc(&p.text_document.uri)?;
                let data = features::tokens::tokens(doc, Some(p.range));
                json(SemanticTokens {
                    result_id: None,
                    data,
                })
            }
            ask::InlayHintRequest::METHOD => {
                let p: InlayHintParams = params(p)?;
                if !self.settings.inlay_hints.enable {
                    return json(Vec::<InlayHint>::new());
                }
                let doc = self.doc(&p.text_document.uri)?;
                json(features::hints::hints(doc, p.range))
            }
            _ => Err((
                ErrorCode::MethodNotFound,
                format!("`{method}` is not known"),
            )),
        }
    }

    /// The items of all open documents that a query looks for.
    fn workspace_symbols(&mut self, query: &str) -> Vec<WorkspaceSymbol> {
        let mut keys: Vec<String> = self.documents.keys().cloned().collect();
        keys.sort();
        let mut out = Vec::new();
        for key in keys {
            let Ok(uri) = key.parse::<Uri>() else {
                continue;
            };
            let Some(doc) = self.documents.get_mut(&key) else {
                continue;
            };
            for s in features::symbols::symbols(doc) {
                let inner = s.children.clone().unwrap_or_default();
                let container = s.name.clone();
                let all = std::iter::once((s, None));
                for (s, within) in all.chain(inner.into_iter().map(|c| (c, Some(&container)))) {
                    if features::symbols::matches(&s.name, query) {
                        out.push(WorkspaceSymbol {
                            name: s.name,
                            kind: s.kind,
                            tags: None,
                            container_name: within.cloned(),
                            location: OneOf::Left(Location::new(uri.clone(), s.selection_range)),
                            data: None,
                        });
                    }
                }
            }
        }
        out
    }
}
