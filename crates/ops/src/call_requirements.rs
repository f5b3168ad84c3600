//! The type relation of a single call: its result type for given argument types, and the
//! requirements on extents that are known only at run time.
//!
//! The relation runs as it does in type inference, over known types; the context of the call is
//! ignored. Rewrites use it to type the nodes that they create ([`call_type`]): facts that
//! inference would have to prove are assumed there, because the pass manager infers (and verifies)
//! types after each pass. Both engines use it for what type inference could not prove
//! ([`requirements`]): in inference `?` is compatible with everything, so here each `?` is an
//! extent of its own, and what the relation then requires of it is checked when the call is made.

use relax_ir::{Attrs, DTy, DimInfo, Module, OpId, Shape, TensorType, Type, TypeArena, TypeId};
use relax_loops::Ex;
use relax_sym::{Dim, DimVar, Facts, Proof};
use relax_tensor::Tensor;

use crate::{Fit, Mismatch, OpDef, RelCx, RelHost, Stop, registry};

/// An argument: its type and, for constants, its value.
pub struct Arg<'a> {
    /// The type.
    pub ty: TypeId,
    /// The value, when it is a constant.
    pub value: Option<&'a Tensor>,
}

/// Returns the result type of a call to a built-in operator; `None` when the relation refuses the
/// arguments or cannot conclude.
pub fn call_type(m: &mut Module, op: OpId, attrs: &Attrs, args: &[Arg<'_>]) -> Option<TypeId> {
    call_type_or_why(m, op, attrs, args).ok()
}

/// Like [`call_type`], with the reason when the relation refuses the arguments, if it gives one.
///
/// # Errors
/// The relation refuses the arguments, or cannot conclude.
pub fn call_type_or_why(
    m: &mut Module,
    op: OpId,
    attrs: &Attrs,
    args: &[Arg<'_>],
) -> Result<TypeId, Option<String>> {
    let def = registry().get(op).ok_or(None)?;
    let dims = &m.dims;
    let name = |v: DimVar| dims[v].name.to_string();
    let mut host = Host {
        first: m.type_holes,
        types: &mut m.types,
        args,
        name: &name,
        found: Vec::new(),
        needs: Vec::new(),
        script: false,
    };
    host.concluded(def, attrs)
}

/// Returns whether Relax accepts a call that Relay accepts: its requirements are stricter for some
/// operators. Returns true where that is unknown.
pub fn fits_relax(def: &OpDef, types: &TypeArena, args: &[TypeId], attrs: &Attrs) -> bool {
    let (mut own, mut all) = (TypeArena::new(), Requirements::default());
    // Only the equality of extents matters here: the module's variables are used as they are.
    all.first = u32::MAX / 2;
    let mut given = Vec::with_capacity(args.len());
    for (i, &ty) in args.iter().enumerate() {
        match all.adopt(types, &mut own, ty, i, &mut false) {
            Some(ty) => given.push(Arg { ty, value: None }),
            None => return true,
        }
    }
    let mut host = Host {
        first: 0,
        types: &mut own,
        args: &given,
        name: &|_| "extent".to_owned(),
        found: Vec::new(),
        needs: Vec::new(),
        script: true,
    };
    !matches!(host.concluded(def, attrs), Err(Some(_)))
}

/// A requirement on the extents of a call's arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Requirement {
    /// One extent.
    left: Dim,
    /// The other.
    right: Dim,
    /// The relation that must hold between the two.
    order: Fit,
    /// Each `{}` is a placeholder for the value of an extent that is not constant.
    message: String,
}

/// An extent that a requirement refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A dimension variable of the module.
    Var(DimVar),
    /// The extent of an axis: argument, tensor of the argument (0, or the field of a tuple), axis.
    Axis(usize, usize, usize),
}

/// The requirements of one call, and the extents that its `?`s denote.
#[derive(Default, Debug)]
pub struct Requirements {
    all: Vec<Requirement>,
    /// The number of the first variable that denotes a `?`, and the extent of each.
    first: u32,
    unknown: Vec<Extent>,
}

