//! Layout of texts that an importer wrote: one statement a line, spelled as the formatter would.
//!
//! Most statements of a model fit their lines as they are, or are calls that the formatter would lay
//! out with an argument a line. Only the others are parsed and printed by the formatter, in a
//! function of their own, and put back between those.

use relax_base::SourceMap;
use relax_syntax::FmtOptions;

/// Formats a text; one that does not parse stays as it is.
pub(crate) fn laid_out(name: &str, text: String) -> String {
    let short = by_statements(name, &text);
    debug_assert!(short.is_none() || short == formatted(name, &text));
    short.or_else(|| formatted(name, &text)).unwrap_or(text)
}

fn formatted(name: &str, text: &str) -> Option<String> {
    let file = SourceMap::new().add(name, text)?;
    relax_syntax::format_source(&file, &FmtOptions::default()).ok()
}

/// Formats comments followed by one function; `None` for any other text.
fn by_statements(name: &str, text: &str) -> Option<String> {
    let start = match text.starts_with("def @") {
        true => 0,
        false => text.find("\ndef @")? + 1,
    };
    let (comments, function) = text.split_at(start);
    let open = function.find("{\n")? + 2;
    let (head, body) = function.split_at(open);
    let body = body.strip_suffix("}\n")?;
    if !(comments.lines().all(|l| l.starts_with("//")) && head.lines().all(|l| !l.contains("//"))) {
        return None;
    }
    let mut kept: Vec<Option<Plain<'_>>> = Vec::new();
    let mut others = String::from(head);
    let mut rest = body;
    while rest.starts_with("let ") || rest.starts_with("//") {
        let length = statement(rest)?;
        let (one, after) = rest.split_at(length);
        let known = plain(one.trim_end_matches('\n'));
        if known.is_none() {
            others.push_str(one);
        }
        kept.push(known);
        rest = after;
    }
    if rest.contains("\ndef @") {
        return None;
    }
    others.push_str(rest);
    others.push_str("}\n");
    let others = formatted(name, &others)?;
    let open = others.find("{\n")? + 2;
    let mut out = String::with_capacity(text.len() + 4 * kept.len());
    out.push_str(comments);
    out.push_str(&others[..open]);
    let mut rest = &others[open..];
    for one in kept {
        match one {
            Some(one) => one.print(&mut out),
            None => {
                let (printed, after) = rest.split_at(printed(rest)?);
                out.push_str(printed);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Some(out)
}

/// A statement that needs no formatter.
enum Plain<'a> {
    /// It fits its line.
    Line(&'a str),
    /// A call up to its bracket, and its arguments.
    Call(&'a str, Vec<&'a str>),
}

impl Plain<'_> {
    fn print(&self, out: &mut String) {
        let mut line = |parts: [&str; 3]| {
            parts.iter().for_each(|part| out.push_str(part));
            out.push('\n');
        };
        match self {
            Plain::Line(text) => line(["  ", text, ""]),
            Plain::Call(head, args) => {
                line(["  ", head, ""]);
                args.iter().for_each(|arg| line(["    ", arg, ","]));
                line(["  ", ");", ""]);
            }
        }
    }
}

/// Returns the layout of a statement or comment, if that is known without the formatter.
fn plain(line: &str) -> Option<Plain<'_>> {
    let width = FmtOptions::default().width;
    if line.contains('\n') {
        return None;
    }
    if line.starts_with("//") {
        return Some(Plain::Line(line));
    }
    if !line.is_ascii() || line.contains('{') || line.contains("//") {
        return None;
    }
    if line.len() + 2 <= width {
        return Some(Plain::Line(line));
    }
    let (head, rest) = line.split_at(line.find('(')? + 1);
    let args = arguments(rest.strip_suffix(");")?)?;
    let named = head.contains(" = ") && !head.ends_with(" (") && head.len() + 2 <= width;
    let fit = args.iter().all(|arg| arg.len() + 5 <= width);
    (named && fit).then_some(Plain::Call(head, args))
}

/// Splits the arguments of a call at the commas outside of brackets; `None` where there are texts,
/// which may have brackets of their own, or the brackets are not those of one call.
fn arguments(text: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start, mut args) = (0u32, 0, Vec::new());
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'"' => return None,
            b',' if depth == 0 => {
                args.push(text.get(start..at)?);
                start = at + 2;
            }
            _ => {}
        }
    }
    args.push(text.get(start..)?);
    (depth == 0).then_some(args)
}

/// Returns the length of the statement or comment that a text begins with: up to the end of a line
/// outside of all brackets.
fn statement(text: &str) -> Option<usize> {
    let (mut depth, mut length) = (0i64, 0);
    for line in text.split_inclusive('\n') {
        length += line.len();
        if line.trim_start().starts_with("//") {
            if depth == 0 {
                return Some(length);
            }
            continue;
        }
        let mut bytes = line.bytes();
        while let Some(b) = bytes.next() {
            match b {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                b'"' => {
                    while let Some(b) = bytes.next()
                        && b != b'"'
                    {
                        if b == b'\\' {
                            bytes.next();
                        }
                    }
                }
                _ => {}
            }
        }
        if depth == 0 && line.ends_with(";\n") {
            return Some(length);
        }
    }
    None
}

/// Returns the length of the statement that a printed body begins with: up to the next line that is
/// indented as far and does not only close brackets.
fn printed(body: &str) -> Option<usize> {
    let mut length = 0;
    for line in body.split_inclusive('\n') {
        let starts = line
            .strip_prefix("  ")
            .is_some_and(|l| !l.starts_with([' ', ')', ']', '}']));
        if length > 0 && starts {
            return Some(length);
        }
        length += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_fit_stay_and_the_others_are_formatted() {
        let long = format!(
            "let %z = concatenate(({}), axis=0);\n",
            ["%x"; 40].join(", ")
        );
        let text = format!(
            "// The graph `a{{`.\n// By hand.\ndef @main(\n  %x: Tensor[(1, 2), float32],\n) {{\n\
             // /layer1\nlet %y = add(%x, %x);\n{long}// /layer2 {{\n\
             let %f = fn (%a: Tensor[(1, 2), float32]) {{\n// within\nlet %b = add(%a, %a);\n%b\n}};\n\
             let %s = custom(%y, text=\"{{ ( \\\" //\");\nlet %w = %f(%s);\n{long}\
             let %a = custom(%x, {0}=true, b={1});\n\
             let %b = custom((%x, [%x, (%x,)]), {0}=[1, 2], b={1});\n\
             (%w, %z, if (true) {{\n%y\n}} else {{\n%x\n}})\n}}\n",
            "w".repeat(60),
            "7".repeat(18),
        );
        let short = by_statements("model.onnx", &text).expect("one function");
        assert_eq!(Some(&short), formatted("model.onnx", &text).as_ref());
        assert!(
            short.lines().all(|l| l.len() <= 100 || l.contains("//")),
            "{short}"
        );
        let call = format!(
            "let %a = custom(%x, {}=true, b={});",
            "w".repeat(60),
            "7".repeat(18)
        );
        assert!(matches!(plain(&call), Some(Plain::Call(_, args)) if args.len() == 3));
        let nested = call.replace("%x", "(%x, [1, 2])");
        assert!(matches!(plain(&nested), Some(Plain::Call(_, args)) if args.len() == 3));
        assert!(plain(&call.replace("%x", "%x)(")).is_none());
        let two = format!("{text}{}", text.replace("@main", "@other"));
        assert_eq!(by_statements("model.onnx", &two), None);
        assert_eq!(laid_out("model.onnx", "def @(".into()), "def @(");
    }
}
