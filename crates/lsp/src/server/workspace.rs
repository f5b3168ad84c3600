//! Requests that concern several documents.

use std::path::PathBuf;

use lsp_types::request as ask;
use lsp_types::*;
use relax_base::Symbol;

use super::{Refusal, Server};
use crate::features::refs::{self, Space, Target};
use crate::features::{symbols, tokens};
use crate::library::{self, Origin};
use crate::workspace::Workspace;
use crate::{address, features};

impl Server {
    /// Starts scanning the files of the folders in the background.
    pub(super) fn read_workspace(&mut self, folders: Vec<PathBuf>) {
        let mut workspace = Workspace::new(folders, self.encoding);
        if workspace.folders.is_empty() {
            return;
        }
        let (out, done) = crossbeam_channel::bounded(1);
        self.reading = Some(done);
        std::thread::spawn(move || {
            workspace.scan();
            // The receiver lives as long as the server.
            let _ = out.send(workspace);
        });
        if self.watches {
            let watcher = FileSystemWatcher {
                glob_pattern: GlobPattern::String("**/*.relay".into()),
                kind: None,
            };
            let options = DidChangeWatchedFilesRegistrationOptions {
                watchers: vec![watcher],
            };
            let registration = Registration {
                id: "relay-files".into(),
                method: "workspace/didChangeWatchedFiles".into(),
                register_options: serde_json::to_value(options).ok(),
            };
            self.ask::<ask::RegisterCapability>(RegistrationParams {
                registrations: vec![registration],
            });
        }
    }

    /// Returns the current files of the folders.
    pub(super) fn workspace(&mut self) -> &mut Workspace {
        if let Some(done) = self.reading.take()
            && let Ok(workspace) = done.recv()
        {
            self.workspace = workspace;
        }
        let changed = std::mem::take(&mut self.changed);
        if self.watches {
            for path in changed {
                self.workspace.changed(&path);
            }
        } else {
            self.workspace.scan();
        }
        &mut self.workspace
    }

    /// Handles files that were written, created or removed.
    pub(super) fn files_changed(&mut self, p: DidChangeWatchedFilesParams) {
        let paths = p
            .changes
            .iter()
            .filter_map(|c| address::path(c.uri.as_str()));
        self.changed.extend(paths);
    }

    /// Handles a change of the open folders.
    pub(super) fn folders_changed(&mut self, p: DidChangeWorkspaceFoldersParams) {
        let paths = |list: &[WorkspaceFolder]| -> Vec<PathBuf> {
            let all = list.iter().filter_map(|f| address::path(f.uri.as_str()));
            all.collect()
        };
        let (gone, new) = (paths(&p.event.removed), paths(&p.event.added));
        let workspace = self.workspace();
        workspace.folders.retain(|f| !gone.contains(f));
        workspace.folders.extend(new);
        workspace.scan();
    }

    /// Returns the location of a name in a virtual document, or in a file if the editor does not
    /// support these.
    fn library_place(&self, origin: Origin) -> Option<Location> {
        let (uri, range) = origin.place()?;
        let uri = match self.virtual_documents {
            true => uri,
            false => address::of_path(&library::on_disk(&uri)?)?,
        };
        Some(Location::new(uri.parse().ok()?, range))
    }

