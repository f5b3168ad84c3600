//! A text reads as the same module in any of its common forms: line terminators, encodings,
//! colours, logger prefixes, headers of earlier versions, names from other frameworks.
//!
//! The texts are those of `tests/` and `examples/`, and, if they are next to the repository, a
//! sample of the conformance cases.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use relax::{ReadOptions, Session, TextOptions, difference};
use relax_base::{Diagnostics, SourceMap};
use relax_ir::{EqualOptions, Module};
use relax_syntax::{Tok, ast::FileForm};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the texts of the repository, and every `step`th conformance case.
fn texts() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for folder in ["tests/types", "tests/run", "tests/passes", "examples"] {
        paths.extend(relax_testkit::files(&root().join(folder), "relay"));
    }
    paths.retain(|p| !p.components().any(|c| c.as_os_str() == "models"));
    let shared = root().join("../shared/conformance/relay/types");
    if shared.is_dir() {
        paths.extend(
            relax_testkit::files(&shared, "relay")
                .into_iter()
                .step_by(10),
        );
    }
    let mut texts = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a text");
        let end = text.find("\n// expect:").map_or(text.len(), |at| at + 1);
        texts.push((path.display().to_string(), text[..end].to_owned()));
    }
    texts
}

fn read(name: &str, bytes: Vec<u8>, text: TextOptions) -> (Module, Diagnostics) {
    let mut session = Session::new(ReadOptions {
        text,
        ..ReadOptions::default()
    });
    session.read(name, bytes)
}

/// Reads every text and its form, and compares the modules.
fn same(form: impl Fn(&str) -> Option<Vec<u8>>, options: TextOptions) {
    let (mut failed, mut count) = (Vec::new(), 0);
    for (name, text) in texts() {
        let (wanted, found) = read(&name, text.clone().into_bytes(), TextOptions::default());
        if found.has_errors() {
            continue;
        }
        let Some(bytes) = form(&text) else { continue };
        count += 1;
        let (module, found) = read(&name, bytes.clone(), options);
        if let Some(error) = found.iter().find(|d| d.is_error()) {
            let shown = String::from_utf8_lossy(&bytes);
            let shown: String = shown.chars().take(400).collect();
            failed.push(format!("{name}: {}\n{shown}", error.message));
        } else if let Some(difference) = difference(&wanted, &module, EqualOptions::default()) {
            failed.push(format!("{name}: {}", difference.text));
        }
    }
    assert!(count > 30, "only {count} texts have the form");
    assert!(
        failed.is_empty(),
        "{} of {count}:\n{}",
        failed.len(),
        failed[..failed.len().min(5)].join("\n")
    );
}

fn plain(text: String) -> Option<Vec<u8>> {
    Some(text.into_bytes())
}

#[test]
fn line_ends() {
    same(|t| plain(t.replace('\n', "\r\n")), TextOptions::default());
}

#[test]
fn encodings() {
    same(|t| plain(format!("\u{FEFF}{t}")), TextOptions::default());
    let wide = |order: fn(u16) -> [u8; 2]| {
        move |t: &str| {
            Some(
                format!("\u{FEFF}{t}")
                    .encode_utf16()
                    .flat_map(order)
                    .collect(),
            )
        }
    };
    same(wide(u16::to_le_bytes), TextOptions::default());
    same(wide(u16::to_be_bytes), TextOptions::default());
}

#[test]
fn colours() {
    let coloured = |text: &str| {
        let mut out = String::new();
        for (i, c) in text.chars().enumerate() {
            if (i * 7 + c as usize).is_multiple_of(5) {
                let _ = write!(out, "\x1b[{}m", 30 + i % 8);
            }
            out.push(c);
        }
        plain(out)
    };
    same(coloured, TextOptions::default());
}

#[test]
fn spans_in_comments() {
    let with_spans = |text: &str| {
        let (text, metadata) = text.split_at(text.find("#[metadata]").unwrap_or(text.len()));
        let text = text.replace(" */", " span=/m/conv1.Conv/a:12:3 */");
        // Statements of a dump are followed by their location.
        let text = text.replace(");\n", ") /* aten::add_0:0:0 */;\n");
        plain(text + metadata)
    };
    same(with_spans, TextOptions::default());
}

#[test]
fn headers_of_earlier_versions() {
    for header in ["v0.0.1", "v0.0.4", "#[version = \"0.0.4\"]"] {
        let old = |text: &str| {
            let bare = text.replacen("#[version = \"0.0.5\"]\n", "", 1);
            plain(format!("{header}\n{bare}"))
        };
        same(old, TextOptions::default());
    }
}

#[test]
fn one_function() {
    let sole = |text: &str| {
        let items = ["def @", "type ", "prim_func ", "op ", "rel "];
        let lines = text.lines().map(str::trim_start);
        let count = lines
            .filter(|l| items.iter().any(|i| l.starts_with(i)))
            .count();
        let alone = count == 1 && text.matches("@main").count() == 1 && !text.contains(" = rel ");
        let named = text.contains("def @main");
        (alone && named).then(|| text.replace("def @main", "fn ").into_bytes())
    };
    same(sole, TextOptions::default());
}

