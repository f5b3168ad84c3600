//! Programs that machines write: thousands of parameters, bindings, branches, fields or
//! constructors in one function. They compile and compute what they say, as they stand and
//! optimised.
#![cfg(feature = "native")]

use std::fmt::Write as _;

use relax::{InferOptions, ReadOptions, Session};
use relax_cli::native;
use relax_codegen::{Host, Value};
use relax_tensor::Tensor;

/// Returns what `@main` of a text gives natively, behind a pipeline.
fn run(text: &str, pipeline: &str, inputs: &[Tensor]) -> Value {
    let mut session = Session::new(ReadOptions::default());
    let (mut module, diagnostics) = session.read("test.relay", text.as_bytes().to_vec());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    let (_, diagnostics) = relax::check(&mut module, &InferOptions::default());
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    let typing = native::optimise(&mut session, &mut module, pipeline).expect("it optimises");
    let main = module.global("main").expect("a main");
    let jit = native::lower(&module, &typing, &[main], &session.sources)
        .and_then(|lowered| native::jit(&lowered))
        .expect("it compiles");
    let host = Host::new(1).expect("memory");
    host.call(&jit, "main", inputs).expect("it runs")
}

/// Holds a program's results against numbers, at -O0 and -O2.
fn gives(text: &str, inputs: &[Tensor], wanted: &[f64]) {
    for pipeline in ["O0", "native2"] {
        let value = run(text, pipeline, inputs);
        let fields: Vec<&Value> = match &value {
            Value::Tuple(fields) => fields.iter().collect(),
            one => vec![one],
        };
        let numbers: Vec<f64> = (fields.iter())
            .map(|f| match f {
                Value::Tensor(t) => t.get_f64(0),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(numbers == wanted, "{pipeline}: {numbers:?}");
    }
}

fn float(x: f32) -> Tensor {
    Tensor::from_slice(&[], &[x])
}

fn int(x: i32) -> Tensor {
    Tensor::from_slice(&[], &[x])
}

#[test]
fn a_sum_of_thousands_of_scalars() {
    const N: usize = 2_200;
    let params: Vec<String> = (0..N).map(|k| format!("%x{k}: float32")).collect();
    let mut text = format!("def @main({}) -> float32 {{\n", params.join(", "));
    for k in 1..N {
        let before = match k {
            1 => "%x0".to_owned(),
            _ => format!("%s{}", k - 1),
        };
        let _ = writeln!(text, "  %s{k} = add({before}, %x{k});");
    }
    let _ = writeln!(text, "  %s{}\n}}", N - 1);
    let inputs: Vec<Tensor> = (0..N).map(|k| float((k % 7) as f32)).collect();
    let sum: usize = (0..N).map(|k| k % 7).sum();
    gives(&text, &inputs, &[sum as f64]);
}

#[test]
fn thousands_of_bindings() {
    const N: usize = 5_000;
    let mut text = "def @main(%a0: int32) -> int32 {\n".to_owned();
    for k in 1..=N {
        let _ = writeln!(text, "  let %a{k} = add(%a{}, {});", k - 1, k % 5);
    }
    let _ = writeln!(text, "  %a{N}\n}}");
    let sum: usize = (1..=N).map(|k| k % 5).sum();
    gives(&text, &[int(3)], &[sum as f64 + 3.0]);
}

#[test]
fn branches_in_branches() {
    const N: usize = 1_200;
    let mut text = "def @main(%x: int32) -> int32 {\n".to_owned();
    for k in 0..N {
        let _ = writeln!(text, "if (%x == {k}) {{ {} }} else {{", 3 * k + 1);
    }
    let _ = writeln!(text, "0 {}\n}}", "}".repeat(N));
    gives(&text, &[int(1_100)], &[3_301.0]);
    gives(&text, &[int(-1)], &[0.0]);
}

#[test]
fn a_tuple_of_thousands_of_fields() {
    const N: usize = 2_500;
    let types = vec!["int32"; N].join(", ");
    let fields: Vec<String> = (0..N).map(|k| format!("%x + {k}")).collect();
    let fields = fields.join(", ");
    let text = format!("def @main(%x: int32) -> ({types}) {{\n  ({fields})\n}}\n");
    let wanted: Vec<f64> = (0..N).map(|k| k as f64 + 5.0).collect();
    gives(&text, &[int(5)], &wanted);
}

#[test]
fn a_match_over_thousands_of_constructors() {
    const N: usize = 2_500;
    let mut text = "type T {\n".to_owned();
    for k in 0..N {
        let _ = writeln!(text, "  C{k}(int32),");
    }
    text.push_str("}\ndef @pick(%t: T) -> int32 {\n  match (%t) {\n");
    for k in 0..N {
        let _ = writeln!(text, "    C{k}(%x) => %x + {k},");
    }
    let last = N - 1;
    let _ = write!(
        text,
        "  }}\n}}\ndef @main(%x: int32) -> (int32, int32) {{ (@pick(C{last}(%x)), @pick(C7(%x))) }}\n"
    );
    gives(&text, &[int(100)], &[100.0 + last as f64, 107.0]);
}
