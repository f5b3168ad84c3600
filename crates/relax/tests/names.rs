//! Every word that some position of the language reads as a name is printed so that it reads back.
//!
//! Words with a meaning elsewhere (keywords, types, element types, numbers, attributes) are tried as
//! names of everything that has one. A text may be refused; one that is accepted must print, with
//! types and without, as a text of the same module.

use relax::{Format, InferOptions, ReadOptions, Session, Style, TypeSource, TypedModule, check};
use relax_base::Diagnostics;
use relax_ir::{EqualOptions, Module};
use relax_syntax::{HighlightClass, TOKENS};

/// Words that mean something to the reader or to later steps, beside the tokens'.
const WORDS: &[&str] = &[
    "Tensor",
    "Shape",
    "Buffer",
    "Object",
    "Type",
    "ShapeVar",
    "BaseType",
    "float32",
    "int8",
    "bool",
    "bfloat16",
    "handle",
    "min",
    "max",
    "prod",
    "sum",
    "broadcast",
    "Broadcast",
    "Identity",
    "parallel",
    "vectorize",
    "unroll",
    "output",
    "grid",
    "meta",
    "nan",
    "nanf",
    "inf",
    "inff",
    "None",
    "none",
    "add",
    "nn.relu",
    "List",
    "Nil",
    "Cons",
    "x/y",
    "x.y",
    "größe",
    "_x",
    "__",
    "x_1",
    "e5",
    "E",
    "f",
    "i64",
    "v0",
    "METADATA",
    "data",
    "call_tir",
    "virtual_device",
    "Target",
    "SEScope",
    "VirtualDevice",
    "reinterpret_int32",
    "floor_div",
    "mod",
    "axis",
    "dtype",
    "shape",
    "main",
    "lambda",
    "var",
    "class",
    "return",
    "elif",
    "func",
    "unit",
    "self",
    "True1",
    "x:0",
    "x::y",
    "x.0",
    "attr",
    "where",
    "Int",
    "t",
    "n",
];

