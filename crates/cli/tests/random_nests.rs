//! Random hand-written tensor programs: outputs of computed extents, inputs of extent `?`,
//! unwritten elements, booleans. Both engines compute the same or fail with the same message, also
//! with checked code.
#![cfg(feature = "native")]

use relax::{InferOptions, ReadOptions, Session};
use relax_cli::{evaluator, native};
use relax_codegen::{Host, Value};
use relax_tensor::{DType, Tensor};
use relax_testkit::{Rng, same};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

const EXTENTS: &[&str] = &["n", "n * 2", "n + 1", "n + m", "m", "4", "n // 2", "n * m"];
const TYPES: &[&str] = &["float32", "int32", "bool", "int8"];

struct Nest {
    random: Rng,
    loops: Vec<(String, String)>,
    names: usize,
}

impl Nest {
    fn pick(&mut self, of: &[&str]) -> String {
        (*self.random.pick(of)).to_owned()
    }

    /// Generates an index into an axis, usually in bounds.
    fn index(&mut self, extent: &str) -> String {
        let fitting: Vec<String> = (self.loops.iter())
            .filter(|l| l.1 == extent)
            .map(|l| l.0.clone())
            .collect();
        let any: Vec<String> = self.loops.iter().map(|l| l.0.clone()).collect();
        match self.random.below(10) {
            0 => "0".into(),
            1 if !any.is_empty() => format!("({} * 2) % ({extent})", self.random.pick(&any)),
            2 if !any.is_empty() => format!("min({}, {extent} - 1)", self.random.pick(&any)),
            3 if !any.is_empty() => self.random.pick(&any).clone(),
            4 if !fitting.is_empty() => format!("{extent} - 1 - {}", self.random.pick(&fitting)),
            _ if !fitting.is_empty() => self.random.pick(&fitting).clone(),
            _ if !any.is_empty() => format!("{} % ({extent})", self.random.pick(&any)),
            _ => "0".into(),
        }
    }

    fn value(&mut self, dtype: &str, out: Option<&str>) -> String {
        let index = self.index("n");
        let read = match (out, self.random.below(6)) {
            (Some(extent), 0) => {
                let i = self.index(extent);
                format!("%Y[{i}]")
            }
            _ => format!("%X[{index}]"),
        };
        let flag = {
            let i = self.index("m");
            format!("%B[{i}]")
        };
        match dtype {
            "bool" => match self.random.below(3) {
                0 => flag,
                1 if read.starts_with("%X") => format!("{read} < 0f"),
                _ => format!("!{flag}"),
            },
            "float32" => match self.random.below(4) {
                0 => format!("float32({flag})"),
                1 => format!("select({flag}, %X[{index}], 2f)"),
                _ => read,
            },
            _ => match self.random.below(2) {
                0 => format!("{dtype}({flag})"),
                _ => format!("{dtype}(%X[{index}] * 3f)"),
            },
        }
    }

    fn store(&mut self, extent: &str, dtype: &str, out: &mut String) {
        let own = (dtype == "float32").then_some(extent);
        let (i, v) = (self.index(extent), self.value(dtype, own));
        let store = format!("%Y[{i}] = {v};\n");
        if self.random.chance(30) {
            let cond = match self.loops.last() {
                Some((v, e)) if self.random.chance(50) => format!("{v} < {e}"),
                Some((v, _)) => format!("{v} % 2 == 0"),
                None => "n > 2".into(),
            };
            out.push_str(&format!("if ({cond}) {{\n{store}}}\n"));
        } else {
            out.push_str(&store);
        }
    }

    fn block(&mut self, extent: &str, dtype: &str, depth: usize, out: &mut String) {
        for _ in 0..1 + self.random.below(2) {
            if depth < 2 && self.random.chance(75) {
                let over = match self.random.chance(60) {
                    true => extent.to_owned(),
                    false => self.pick(&["n", "m", "4", "n // 2"]),
                };
                let mark = self.pick(&["", "", "", "vectorize(4) ", "parallel ", "unroll "]);
                let name = format!("%i{}", self.names);
                self.names += 1;
                out.push_str(&format!("{mark}for {name} in grid({over}) {{\n"));
                self.loops.push((name, over));
                self.block(extent, dtype, depth + 1, out);
                self.loops.pop();
                out.push_str("}\n");
            } else {
                self.store(extent, dtype, out);
            }
        }
    }
}