/// Renames every local variable in a text.
fn renamed(text: &str, name: impl Fn(&str) -> String) -> Option<Vec<u8>> {
    let file = SourceMap::new().add("test.relay", text)?;
    let parsed = relax_syntax::parse(&file);
    let undeclared = parsed.ast.form == FileForm::Expression && !text.contains("free_var");
    if undeclared {
        return None;
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut at = file.start;
    for t in relax_syntax::lex(&file).tokens {
        if t.tok == Tok::Local {
            let token = file.slice(t.span());
            out.push_str(file.slice(relax_base::Span::new(at, t.start)));
            let _ = write!(out, "%{}", name(&token[1..]));
            at = t.end;
        }
    }
    out.push_str(file.slice(relax_base::Span::new(at, file.span().end)));
    Some(out.into_bytes())
}

#[test]
fn names_of_other_frameworks() {
    let forms: [fn(&str) -> String; 5] = [
        |n| format!("{n}.1"),
        |n| format!("{n}:0"),
        |n| format!("onnx::{n}"),
        |n| format!("{n}.weight.3.7"),
        |n| format!("größe_{n}"),
    ];
    for form in forms {
        let old = |text: &str| {
            let computes = ["prim_func", "op ", "match_shape", "compute"];
            let plain = !computes.iter().any(|c| text.contains(c));
            plain.then(|| renamed(text, form)).flatten()
        };
        same(old, TextOptions::default());
    }
}

#[test]
fn logs() {
    let logged = |text: &str| {
        let mut out = String::from("$ python dump.py\n[11:59:59] src/main.cc:1: loading\n");
        for (i, line) in text.trim_start().lines().enumerate() {
            let _ = writeln!(out, "[12:00:{:02}] src/a.cc:{}: {line}", i % 60, 7 + i);
        }
        out.push_str("[12:10:00] src/main.cc:99: done\n");
        let begins = ["#[version", "def @", "free_var %", "fn (%"];
        let first = text.trim_start();
        begins
            .iter()
            .any(|b| first.starts_with(b))
            .then(|| out.into_bytes())
    };
    let options = TextOptions {
        from_log: true,
        ..TextOptions::default()
    };
    same(logged, options);
}

/// Devices of parameters and functions are preserved; everything else is unchanged.
#[test]
fn devices() {
    const DEVICE: &str = "VirtualDevice(device_type=1, virtual_device_id=0, target=Target(kind='llvm', keys={'cpu'}))";
    let mut count = 0;
    for (name, text) in texts() {
        let Some(place) = text.find("def @main(%") else {
            continue;
        };
        let from = place + "def @main(".len();
        let Some(colon) = text[from..].find([':', ',', ')']) else {
            continue;
        };
        let at = from + colon;
        let marked = format!(
            "{} {{virtual_device={DEVICE}}}{}",
            &text[..at].trim_end(),
            &text[at..]
        );
        let (_, found) = read(&name, text.clone().into_bytes(), TextOptions::default());
        if found.has_errors() {
            continue;
        }
        count += 1;
        let (module, found) = read(&name, marked.into_bytes(), TextOptions::default());
        assert!(!found.has_errors(), "{name}: {found:?}");
        let style = relax::Style::Pretty;
        let printed = relax::print(&module, style, None);
        assert!(printed.contains(DEVICE), "{name}:\n{printed}");
        let (again, found) = read(&name, printed.clone().into_bytes(), TextOptions::default());
        assert!(!found.has_errors(), "{name}: {found:?}\n{printed}");
        let changed = difference(&module, &again, EqualOptions::default());
        assert!(changed.is_none(), "{name}: {changed:?}");
    }
    assert!(count > 30, "only {count} texts have the form");
}

/// What quotations, tests, listings and web pages put around a text is recognised automatically.
#[test]
fn pasted() {
    type Paste = fn(&str) -> String;
    let forms: [Paste; 5] = [
        |text| led(text, |_| "E       ".to_owned()),
        |text| led(text, |_| "> ".to_owned()),
        |text| led(text, |i| format!("{:5} | ", i + 1)),
        |text| format!("It says:\n\n```\n{}\n```\n\nand stops.\n", text.trim()),
        |text| {
            let marks = [
                ('&', "&amp;"),
                ('<', "&lt;"),
                ('>', "&gt;"),
                ('"', "&quot;"),
            ];
            marks
                .iter()
                .fold(text.to_owned(), |t, m| t.replace(m.0, m.1))
        },
    ];
    for form in forms {
        let pasted = |text: &str| {
            let begins = ["#[version", "def @", "fn (%"];
            let first = text.trim_start();
            let known = begins.iter().any(|b| first.starts_with(b));
            // A multi-line comment would contain the prefixes.
            let plain = known && !text.contains("/*\n") && form(text) != text;
            plain.then(|| form(text).into_bytes())
        };
        let options = TextOptions {
            pasted: true,
            ..TextOptions::default()
        };
        same(pasted, options);
    }
}

/// Adds a prefix to each line of a text.
fn led(text: &str, lead: fn(usize) -> String) -> String {
    let lines = text.trim_start().lines().enumerate();
    lines
        .map(|(i, line)| format!("{}{line}\n", lead(i)))
        .collect()
}
