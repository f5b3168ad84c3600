//! Printing: TVM's text byte for byte, and round trips to equal modules in both styles.

use relax_base::SourceMap;
use relax_ir::{EqualOptions, Module, structural_difference};
use relax_resolve::print::{PrintMode, module_to_ast};
use relax_resolve::{Options, resolve};
use relax_syntax::{PrintOptions, Style, parse};

fn read(text: &str) -> Module {
    let mut sources = SourceMap::new();
    let file = sources.add("test.relay", text.to_owned()).expect("it fits");
    let parsed = parse(&file);
    let messages: Vec<_> = parsed
        .diagnostics
        .iter()
        .map(|d| d.message.clone())
        .collect();
    assert!(!parsed.diagnostics.has_errors(), "{messages:?}\n{text}");
    let (module, diagnostics) = resolve(&parsed.ast, &file, &Options::default());
    let messages: Vec<_> = diagnostics.iter().map(|d| d.message.clone()).collect();
    assert!(!diagnostics.has_errors(), "{messages:?}\n{text}");
    assert_eq!(module.verify(), Ok(()), "{text}");
    module
}

fn write(module: &Module, style: Style) -> String {
    let ast = module_to_ast(
        module,
        &PrintMode {
            style,
            ..PrintMode::default()
        },
    );
    let options = PrintOptions {
        style,
        types: false,
        ..PrintOptions::default()
    };
    relax_syntax::print(&ast, &options)
}

fn round_trip(text: &str) {
    let module = read(text);
    for style in [Style::Tvm, Style::Pretty] {
        let printed = write(&module, style);
        let again = read(&printed);
        let op = |op| format!("{op:?}");
        let found = structural_difference(&module, &again, EqualOptions::default(), &op);
        assert_eq!(found, None, "{printed}");
        assert_eq!(write(&again, style), printed);
    }
}

/// Checks that TVM's style prints exactly this text.
fn tvm(text: &str) {
    let module = read(text);
    assert_eq!(write(&module, Style::Tvm).trim_end(), text.trim_end());
    round_trip(text);
}