    /// Returns the declaration of the name at a position.
    pub(super) fn definition(
        &mut self,
        p: &TextDocumentPositionParams,
    ) -> Result<Vec<Location>, Refusal> {
        let uri = p.text_document.uri.clone();
        let (doc, at) = self.at(p)?;
        match refs::target_at(doc, at) {
            Some(what) => self.declared(&uri, what),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the declaration of the data type of the entity at a position.
    pub(super) fn type_definition(
        &mut self,
        p: &TextDocumentPositionParams,
    ) -> Result<Vec<Location>, Refusal> {
        let uri = p.text_document.uri.clone();
        let (doc, at) = self.at(p)?;
        match features::type_of::data_type_at(doc, at) {
            Some(name) => self.declared(&uri, Target::Item(Space::Type, name)),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the declaration of an entity, in its file or in the library.
    fn declared(&mut self, uri: &Uri, what: Target) -> Result<Vec<Location>, Refusal> {
        let doc = self.doc(uri)?;
        let found = refs::occurrences(doc, what).into_iter().filter(|o| o.1);
        let found: Vec<Location> = found
            .map(|o| Location::new(uri.clone(), features::place::range(doc, o.0)))
            .collect();
        if found.is_empty()
            && let Target::Item(space, name) = what
        {
            let origin = library::origin((space, name), self.encoding);
            let place = origin.and_then(|o| self.library_place(o));
            return Ok(place.into_iter().collect());
        }
        Ok(found)
    }

    /// Returns the occurrences of the name at a position: in its file, and if the file does not
    /// declare it, in all others too.
    pub(super) fn references(
        &mut self,
        p: &TextDocumentPositionParams,
        declarations: bool,
    ) -> Result<Vec<Location>, Refusal> {
        let uri = p.text_document.uri.clone();
        let (doc, at) = self.at(p)?;
        let Some(what) = refs::target_at(doc, at) else {
            return Ok(Vec::new());
        };
        let found = refs::occurrences(doc, what);
        let own = found.iter().any(|o| o.1);
        let mut out: Vec<Location> = (found.into_iter())
            .filter(|o| declarations || !o.1)
            .map(|o| Location::new(uri.clone(), features::place::range(doc, o.0)))
            .collect();
        if let Target::Item(space, name) = what
            && !own
            && let Some(origin) = library::origin((space, name), self.encoding)
        {
            if declarations {
                out.extend(self.library_place(origin));
            }
            out.extend(self.elsewhere(&uri, space, name));
        }
        Ok(out)
    }

    /// Returns the uses of an undeclared name in other files.
    fn elsewhere(&mut self, but: &Uri, space: Space, name: Symbol) -> Vec<Location> {
        let mut out = Vec::new();
        for (uri, doc) in self.open_documents() {
            let found = refs::occurrences(doc, Target::Item(space, name));
            if uri != *but && !found.iter().any(|o| o.1) {
                let places = found.iter().map(|o| features::place::range(doc, o.0));
                out.extend(places.map(|range| Location::new(uri.clone(), range)));
            }
        }
        self.each_closed(|uri, index| {
            let places = index.used.get(&(space, name)).into_iter().flatten();
            out.extend(places.map(|range| Location::new(uri.clone(), *range)));
        });
        out
    }

    /// Iterates over the open documents, by URI.
    fn open_documents(&mut self) -> Vec<(Uri, &mut crate::document::Document)> {
        let all = self.documents.iter_mut();
        let mut all: Vec<_> = all
            .filter_map(|(k, d)| Some((k.parse().ok()?, d)))
            .collect();
        all.sort_by(|a: &(Uri, _), b| a.0.as_str().cmp(b.0.as_str()));
        all
    }

    /// Visits the files of the folders that are not open.
    fn each_closed(&mut self, mut visit: impl FnMut(Uri, &crate::index::Index)) {
        let open: Vec<_> = self
            .documents
            .keys()
            .filter_map(|k| address::path(k))
            .collect();
        for (path, index) in self.workspace().files() {
            let uri = address::of_path(path).and_then(|a| a.parse().ok());
            if let Some(uri) = uri
                && !open.iter().any(|p| p == path)
            {
                visit(uri, index);
            }
        }
    }

    /// Returns the items of all files that match a query.
    pub(super) fn workspace_symbols(&mut self, query: &str) -> Vec<WorkspaceSymbol> {
        let mut out = Vec::new();
        for (uri, doc) in self.open_documents() {
            add_matches(&uri, symbols::symbols(doc), query, &mut out);
        }
        self.each_closed(|uri, index| {
            add_matches(&uri, index.symbols.clone(), query, &mut out);
        });
        out
    }

    /// Returns the tokens of a document, and keeps them to send only changes later.
    pub(super) fn tokens(&mut self, uri: &Uri) -> Result<SemanticTokens, Refusal> {
        let data = tokens::tokens(self.doc(uri)?, None);
        self.next_tokens += 1;
        let id = self.next_tokens.to_string();
        self.tokens
            .insert(uri.to_string(), (id.clone(), data.clone()));
        Ok(SemanticTokens {
            result_id: Some(id),
            data,
        })
    }

    /// Returns the changes relative to the tokens last sent.
    pub(super) fn token_changes(
        &mut self,
        uri: &Uri,
        last: &str,
    ) -> Result<SemanticTokensFullDeltaResult, Refusal> {
        let old = self.tokens.remove(uri.as_str()).filter(|t| t.0 == last);
        let new = self.tokens(uri)?;
        let Some((_, old)) = old else {
            return Ok(SemanticTokensFullDeltaResult::Tokens(new));
        };
        let (start, deleted, data) = tokens::change(&old, &new.data);
        let edit = SemanticTokensEdit {
            // Counted in integers, of which a token has five.
            start: 5 * start as u32,
            delete_count: 5 * deleted as u32,
            data: Some(data),
        };
        let changed = edit.delete_count > 0 || edit.data.as_ref().is_some_and(|d| !d.is_empty());
        Ok(SemanticTokensFullDeltaResult::TokensDelta(
            SemanticTokensDelta {
                result_id: new.result_id,
                edits: changed.then_some(edit).into_iter().collect(),
            },
        ))
    }
}

fn add_matches(uri: &Uri, all: Vec<DocumentSymbol>, query: &str, out: &mut Vec<WorkspaceSymbol>) {
    for s in all {
        let inner = s.children.clone().unwrap_or_default();
        let container = s.name.clone();
        let both = std::iter::once((s, None));
        for (s, within) in both.chain(inner.into_iter().map(|c| (c, Some(&container)))) {
            if symbols::matches(&s.name, query) {
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
