//! Writing of types, dimensions and data types.

use relax_base::Span;
use relax_ir::{AdtId, CtorId, DTy, Kind, Shape, Type, TypeId, TypeParamId};
use relax_sym::{Atom, Dim};
use rustc_hash::FxHashSet;

use super::{Node, Work, Writer};

/// TVM's codes of type kinds.
const KIND_OF_DATA: u32 = 5;

impl Writer<'_> {
    pub(super) fn ty(&mut self, id: TypeId) -> u32 {
        // Nullary data types and variables are shared nodes.
        if let Type::Param(p) = self.module.types[id] {
            return self.type_param(p);
        }
        if let Some(&known) = self.types.get(&id) {
            return known;
        }
        let at = self.later(Work::Type(id));
        self.types.insert(id, at);
        at
    }

    pub(super) fn opt_ty(&mut self, id: Option<TypeId>) -> u32 {
        id.map_or(0, |t| self.ty(t))
    }

    /// Returns whether all type variables of a type are bound in the module: inference creates
    /// further ones where a function without annotations is generic.
    pub(super) fn is_closed(&mut self, id: TypeId) -> bool {
        let module = self.module;
        let bound = &*self.declared.get_or_insert_with(|| {
            let funcs = module.funcs.values().flat_map(|f| &f.type_params);
            let adts = module.adts.values().flat_map(|a| &a.params);
            funcs.chain(adts).copied().collect()
        });
        let mut work = vec![id];
        let mut seen = FxHashSet::default();
        // Those of polymorphic functions are bound in their types only.
        let mut inside = FxHashSet::default();
        while let Some(id) = work.pop() {
            if self.closed.contains(&id) || !seen.insert(id) {
                continue;
            }
            match &module.types[id] {
                Type::Param(p) if !bound.contains(p) && !inside.contains(p) => return false,
                Type::Func(f) => inside.extend(f.params.iter().copied()),
                _ => {}
            }
            work.extend(module.types.children(id));
        }
        self.closed.insert(id);
        true
    }

    pub(super) fn type_node(&mut self, id: TypeId) -> Node {
        let module = self.module;
        match &module.types[id] {
            Type::Tensor(t) => {
                let dims = match &t.shape {
                    Shape::Dims(dims) => dims.iter().map(|d| self.dim(d)).collect(),
                    _ => {
                        self.refuse(Span::NONE, "a shape that is a variable");
                        Vec::new()
                    }
                };
                let dtype = match t.dtype {
                    DTy::Known(d) => d.to_string(),
                    _ => {
                        self.refuse(Span::NONE, "an element type that is not known");
                        String::new()
                    }
                };
                let shape = self.array(dims);
                let node = Node::of("relay.TensorType").plain("dtype", dtype);
                node.with(&[("shape", shape), ("span", 0)])
            }
            Type::Tuple(fields) => {
                let fields = fields.iter().map(|&t| self.ty(t)).collect();
                let fields = self.array(fields);
                Node::of("TupleType").with(&[("fields", fields), ("span", 0)])
            }
            Type::Func(f) => {
                if !f.constraints.is_empty() {
                    self.refuse(Span::NONE, "a relation of a function's type");
                }
                let args = f.args.iter().map(|&t| self.ty(t)).collect();
                let params = f.params.iter().map(|&p| self.type_param(p)).collect();
                let fields = [
                    ("arg_types", self.array(args)),
                    ("ret_type", self.ty(f.ret)),
                    ("span", 0),
                    ("type_constraints", self.array(Vec::new())),
                    ("type_params", self.array(params)),
                ];
                Node::of("FuncType").with(&fields)
            }
            Type::Adt(adt, args) => {
                let args = args.iter().map(|&t| self.ty(t)).collect();
                let fields = [
                    ("args", self.array(args)),
                    ("func", self.adt(*adt)),
                    ("span", 0),
                ];
                Node::of("TypeCall").with(&fields)
            }
            Type::Ref(t) => {
                let value = self.ty(*t);
                Node::of("relay.RefType").with(&[("span", 0), ("value", value)])
            }
            Type::Infer(_) => Node::of("IncompleteType")
                .plain("kind", 0)
                .with(&[("span", 0)]),
            Type::Param(_) | Type::Shape(_) | Type::Object | Type::Error => {
                self.refuse(Span::NONE, "a type of Relax");
                Node::default()
            }
        }
    }

    pub(super) fn type_param(&mut self, id: TypeParamId) -> u32 {
        if let Some(&known) = self.params.get(&id) {
            return known;
        }
        let param = &self.module.types.params[id];
        let kind = match param.kind {
            Kind::Type => 0,
            Kind::ShapeVar | Kind::Shape => 1,
            Kind::BaseType => 2,
        };
        let name = self.text(param.name.as_str());
        let node = Node::of("TypeVar").plain("kind", kind);
        let at = self.push(node.with(&[("name_hint", name), ("span", 0)]));
        self.params.insert(id, at);
        at
    }

    pub(super) fn adt(&mut self, id: AdtId) -> u32 {
        if let Some(&known) = self.adts.get(&id) {
            return known;
        }
        let name = self.text(self.module.adts[id].name.as_str());
        let node = Node::of("GlobalTypeVar").plain("kind", KIND_OF_DATA);
        let at = self.push(node.with(&[("name_hint", name), ("span", 0)]));
        self.adts.insert(id, at);
        at
    }

    pub(super) fn ctor(&mut self, id: CtorId) -> u32 {
        if let Some(&known) = self.ctors.get(&id) {
            return known;
        }
        let at = self.later(Work::Ctor(id));
        self.ctors.insert(id, at);
        at
    }

    pub(super) fn ctor_node(&mut self, id: CtorId) -> Node {
        let ctor = &self.module.ctors[id];
        let inputs = ctor.fields.iter().map(|&t| self.ty(t)).collect();
        let fields = [
            ("_checked_type_", 0),
            ("belong_to", self.adt(ctor.adt)),
            ("inputs", self.array(inputs)),
            ("name_hint", self.text(ctor.name.as_str())),
            ("span", 0),
        ];
        Node::of("relay.Constructor")
            .plain("tag", ctor.tag)
            .with(&fields)
    }

    /// Writes a dimension: a number, `?`, or a variable.
    pub(super) fn dim(&mut self, dim: &Dim) -> u32 {
        if let Some(mark) = dim.mark() {
            let entry = self.module.meta_dims.get(mark as usize - 1).copied();
            if let Some((key, index)) = entry {
                return self.object(key, index, Span::NONE);
            }
        }
        if dim.is_any() {
            let node = Node::of("tir.Any").plain("dtype", "int32");
            return self.push(node.with(&[("span", 0)]));
        }
        if let Some(value) = dim.as_const() {
            return self.int(value, dim.is_wide());
        }
        if let Some(Atom::Var(var)) = dim.as_atom() {
            let name = self.module.dims[var].name.as_str();
            let at = self.text(name);
            let node = Node::of("tir.Var").plain("dtype", "int32");
            return self.push(node.with(&[("name", at), ("span", 0), ("type_annotation", 0)]));
        }
        self.refuse(Span::NONE, "an extent that is computed");
        0
    }

    /// Writes an integer as an object.
    pub(super) fn int(&mut self, value: i64, wide: bool) -> u32 {
        let dtype = match wide || i32::try_from(value).is_err() {
            true => "int64",
            false => "int32",
        };
        let node = Node::of("IntImm")
            .plain("dtype", dtype)
            .plain("value", value);
        self.push(node.with(&[("span", 0)]))
    }
}
