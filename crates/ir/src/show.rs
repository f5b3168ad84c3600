//! Abbreviated printing of types, dimensions and expressions for messages.

use std::fmt::Write;

use relax_sym::Dim;

use crate::{DTy, Expr, ExprId, Kind, Module, OpId, RelRef, Shape, Type, TypeId, TypeParamId};

/// The maximum length of a type or expression in a message.
const MAX: usize = 400;

/// A pending piece of output.
enum Piece {
    Text(&'static str),
    Type(TypeId),
}

impl Module {
    /// Formats a dimension in the text format, `n * 4`.
    pub fn show_dim(&self, dim: &Dim) -> String {
        dim.display(&|v| match self.dims.get(v) {
            Some(info) => info.name.to_string(),
            None => format!("{v:?}"),
        })
        .to_string()
    }

    /// Formats a shape in the text format, `(n, 4)`.
    pub fn show_shape(&self, shape: &Shape) -> String {
        match shape {
            Shape::Dims(dims) => {
                let mut out = String::from("(");
                for (i, d) in dims.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    out.push_str(&self.show_dim(d));
                }
                if dims.len() == 1 {
                    out.push(',');
                }
                out.push(')');
                out
            }
            Shape::Unknown | Shape::Infer(_) => "_".into(),
            Shape::Param(p) => self.show_param(*p),
        }
    }

    /// Formats an element type in the text format.
    pub fn show_dtype(&self, dtype: DTy) -> String {
        match dtype {
            DTy::Known(d) => d.to_string(),
            DTy::Unknown | DTy::Infer(_) => "_".into(),
            DTy::Param(p) => self.show_param(p),
        }
    }

    fn show_param(&self, p: TypeParamId) -> String {
        match self.types.params.get(p) {
            Some(info) => info.name.to_string(),
            None => format!("{p:?}"),
        }
    }

    /// Formats a type in the text format, truncated if it is long. Inference variables print as
    /// `_`.
    pub fn show_type(&self, ty: TypeId) -> String {
        let mut out = String::new();
        let mut stack = vec![Piece::Type(ty)];
        while let Some(piece) = stack.pop() {
            if out.len() > MAX {
                out.push('…');
                break;
            }
            match piece {
                Piece::Text(t) => out.push_str(t),
                Piece::Type(t) => self.show_type_step(t, &mut out, &mut stack),
            }
        }
        out
    }

    fn show_type_step(&self, ty: TypeId, out: &mut String, stack: &mut Vec<Piece>) {
        let list = |stack: &mut Vec<Piece>, items: &[TypeId], close| {
            stack.push(Piece::Text(close));
            for (i, &t) in items.iter().enumerate().rev() {
                stack.push(Piece::Type(t));
                if i > 0 {
                    stack.push(Piece::Text(", "));
                }
            }
        };
        match &self.types[ty] {
            Type::Tensor(t) => match &t.shape {
                Shape::Dims(d) if d.is_empty() && t.dtype != DTy::Unknown => {
                    out.push_str(&self.show_dtype(t.dtype));
                }
                shape => {
                    let (shape, dtype) = (self.show_shape(shape), self.show_dtype(t.dtype));
                    let _ = write!(out, "Tensor[{shape}, {dtype}]");
                }
            },
            Type::Shape(Shape::Unknown) => out.push_str("Shape"),
            Type::Shape(s) => {
                let _ = write!(out, "Shape[{}]", self.show_shape(s));
            }
            Type::Tuple(fields) => {
                out.push('(');
                list(stack, fields, if fields.len() == 1 { ",)" } else { ")" });
            }
            Type::Func(f) => {
                out.push_str("fn ");
                self.show_func_params(f, out);
                out.push('(');
                if let Some(first) = f.constraints.first() {
                    stack.push(Piece::Text(match first.rel {
                        RelRef::User(r) => self.relations[r].name.as_str(),
                        RelRef::Builtin(name) => name.as_str(),
                        RelRef::Op(..) => "the operator's relation",
                    }));
                    stack.push(Piece::Text(" where "));
                }
                stack.push(Piece::Type(f.ret));
                list(stack, &f.args, ") -> ");
            }
            Type::Adt(adt, args) => {
                out.push_str(self.adts[*adt].name.as_str());
                if !args.is_empty() {
                    out.push('[');
                    list(stack, args, "]");
                }
            }
            Type::Ref(t) => {
                out.push_str("ref(");
                list(stack, &[*t], ")");
            }
            Type::Object => out.push_str("Object"),
            Type::Param(p) => out.push_str(&self.show_param(*p)),
            Type::Infer(_) => out.push('_'),
            Type::Error => out.push_str("<error>"),
        }
    }