/// Returns the requirements of a call of `def` that its relation could not prove, for extents that
/// are `?` or symbolic. `dims` is the arena of the module that `types` belongs to.
pub fn requirements(
    def: &OpDef,
    types: &TypeArena,
    dims: &relax_base::Arena<DimVar, DimInfo>,
    args: &[TypeId],
    values: &[Option<Tensor>],
    attrs: &Attrs,
) -> Requirements {
    let mut out = Requirements {
        first: dims.len() as u32,
        ..Requirements::default()
    };
    let mut own = TypeArena::new();
    let mut open = false;
    let mut given = Vec::with_capacity(args.len());
    for (i, &ty) in args.iter().enumerate() {
        let Some(ty) = out.adopt(types, &mut own, ty, i, &mut open) else {
            return Requirements::default();
        };
        let value = values.get(i).and_then(Option::as_ref);
        given.push(Arg { ty, value });
    }
    if !open {
        return out;
    }
    let (first, unknown) = (out.first, &out.unknown);
    let name = |v: DimVar| match v.0.checked_sub(first) {
        None => dims[v].name.to_string(),
        Some(k) => match unknown[k as usize] {
            Extent::Axis(i, j, axis) => {
                let name = def.inputs.get(i).map_or("argument", |i| i.name);
                match types[args[i]] {
                    Type::Tuple(_) => format!("{name}.{j}.shape[{axis}]"),
                    _ => format!("{name}.shape[{axis}]"),
                }
            }
            Extent::Var(_) => unreachable!("those stand for themselves"),
        },
    };
    let mut host = Host {
        first: 0,
        types: &mut own,
        args: &given,
        name: &name,
        found: Vec::new(),
        needs: Vec::new(),
        script: false,
    };
    // Where the relation does not conclude for such extents, its requirements up to that point
    // still count. The computation detects the rest; a kernel that replaces it checks its own
    // assumptions.
    let _ = host.result(def, attrs);
    let mut all: Vec<Requirement> = Vec::new();
    for need in std::mem::take(&mut host.needs) {
        let r = host.requirement(def.name, need);
        if !all.contains(&r) {
            all.push(r);
        }
    }
    out.all = all;
    out
}

impl Requirements {
    /// Returns whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Copies an argument type to an arena of its own, with a variable for each `?`. `None` for
    /// types that do not consist of tensors and shapes.
    fn adopt(
        &mut self,
        from: &TypeArena,
        to: &mut TypeArena,
        ty: TypeId,
        arg: usize,
        open: &mut bool,
    ) -> Option<TypeId> {
        let mut number = 0;
        let mut done: Vec<TypeId> = Vec::new();
        let mut work = vec![(ty, false)];
        while let Some((ty, ready)) = work.pop() {
            match &from[ty] {
                Type::Tensor(t) => {
                    let mut t = t.clone();
                    if let Shape::Dims(dims) = &mut t.shape {
                        for (axis, d) in dims.iter_mut().enumerate() {
                            *open |= d.as_const().is_none();
                            if d.is_any() {
                                let var = DimVar(self.first + self.unknown.len() as u32);
                                self.unknown.push(Extent::Axis(arg, number, axis));
                                *d = Dim::var(var);
                            }
                        }
                    }
                    number += 1;
                    done.push(to.intern(Type::Tensor(t)));
                }
                Type::Shape(s) => {
                    number += 1;
                    done.push(to.intern(Type::Shape(s.clone())));
                }
                Type::Tuple(fields) if ready => {
                    let fields = done.split_off(done.len() - fields.len());
                    done.push(to.tuple(fields));
                }
                Type::Tuple(fields) => {
                    work.push((ty, true));
                    work.extend(fields.iter().rev().map(|f| (*f, false)));
                }
                _ => return None,
            }
        }
        done.pop()
    }

    fn extent(&self, v: DimVar) -> Extent {
        match v.0.checked_sub(self.first) {
            Some(k) => self.unknown[k as usize],
            None => Extent::Var(v),
        }
    }

    /// Returns the message of the first requirement that these extents violate. Requirements on an
    /// unknown extent are skipped.
    pub fn broken(&self, extent: &dyn Fn(Extent) -> Option<i64>) -> Option<String> {
        let value = |d: &Dim| d.eval(&|v| extent(self.extent(v))).ok().flatten();
        self.all.iter().find_map(|r| {
            let (a, b) = (value(&r.left)?, value(&r.right)?);
            if r.order.holds(a, b) {
                return None;
            }
            let mut text = r.message.clone();
            for v in r.shown().map(value) {
                text = text.replacen("{}", &v?.to_string(), 1);
            }
            Some(text)
        })
    }

