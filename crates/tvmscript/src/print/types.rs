//! Types and dimensions.

use std::fmt::Write;

use relax_ir::{DTy, Shape, TensorType, Type, TypeId};
use relax_sym::{Atom, Dim, DimBuilder, DimError, DimOp};

use super::{Printer, Stop};

/// Types with longer texts are not printed: types share their components, texts cannot.
const LONGEST: usize = 1 << 18;

/// The context of a dimension, which decides how an expression is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a signature, where an expression is a string.
    Signature,
    /// In a body.
    Body,
}

struct Text<'p, 'm> {
    printer: &'p mut Printer<'m>,
    bad: bool,
}

impl DimBuilder for Text<'_, '_> {
    type Out = String;
    fn int(&mut self, value: i64) -> String {
        value.to_string()
    }
    fn atom(&mut self, atom: Atom) -> String {
        match atom {
            Atom::Var(v) => self.printer.dim_name(v),
            Atom::Infer(_) => {
                self.bad = true;
                String::new()
            }
        }
    }
    fn any(&mut self) -> String {
        self.bad = true;
        String::new()
    }
    fn bad(&mut self, _: DimError) -> String {
        self.bad = true;
        String::new()
    }
    fn op(&mut self, op: DimOp, mut lhs: String, rhs: String) -> String {
        let between = match op {
            DimOp::Add => " + ",
            DimOp::Sub => " - ",
            DimOp::Mul => " * ",
            DimOp::FloorDiv => " // ",
            DimOp::Mod => " % ",
            DimOp::Min => return format!("T.min({lhs}, {rhs})"),
            DimOp::Max => return format!("T.max({lhs}, {rhs})"),
        };
        lhs.push_str(between);
        lhs.push_str(&rhs);
        lhs
    }
    fn group(&mut self, inner: String) -> String {
        format!("({inner})")
    }
}

/// Returns the text of a type, unless it is too long.
fn fitting(text: String) -> Result<String, Stop> {
    match text.len() > LONGEST {
        true => Err(Stop::NoForm("a type with so many parts")),
        false => Ok(text),
    }
}

/// Searches for the maximum or minimum of two dimensions.
struct Choice;

impl DimBuilder for Choice {
    type Out = bool;
    fn int(&mut self, _: i64) -> bool {
        false
    }
    fn atom(&mut self, _: Atom) -> bool {
        false
    }
    fn any(&mut self) -> bool {
        false
    }
    fn bad(&mut self, _: DimError) -> bool {
        false
    }
    fn op(&mut self, op: DimOp, lhs: bool, rhs: bool) -> bool {
        lhs || rhs || matches!(op, DimOp::Min | DimOp::Max)
    }
    fn group(&mut self, inner: bool) -> bool {
        inner
    }
}

/// Returns whether a dimension is, or contains, the maximum or the minimum of others.
pub(super) fn chooses(d: &Dim) -> bool {
    d.build(&mut Choice)
}