/// Texts with `W` at the positions of one name.
const TEXTS: &[(&str, &str)] = &[
    (
        "dimension",
        "def @f(%x: Tensor[(W, 3), float32]) -> Tensor[(W, 3), float32] { exp(%x) }",
    ),
    (
        "dimension of a result",
        "def @f(%x: Tensor[(?, 3), float32]) -> Tensor[(W, 3), float32] { exp(%x) }",
    ),
    (
        "dimensions computed",
        "def @f(%x: Tensor[(W, W * 2 + 1), float32], %y: Tensor[(W // 2, m, W - 1), float32]) { (%x, %y) }",
    ),
    (
        "dimension in min",
        "def @f(%x: Tensor[(W, m), float32]) -> Tensor[(min(W, m),), float32] { @f(%x) }",
    ),
    (
        "declared dimension",
        "def @f[W: ShapeVar](%x: Tensor[(W,), float32]) { exp(%x) }",
    ),
    (
        "dimension of an alias",
        "def @f(%x: Tensor[_, float32]) { %s = match_shape(shape_of(%x), (W, m)); reshape(%x, newshape=[W * m]) }",
    ),
    (
        "dimension of a shape",
        "def @f(%x: Tensor[(W, 2), float32]) { reshape(%x, shape(2, W)) }",
    ),
    (
        "dimension of an attribute",
        "def @f(%x: Tensor[(W, 2), float32]) { reshape(%x, newshape=[2, W]) }",
    ),
    (
        "dimension of a cast",
        "def @f(%x: Tensor[_, float32]) { %y = match_cast(%x, Tensor[(W, 2), float32]); exp(%y) }",
    ),
    (
        "type parameter",
        "def @f[W](%x: W) -> W { %x } def @g(%x: int32) { @f(%x) }",
    ),
    (
        "type parameter given",
        "def @f[W](%x: W) -> W { %x } def @g[W](%x: W) -> W { @f<W>(%x) }",
    ),
    (
        "type parameter beside types",
        "def @f[W](%x: W, %y: Tensor[(), float32], %z: List[int32]) -> (W, Tensor[(), float32], List[int32]) { (%x, %y, %z) }",
    ),
    (
        "type parameter beside values",
        "def @f[W](%x: W, %y: Tensor[(2,), float32]) { (%x, sum(%y), Cons(%x, Nil)) }",
    ),
    (
        "dimension beside types",
        "def @f(%x: Tensor[(W, 3), float32], %y: Tensor[(2,), float32]) { (exp(%x), sum(%y), Cons(%x, Nil)) }",
    ),
    (
        "shape parameter",
        "def @f[W: Shape, u: BaseType](%x: Tensor[W, u]) -> Tensor[W, u] { %x }",
    ),
    (
        "element type parameter",
        "def @f[s: Shape, W: BaseType](%x: Tensor[s, W]) -> Tensor[s, W] { %x }",
    ),
    (
        "parameter of a function type",
        "def @f(%g: fn [W](W) -> W) -> int32 { %g(1) }",
    ),
    (
        "parameter of a data type",
        "type T0[W] { C0(W), N0 } def @f(%x: T0[int32]) -> T0[int32] { %x }",
    ),
    (
        "data type",
        "type W[A] { C0(A, W[A]), N0 } def @f(%x: W[int32]) -> W[int32] { %x }",
    ),
    (
        "plain data type",
        "type W { C0, D0 } def @f(%x: W) -> W { match (%x) { C0 => D0, D0 => C0 } }",
    ),
    (
        "opaque data type",
        "extern type W def @f(%x: W) -> W { %x }",
    ),
    (
        "constructor",
        "type T0 { W(int32), N0 } def @f(%x: T0) -> T0 { match (%x) { W(%a) => N0, N0 => W(3) } }",
    ),
    (
        "constructor without fields",
        "type T0 { W, N0 } def @f(%x: T0) -> T0 { match (%x) { W => N0, N0 => W } }",
    ),
    (
        "constructor in a tuple",
        "type T0 { W, N0 } def @f(%x: (T0, T0)) -> T0 { match (%x) { (W, _) => W, (%a, %b) => %b } }",
    ),
    (
        "global",
        "def @W(%x: int32) -> int32 { if (%x == 0) { 1 } else { @W(%x - 1) } }",
    ),
    (
        "local",
        "def @f(%W: int32) -> int32 { let %W = %W + 1; %W * 2 }",
    ),
    (
        "local function",
        "def @f(%x: int32) -> int32 { let %W = fn (%W: int32) -> int32 { %W }; %W(%x) }",
    ),
    (
        "local of a pattern",
        "def @f(%x: (int32, int32)) -> int32 { match (%x) { (%W, _) => %W } }",
    ),
    (
        "local tuple",
        "def @f(%W: (int32, int32)) -> int32 { %W.0 }",
    ),
    (
        "local of a block",
        "def @f(%x: Tensor[(2,), float32]) { dataflow { %W = exp(%x); output(%W); } %W }",
    ),
    ("free variable", "free_var %W: int32; %W + %W"),
    (
        "relation",
        "rel W(Tensor[(a,), u], Tensor[(a,), u]) -> Tensor[(a,), u]; def @f(%x: int32) { %x }",
    ),
    (
        "variable of a relation",
        "rel Same0(Tensor[(W, *q), t], Tensor[(W, *q), t]) -> Tensor[(W, *q), t]; def @f(%x: int32) { %x }",
    ),
    (
        "rest of a relation",
        "rel Same0(Tensor[(n, *W), t]) -> Tensor[(n, *W), t]; def @f(%x: int32) { %x }",
    ),
    (
        "operator",
        "op W(%x: Tensor[(n,), float32]) -> Tensor[(n,), float32] { compute [%i] => %x[%i] * 2 } def @f(%x: Tensor[(n,), float32]) { W(%x) }",
    ),
    (
        "operator in a family",
        "op my.W(%x: Tensor[(n,), float32]) -> Tensor[(n,), float32] { compute [%i] => %x[%i] * 2 } def @f(%x: Tensor[(n,), float32]) { my.W(%x) }",
    ),
    (
        "operand",
        "op my.op(%W: Tensor[(n,), float32]) -> Tensor[(n,), float32] { compute [%i] => %W[%i] * 2 } def @f(%x: Tensor[(n,), float32]) { my.op(%x) }",
    ),
    (
        "dimension of an operator",
        "op my.op(%x: Tensor[(W,), float32]) -> Tensor[(W,), float32] { compute [%i] => %x[%i] * float32(W) } def @f(%x: Tensor[(n,), float32]) { my.op(%x) }",
    ),
    (
        "dimension of an operator's result",
        "op my.op(%x: Tensor[(n,), float32]) -> Tensor[(n - W,), float32] { compute [%i] => %x[%i] } def @f(%x: int32) { %x }",
    ),
    (
        "extent of a reduction",
        "op my.op(%x: Tensor[(W,), float32]) -> Tensor[(2,), float32] { compute [%i] => sum(%j, W, %x[%j]) } def @f(%x: Tensor[(n,), float32]) { my.op(%x) }",
    ),
    (
        "shape of an operator",
        "op my.op[W: Shape](%x: Tensor[W, float32]) -> Tensor[W, float32] { compute %x * 2 } def @f(%x: Tensor[(n,), float32]) { my.op(%x) }",
    ),
    (
        "attribute of an operator",
        "op my.op(%x: Tensor[(n,), float32], W: float64 = 2.0) -> Tensor[(n,), float32] { compute %x * W } def @f(%x: Tensor[(n,), float32]) { my.op(%x, W=3.0) }",
    ),
    (
        "index of a computation",
        "op my.op(%x: Tensor[(n,), float32]) -> Tensor[(n,), float32] { compute [%W] => sum(%j, n, %x[%W]) } def @f(%x: Tensor[(n,), float32]) { my.op(%x) }",
    ),
    (
        "tensor program",
        "prim_func @W(%X: Buffer[(4,), int32], %Y: Buffer[(4,), int32]) { for %i in grid(4) { %Y[%i] = %X[%i]; } } def @f(%x: Tensor[(4,), int32]) { call_tir(@W, (%x,), shape(4), dtype=\"int32\") }",
    ),
    (
        "buffer",
        "prim_func @p(%W: Buffer[(4,), int32], %Y: Buffer[(4,), int32]) { for %i in grid(4) { %Y[%i] = %W[%i]; } }",
    ),
    (
        "loop variable",
        "prim_func @p(%X: Buffer[(4,), int32], %Y: Buffer[(4,), int32]) { for %W in grid(4) { %Y[%W] = %X[%W]; } }",
    ),
    (
        "extent of a buffer",
        "prim_func @p(%X: Buffer[(W,), int32], %Y: Buffer[(W,), int32]) { for %i in grid(W) { %Y[%i] = %X[%i]; } }",
    ),
    (
        "local of a program",
        "prim_func @p(%X: Buffer[(4,), int32], %Y: Buffer[(4,), int32]) { for %i in grid(4) { let %W = %X[%i]; %Y[%i] = %W; } }",
    ),
    (
        "local buffer",
        "prim_func @p(%X: Buffer[(4,), int32], %Y: Buffer[(4,), int32]) { alloc %W: Buffer[(), int32]; for %i in grid(4) { %W[] = %X[%i]; %Y[%i] = %W[]; } }",
    ),
    ("key of a function", "def @f(%x: int32, W=\"a\") { %x }"),
    (
        "key of a call",
        "def @f(%x: Tensor[(2,), float32]) { @g(%x, W=1) } def @g(%x: Tensor[(2,), float32]) { %x }",
    ),
    ("key of a map", "def @f(%x: int32, a={W=1}) { %x }"),
    (
        "value of a key",
        "def @f(%x: Tensor[(w,), float32], a=W) { %x }",
    ),
];

