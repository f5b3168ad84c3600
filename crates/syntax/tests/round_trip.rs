//! What is printed reads back as what was printed, in both styles and at any width.

mod common;

use common::{TEXTS, comments, file, good, printed, tokens};
use proptest::prelude::*;
use relax_syntax::{FmtOptions, Style, Tok, format_source, parse};

#[test]
fn tvm_text_prints_as_it_was() {
    let text = include_str!("texts/tvm.relay");
    let without_types: String = text
        .replace(" /* ty=int32 */", "")
        .replace(" /* ty=Tensor[(1), float32] */", "");
    assert_eq!(printed(text, Style::Tvm, 100), without_types);
}

#[test]
fn printing_twice_changes_nothing() {
    for text in TEXTS {
        for style in [Style::Tvm, Style::Pretty] {
            for width in [20, 60, 100] {
                let once = printed(text, style, width);
                assert_eq!(printed(&once, style, width), once, "{style:?} {width}");
            }
        }
    }
}

#[test]
fn printing_keeps_the_tokens() {
    for text in TEXTS {
        let once = printed(text, Style::Pretty, 80);
        let other = printed(&once, Style::Pretty, 30);
        assert_eq!(tokens(&once), tokens(&other));
    }
}

fn formatted(text: &str, width: usize) -> String {
    let options = FmtOptions {
        width,
        upgrade: false,
    };
    format_source(&file(text), &options).unwrap_or_else(|d| {
        let messages: Vec<_> = d.iter().map(|d| d.message.as_str()).collect();
        panic!("{messages:?} in\n{text}")
    })
}

fn check_format(text: &str, width: usize) {
    let once = formatted(text, width);
    assert_eq!(tokens(text), tokens(&once), "tokens of\n{text}");
    assert_eq!(
        comments(text),
        comments(&once),
        "comments of\n{text}\n---\n{once}"
    );
    assert_eq!(formatted(&once, width), once, "the second time, of\n{text}");
}

#[test]
fn formatting_keeps_tokens_and_comments() {
    for text in TEXTS {
        for width in [1, 20, 60, 100, 1000] {
            check_format(text, width);
        }
    }
}

/// A statement of many elements is laid out in parts: each element comes out as it does among few.
#[test]
fn long_lists_are_laid_out_like_short_ones() {
    let element = |i: usize| match i % 9 {
        0 => format!("g({})", vec!["%value"; 2 + i % 40].join(", ")),
        1 => format!("%a{i} + %b{i} * h(%c{i})"),
        2 => format!("\n\n  // before\n  %x{i}"),
        3 => format!("%x{i} // behind"),
        4 => format!("/* of two\n lines */ (%x{i}, g(%y, %z))"),
        5 => format!("fn (%p{i}: int32) {{ k(%p{i}, %p{i}) }}"),
        6 => format!("n(axis={i}, name=\"\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\")"),
        7 => format!("m(\n// inside\n{i}, (%q, ), [1, 2, {i}])"),
        _ => "%x".to_string(),
    };
    let statement = |from: usize, to: usize, around: &str| {
        let elements: Vec<String> = (from..to).map(|i| element(i) + "\n").collect();
        let list = elements.join(", ");
        let value = match around {
            "" => format!("f({list})"),
            _ => format!("{around}(1, 2, f({list}), 3)"),
        };
        format!("def @main() {{\n  let %y = {value};\n  %y\n}}\n")
    };
    for (width, around) in [(20, ""), (61, "outer"), (100, ""), (100, "outer")] {
        let inside = |from: usize, to: usize| {
            let text = formatted(&statement(from, to, around), width);
            let lines: Vec<String> = text.lines().map(String::from).collect();
            let begin = lines
                .iter()
                .position(|l| l.ends_with("f("))
                .expect("it is broken");
            // What closes the lists, what stands behind them, the last statement, and the braces.
            let end = lines.len() - if around.is_empty() { 3 } else { 5 };
            lines[begin + 1..end].to_vec()
        };
        let parts = (0..3600).step_by(45).flat_map(|i| inside(i, i + 45));
        let (whole, parts) = (inside(0, 3600), parts.collect::<Vec<_>>());
        for (whole, part) in whole.iter().zip(&parts) {
            assert_eq!(whole, part, "at {width}");
        }
        assert_eq!(whole.len(), parts.len());
        check_format(&statement(0, 3600, around), width);
    }
}

#[test]
fn regions_that_are_switched_off_stay() {
    let text = "def @f() {\n  // fmt: off\n  let %a   = 1;\n     %a\n  // fmt: on\n}\n";
    assert_eq!(formatted(text, 100), text);
    let text = "// fmt: off\ndef   @f( ) {  1 }\n// fmt: on\ndef   @g( ) {  1 }\n";
    let want = "// fmt: off\ndef   @f( ) {  1 }\n// fmt: on\n\ndef @g() {\n  1\n}\n";
    let once = formatted(text, 100);
    assert_eq!(tokens(&once), tokens(want));
    assert!(once.contains("def   @f( ) {  1 }\n"));
    assert_eq!(formatted(&once, 100), once);
}

