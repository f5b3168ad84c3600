//! The type of one call, from the types of its arguments: what a rewrite needs for the nodes that it
//! makes, without inferring the whole module again.
//!
//! The relation of the operator runs as it does in inference, over types that are all known. Facts
//! that inference would have to prove are taken as given: the pass manager infers (and verifies)
//! after each pass, so a wrong guess here is found there.

use relax_ir::{Attrs, DTy, DimInfo, Module, OpId, Shape, TensorType, Type, TypeArena, TypeId};
use relax_ops::{Mismatch, RelCx, RelHost, registry};
use relax_sym::{Dim, Proof};
use relax_tensor::Tensor;

/// An argument: its type and, for constants, its value.
pub(crate) struct Arg<'a> {
    /// The type.
    pub ty: TypeId,
    /// The value, when it is a constant.
    pub value: Option<&'a Tensor>,
}

/// The result type of a call to a built-in operator; `None` when the relation refuses the arguments
/// or cannot conclude.
pub(crate) fn call_type(
    m: &mut Module,
    op: OpId,
    attrs: &Attrs,
    args: &[Arg<'_>],
) -> Option<TypeId> {
    let def = registry().get(op)?;
    let mut host = Host {
        first: m.type_holes,
        types: &mut m.types,
        args,
        dims: &m.dims,
        found: Vec::new(),
    };
    let out = host.fresh_type();
    let types: Vec<TypeId> = args.iter().map(|a| a.ty).collect();
    let mut cx = RelCx {
        host: &mut host,
        name: def.name,
        args: &types,
        out,
        attrs,
    };
    (def.relation)(&mut cx).ok()?;
    let out = host.resolve(out);
    let open = |t: &Type| matches!(t, Type::Infer(_) | Type::Error);
    let mut parts = vec![out];
    while let Some(t) = parts.pop() {
        if open(&host.types[t]) {
            return None;
        }
        parts.extend(host.types.children(t));
    }
    Some(out)
}

struct Host<'a> {
    types: &'a mut TypeArena,
    args: &'a [Arg<'a>],
    dims: &'a relax_base::Arena<relax_sym::DimVar, DimInfo>,
    /// The number of the first unknown: those below stand for the text's `_`.
    first: u32,
    /// What the unknown types turned out to be.
    found: Vec<Option<TypeId>>,
}

impl Host<'_> {
    fn unknown(&self, ty: TypeId) -> Option<usize> {
        match self.types[ty] {
            Type::Infer(v) => v.0.checked_sub(self.first).map(|i| i as usize),
            _ => None,
        }
    }
    fn head(&self, mut ty: TypeId) -> TypeId {
        while let Some(next) = self.unknown(ty).and_then(|i| self.found[i]) {
            ty = next;
        }
        ty
    }
    fn mismatch(left: &impl ToString, right: &impl ToString) -> Mismatch {
        Mismatch {
            left: left.to_string(),
            right: right.to_string(),
        }
    }
    fn tensors(&self, a: &TensorType, b: &TensorType) -> Result<(), Mismatch> {
        if let (DTy::Known(x), DTy::Known(y)) = (a.dtype, b.dtype)
            && x != y
        {
            return Err(Self::mismatch(&x, &y));
        }
        self.shapes(&a.shape, &b.shape)
    }
    fn shapes(&self, a: &Shape, b: &Shape) -> Result<(), Mismatch> {
        let (Some(x), Some(y)) = (a.dims(), b.dims()) else {
            return Ok(());
        };
        if x.len() != y.len() {
            return Err(Self::mismatch(&x.len(), &y.len()));
        }
        for (p, q) in x.iter().zip(y) {
            self.constants(p, q)?;
        }
        Ok(())
    }
    fn constants(&self, a: &Dim, b: &Dim) -> Result<(), Mismatch> {
        match (a.as_const(), b.as_const()) {
            (Some(x), Some(y)) if x != y => Err(Self::mismatch(&x, &y)),
            _ => Ok(()),
        }
    }
}

impl RelHost for Host<'_> {
    fn types(&self) -> &TypeArena {
        self.types
    }
    fn types_mut(&mut self) -> &mut TypeArena {
        self.types
    }
    fn resolve(&mut self, ty: TypeId) -> TypeId {
        // Only tuples are made over unknowns; rebuild them from the leaves up.
        let mut done: rustc_hash::FxHashMap<TypeId, TypeId> = Default::default();
        let mut stack = vec![(ty, false)];
        while let Some((t, expanded)) = stack.pop() {
            let head = self.head(t);
            let Type::Tuple(fields) = self.types[head].clone() else {
                done.insert(t, head);
                continue;
            };
            if expanded {
                let fields: Vec<TypeId> = fields.iter().map(|f| done[f]).collect();
                let new = self.types.tuple(fields);
                done.insert(t, new);
            } else if !done.contains_key(&t) {
                stack.push((t, true));
                stack.extend(fields.iter().map(|f| (*f, false)));
            }
        }
        done[&ty]
    }
    fn unify(&mut self, a: TypeId, b: TypeId) -> Result<(), Mismatch> {
        let mut pairs = vec![(a, b)];
        while let Some((a, b)) = pairs.pop() {
            let (a, b) = (self.head(a), self.head(b));
            if a == b {
                continue;
            }
            if let Some(i) = self.unknown(a) {
                self.found[i] = Some(b);
                continue;
            }
            if let Some(i) = self.unknown(b) {
                self.found[i] = Some(a);
                continue;
            }
            match (&self.types[a], &self.types[b]) {
                (Type::Tensor(x), Type::Tensor(y)) => self.tensors(x, y)?,
                (Type::Shape(x), Type::Shape(y)) => self.shapes(x, y)?,
                (Type::Tuple(x), Type::Tuple(y)) if x.len() == y.len() => {
                    pairs.extend(x.iter().copied().zip(y.iter().copied()));
                }
                (Type::Error | Type::Object, _) | (_, Type::Error | Type::Object) => {}
                _ => return Err(Self::mismatch(&self.show(a), &self.show(b))),
            }
        }
        Ok(())
    }
    fn unify_dim(&mut self, a: &Dim, b: &Dim) -> Result<(), Mismatch> {
        self.constants(a, b)
    }
    fn const_arg(&self, i: usize) -> Option<&Tensor> {
        self.args.get(i)?.value
    }
    fn fresh_type(&mut self) -> TypeId {
        let number = self.first + self.found.len() as u32;
        self.found.push(None);
        self.types.intern(Type::Infer(relax_ir::TypeInfer(number)))
    }
    fn show_dim(&self, d: &Dim) -> String {
        match d.as_const() {
            Some(c) => c.to_string(),
            None => d
                .free_vars()
                .first()
                .map_or("?".into(), |v| self.dims[*v].name.to_string()),
        }
    }
    fn show(&self, ty: TypeId) -> String {
        // Refusals are not reported from here.
        format!("{ty:?}")
    }
    fn compare_dims(&mut self, a: &Dim, b: &Dim) -> Proof {
        match (a.as_const(), b.as_const()) {
            _ if a == b && !a.is_any() => Proof::Proven,
            (Some(_), Some(_)) => Proof::Refuted,
            _ => Proof::Unknown,
        }
    }
    fn check_dims(&mut self, _: &Dim, _: &Dim, _: &str) {}
}
