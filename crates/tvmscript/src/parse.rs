//! Text to tree: each logical line is parsed by the grammar, blocks follow from the indentation.

use lalrpop_util::{ParseError, lalrpop_mod};
use relax_base::{Diagnostic, SourceFile, Span};

use crate::ast::{Ast, Node, NodeId, Stmt, StmtKind};
use crate::build::Builder;
use crate::codes;
use crate::lines::{Line, Lines, Token};
use crate::token::{self, Tok};

lalrpop_mod!(
    #[allow(clippy::all, clippy::pedantic, missing_docs, unused)]
    grammar,
    "/tvmscript.rs"
);

/// The maximum length of a type that is recorded by its text.
const LONGEST_TYPE: usize = 200;

/// The result of parsing a text.
#[derive(Debug)]
pub struct Parsed {
    /// The tree; erroneous lines are [`StmtKind::Bad`].
    pub ast: Ast,
    /// The errors.
    pub diagnostics: Vec<Diagnostic>,
}

/// An open block: the statement at its head, if any.
struct Open {
    head: Option<usize>,
}

/// Parses a text. Any bytes are accepted; errors are reported, independently for each line.
pub fn parse(file: &SourceFile) -> Parsed {
    let mut lines = Lines::new(file);
    let mut line = Line::default();
    let mut builder = Builder::default();
    let parser = grammar::LineParser::new();
    let mut blocks: Vec<Open> = vec![Open { head: None }];
    // The head of a block that must begin with the next line.
    let mut expected: Option<usize> = None;
    while lines.next(&mut line) {
        for _ in 0..line.dedents {
            close(&mut builder.ast, &mut blocks);
        }
        let place = place(&line);
        match (line.indent, expected.take()) {
            (true, Some(head)) => blocks.push(Open { head: Some(head) }),
            (true, None) => {
                lines.forget_indent();
                // The following lines may have the same indentation: they are compared with the
                // enclosing block.
                let last_bad = builder
                    .ast
                    .stmts
                    .last()
                    .is_some_and(|s| s.kind == StmtKind::Bad);
                if !last_bad {
                    let message =
                        "the line is deeper than the one before it, and no block begins here";
                    let d = Diagnostic::error(codes::INDENTATION, place.at_start(), message)
                        .note("a block begins after a line that ends in `:`");
                    lines.diagnostics.push(d);
                }
            }
            (false, Some(head)) => missing_block(&builder.ast.stmts[head], &mut lines.diagnostics),
            (false, None) => {}
        }
        if blocks.len() == 1 && !line.bad && imports(file, &line) {
            continue;
        }
        let first_stmt = builder.ast.stmts.len();
        builder.begin(place);
        builder.same = line.same;
        let done = !line.bad && {
            let end = place.end;
            line.tokens.push((end, Tok::End, end));
            let tokens = line.tokens.iter().copied();
            match parser.parse(&mut builder, tokens) {
                Ok(()) => {
                    if let Some(ty) = builder.typed
                        && closed(file, &builder.ast, builder.first, ty)
                        && lines.remember(builder.ast.span(ty), ty)
                    {
                        builder.ast.shared.push(ty);
                    }
                    true
                }
                Err(e) => {
                    lines.diagnostics.push(unexpected(file, &line.tokens, e));
                    false
                }
            }
        };
        if !done {
            builder.ast.stmts.truncate(first_stmt);
            builder.opens = false;
            bad(&mut builder, place);
            // An erroneous head still opens a block, so that its contents are read as well.
            let mut tokens = line.tokens.iter().filter(|t| t.1 != Tok::End);
            let head = |t: &Token| {
                matches!(
                    t.1,
                    Tok::Class
                        | Tok::Def
                        | Tok::With
                        | Tok::For
                        | Tok::While
                        | Tok::If
                        | Tok::Elif
                        | Tok::Else
                )
            };
            builder.opens = line.tokens.first().is_some_and(head)
                || tokens.next_back().is_some_and(|t| t.1 == Tok::Colon);
        }
        if builder.opens {
            expected = Some(first_stmt);
        }
    }
    if let Some(head) = expected {
        missing_block(&builder.ast.stmts[head], &mut lines.diagnostics);
    }
    while blocks.len() > 1 {
        close(&mut builder.ast, &mut blocks);
    }
    Parsed {
        ast: builder.ast,
        diagnostics: lines.diagnostics,
    }
}

