//! Commands and virtual documents; long-running ones run in a thread of their own.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lsp_server::{ErrorCode, RequestId, Response};
use lsp_types::{ExecuteCommandParams, Uri};
use serde_json::{Value, json};

use super::{Answer, Refusal, Server, TextContentParams, params};
use crate::Error;
use crate::features::lens;
use crate::{address, library};

/// The timeout of a run.
const LONGEST: Duration = Duration::from_secs(30);
/// The limit on output that is shown.
const MOST: u64 = 1 << 20;

impl Server {
    /// Runs work in a thread of its own, and replies with the text it returns.
    fn job(
        &mut self,
        id: RequestId,
        work: impl FnOnce() -> Result<String, Error> + Send + 'static,
    ) {
        let jobs = self.jobs.clone();
        self.busy += 1;
        std::thread::spawn(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            let result = result.unwrap_or_else(|_| Err(Error::refused("a defect of the server")));
            let response = match result {
                Ok(text) => Response::new_ok(id, json!({ "text": text })),
                Err(e) => Response::new_err(id, ErrorCode::RequestFailed as i32, e.to_string()),
            };
            // The receiver lives as long as the server.
            let _ = jobs.send(response.into());
        });
    }

    /// Executes a command; `None` if a job replies.
    pub(super) fn command(&mut self, id: RequestId, p: Value) -> Option<Answer> {
        let p: ExecuteCommandParams = match params(p) {
            Ok(p) => p,
            Err(e) => return Some(Err(e)),
        };
        let text = |i: usize| {
            p.arguments
                .get(i)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let bad = |said: &str| -> Option<Answer> {
            let refusal: Refusal = (ErrorCode::InvalidParams, said.to_owned());
            Some(Err(refusal))
        };
        match p.command.as_str() {
            lens::PASSES => Some(Ok(json!(lens::passes()))),
            lens::EXPLAIN => match text(0).and_then(|code| lens::explain(&code)) {
                Some(said) => Some(Ok(json!({ "text": said }))),
                None => bad("there is no explanation of this code"),
            },
            lens::AFTER => {
                let source = self.source(text(0));
                // A lens passes the function second; the editor asks the user for the pass.
                let (Some(source), Some(pass)) = (source, text(2).or(text(1))) else {
                    return bad("the arguments are an open document and a pipeline");
                };
                self.job(id, move || lens::after(&source, &pass));
                None
            }
            lens::RUN => {
                let Some(source) = self.source(text(0)) else {
                    return bad("the arguments are an open document and a function");
                };
                let tool = self.settings.run_tool.clone();
                let entry = text(1);
                self.job(id, move || {
                    run(tool, &source, entry).map_err(Error::Refused)
                });
                None
            }
            other => bad(&format!("there is no command `{other}`")),
        }
    }

    fn source(&self, uri: Option<String>) -> Option<String> {
        let doc = self.documents.get(&uri?)?;
        Some(doc.text.as_str().to_owned())
    }

    /// Returns the text of a virtual document: `relax:explain/RX0301.md`,
    /// `relax:after/<pipeline>?<document>`, `relax:prelude/lists.relay`, `relax:op/nn.relu.md`.
    pub(super) fn content(&mut self, id: RequestId, p: Value) -> Option<Answer> {
        let p: TextContentParams = match params(p) {
            Ok(p) => p,
            Err(e) => return Some(Err(e)),
        };
        let missing = || -> Option<Answer> {
            Some(Err((
                ErrorCode::InvalidParams,
                "there is no such text".into(),
            )))
        };
        let Some((kind, rest)) = virtual_address(&p.uri) else {
            return missing();
        };
        match kind.as_str() {
            "explain" => match lens::explain(rest.trim_end_matches(".md")) {
                Some(said) => Some(Ok(json!({ "text": said }))),
                None => missing(),
            },
            "prelude" => match library::prelude(&rest) {
                Some(text) => Some(Ok(json!({ "text": text }))),
                None => missing(),
            },
            "op" => match library::operator(rest.trim_end_matches(".md")) {
                Some(text) => Some(Ok(json!({ "text": text }))),
                None => missing(),
            },
            "after" => {
                let Some((pass, uri)) = rest.split_once('?') else {
                    return missing();
                };
                let Some(source) = self.source(Some(uri.to_owned())) else {
                    return missing();
                };
                let pass = pass.trim_end_matches(".relay").to_owned();
                self.job(id, move || lens::after(&source, &pass));
                None
            }
            _ => missing(),
        }
    }
}

/// Splits the URI of a virtual document into its kind and the rest, with escapes resolved.
fn virtual_address(uri: &Uri) -> Option<(String, String)> {
    let text = uri.as_str().strip_prefix("relax:")?.trim_start_matches('/');
    let plain = address::unescape(text)?;
    let (kind, rest) = plain.split_once('/')?;
    Some((kind.to_owned(), rest.to_owned()))
}

/// Runs a function on random arguments with `relax-run`, as the server itself has no code
/// generator, and returns the output.
fn run(tool: Option<String>, source: &str, entry: Option<String>) -> Result<String, String> {
    let beside = || -> Option<PathBuf> {
        let tool = std::env::current_exe().ok()?.with_file_name("relax-run");
        tool.exists().then_some(tool)
    };
    let tool = tool.map(PathBuf::from).or_else(beside);
    let tool = tool.unwrap_or_else(|| "relax-run".into());
    let mut command = Command::new(&tool);
    command.args(["-", "--random", "0"]);
    if let Some(entry) = entry {
        command.args(["--entry", &entry]);
    }
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = (pipes.spawn()).map_err(|e| format!("cannot run {}: {e}", tool.display()))?;
    let source = source.to_owned();
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    // Writes and reads concurrently: neither pipe may fill up while the other waits.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(source.as_bytes());
    });
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.by_ref().take(MOST).read_to_end(&mut bytes);
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|p| Box::new(p) as _));
    let err = read(child.stderr.take().map(|p| Box::new(p) as _));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if begun.elapsed() < LONGEST => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let _ = writer.join();
    let (out, err) = (
        out.join().unwrap_or_default(),
        err.join().unwrap_or_default(),
    );
    match status {
        Some(s) if s.success() => Ok(out),
        Some(_) => Err(err),
        None => Err(format!("ended after {} seconds", LONGEST.as_secs())),
    }
}
