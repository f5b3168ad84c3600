//! Random well-formed modules with every construct of the language: printing round-trips, and
//! formatting preserves tokens and comments and is idempotent, at any width.
//!
//! The programs are well-formed, not well-typed: names resolve, attributes fit their operators, and
//! names are used in the right namespace. A failure reports its seed.

use std::fmt::Write;

use relax_base::SourceMap;
use relax_ir::{EqualOptions, Module, structural_difference};
use relax_resolve::print::{PrintMode, module_to_ast};
use relax_syntax::{FmtOptions, PrintOptions, Style, Tok, format_source, lex};
use relax_testkit::Rng;

/// A generator of texts.
struct Gen {
    seed: u64,
    rng: Rng,
    out: String,
    /// Local variables in scope.
    locals: Vec<String>,
    /// The number of graph bindings so far.
    graph: usize,
    /// Type parameters and dimension variables in scope.
    types: Vec<String>,
    dims: Vec<String>,
    names: usize,
    /// The number of globals that can be referenced; a file of items has some and a tensor program.
    globals: usize,
}

impl Gen {
    fn new(seed: u64) -> Gen {
        Gen {
            seed,
            rng: Rng::new(seed),
            out: String::new(),
            locals: Vec::new(),
            graph: 0,
            types: Vec::new(),
            dims: Vec::new(),
            names: 0,
            globals: 0,
        }
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.below(of.len())]
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        let shape = self.pick(&["x", "long_name_of_a_variable", "y.z", "block/relu", "_t"]);
        format!("{shape}{}", self.names)
    }

    fn list(&mut self, most: usize, mut one: impl FnMut(&mut Gen) -> String) -> Vec<String> {
        (0..self.rng.below(most + 1)).map(|_| one(self)).collect()
    }

    // Types.

    fn dim(&mut self, depth: usize) -> String {
        match self.rng.below(if depth == 0 { 4 } else { 7 }) {
            0 => "?".into(),
            1 if !self.dims.is_empty() => self.a_dim(),
            2 => format!("{}i64", self.rng.below(50)),
            1..4 => self.rng.below(300).to_string(),
            4 => {
                let op = self.pick(&["+", "-", "*", "//", "%"]);
                let (a, b) = (self.dim_atom(), self.rng.below(7) + 1);
                format!("{a} {op} {b}")
            }
            5 => {
                let (a, b) = (self.dim_atom(), self.dim_atom());
                let f = self.pick(&["min", "max"]);
                format!("{f}({a}, {b})")
            }
            _ => {
                let (a, b, c) = (self.dim_atom(), self.dim_atom(), self.dim_atom());
                format!("({a} + {b}) * {c}")
            }
        }
    }

    fn dim_atom(&mut self) -> String {
        if self.dims.is_empty() || self.rng.chance(30) {
            (self.rng.below(9) + 1).to_string()
        } else {
            self.a_dim()
        }
    }

    fn a_dim(&mut self) -> String {
        let i = self.rng.below(self.dims.len());
        self.dims[i].clone()
    }

    fn shape(&mut self) -> String {
        let dims = self.list(3, |g| g.dim(1));
        match dims.len() {
            0 => "()".into(),
            1 if self.rng.chance(50) => format!("({},)", dims[0]),
            _ => format!("({})", dims.join(", ")),
        }
    }

    fn dtype(&mut self) -> &'static str {
        self.pick(&[
            "float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "bool",
        ])
    }

    fn ty(&mut self, depth: usize) -> String {
        match self.rng.below(if depth == 0 { 5 } else { 11 }) {
            0 => self.dtype().into(),
            1 | 2 => {
                let (shape, dtype) = (self.shape(), self.dtype());
                format!("Tensor[{shape}, {dtype}]")
            }
            3 if !self.types.is_empty() => {
                let i = self.rng.below(self.types.len());
                self.types[i].clone()
            }
            3 => "Object".into(),
            4 => self
                .pick(&["Tensor[_, float32]", "Tensor[_, _]", "Shape", "Opaque"])
                .into(),
            5 => {
                let parts = self.list(3, |g| g.ty(depth - 1));
                let comma = if parts.len() == 1 { "," } else { "" };
                format!("({}{comma})", parts.join(", "))
            }
            6 => format!("ref({})", self.ty(depth - 1)),
            7 => format!("Seq[{}]", self.ty(depth - 1)),
            8 => {
                let args = self.list(2, |g| g.ty(depth - 1)).join(", ");
                format!("fn ({args}) -> {}", self.ty(depth - 1))
            }
            9 => format!("fn [T](T) -> {}", self.ty(depth - 1)),
            _ => format!("Shape[{}]", self.shape()),
        }
    }

    // Expressions.

    fn literal(&mut self) -> String {
        match self.rng.below(12) {
            0 => self.rng.below(1000).to_string(),
            1 => format!("-{}", self.rng.below(1000) + 1),
            2 => format!("{}i64", self.rng.below(1000)),
            3 => format!("{}.5f", self.rng.below(1000)),
            4 => format!("{}f", self.rng.below(1000)),
            5 => format!("{}e-{}f", self.rng.below(9) + 1, self.rng.below(20)),
            6 => format!("{}f64", self.rng.unit()),
            7 => format!("{}f16", self.rng.below(100)),
            8 => self.pick(&["inff", "-inff", "nan", "inff64"]).into(),
            9 => format!("{}u8", self.rng.below(256)),
            10 => format!("{}i8", self.rng.below(128)),
            _ => self.pick(&["True", "False"]).into(),
        }
    }

    fn local(&mut self) -> String {
        if self.locals.is_empty() {
            return self.literal();
        }
        let i = self.rng.below(self.locals.len());
        format!("%{}", self.locals[i])
    }

    fn atom(&mut self) -> String {
        match self.rng.below(10) {
            0 | 1 => self.literal(),
            2 if self.graph > 0 => format!("%{}", self.rng.below(self.graph)),
            3 if self.globals > 0 => format!("@f{}", self.rng.below(self.globals)),
            4 => "Empty".into(),
            _ => self.local(),
        }
    }

    fn expr(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.atom();
        }
        let d = depth - 1;
        match self.rng.below(24) {
            0 => self.atom(),
            21 if self.globals > 0 => {
                let types = [self.ty(1), "(10, 10)".into()];
                let args = self.list(2, |g| g.expr(d)).join(", ");
                let given = &types[..self.rng.below(2) + 1];
                format!(
                    "@f{}<{}>({args})",
                    self.rng.below(self.globals),
                    given.join(", ")
                )
            }
            // Printed as a reference into the metadata section.
            22 => {
                let (rows, dtype) = (self.rng.below(4) + 1, self.dtype());
                format!("Constant(1, ({rows}, 2), {dtype})")
            }
            1 => {
                let parts = self.list(3, |g| g.expr(d));
                let comma = if parts.len() == 1 { "," } else { "" };
                format!("({}{comma})", parts.join(", "))
            }
            2 => format!("{}.{}", self.local(), self.rng.below(3)),
            3 | 4 => {
                let op = self.pick(&["+", "-", "*", "/", "==", "<", ">=", "!="]);
                let (a, b) = (self.expr(d), self.expr(d));
                format!("({a}) {op} ({b})")
            }
            5 => {
                let (a, b, c) = (self.atom(), self.atom(), self.atom());
                format!("{a} + {b} * {c}")
            }
            6 => {
                let args = self.list(3, |g| g.expr(d)).join(", ");
                format!("{}({args})", self.local())
            }
            7 if self.globals > 0 => {
                let args = self.list(2, |g| g.expr(d)).join(", ");
                format!("@f{}({args})", self.rng.below(self.globals))
            }
            8 => {
                let (a, b, k) = (self.expr(d), self.expr(d), self.rng.below(64) + 1);
                format!(
                    "nn.conv2d({a}, {b}, padding=[1, {k}, 1, 1], channels={k}, kernel_size=[3, 3], data_layout=\"NHWC\")"
                )
            }
            9 => format!("nn.softmax({}, axis={})", self.expr(d), self.rng.below(4)),
            10 => {
                let (x, n) = (self.expr(d), self.dim_atom());
                format!("reshape({x}, newshape=[{n}, -1])")
            }
            11 => format!("cast({}, dtype=\"{}\")", self.expr(d), self.dtype()),
            12 => {
                let (c, t, e) = (self.expr(d), self.block(d), self.block(d));
                if self.rng.chance(30) {
                    let (c2, t2) = (self.expr(d), self.block(d));
                    format!("if ({c}) {t} else if ({c2}) {t2} else {e}")
                } else {
                    format!("if ({c}) {t} else {e}")
                }
            }
            13 => self.match_(d),
            14 | 15 => self.closure(d),
            16 => format!("ref({})", self.expr(d)),
            17 => format!("ref_read({})", self.expr(d)),
            18 => format!("ref_write({}, {})", self.expr(d), self.expr(d)),
            19 => format!("Cell({}, Empty)", self.expr(d)),
            20 => {
                let dims: Vec<String> = (0..2).map(|_| self.dim_atom()).collect();
                format!("shape({})", dims.join(", "))
            }
            _ => {
                let (x, t) = (self.expr(d), self.ty(1));
                format!("match_cast({x}, {t})")
            }
        }
    }

    fn pattern(&mut self, depth: usize) -> String {
        match self.rng.below(if depth == 0 { 2 } else { 5 }) {
            0 => "_".into(),
            1 => {
                let name = self.fresh();
                self.locals.push(name.clone());
                format!("%{name}")
            }
            2 => "Empty".into(),
            3 => format!(
                "Cell({}, {})",
                self.pattern(depth - 1),
                self.pattern(depth - 1)
            ),
            _ => format!("({}, {})", self.pattern(depth - 1), self.pattern(depth - 1)),
        }
    }

    fn match_(&mut self, depth: usize) -> String {
        let what = self.expr(depth);
        let word = self.pick(&["match", "match?"]);
        let mut text = format!("{word} ({what}) {{\n");
        for _ in 0..self.rng.below(3) + 1 {
            let mark = self.locals.len();
            let pattern = self.pattern(2);
            let body = if self.rng.chance(50) {
                self.block(depth)
            } else {
                self.expr(depth)
            };
            self.locals.truncate(mark);
            let _ = if body.starts_with('{') && self.rng.chance(30) {
                writeln!(text, "case {pattern} {body}")
            } else {
                writeln!(text, "{pattern} => {body},")
            };
        }
        text + "}"
    }

    fn closure(&mut self, depth: usize) -> String {
        let mark = self.locals.len();
        let params = self.params();
        let attrs = if self.rng.chance(20) {
            let sep = if params.is_empty() { "" } else { ", " };
            format!("{sep}Primitive=1, hash=\"{}\"", self.rng.below(99))
        } else {
            String::new()
        };
        let ret = if self.rng.chance(30) {
            format!(" -> {}", self.ty(1))
        } else {
            String::new()
        };
        let body = self.block(depth);
        self.locals.truncate(mark);
        format!("fn ({params}{attrs}){ret} {body}")
    }

    fn params(&mut self) -> String {
        let params = self.list(3, |g| {
            let name = g.fresh();
            let ty = if g.rng.chance(70) {
                format!(": {}", g.ty(2))
            } else {
                String::new()
            };
            g.locals.push(name.clone());
            format!("%{name}{ty}")
        });
        params.join(", ")
    }

    fn block(&mut self, depth: usize) -> String {
        let mark = self.locals.len();
        let mut text = "{\n".to_string();
        for _ in 0..self.rng.below(4) {
            let s = self.statement(depth);
            let _ = writeln!(text, "{s}");
        }
        let tail = self.expr(depth);
        self.locals.truncate(mark);
        text + &tail + "\n}"
    }

    fn statement(&mut self, depth: usize) -> String {
        let d = depth.saturating_sub(1);
        match self.rng.below(9) {
            0..=2 => {
                let value = self.expr(d);
                let name = self.fresh();
                let ty = if self.rng.chance(30) {
                    format!(": {}", self.ty(2))
                } else {
                    String::new()
                };
                self.locals.push(name.clone());
                format!("let %{name}{ty} = {value};")
            }
            3 => {
                let value = self.expr(d);
                let name = self.fresh();
                self.locals.push(name.clone());
                format!("%{name} = {value};")
            }
            4 => format!("call_packed(\"do.it\", {});", self.expr(d)),
            5 => {
                let (value, a, b) = (self.local(), self.fresh(), self.dim_atom());
                self.locals.push(a.clone());
                format!("%{a} = match_shape({value}, ({b}, {b}));")
            }
            6 if self.globals > 0 => {
                let (x, n) = (self.local(), self.dim_atom());
                let name = self.fresh();
                self.locals.push(name.clone());
                format!("%{name} = call_tir(@prog, ({x},), shape({n}), dtype=float32);")
            }
            7 => {
                let (x, n) = (self.local(), self.dim_atom());
                let name = self.fresh();
                self.locals.push(name.clone());
                format!("%{name} = call_dps_packed(\"host.f\", ({x},), shape({n}), dtype=int32);")
            }
            _ => {
                let (x, y) = (self.local(), self.local());
                let (a, b) = (self.fresh(), self.fresh());
                self.locals.push(b.clone());
                format!(
                    "dataflow {{\n%{a} = add({x}, {y});\n%{b} = nn.relu(%{a});\noutput(%{b});\n}};"
                )
            }
        }
    }

    // Items.

    fn function(&mut self, index: usize) {
        self.locals.clear();
        let mut params = String::new();
        if self.rng.chance(40) {
            params = self.pick(&["[A]", "[A, B]", "[A: Type, s: Shape]"]).into();
            self.types = vec!["A".into()];
        }
        let dims = self.rng.chance(50);
        let mut list = Vec::new();
        if dims {
            self.dims = vec!["n".into(), "m".into()];
            list.push("%first: Tensor[(n, m), float32]".to_string());
            self.locals.push("first".into());
        }
        let rest = self.params();
        if !rest.is_empty() {
            list.push(rest);
        }
        if self.rng.chance(30) {
            list.push("global_symbol=\"g\", level=[1, 2], Inline=1".into());
        }
        let ret = if self.rng.chance(20) {
            " -> Tensor[_, float32] where Broadcast".into()
        } else if self.rng.chance(40) {
            format!(" -> {}", self.ty(2))
        } else {
            String::new()
        };
        let mut body = String::from("{\n");
        // Graph bindings are at the start of the body, visible to everything after them.
        for _ in 0..self.rng.below(4) {
            let value = self.expr(1);
            let _ = writeln!(body, "%{} = {value};", self.graph);
            self.graph += 1;
        }
        let inner = self.block(3);
        body += &inner[1..];
        let _ = writeln!(
            self.out,
            "def @f{index}{params}({}){ret} {body}\n",
            list.join(", ")
        );
        // Another function does not refer to them.
        self.graph = 0;
        self.types.clear();
        self.dims.clear();
    }

    fn data_types(&mut self) {
        let text = self.pick(&[
            "type Seq[A] {\n Empty, Cell(A, Seq[A]),\n}\nextern type Opaque\n",
            "data Seq<A> {\n Empty : () -> Seq[A]\n Cell : (A, Seq[A]) -> Seq[A]\n}\nextern type Opaque\n",
        ]);
        self.out += text;
    }

    /// Generates an expression file.
    fn expression(mut self) -> String {
        self.data_types();
        // Ends the type's item: an expression follows.
        self.out = self.out.trim_end().to_owned() + ";\n";
        for _ in 0..self.rng.below(3) {
            let (name, ty) = (self.fresh(), self.ty(1));
            let _ = writeln!(self.out, "free_var %{name}: {ty};");
            self.locals.push(name);
        }
        let body = self.block(3);
        let body = body.trim();
        self.out += body[1..body.len() - 1].trim();
        self.out
    }

    /// Generates a file.
    fn file(self) -> String {
        if self.seed % 5 == 4 {
            self.expression()
        } else {
            self.module()
        }
    }

    fn module(mut self) -> String {
        if self.rng.chance(70) {
            self.out += "#[version = \"0.0.5\"]\n";
        }
        self.data_types();
        if self.rng.chance(40) {
            self.out += "rel Flat(Tensor[(d, *rest), t]) -> Tensor[(d, prod(rest)), t];\n";
        }
        if self.rng.chance(40) {
            self.out += "op my.scale[s: Shape](%x: Tensor[s, float32], factor: float64 = 1.5) -> \
                         Tensor[s, float32] { compute %x * factor }\n";
            self.out += "op my.half[s: Shape, t: BaseType, u: BaseType](%x: Tensor[s, t], %y: Tensor[s, u]) -> \
                         Tensor[s, t] { compute select(%x > 0, 0.5, 1) + %x * t(%y) }\n";
            self.out += "op my.swap[n: ShapeVar, m: ShapeVar](%x: Tensor[(n, m), float32]) -> \
                         Tensor[(m, n), float32] { compute [%i, %j] => %x[%j, %i] }\n";
        }
        let mark = self.pick(&["", "parallel ", "unroll ", "vectorize(4) "]);
        let _ = writeln!(
            self.out,
            "prim_func @prog(%X: Buffer[(n,), float32], %Y: Buffer[(n,), float32]) {{\n{mark}for %i in grid(n) {{ \
             alloc %T: Buffer[(1,), float32]; %T[0] = exp(%X[%i]); if (%i < 3) {{ %Y[%i] = %T[0] + 1f; }} \
             else {{ %Y[%i] = max(%T[0], %X[%i]); }} }}\nfor %k, %j in grid(n, 4) {{ init {{ %Y[%k] = 0f; }} %Y[%k] += %X[%k]; }} }}"
        );
        let n = self.rng.below(3) + 1;
        for i in 0..n {
            self.globals = i + 1;
            self.function(i);
        }
        self.out
    }
}

