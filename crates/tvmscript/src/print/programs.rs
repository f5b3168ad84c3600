//! Calls of tensor programs and of packed functions that write into given tensors.

use relax_ir::{AttrValue, Attrs, Expr, ExprId, GlobalKind, Shape, TensorType, Type};

use super::arguments::Part;
use super::calls::LONGEST;
use super::types::Place;
use super::{Printer, Stop};
use crate::strings;

impl Printer<'_> {
    /// Prints `R.call_tir` and `R.call_dps_packed`.
    pub(super) fn cross_level(
        &mut self,
        args: &[ExprId],
        attrs: &Attrs,
        out: &mut Vec<Part>,
    ) -> Result<(), Stop> {
        let m = self.m;
        let [program, inputs, shape] = args else {
            return Err(Stop::NotNormal);
        };
        match &m.exprs[*program] {
            Expr::Extern(name) if !self.is_item(*name) => {
                let mut text = String::from("R.call_dps_packed(");
                strings::quote(name.as_str(), &mut text);
                out.push(Part::Text(text));
            }
            Expr::Extern(_) | Expr::Global(_) => {
                out.push(Part::Text("R.call_tir(".into()));
                out.push(Part::Value(*program));
            }
            _ => {
                out.push(Part::Text("R.call_dps_packed(".into()));
                out.push(Part::Value(*program));
            }
        }
        out.push(Part::Text(", ".into()));
        let one = [*shape];
        let (shapes, several) = match &m.exprs[*shape] {
            Expr::Tuple(list) => (m.list(*list), true),
            _ => (&one[..], false),
        };
        let asked = match &m.exprs[*program] {
            Expr::Global(g) => match &m.globals[*g].kind {
                GlobalKind::Prim(p) => (p.inputs.len() + p.outputs.len()).checked_sub(shapes.len()),
                GlobalKind::Func(_) => None,
            },
            _ => None,
        };
        self.inputs(*inputs, asked, out)?;
        let dtype = attrs.get("dtype").unwrap_or(&AttrValue::None);
        let mut types = Vec::new();
        for (i, &s) in shapes.iter().enumerate() {
            let Expr::Shape(dims) = &m.exprs[s] else {
                return Err(Stop::NoForm("the shape of a result that is a value"));
            };
            let d = match dtype {
                AttrValue::Array(all) if all.len() == 1 => &all[0],
                AttrValue::Array(all) => all.get(i).unwrap_or(&AttrValue::None),
                one => one,
            };
            let dtype = match d {
                AttrValue::DType(d) => *d,
                AttrValue::Str(s) => s.parse().map_err(|_| Stop::NotKnown)?,
                _ => return Err(Stop::NotKnown),
            };
            let t = TensorType {
                shape: Shape::Dims(dims.clone()),
                dtype: dtype.into(),
            };
            types.push(self.tensor(&t, Place::Body)?);
        }
        let types = if several {
            format!("[{}]", types.join(", "))
        } else {
            types.concat()
        };
        out.push(Part::Text(format!(", out_ty={types})")));
        Ok(())
    }

    /// Prints the arguments of a program that takes `asked` of them, if that is known. TVM takes
    /// only a tuple that is written there: the name of one would be an argument.
    fn inputs(
        &mut self,
        inputs: ExprId,
        asked: Option<usize>,
        out: &mut Vec<Part>,
    ) -> Result<(), Stop> {
        let m = self.m;
        if let Expr::Tuple(_) = m.exprs[inputs] {
            out.push(Part::Value(inputs));
            return Ok(());
        }
        let declared = match m.exprs[inputs] {
            Expr::Var(v) => self.var_type(v),
            _ => None,
        };
        let ty = declared.or_else(|| self.types.and_then(|t| t.expr(inputs)));
        let fields = match ty.map(|t| &m.types[t]) {
            Some(Type::Tuple(fields)) => Some(fields.len()),
            Some(Type::Tensor(_)) => None,
            _ => asked.filter(|&n| n != 1),
        };
        let Some(fields) = fields else {
            out.push(Part::Text("(".into()));
            out.push(Part::Value(inputs));
            out.push(Part::Text(",)".into()));
            return Ok(());
        };
        let mut name = inputs;
        while let Expr::Proj { tuple, .. } = m.exprs[name] {
            name = tuple;
        }
        if fields > LONGEST || !matches!(m.exprs[name], Expr::Var(_)) {
            return Err(Stop::NotNormal);
        }
        out.push(Part::Text(
            if fields == 0 { "R.tuple(" } else { "(" }.into(),
        ));
        for i in 0..fields {
            out.push(Part::Value(inputs));
            let more = if i + 1 < fields {
                ", "
            } else if i == 0 {
                ","
            } else {
                ""
            };
            out.push(Part::Text(format!("[{i}]{more}")));
        }
        out.push(Part::Text(")".into()));
        Ok(())
    }
}
