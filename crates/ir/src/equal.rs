//! Structural equality of modules, up to the names of locals, type parameters and dimension
//! variables.
//!
//! TVM's rules: variables correspond one to one, and where one module shares a node of the graph the
//! other must share the corresponding one. Constants compare by value, attributes by name and
//! value, globals, data types and constructors by name. Definitions are matched by name, in any
//! order. Where things stand in the text does not matter, nor how bindings are spelled.
//!
//! Invariant: comparing takes time linear in the size of the modules and does not recurse over
//! their depth.

use std::fmt;
use std::hash::Hash;

use relax_base::Symbol;
use relax_sym::{Atom, Dim, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    AdtId, AttrValue, Attrs, BlockId, Constraint, DTy, DTypePattern, Expr, ExprId, FuncId,
    GlobalId, GlobalKind, Module, OpId, PatId, Pattern, RelRef, RelationDef, Shape, ShapeItem,
    ShapePattern, Type, TypeId, TypeParamId, TypePattern, VarId,
};

/// What is compared beside the program itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EqualOptions {
    /// Whether an annotation (of a variable, of a result) that only one side has is a difference.
    pub annotations: bool,
}

impl Default for EqualOptions {
    fn default() -> Self {
        EqualOptions { annotations: true }
    }
}

/// A step from an expression to a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Callee,
    Arg(u32),
    Field(u32),
    Tuple,
    Value(VarId),
    LetBody,
    Cond,
    Then,
    Else,
    Scrutinee,
    Clause(u32),
    FuncBody,
    Ref,
    Written,
}

/// The first place where two modules differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// What differs, in words.
    pub what: String,
    /// The definition in which it differs, `@main`; empty for the module as a whole.
    pub item: String,
    /// The way from the definition to the expression, outermost step first, in words; long ways
    /// keep their last steps.
    pub path: Vec<String>,
    /// The expression on the left side, where the difference is in one.
    pub left: Option<ExprId>,
    /// The expression on the right side.
    pub right: Option<ExprId>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.item.is_empty() {
            write!(f, "\n  in {}", self.item)?;
        }
        if !self.path.is_empty() {
            write!(f, "\n  at {}", self.path.join(" → "))?;
        }
        Ok(())
    }
}

/// A comparison of two modules that has seen nothing.
fn comparer<'m>(
    left: &'m Module,
    right: &'m Module,
    options: EqualOptions,
    op: &'m dyn Fn(OpId) -> String,
) -> Comparer<'m> {
    Comparer {
        a: left,
        b: right,
        options,
        op,
        vars: Pairs::default(),
        params: Pairs::default(),
        dims: Pairs::default(),
        nodes: Pairs::default(),
        renamed_left: FxHashSet::default(),
        renamed_right: FxHashSet::default(),
        global_pairs: Pairs::default(),
        renamed: Vec::new(),
        types: FxHashSet::default(),
        trail: Vec::new(),
        stack: Vec::new(),
        item: String::new(),
    }
}

/// Whether two functions of a module without free variables are structurally equal; annotations
/// count where both have one.
pub fn functions_equal(m: &Module, f: FuncId, g: FuncId) -> bool {
    let op = |op| format!("{op:?}");
    let mut cmp = comparer(m, m, EqualOptions { annotations: false }, &op);
    cmp.functions(f, g, None).is_ok() && cmp.run(m.funcs[f].body, m.funcs[g].body).is_ok()
}

/// Compares two modules; the first difference, in the order of names and then of the text.
/// `op` names built-in operators in messages.
pub fn structural_difference(
    left: &Module,
    right: &Module,
    options: EqualOptions,
    op: &dyn Fn(OpId) -> String,
) -> Option<Difference> {
    let mut cmp = comparer(left, right, options, op);
    cmp.modules().err().map(|d| *d)
}

/// Whether two modules are structurally equal, annotations included.
pub fn structural_equal(left: &Module, right: &Module) -> bool {
    let op = |op| format!("{op:?}");
    structural_difference(left, right, EqualOptions::default(), &op).is_none()
}

/// A one-to-one correspondence that grows.
struct Pairs<T> {
    there: FxHashMap<T, T>,
    back: FxHashMap<T, T>,
}

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Pairs {
            there: FxHashMap::default(),
            back: FxHashMap::default(),
        }
    }
}