fn read(text: &str, seed: u64) -> Module {
    let mut sources = SourceMap::new();
    let file = sources.add("test.relay", text.to_owned()).expect("it fits");
    let parsed = relax_syntax::parse(&file);
    let (module, found) =
        relax_resolve::resolve(&parsed.ast, &file, &relax_resolve::Options::default());
    let errors: Vec<String> = (parsed.diagnostics.iter().chain(found.iter()))
        .filter(|d| d.is_error())
        .map(|d| {
            let at = file.line_col(d.span().start);
            format!("{}:{}: {}", at.line, at.col, d.message)
        })
        .collect();
    assert!(errors.is_empty(), "seed {seed}: {errors:#?}\n{text}");
    module
}

fn write(module: &Module, style: Style, width: usize) -> String {
    let ast = module_to_ast(
        module,
        &PrintMode {
            style,
            ..PrintMode::default()
        },
    );
    let options = PrintOptions {
        style,
        width,
        types: false,
    };
    relax_syntax::print(&ast, &options)
}

/// The number of programs per test.
const PROGRAMS: u64 = 150;

#[test]
fn what_is_printed_reads_back_as_the_same_module() {
    for seed in 0..PROGRAMS {
        let text = Gen::new(seed).file();
        let module = read(&text, seed);
        let width = [1, 30, 80, 100, 1000][seed as usize % 5];
        let printed = write(&module, Style::Pretty, width);
        let again = read(&printed, seed);
        let op = |op| format!("{op:?}");
        let found = structural_difference(&module, &again, EqualOptions::default(), &op);
        assert_eq!(found, None, "seed {seed}\n{text}\n---\n{printed}");
        assert_eq!(write(&again, Style::Pretty, width), printed, "seed {seed}");
    }
}

