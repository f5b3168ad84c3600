//! `editors/vscode/syntaxes/relay.tmLanguage.json`, `editors/sublime/relay.sublime-syntax` and
//! `editors/vim/syntax/relay.vim` are generated from the lexer's token table:
//! `RELAX_BLESS=1 cargo test -p relax-lsp --test editor_grammars` regenerates them, otherwise they
//! must be up to date.

use std::path::Path;

use relax_base::SourceMap;
use relax_syntax::{HighlightClass, TOKENS, TokenInfo};
use serde_json::{Value, json};

/// The text that follows a contextual keyword.
const SOFT: &[(&str, &str)] = &[
    ("data", r"\s+[A-Za-z_]"),
    ("rel", r"\s+[A-Za-z_]"),
    ("op", r"\s+[A-Za-z_]"),
    ("grad", r"\s+[A-Za-z_]"),
    ("prim_func", r"\s+@"),
    ("where", r"\s+[A-Za-z_]"),
    ("case", r"\s+[A-Za-z_%(]"),
    ("shape", r"\s*\("),
    ("match_shape", r"\s*\("),
    ("match_cast", r"\s*\("),
    ("dataflow", r"\s*\{"),
    ("for", r"\s+%"),
    ("while", r"\s+\("),
    ("in", r"\s"),
    ("alloc", r"\s+%"),
    ("init", r"\s*\{"),
    ("kernel", r"\s+[A-Za-z_]+\s*\{"),
    ("compute", r"\s"),
];

/// Returns the unconditional keywords of the token table, and the contextual ones.
fn keywords() -> (Vec<&'static str>, Vec<(&'static str, &'static str)>) {
    let (mut hard, mut soft) = (Vec::new(), Vec::new());
    for t in TOKENS
        .iter()
        .filter(|t| t.class == HighlightClass::Keyword && !t.example.is_empty())
    {
        let mut map = SourceMap::new();
        let file = map.add("", t.example).expect("short");
        let lexed = relax_syntax::lex(&file);
        if matches!(&lexed.tokens[..], [one] if one.tok == t.tok) {
            hard.push(t.example);
        } else {
            let known = SOFT.iter().find(|s| s.0 == t.example);
            soft.push(*known.unwrap_or_else(|| panic!("say in SOFT what follows `{}`", t.example)));
        }
    }
    (hard, soft)
}

fn of(class: HighlightClass) -> impl Iterator<Item = &'static TokenInfo> {
    TOKENS.iter().filter(move |t| t.class == class)
}

fn escape(text: &str) -> String {
    let special = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    text.chars()
        .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

/// Returns the operators, longest first.
fn operators() -> Vec<&'static str> {
    let mut all: Vec<_> = of(HighlightClass::Operator).map(|t| t.example).collect();
    all.sort_by_key(|o| (std::cmp::Reverse(o.len()), *o));
    all.dedup();
    // Whether `//` is a division depends on the context; a line-based grammar takes it as a
    // comment.
    all.retain(|o| *o != "//");
    all
}

const NAME: &str =
    r"[A-Za-z_][A-Za-z0-9_]*(?:/[A-Za-z0-9_]+)*(?:\.[A-Za-z_][A-Za-z0-9_]*(?:/[A-Za-z0-9_]+)*)*";
const DTYPES: &str = r"bool|u?int[0-9]*|float[0-9]*|bfloat16";

