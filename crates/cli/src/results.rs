//! The output of `relax-run --outputs`.

use std::fmt::Write as _;
use std::path::Path;

use relax_codegen::Value;
use relax_tensor::{DType, Tensor};

use crate::formats::Format;
use crate::layout::plain;
use crate::parts::{Part, Typed, parts};
use crate::show::{self, Extent};
use crate::stop::Stop;
use crate::{output, save};

/// The formats of results.
pub const FORMATS: &[Format] = &[
    Format::Npz,
    Format::Npy,
    Format::Safetensors,
    Format::Text,
    Format::Json,
];

/// The array that records the constructors of a result.
const CONSTRUCTORS: &str = "constructors";

/// Writes a result to a file. Arrays are its tensors in order, `out0`, `out1`, …; if it has data
/// types other than lists and options of tensors, `constructors` has the tags of their constructors
/// in pre-order, so that nothing is lost.
///
/// # Errors
/// The file cannot be written, or the format cannot represent the result.
pub fn write(path: &Path, format: Format, typed: &Typed<'_>) -> Result<(), Stop> {
    match format {
        Format::Text => {
            let text = show::value(typed, Extent::Whole) + "\n";
            output::write(path, text.as_bytes())
        }
        Format::Json => output::write(path, json(typed).as_bytes()),
        _ => {
            let leaves = leaves(typed.value).ok_or_else(|| {
                let ty = typed.module.show_type(typed.ty);
                format!(
                    "a result of type {ty} is not made of tensors alone: .txt and .json hold any"
                )
            })?;
            let tensors = leaves.tensors.into_iter().enumerate();
            let mut named: Vec<_> = tensors.map(|(i, t)| (format!("out{i}"), t)).collect();
            if leaves.adts && !plain(typed.module, typed.ty) {
                let count = leaves.constructors.len() as i64;
                let numbers = Tensor::from_slice(&[count], &leaves.constructors);
                named.push((CONSTRUCTORS.to_owned(), numbers));
            }
            save::arrays(path, format, &named)
        }
    }
}

/// The tensors of a value in order, and its constructors' tags.
#[derive(Default)]
struct Leaves {
    tensors: Vec<Tensor>,
    constructors: Vec<i32>,
    adts: bool,
}

/// Returns `None` if the value contains anything else.
fn leaves(value: &Value) -> Option<Leaves> {
    let mut out = Leaves::default();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Tensor(t) => out.tensors.push(t.clone()),
            Value::Tuple(fields) => open.extend(fields.iter().rev()),
            Value::Adt(tag, fields) => {
                out.adts = true;
                out.constructors.push(i32::try_from(*tag).ok()?);
                open.extend(fields.iter().rev());
            }
            Value::Opaque(_) => return None,
        }
    }
    Some(out)
}

/// Returns a result as JSON: tuples become lists, tensors have their type, constructors their name.
fn json(typed: &Typed<'_>) -> String {
    let mut out = String::new();
    parts(typed, &mut |part| match part {
        Part::Tensor(t) => tensor(t, &mut out),
        Part::Opaque(what) => {
            let _ = write!(out, "{{\"opaque\": {}}}", quoted(what));
        }
        Part::Open(None, _) => out.push('['),
        Part::Open(Some(name), _) => {
            let name = quoted(&name);
            let _ = write!(out, "{{\"constructor\": {name}, \"fields\": [");
        }
        Part::Between => out.push_str(", "),
        Part::Close(None, _) => out.push(']'),
        Part::Close(Some(_), _) => out.push_str("]}"),
    });
    out.push('\n');
    out
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn tensor(t: &Tensor, out: &mut String) {
    let dtype = quoted(&t.dtype().to_string());
    let _ = write!(
        out,
        "{{\"dtype\": {dtype}, \"shape\": {:?}, \"data\": ",
        t.shape()
    );
    elements(t, out);
    out.push('}');
}

/// Prints the elements, nested like the axes.
fn elements(t: &Tensor, out: &mut String) {
    let rank = t.shape().len();
    if t.is_empty() {
        out.push_str("[]");
        return;
    }
    // The number of elements in a list of each axis.
    let sizes: Vec<usize> = (0..rank)
        .map(|axis| t.shape()[axis..].iter().product::<i64>() as usize)
        .collect();
    for i in 0..t.len() {
        let begins = sizes.iter().filter(|&&n| i % n == 0).count();
        let ends = sizes.iter().filter(|&&n| (i + 1) % n == 0).count();
        if i > 0 {
            out.push_str(", ");
        }
        out.extend(std::iter::repeat_n('[', begins));
        element(t, i, out);
        out.extend(std::iter::repeat_n(']', ends));
    }
}

/// Prints an element exactly. JSON has no NaN or infinities: the words that other tools accept are
/// used.
fn element(t: &Tensor, i: usize, out: &mut String) {
    let dtype = t.dtype();
    let _ = if dtype.is_bool() {
        write!(out, "{}", t.get_i64(i) != 0)
    } else if dtype == DType::U64 {
        write!(out, "{}", t.get_i64(i) as u64)
    } else if !dtype.is_float() {
        write!(out, "{}", t.get_i64(i))
    } else {
        match t.get_f64(i) {
            x if x.is_nan() => write!(out, "\"NaN\""),
            x if x.is_infinite() && x > 0.0 => write!(out, "\"Infinity\""),
            x if x.is_infinite() => write!(out, "\"-Infinity\""),
            x if dtype == DType::F64 => write!(out, "{x:?}"),
            x => write!(out, "{:?}", x as f32),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_nest_as_their_axes_do() {
        let shown = |t: Tensor| {
            let mut out = String::new();
            elements(&t, &mut out);
            out
        };
        assert_eq!(
            shown(Tensor::from_slice(
                &[2, 2],
                &[1.5f32, f32::NAN, -0.0, f32::INFINITY]
            )),
            "[[1.5, \"NaN\"], [-0.0, \"Infinity\"]]"
        );
        assert_eq!(shown(Tensor::scalar_f64(DType::F32, 0.1)), "0.1");
        assert_eq!(shown(Tensor::zeros(DType::I8, &[2, 0])), "[]");
        assert_eq!(shown(Tensor::scalar_i64(DType::BOOL, 1)), "true");
    }
}