fn session() -> Session {
    Session::new(ReadOptions::default())
}

/// Returns how a text that is accepted does not read back.
fn mistake(text: &str) -> Option<String> {
    mistake_of(session().read("input", text.as_bytes().to_vec()))
}

fn mistake_of((module, errors): (Module, Diagnostics)) -> Option<String> {
    if errors.has_errors() {
        return None;
    }
    let mut typed = module.clone();
    let (typing, errors) = check(&mut typed, &InferOptions::default());
    if errors.has_errors() {
        return None;
    }
    let types = TypedModule {
        module: &typed,
        typing: &typing,
    };
    let types: &dyn TypeSource = &types;
    for (printed, types) in [(&module, None), (&typed, Some(types))] {
        let shown = relax::print(printed, Style::Pretty, types);
        let (again, errors) = session().read("printed", shown.clone().into_bytes());
        if let Some(d) = errors.iter().find(|d| d.is_error()) {
            return Some(format!("{}\n{shown}", d.message));
        }
        let options = EqualOptions {
            annotations: types.is_none(),
            ..EqualOptions::default()
        };
        if let Some(d) = relax::difference(printed, &again, options) {
            return Some(format!("another module: {}\n{shown}", d.text));
        }
    }
    None
}

/// Replaces `W` where it is a word or the name after a sigil.
fn with(text: &str, word: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    for (i, c) in text.char_indices() {
        let after = text[i + 1..].chars().next().unwrap_or(' ');
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match c == 'W' && !part(before) && !part(after) {
            true => out.push_str(word),
            false => out.push(c),
        }
        before = c;
    }
    out
}