    /// Returns the requirements as assertions of a program: condition, message, values that the
    /// message shows. Requirements on an extent that the program does not know are skipped.
    pub fn asserts(&self, extent: &dyn Fn(Extent) -> Option<Ex>) -> Vec<(Ex, String, Vec<Ex>)> {
        let value = |d: &Dim| relax_ir::dim_to_ex(d, |v| extent(self.extent(v)));
        (self.all.iter())
            .filter_map(|r| {
                let (a, b) = (value(&r.left)?, value(&r.right)?);
                let holds = match r.order {
                    Fit::Equal => a.eq(&b),
                    Fit::EqualOrOne => a.eq(&b) | a.min(&b).eq(1i64),
                    Fit::BroadcastsTo => a.eq(&b) | a.eq(1i64),
                    Fit::AtLeast => a.ge(&b),
                };
                let shown = r.shown().map(value).collect::<Option<Vec<Ex>>>()?;
                Some((holds, r.message.clone(), shown))
            })
            .collect()
    }
}

impl Requirement {
    /// The sides that the message shows.
    fn shown(&self) -> impl Iterator<Item = &Dim> {
        [&self.left, &self.right]
            .into_iter()
            .filter(|d| d.as_const().is_none())
    }
}

/// A relation's requirement on two extents.
struct Need {
    left: Dim,
    right: Dim,
    order: Fit,
    rule: String,
}

struct Host<'a> {
    types: &'a mut TypeArena,
    args: &'a [Arg<'a>],
    name: &'a dyn Fn(DimVar) -> String,
    /// The number of the first unknown: lower ones denote the text's `_`.
    first: u32,
    /// The types that the unknowns were resolved to.
    found: Vec<Option<TypeId>>,
    /// The requirements that could be neither proven nor refuted.
    needs: Vec<Need>,
    /// Whether the call is checked as a call of Relax.
    script: bool,
}

impl Host<'_> {
    /// Runs the relation and returns the result type when it concludes.
    fn result(&mut self, def: &OpDef, attrs: &Attrs) -> Option<TypeId> {
        self.concluded(def, attrs).ok()
    }

    /// Like `result`, with the reason for a refusal.
    fn concluded(&mut self, def: &OpDef, attrs: &Attrs) -> Result<TypeId, Option<String>> {
        let out = self.fresh_type();
        let types: Vec<TypeId> = self.args.iter().map(|a| a.ty).collect();
        let mut cx = RelCx {
            host: self,
            name: def.name,
            args: &types,
            out,
            attrs,
        };
        def.relate(&mut cx).map_err(|stop| match stop {
            Stop::Refuse(refusal) => Some(refusal.message),
            Stop::Wait => None,
        })?;
        let out = self.resolve(out);
        let open = |t: &Type| matches!(t, Type::Infer(_) | Type::Error);
        let mut parts = vec![out];
        while let Some(t) = parts.pop() {
            if open(&self.types[t]) {
                return Err(None);
            }
            parts.extend(self.types.children(t));
        }
        Ok(out)
    }

    fn requirement(&self, op: &str, need: Need) -> Requirement {
        let Need {
            mut left,
            mut right,
            order,
            rule,
        } = need;
        let swaps = matches!(order, Fit::Equal | Fit::EqualOrOne);
        if swaps && left.as_const().is_some() {
            std::mem::swap(&mut left, &mut right);
        }
        let (x, y) = (self.show_dim(&left), self.show_dim(&right));
        let (one, other) = (left.as_const(), right.as_const());
        let is = |x: &str| format!("{x} is {{}}");
        let said = match (order, one, other) {
            (Fit::Equal, _, Some(n)) => format!("{}, but must be {n}", is(&x)),
            (Fit::EqualOrOne | Fit::BroadcastsTo, None, Some(n)) => {
                format!("{}, but must be {n} or 1", is(&x))
            }
            (Fit::BroadcastsTo, Some(n), _) => format!("{}, but must be {n}", is(&y)),
            (Fit::AtLeast, None, Some(n)) => format!("{}, but must be at least {n}", is(&x)),
            (Fit::AtLeast, Some(n), _) => format!("{}, but must be at most {n}", is(&y)),
            (Fit::Equal, ..) => format!("{} and {}, but they must be equal", is(&x), is(&y)),
            (Fit::EqualOrOne, ..) => {
                format!(
                    "{} and {}, but they must be equal, or one of them 1",
                    is(&x),
                    is(&y)
                )
            }
            (Fit::BroadcastsTo, ..) => {
                format!(
                    "{} and {}, but they must be equal, or the first 1",
                    is(&x),
                    is(&y)
                )
            }
            (Fit::AtLeast, ..) => {
                format!("{} and {}, but the first must not be less", is(&x), is(&y))
            }
        };
        let mut message = format!("`{op}`: {said}");
        if !rule.is_empty() && matches!(order, Fit::Equal | Fit::AtLeast) {
            message.push_str(&format!(" ({rule})"));
        }
        Requirement {
            left,
            right,
            order,
            message,
        }
    }

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
    fn tensors(&mut self, a: &TensorType, b: &TensorType) -> Result<(), Mismatch> {
        if let (DTy::Known(x), DTy::Known(y)) = (a.dtype, b.dtype)
            && x != y
        {
            return Err(Self::mismatch(&x, &y));
        }
        self.shapes(&a.shape, &b.shape)
    }
    fn shapes(&mut self, a: &Shape, b: &Shape) -> Result<(), Mismatch> {
        let (Some(x), Some(y)) = (a.dims(), b.dims()) else {
            return Ok(());
        };
        if x.len() != y.len() {
            return Err(Self::mismatch(&x.len(), &y.len()));
        }
        for (p, q) in x.iter().zip(y) {
            self.unify_dim(p, q, "")?;
        }
        Ok(())
    }
}