/// Generates a program with its inputs, and the output type of the call.
fn made(seed: u64) -> (String, Vec<Tensor>) {
    let mut nest = Nest {
        random: Rng::new(seed),
        loops: Vec::new(),
        names: 0,
    };
    let (extent, dtype) = (nest.pick(EXTENTS), nest.pick(TYPES));
    let mut body = String::new();
    nest.block(&extent, &dtype, 0, &mut body);
    let r = &mut nest.random;
    let (n, m) = (1 + r.below(9) as i64, 1 + r.below(9) as i64);
    let right = match &extent[..] {
        "n" => n,
        "n * 2" => n * 2,
        "n + 1" => n + 1,
        "n + m" => n + m,
        "m" => m,
        "n // 2" => n / 2,
        "n * m" => n * m,
        _ => 4,
    };
    let said = match r.chance(80) {
        true => right,
        false => r.below(20) as i64,
    };
    let of = |r: &mut Rng, n: i64| match r.chance(50) {
        true => "?".to_owned(),
        false => n.to_string(),
    };
    let (of_x, of_b) = (of(r, n), of(r, m));
    let text = format!(
        "prim_func @p(%X: Buffer[(n,), float32], %B: Buffer[(m,), bool], %Y: Buffer[({extent},), {dtype}]) {{\n\
         {body}}}\n\
         def @main(%x: Tensor[({of_x},), float32], %b: Tensor[({of_b},), bool]) {{\n  \
         let %z = exp(%x);\n  let %s = sum(%z * %z);\n  \
         (call_tir(@p, (%x, %b), shape({said}), dtype=\"{dtype}\"), %s)\n}}\n"
    );
    let x: Vec<f32> = (0..n)
        .map(|_| (r.unit() as f32 * 8.0 - 4.0).round())
        .collect();
    // Arbitrary bytes, as they may come from elsewhere.
    let b: Vec<u8> = (0..m).map(|_| *r.pick(&[0, 1, 2, 255])).collect();
    let flags = Tensor::from_bytes(DType::BOOL, &[m], &b).expect("a byte for each");
    (text, vec![Tensor::from_slice(&[n], &x), flags])
}

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => same(a, b),
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        _ => a == b,
    }
}

/// Returns a disagreement, if any; nothing if the program is rejected before it runs.
fn trouble(seed: u64, ran: &mut usize) -> Option<String> {
    let (text, inputs) = made(seed);
    let mut session = Session::new(ReadOptions::default());
    let (mut module, diagnostics) = session.read("nest.relay", text.clone().into_bytes());
    if diagnostics.has_errors() {
        return None;
    }
    let (typing, diagnostics) = relax::check(&mut module, &InferOptions::default());
    if diagnostics.has_errors() {
        return None;
    }
    *ran += 1;
    let entry = module.global("main").expect("programs have a main");
    let expected = evaluator::run(&module, &typing, entry, &inputs);
    let pipeline = ["O0", "O2"][seed as usize % 2];
    let typing = native::optimise(&mut session, &mut module, pipeline).expect("passes");
    let entry = module.global("main").expect("the pipeline keeps it");
    let mut lowered = match native::lower(&module, &typing, &[entry], &session.sources) {
        Ok(lowered) => lowered,
        Err(d) => return Some(format!("does not lower: {:?}\n{text}", d.iter().next())),
    };
    for checks in [false, true] {
        lowered.checks = checks;
        let jit = match native::jit(&lowered) {
            Ok(jit) => jit,
            Err(d) => return Some(format!("no code: {:?}\n{text}", d.iter().next())),
        };
        let found = Host::new(1).expect("memory").call(&jit, "main", &inputs);
        let fine = match (&expected, &found) {
            (Ok(a), Ok(b)) => match (a, b) {
                // Sums of floats may be reordered.
                (Value::Tuple(a), Value::Tuple(b)) => equal(&a[0], &b[0]),
                _ => false,
            },
            (Err(a), Err(b)) => b.to_string().contains(&a.message.to_string()),
            _ => false,
        };
        if !fine {
            return Some(format!(
                "{text}\n{inputs:?}\nevaluator: {expected:?}\nnative ({pipeline}, checks {checks}): {found:?}"
            ));
        }
    }
    None
}

#[test]
fn tensor_programs_agree_on_both_engines() {
    let count = number("RELAX_PROGRAMS").unwrap_or(if cfg!(debug_assertions) { 300 } else { 3000 });
    let from = number("RELAX_FROM").unwrap_or(0);
    let mut ran = 0;
    let failures: Vec<String> = (from..from + count)
        .filter_map(|seed| Some(format!("seed {seed}: {}", trouble(seed, &mut ran)?)))
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {ran} programs; the first:\n{}",
        failures.len(),
        failures
            .iter()
            .take(3)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
    assert!(
        ran as u64 > count / 4,
        "only {ran} of {count} programs are well formed"
    );
}
