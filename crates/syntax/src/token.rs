//! The tokens of the text format.

use std::ops::Range;

use logos::Logos;
use relax_base::name_end;

/// State that decides how ambiguous characters are lexed.
#[derive(Clone, Copy, Default, Debug)]
pub struct LexState {
    /// Whether `//` here is floor division and not a comment.
    pub floor_div: bool,
    /// Whether a block comment or string is not terminated before the end of the file.
    pub unclosed: bool,
    /// Whether the last name is a word with a special meaning in some contexts.
    pub word: bool,
    /// Whether the last name has characters beyond ASCII.
    beyond_ascii: bool,
}

/// The kinds of tokens. The second half never comes from the lexer: the layer between lexer and
/// parser creates these from names and punctuation where the context determines their kind.
#[derive(Logos, Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[logos(extras = LexState)]
// How a name begins and goes on; with any characters beyond ASCII, of which `next` keeps the letters.
#[logos(subpattern s = r"[A-Za-z_]")]
#[logos(subpattern c = r"[A-Za-z0-9_]")]
#[logos(subpattern us = r"[A-Za-z_\u{80}-\u{10FFFF}]")]
#[logos(subpattern uc = r"[A-Za-z0-9_\u{80}-\u{10FFFF}]")]
#[logos(skip(r"[ \t\r\n\u{0C}]+"))]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Tok {
    #[token("let")]
    Let,
    #[token("fn")]
    Fn,
    #[token("def")]
    Def,
    #[token("if")]
    If,
    #[token("else")]
    Else,
    #[token("type")]
    Type,
    #[token("match")]
    Match,
    #[regex(r"match[ \t]*\?")]
    MatchQ,
    #[token("extern")]
    Extern,
    #[token("free_var")]
    FreeVar,
    #[token("ref")]
    Ref,
    #[token("ref_read")]
    RefRead,
    #[token("ref_write")]
    RefWrite,
    #[token("True")]
    True,
    #[token("False")]
    False,
    #[token("_", priority = 5)]
    Underscore,

    /// `%x`; a dot is part of the name if letters follow (`%layer.0.weight`), a colon if a number
    /// or another colon does (`%x:0`, `%onnx::Conv_0`). A number after a final dot is a separate
    /// token: the binders decide whether it is part of the name.
    #[regex(
        r"%(?&s)(?&c)*(/(?&c)+|::(?&c)+|:[0-9]+|(\.[0-9]+)*\.[0-9]*(?&s)(?&c)*)*",
        priority = 3
    )]
    #[regex(
        r"%(?&us)(?&uc)*(/(?&uc)+|::(?&uc)+|:[0-9]+|(\.[0-9]+)*\.[0-9]*(?&us)(?&uc)*)*",
        beyond_ascii,
        priority = 2
    )]
    Local,
    #[regex(r"%[0-9]+")]
    Graph,
    #[regex(r"@(?&s)(?&c)*(([/.]|::)(?&c)+)*", priority = 3)]
    #[regex(r"@(?&us)(?&uc)*(([/.]|::)(?&uc)+)*", beyond_ascii, priority = 2)]
    Global,
    #[regex(
        r"(?&s)(?&c)*(/(?&c)+)*([ \t]*\.[ \t]*(?&s)(?&c)*(/(?&c)+)*)*",
        priority = 2
    )]
    #[regex(
        r"(?&us)(?&uc)*(/(?&uc)+)*([ \t]*\.[ \t]*(?&us)(?&uc)*(/(?&uc)+)*)*",
        beyond_ascii,
        priority = 1
    )]
    #[token("data", word)]
    #[token("rel", word)]
    #[token("op", word)]
    #[token("grad", word)]
    #[token("prim_func", word)]
    #[token("where", word)]
    #[token("case", word)]
    #[token("shape", word)]
    #[token("match_shape", word)]
    #[token("match_cast", word)]
    #[token("dataflow", word)]
    #[token("for", word)]
    #[token("while", word)]
    #[token("in", word)]
    #[token("alloc", word)]
    #[token("init", word)]
    #[token("kernel", word)]
    #[token("compute", word)]
    #[token("fun", word)]
    #[token("func", word)]
    #[token("function", word)]
    #[token("lambda", word)]
    #[token("var", word)]
    #[token("val", word)]
    #[token("const", word)]
    #[token("auto", word)]
    #[token("elif", word)]
    #[token("elsif", word)]
    #[token("elseif", word)]
    #[token("return", word)]
    #[token("class", word)]
    #[token("struct", word)]
    #[token("enum", word)]
    #[token("Tensor", word)]
    #[token("Shape", word)]
    #[token("Buffer", word)]
    #[token("grid", word)]
    #[token("min", word)]
    #[token("max", word)]
    Name,
    #[regex(r"[0-9]+([iu][0-9]+)?")]
    Int,
    #[regex(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?(f[0-9]*|bf16)?", priority = 1)]
    #[regex(
        r"inff|inff?16|inff?64|infbf16|nanf?|nanf16|nanf64|nanbf16",
        priority = 10
    )]
    Float,
    /// `.0` after a tuple.
    #[regex(r"\.[0-9]+")]
    Proj,
    #[token("\"", string)]
    #[regex(r"'[^'\n]*'")]
    Str,
    #[regex(
        r"meta[ \t\r\n]*\[[ \t\r\n]*[^\]\n]*[ \t\r\n]*\][ \t\r\n]*\[[ \t\r\n]*[0-9]*[ \t\r\n]*\]",
        priority = 20
    )]
    Meta,
    #[regex(r"#[ \t]*\[[ \t]*version[^\]\r\n]*\][ \t]*", priority = 30)]
    #[regex(r"v0\.0\.[0-9]+", priority = 30)]
    Version,
    #[regex(r"#[ \t]*\[[ \t]*metadata[ \t]*\][ \t]*", rest, priority = 30)]
    #[regex(r"METADATA:", rest, priority = 40)]
    #[regex("# meta data\\r?\nr\"\"\"", rest, priority = 40)]
    Metadata,

    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LSquare,
    #[token("]")]
    RSquare,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token(",")]
    Comma,
    #[token(";")]
    Semi,
    #[token(":")]
    Colon,
    #[token(".")]
    Dot,
    #[token("=")]
    Eq,
    #[token("=>")]
    FatArrow,
    #[token("->")]
    Arrow,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("<")]
    Lt,
    #[token("<=")]
    Le,
    #[token(">")]
    Gt,
    #[token(">=")]
    Ge,
    #[token("==")]
    EqEq,
    #[token("!=")]
    Ne,
    #[token("&&")]
    AndAnd,
    #[token("||")]
    OrOr,
    /// `%x^` of versions before 0.8: reads a reference.
    #[token("^")]
    Caret,
    /// `(%x := e)` of versions before 0.8: writes a reference.
    #[token(":=")]
    ColonEq,
    #[token("+=")]
    PlusEq,
    #[token("*=")]
    StarEq,
    #[token("?")]
    Question,
    #[token(":-")]
    Turnstile,
    #[token("//", slashes)]
    SlashSlash,

    /// `// …` or `# …`
    #[regex(r"#[^\r\n]*", priority = 1, allow_greedy = true)]
    LineComment,
    /// `/* … */`, nested.
    #[token("/*", block_comment)]
    BlockComment,
    /// `#[…]` that is neither version nor metadata.
    #[regex(r"#[ \t]*\[[ \t]*[A-Za-z_][^\]\n]*\]", priority = 4)]
    UnknownSection,
    /// `%1_q`: both a number and a name.
    #[regex(r"%[0-9]+[A-Za-z_][A-Za-z0-9_]*")]
    BadGraph,
    /// Characters that begin no token.
    Unknown,

    // Created by the layer above the lexer.
    /// `<` that opens type parameters or arguments.
    TLt,
    /// `>` that closes them.
    TGt,
    /// `data` at the head of an item.
    Data,
    /// `rel` at the head of an item.
    Rel,
    /// `op` at the head of an item.
    Op,
    /// `grad` at the head of an item.
    Grad,
    /// `prim_func` at the head of an item.
    PrimFunc,
    /// A zero-width token before `Name(…) :- …`.
    Prolog,
    /// `where` of a signature.
    Where,
    /// `case` of a clause.
    Case,
    /// `shape` before `(`.
    Shape,
    /// `match_shape` before `(`.
    MatchShape,
    /// `match_cast` before `(`.
    MatchCast,
    /// `dataflow` before `{`.
    Dataflow,
    /// `for` before a loop variable.
    For,
    While,
    /// `in` of a loop.
    In,
    /// `alloc` before a variable.
    Alloc,
    /// `init` before `{`.
    Init,
    /// `kernel` before a name in a tensor program.
    Kernel,
    /// `compute` in an `op` item.
    Compute,
    /// A run of text that could not be read, reported already.
    Error,

    // Fed to the parser ahead of a segment's tokens, so that one automaton reads all three; no text
    // has them.
    /// The segment is an item.
    AsItem,
    /// The segment is an expression.
    AsBody,
    /// The segment is a type.
    AsType,
}

