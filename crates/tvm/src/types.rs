//! Conversion of types and dimensions, each converted once.

use relax_base::{Span, Symbol};
use relax_syntax::ast::{self, List, NumSuffix, TypeExprKind};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes;
use crate::error::Found;
use crate::graph::{Graph, NodeId};
use crate::kinds::Sort;
use crate::names::Names;
use crate::program::Builder;

/// The size limit of a printed type, in nodes.
const LARGEST: u64 = 1 << 20;

/// The types converted so far. A frequent type is one node of the tree with many users.
#[derive(Default)]
pub(crate) struct Types {
    made: FxHashMap<NodeId, (ast::TypeId, u64)>,
    names: Names,
}

impl Builder<'_, '_> {
    /// Returns the name of a data type.
    pub(crate) fn data_type(&mut self, id: NodeId) -> Found<Symbol> {
        match self.g.sort(id) {
            Sort::GlobalTypeVar => self.items.of(self.g, id),
            _ => Err(self
                .g
                .mistake(id, "this stands where the name of a data type is expected")),
        }
    }

    /// Returns the name of a type variable.
    pub(crate) fn type_variable(&mut self, id: NodeId) -> Found<Symbol> {
        let hint = self.g.type_name(id)?;
        Ok(self.types.names.of(id, || Symbol::new(&hint)))
    }

    /// Converts type parameters.
    pub(crate) fn type_params(
        &mut self,
        vars: &[NodeId],
        span: Span,
    ) -> Found<List<ast::TypeParamId>> {
        let mut params = Vec::with_capacity(vars.len());
        for &var in vars {
            if self.g.sort(var) != Sort::TypeVar {
                return Err(self.g.mistake(var, "a type parameter must be a `TypeVar`"));
            }
            let (name, kind) = (self.type_variable(var)?, None);
            let param = ast::TypeParam { name, kind, span };
            params.push(self.out.type_params.push(param));
        }
        Ok(self.out.make_list(params))
    }

    /// Converts the type that a field refers to; `None` for null.
    pub(crate) fn type_field(&mut self, id: NodeId, name: &str) -> Found<Option<ast::TypeId>> {
        match self.g.refers(id, name)? {
            0 => Ok(None),
            ty => self.ty(ty).map(Some),
        }
    }

    /// Converts a type.
    pub(crate) fn ty(&mut self, root: NodeId) -> Found<ast::TypeId> {
        let g = self.g;
        if let Some(&(made, _)) = self.types.made.get(&root) {
            return Ok(made);
        }
        let mut steps = vec![(root, false)];
        let mut open = FxHashSet::default();
        let mut parts = Vec::new();
        while let Some((id, finish)) = steps.pop() {
            if self.types.made.contains_key(&id) {
                continue;
            }
            parts.clear();
            type_parts(g, id, &mut parts)?;
            if !finish && !parts.is_empty() {
                if !open.insert(id) {
                    return Err(g.mistake(id, "this type is a part of itself"));
                }
                steps.push((id, true));
                steps.extend(parts.iter().rev().map(|&p| (p, false)));
                continue;
            }
            let of = |part: &NodeId| self.types.made[part];
            let size = (parts.iter()).fold(1u64, |sum, p| sum.saturating_add(of(p).1));
            if size > LARGEST {
                let message = "this type is too large: it repeats its parts too often";
                return Err(g.mistake_of(codes::TOO_LARGE, id, message));
            }
            let made: Vec<_> = parts.iter().map(|p| of(p).0).collect();
            let ty = self.make_type(id, &made)?;
            self.types.made.insert(id, (ty, size));
        }
        Ok(self.types.made[&root].0)
    }