#[test]
fn upgrading_writes_tvms_spellings() {
    let text = "data List<a> { Nil : () -> List # none\n Cons : (a, List[a]) -> List }\n\
                def @f<t : Type>(%x : t) { match(%x) { case Nil() { 1 } case Cons(%h, _) { %h } } }\n";
    let options = FmtOptions {
        width: 100,
        upgrade: true,
    };
    let done = format_source(&file(text), &options).expect("a good text");
    let want = "type List[a] {\n  Nil, // none\n  Cons(a, List[a]),\n}\n\n\
                def @f[t: Type](%x: t) {\n  match (%x) {\n    Nil() => { 1 },\n    \
                Cons(%h, _) => { %h },\n  }\n}\n";
    assert_eq!(done, want);
}

#[test]
fn depth_is_data() {
    let n = 20_000;
    let nested = |open: &str, leaf: &str, close: &str| {
        format!("{}{leaf}{}", open.repeat(n), close.repeat(n))
    };
    for text in [
        format!("def @f(%x: int32) {{ {} }}", nested("(", "%x", ")")),
        format!("def @f(%x: {}) {{ %x }}", nested("(", "int32", ",)")),
        format!("def @f(%x: int32) {{ {} }}", nested("g(", "%x", ")")),
        format!(
            "def @f(%x: int32) {{ {} }}",
            nested("fn () { (", "%x", ") }")
        ),
        format!("def @f(%x: int32) {{ {}%x }}", "%x + ".repeat(n)),
        format!("def @f(%x: int32) {{ {}%x }}", "let %x = f(%x); ".repeat(n)),
        format!(
            "def @f(%x: int32) {{ match (%x) {{ {} => 1 }} }}",
            nested("A(", "_", ")")
        ),
        format!(
            "def @f(%x: bool) {{ {}{{ %x }} }}",
            "if (%x) { %x } else ".repeat(n)
        ),
    ] {
        let tree = good(&text);
        let shown = relax_syntax::print(&tree.ast, &relax_syntax::PrintOptions::default());
        assert!(parse(&file(&shown)).diagnostics.is_empty());
        assert_eq!(tokens(&formatted(&text, 100)), tokens(&text));
    }
}

/// A text with comments put in between its tokens.
fn commented() -> impl Strategy<Value = String> {
    let picks = prop::collection::vec((any::<prop::sample::Index>(), 0..5usize), 0..12);
    // As it stands, or over many lines: with commas after the last elements.
    let widths = prop::sample::select(vec![None, Some(1), Some(40)]);
    (0..TEXTS.len(), widths, picks).prop_map(|(which, width, picks)| {
        let text = TEXTS[which].replace("// fmt: off", "// off");
        let text = width.map_or_else(|| text.clone(), |width| formatted(&text, width));
        let file = file(&text);
        let tokens = relax_syntax::lex(&file).tokens;
        let mut places: Vec<(usize, usize)> = picks
            .iter()
            .map(|(i, kind)| (i.index(tokens.len()), *kind))
            .collect();
        places.sort_unstable();
        let mut out = String::new();
        let mut at = 0;
        for (n, (i, kind)) in places.into_iter().enumerate() {
            // Type arguments begin directly behind the name.
            if tokens[i].tok == Tok::Lt {
                continue;
            }
            // Behind `//` and its operand, what is a comment depends on the line.
            if tokens[i.saturating_sub(2)..i]
                .iter()
                .any(|t| t.tok == Tok::SlashSlash)
            {
                continue;
            }
            let pos = (tokens[i].start - file.start) as usize;
            out.push_str(&text[at..pos]);
            at = pos;
            match kind {
                0 => out.push_str(&format!("/* c{n} */")),
                1 => out.push_str(&format!(" // c{n}\n")),
                2 => out.push_str(&format!("\n// c{n}\n")),
                3 => out.push_str(&format!("\n\n/* c{n} */\n\n")),
                _ => out.push_str(&format!("\n/* c{n}\n   more */ ")),
            }
        }
        out.push_str(&text[at..]);
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn comments_survive(text in commented(), width in prop::sample::select(vec![1usize, 40, 100])) {
        check_format(&text, width);
    }

    #[test]
    fn any_characters_are_accepted(text in prop::collection::vec(
        prop_oneof![20 => prop::char::range(' ', '~'), 1 => Just('\n'), 1 => Just('\t'), 1 => Just('\u{e9}'), 1 => Just('\0')],
        0..200,
    ).prop_map(String::from_iter)) {
        let _ = parse(&file(&text));
    }

    #[test]
    fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let decoded = relax_syntax::decode(bytes);
        let _ = parse(&file(&decoded.text));
    }

    /// Truncated and shuffled programs: an answer, and an error wherever tokens were unreadable.
    #[test]
    fn damaged_programs_are_accepted(
        which in 0..TEXTS.len(),
        cut in any::<prop::sample::Index>(),
        swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..6),
    ) {
        let source = file(TEXTS[which]);
        let mut words: Vec<&str> = relax_syntax::lex(&source)
            .tokens
            .iter()
            .map(|t| source.slice(t.span()))
            .collect();
        for (a, b) in swaps {
            let (a, b) = (a.index(words.len()), b.index(words.len()));
            words.swap(a, b);
        }
        words.truncate(cut.index(words.len()));
        let text = words.join(" ");
        let parsed = parse(&file(&text));
        if !parsed.diagnostics.has_errors() {
            let options = relax_syntax::PrintOptions::default();
            let shown = relax_syntax::print(&parsed.ast, &options);
            prop_assert!(!parse(&file(&shown)).diagnostics.has_errors(), "{}\n---\n{}", text, shown);
        }
    }
}
