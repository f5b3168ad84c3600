//! Requests about a document.

use lsp_server::ErrorCode;
use lsp_types::request as ask;
use lsp_types::*;
use serde_json::Value;

use super::{Answer, Server, json, params};
use crate::features::{self, lens};

impl Server {
    /// Returns whether a request is about a text in TVMScript.
    fn is_script(&self, p: &Value) -> bool {
        let uri = p["textDocument"]["uri"].as_str();
        uri.and_then(|uri| self.documents.get(uri))
            .is_some_and(|doc| doc.script)
    }

    pub(super) fn question(&mut self, method: &str, p: Value) -> Answer {
        use ask::Request as _;
        if self.is_script(&p) {
            return match method {
                ask::HoverRequest::METHOD => {
                    let p: HoverParams = params(p)?;
                    let (doc, at) = self.at(&p.text_document_position_params)?;
                    json(features::script::hover(doc, at))
                }
                // Everything else only applies to the text format.
                _ => Ok(Value::Null),
            };
        }
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
            ask::InlayHintRequest::METHOD => {
                let p: InlayHintParams = params(p)?;
                if !self.settings.inlay_hints.enable {
                    return json(Vec::<InlayHint>::new());
                }
                let doc = self.doc(&p.text_document.uri)?;
                json(features::hints::hints(doc, p.range))
            }
            _ => self.name_question(method, p),
        }
    }

    /// Answers what is asked about names: where they stand, and what they are called.
    fn name_question(&mut self, method: &str, p: Value) -> Answer {
        use ask::Request as _;
        match method {
            ask::GotoDefinition::METHOD => {
                let p: GotoDefinitionParams = params(p)?;
                json(self.definition(&p.text_document_position_params)?)
            }
            ask::GotoTypeDefinition::METHOD => {
                let p: request::GotoTypeDefinitionParams = params(p)?;
                json(self.type_definition(&p.text_document_position_params)?)
            }
            ask::CallHierarchyPrepare::METHOD => {
                let p: CallHierarchyPrepareParams = params(p)?;
                let uri = p.text_document_position_params.text_document.uri.clone();
                let (doc, at) = self.at(&p.text_document_position_params)?;
                json(features::calls::prepare(doc, &uri, at))
            }
            ask::CallHierarchyIncomingCalls::METHOD => {
                let p: CallHierarchyIncomingCallsParams = params(p)?;
                let doc = self.doc(&p.item.uri)?;
                json(features::calls::incoming(doc, &p.item.uri, &p.item))
            }
            ask::CallHierarchyOutgoingCalls::METHOD => {
                let p: CallHierarchyOutgoingCallsParams = params(p)?;
                let doc = self.doc(&p.item.uri)?;
                json(features::calls::outgoing(doc, &p.item.uri, &p.item))
            }
            ask::References::METHOD => {
                let p: ReferenceParams = params(p)?;
                let all = p.context.include_declaration;
                json(self.references(&p.text_document_position, all)?)
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
                    Err(said) => Err((ErrorCode::RequestFailed, said.to_string())),
                }
            }
            ask::Rename::METHOD => {
                let p: RenameParams = params(p)?;
                let uri = p.text_document_position.text_document.uri.clone();
                let (doc, at) = self.at(&p.text_document_position)?;
                match features::refs::rename(doc, at, &p.new_name) {
                    Ok(edits) => json(features::actions::workspace(&uri, edits)),
                    Err(said) => Err((ErrorCode::RequestFailed, said.to_string())),
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
            _ => self.text_question(method, p),
        }
    }

    /// Answers what is asked about a text as it is written: its layout, parts and tokens.
    fn text_question(&mut self, method: &str, p: Value) -> Answer {
        use ask::Request as _;
        match method {
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
                json(self.tokens(&p.text_document.uri)?)
            }
            ask::SemanticTokensFullDeltaRequest::METHOD => {
                let p: SemanticTokensDeltaParams = params(p)?;
                json(self.token_changes(&p.text_document.uri, &p.previous_result_id)?)
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
            _ => Err((
                ErrorCode::MethodNotFound,
                format!("`{method}` is not known"),
            )),
        }
    }
}
