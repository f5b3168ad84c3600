//! Helpers shared by the tests of this crate.

use relax_base::SourceMap;
use relax_infer::InferOptions;
use relax_interp::{Interp, Value};
use relax_tensor::Tensor;

/// Reads, checks and evaluates `@main`.
pub fn run(text: &str, inputs: &[Tensor]) -> Value {
    let mut map = SourceMap::new();
    let file = map.add("test.relay", text).expect("small");
    let parsed = relax_syntax::parse(&file);
    let messages = |d: &relax_base::Diagnostics| -> Vec<String> {
        d.iter()
            .map(|d| format!("{} {:?}", d.message, d.notes))
            .collect()
    };
    assert!(
        !parsed.diagnostics.has_errors(),
        "{text}\n{:?}",
        messages(&parsed.diagnostics)
    );
    let (mut module, diagnostics) = relax_resolve::resolve(&parsed.ast, &file, &Default::default());
    assert!(
        !diagnostics.has_errors(),
        "{text}\n{:?}",
        messages(&diagnostics)
    );
    let (typing, diagnostics) = relax_infer::infer(&mut module, &InferOptions::default());
    assert!(
        !diagnostics.has_errors(),
        "{text}\n{:?}",
        messages(&diagnostics)
    );
    let entry = module.global("main").expect("@main");
    let inputs = inputs.iter().cloned().map(Value::from).collect();
    match Interp::new(&module, &typing).run(entry, inputs) {
        Ok(value) => value,
        Err(d) => panic!("{text}\n{} {:?}", d.message, d.notes),
    }
}

/// Returns the numbers of all tensors in a value, in order.
pub fn numbers(value: &Value) -> Vec<f64> {
    let (mut out, mut work) = (Vec::new(), vec![value.clone()]);
    while let Some(v) = work.pop() {
        match (v.as_tensor(), v.fields()) {
            (Some(t), _) => out.extend((0..t.len()).map(|i| t.get_f64(i))),
            (None, Some(fields)) => work.extend(fields.iter().rev().cloned()),
            (None, None) => panic!("only data is looked at"),
        }
    }
    out
}