/// The highlighting class of a token in an editor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HighlightClass {
    /// `let`
    Keyword,
    /// `%x`
    Variable,
    /// `@f`
    Function,
    /// `nn.conv2d`, `float32`
    Name,
    /// `1f`
    Number,
    /// `"a"`
    String,
    /// `True`, `inff`
    Constant,
    /// `// …`
    Comment,
    /// `+`
    Operator,
    /// `(`
    Bracket,
    /// `;`
    Punctuation,
    /// `meta[…][0]`, `#[version = …]`
    Meta,
}

/// An entry of the public token table.
#[derive(Clone, Copy, Debug)]
pub struct TokenInfo {
    /// The token.
    pub tok: Tok,
    /// Its name in grammars and messages.
    pub name: &'static str,
    /// An example of its text.
    pub example: &'static str,
    /// Its highlighting class.
    pub class: HighlightClass,
}

macro_rules! table {
    ($($tok:ident $name:literal $example:literal $class:ident;)*) => {
        /// Every token, for editor grammars and messages.
        pub static TOKENS: &[TokenInfo] = &[$(TokenInfo {
            tok: Tok::$tok, name: $name, example: $example, class: HighlightClass::$class,
        },)*];
    };
}

table! {
    Let "`let`" "let" Keyword;
    Fn "`fn`" "fn" Keyword;
    Def "`def`" "def" Keyword;
    If "`if`" "if" Keyword;
    Else "`else`" "else" Keyword;
    Type "`type`" "type" Keyword;
    Match "`match`" "match" Keyword;
    MatchQ "`match?`" "match?" Keyword;
    Extern "`extern`" "extern" Keyword;
    FreeVar "`free_var`" "free_var" Keyword;
    Ref "`ref`" "ref" Keyword;
    RefRead "`ref_read`" "ref_read" Keyword;
    RefWrite "`ref_write`" "ref_write" Keyword;
    True "`True`" "True" Constant;
    False "`False`" "False" Constant;
    Underscore "`_`" "_" Keyword;
    Local "a local variable" "%x" Variable;
    Graph "a graph variable" "%0" Variable;
    Global "a global name" "@main" Function;
    Name "a name" "nn.conv2d" Name;
    Int "an integer" "1i64" Number;
    Float "a number" "1.5f" Number;
    Proj "a projection" ".0" Number;
    Str "a string" "\"NCHW\"" String;
    Meta "a metadata reference" "meta[relay.Constant][0]" Meta;
    Version "the version header" "#[version = \"0.0.5\"]" Meta;
    Metadata "the metadata section" "#[metadata]" Meta;
    LParen "`(`" "(" Bracket;
    RParen "`)`" ")" Bracket;
    LSquare "`[`" "[" Bracket;
    RSquare "`]`" "]" Bracket;
    LBrace "`{`" "{" Bracket;
    RBrace "`}`" "}" Bracket;
    Comma "`,`" "," Punctuation;
    Semi "`;`" ";" Punctuation;
    Colon "`:`" ":" Punctuation;
    Dot "`.`" "." Punctuation;
    Eq "`=`" "=" Operator;
    FatArrow "`=>`" "=>" Operator;
    Arrow "`->`" "->" Operator;
    Plus "`+`" "+" Operator;
    Minus "`-`" "-" Operator;
    Star "`*`" "*" Operator;
    Slash "`/`" "/" Operator;
    Percent "`%`" "%" Operator;
    Lt "`<`" "<" Operator;
    Le "`<=`" "<=" Operator;
    Gt "`>`" ">" Operator;
    Ge "`>=`" ">=" Operator;
    EqEq "`==`" "==" Operator;
    Ne "`!=`" "!=" Operator;
    AndAnd "`&&`" "&&" Operator;
    OrOr "`||`" "||" Operator;
    Caret "`^`" "^" Operator;
    ColonEq "`:=`" ":=" Operator;
    PlusEq "`+=`" "+=" Operator;
    StarEq "`*=`" "*=" Operator;
    Question "`?`" "?" Constant;
    Turnstile "`:-`" ":-" Operator;
    SlashSlash "`//`" "//" Operator;
    LineComment "a comment" "// …" Comment;
    BlockComment "a comment" "/* … */" Comment;
    UnknownSection "an unknown section" "#[x]" Meta;
    BadGraph "a misspelled variable" "%1_q" Variable;
    Unknown "an unknown character" "$" Punctuation;
    TLt "`<`" "<" Bracket;
    TGt "`>`" ">" Bracket;
    Data "`data`" "data" Keyword;
    Rel "`rel`" "rel" Keyword;
    Op "`op`" "op" Keyword;
    Grad "`grad`" "grad" Keyword;
    PrimFunc "`prim_func`" "prim_func" Keyword;
    Prolog "a relation" "" Keyword;
    Where "`where`" "where" Keyword;
    Case "`case`" "case" Keyword;
    Shape "`shape`" "shape" Keyword;
    MatchShape "`match_shape`" "match_shape" Keyword;
    MatchCast "`match_cast`" "match_cast" Keyword;
    Dataflow "`dataflow`" "dataflow" Keyword;
    For "`for`" "for" Keyword;
    While "`while`" "while" Keyword;
    In "`in`" "in" Keyword;
    Alloc "`alloc`" "alloc" Keyword;
    Init "`init`" "init" Keyword;
    Kernel "`kernel`" "kernel" Keyword;
    Compute "`compute`" "compute" Keyword;
    Error "an unreadable stretch" "" Punctuation;
}

