//! Number literals, and the dense constants of TVM's documentation.

use relax_base::{Diagnostic, Span};
use relax_ir::{Expr, ExprId};
use relax_syntax::OldForm;
use relax_syntax::ast::{self, ExprKind, NumSuffix};
use relax_tensor::{DType, Tensor, TypeCode};

use super::Resolver;
use crate::codes;

/// The maximum size of a dense constant, in bytes.
const LARGEST: usize = 1 << 30;

/// Returns the element type of a literal suffix; `None` if it has none.
pub(crate) fn suffix_dtype(suffix: NumSuffix) -> Option<DType> {
    let new = |code, bits, known: &[u8]| known.contains(&bits).then(|| DType::new(code, bits));
    match suffix {
        NumSuffix::None => None,
        NumSuffix::F => Some(DType::F32),
        NumSuffix::I(bits) => new(TypeCode::Int, bits, &[8, 16, 32, 64]),
        NumSuffix::U(bits) => new(TypeCode::UInt, bits, &[8, 16, 32, 64]),
        NumSuffix::Float(bits) => new(TypeCode::Float, bits, &[16, 32, 64]),
        NumSuffix::Bf16 => Some(DType::BF16),
    }
}

/// Returns the suffix of literals of a type.
fn suffix(dtype: DType) -> String {
    match (dtype.code, dtype.bits) {
        (TypeCode::Float, 32) => "f".into(),
        (TypeCode::Float, bits) => format!("f{bits}"),
        (TypeCode::UInt, bits) => format!("u{bits}"),
        (TypeCode::Int, 32) => String::new(),
        (TypeCode::Int, bits) => format!("i{bits}"),
        _ => "bf16".into(),
    }
}

/// Returns whether a finite float overflows to infinity in a type.
fn overflows(dtype: DType, value: f64) -> bool {
    value.is_finite() && Tensor::scalar_f64(dtype, value).get_f64(0).is_infinite()
}

/// Returns whether an integer is representable in a type.
fn fits(dtype: DType, value: i64) -> bool {
    match dtype.int_range() {
        Some((least, most)) => (least..=most).contains(&i128::from(value)),
        None => !overflows(dtype, value as f64),
    }
}