#[test]
fn graph_bindings_are_numbered_in_tvms_order() {
    tvm(r#"#[version = "0.0.5"]
def @main(%x: Tensor[(3), float32], %y: Tensor[(3), float32]) {
  %0 = exp(%x);
  %1 = tanh(%y);
  %2 = add(%0, 1f);
  %3 = add(%1, %0);
  %4 = (%2, %3);
  %5 = %4.0;
  add(%5, %5)
}
"#);
}

#[test]
fn chains_of_lets_flatten_and_nest_as_in_tvm() {
    tvm(r#"#[version = "0.0.5"]
def @main(%x: float32) {
  let %a = exp(%x);
  %0 = tanh(%a);
  let %b: float32 = add(%0, %0);
  %1 = exp(%b);
  %3 = (
    let %c = add(%1, %x);
    %2 = exp(%c);
    (%2, %c)
  );
  (%b, %3)
}
"#);
}

#[test]
fn scopes_of_branches_and_clauses() {
    tvm(r#"#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}

def @main(%c: bool, %l: List[float32]) -> float32 {
  if (%c) {
    match? (%l) {
      Cons(%h, Cons(_, %rest)) => {
        %0 = Nil;
        %1 = (%h, %0);
        %1.0
      },
      Cons(%h1, _) => {
        %h1
      },
    }
  } else {
    %2 = fn (%y: float32) -> float32 {
      exp(%y)
    };
    %2(0f)
  }
}
"#);
}

#[test]
fn definitions_are_sorted_and_names_are_unique() {
    let module = read("def @b(%x: int32) { %x } def @a(%x: int32) { let %x = %x; %x }");
    assert_eq!(
        write(&module, Style::Tvm),
        r#"#[version = "0.0.5"]
def @a(%x: int32) {
  let %x1 = %x;
  %x1
}

def @b(%x2: int32) {
  %x2
}
"#
    );
}

#[test]
fn constants_go_to_the_metadata_section() {
    let mut module = read("def @main() { add(1u8, 2u8) }");
    let c = module.consts.ids().next().expect("a constant");
    module.consts[c] = relax_tensor::Tensor::from_slice(&[2], &[1.5f32, f32::NAN]);
    let text = write(&module, Style::Tvm);
    let expected = "  add(meta[relay.Constant][0], meta[relay.Constant][1])\n";
    assert!(text.contains(expected), "{text}");
    let again = read(&text);
    let op = |op| format!("{op:?}");
    let found = structural_difference(&module, &again, EqualOptions::default(), &op);
    assert_eq!(found, None, "{text}");
    assert!(write(&module, Style::Pretty).contains("add(meta[relay.Constant][0], 2u8)"));
}

#[test]
fn constants_of_all_element_types_read_back() {
    use relax_tensor::{DType, Tensor};
    let families = ["int", "uint", "float", "bfloat"];
    let named = |bits: u32| families.map(|f| [1, 2, 65_535].map(|l| format!("{f}{bits}x{l}")));
    let names = (1..=255).flat_map(named).flatten();
    let all: Vec<DType> = names.filter_map(|n| n.parse().ok()).collect();
    // Seven sizes of integers of either kind, three of floats, one of bfloats.
    assert_eq!(all.len(), 3 * (7 + 7 + 3 + 1));
    for dtype in all {
        let mut module = read("def @main() { 1u8 }");
        let c = module.consts.ids().next().expect("a constant");
        let bytes = vec![1; Tensor::byte_len(dtype, &[2, 1]).expect("a size")];
        let tensor = Tensor::from_bytes(dtype, &[2, 1], &bytes).expect("a tensor");
        module.consts[c] = tensor.clone();
        let again = read(&write(&module, Style::Pretty));
        let c = again.consts.ids().next().expect("a constant");
        assert_eq!(again.consts[c], tensor, "{dtype}");
    }
}

#[test]
fn the_width_of_dimensions_survives() {
    tvm(r#"#[version = "0.0.5"]
def @main(%x: Tensor[(10i64, 1), float32]) -> (Tensor[(10, 1i64), float32], int32) {
  (%x, 1)
}
"#);
}

#[test]
fn everything_reads_back() {
    round_trip(
        r#"
type List[A] { Cons(A, List[A]), Nil }
rel Flatten(Tensor[(d, *rest), t]) -> Tensor[(d, prod(rest)), t];
op my.scale[s: Shape](%x: Tensor[s, float32], factor: float64 = 1.0) -> Tensor[s, float32] {
  compute [%i] => %x[%i] * factor
}
op my.rows(%x: Tensor[(a, b), float32]) -> Tensor[(a,), float32] {
  compute [%i] => sum(%k, b, %x[%i, %k])
}
prim_func @mm(%A: Buffer[(n, k), float32], %B: Buffer[(k, m), float32], %C: Buffer[(n, m), float32]) {
  for %i, %j, %k in grid(n, m, k) {
    init { %C[%i, %j] = 0f; }
    %C[%i, %j] = %C[%i, %j] + %A[%i, %k] * %B[%k, %j];
  }
  for %i in grid(n) {
    alloc %T: Buffer[(64,), float32];
    if (%i < 3) { %C[%i, 0] = exp(%C[%i, 0]) * (1f + 2f / %A[%i, 0]); }
    else { %C[%i, 0] = select(%i < 2, 1f, float32(%i)); }
  }
}
def @id[A](%x: A, Primitive=1, Compiler="my \"c\"") -> A { %x }
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(n * m + 1, ?), float32], %u: Tensor[_, _]) {
  %lv: Tensor[(n, 4), float32] = nn.relu(%x);
  dataflow {
    %lv0 = match_shape(%w, (k, j));
    %gv0 = concatenate((%lv, %lv));
    output(%gv0);
  };
  call_packed("custom_inplace_update", %gv0);
  let %f = fn (%y: List[float32]) { match (%y) { Cons(%h, _) => { %h }, Nil => { 2.5f } } };
  let %r = ref(1u8);
  let %z = (let %q = 1i64; %q);
  let %v = ref_write(%r, 2u8);
  let %t = match_cast(%u, Tensor[(j2, 3), float16]);
  (%f(Nil), ref_read(%r), (%gv0,), shape(n * 4, m // 2), @id(%z), inff, -nan)
}
"#,
    );
}

#[test]
fn expression_files_stay_expressions() {
    round_trip(
        "free_var %x: Tensor[(3), float32];\nfree_var %unused: int32;\n%0 = exp(%x);\nadd(%0, %0)\n",
    );
}

#[test]
fn depth_is_data() {
    let mut text = String::from("#[version = \"0.0.5\"]\ndef @main(%x: float32) {\n");
    for i in 0..20_000 {
        text.push_str(&format!(
            "  let %x{} = exp(%x{});\n",
            i + 1,
            if i == 0 { String::new() } else { i.to_string() }
        ));
    }
    text.push_str("  %x20000\n}\n");
    tvm(&text);
    let mut text = String::from("#[version = \"0.0.5\"]\ndef @main(%x: bool) {\n");
    for i in 0..2_000 {
        text.push_str(&format!("{}if (%x) {{\n", "  ".repeat(i + 1)));
    }
    text.push_str(&format!("{}1\n", "  ".repeat(2_001)));
    for i in (0..2_000).rev() {
        let pad = "  ".repeat(i + 1);
        text.push_str(&format!("{pad}}} else {{\n{pad}  0\n{pad}}}\n"));
    }
    text.push_str("}\n");
    tvm(&text);
}