/// Returns the tokens except those that formatting may add or drop.
fn tokens(text: &str) -> Vec<String> {
    let file = SourceMap::new()
        .add("test", text.to_owned())
        .expect("it fits");
    (lex(&file).tokens.iter())
        .filter(|t| !matches!(t.tok, Tok::Comma | Tok::Semi))
        .map(|t| file.slice(t.span()).trim_end().to_string())
        .collect()
}

/// Returns each comment with the number of tokens before it.
fn comments(text: &str) -> Vec<(usize, String)> {
    let file = SourceMap::new()
        .add("test", text.to_owned())
        .expect("it fits");
    let lexed = lex(&file);
    let kept: Vec<u32> = (lexed.tokens.iter())
        .filter(|t| !matches!(t.tok, Tok::Comma | Tok::Semi))
        .map(|t| t.start)
        .collect();
    (lexed.comments.iter())
        .map(|c| {
            let before = kept.partition_point(|&t| t < c.span.start);
            (before, file.slice(c.span).trim_end().to_string())
        })
        .collect()
}

/// Inserts comments between some tokens of a text.
fn commented(text: &str, rng: &mut Rng) -> String {
    let file = SourceMap::new()
        .add("test", text.to_owned())
        .expect("it fits");
    let mut out = String::new();
    let mut at = 0;
    let tokens = lex(&file).tokens;
    for (i, t) in tokens.iter().enumerate() {
        // After `//` and its operand, whether something is a comment depends on the line.
        let divides = (tokens[i.saturating_sub(2)..i].iter()).any(|t| t.tok == Tok::SlashSlash);
        if divides || !rng.chance(4) {
            continue;
        }
        let pos = (t.start - file.start) as usize;
        out.push_str(&text[at..pos]);
        at = pos;
        let comment = [
            format!("/* c{i} */"),
            format!(" // c{i}\n"),
            format!("\n// c{i}\n"),
            format!("\n\n/* c{i}\n   more */\n\n"),
        ];
        out.push_str(&comment[rng.below(comment.len())]);
    }
    out + &text[at..]
}