fn textmate() -> String {
    let (hard, soft) = keywords();
    let words: Vec<String> = hard.iter().map(|w| escape(w)).collect();
    let mut patterns = vec![
        json!({ "include": "#comment" }),
        json!({ "name": "keyword.control.version.relay", "match": r"#\s*\[\s*version[^\]\n]*\]" }),
        json!({
            "begin": r"#\s*\[\s*metadata\s*\]", "end": r"\z",
            "beginCaptures": { "0": { "name": "keyword.control.metadata.relay" } },
            "patterns": [{ "include": "source.json" }],
        }),
        json!({ "name": "constant.other.meta.relay", "match": r"\bmeta\s*\[[^\]\n]*\]\s*\[\s*\d*\s*\]" }),
        json!({
            "name": "string.quoted.double.relay", "begin": "\"", "end": "\"",
            "patterns": [{ "name": "constant.character.escape.relay", "match": r"\\." }],
        }),
        json!({ "name": "string.quoted.single.relay", "match": r"'[^'\n]*'" }),
        json!({ "name": "entity.name.function.relay", "match": r"@[A-Za-z_][A-Za-z0-9_]*(?:[/.][A-Za-z0-9_]+)*" }),
        json!({
            "name": "variable.other.relay",
            "match": r"%[A-Za-z_][A-Za-z0-9_]*(?:/[A-Za-z0-9_]+)*(?:(?:\.[0-9]+)*\.[A-Za-z_][A-Za-z0-9_]*)*",
        }),
        json!({ "name": "variable.language.graph.relay", "match": r"%[0-9]+" }),
        json!({
            "name": "variable.parameter.attribute.relay",
            "match": format!(r"\b{NAME}(?=\s*=(?![=>]))"),
        }),
        json!({
            "name": "keyword.control.relay",
            "match": format!(r"(?<![\w.])(?:{})(?![\w.])", words.join("|")),
        }),
    ];
    for (word, after) in soft {
        let pattern = format!(r"(?<![\w.]){word}(?={after})");
        patterns.push(json!({ "name": "keyword.control.relay", "match": pattern }));
    }
    let constants: Vec<_> = of(HighlightClass::Constant)
        .map(|t| escape(t.example))
        .collect();
    let constants: Vec<_> = constants
        .iter()
        .filter(|c| !c.starts_with('\\'))
        .cloned()
        .collect();
    let operators: Vec<String> = operators().iter().map(|o| escape(o)).collect();
    patterns.extend([
        json!({
            "name": "constant.language.relay",
            "match": format!(r"\b(?:{}|(?:inf|nan)(?:f(?:16|64)?|bf16)?)\b|\?", constants.join("|")),
        }),
        json!({ "name": "support.type.relay", "match": format!(r"\b(?:Tensor|Shape|Buffer|Object|{DTYPES})\b") }),
        json!({
            "name": "constant.numeric.relay",
            "match": r"\b[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?(?:f[0-9]*|bf16|[iu][0-9]+)?\b|(?<=[\w)])\.[0-9]+",
        }),
        json!({ "name": "entity.name.type.relay", "match": r"\b[A-Z][A-Za-z0-9_]*\b" }),
        json!({ "name": "support.function.relay", "match": format!(r"\b{NAME}(?=\s*\()") }),
        json!({ "name": "keyword.operator.relay", "match": operators.join("|") }),
        json!({ "name": "punctuation.separator.relay", "match": "[,;:]" }),
    ]);
    let grammar = json!({
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "comment": "Made from the lexer's token table by crates/lsp/tests/editor_grammars.rs.",
        "name": "Relay",
        "scopeName": "source.relay",
        "fileTypes": ["relay"],
        "patterns": patterns,
        "repository": { "comment": { "patterns": [
            {
                "name": "comment.block.relay", "begin": r"/\*", "end": r"\*/",
                "patterns": [{ "include": "#nested" }],
            },
            { "name": "comment.line.double-slash.relay", "match": "//.*$" },
            { "name": "comment.line.number-sign.relay", "match": r"#(?!\s*\[\s*(?:version|metadata)).*$" },
        ] }, "nested": {
            "begin": r"/\*", "end": r"\*/", "patterns": [{ "include": "#nested" }],
        } },
    });
    let grammar: Value = grammar;
    serde_json::to_string_pretty(&grammar).expect("it is JSON") + "\n"
}

/// Returns the same patterns in the format of Sublime Text and bat.
fn sublime() -> String {
    let grammar: Value = serde_json::from_str(&textmate()).expect("it is JSON");
    let quote = |v: &Value| format!("'{}'", v.as_str().unwrap_or_default().replace('\'', "''"));
    let mut out = String::from(
        "%YAML 1.2\n---\n# Made from the lexer's token table by crates/lsp/tests/editor_grammars.rs.\n\
         name: Relay\nfile_extensions: [relay]\nscope: source.relay\ncontexts:\n  main:\n",
    );
    let lists = [
        &grammar["repository"]["comment"]["patterns"],
        &grammar["patterns"],
    ];
    for p in lists
        .into_iter()
        .flat_map(|l| l.as_array().into_iter().flatten())
    {
        if p["match"].is_string() {
            let (found, scope) = (quote(&p["match"]), quote(&p["name"]));
            out.push_str(&format!("    - match: {found}\n      scope: {scope}\n"));
        } else if p["begin"].is_string() {
            let scope = match p["name"].is_string() {
                true => quote(&p["name"]),
                false => quote(&p["beginCaptures"]["0"]["name"]),
            };
            out.push_str(&format!(
                "    - match: {}\n      scope: {scope}\n",
                quote(&p["begin"])
            ));
            let inner = if p["begin"] == "\"" {
                "string"
            } else if p["end"] == r"\z" {
                "metadata"
            } else {
                "comment"
            };
            out.push_str(&format!("      push: {inner}\n"));
        }
    }
    out.push_str(
        r#"  comment:
    - meta_scope: comment.block.relay
    - match: '/\*'
      push: comment
    - match: '\*/'
      pop: true
  string:
    - meta_scope: string.quoted.double.relay
    - match: '\\.'
      scope: constant.character.escape.relay
    - match: '"|$'
      pop: true
  metadata:
    - include: scope:source.json
"#,
    );
    out
}

