//! Runs an operator's computation by its registry entry.

#![allow(dead_code)] // Each test file uses its part.

use relax_ir::{AttrValue, Attrs};
use relax_ops::{Default, OpDef, Te, TensorInfo, registry};
use relax_tensor::{DType, Tensor};

/// Creates a tensor of any element type from numbers.
pub fn t(dtype: DType, shape: &[i64], elements: &[f64]) -> Tensor {
    let mut x = Tensor::zeros(dtype, shape);
    assert_eq!(
        x.len(),
        elements.len(),
        "as many elements as the shape says"
    );
    for (i, v) in elements.iter().enumerate() {
        if dtype.is_float() {
            x.set_f64(i, *v);
        } else {
            x.set_i64(i, *v as i64);
        }
    }
    x
}
/// A `float32` tensor.
pub fn f(shape: &[i64], elements: &[f64]) -> Tensor {
    t(DType::F32, shape, elements)
}
/// An `int32` tensor.
pub fn i(shape: &[i64], elements: &[f64]) -> Tensor {
    t(DType::I32, shape, elements)
}
/// An `int64` tensor.
pub fn l(shape: &[i64], elements: &[f64]) -> Tensor {
    t(DType::I64, shape, elements)
}
/// A list of integers.
pub fn ints(items: &[i64]) -> AttrValue {
    AttrValue::ints(items)
}
/// A string.
pub fn text(s: &str) -> AttrValue {
    AttrValue::Str(s.into())
}

/// Returns all elements as numbers.
pub fn numbers(x: &Tensor) -> Vec<f64> {
    (0..x.len())
        .map(|i| {
            if x.dtype().is_float() {
                x.get_f64(i)
            } else {
                x.get_i64(i) as f64
            }
        })
        .collect()
}

fn default(d: Default) -> AttrValue {
    match d {
        Default::Required | Default::None => AttrValue::None,
        Default::Int(v) => AttrValue::Int(v),
        Default::Float(v) => AttrValue::Float(v),
        Default::Bool(v) => AttrValue::Bool(v),
        Default::Str(v) => AttrValue::Str(v.into()),
        Default::DType(v) => AttrValue::DType(v.parse().unwrap_or(DType::VOID)),
        Default::Ints(v) => AttrValue::ints(v),
        Default::Floats(v) => AttrValue::array(v.iter().map(|x| AttrValue::Float(*x))),
    }
}

fn complete(op: &OpDef, given: &[(&str, AttrValue)]) -> Attrs {
    for (name, _) in given {
        assert!(
            op.attr(name).is_some(),
            "{} has no attribute {name}",
            op.name
        );
    }
    (op.attrs.iter())
        .map(|a| {
            let own = given.iter().find(|(n, _)| *n == a.name);
            (
                a.name.into(),
                own.map_or_else(|| default(a.default), |(_, v)| v.clone()),
            )
        })
        .collect()
}

/// The shape information that a program is built with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Known {
    /// All extents.
    Static,
    /// Only ranks.
    Ranks,
}

/// Runs an operator. `args` holds the tensors of each argument (several for a tuple); `wanted`
/// gives element types and shapes of the outputs, which the caller of a program knows from its
/// type.
pub fn run(
    name: &str,
    given: &[(&str, AttrValue)],
    args: &[&[Tensor]],
    wanted: &[Tensor],
    known: Known,
) -> Result<Vec<Tensor>, String> {
    let op = registry().find(name).and_then(|id| registry().get(id));
    let op = op.unwrap_or_else(|| panic!("no operator {name}"));
    let attrs = complete(op, given);
    let info = |x: &Tensor, known: bool| TensorInfo {
        dtype: x.dtype(),
        shape: x.shape().iter().map(|n| known.then_some(*n)).collect(),
    };
    // Extents, and tuples of indices, have known lengths, which determine ranks.
    let small = |x: &Tensor| x.dtype().is_integral() && x.len() < 8;
    let all = known == Known::Static;
    let inputs: Vec<Vec<TensorInfo>> = (args.iter())
        .map(|a| a.iter().map(|x| info(x, all || small(x))).collect())
        .collect();
    let fixed = all && !op.hooks.data_dependent_shape;
    let outs: Vec<TensorInfo> = wanted.iter().map(|x| info(x, fixed)).collect();
    let consts = vec![None; args.len()];
    let mut te = Te::new(name, &inputs, consts, &attrs, &outs);
    op.compute.ok_or("no computation")?(&mut te).map_err(|e| e.0)?;
    let program = te.finish();
    let flat: Vec<Tensor> = args.iter().flat_map(|a| a.iter().cloned()).collect();
    let shapes: Vec<Vec<i64>> = wanted.iter().map(|w| w.shape().to_vec()).collect();
    relax_loops::execute_for(&program, &flat, Some(&shapes)).map_err(|e| format!("{e:?}"))
}

/// Asserts that an operator gives `wanted`, built with all extents known and with ranks only.
#[track_caller]
pub fn gives(name: &str, given: &[(&str, AttrValue)], args: &[&[Tensor]], wanted: &[Tensor]) {
    for known in [Known::Static, Known::Ranks] {
        let got = match run(name, given, args, wanted, known) {
            Ok(got) => got,
            Err(e) => panic!("{name} ({known:?}): {e}"),
        };
        assert_eq!(got.len(), wanted.len(), "{name}: number of outputs");
        for (g, w) in got.iter().zip(wanted) {
            assert_eq!(
                (g.dtype(), g.shape()),
                (w.dtype(), w.shape()),
                "{name} ({known:?})"
            );
            let (a, b) = (numbers(g), numbers(w));
            let near = |(a, b): (&f64, &f64)| {
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-5 + 1e-5 * b.abs()
            };
            assert!(
                a.iter().zip(&b).all(near),
                "{name} ({known:?}): {a:?}, not {b:?}"
            );
        }
    }
}
