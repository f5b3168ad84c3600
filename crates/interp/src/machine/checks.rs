//! Checks of values against types and dimensions that inference left to run time.

use relax_base::{Diagnostic, Span};
use relax_infer::CheckKind;
use relax_ir::{Expr, ExprId, Shape, Type};
use relax_sym::Dim;

use super::Result;
use crate::types::{Dims, Misfit, eval, match_dims, match_type};
use crate::value::Value;
use crate::{Interp, codes};

/// The subject of a cast or match, in messages.
const VALUE: &str = "the value";

impl Interp<'_> {
    pub(super) fn misfit<T>(&self, span: Span, what: &str, misfit: Misfit) -> Result<T> {
        Err(Box::new(match misfit {
            Misfit::Dim(axis, found, wanted, dim) => {
                let mut which = format!("axis {axis}");
                if dim.as_const().is_none() {
                    which.push_str(&format!(", {},", self.m.show_dim(&dim)));
                }
                if what != VALUE {
                    which = format!("{what}: {which}");
                }
                let text = format!("{which} should be {wanted}, but is {found}");
                Diagnostic::error(codes::DIMENSION, span, text)
            }
            Misfit::Other(found, wanted) => {
                let text = format!("{what} is {found}, where {wanted} is expected");
                Diagnostic::error(codes::TYPE, span, text)
            }
        }))
    }

    pub(super) fn dim(&self, dims: &Dims, e: ExprId, dim: &Dim) -> Result<i64> {
        match eval(dims, dim) {
            Some(v) => Ok(v),
            None => {
                let shown = self.m.show_dim(dim);
                self.error(
                    codes::UNBOUND,
                    e,
                    format!("the dimension `{shown}` has no value here"),
                )
            }
        }
    }

    pub(super) fn match_value(&self, e: ExprId, value: &Value, dims: &mut Dims) -> Result<()> {
        let result = match &self.m.exprs[e] {
            Expr::MatchCast { ty, .. } => match_type(self.m, dims, value, *ty),
            Expr::MatchShape { dims: wanted, .. } => match value {
                Value::Tensor(t) => match_dims(dims, t.shape(), wanted),
                Value::Shape(s) => match_dims(dims, s, wanted),
                _ => Err(Misfit::Other(
                    value.kind().into(),
                    "a tensor or a shape".into(),
                )),
            },
            _ => Ok(()),
        };
        result.or_else(|m| self.misfit(self.span(e), VALUE, m))
    }

    pub(super) fn check(&self, e: ExprId, value: &Value, dims: &mut Dims) -> Result<()> {
        for check in self.typing.checks_of(e) {
            match &check.kind {
                CheckKind::Equal(a, b) | CheckKind::Broadcast(a, b) => {
                    let (Some(x), Some(y)) = (eval(dims, a), eval(dims, b)) else {
                        // An extent that only the value determines; its program checks it.
                        continue;
                    };
                    // 0 and 1 broadcast to 0, where the type gives the maximum of both.
                    let one = matches!(check.kind, CheckKind::Broadcast(..)) && x.min(y) == 1;
                    if x != y && !one {
                        let (a, b) = (self.m.show_dim(a), self.m.show_dim(b));
                        let text = format!("`{a}` is {x} and `{b}` is {y}, but they must be equal");
                        return self.error(codes::DIMENSION, e, text);
                    }
                }
                CheckKind::HasType(ty) => {
                    let looked_at = matches!(self.m.exprs[e], Expr::MatchCast { .. });
                    if !looked_at && let Err(misfit) = match_type(self.m, dims, value, *ty) {
                        return self.misfit(self.span(e), VALUE, misfit);
                    }
                }
                CheckKind::HasShape(ty) => {
                    let (Type::Shape(Shape::Dims(wanted)), found) = (
                        &self.m.types[*ty],
                        match value {
                            Value::Tensor(t) => t.shape(),
                            Value::Shape(s) => &s[..],
                            _ => continue,
                        },
                    ) else {
                        continue;
                    };
                    if let Err(misfit) = match_dims(dims, found, wanted) {
                        return self.misfit(self.span(e), VALUE, misfit);
                    }
                }
            }
        }
        Ok(())
    }
}
