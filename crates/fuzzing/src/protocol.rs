//! A simulated editor: messages to the language server, or a text with edits and requests.

/// The line before messages; any other input is a text.
const MESSAGES: &[u8] = b"#messages\n";
/// Longer inputs take long and add no coverage.
const LONGEST: usize = 4000;

/// Sends messages of an editor, one per line, if the first line says so; otherwise edits a
/// document.
pub fn protocol(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    match data.strip_prefix(MESSAGES) {
        Some(lines) => relax_lsp::attempt::messages(&String::from_utf8_lossy(lines)),
        None => relax_lsp::attempt::edits(&String::from_utf8_lossy(data)),
    }
}