    fn make_type(&mut self, id: NodeId, parts: &[ast::TypeId]) -> Found<ast::TypeId> {
        let g = self.g;
        let span = g.span(self.start, id);
        Ok(match g.sort(id) {
            Sort::TupleType => self.out.type_tuple(parts.iter().copied(), span),
            Sort::FuncType => {
                let params = self.type_params(g.array(id, "type_params")?, span)?;
                let (args, ret) = parts.split_at(parts.len() - 1);
                (self.out).type_fn(params, args.iter().copied(), ret[0], &[], span)
            }
            Sort::TypeCall => {
                let func = g.refers(id, "func")?;
                let name = self.data_type(func)?;
                match parts {
                    [] => self.out.type_name(name, span),
                    _ => self.out.type_apply(name, parts.iter().copied(), span),
                }
            }
            Sort::RefType => self.out.ty(TypeExprKind::Ref(parts[0]), span),
            Sort::TypeVar => {
                let name = self.type_variable(id)?;
                self.out.type_name(name, span)
            }
            Sort::GlobalTypeVar => {
                let name = self.data_type(id)?;
                self.out.type_name(name, span)
            }
            Sort::TensorType => {
                let mut dims = Vec::new();
                for &dim in g.array(id, "shape")? {
                    let kind = self.dim(dim)?;
                    dims.push(self.out.ty(kind, span));
                }
                let shape = self.out.type_tuple(dims, span);
                let dtype = g.field(id, "dtype").unwrap_or_default();
                let dtype = self.out.type_name(Symbol::new(&dtype), span);
                self.out.type_apply("Tensor".into(), [shape, dtype], span)
            }
            // The type is unknown.
            _ => self.out.ty(TypeExprKind::Hole, span),
        })
    }

    /// Converts a dimension: an extent, `?` or a variable; arithmetic becomes a reference, as in
    /// TVM's text.
    fn dim(&mut self, id: NodeId) -> Found<TypeExprKind> {
        let g = self.g;
        Ok(match g.sort(id) {
            Sort::Int => {
                let (value, suffix) = integer(g, id)?;
                TypeExprKind::Int { value, suffix }
            }
            Sort::AnyDim => TypeExprKind::Any,
            Sort::DimVar => TypeExprKind::Name(Symbol::new(&g.name(id, "name")?)),
            Sort::Other if g.kind(id).name.starts_with("tir.") => {
                let (key, index) = self.objects.refer(g, id);
                let kind = ast::ExprKind::Meta { key, index };
                TypeExprKind::Meta(self.out.expr(kind, g.span(self.start, id)))
            }
            _ => return Err(g.mistake(id, "this stands where a dimension is expected")),
        })
    }
}

/// Collects the components of a type.
fn type_parts(g: &Graph<'_>, id: NodeId, out: &mut Vec<NodeId>) -> Found<()> {
    match g.sort(id) {
        Sort::TupleType => out.extend(g.array(id, "fields")?),
        Sort::FuncType => {
            out.extend(g.array(id, "arg_types")?);
            out.push(g.refers(id, "ret_type")?);
        }
        Sort::TypeCall => out.extend(g.array(id, "args")?),
        Sort::RefType => out.push(g.refers(id, "value")?),
        Sort::Null => {}
        sort if sort.is_type() => {}
        Sort::Other => {
            let message = format!("`{}` is no type of Relay", g.kind(id).name);
            return Err(g.mistake_of(codes::UNSUPPORTED, id, message));
        }
        _ => {
            let message = format!("`{}` stands where a type is expected", g.kind(id).name);
            return Err(g.mistake(id, message));
        }
    }
    Ok(())
}

/// Returns an integer and its width: `3i64` if it has 64 bits.
pub(crate) fn integer(g: &Graph<'_>, id: NodeId) -> Found<(i64, NumSuffix)> {
    let value = match g.repr(id) {
        Some(text) => {
            let number = text.parse();
            number.map_err(|_| g.mistake(id, format!("`{text}` is no integer")))?
        }
        None => g.number(id, "value")?,
    };
    let suffix = match g.field(id, "dtype").as_deref() {
        Some("int64") => NumSuffix::I(64),
        _ => NumSuffix::None,
    };
    Ok((value, suffix))
}