impl RelHost for Host<'_> {
    fn in_tvmscript(&self) -> bool {
        self.script
    }
    fn as_written(&self) -> bool {
        self.script
    }
    fn types(&self) -> &TypeArena {
        self.types
    }
    fn types_mut(&mut self) -> &mut TypeArena {
        self.types
    }
    fn resolve(&mut self, ty: TypeId) -> TypeId {
        let head = self.head(ty);
        if !matches!(self.types[head], Type::Tuple(_)) {
            return head;
        }
        // Only tuples are built over unknowns; rebuild them from the leaves up.
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
            match (self.types[a].clone(), self.types[b].clone()) {
                (Type::Tensor(x), Type::Tensor(y)) => self.tensors(&x, &y)?,
                (Type::Shape(x), Type::Shape(y)) => self.shapes(&x, &y)?,
                (Type::Tuple(x), Type::Tuple(y)) if x.len() == y.len() => {
                    pairs.extend(x.iter().copied().zip(y.iter().copied()));
                }
                (Type::Error | Type::Object, _) | (_, Type::Error | Type::Object) => {}
                _ => return Err(Self::mismatch(&self.show(a), &self.show(b))),
            }
        }
        Ok(())
    }
    fn unify_dim(&mut self, a: &Dim, b: &Dim, rule: &str) -> Result<(), Mismatch> {
        match (a.as_const(), b.as_const()) {
            (Some(x), Some(y)) if x != y => return Err(Self::mismatch(&x, &y)),
            _ => {}
        }
        self.check_dims(a, b, rule);
        Ok(())
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
        d.display(self.name).to_string()
    }
    fn show(&self, ty: TypeId) -> String {
        let Type::Tensor(t) = &self.types[ty] else {
            return format!("{ty:?}");
        };
        let dtype = match t.dtype {
            DTy::Known(dtype) => dtype.to_string(),
            _ => "?".to_owned(),
        };
        let Some(dims) = t.shape.dims() else {
            return format!("Tensor[?, {dtype}]");
        };
        let dims: Vec<String> = dims.iter().map(|d| self.show_dim(d)).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        format!("Tensor[({}{comma}), {dtype}]", dims.join(", "))
    }
    fn compare_dims(&mut self, a: &Dim, b: &Dim) -> Proof {
        match a.is_known() && b.is_known() {
            true => Facts::default().eq(a, b),
            false => Proof::Unknown,
        }
    }
    fn check_dims(&mut self, a: &Dim, b: &Dim, rule: &str) {
        let order = match rule {
            "broadcasting" => Fit::EqualOrOne,
            _ => Fit::Equal,
        };
        self.check_at_run_time(a, order, b, rule);
    }
    fn check_at_run_time(&mut self, a: &Dim, order: Fit, b: &Dim, rule: &str) {
        let surely = match order {
            Fit::AtLeast => Facts::default().le(b, a) == Proof::Proven,
            _ => self.compare_dims(a, b) == Proof::Proven,
        };
        if a.is_known() && b.is_known() && !surely {
            self.needs.push(Need {
                left: a.clone(),
                right: b.clone(),
                order,
                rule: rule.to_owned(),
            });
        }
    }
}
