//! An editor: messages to the language server, or a text and changes of it with questions in
//! between.

/// The line before messages; anything else is a text.
const MESSAGES: &[u8] = b"#messages\n";
/// Longer inputs take long and say nothing new.
const LONGEST: usize = 4000;

/// Messages of an editor, one a line, where the first line says so; else a document that is
/// changed.
pub fn protocol(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    match data.strip_prefix(MESSAGES) {
        Some(lines) => relax_lsp::attempt::messages(&String::from_utf8_lossy(lines)),
        None => relax_lsp::attempt::edits(&String::from_utf8_lossy(data)),
    }
}