impl Tok {
    /// Returns the description of the token in messages: `` `;` `` or "a local variable".
    pub fn describe(self) -> &'static str {
        TOKENS
            .iter()
            .find(|t| t.tok == self)
            .map_or("something", |t| t.name)
    }
}

/// Marks a name that has a special meaning in some context. The lexer's automaton distinguishes
/// such names anyway, so no text comparison is needed.
fn word(lex: &mut logos::Lexer<'_, Tok>) {
    lex.extras.word = true;
}

/// Marks a name whose characters are to be looked at.
fn beyond_ascii(lex: &mut logos::Lexer<'_, Tok>) {
    lex.extras.beyond_ascii = true;
}

/// Returns the next token, [`Tok::Unknown`] for characters that begin none, and where it is.
pub(crate) fn next(lexer: &mut logos::Lexer<'_, Tok>) -> Option<(Tok, Range<usize>)> {
    let tok = lexer.next()?.unwrap_or(Tok::Unknown);
    let span = lexer.span();
    if !std::mem::take(&mut lexer.extras.beyond_ascii) {
        return Some((tok, span));
    }
    let end = name_end(lexer.slice());
    if end == span.len() {
        return Some((tok, span));
    }
    // What the text begins with if it ends before the character that is no part of a name.
    let source: &str = lexer.source();
    let mut before = Tok::lexer_with_extras(&source[span.start..span.start + end], lexer.extras);
    let (tok, len) = match before.next() {
        Some(tok) => (tok.unwrap_or(Tok::Unknown), before.span().end),
        None => {
            let other = source[span.start..].chars().next();
            (Tok::Unknown, other.map_or(0, char::len_utf8))
        }
    };
    before.extras.beyond_ascii = false;
    let span = span.start..span.start + len;
    *lexer = Tok::lexer_with_extras(source, before.extras);
    lexer.bump(span.end);
    Some((tok, span))
}