impl Resolver<'_> {
    fn constant(&mut self, value: Tensor, plain: bool, span: Span) -> ExprId {
        let id = self.module.consts.push(value);
        self.module.literals.insert(id, plain);
        let span = self.at(span);
        self.module.add(Expr::Const(id), span)
    }

    /// Resolves a number or boolean.
    pub(crate) fn literal(&mut self, e: ast::ExprId) -> ExprId {
        let ast::Expr { mut kind, span } = self.ast.exprs[e];
        self.suffix_of_comment(&mut kind, span);
        let tensor = match kind {
            ExprKind::Bool(b) => {
                let t = Tensor::scalar_i64(DType::BOOL, b.into());
                let id = self.module.constant(t, Span::NONE);
                let place = self.at(span);
                if !place.is_none() {
                    self.module.spans.set(id, place);
                }
                return id;
            }
            ExprKind::Int { value, suffix } => {
                // Without a suffix the context decides; TVM uses int64 where int32 is too small.
                let dtype = match suffix {
                    NumSuffix::None if i32::try_from(value).is_ok() => Some(DType::I32),
                    NumSuffix::None => Some(DType::I64),
                    _ => suffix_dtype(suffix),
                };
                match dtype {
                    Some(d) if !fits(d, value) => Err(format!("{value} does not fit {d}")),
                    Some(d) => Ok((Tensor::scalar_i64(d, value), suffix)),
                    None => Err(format!("no element type has the suffix `{suffix}`")),
                }
            }
            ExprKind::Float { value, suffix } => {
                let dtype = match suffix {
                    NumSuffix::None if self.grad.is_some() => Some(DType::F64),
                    NumSuffix::None => Some(DType::F32),
                    _ => suffix_dtype(suffix),
                };
                match dtype {
                    Some(d) if overflows(d, value) => Err(format!("{value:e} does not fit {d}")),
                    Some(d) => Ok((Tensor::scalar_f64(d, value), suffix)),
                    None => Err(format!("no element type has the suffix `{suffix}`")),
                }
            }
            _ => unreachable!("a literal"),
        };
        match tensor {
            Ok((t, suffix)) => self.constant(t, suffix == NumSuffix::None, span),
            Err(message) => {
                self.error(Diagnostic::error(codes::LITERAL, span, message));
                self.error_expr(span)
            }
        }
    }

    /// Before 0.9, 64-bit numbers had no suffix; the type comment gives their type:
    /// `5 /* ty=int64 */`.
    fn suffix_of_comment(&mut self, kind: &mut ExprKind, span: Span) {
        let (ExprKind::Int { suffix, .. } | ExprKind::Float { suffix, .. }) = kind else {
            return;
        };
        let next = span.end.checked_sub(self.file.start);
        let rest = next.and_then(|at| self.file.text.get(at as usize..));
        let commented = rest.is_some_and(|text| text.starts_with(" /* ty="));
        if *suffix != NumSuffix::None || !commented {
            return;
        }
        match self.type_comment(span.end) {
            Some("int64") if matches!(kind, ExprKind::Int { .. }) => {
                self.numbered(kind, NumSuffix::I(64));
            }
            Some("float64") => self.numbered(kind, NumSuffix::Float(64)),
            _ => {}
        }
    }

    fn numbered(&mut self, kind: &mut ExprKind, to: NumSuffix) {
        match kind {
            ExprKind::Float { suffix, .. } => *suffix = to,
            ExprKind::Int { value, .. } if matches!(to, NumSuffix::Float(_)) => {
                *kind = ExprKind::Float {
                    value: *value as f64,
                    suffix: to,
                };
            }
            ExprKind::Int { suffix, .. } => *suffix = to,
            _ => {}
        }
    }

    /// Resolves `int64(3)`, the form of most constants in 0.5 and earlier.
    pub(crate) fn typed_literal(
        &mut self,
        callee: ast::ExprId,
        args: ast::List<ast::ExprId>,
        span: Span,
    ) -> Option<ExprId> {
        let name = self.plain_name(callee).filter(|_| args.len() == 1)?;
        if self.callees.contains_key(&name) {
            return None;
        }
        let dtype = self.dtype(name).filter(|d| d.lanes == 1)?;
        let tensor = match self.ast.exprs[self.ast.nth(args, 0)?].kind {
            ExprKind::Int { value, .. } if fits(dtype, value) => Tensor::scalar_i64(dtype, value),
            ExprKind::Float { value, .. } if dtype.is_float() && !overflows(dtype, value) => {
                Tensor::scalar_f64(dtype, value)
            }
            ExprKind::Bool(b) => Tensor::scalar_i64(dtype, b.into()),
            _ => return None,
        };
        let value = match dtype {
            DType::BOOL if tensor.get_i64(0) != 0 => "True".to_owned(),
            DType::BOOL => "False".to_owned(),
            d if d.is_float() => format!("{}{}", tensor.get_f64(0), suffix(d)),
            d => format!("{}{}", tensor.get_i64(0), suffix(d)),
        };
        self.old.push(OldForm::new(
            "a number written as a call of its type",
            span,
            value,
        ));
        let place = self.at(span);
        Some(self.module.constant(tensor, place))
    }

    /// Resolves `Constant(1, (10, 10), float32)`.
    pub(crate) fn dense_constant(&mut self, args: ast::List<ast::ExprId>, span: Span) -> ExprId {
        match self.dense(args) {
            Ok(t) => {
                let span = self.at(span);
                self.module.constant(t, span)
            }
            Err(message) => {
                let d = Diagnostic::error(codes::LITERAL, span, message)
                    .note("it is written `Constant(1, (10, 10), float32)`");
                self.error(d);
                self.error_expr(span)
            }
        }
    }

    fn dense(&mut self, args: ast::List<ast::ExprId>) -> Result<Tensor, &'static str> {
        const FORM: &str = "a dense constant has a number, a shape of numbers and an element type";
        let ast = self.ast;
        let (Some(value), Some(shape), Some(dtype), 3) = (
            ast.nth(args, 0),
            ast.nth(args, 1),
            ast.nth(args, 2),
            args.len(),
        ) else {
            return Err(FORM);
        };
        let dtype = self
            .plain_name(dtype)
            .and_then(|name| self.dtype(name))
            .ok_or(FORM)?;
        let extent = |e: ast::ExprId| match ast.exprs[e].kind {
            ExprKind::Int { value, .. } if value >= 0 => Ok(value),
            _ => Err(FORM),
        };
        let shape: Vec<i64> = match ast.exprs[shape].kind {
            ExprKind::Tuple(items) => ast.list(items).map(extent).collect::<Result<_, _>>()?,
            ExprKind::Paren(one, _) => vec![extent(one)?],
            _ => return Err(FORM),
        };
        let element = match ast.exprs[value].kind {
            ExprKind::Int { value, .. } if fits(dtype, value) => Tensor::scalar_i64(dtype, value),
            ExprKind::Float { value, .. } if !overflows(dtype, value) => {
                Tensor::scalar_f64(dtype, value)
            }
            ExprKind::Bool(b) => Tensor::scalar_i64(dtype, b.into()),
            ExprKind::Int { .. } | ExprKind::Float { .. } => {
                return Err("the number does not fit the element type");
            }
            _ => return Err(FORM),
        };
        let len = Tensor::byte_len(dtype, &shape).filter(|&len| len <= LARGEST);
        len.ok_or("the constant is larger than a gibibyte")?;
        let mut t = Tensor::zeros(dtype, &shape);
        let pattern = element.bytes();
        if pattern.iter().any(|&b| b != 0) {
            for chunk in t.bytes_mut().chunks_exact_mut(pattern.len()) {
                chunk.copy_from_slice(pattern);
            }
        }
        Ok(t)
    }
}