impl<T: Copy + Eq + Hash> Pairs<T> {
    /// Whether the two correspond; things not seen before correspond from now on.
    fn pair(&mut self, a: T, b: T) -> bool {
        match (self.there.get(&a), self.back.get(&b)) {
            (Some(&x), Some(&y)) => x == b && y == a,
            (None, None) => {
                self.there.insert(a, b);
                self.back.insert(b, a);
                true
            }
            _ => false,
        }
    }
    fn known(&self, a: T, b: T) -> bool {
        self.there.get(&a) == Some(&b)
    }
}

/// Where a pair of expressions came from.
struct Trail {
    parent: u32,
    step: Step,
}

const ROOT: u32 = u32::MAX;

struct Pair {
    a: ExprId,
    b: ExprId,
    trail: u32,
}

type Check = Result<(), Box<Difference>>;

struct Comparer<'m> {
    a: &'m Module,
    b: &'m Module,
    options: EqualOptions,
    op: &'m dyn Fn(OpId) -> String,
    vars: Pairs<VarId>,
    params: Pairs<TypeParamId>,
    dims: Pairs<DimVar>,
    nodes: Pairs<ExprId>,
    /// Globals that only one side has by name, and how they correspond.
    renamed_left: FxHashSet<GlobalId>,
    renamed_right: FxHashSet<GlobalId>,
    global_pairs: Pairs<GlobalId>,
    /// Those that correspond and were not compared yet.
    renamed: Vec<(GlobalId, GlobalId)>,
    /// Types that were found equal.
    types: FxHashSet<(TypeId, TypeId)>,
    trail: Vec<Trail>,
    stack: Vec<Pair>,
    item: String,
}

fn named<'m, T>(
    items: impl Iterator<Item = (Symbol, T)> + 'm,
) -> std::collections::BTreeMap<Symbol, T> {
    items.collect()
}

