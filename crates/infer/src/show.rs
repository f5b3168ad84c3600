//! Types and dimensions in the text format, for messages.

use relax_ir::{DTy, Shape, Type, TypeId};
use relax_sym::Dim;

use crate::unifier::Unifier;
use crate::unknown::Lit;

/// Types nested deeper than this are shown as `…`.
const DEPTH: usize = 8;
/// Once a text is this long, the rest of the type is shown as `…`.
const LENGTH: usize = 400;

impl Unifier<'_> {
    /// Formats a type; very deep or long ones are truncated.
    pub fn show_type(&self, t: TypeId) -> String {
        let mut out = String::new();
        self.write_type(t, DEPTH, &mut out);
        out
    }

    /// Formats a dimension.
    pub fn show_extent(&self, d: &Dim) -> String {
        let d = self.resolve_dim(d);
        if d.has_infer() && d.as_atom().is_some() {
            return "_".into();
        }
        let text = d.display(&|v| self.dim_name(v)).to_string();
        if !d.has_infer() {
            return text;
        }
        // Unknowns have no names; they are printed as `?dim` and a number.
        let mut parts = text.split("?dim");
        let mut out = parts.next().unwrap_or_default().to_string();
        for part in parts {
            out.push('_');
            out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        out
    }

    /// Returns the exception for two dimensions that are equal only in empty tensors; empty for
    /// others.
    pub fn unless_empty(&self, a: &Dim, b: &Dim) -> String {
        if !self.only_empty(a, b) {
            return String::new();
        }
        let mut vars: Vec<_> = [a.free_vars(), b.free_vars()].concat();
        vars.sort_unstable();
        vars.dedup();
        let names: Vec<String> = vars.iter().map(|v| self.dim_name(*v)).collect();
        match &names[..] {
            [one] => format!(", unless {one} is 0"),
            several => format!(", unless one of {} is 0", several.join(", ")),
        }
    }

    /// Formats a shape.
    pub fn show_shape(&self, s: &Shape) -> String {
        match self.resolve_shape(s) {
            Shape::Dims(dims) => {
                let list: Vec<String> = dims.iter().map(|d| self.show_extent(d)).collect();
                match list.len() {
                    1 => format!("({},)", list[0]),
                    _ => format!("({})", list.join(", ")),
                }
            }
            Shape::Param(p) => self.types.params[p].name.to_string(),
            Shape::Unknown | Shape::Infer(_) => "_".into(),
        }
    }

    /// Formats an element type.
    pub fn show_dtype(&self, d: DTy) -> String {
        match self.head_dtype(d) {
            DTy::Known(d) => d.to_string(),
            DTy::Param(p) => self.types.params[p].name.to_string(),
            DTy::Unknown => "_".into(),
            DTy::Infer(v) => match self.unknowns[relax_base::Id::index(v)].lit {
                Lit::Int => "int32".into(),
                Lit::Float => "float32".into(),
                Lit::No => "_".into(),
            },
        }
    }

    fn write_list(&self, ts: &[TypeId], depth: usize, out: &mut String) {
        for (i, &t) in ts.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            if out.len() > LENGTH {
                out.push('…');
                return;
            }
            self.write_type(t, depth, out);
        }
    }

    /// Formats a type; recurses at most [`DEPTH`] deep.
    fn write_type(&self, t: TypeId, depth: usize, out: &mut String) {
        let t = self.head(t);
        if depth == 0 || out.len() > LENGTH {
            out.push('…');
            return;
        }
        match &self.types[t] {
            Type::Tensor(t) => {
                let dtype = self.show_dtype(t.dtype);
                match self.head_shape(&t.shape) {
                    Shape::Dims(d) if d.is_empty() && dtype != "_" => out.push_str(&dtype),
                    shape => {
                        out.push_str(&format!("Tensor[{}, {dtype}]", self.show_shape(&shape)));
                    }
                }
            }
            Type::Shape(Shape::Unknown) => out.push_str("Shape"),
            Type::Shape(s) => out.push_str(&format!("Shape[{}]", self.show_shape(s))),
            Type::Tuple(fields) => {
                out.push('(');
                self.write_list(fields, depth - 1, out);
                out.push_str(if fields.len() == 1 { ",)" } else { ")" });
            }
            Type::Func(f) => {
                out.push_str("fn ");
                if !f.params.is_empty() || !f.dims.is_empty() {
                    let params = f.params.iter().map(|&p| {
                        let p = &self.types.params[p];
                        match p.kind {
                            relax_ir::Kind::Type => p.name.to_string(),
                            kind => format!("{}: {kind}", p.name),
                        }
                    });
                    let list: Vec<String> = params.collect();
                    if !list.is_empty() {
                        out.push_str(&format!("[{}]", list.join(", ")));
                    }
                }
                out.push('(');
                self.write_list(&f.args, depth - 1, out);
                out.push_str(") -> ");
                self.write_type(f.ret, depth - 1, out);
                for (i, c) in f.constraints.iter().enumerate() {
                    out.push_str(if i == 0 { " where " } else { ", " });
                    out.push_str(&self.constraint_name(c.rel));
                }
            }
            Type::Adt(adt, args) => {
                out.push_str(self.m.adts[*adt].name.as_str());
                if !args.is_empty() {
                    out.push('[');
                    self.write_list(args, depth - 1, out);
                    out.push(']');
                }
            }
            Type::Ref(t) => {
                out.push_str("ref(");
                self.write_type(*t, depth - 1, out);
                out.push(')');
            }
            Type::Object => out.push_str("Object"),
            Type::Param(p) => out.push_str(self.types.params[*p].name.as_str()),
            Type::Infer(_) => out.push('_'),
            Type::Error => out.push_str("<error>"),
        }
    }

    /// Returns the name of a relation in a `where` clause.
    pub fn constraint_name(&self, rel: relax_ir::RelRef) -> String {
        match rel {
            relax_ir::RelRef::User(id) => self.m.relations[id].name.to_string(),
            relax_ir::RelRef::Builtin(name) => name.to_string(),
            relax_ir::RelRef::Op(op, _) => self.operator_name(op).to_string(),
        }
    }

    /// Returns the name of a built-in operator or an `op` item.
    pub fn operator_name(&self, op: relax_ir::OpId) -> &'static str {
        let item = || self.m.user_op(op).map_or("?", |item| item.name.as_str());
        relax_ops::registry().get(op).map_or_else(item, |d| d.name)
    }
}