/// Scans a string after its opening quote: a backslash escapes the next character.
fn string(lex: &mut logos::Lexer<'_, Tok>) {
    let rest = lex.remainder().as_bytes();
    let mut i = 0;
    while i < rest.len() {
        match rest[i] {
            b'\\' => i += 2,
            b'"' => {
                lex.bump(i + 1);
                return;
            }
            _ => i += 1,
        }
    }
    lex.extras.unclosed = true;
    // The error is nearly always on this line, and brackets at its end belong to the program; the
    // text after it is lexed independently.
    let line = lex.remainder().lines().next().unwrap_or("");
    let text = line.trim_end_matches([')', ']', '}', '{', ';', ',', ' ', '\t', '\r']);
    lex.bump(text.len());
}

/// Consumes everything up to the end: the metadata section is the last part of a file.
fn rest(lex: &mut logos::Lexer<'_, Tok>) {
    lex.bump(lex.remainder().len());
}

fn slashes(lex: &mut logos::Lexer<'_, Tok>) -> Tok {
    if lex.extras.floor_div && divides(lex.remainder()) {
        return Tok::SlashSlash;
    }
    let rest = lex.remainder().as_bytes();
    let line = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
    lex.bump(line - usize::from(line > 0 && rest[line - 1] == b'\r'));
    Tok::LineComment
}