/// Returns whether the line is an import, as in hand-written files: `I`, `R`, `T` and `tvm` are
/// predefined.
fn imports(file: &SourceFile, line: &Line) -> bool {
    line.tokens.first().is_some_and(|t| {
        t.1 == Tok::Reserved && matches!(file.slice(Span::new(t.0, t.2)), "import" | "from")
    })
}

/// Returns whether a type depends on nothing but its text: it mentions no dimension variables. Its
/// nodes begin at `first`.
fn closed(file: &SourceFile, ast: &Ast, first: u32, ty: NodeId) -> bool {
    let text = file.slice(ast.span(ty));
    let plain = |i: usize| match ast.nodes[i] {
        Node::Path => file.slice(ast.spans[i]).starts_with("R."),
        Node::Str => {
            let text = file.slice(ast.spans[i]);
            let name = text.trim_matches(['"', '\'']);
            name.parse::<relax_tensor::DType>().is_ok()
        }
        node => matches!(
            node,
            Node::Int
                | Node::Bool(_)
                | Node::None
                | Node::Tuple(_)
                | Node::List(_)
                | Node::Call(..)
        ),
    };
    // The first node is the annotated name.
    matches!(ast.node(ty), Node::Call(..))
        && text.len() <= LONGEST_TYPE
        && !text.contains(['\n', '\r'])
        && (first as usize + 1..=ty.0 as usize).all(plain)
}

fn bad(builder: &mut Builder, span: Span) {
    let n = builder.ast.nodes.len() as u32;
    builder.ast.stmts.push(Stmt {
        kind: StmtKind::Bad,
        span,
        end: builder.ast.stmts.len() as u32 + 1,
        nodes: (n, n),
    });
}

fn place(line: &Line) -> Span {
    match (line.tokens.first(), line.tokens.last()) {
        (Some(a), Some(b)) => Span::new(a.0, b.2),
        _ => Span::NONE,
    }
}

fn close(ast: &mut Ast, blocks: &mut Vec<Open>) {
    if blocks.len() > 1
        && let Some(open) = blocks.pop()
        && let Some(head) = open.head
    {
        ast.stmts[head].end = ast.stmts.len() as u32;
    }
}

fn missing_block(head: &Stmt, out: &mut Vec<Diagnostic>) {
    if head.kind == StmtKind::Bad {
        return;
    }
    let message = "a block has to follow, deeper than this line";
    out.push(
        Diagnostic::error(codes::INDENTATION, head.span, message)
            .note("`pass` stands for a block that does nothing"),
    );
}

/// Parses an expression that is written as a string: `R.Tensor(("n - 1", 4))`. Its nodes are added
/// to the tree; `at` is the start of the string's content.
pub(crate) fn expression(ast: &mut Ast, text: &str, at: u32) -> Option<NodeId> {
    use logos::Logos;
    let mut tokens = Vec::new();
    let mut lexer = Tok::lexer(text);
    while let Some((tok, range)) = token::next(&mut lexer) {
        let tok = tok.filter(|t| !matches!(t, Tok::OpenStr | Tok::Newline))?;
        tokens.push((at + range.start as u32, tok, at + range.end as u32));
    }
    let end = at + text.len() as u32;
    tokens.push((end, Tok::End, end));
    let mut builder = Builder {
        ast: std::mem::take(ast),
        ..Builder::default()
    };
    let before = builder.ast.stmts.len();
    let parsed = grammar::LineParser::new().parse(&mut builder, tokens);
    *ast = builder.ast;
    // A line that is an expression is a statement, which has no place among the text's.
    let found = match ast.stmts.drain(before..).next() {
        Some(Stmt {
            kind: StmtKind::Expr(e),
            ..
        }) => Some(e),
        _ => None,
    };
    parsed.ok().and(found)
}