#[test]
fn any_word_that_is_read_as_a_name_reads_back() {
    use HighlightClass::{Constant, Keyword, Name, Number};
    let worded = |c| matches!(c, Keyword | Constant | Number | Name);
    let tokens = TOKENS.iter().filter(|t| worded(t.class));
    let tokens = tokens.map(|t| t.example).filter(|e| !e.is_empty());
    let words: Vec<&str> = tokens.chain(WORDS.iter().copied()).collect();
    let (mut wrong, mut accepted) = (Vec::new(), 0);
    for (position, text) in TEXTS {
        let plain = with(text, "w");
        let (_, errors) = session().read("input", plain.clone().into_bytes());
        let first = errors.iter().find(|d| d.is_error());
        assert!(first.is_none(), "{position}: {first:?}");
        assert_eq!(mistake(&plain), None, "{position}");
        for word in &words {
            let text = with(text, word);
            let read = session().read("input", text.clone().into_bytes());
            accepted += usize::from(!read.1.has_errors());
            if let Some(mistake) = mistake(&text) {
                wrong.push(format!("`{word}` as a {position}: {mistake}"));
            }
        }
    }
    assert!(accepted > TEXTS.len() * words.len() / 3, "{accepted}");
    let (count, all) = (wrong.len(), wrong.join("\n"));
    assert!(wrong.is_empty(), "{count} of {accepted}:\n{all}");
}

/// What no position of a text reads as a name, but a graph may have as one.
const ODD: &[&str] = &[
    "",
    " ",
    "a b",
    "1",
    "1x",
    "%x",
    "@x",
    "x;y",
    "a\"b",
    "a'b",
    "(x)",
    "x\n",
    "/*",
    "//",
    "-",
    "x[0]",
    ".",
    "x.",
    ".x",
    "/t:0",
    "x-y",
    "x?",
    "\\",
    "x,y",
    "\u{1F980}",
    "x\u{301}",
    "a\tb",
    "_",
    "a_b",
    "x = 1",
    "#[a]",
];

/// Returns the graph of a text with another name in place of `NAMEDHERE`; `None` if it has no form.
fn graph(text: &str, word: &str) -> Option<Vec<u8>> {
    let (module, errors) = session().read("input", text.as_bytes().to_vec());
    if errors.has_errors() {
        return None;
    }
    let release = "0.12".parse().expect("a release");
    let mut bytes = Vec::new();
    relax::json_graph(&module, None, release)
        .ok()?
        .to(&mut bytes)
        .expect("memory holds it");
    let text = String::from_utf8(bytes).expect("a graph is a text");
    let escaped = word.chars().flat_map(|c| match c {
        '"' | '\\' => vec!['\\', c],
        '\n' => vec!['\\', 'n'],
        '\t' => vec!['\\', 't'],
        c => vec![c],
    });
    let escaped: String = escaped.collect();
    text.contains(HERE)
        .then(|| text.replace(HERE, &escaped).into_bytes())
}

const HERE: &str = "NAMEDHERE";

/// Names of graphs are any texts: what is read is printed, with types and without, as a text of the
/// same module. (Keys of attributes are left out: what no text holds stays what it is.)
#[test]
fn names_of_graphs_read_back() {
    let words = TOKENS.iter().map(|t| t.example).filter(|e| !e.is_empty());
    let words: Vec<&str> = words.chain(WORDS.iter().chain(ODD).copied()).collect();
    let (mut wrong, mut accepted, mut positions) = (Vec::new(), 0, 0);
    for (position, text) in TEXTS {
        let text = with(text, HERE);
        if position.contains("key") || graph(&text, "w").is_none() {
            continue;
        }
        positions += 1;
        for word in &words {
            let bytes = graph(&text, word).expect("it has a form");
            let read = Session::new(ReadOptions {
                format: Some(Format::TvmJson),
                ..ReadOptions::default()
            })
            .read("input", bytes);
            accepted += usize::from(!read.1.has_errors());
            if let Some(mistake) = mistake_of(read) {
                wrong.push(format!("`{word}` as a {position}: {mistake}"));
            }
        }
    }
    assert!(positions > 10, "{positions}");
    assert!(accepted > positions * words.len() / 2, "{accepted}");
    let (count, all) = (wrong.len(), wrong.join("\n"));
    assert!(wrong.is_empty(), "{count} of {accepted}:\n{all}");
}