impl Printer<'_> {
    /// Formats a dimension; `None` if it is unknown.
    pub(super) fn dim(&mut self, d: &Dim) -> Option<String> {
        if let Some(i) = d.as_const() {
            return Some(i.to_string());
        }
        if d.as_atom().is_none() && d.is_known() {
            let vars = d.free_vars();
            let plain = vars
                .iter()
                .all(|&v| self.dim_name(v) == self.m.dims[v].name.as_str());
            if plain
                && let Some(script) = &self.m.script
                && let Some(text) = script.dims.get(d)
            {
                return Some(text.to_string());
            }
        }
        let mut text = Text {
            printer: self,
            bad: false,
        };
        let out = d.build(&mut text);
        (!text.bad).then_some(out)
    }

    fn placed(&mut self, d: &Dim, place: Place) -> Option<String> {
        let text = self.dim(d)?;
        let plain = d.as_const().is_some() || d.as_atom().is_some();
        Some(if place == Place::Signature && !plain {
            format!("\"{text}\"")
        } else {
            text
        })
    }

    /// Formats dimensions in parentheses, with a comma after a single one; `None` if any is
    /// unknown.
    pub(super) fn dims(&mut self, dims: &[Dim], place: Place) -> Option<String> {
        let all: Option<Vec<String>> = dims.iter().map(|d| self.placed(d, place)).collect();
        Some(all?.join(", "))
    }

    pub(super) fn tensor(&mut self, t: &TensorType, place: Place) -> Result<String, Stop> {
        let mut parts = Vec::new();
        let mut rank = None;
        match &t.shape {
            Shape::Dims(dims) => match self.dims(dims, place) {
                Some(list) => parts.push(format!(
                    "({list}{})",
                    if dims.len() == 1 { "," } else { "" }
                )),
                None => rank = Some(dims.len()),
            },
            Shape::Unknown => {}
            Shape::Param(_) | Shape::Infer(_) => return Err(Stop::NotKnown),
        }
        match t.dtype {
            DTy::Known(d) => parts.push(format!("dtype=\"{d}\"")),
            DTy::Unknown => {}
            DTy::Param(_) | DTy::Infer(_) => return Err(Stop::NotKnown),
        }
        if let Some(n) = rank {
            parts.push(format!("ndim={n}"));
        }
        Ok(if parts.is_empty() {
            "R.Tensor".to_owned()
        } else {
            format!("R.Tensor({})", parts.join(", "))
        })
    }

    /// Formats a type. The nesting depth is bounded by that of a text's brackets.
    pub(super) fn ty(&mut self, id: TypeId, place: Place) -> Result<String, Stop> {
        let tensor = self.m.types.as_tensor(id).and_then(|t| t.shape.dims());
        // Extents that are numbers are written in one way everywhere.
        if !tensor.is_some_and(|dims| dims.iter().all(|d| d.as_const().is_some())) {
            return self.nested_type(id, place, 0);
        }
        if let Some(text) = self.tensors.get(&id) {
            return Ok(text.clone());
        }
        let text = self.nested_type(id, place, 0)?;
        self.tensors.insert(id, text.clone());
        Ok(text)
    }

    fn nested_type(&mut self, id: TypeId, place: Place, depth: u32) -> Result<String, Stop> {
        if depth > crate::DEPTH {
            return Err(Stop::NoForm("a type that nests so deep"));
        }
        let m = self.m;
        let list = |this: &mut Self, items: &[TypeId]| -> Result<String, Stop> {
            let all: Result<Vec<String>, Stop> = items
                .iter()
                .map(|&t| this.nested_type(t, place, depth + 1))
                .collect();
            Ok(all?.join(", "))
        };
        Ok(match &m.types[id] {
            Type::Tensor(t) => self.tensor(t, place)?,
            Type::Shape(Shape::Dims(dims)) => match self.dims(dims, place) {
                Some(text) => format!("R.Shape([{text}])"),
                None => format!("R.Shape(ndim={})", dims.len()),
            },
            Type::Shape(_) => "R.Shape(ndim=-1)".to_owned(),
            Type::Tuple(items) if items.is_empty() => "R.Tuple".to_owned(),
            Type::Tuple(items) => fitting(format!("R.Tuple({})", list(self, items)?))?,
            Type::Object => "R.Any".to_owned(),
            Type::Func(f) if f.params.is_empty() => {
                let args = list(self, &f.args)?;
                let ret = self.nested_type(f.ret, place, depth + 1)?;
                let comma = if f.args.len() == 1 { "," } else { "" };
                fitting(format!("R.Callable(({args}{comma}), {ret}, True)"))?
            }
            Type::Adt(adt, args) if args.is_empty() && m.adts[*adt].opaque => {
                let name = m.adts[*adt].name;
                if !name.as_str().starts_with("T.") {
                    return Err(Stop::NoForm("an opaque type"));
                }
                name.to_string()
            }
            Type::Func(_) | Type::Param(_) => return Err(Stop::NoForm("a type parameter")),
            Type::Adt(..) => return Err(Stop::NoForm("a data type")),
            Type::Ref(_) => return Err(Stop::NoForm("a reference")),
            Type::Infer(_) | Type::Error => return Err(Stop::NotKnown),
        })
    }

    /// Formats a tuple of items.
    pub(super) fn tuple_text(items: &[String]) -> String {
        let mut out = String::from("(");
        let _ = write!(out, "{}", items.join(", "));
        if items.len() == 1 {
            out.push(',');
        }
        out.push(')');
        out
    }
}
