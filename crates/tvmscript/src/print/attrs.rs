//! Values of attributes, and constants.

use relax_ir::AttrValue;
use relax_tensor::{DType, Tensor};

use super::{Printer, Stop};
use crate::strings;

/// Whether an element type is printed in the position of a type's name, or of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum As {
    /// `"float32"`.
    Name,
    /// `R.dtype("float32")`.
    Value,
}

impl Printer<'_> {
    pub(super) fn attr(&mut self, v: &AttrValue, dtypes: As, out: &mut String) -> Result<(), Stop> {
        match v {
            AttrValue::None => out.push_str("None"),
            AttrValue::Bool(b) => out.push_str(if *b { "True" } else { "False" }),
            AttrValue::Int(i) => out.push_str(&i.to_string()),
            AttrValue::Float(x) => strings::float(*x, out),
            AttrValue::Str(s) => strings::quote(s, out),
            AttrValue::DType(d) if d.is_void() => out.push_str("None"),
            AttrValue::DType(d) if dtypes == As::Value => {
                out.push_str(&format!("R.dtype(\"{d}\")"))
            }
            AttrValue::DType(d) => out.push_str(&format!("\"{d}\"")),
            AttrValue::Dim(d) => {
                out.push_str(&self.dim(d).ok_or(Stop::NoForm("an unknown extent"))?)
            }
            AttrValue::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    self.attr(item, dtypes, out)?;
                }
                out.push(']');
            }
            AttrValue::Dict(pairs) => match &pairs[..] {
                [(name, value)]
                    if name.as_str().contains('.')
                        && (name.as_str().starts_with("T.") || name == "R.str") =>
                {
                    out.push_str(name.as_str());
                    out.push('(');
                    match value {
                        AttrValue::Float(x)
                            if name.as_str().starts_with("T.int")
                                || name.as_str().starts_with("T.uint") =>
                        {
                            out.push_str(&format!("{x:.0}"));
                        }
                        AttrValue::Float(x) if name == "T.bool" => {
                            out.push_str(if *x == 0.0 { "False" } else { "True" })
                        }
                        AttrValue::Float(x) if !x.is_finite() => {
                            let text = if x.is_nan() {
                                "nan"
                            } else if *x > 0.0 {
                                "inf"
                            } else {
                                "-inf"
                            };
                            strings::quote(text, out);
                        }
                        other => self.attr(other, dtypes, out)?,
                    }
                    out.push(')');
                }
                _ => {
                    out.push('{');
                    for (i, (name, value)) in pairs.iter().enumerate() {
                        if i > 0 {
                            out.push_str(", ");
                        }
                        strings::quote(name.as_str(), out);
                        out.push_str(": ");
                        self.attr(value, dtypes, out)?;
                    }
                    out.push('}');
                }
            },
            AttrValue::Attr(_) => {
                return Err(Stop::NoForm("an attribute that stands for another one"));
            }
            AttrValue::Meta(key, i) => {
                if self.m.script.as_ref().is_none_or(|s| s.metadata.is_none()) {
                    return Err(Stop::NoForm("an object of Relay's metadata section"));
                }
                self.metadata = true;
                out.push_str("metadata[");
                strings::quote(key.as_str(), out);
                out.push_str(&format!("][{i}]"));
            }
        }
        Ok(())
    }

    /// Prints `R.const(…)`.
    pub(super) fn constant(&mut self, t: &Tensor, out: &mut String) {
        out.push_str("R.const(");
        let shape = t.shape();
        if shape.is_empty() {
            number(t, 0, out);
        } else if t.is_empty() {
            empty(shape, out);
        } else {
            nested(t, out);
        }
        out.push_str(&format!(", \"{}\")", t.dtype()));
    }
}

/// Prints a tensor without elements: lists nested as deep as its shape, up to the extent that is 0.
fn empty(shape: &[i64], out: &mut String) {
    let mut text = String::from("[]");
    let zero = shape.iter().position(|&n| n == 0).unwrap_or(0);
    for &n in shape[..zero].iter().rev() {
        let items = vec![text.as_str(); n.max(0) as usize];
        text = format!("[{}]", items.join(", "));
    }
    out.push_str(&text);
}

/// Prints nested lists, element by element.
fn nested(t: &Tensor, out: &mut String) {
    let shape = t.shape();
    for i in 0..t.len() {
        // The number of lists that begin here: those whose size divides the number of elements
        // before this one.
        let mut block = 1;
        let mut opens = 0;
        for &n in shape.iter().rev() {
            block *= n as usize;
            if !i.is_multiple_of(block) {
                break;
            }
            opens += 1;
        }
        if i > 0 {
            out.push_str(&"]".repeat(opens));
            out.push_str(", ");
        }
        out.push_str(&"[".repeat(opens));
        number(t, i, out);
    }
    out.push_str(&"]".repeat(shape.len()));
}

fn number(t: &Tensor, i: usize, out: &mut String) {
    let d: DType = t.dtype();
    if d.is_bool() {
        out.push_str(if t.get_i64(i) != 0 { "True" } else { "False" });
    } else if d.is_float() {
        strings::float(t.get_f64(i), out);
    } else if d == DType::U64 {
        out.push_str(&(t.get_i64(i) as u64).to_string());
    } else {
        out.push_str(&t.get_i64(i).to_string());
    }
}

/// Returns whether a value is the one that a rule names.
pub(super) fn same(a: &AttrValue, b: &AttrValue) -> bool {
    a == b || matches!((a.as_bool(), b), (Some(x), AttrValue::Bool(y)) if x == *y)
}