#[test]
fn formatting_keeps_tokens_and_comments_at_any_width() {
    for seed in 0..PROGRAMS {
        let mut rng = Rng::new(seed ^ 0xc0ffee);
        let text = commented(&Gen::new(seed).file(), &mut rng);
        let width = [1, 25, 60, 100, 500][rng.below(5)];
        let options = FmtOptions {
            width,
            upgrade: false,
        };
        let format = |text: &str| {
            let file = SourceMap::new()
                .add("test", text.to_owned())
                .expect("it fits");
            format_source(&file, &options).unwrap_or_else(|d| {
                let found: Vec<_> = d.iter().map(|d| d.message.clone()).collect();
                panic!("seed {seed}: {found:?}\n{text}")
            })
        };
        let once = format(&text);
        assert_eq!(tokens(&text), tokens(&once), "seed {seed}\n{text}");
        assert_eq!(
            comments(&text),
            comments(&once),
            "seed {seed}\n{text}\n---\n{once}"
        );
        assert_eq!(format(&once), once, "the second time, seed {seed}\n{text}");
    }
}

/// Damaged programs never cause a panic; a program that reads without errors round-trips.
#[test]
fn damaged_programs_are_answered() {
    for seed in 0..PROGRAMS {
        let mut rng = Rng::new(seed ^ 0xdead);
        let mut bytes = Gen::new(seed).file().into_bytes();
        for _ in 0..rng.below(6) + 1 {
            let at = rng.below(bytes.len());
            match rng.below(5) {
                0 => bytes[at] = rng.bits() as u8,
                1 => bytes.truncate(at.max(1)),
                2 => drop(bytes.remove(at)),
                3 => bytes.insert(at, b"(){}[]<>;,%@#\"/\0\xff"[rng.below(17)]),
                _ => {
                    let to = (at + rng.below(40)).min(bytes.len());
                    let piece = bytes[at..to].to_vec();
                    let place = rng.below(bytes.len());
                    bytes.splice(place..place, piece);
                }
            }
            if bytes.is_empty() {
                bytes.push(b'%');
            }
        }
        let text = relax_syntax::decode(bytes).text;
        let file = SourceMap::new().add("test", text).expect("it fits");
        let parsed = relax_syntax::parse(&file);
        let (module, found) =
            relax_resolve::resolve(&parsed.ast, &file, &relax_resolve::Options::default());
        for d in parsed.diagnostics.iter().chain(found.iter()) {
            let span = d.span();
            assert!(
                span.start >= file.start && span.end <= file.span().end,
                "seed {seed}"
            );
        }
        if !parsed.diagnostics.has_errors() && !found.has_errors() {
            write(&module, Style::Pretty, 80);
            write(&module, Style::Tvm, 80);
        }
        let _ = format_source(&file, &FmtOptions::default());
    }
}