impl<'m> Comparer<'m> {
    fn modules(&mut self) -> Check {
        let adts = |m: &'m Module| {
            let own = m.adts.iter().filter(|(_, a)| !a.prelude);
            named(own.map(|(id, a)| (a.name, id)))
        };
        let pairs = self.matched("type ", adts(self.a), adts(self.b))?;
        for (name, a, b) in pairs {
            self.item = format!("type {name}");
            self.adts(a, b)?;
        }
        let globals = |m: &'m Module| {
            let own = m.globals.iter().filter(|(_, g)| !g.prelude);
            named(own.map(|(id, g)| (g.name, id)))
        };
        let (mut left, mut right) = (globals(self.a), globals(self.b));
        // Names that passes make up differ from side to side: globals that only one side has
        // correspond by their use.
        let (only_left, only_right): (Vec<_>, Vec<_>) = (
            left.iter()
                .filter(|(n, _)| !right.contains_key(n))
                .map(|(n, &g)| (*n, g))
                .collect(),
            right
                .iter()
                .filter(|(n, _)| !left.contains_key(n))
                .map(|(n, &g)| (*n, g))
                .collect(),
        );
        if only_left.len() == only_right.len() {
            left.retain(|n, _| !only_left.iter().any(|o| o.0 == *n));
            right.retain(|n, _| !only_right.iter().any(|o| o.0 == *n));
            self.renamed_left.extend(only_left.iter().map(|o| o.1));
            self.renamed_right.extend(only_right.iter().map(|o| o.1));
        }
        let pairs = self.matched("@", left, right)?;
        for (name, a, b) in pairs {
            self.item = format!("@{name}");
            self.globals(a, b)?;
        }
        while let Some((a, b)) = self.renamed.pop() {
            self.item = format!("@{} (@{})", self.a.globals[a].name, self.b.globals[b].name);
            self.globals(a, b)?;
        }
        self.item = String::new();
        if let Some((name, _)) = only_left
            .iter()
            .find(|o| !self.global_pairs.there.contains_key(&o.1))
            && !only_right.is_empty()
        {
            let what = format!("only the left side has @{name}");
            return self.differ(&what);
        }
        self.user_items()
    }

    fn user_items(&mut self) -> Check {
        let (a, b) = (self.a, self.b);
        let ops = |m: &'m Module| {
            let own = m.user_ops.iter().enumerate().filter(|(_, o)| !o.prelude);
            named(own.map(|(i, o)| (o.name, i)))
        };
        for (name, x, y) in self.matched("op ", ops(a), ops(b))? {
            self.item = format!("op {name}");
            let (x, y) = (&a.user_ops[x], &b.user_ops[y]);
            let same = x.params.len() == y.params.len()
                && x.params.iter().zip(&y.params).all(|(p, q)| p.0 == q.0)
                && x.attrs == y.attrs
                && match (&x.program, &y.program) {
                    (Some(p), Some(q)) => relax_loops::same_program(p, q),
                    (p, q) => p.is_none() && q.is_none(),
                };
            if !same {
                return self.differ("the operators differ");
            }
            for (p, q) in x.params.iter().zip(&y.params) {
                self.ty(p.1, q.1, None)?;
            }
            self.opt_ty(x.ret, y.ret, None, "result type")?;
        }
        self.item = String::new();
        let rels = |m: &'m Module| named(m.relations.iter().map(|(id, r)| (r.name, id)));
        for (name, x, y) in self.matched("rel ", rels(a), rels(b))? {
            self.item = format!("rel {name}");
            let (x, y) = (&a.relations[x], &b.relations[y]);
            if !self.relations(x, y) {
                return self.differ("the relations differ");
            }
        }
        self.item = String::new();
        Ok(())
    }

    /// Definitions that have the same name on both sides.
    fn matched<T: Copy>(
        &self,
        sigil: &str,
        left: std::collections::BTreeMap<Symbol, T>,
        right: std::collections::BTreeMap<Symbol, T>,
    ) -> Result<Vec<(Symbol, T, T)>, Box<Difference>> {
        if let Some(name) = left.keys().find(|n| !right.contains_key(n)) {
            self.differ(&format!("only the left side has {sigil}{name}"))?;
        }
        if let Some(name) = right.keys().find(|n| !left.contains_key(n)) {
            self.differ(&format!("only the right side has {sigil}{name}"))?;
        }
        Ok(left.iter().map(|(n, &a)| (*n, a, right[n])).collect())
    }

    fn difference(&self, what: &str, at: Option<&Pair>) -> Box<Difference> {
        let mut path = Vec::new();
        let mut trail = at.map_or(ROOT, |p| p.trail);
        const KEEP: usize = 12;
        while trail != ROOT {
            let t = &self.trail[trail as usize];
            if path.len() == KEEP {
                path.push("…".to_owned());
                break;
            }
            path.push(self.show_step(t.step));
            trail = t.parent;
        }
        path.reverse();
        Box::new(Difference {
            what: what.to_owned(),
            item: self.item.clone(),
            path,
            left: at.map(|p| p.a),
            right: at.map(|p| p.b),
        })
    }

    fn show_step(&self, step: Step) -> String {
        match step {
            Step::Callee => "callee".into(),
            Step::Arg(i) => format!("argument {i}"),
            Step::Field(i) => format!("field {i}"),
            Step::Tuple => "tuple".into(),
            Step::Value(v) => format!("value of %{}", self.a.vars[v].name),
            Step::LetBody => "what follows".into(),
            Step::Cond => "condition".into(),
            Step::Then => "then".into(),
            Step::Else => "else".into(),
            Step::Scrutinee => "matched value".into(),
            Step::Clause(i) => format!("clause {i}"),
            Step::FuncBody => "function body".into(),
            Step::Ref => "reference".into(),
            Step::Written => "written value".into(),
        }
    }

    fn differ(&self, what: &str) -> Check {
        Err(self.difference(what, None))
    }

    fn differ_at(&self, what: &str, at: Option<&Pair>) -> Check {
        Err(self.difference(what, at))
    }

    fn adts(&mut self, a: AdtId, b: AdtId) -> Check {
        let (x, y) = (&self.a.adts[a], &self.b.adts[b]);
        if x.params.len() != y.params.len() || x.opaque != y.opaque {
            return self.differ("the numbers of type parameters differ");
        }
        for (&p, &q) in x.params.iter().zip(&y.params) {
            self.params.pair(p, q);
        }
        if x.ctors.len() != y.ctors.len() {
            return self.differ("the numbers of constructors differ");
        }
        for (&c, &d) in x.ctors.iter().zip(&y.ctors) {
            let (c, d) = (&self.a.ctors[c], &self.b.ctors[d]);
            if c.name != d.name || c.fields.len() != d.fields.len() {
                return self.differ(&format!("constructors {} and {} differ", c.name, d.name));
            }
            for (&s, &t) in c.fields.iter().zip(&d.fields) {
                self.ty(s, t, None)?;
            }
        }
        Ok(())
    }

    fn globals(&mut self, a: GlobalId, b: GlobalId) -> Check {
        match (&self.a.globals[a].kind, &self.b.globals[b].kind) {
            (GlobalKind::Func(f), GlobalKind::Func(g)) => {
                let (f, g) = (*f, *g);
                self.functions(f, g, None)?;
                self.run(self.a.funcs[f].body, self.b.funcs[g].body)
            }
            (GlobalKind::Prim(p), GlobalKind::Prim(q)) => {
                if relax_loops::same_program(p, q) {
                    Ok(())
                } else {
                    self.differ("the tensor programs differ")
                }
            }
            _ => self.differ("one is a function and the other a tensor program"),
        }
    }

    /// Signatures; bodies follow through the work list.
    fn functions(&mut self, f: FuncId, g: FuncId, at: Option<&Pair>) -> Check {
        let (x, y) = (&self.a.funcs[f], &self.b.funcs[g]);
        if x.params.len() != y.params.len() {
            let what = format!(
                "functions of {} and {} parameters",
                x.params.len(),
                y.params.len()
            );
            return self.differ_at(&what, at);
        }
        if x.type_params.len() != y.type_params.len() {
            return self.differ_at("the numbers of type parameters differ", at);
        }
        for (&p, &q) in x.type_params.iter().zip(&y.type_params) {
            let kinds = (self.a.types.params[p].kind, self.b.types.params[q].kind);
            if kinds.0 != kinds.1 || !self.params.pair(p, q) {
                return self.differ_at("the type parameters differ", at);
            }
        }
        for (&v, &w) in x.params.iter().zip(&y.params) {
            self.var(v, w, at)?;
        }
        self.opt_ty(x.ret, y.ret, at, "result type")?;
        self.constraints(&x.constraints, &y.constraints, at)?;
        self.attrs(&x.attrs, &y.attrs, at)
    }

    fn relations(&mut self, x: &RelationDef, y: &RelationDef) -> bool {
        let (p, q) = (x.args.iter().chain([&x.ret]), y.args.iter().chain([&y.ret]));
        let mut stack: Vec<_> = p.zip(q).collect();
        let mut shapes = Vec::new();
        if x.args.len() != y.args.len() {
            return false;
        }
        stack.reverse();
        while let Some(pair) = stack.pop() {
            let same = match pair {
                (TypePattern::Tensor(s, d), TypePattern::Tensor(t, e)) => {
                    shapes.push((s, t));
                    match (d, e) {
                        (DTypePattern::Param(p), DTypePattern::Param(q)) => {
                            self.params.pair(*p, *q)
                        }
                        _ => d == e,
                    }
                }
                (TypePattern::Shape(s), TypePattern::Shape(t)) => {
                    shapes.push((s, t));
                    true
                }
                (TypePattern::Tuple(s), TypePattern::Tuple(t)) => {
                    stack.extend(s.iter().zip(t).rev());
                    s.len() == t.len()
                }
                (TypePattern::Adt(c, s), TypePattern::Adt(d, t)) => {
                    stack.extend(s.iter().zip(t).rev());
                    s.len() == t.len() && self.a.adts[*c].name == self.b.adts[*d].name
                }
                (TypePattern::Param(p), TypePattern::Param(q)) => self.params.pair(*p, *q),
                (TypePattern::Any, TypePattern::Any) => true,
                _ => false,
            };
            if !same {
                return false;
            }
            while let Some((s, t)) = shapes.pop() {
                let same = match (s, t) {
                    (ShapePattern::Items(s), ShapePattern::Items(t)) => {
                        s.len() == t.len() && s.iter().zip(t).all(|(i, j)| self.shape_items(i, j))
                    }
                    (ShapePattern::Param(p), ShapePattern::Param(q)) => self.params.pair(*p, *q),
                    (ShapePattern::Broadcast(s), ShapePattern::Broadcast(t)) => {
                        shapes.push((&s.1, &t.1));
                        shapes.push((&s.0, &t.0));
                        true
                    }
                    (ShapePattern::Any, ShapePattern::Any) => true,
                    _ => false,
                };
                if !same {
                    return false;
                }
            }
        }
        true
    }

    fn shape_items(&mut self, x: &ShapeItem, y: &ShapeItem) -> bool {
        match (x, y) {
            (ShapeItem::Dim(d), ShapeItem::Dim(e)) => self.dim(d, e),
            (ShapeItem::Rest(p), ShapeItem::Rest(q)) | (ShapeItem::Prod(p), ShapeItem::Prod(q)) => {
                self.params.pair(*p, *q)
            }
            (ShapeItem::Pick(p, i), ShapeItem::Pick(q, j)) => i == j && self.params.pair(*p, *q),
            (ShapeItem::Slice(p, i, k), ShapeItem::Slice(q, j, l))
            | (ShapeItem::ProdSlice(p, i, k), ShapeItem::ProdSlice(q, j, l)) => {
                (i, k) == (j, l) && self.params.pair(*p, *q)
            }
            _ => false,
        }
    }

    fn constraints(&mut self, x: &[Constraint], y: &[Constraint], at: Option<&Pair>) -> Check {
        if x.len() != y.len() {
            return self.differ_at("the numbers of relations differ", at);
        }
        for (c, d) in x.iter().zip(y) {
            let same = match (c.rel, d.rel) {
                (RelRef::User(r), RelRef::User(s)) => {
                    self.a.relations[r].name == self.b.relations[s].name
                }
                (RelRef::Builtin(r), RelRef::Builtin(s)) => r == s,
                (RelRef::Op(p, s), RelRef::Op(q, t)) => {
                    self.ops(p, q) && self.a.attrs(s) == self.b.attrs(t)
                }
                _ => false,
            };
            if !same || c.args.len() != d.args.len() {
                return self.differ_at("the relations differ", at);
            }
            for (&s, &t) in c.args.iter().zip(&d.args) {
                self.ty(s, t, at)?;
            }
        }
        Ok(())
    }

    /// Variables where they are bound.
    fn var(&mut self, v: VarId, w: VarId, at: Option<&Pair>) -> Check {
        let (x, y) = (&self.a.vars[v], &self.b.vars[w]);
        if !self.vars.pair(v, w) {
            let what = format!("%{} and %{} are bound differently", x.name, y.name);
            return self.differ_at(&what, at);
        }
        let what = format!("type of %{}", x.name);
        self.opt_ty(x.ty, y.ty, at, &what)?;
        let (none, a, b) = (Attrs::new(), self.a, self.b);
        let s = a.var_attrs.get(&v).unwrap_or(&none);
        let t = b.var_attrs.get(&w).unwrap_or(&none);
        self.attrs(s, t, at)
    }

    fn ops(&self, p: OpId, q: OpId) -> bool {
        match (self.a.user_op(p), self.b.user_op(q)) {
            (Some(x), Some(y)) => x.name == y.name,
            (None, None) => p == q,
            _ => false,
        }
    }

    fn attrs(&mut self, x: &Attrs, y: &Attrs, at: Option<&Pair>) -> Check {
        for (name, value) in x.iter() {
            match y.get(name.as_str()) {
                None => {
                    return self.differ_at(&format!("only the left side has {name}"), at);
                }
                Some(other) => {
                    if !self.attr_values(value, other) {
                        let what = format!("{name} is {value:?} and {other:?}");
                        return self.differ_at(&what, at);
                    }
                }
            }
        }
        match y.iter().find(|(n, _)| x.get(n.as_str()).is_none()) {
            Some((name, _)) => self.differ_at(&format!("only the right side has {name}"), at),
            None => Ok(()),
        }
    }

    fn attr_values(&mut self, x: &AttrValue, y: &AttrValue) -> bool {
        let mut stack = vec![(x, y)];
        while let Some((x, y)) = stack.pop() {
            let same = match (x, y) {
                (AttrValue::Float(p), AttrValue::Float(q)) => p.to_bits() == q.to_bits(),
                (AttrValue::Dim(_), AttrValue::Dim(_) | AttrValue::Int(_))
                | (AttrValue::Int(_), AttrValue::Dim(_)) => match (x.as_dim(), y.as_dim()) {
                    (Some(d), Some(e)) => self.dim(&d, &e),
                    _ => false,
                },
                (AttrValue::Array(p), AttrValue::Array(q)) => {
                    stack.extend(p.iter().zip(q.iter()));
                    p.len() == q.len()
                }
                (AttrValue::Dict(p), AttrValue::Dict(q)) => {
                    stack.extend(p.iter().map(|(_, v)| v).zip(q.iter().map(|(_, v)| v)));
                    p.len() == q.len() && p.iter().zip(q.iter()).all(|(s, t)| s.0 == t.0)
                }
                _ => x == y,
            };
            if !same {
                return false;
            }
        }
        true
    }

    fn dim(&mut self, x: &Dim, y: &Dim) -> bool {
        if let (Some(Atom::Var(v)), Some(Atom::Var(w))) = (x.as_atom(), y.as_atom()) {
            return self.dims.pair(v, w);
        }
        let (vars, others) = (x.free_vars(), y.free_vars());
        if vars.len() != others.len() {
            return false;
        }
        if vars.is_empty() {
            return x == y;
        }
        // Variables seen here first correspond in order.
        let mut new = others.iter().filter(|w| !self.dims.back.contains_key(w));
        let new: Vec<_> = new.by_ref().copied().collect();
        let mut new = new.into_iter();
        for v in vars {
            if !self.dims.there.contains_key(&v) {
                match new.next() {
                    Some(w) => self.dims.pair(v, w),
                    None => return false,
                };
            }
        }
        let renamed = x.substitute(&|atom| match atom {
            Atom::Var(v) => self.dims.there.get(&v).map(|&w| Dim::var(w)),
            Atom::Infer(_) => None,
        });
        renamed == *y
    }

    fn shapes(&mut self, x: &Shape, y: &Shape) -> bool {
        match (x, y) {
            (Shape::Dims(p), Shape::Dims(q)) => {
                p.len() == q.len() && p.iter().zip(q.iter()).all(|(d, e)| self.dim(d, e))
            }
            (Shape::Param(p), Shape::Param(q)) => self.params.pair(*p, *q),
            _ => x == y,
        }
    }

    fn dtypes(&mut self, x: DTy, y: DTy) -> bool {
        match (x, y) {
            (DTy::Param(p), DTy::Param(q)) => self.params.pair(p, q),
            _ => x == y,
        }
    }

    fn opt_ty(
        &mut self,
        x: Option<TypeId>,
        y: Option<TypeId>,
        at: Option<&Pair>,
        what: &str,
    ) -> Check {
        match (x, y) {
            (Some(s), Some(t)) => self.ty(s, t, at),
            (None, None) => Ok(()),
            _ if !self.options.annotations => Ok(()),
            (Some(s), None) => {
                let what = format!("{what}: {} and no annotation", self.a.show_type(s));
                self.differ_at(&what, at)
            }
            (None, Some(t)) => {
                let what = format!("{what}: no annotation and {}", self.b.show_type(t));
                self.differ_at(&what, at)
            }
        }
    }

    fn ty(&mut self, x: TypeId, y: TypeId, at: Option<&Pair>) -> Check {
        let mut stack = vec![(x, y)];
        let (a, b) = (self.a, self.b);
        while let Some((s, t)) = stack.pop() {
            // Variables correspond for good, so what was equal once stays equal.
            if !self.types.insert((s, t)) {
                continue;
            }
            let same = match (&a.types[s], &b.types[t]) {
                (Type::Tensor(p), Type::Tensor(q)) => {
                    self.shapes(&p.shape, &q.shape) && self.dtypes(p.dtype, q.dtype)
                }
                (Type::Shape(p), Type::Shape(q)) => self.shapes(p, q),
                (Type::Func(f), Type::Func(g)) => {
                    f.params.len() == g.params.len()
                        && f.args.len() == g.args.len()
                        && f.constraints.len() == g.constraints.len()
                        && f.params
                            .iter()
                            .zip(g.params.iter())
                            .all(|(p, q)| self.params.pair(*p, *q))
                        && self.constraints(&f.constraints, &g.constraints, at).is_ok()
                }
                (Type::Adt(p, _), Type::Adt(q, _)) => a.adts[*p].name == b.adts[*q].name,
                (Type::Param(p), Type::Param(q)) => self.params.pair(*p, *q),
                (Type::Tuple(_), Type::Tuple(_)) | (Type::Ref(_), Type::Ref(_)) => true,
                (p, q) => p == q,
            };
            let (parts, others) = (a.types.children(s), b.types.children(t));
            if !same || parts.len() != others.len() {
                let what = format!("types {} and {}", a.show_type(s), b.show_type(t));
                return self.differ_at(&what, at);
            }
            stack.extend(parts.into_iter().zip(others).rev());
        }
        Ok(())
    }

    fn push(&mut self, a: ExprId, b: ExprId, parent: u32, step: Step) {
        self.trail.push(Trail { parent, step });
        let trail = self.trail.len() as u32 - 1;
        self.stack.push(Pair { a, b, trail });
    }

    fn run(&mut self, a: ExprId, b: ExprId) -> Check {
        self.trail.clear();
        self.stack.clear();
        self.stack.push(Pair { a, b, trail: ROOT });
        while let Some(pair) = self.stack.pop() {
            let first = self.stack.len();
            self.exprs(&pair)?;
            self.stack[first..].reverse();
        }
        Ok(())
    }

    fn lists(&mut self, x: &[ExprId], y: &[ExprId], pair: &Pair, step: fn(u32) -> Step) -> Check {
        if x.len() != y.len() {
            let what = format!("{} and {} parts", x.len(), y.len());
            return self.differ_at(&what, Some(pair));
        }
        for (i, (&s, &t)) in x.iter().zip(y).enumerate() {
            self.push(s, t, pair.trail, step(i as u32));
        }
        Ok(())
    }

    fn exprs(&mut self, pair: &Pair) -> Check {
        let (a, b) = (self.a, self.b);
        let at = Some(pair);
        let leaf = a.is_leaf(pair.a);
        if !leaf && !b.is_leaf(pair.b) {
            if self.nodes.known(pair.a, pair.b) {
                return Ok(());
            }
            if !self.nodes.pair(pair.a, pair.b) {
                return self.differ_at("one side shares a node and the other repeats it", at);
            }
        }
        let trail = pair.trail;
        match (&a.exprs[pair.a], &b.exprs[pair.b]) {
            (Expr::Var(v), Expr::Var(w)) => {
                if self.vars.pair(*v, *w) {
                    return Ok(());
                }
                let what = format!(
                    "%{} and %{} are different variables",
                    a.vars[*v].name, b.vars[*w].name
                );
                self.differ_at(&what, at)
            }
            (Expr::Global(g), Expr::Global(h)) if a.globals[*g].name == b.globals[*h].name => {
                Ok(())
            }
            (Expr::Global(g), Expr::Global(h))
                if self.renamed_left.contains(g) && self.renamed_right.contains(h) =>
            {
                if !self.global_pairs.there.contains_key(g) {
                    self.renamed.push((*g, *h));
                }
                if self.global_pairs.pair(*g, *h) {
                    Ok(())
                } else {
                    let (g, h) = (a.globals[*g].name, b.globals[*h].name);
                    let what = format!("@{g} and @{h} are different functions");
                    self.differ_at(&what, Some(pair))
                }
            }
            (Expr::Op(p), Expr::Op(q)) if self.ops(*p, *q) => Ok(()),
            (Expr::Ctor(c), Expr::Ctor(d)) if a.ctors[*c].name == b.ctors[*d].name => Ok(()),
            (Expr::Extern(n), Expr::Extern(o)) if n == o => Ok(()),
            (Expr::Const(c), Expr::Const(d)) if a.consts[*c] == b.consts[*d] => Ok(()),
            (Expr::Tuple(x), Expr::Tuple(y)) => {
                self.lists(a.list(*x), b.list(*y), pair, Step::Field)
            }
            (Expr::Proj { tuple: x, index: i }, Expr::Proj { tuple: y, index: j }) if i == j => {
                self.push(*x, *y, trail, Step::Tuple);
                Ok(())
            }
            (Expr::Func(f), Expr::Func(g)) => {
                self.functions(*f, *g, at)?;
                self.push(a.funcs[*f].body, b.funcs[*g].body, trail, Step::FuncBody);
                Ok(())
            }
            (
                &Expr::Call {
                    callee: f,
                    args: x,
                    attrs: p,
                    type_args: s,
                },
                &Expr::Call {
                    callee: g,
                    args: y,
                    attrs: q,
                    type_args: t,
                },
            ) => {
                self.push(f, g, trail, Step::Callee);
                self.lists(a.list(x), b.list(y), pair, Step::Arg)?;
                self.attrs(a.attrs(p), b.attrs(q), at)?;
                let (s, t) = (a.type_args(s), b.type_args(t));
                if s.len() != t.len() {
                    return self.differ_at("the numbers of type arguments differ", at);
                }
                for (&s, &t) in s.iter().zip(t) {
                    self.ty(s, t, at)?;
                }
                Ok(())
            }
            (
                &Expr::Let {
                    var: v,
                    value: x,
                    body: s,
                },
                &Expr::Let {
                    var: w,
                    value: y,
                    body: t,
                },
            ) => {
                self.var(v, w, at)?;
                self.push(x, y, trail, Step::Value(v));
                // The body of a long chain keeps the way short: it is no deeper than the `let`.
                self.push(s, t, trail, Step::LetBody);
                Ok(())
            }
            (
                &Expr::If {
                    cond: c,
                    then: x,
                    otherwise: s,
                },
                &Expr::If {
                    cond: d,
                    then: y,
                    otherwise: t,
                },
            ) => {
                self.push(c, d, trail, Step::Cond);
                self.push(x, y, trail, Step::Then);
                self.push(s, t, trail, Step::Else);
                Ok(())
            }
            (
                Expr::Match {
                    value: x,
                    clauses: s,
                    complete: c,
                },
                Expr::Match {
                    value: y,
                    clauses: t,
                    complete: d,
                },
            ) => {
                if c != d || s.len() != t.len() {
                    return self.differ_at("the matches differ", at);
                }
                self.push(*x, *y, trail, Step::Scrutinee);
                for (i, (c, d)) in s.iter().zip(t).enumerate() {
                    self.patterns(c.pattern, d.pattern, pair)?;
                    self.push(c.body, d.body, trail, Step::Clause(i as u32));
                }
                Ok(())
            }
            (Expr::RefNew(x), Expr::RefNew(y)) | (Expr::RefRead(x), Expr::RefRead(y)) => {
                self.push(*x, *y, trail, Step::Ref);
                Ok(())
            }
            (Expr::RefWrite(x, s), Expr::RefWrite(y, t)) => {
                self.push(*x, *y, trail, Step::Ref);
                self.push(*s, *t, trail, Step::Written);
                Ok(())
            }
            (Expr::Shape(x), Expr::Shape(y)) if self.dim_lists(x, y) => Ok(()),
            (Expr::MatchShape { value: x, dims: s }, Expr::MatchShape { value: y, dims: t })
                if self.dim_lists(s, t) =>
            {
                self.push(*x, *y, trail, Step::Arg(0));
                Ok(())
            }
            (&Expr::MatchCast { value: x, ty: s }, &Expr::MatchCast { value: y, ty: t }) => {
                self.ty(s, t, at)?;
                self.push(x, y, trail, Step::Arg(0));
                Ok(())
            }
            (&Expr::Dataflow { block: p, body: s }, &Expr::Dataflow { block: q, body: t }) => {
                self.blocks(p, q, pair)?;
                self.push(s, t, trail, Step::LetBody);
                Ok(())
            }
            (Expr::Error, Expr::Error) => Ok(()),
            _ => {
                let what = format!(
                    "{} and {}",
                    a.show_expr(pair.a, self.op),
                    b.show_expr(pair.b, self.op)
                );
                self.differ_at(&what, at)
            }
        }
    }

    fn dim_lists(&mut self, x: &[Dim], y: &[Dim]) -> bool {
        x.len() == y.len() && x.iter().zip(y).all(|(d, e)| self.dim(d, e))
    }

    fn blocks(&mut self, p: BlockId, q: BlockId, pair: &Pair) -> Check {
        let (x, y) = (&self.a.blocks[p], &self.b.blocks[q]);
        if x.bindings.len() != y.bindings.len() || x.outputs.len() != y.outputs.len() {
            return self.differ_at("the dataflow blocks differ", Some(pair));
        }
        for (c, d) in x.bindings.iter().zip(&y.bindings) {
            self.var(c.var, d.var, Some(pair))?;
            self.push(c.value, d.value, pair.trail, Step::Value(c.var));
        }
        for (&v, &w) in x.outputs.iter().zip(&y.outputs) {
            if !self.vars.pair(v, w) {
                return self.differ_at("the outputs differ", Some(pair));
            }
        }
        Ok(())
    }

    fn patterns(&mut self, p: PatId, q: PatId, pair: &Pair) -> Check {
        let (x, y) = (self.a.sub_patterns(p), self.b.sub_patterns(q));
        let mut same = x.len() == y.len();
        for (&p, &q) in x.iter().zip(&y) {
            same &= match (&self.a.patterns[p], &self.b.patterns[q]) {
                (Pattern::Wildcard, Pattern::Wildcard) => true,
                (Pattern::Var(v), Pattern::Var(w)) => {
                    self.var(*v, *w, Some(pair))?;
                    true
                }
                (Pattern::Ctor(c, s), Pattern::Ctor(d, t)) => {
                    self.a.ctors[*c].name == self.b.ctors[*d].name && s.len() == t.len()
                }
                (Pattern::Tuple(s), Pattern::Tuple(t)) => s.len() == t.len(),
                _ => false,
            };
        }
        if same {
            Ok(())
        } else {
            self.differ_at("the patterns differ", Some(pair))
        }
    }
}