/// Returns whether the text after `//` following a dimension is a divisor rather than a comment: an
/// operand, and on the same line something that can follow it (`n // 2, m`, but not `m // rows`).
fn divides(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or("");
    let mut text = line.trim_start();
    while let Some(comment) = text.strip_prefix("/*") {
        let Some(end) = comment.find("*/") else {
            return false;
        };
        text = comment[end + 2..].trim_start();
    }
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '%');
    let after_name = text.trim_start_matches(name);
    let mut after = after_name;
    if after.starts_with('(') {
        let mut depth = 0;
        let end = after.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let Some(end) = end else { return false };
        after = &after[end + 1..];
    }
    after.len() < text.len()
        && after
            .trim_start()
            .starts_with([',', ')', ']', '+', '-', '*', '%', '/'])
}

/// Scans a block comment after its opening delimiter; block comments nest, as in TVM.
fn block_comment(lex: &mut logos::Lexer<'_, Tok>) {
    let rest = lex.remainder().as_bytes();
    let mut depth = 1usize;
    let mut i = 0;
    while i + 1 < rest.len() {
        match (rest[i], rest[i + 1]) {
            (b'*', b'/') => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    lex.bump(i);
                    return;
                }
            }
            (b'/', b'*') => {
                depth += 1;
                i += 2;
            }
            _ => i += 1,
        }
    }
    lex.extras.unclosed = true;
    lex.bump(rest.len());
}
