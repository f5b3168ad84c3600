//! Resolution of types to interned types.

use relax_base::{Diagnostic, Id, Span, Symbol};
use relax_ir::{AdtId, DTy, FuncType, Kind, Shape, TensorType, Type, TypeId, TypeInfer};
use relax_syntax::OldForm;
use relax_syntax::ast::{self, TypeExprKind};

use super::function::Binders;
use super::scope::{Mark, TypeName};
use super::{DimMode, Resolver};
use crate::codes;

/// A step of the traversal of a type.
enum Step {
    Look(ast::TypeId),
    /// Create the type; its components are the results from this index on.
    Finish(ast::TypeId, u32),
    /// Create a function type and leave its scope.
    FinishFn(Box<FinishFn>),
}

const _: () = assert!(std::mem::size_of::<Step>() <= 16);

/// A function type whose components are being resolved.
struct FinishFn {
    ty: ast::TypeId,
    base: usize,
    mark: Mark,
    binders: Binders,
    dims: usize,
    mode: DimMode,
}

impl Resolver<'_> {
    /// Resolves an annotation; `None` for `_`.
    pub(crate) fn annotation(&mut self, t: ast::TypeId) -> Option<TypeId> {
        match self.ast.types[t].kind {
            TypeExprKind::Hole => None,
            TypeExprKind::Meta(_) => None,
            _ => Some(self.full_type(t)),
        }
    }

    /// Resolves a type; a nested `_` becomes an inference variable.
    pub(crate) fn full_type(&mut self, t: ast::TypeId) -> TypeId {
        if let Some(ty) = self.flat_type(t) {
            return ty;
        }
        let mut steps = vec![Step::Look(t)];
        let mut done: Vec<TypeId> = Vec::new();
        while let Some(step) = steps.pop() {
            let ty = match step {
                Step::Look(t) => match self.flat_type(t) {
                    Some(ty) => ty,
                    None => {
                        self.type_parts(t, &mut steps, done.len());
                        continue;
                    }
                },
                Step::Finish(t, base) => {
                    let ty = self.finish_type(t, &done[base as usize..]);
                    done.truncate(base as usize);
                    ty
                }
                Step::FinishFn(whole) => {
                    let FinishFn {
                        ty,
                        base,
                        mark,
                        binders,
                        dims,
                        mode,
                    } = *whole;
                    self.scopes.leave(mark);
                    self.dim_mode = mode;
                    let mut bound = binders.dims;
                    bound.extend(self.new_dims.drain(dims..));
                    let ty = self.finish_fn_type(ty, &done[base..], binders.params, bound);
                    done.truncate(base);
                    ty
                }
            };
            done.push(ty);
        }
        done.pop().expect("the walk leaves one type")
    }

    /// Resolves a type argument of a call, or the type of a type file: a type, or a shape if it has
    /// the form of one (`f<(10, 10)>`).
    pub(crate) fn type_arg(&mut self, t: ast::TypeId) -> TypeId {
        let ast = self.ast;
        let is_dim = |r: &Self, d: ast::TypeId| match ast.types[d].kind {
            TypeExprKind::Int { .. }
            | TypeExprKind::Any
            | TypeExprKind::Binary { .. }
            | TypeExprKind::Neg(_) => true,
            TypeExprKind::Name(name) => matches!(r.scopes.type_name(name), Some(TypeName::Dim(_))),
            _ => false,
        };
        let shape = match ast.types[t].kind {
            TypeExprKind::Tuple { items, .. } => {
                !items.is_empty() && ast.list(items).all(|d| is_dim(self, d))
            }
            TypeExprKind::Name(name) => match self.scopes.type_name(name) {
                Some(TypeName::Param(p)) => {
                    let kind = self.module.types.params[p].kind;
                    if kind == Kind::BaseType {
                        return self.module.types.scalar(DTy::Param(p));
                    }
                    kind == Kind::Shape
                }
                _ => false,
            },
            _ => false,
        };
        if !shape {
            return self.full_type(t);
        }
        match self.shape(t) {
            Some(shape) => self.module.types.intern(Type::Shape(shape)),
            None => self.error_type(),
        }
    }

    /// Resolves a type without component types.
    fn flat_type(&mut self, t: ast::TypeId) -> Option<TypeId> {
        let ast = self.ast;
        let ast::TypeExpr { kind, span } = ast.types[t];
        Some(match kind {
            TypeExprKind::Error => self.error_type(),
            TypeExprKind::Hole => self.unknown_type(),
            TypeExprKind::Meta(_) => self.unknown_type(),
            TypeExprKind::Name(name) => self.type_by_name(name, span),
            TypeExprKind::Apply { head, args } => {
                let TypeExprKind::Name(name) = ast.types[head].kind else {
                    return Some(self.no_type(span, "only a name can be applied to arguments"));
                };
                match name.as_str() {
                    "Tensor" => self.tensor_type(args, span),
                    "Shape" => self.shape_type(args, span),
                    "Buffer" => {
                        self.no_type(span, "`Buffer` is a type of tensor programs (`prim_func`)")
                    }
                    _ if args.is_empty() => self.type_by_name(name, span),
                    // In that case its arguments do not matter.
                    _ if !self.is_type_name(name) && name != "Tuple" => {
                        self.unknown_type_name(name, ast.types[head].span)
                    }
                    _ => return None,
                }
            }
            TypeExprKind::Tuple { .. } | TypeExprKind::Fn { .. } | TypeExprKind::Ref(_) => {
                return None;
            }
            TypeExprKind::Any | TypeExprKind::Int { .. } => {
                self.no_type(span, "a dimension stands where a type is expected")
            }
            TypeExprKind::Binary { .. } | TypeExprKind::Neg(_) => self.no_type(
                span,
                "a dimension expression stands where a type is expected",
            ),
            TypeExprKind::Call { .. } => self.no_type(
                span,
                "type arguments stand in brackets: `List[A]`, `Tensor[(2, 3), float32]`",
            ),
            TypeExprKind::Rest(_) | TypeExprKind::Slice { .. } => {
                self.no_type(span, "this form belongs to a type relation (`rel`)")
            }
        })
    }

    fn type_parts(&mut self, t: ast::TypeId, steps: &mut Vec<Step>, base: usize) {
        let ast = self.ast;
        match ast.types[t].kind {
            TypeExprKind::Apply { args: items, .. } | TypeExprKind::Tuple { items, .. } => {
                steps.push(Step::Finish(t, base as u32));
                steps.extend(ast.list(items).rev().map(Step::Look));
            }
            TypeExprKind::Ref(inner) => {
                steps.push(Step::Finish(t, base as u32));
                steps.push(Step::Look(inner));
            }
            TypeExprKind::Fn {
                type_params,
                signature,
                relations,
                ..
            } => {
                let mark = self.scopes.enter();
                let binders = self.type_params(type_params);
                let mode = std::mem::replace(&mut self.dim_mode, DimMode::Bind);
                steps.push(Step::FinishFn(Box::new(FinishFn {
                    ty: t,
                    base,
                    mark,
                    binders,
                    dims: self.new_dims.len(),
                    mode,
                })));
                let (params, ret, relations) = ast.fn_type(signature, relations);
                for r in ast.list(relations).rev() {
                    if let TypeExprKind::Call { args, .. } | TypeExprKind::Apply { args, .. } =
                        ast.types[r].kind
                    {
                        steps.extend(ast.list(args).rev().map(Step::Look));
                    }
                }
                steps.push(Step::Look(ret));
                steps.extend(ast.list(params).rev().map(Step::Look));
            }
            _ => unreachable!("only types with parts have parts"),
        }
    }

    fn finish_type(&mut self, t: ast::TypeId, parts: &[TypeId]) -> TypeId {
        let ast::TypeExpr { kind, span } = self.ast.types[t];
        match kind {
            TypeExprKind::Tuple { .. } => self.module.types.tuple(parts),
            TypeExprKind::Ref(_) => self.module.types.intern(Type::Ref(parts[0])),
            TypeExprKind::Apply { head, .. } => {
                let TypeExprKind::Name(name) = self.ast.types[head].kind else {
                    return self.error_type();
                };
                match self.adt_named(name) {
                    Some(adt) => self.adt_type(adt, parts, span),
                    None if self.scopes.type_name(name).is_some() => {
                        let message = format!("`{name}` takes no arguments");
                        self.error(Diagnostic::error(codes::TYPE_ARITY, span, message));
                        self.error_type()
                    }
                    None => {
                        let place = self.ast.types[head].span;
                        if name == "Tuple" {
                            self.old_tuple(place, span, parts.len());
                            return self.module.types.tuple(parts);
                        }
                        self.unknown_type_name(name, place)
                    }
                }
            }
            _ => unreachable!("only types with parts are finished"),
        }
    }

    /// Records `Tuple[A, B]`, the form of 0.5 and earlier.
    fn old_tuple(&mut self, head: Span, whole: Span, fields: usize) {
        if whole.is_none() {
            return;
        }
        let bracket = self.file.slice(Span::new(head.end, whole.end)).find('[');
        let open = Span::new(head.start, head.end + bracket.map_or(0, |b| b as u32 + 1));
        let close = Span::new(whole.end - 1, whole.end);
        let old = OldForm::new("`Tuple[…]`", open, "(");
        let end = if fields == 1 { ",)" } else { ")" };
        self.old.push(old.edit(close, end));
    }

    fn finish_fn_type(
        &mut self,
        t: ast::TypeId,
        parts: &[TypeId],
        params: Vec<relax_ir::TypeParamId>,
        dims: Vec<relax_sym::DimVar>,
    ) -> TypeId {
        let ast = self.ast;
        let TypeExprKind::Fn {
            signature,
            relations,
            ..
        } = ast.types[t].kind
        else {
            unreachable!("a function type")
        };
        let (given, _, relations) = ast.fn_type(signature, relations);
        let n = given.len();
        let mut at = n + 1;
        let mut constraints = Vec::new();
        for r in ast.list(relations) {
            let (head, len) = match ast.types[r].kind {
                TypeExprKind::Call { head, args } | TypeExprKind::Apply { head, args } => {
                    (head, args.len())
                }
                _ => (r, 0),
            };
            let args = parts[at..at + len].into();
            at += len;
            if let Some(rel) = self.relation_ref(head) {
                constraints.push(relax_ir::Constraint { rel, args });
            }
        }
        self.module.types.intern(Type::Func(Box::new(FuncType {
            params: params.into(),
            dims: dims.into(),
            args: parts[..n].into(),
            ret: parts[n],
            constraints: constraints.into(),
        })))
    }

    /// Creates an inference variable.
    pub(crate) fn unknown_type(&mut self) -> TypeId {
        let id = TypeInfer(self.module.type_holes);
        self.module.type_holes += 1;
        self.module.types.intern(Type::Infer(id))
    }

    fn no_type(&mut self, span: Span, message: &str) -> TypeId {
        self.error(Diagnostic::error(codes::TYPE_FORM, span, message));
        self.error_type()
    }

    fn type_by_name(&mut self, name: Symbol, span: Span) -> TypeId {
        match self.scopes.type_name(name) {
            Some(TypeName::Param(p)) => {
                let kind = self.module.types.params[p].kind;
                if kind == Kind::Type {
                    return self.module.types.intern(Type::Param(p));
                }
                if kind == Kind::BaseType {
                    let message =
                        format!("`{name}` is an element type (kind BaseType), not a type");
                    let d = Diagnostic::error(codes::KIND, span, message).suggest(
                        "a scalar of this element type",
                        span,
                        format!("Tensor[(), {name}]"),
                    );
                    self.error(d);
                    return self.error_type();
                }
                return self.kind_error(name, kind, "a type", span);
            }
            Some(TypeName::Dim(_)) => {
                return self.kind_error(name, Kind::ShapeVar, "a type", span);
            }
            None => {}
        }
        if let Some(dtype) = self.dtype(name) {
            return self.module.types.scalar(dtype);
        }
        match name.as_str() {
            "Object" => return self.module.types.intern(Type::Object),
            "Shape" => return self.module.types.intern(Type::Shape(Shape::Unknown)),
            "Tensor" => {
                return self.no_type(
                    span,
                    "`Tensor` needs a shape and an element type: `Tensor[_, _]`",
                );
            }
            _ => {}
        }
        match self.adt_named(name) {
            // The result of memory operators, which TVM's dumps may or may not declare.
            found if name == "Storage" && self.is_empty_type(found) => {
                self.module.types.intern(Type::Object)
            }
            Some(adt) => self.adt_type(adt, &[], span),
            None => self.unknown_type_name(name, span),
        }
    }

    /// Returns whether any name used in types is this one.
    fn is_type_name(&mut self, name: Symbol) -> bool {
        self.scopes.type_name(name).is_some()
            || self.dtype(name).is_some()
            || self.adt_named(name).is_some()
    }

    fn kind_error(&mut self, name: Symbol, kind: Kind, wanted: &str, span: Span) -> TypeId {
        let message = format!("`{name}` has kind {kind} and cannot stand for {wanted}");
        if self.first_report('K', name) {
            let d = Diagnostic::error(codes::KIND, span, message)
                .primary(format!("{wanted} is needed here"));
            self.error(d);
        }
        self.error_type()
    }

    /// Returns whether a data type is missing, or has no constructors.
    fn is_empty_type(&self, adt: Option<AdtId>) -> bool {
        adt.is_none_or(|adt| {
            self.module.adts[adt].ctors.is_empty() && self.adt_params[adt.index()] == 0
        })
    }

    fn unknown_type_name(&mut self, name: Symbol, span: Span) -> TypeId {
        if self.first_report('T', name) {
            let near = {
                let adts = self.module.adts.values().map(|a| a.name.as_str());
                let known = [
                    "Tensor", "Shape", "Object", "bool", "int32", "int64", "float32",
                ];
                let names = adts.chain(known).chain(self.scopes.type_names());
                let names = names.chain(super::prelude::type_names());
                self.near(name, names)
            };
            let message = format!("there is no type `{name}`");
            let d = Diagnostic::error(codes::UNKNOWN_TYPE, span, message);
            let d = match near {
                Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                None => d,
            };
            self.error(d);
        }
        self.error_type()
    }

    /// Applies a data type to arguments, whose number must match its parameters.
    fn adt_type(&mut self, adt: AdtId, args: &[TypeId], span: Span) -> TypeId {
        let wanted = self.adt_arity(adt);
        if wanted != args.len() {
            let def = &self.module.adts[adt];
            let message = format!(
                "`{}` takes {}, {} given",
                def.name,
                super::pattern::count(wanted, "type argument"),
                args.len()
            );
            let place = def.span;
            let d = Diagnostic::error(codes::TYPE_ARITY, span, message);
            let d = if place.is_none() {
                d
            } else {
                d.label(place, "defined here")
            };
            self.error(d);
            return self.error_type();
        }
        self.module.types.intern(Type::Adt(adt, args.into()))
    }

    fn tensor_type(&mut self, args: ast::List<ast::TypeId>, span: Span) -> TypeId {
        let ast = self.ast;
        let (Some(shape), Some(dtype), 2) = (ast.nth(args, 0), ast.nth(args, 1), args.len()) else {
            return self.no_type(
                span,
                "a tensor type has a shape and an element type: `Tensor[(2, 3), float32]`",
            );
        };
        let shape = self.shape(shape);
        let dtype = self.dtype_of(dtype);
        match (shape, dtype) {
            (Some(shape), Some(dtype)) => {
                let ty = TensorType { shape, dtype };
                self.module.types.intern(Type::Tensor(ty))
            }
            _ => self.error_type(),
        }
    }

    fn shape_type(&mut self, args: ast::List<ast::TypeId>, span: Span) -> TypeId {
        let Some(shape) = self.ast.nth(args, 0).filter(|_| args.len() == 1) else {
            return self.no_type(span, "a shape type has one shape: `Shape[(n, 4)]`");
        };
        match self.shape(shape) {
            Some(shape) => self.module.types.intern(Type::Shape(shape)),
            None => self.error_type(),
        }
    }

    /// Resolves a shape; `None` after an error.
    fn shape(&mut self, t: ast::TypeId) -> Option<Shape> {
        let ast = self.ast;
        let ast::TypeExpr { kind, span } = ast.types[t];
        match kind {
            TypeExprKind::Error => None,
            TypeExprKind::Hole => Some(Shape::Unknown),
            TypeExprKind::Tuple { items, comma } => {
                if items.len() == 1
                    && !comma
                    && let Some(only) = ast.nth(items, 0)
                    && let TypeExprKind::Name(name) = ast.types[only].kind
                    && let Some(TypeName::Param(_)) = self.scopes.type_name(name)
                {
                    return self.shape(only);
                }
                let mut good = true;
                let mut dims = Vec::with_capacity(items.len());
                for d in ast.list(items) {
                    let dim = self.dim(d);
                    good &= dim.error().is_none();
                    dims.push(dim);
                }
                good.then(|| Shape::Dims(dims.into()))
            }
            TypeExprKind::Name(name) => match self.scopes.type_name(name) {
                Some(TypeName::Param(p)) => {
                    let kind = self.module.types.params[p].kind;
                    if kind == Kind::Shape {
                        return Some(Shape::Param(p));
                    }
                    self.kind_error(name, kind, "a shape", span);
                    None
                }
                Some(TypeName::Dim(_)) => {
                    let message = format!("`{name}` is one dimension, not a shape");
                    let d = Diagnostic::error(codes::KIND, span, message);
                    let d = d.suggest("a shape of one dimension", span, format!("({name},)"));
                    self.error(d);
                    None
                }
                None => {
                    if self.first_report('S', name) {
                        let message = format!("there is no shape parameter `{name}`");
                        let d = Diagnostic::error(codes::UNKNOWN_TYPE, span, message)
                            .note(format!("declare it with its kind: `[{name}: Shape]`"));
                        self.error(d);
                    }
                    None
                }
            },
            _ => {
                let text = self.file_text(span);
                let d = Diagnostic::error(
                    codes::TYPE_FORM,
                    span,
                    "a shape is a list of dimensions in parentheses",
                );
                let d = match text {
                    Some(text) if text.len() < 40 => {
                        d.suggest("a shape of one dimension", span, format!("({text},)"))
                    }
                    _ => d,
                };
                self.error(d);
                None
            }
        }
    }

    /// Returns the text of a span, if the tree was parsed from a file.
    pub(crate) fn file_text(&self, span: Span) -> Option<&str> {
        let whole = self.file.span();
        let inside = self.places && whole.start <= span.start && span.end <= whole.end;
        inside.then(|| self.file.slice(span))
    }

    /// Resolves an element type; `None` after an error.
    fn dtype_of(&mut self, t: ast::TypeId) -> Option<DTy> {
        let ast::TypeExpr { kind, span } = self.ast.types[t];
        match kind {
            TypeExprKind::Error => None,
            TypeExprKind::Hole => Some(DTy::Unknown),
            TypeExprKind::Name(name) => {
                match self.scopes.type_name(name) {
                    Some(TypeName::Param(p)) => {
                        let kind = self.module.types.params[p].kind;
                        if kind == Kind::BaseType {
                            return Some(DTy::Param(p));
                        }
                        self.kind_error(name, kind, "an element type", span);
                        return None;
                    }
                    Some(TypeName::Dim(_)) => {
                        self.kind_error(name, Kind::ShapeVar, "an element type", span);
                        return None;
                    }
                    None => {}
                }
                if let Some(dtype) = self.dtype(name) {
                    return Some(DTy::Known(dtype));
                }
                if self.first_report('D', name) {
                    let near = self.near(name, DTYPES);
                    let message = format!("there is no element type `{name}`");
                    let d = Diagnostic::error(codes::UNKNOWN_TYPE, span, message);
                    let d = match near {
                        Some(near) => d.suggest(format!("did you mean `{near}`?"), span, near),
                        None => d,
                    };
                    self.error(d);
                }
                None
            }
            _ => {
                let message =
                    "the second argument of `Tensor` is an element type such as `float32`";
                self.error(Diagnostic::error(codes::TYPE_FORM, span, message));
                None
            }
        }
    }

    /// Returns the data type of this name, from the module or the prelude.
    pub(crate) fn adt_named(&mut self, name: Symbol) -> Option<AdtId> {
        let found = self.adts.get(&name).copied();
        found.or_else(|| self.prelude_adt(name))
    }

    fn adt_arity(&self, adt: AdtId) -> usize {
        self.adt_params[adt.0 as usize] as usize
    }
}

/// The common element types, for suggestions.
pub(crate) const DTYPES: [&str; 13] = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64",
];