    fn show_func_params(&self, f: &crate::FuncType, out: &mut String) {
        if f.params.is_empty() {
            return;
        }
        out.push('[');
        for (i, &p) in f.params.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            out.push_str(&self.show_param(p));
            match self.types.params.get(p).map(|p| p.kind) {
                None | Some(Kind::Type) => {}
                Some(kind) => {
                    let _ = write!(out, ": {kind}");
                }
            }
        }
        out.push(']');
    }

    /// Formats an expression in short: its head and the kinds of its operands. `op` names built-in
    /// operators, which only the registry knows.
    pub fn show_expr(&self, id: ExprId, op: &dyn Fn(OpId) -> String) -> String {
        match &self.exprs[id] {
            Expr::Call { callee, args, .. } => {
                let args: Vec<_> = self
                    .list(*args)
                    .iter()
                    .map(|&a| self.show_head(a, op))
                    .collect();
                format!("{}({})", self.show_head(*callee, op), args.join(", "))
            }
            Expr::Tuple(fields) => {
                let fields = self.list(*fields).iter();
                let fields: Vec<_> = fields.map(|&a| self.show_head(a, op)).collect();
                let comma = if fields.len() == 1 { "," } else { "" };
                format!("({}{comma})", fields.join(", "))
            }
            Expr::Proj { tuple, index } => format!("{}.{index}", self.show_head(*tuple, op)),
            Expr::Let { var, value, .. } => {
                format!(
                    "let %{} = {}",
                    self.vars[*var].name,
                    self.show_head(*value, op)
                )
            }
            _ => self.show_head(id, op),
        }
    }

    fn show_head(&self, id: ExprId, op: &dyn Fn(OpId) -> String) -> String {
        match &self.exprs[id] {
            Expr::Var(v) => format!("%{}", self.vars[*v].name),
            Expr::Global(g) => format!("@{}", self.globals[*g].name),
            Expr::Op(id) => match self.user_op(*id) {
                Some(user) => user.name.to_string(),
                None => op(*id),
            },
            Expr::Ctor(c) => self.ctors[*c].name.to_string(),
            Expr::Extern(name) => format!("call_packed({:?})", name.as_str()),
            Expr::Const(c) => {
                let t = &self.consts[*c];
                match (t.is_scalar(), t.dtype().is_float()) {
                    (true, true) => format!("{}{}", t.get_f64(0), t.dtype()),
                    (true, false) => format!("{}{}", t.get_i64(0), t.dtype()),
                    (false, _) => format!("constant of {t:?}"),
                }
            }
            Expr::Tuple(f) => format!("a tuple of {}", f.len()),
            Expr::Proj { index, .. } => format!("a projection .{index}"),
            Expr::Func(f) => format!("fn with {} parameters", self.funcs[*f].params.len()),
            Expr::Call { callee, .. } => match &self.exprs[*callee] {
                Expr::Call { .. } | Expr::Func(_) => "a call".into(),
                _ => format!("{}(…)", self.show_head(*callee, op)),
            },
            Expr::Let { var, .. } => format!("let %{}", self.vars[*var].name),
            Expr::If { .. } => "if".into(),
            Expr::Match { clauses, .. } => format!("match with {} clauses", clauses.len()),
            Expr::RefNew(_) => "ref(…)".into(),
            Expr::RefRead(_) => "ref_read(…)".into(),
            Expr::RefWrite(..) => "ref_write(…)".into(),
            Expr::Shape(dims) => {
                let dims: Vec<_> = dims.iter().map(|d| self.show_dim(d)).collect();
                format!("shape({})", dims.join(", "))
            }
            Expr::MatchShape { .. } => "match_shape(…)".into(),
            Expr::MatchCast { ty, .. } => format!("match_cast(…, {})", self.show_type(*ty)),
            Expr::Dataflow { .. } => "dataflow { … }".into(),
            Expr::Error => "<error>".into(),
        }
    }
}