fn unexpected(file: &SourceFile, tokens: &[Token], error: ParseError<u32, Tok, ()>) -> Diagnostic {
    let (token, expected) = match error {
        ParseError::UnrecognizedToken { token, expected } => (token, expected),
        ParseError::ExtraToken { token } => (token, Vec::new()),
        _ => {
            let span = tokens.first().map_or(Span::NONE, |t| Span::new(t.0, t.2));
            return Diagnostic::error(codes::SYNTAX, span, "this is no statement");
        }
    };
    let (start, tok, end) = token;
    let span = Span::new(start, end);
    let python =
        tokens.first().is_some_and(|t| matches!(t.1, Tok::Reserved)) || tok == Tok::Reserved;
    if python {
        let word = tokens
            .iter()
            .find(|t| t.1 == Tok::Reserved)
            .unwrap_or(&token);
        let span = Span::new(word.0, word.2);
        let text = file.slice(span);
        let message = format!("`{text}` is a word of Python that TVMScript has no use for");
        let mut d = Diagnostic::error(codes::PYTHON, span, message);
        if text == "import" || text == "from" {
            d = d.note(
                "a file may import between its items; `I`, `R`, `T` and `tvm` are known without",
            );
        } else {
            d = d.note("it cannot be a name either");
        }
        return d;
    }
    let message = match tok {
        Tok::End => "the line ends too early".to_owned(),
        Tok::Name | Tok::Path | Tok::Int | Tok::Float | Tok::Str => {
            format!(
                "unexpected {} `{}`",
                tok.describe().trim_start_matches("a "),
                short(file.slice(span))
            )
        }
        _ => format!("unexpected {}", tok.describe()),
    };
    let mut d = Diagnostic::error(codes::SYNTAX, span, message);
    let has = |what: &str| expected.iter().any(|e| e.trim_matches('"') == what);
    let previous = tokens.iter().take_while(|t| t.0 < start).last();
    if has(":") && tok == Tok::End && heads(tokens) {
        let at = previous.map_or(span, |t| Span::new(t.2, t.2));
        return Diagnostic::error(codes::SYNTAX, at, "`:` is missing before the block").fix(
            "insert `:`",
            at,
            ":",
        );
    }
    if let Some(previous) = previous.filter(|t| keyword(t.1) && !has_only(&expected, "name")) {
        let word = file.slice(Span::new(previous.0, previous.2));
        d = d.note(format!("`{word}` is a word of Python and cannot be a name"));
    } else if keyword(tok) && has("name") {
        d = d.note(format!(
            "{} is a word of Python and cannot be a name",
            tok.describe()
        ));
    } else if tok == Tok::Assign {
        d = d.note("`a = b = c` and `=` inside of expressions are not read; `==` compares");
    } else if has(",") && has(")") && starts_value(tok) {
        let at = previous.map_or(span, |t| Span::new(t.2, t.2));
        d = d.suggest("insert `,`", at, ",");
    }
    d
}

fn has_only(expected: &[String], what: &str) -> bool {
    expected.len() == 1 && expected[0].trim_matches('"') == what
}

fn short(text: &str) -> &str {
    match text.char_indices().nth(30) {
        Some((i, _)) => &text[..i],
        None => text,
    }
}

fn heads(tokens: &[Token]) -> bool {
    use Tok::{Class, Def, Elif, Else, For, If, While, With};
    tokens
        .first()
        .is_some_and(|t| matches!(t.1, Class | Def | With | For | While | If | Elif | Else))
}

fn keyword(tok: Tok) -> bool {
    use Tok::{
        And, Assert, Class, Def, Elif, Else, False, For, If, In, Lambda, None, Not, Or, Pass,
        Return, True, While, With,
    };
    matches!(
        tok,
        Class
            | Def
            | With
            | For
            | In
            | While
            | If
            | Elif
            | Else
            | Return
            | Assert
            | Pass
            | And
            | Or
            | Not
            | Lambda
            | True
            | False
            | None
    )
}

fn starts_value(tok: Tok) -> bool {
    matches!(
        tok,
        Tok::Name | Tok::Path | Tok::Int | Tok::Float | Tok::Str
    )
}