fn vim() -> String {
    let (hard, soft) = keywords();
    let words = |list: &[&str]| list.join(" ");
    let plain: Vec<_> = hard
        .iter()
        .copied()
        .filter(|w| w.chars().all(|c| c.is_ascii_alphabetic() || c == '_'))
        .collect();
    let plain: Vec<_> = plain.into_iter().filter(|w| *w != "_").collect();
    let mut out = String::from(
        "\" Vim syntax of Relay and Relax texts, for those without tree-sitter.\n\
         \" Made from the lexer's token table by crates/lsp/tests/editor_grammars.rs.\n\n\
         if exists('b:current_syntax')\n  finish\nendif\n\n\
         syntax case match\nsyntax iskeyword @,48-57,_\n\n",
    );
    out.push_str(&format!("syntax keyword relayKeyword {}\n", words(&plain)));
    let soft: Vec<_> = soft.iter().map(|s| s.0).collect();
    out.push_str(&format!(
        "syntax keyword relaySoftKeyword {}\n",
        words(&soft)
    ));
    let constants: Vec<_> = of(HighlightClass::Constant)
        .map(|t| t.example)
        .filter(|e| e.len() > 1)
        .collect();
    out.push_str(&format!(
        "syntax keyword relayConstant {} None\n",
        words(&constants)
    ));
    out.push_str(
        r#"syntax keyword relayType Tensor Shape Buffer Object bool bfloat16
syntax match relayType /\<u\?int\d*\>/
syntax match relayType /\<float\d*\>/
syntax match relayConstructor /\<\u\w*\>/
syntax match relayNumber /\<\d\+\(\.\d*\)\?\([eE][+-]\?\d\+\)\?\(f\d*\|bf16\|[iu]\d\+\)\?\>/
syntax match relayNumber /\<\(inf\|nan\)\(f\(16\|64\)\?\|bf16\)\?\>/
syntax match relayOperator /\<\h\w*\(\/\w\+\)*\(\.\h\w*\(\/\w\+\)*\)*\ze\s*(/ contains=relayKeyword,relaySoftKeyword
syntax match relayAttribute /\<\h\w*\ze\s*=\([^=>]\|$\)/
syntax match relaySymbol /"#,
    );
    let list: Vec<String> = operators()
        .iter()
        .map(|o| o.replace('/', r"\/").replace('*', r"\*"))
        .collect();
    out.push_str(&list.join(r"\|"));
    out.push_str(
        // If two start at the same position, the later one takes precedence.
        r#"/
syntax match relayLocal /%\h\w*\(\/\w\+\)*\(\(\.\d\+\)*\.\h\w*\)*/
syntax match relayGraph /%\d\+/
syntax match relayGlobal /@\h\w*\([\/.]\w\+\)*/
syntax match relayMeta /\<meta\s*\[[^]]*\]\s*\[\s*\d*\s*\]/
syntax match relayMeta /#\s*\[\s*version[^]]*\]/
syntax region relayMetadata start=/#\s*\[\s*metadata\s*\]/ end=/\%$/ fold
syntax region relayString start=/"/ skip=/\\./ end=/"/
syntax region relayString start=/'/ end=/'/ oneline
syntax match relayComment /\/\/.*$/ contains=@Spell
syntax match relayComment /#\(\s*\[\s*\(version\|metadata\)\)\@!.*$/ contains=@Spell
syntax region relayComment start=/\/\*/ end=/\*\// contains=relayComment,@Spell fold
syntax region relayBlock start=/{/ end=/}/ transparent fold

highlight default link relayKeyword Keyword
highlight default link relaySoftKeyword Keyword
highlight default link relayConstant Constant
highlight default link relayType Type
highlight default link relayConstructor Structure
highlight default link relayNumber Number
highlight default link relayOperator Function
highlight default link relayAttribute Label
highlight default link relayLocal Identifier
highlight default link relayGraph Identifier
highlight default link relayGlobal Function
highlight default link relaySymbol Operator
highlight default link relayMeta PreProc
highlight default link relayMetadata PreProc
highlight default link relayString String
highlight default link relayComment Comment

syntax sync minlines=200
let b:current_syntax = 'relay'
"#,
    );
    out
}

fn current(path: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(&path, wanted).expect("it can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{} is not current; run this test with RELAX_BLESS=1",
        path.display()
    );
}

#[test]
fn the_textmate_grammar_is_current() {
    current("editors/vscode/syntaxes/relay.tmLanguage.json", &textmate());
}

#[test]
fn the_sublime_syntax_is_current() {
    current("editors/sublime/relay.sublime-syntax", &sublime());
}

#[test]
fn the_vim_syntax_is_current() {
    current("editors/vim/syntax/relay.vim", &vim());
}
