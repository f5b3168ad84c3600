//! What a session is, apart from the server: enough to tell it to another one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use lsp_server::ErrorCode;
use lsp_types::{
    DidChangeTextDocumentParams, DidChangeWorkspaceFoldersParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, InitializeParams, RegistrationParams,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::frames::{Frame, Head, message, notification};
use crate::text::{Encoding, Text};

/// The id of the `initialize` by which another server is told the session; its answer is nobody's.
const AGAIN: &str = "relax-lsp/again";

/// The addressee of a message.
pub(super) enum Way {
    Editor(Frame),
    Server(Frame),
    /// The one in front: the server asks to be relieved.
    Full,
    /// It says nothing new.
    Nowhere,
}

/// An open document.
struct Open {
    language: String,
    version: i32,
    text: Text,
}

/// A request of the editor that was not answered yet.
struct Request {
    id: Value,
    frame: Frame,
    /// Whether a server failed over it.
    tried: bool,
}

/// A request of a server to the editor.
struct Asked {
    /// The number of the server.
    server: u64,
    /// Its own id.
    id: Value,
    settings: bool,
}

/// The state of a session.
#[derive(Default)]
pub(super) struct Session {
    /// The parameters of `initialize`, once it is answered.
    parameters: Option<Value>,
    initialized: bool,
    encoding: Encoding,
    documents: BTreeMap<String, Open>,
    /// The settings that the editor gave last.
    settings: Option<Value>,
    requests: Vec<Request>,
    /// The servers' requests, by their ids for the editor.
    asked: BTreeMap<i64, Asked>,
    last_asked: i64,
    /// The capabilities that the editor has registered.
    registered: BTreeSet<String>,
    /// The diagnostics that the editor has, as a hash of the message, by document.
    published: BTreeMap<String, u64>,
    /// What was published of the documents that the server was told when it took over: it finds the
    /// same again, perhaps when they have changed here.
    told: BTreeMap<String, u64>,
    /// Whether the editor has asked for the end.
    pub(super) shut_down: bool,
}

/// The parameters of a message.
#[derive(Deserialize)]
struct Message<T> {
    params: T,
}

fn params<T: DeserializeOwned>(frame: &Frame) -> Option<T> {
    let message: Message<T> = serde_json::from_slice(frame).ok()?;
    Some(message.params)
}

fn value(frame: &Frame) -> Value {
    serde_json::from_slice(frame).unwrap_or_default()
}

impl Session {
    /// The number of requests that wait for an answer.
    pub(super) fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Follows what the editor says; returns what the server with this number is told.
    pub(super) fn editor_says(&mut self, frame: Frame, server: u64) -> Option<Frame> {
        let head = Head::of(&frame);
        match (head.method.as_deref(), head.id) {
            (Some(method), Some(id)) => {
                self.shut_down |= method == "shutdown";
                if method == "initialize" {
                    self.encoding = params::<InitializeParams>(&frame)
                        .map_or(Encoding::default(), |p| Encoding::of(&p));
                }
                let (frame, tried) = (frame.clone(), false);
                self.requests.push(Request { id, frame, tried });
            }
            (Some(method), None) => self.notified(method, &frame),
            (None, id) => return self.answered(id.as_ref(), &frame, server),
        }
        Some(frame)
    }

    /// Follows a notification of the editor.
    fn notified(&mut self, method: &str, frame: &Frame) {
        match method {
            "initialized" => self.initialized = true,
            "textDocument/didOpen" => {
                let Some(p) = params::<DidOpenTextDocumentParams>(frame) else {
                    return;
                };
                let d = p.text_document;
                let open = Open {
                    language: d.language_id,
                    version: d.version,
                    text: Text::new(d.text, self.encoding),
                };
                self.told.remove(d.uri.as_str());
                self.documents.insert(d.uri.to_string(), open);
            }
            "textDocument/didChange" => {
                let Some(p) = params::<DidChangeTextDocumentParams>(frame) else {
                    return;
                };
                let uri = p.text_document.uri.as_str();
                let Some(open) = self.documents.get_mut(uri) else {
                    return;
                };
                open.version = p.text_document.version;
                for change in p.content_changes {
                    open.text.change(change);
                }
            }
            "textDocument/didClose" => {
                if let Some(p) = params::<DidCloseTextDocumentParams>(frame) {
                    let uri = p.text_document.uri.as_str();
                    self.told.remove(uri);
                    self.published.remove(uri);
                    self.documents.remove(uri);
                }
            }
            "workspace/didChangeConfiguration" => {
                if let Some(p) = params::<Value>(frame) {
                    self.set(p["settings"].clone());
                }
            }
            "workspace/didChangeWorkspaceFolders" => {
                if let Some(p) = params(frame) {
                    self.change_folders(p);
                }
            }
            _ => {}
        }
    }

    /// Remembers settings, those of this server alone.
    fn set(&mut self, mut settings: Value) {
        if let Some(own) = settings.get_mut("relax") {
            settings = own.take();
        }
        if settings.is_object() {
            self.settings = Some(settings);
        }
    }

    /// Follows a change of the folders in the parameters that another server is given.
    fn change_folders(&mut self, p: DidChangeWorkspaceFoldersParams) {
        let Some(parameters) = self.parameters.as_mut().and_then(Value::as_object_mut) else {
            return;
        };
        let folders = parameters.entry("workspaceFolders").or_insert(Value::Null);
        let mut all = folders.as_array().cloned().unwrap_or_default();
        let gone = |f: &Value| p.event.removed.iter().any(|r| f["uri"] == r.uri.as_str());
        all.retain(|f| !gone(f));
        all.extend(
            p.event
                .added
                .iter()
                .map(|f| json!({ "uri": f.uri, "name": f.name })),
        );
        *folders = Value::Array(all);
    }

    /// Follows an answer of the editor, which the server knows by another id.
    fn answered(&mut self, id: Option<&Value>, frame: &Frame, server: u64) -> Option<Frame> {
        let asked = self.asked.remove(&id?.as_i64()?)?;
        let mut answer = value(frame);
        if asked.settings {
            self.set(answer["result"][0].clone());
        }
        // The one who asked may have ended.
        (asked.server == server).then(|| {
            answer["id"] = asked.id;
            message(&answer)
        })
    }

    /// Follows what a server says.
    pub(super) fn server_says(&mut self, frame: Frame, server: u64) -> Way {
        let mut buffer = Vec::new();
        let head = Head::first(&frame, &mut buffer);
        match (head.method.as_deref(), head.id) {
            (Some(super::FULL), None) => Way::Full,
            (None, Some(id)) => self.done(&id, frame),
            (None, None) => Way::Editor(frame),
            (Some(method), Some(id)) => {
                let method = method.to_owned();
                self.ask(&method, id, &frame, server)
            }
            (Some("textDocument/publishDiagnostics"), None) => match self.is_known(&frame) {
                true => Way::Nowhere,
                false => Way::Editor(frame),
            },
            (Some(_), None) => Way::Editor(frame),
        }
    }

    /// Follows a server's answer.
    fn done(&mut self, id: &Value, frame: Frame) -> Way {
        if *id == AGAIN {
            return Way::Nowhere;
        }
        if let Some(at) = self.requests.iter().position(|r| r.id == *id) {
            let request = self.requests.remove(at);
            if Head::of(&request.frame).is("initialize") {
                self.parameters = params(&request.frame);
            }
        }
        Way::Editor(frame)
    }

    /// Passes a server's request under an id that no other server's has; what the editor has
    /// registered it is not asked again.
    fn ask(&mut self, method: &str, id: Value, frame: &Frame, server: u64) -> Way {
        if method == "client/registerCapability"
            && let Some(p) = params::<RegistrationParams>(frame)
        {
            let known = self.registered.len();
            self.registered
                .extend(p.registrations.into_iter().map(|r| r.id));
            if self.registered.len() == known {
                return Way::Server(message(
                    &json!({ "jsonrpc": "2.0", "id": id, "result": null }),
                ));
            }
        }
        self.last_asked += 1;
        let mut request = value(frame);
        request["id"] = self.last_asked.into();
        let settings = method == "workspace/configuration";
        let asked = Asked {
            server,
            id,
            settings,
        };
        self.asked.insert(self.last_asked, asked);
        Way::Editor(message(&request))
    }

    /// Returns whether the editor has these diagnostics from another server.
    fn is_known(&mut self, frame: &Frame) -> bool {
        #[derive(Deserialize)]
        struct Of {
            uri: String,
        }
        let Some(Of { uri }) = params(frame) else {
            return false;
        };
        let mut hasher = DefaultHasher::new();
        frame.hash(&mut hasher);
        let hash = hasher.finish();
        if self.told.get(&uri) == Some(&hash) {
            return true;
        }
        if self.documents.contains_key(&uri) {
            self.published.insert(uri, hash);
        }
        false
    }

    /// Returns what another server is told, and the answers that the editor gets without one. A server
    /// that ended as it `asked` to has failed over nothing.
    pub(super) fn again(&mut self, asked: bool) -> (Vec<Frame>, Vec<Frame>) {
        let (mut tell, mut refused) = (Vec::new(), Vec::new());
        if let Some(parameters) = &self.parameters {
            let mut p = parameters.clone();
            if let (Some(settings), Some(p)) = (&self.settings, p.as_object_mut()) {
                let mut options = settings.clone();
                let own = parameters.pointer("/initializationOptions/virtualDocuments");
                if let (Some(own), Some(options)) = (own, options.as_object_mut()) {
                    options.insert("virtualDocuments".into(), own.clone());
                }
                p.insert("initializationOptions".into(), options);
            }
            let initialize = json!({
                "jsonrpc": "2.0", "id": AGAIN, "method": "initialize", "params": p,
            });
            tell.push(message(&initialize));
            if self.initialized {
                tell.push(notification("initialized", json!({})));
            }
        }
        for (uri, open) in &self.documents {
            let document = json!({
                "uri": uri, "languageId": open.language, "version": open.version,
                "text": open.text.as_str(),
            });
            tell.push(notification(
                "textDocument/didOpen",
                json!({ "textDocument": document }),
            ));
        }
        self.told = self.published.clone();
        for mut request in std::mem::take(&mut self.requests) {
            if request.tried {
                let said = "the server failed over this request";
                let error = json!({ "code": ErrorCode::ContentModified as i32, "message": said });
                let answer = json!({ "jsonrpc": "2.0", "id": request.id, "error": error });
                refused.push(message(&answer));
                continue;
            }
            request.tried = !asked;
            tell.push(request.frame.clone());
            self.requests.push(request);
        }
        (tell, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: i64, method: &str, params: Value) -> Frame {
        message(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    fn answer(id: impl Into<Value>) -> Frame {
        message(&json!({ "jsonrpc": "2.0", "id": id.into(), "result": [{ "strictShapes": true }] }))
    }

    /// A session that server 1 has begun.
    fn begun() -> Session {
        let mut s = Session::default();
        let options = json!({ "virtualDocuments": true, "strictShapes": false });
        let p = json!({ "capabilities": {}, "initializationOptions": options });
        assert!(s.editor_says(request(0, "initialize", p), 1).is_some());
        assert!(matches!(s.server_says(answer(0), 1), Way::Editor(_)));
        s.editor_says(notification("initialized", json!({})), 1);
        s
    }

    fn methods(frames: &[Frame]) -> Vec<String> {
        let heads = frames.iter().map(Head::of);
        heads
            .map(|h| h.method.unwrap_or_default().into_owned())
            .collect()
    }

    #[test]
    fn requests_are_tried_once_more() {
        let mut s = begun();
        s.editor_says(request(7, "textDocument/hover", json!({})), 1);
        // A server that has only ended its time is not to blame.
        for asked in [true, true, false] {
            let (tell, refused) = s.again(asked);
            assert_eq!(
                methods(&tell),
                ["initialize", "initialized", "textDocument/hover"]
            );
            assert!(refused.is_empty());
        }
        let (tell, refused) = s.again(false);
        assert_eq!(methods(&tell), ["initialize", "initialized"]);
        let said = value(&refused[0]);
        assert_eq!(
            (&said["id"], &said["error"]["code"]),
            (&json!(7), &json!(-32801))
        );
        assert!(matches!(s.server_says(answer(AGAIN), 2), Way::Nowhere));
        assert_eq!(s.open_requests(), 0);
    }

    #[test]
    fn a_server_that_never_began_is_begun_anew() {
        let mut s = Session::default();
        let p = json!({ "capabilities": {} });
        s.editor_says(request(0, "initialize", p), 1);
        assert_eq!(methods(&s.again(false).0), ["initialize"]);
    }

    #[test]
    fn texts_and_settings_are_told_as_they_are() {
        let mut s = begun();
        let document =
            json!({ "uri": "file:///a", "languageId": "relay", "version": 1, "text": "aé\nb" });
        s.editor_says(
            notification("textDocument/didOpen", json!({ "textDocument": document })),
            1,
        );
        let range =
            json!({ "start": { "line": 0, "character": 1 }, "end": { "line": 1, "character": 0 } });
        let changes = json!([{ "range": range, "text": "c" }]);
        let document = json!({ "uri": "file:///a", "version": 5 });
        let p = json!({ "textDocument": document, "contentChanges": changes });
        s.editor_says(notification("textDocument/didChange", p), 1);
        let Way::Editor(asked) = s.server_says(request(1, "workspace/configuration", json!({})), 1)
        else {
            panic!("a request goes to the editor");
        };
        let id = value(&asked)["id"].clone();
        assert!(s.editor_says(answer(id), 1).is_some());
        let (tell, _) = s.again(true);
        assert_eq!(
            value(&tell[0])["params"]["initializationOptions"],
            json!({ "virtualDocuments": true, "strictShapes": true })
        );
        let open = &value(&tell[2])["params"]["textDocument"];
        assert_eq!(
            (&open["text"], &open["version"]),
            (&json!("acb"), &json!(5))
        );
    }

    #[test]
    fn the_editor_is_told_once() {
        let mut s = begun();
        let document =
            json!({ "uri": "file:///a", "languageId": "relay", "version": 1, "text": "" });
        s.editor_says(
            notification("textDocument/didOpen", json!({ "textDocument": document })),
            1,
        );
        let found = |n: i32| {
            let p = json!({ "uri": "file:///a", "version": 1, "diagnostics": [n] });
            notification("textDocument/publishDiagnostics", p)
        };
        let passes = |s: &mut Session, n| matches!(s.server_says(found(n), 1), Way::Editor(_));
        assert!(passes(&mut s, 1) && passes(&mut s, 1));
        s.again(true);
        assert!(!passes(&mut s, 1));
        assert!(passes(&mut s, 2));
        let register = |id: i64| {
            let all = json!([{ "id": "files", "method": "workspace/didChangeWatchedFiles" }]);
            request(
                id,
                "client/registerCapability",
                json!({ "registrations": all }),
            )
        };
        assert!(matches!(s.server_says(register(1), 1), Way::Editor(_)));
        let Way::Server(done) = s.server_says(register(9), 2) else {
            panic!("it is registered");
        };
        assert_eq!(value(&done)["id"], 9);
    }

    #[test]
    fn answers_find_who_asked() {
        let mut s = begun();
        let ask =
            |s: &mut Session, server| match s.server_says(request(1, "a/b", json!({})), server) {
                Way::Editor(frame) => value(&frame)["id"].clone(),
                _ => panic!("a request goes to the editor"),
            };
        let (first, second) = (ask(&mut s, 1), ask(&mut s, 2));
        assert_ne!(first, second);
        assert_eq!(s.editor_says(answer(first), 2), None);
        let frame = s.editor_says(answer(second.clone()), 2).expect("its own");
        assert_eq!(value(&frame)["id"], 1);
        // An answer to nothing.
        assert_eq!(s.editor_says(answer(second), 2), None);
    }
}
