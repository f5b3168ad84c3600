//! The interface between type relations and the solver.
//!
//! A relation is run whenever one of its types changes. It inspects the argument types and the
//! result type through a [`RelCx`], refines what it can by unification, and returns one of three
//! results: it holds (`Ok`), it has to wait for more information (`Err(Stop::Wait)`), or it cannot
//! hold (`Err(Stop::Refuse(…))`). Types may be incomplete, dimensions symbolic or `?`.
//!
//! A relation may run any number of times and must not depend on how often: refinement is
//! idempotent.

use relax_ir::{AttrValue, Attrs, DTy, Shape, TensorType, Type, TypeArena, TypeId};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

/// The subject of a refusal; the solver maps it to a source location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The call as a whole.
    Call,
    /// The argument at a position.
    Arg(usize),
    /// An attribute by name.
    Attr(&'static str),
    /// The use of the result.
    Result,
}

/// Why a relation cannot hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The subject of the refusal.
    pub subject: Subject,
    /// One sentence without a full stop: the rule and how it is violated.
    pub message: String,
    /// Further notes: what to do, where a number comes from.
    pub notes: Vec<String>,
}

impl Refusal {
    /// Adds a sentence.
    pub fn note(mut self, text: impl Into<String>) -> Refusal {
        self.notes.push(text.into());
        self
    }
}

/// Why a relation did not conclude.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Something that may become known is not known yet.
    Wait,
    /// It cannot hold.
    Refuse(Box<Refusal>),
}

impl From<Refusal> for Stop {
    fn from(r: Refusal) -> Stop {
        Stop::Refuse(Box::new(r))
    }
}

/// The conclusion of a relation.
pub type RelResult<T = ()> = Result<T, Stop>;
/// A type relation: see [`RelCx`].
pub type RelFn = fn(&mut RelCx<'_>) -> RelResult;

/// Two types or dimensions that could not be unified, as text: `3` and `4`, `float32` and `int8`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The existing one.
    pub left: String,
    /// The one it was to be unified with.
    pub right: String,
}

/// The solver's interface to relations.
pub trait RelHost {
    /// All types.
    fn types(&self) -> &TypeArena;
    /// Returns the type arena, for creating new types.
    fn types_mut(&mut self) -> &mut TypeArena;
    /// Returns the type with all currently known parts substituted (fully, not only its head).
    fn resolve(&mut self, ty: TypeId) -> TypeId;
    /// Unifies two types as far as possible; records the origin of the equality.
    fn unify(&mut self, a: TypeId, b: TypeId) -> Result<(), Mismatch>;
    /// Unifies two dimensions. Solves unknowns, accepts what is proven, records a run-time check
    /// (and a warning) for what is neither proven nor refuted, refuses what is refuted. `?` is
    /// compatible with everything. `rule` names the rule that requires it.
    fn unify_dim(&mut self, a: &Dim, b: &Dim, rule: &str) -> Result<(), Mismatch>;
    /// Returns whether the program is Relax in TVMScript: operators accept what Relax's accept.
    fn in_tvmscript(&self) -> bool {
        false
    }
    /// Returns whether it is, and nothing has been lowered yet: TVM's requirements are stricter
    /// there than for Relay's operators, and it relies on types that are more precise than the
    /// computation.
    fn as_written(&self) -> bool {
        false
    }
    /// Returns the value of the argument at a position, when it is a constant.
    fn const_arg(&self, i: usize) -> Option<&Tensor>;
    /// Returns a fresh unknown type, for relations that know a result's structure but not its
    /// parts.
    fn fresh_type(&mut self) -> TypeId;
    /// A dimension as users write it.
    fn show_dim(&self, d: &Dim) -> String;
    /// A type as users write it.
    fn show(&self, ty: TypeId) -> String;
    /// Describes two dimensions that differ in a sentence: `3 and 4 differ`.
    fn show_clash(&self, a: &Dim, b: &Dim) -> String {
        format!("{} and {} differ", self.show_dim(a), self.show_dim(b))
    }
    /// Returns whether two dimensions are equal for all values of the variables: proven, refuted or
    /// unknown. An equality that holds only for tensors without elements (`n * 4 == n * 3`) counts
    /// as refuted.
    fn compare_dims(&mut self, a: &Dim, b: &Dim) -> relax_sym::Proof;
    /// Instantiates a function type with fresh unknowns for its parameters and dimension variables,
    /// as a call of it does; other types are returned unchanged.
    fn instantiate(&mut self, ty: TypeId) -> TypeId {
        ty
    }
    /// Records that `a` must equal `b` at run time (shown as a warning), with the rule that
    /// requires it.
    fn check_dims(&mut self, a: &Dim, b: &Dim, rule: &str);
    /// Records a requirement on extents that are not constants. Type inference continues
    /// regardless; calls check it ([`crate::call_requirements::requirements`]).
    fn check_at_run_time(&mut self, a: &Dim, order: Fit, b: &Dim, rule: &str) {
        let _ = (a, order, b, rule);
    }
}

/// A required order of two extents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// They are equal.
    Equal,
    /// They are equal, or one of them is 1.
    EqualOrOne,
    /// They are equal, or the first is 1.
    BroadcastsTo,
    /// The first is not less than the second.
    AtLeast,
}

impl Fit {
    /// Returns whether it holds.
    pub fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Fit::Equal => a == b,
            Fit::EqualOrOne => a == b || a.min(b) == 1,
            Fit::BroadcastsTo => a == b || a == 1,
            Fit::AtLeast => a >= b,
        }
    }
}

/// A relation's view of one call.
pub struct RelCx<'a> {
    /// The solver.
    pub host: &'a mut dyn RelHost,
    /// The operator's (or relation's) name, for messages.
    pub name: &'a str,
    /// Argument types.
    pub args: &'a [TypeId],
    /// The result type.
    pub out: TypeId,
    /// The call's attributes, complete.
    pub attrs: &'a Attrs,
}

impl RelCx<'_> {
    /// Returns a refusal about `subject`, for use with `?` or `Err`.
    pub fn refuse<T>(&self, subject: Subject, message: impl Into<String>) -> RelResult<T> {
        let message = message.into();
        Err(Stop::from(Refusal {
            subject,
            message,
            notes: Vec::new(),
        }))
    }

    /// Returns the type of an argument, as far as it is known.
    pub fn arg(&mut self, i: usize) -> TypeId {
        self.host.resolve(self.args[i])
    }

    /// Returns the tensor type of an argument. Waits while it is unknown; refuses other types.
    pub fn tensor(&mut self, i: usize) -> RelResult<TensorType> {
        let ty = self.arg(i);
        self.expect_tensor(ty, Subject::Arg(i))
    }

    /// Returns the tensor type behind `ty`. Waits while it is unknown; refuses (about `subject`)
    /// other types. An erroneous type waits, because the error has been reported.
    pub fn expect_tensor(&mut self, ty: TypeId, subject: Subject) -> RelResult<TensorType> {
        let ty = self.host.resolve(ty);
        match &self.host.types()[ty] {
            Type::Tensor(t) => Ok(t.clone()),
            Type::Infer(_) | Type::Error | Type::Object => Err(Stop::Wait),
            _ => {
                let text = self.host.show(ty);
                self.refuse(
                    subject,
                    format!("`{}` takes a tensor here, not {text}", self.name),
                )
            }
        }
    }

    /// Returns the dimensions and the element type of an argument of known rank. Waits while the
    /// rank is not known (see [`RelCx::finish_unranked`]).
    pub fn ranked(&mut self, i: usize) -> RelResult<(Vec<Dim>, DTy)> {
        let t = self.tensor(i)?;
        match t.shape {
            Shape::Dims(dims) => Ok((dims.into_vec(), t.dtype)),
            _ => Err(Stop::Wait),
        }
    }

    /// Returns the fields of a tuple argument. Waits while it is unknown; refuses other types.
    pub fn tuple(&mut self, i: usize) -> RelResult<Vec<TypeId>> {
        let ty = self.arg(i);
        match &self.host.types()[ty] {
            Type::Tuple(fields) => Ok(fields.to_vec()),
            Type::Infer(_) | Type::Error | Type::Object => Err(Stop::Wait),
            _ => {
                let text = self.host.show(ty);
                self.refuse(
                    Subject::Arg(i),
                    format!("`{}` takes a tuple here, not {text}", self.name),
                )
            }
        }
    }

    /// Returns the element type, when known; waits while it is unresolved.
    pub fn known(&self, dtype: DTy) -> RelResult<DType> {
        match dtype {
            DTy::Known(d) => Ok(d),
            _ => Err(Stop::Wait),
        }
    }

    /// Sets the type of the result.
    pub fn set_out(&mut self, ty: TypeId) -> RelResult {
        match self.host.unify(self.out, ty) {
            Ok(()) => Ok(()),
            Err(_) => {
                let (have, want) = (self.host.show(ty), {
                    let out = self.host.resolve(self.out);
                    self.host.show(out)
                });
                self.refuse(
                    Subject::Result,
                    format!("`{}` gives {have}, but {want} is expected", self.name),
                )
            }
        }
    }

    /// Sets the result to a tensor of these dimensions and element type.
    pub fn set_tensor(&mut self, dims: Vec<Dim>, dtype: impl Into<DTy>) -> RelResult {
        let ty = self.host.types_mut().tensor(dims, dtype);
        self.set_out(ty)
    }

    /// Sets the result to a tensor of unknown rank: for inputs of [`Shape::Unknown`].
    pub fn finish_unranked(&mut self, dtype: impl Into<DTy>) -> RelResult {
        let t = TensorType {
            shape: Shape::Unknown,
            dtype: dtype.into(),
        };
        let ty = self.host.types_mut().intern(Type::Tensor(t));
        self.set_out(ty)
    }

    /// Requires an argument to have a type; `what` says why, "the bias has one element per
    /// channel".
    pub fn require_arg(&mut self, i: usize, ty: TypeId, what: &str) -> RelResult {
        match self.host.unify(self.args[i], ty) {
            Ok(()) => Ok(()),
            Err(_) => {
                let arg = self.arg(i);
                let (have, want) = (self.host.show(arg), self.host.show(ty));
                self.refuse(
                    Subject::Arg(i),
                    format!("{what}: expected {want}, found {have}"),
                )
            }
        }
    }

    /// Requires argument `i` to be a vector with an element per index of an axis of `extent`, or
    /// with a single one for all of an axis whose extent is unknown: an extent of 1 is broadcast
    /// then, as in TVM's kernels.
    pub fn require_per_index(
        &mut self,
        i: usize,
        extent: &Dim,
        dtype: DTy,
        what: &str,
    ) -> RelResult {
        let ty = self.arg(i);
        let single = match &self.host.types()[ty] {
            Type::Tensor(t) => t
                .shape
                .dims()
                .is_some_and(|d| d.len() == 1 && d[0].as_const() == Some(1)),
            _ => false,
        };
        let extent = if single && extent.as_const().is_none() {
            Dim::from(1)
        } else {
            extent.clone()
        };
        let vector = self.host.types_mut().tensor(vec![extent], dtype);
        self.require_arg(i, vector, what)
    }

    /// Requires two dimensions to be equal; `what` says why. Undecided equalities become run-time
    /// checks.
    pub fn require_eq(&mut self, a: &Dim, b: &Dim, subject: Subject, what: &str) -> RelResult {
        match self.host.unify_dim(a, b, what) {
            Ok(()) => Ok(()),
            Err(_) => {
                let clash = self.host.show_clash(a, b);
                self.refuse(subject, format!("{what}: {clash}"))
            }
        }
    }

    /// Requires an extent to be at least another one. Constants that are less are refused, with
    /// `message`; what is known only at run time is checked there, with `rule`.
    pub fn require_at_least(
        &mut self,
        a: &Dim,
        b: &Dim,
        subject: Subject,
        rule: &str,
        message: impl FnOnce(i64, i64) -> String,
    ) -> RelResult {
        match (a.as_const(), b.as_const()) {
            (Some(x), Some(y)) if x < y => self.refuse(subject, message(x, y)),
            (Some(_), Some(_)) => Ok(()),
            _ => {
                self.host.check_at_run_time(a, Fit::AtLeast, b, rule);
                Ok(())
            }
        }
    }

    /// Requires an extent to be a multiple of a number, in the same way.
    pub fn require_multiple(
        &mut self,
        extent: &Dim,
        of: i64,
        subject: Subject,
        rule: &str,
        message: impl FnOnce(i64) -> String,
    ) -> RelResult {
        match extent.as_const() {
            Some(n) if n % of != 0 => self.refuse(subject, message(n)),
            Some(_) => Ok(()),
            None => {
                let rest = extent.modulo(&Dim::from(of));
                self.host
                    .check_at_run_time(&rest, Fit::Equal, &Dim::ZERO, rule);
                Ok(())
            }
        }
    }

    /// Requires two element types to be equal; waits while one is unresolved, after unifying.
    pub fn require_dtype(
        &mut self,
        a: DTy,
        b: DTy,
        subject: Subject,
        what: &str,
    ) -> RelResult<DTy> {
        if matches!(a, DTy::Known(_)) && a == b {
            return Ok(a);
        }
        let scalar = |cx: &mut Self, d| cx.host.types_mut().scalar(d);
        let (x, y) = (scalar(self, a), scalar(self, b));
        if self.host.unify(x, y).is_err() {
            let (x, y) = (self.host.show(x), self.host.show(y));
            return self.refuse(subject, format!("{what}: {x} and {y} differ"));
        }
        let x = self.host.resolve(x);
        Ok(self.host.types().as_tensor(x).map_or(a, |t| t.dtype))
    }

    /// Returns one dimension of a numpy broadcast. Refuses (about the call) what cannot be
    /// broadcast; undecided pairs become run-time checks. `?` with 1 stays `?`, with `d` gives `d`.
    pub fn broadcast_dim(&mut self, a: &Dim, b: &Dim) -> RelResult<Dim> {
        // In TVM's order: it decides which of two ones determines the width of the result.
        if a.as_const() == Some(1) {
            return Ok(b.clone());
        }
        if a == b || b.as_const() == Some(1) {
            return Ok(a.clone());
        }
        if a.is_any() {
            return Ok(b.clone());
        }
        if b.is_any() {
            return Ok(a.clone());
        }
        match self.host.compare_dims(a, b) {
            relax_sym::Proof::Proven => Ok(if b.as_const().is_some() {
                b.clone()
            } else {
                a.clone()
            }),
            relax_sym::Proof::Refuted if self.never_one(a) && self.never_one(b) => {
                let (a, b) = (self.host.show_dim(a), self.host.show_dim(b));
                let name = self.name;
                let rule = "broadcasting asks for equal extents, or 1";
                self.refuse(
                    Subject::Call,
                    format!("`{name}` cannot broadcast {a} against {b}: {rule}"),
                )
            }
            _ => {
                // One of them may still be 1 at run time; where neither is, they must be equal. A
                // constant greater than 1 is then the result's extent.
                self.host.check_dims(a, b, "broadcasting");
                let constant = [a, b].into_iter().find(|d| d.as_const().is_some());
                Ok(constant.cloned().unwrap_or_else(|| a.max(b)))
            }
        }
    }

    fn never_one(&mut self, d: &Dim) -> bool {
        self.host.compare_dims(d, &Dim::ONE) == relax_sym::Proof::Refuted
    }

    /// Returns the numpy broadcast of two shapes of known rank.
    pub fn broadcast(&mut self, a: &[Dim], b: &[Dim]) -> RelResult<Vec<Dim>> {
        let rank = a.len().max(b.len());
        let one = Dim::from(1);
        let dim = |s: &[Dim], i: usize| {
            (i + s.len())
                .checked_sub(rank)
                .map_or(one.clone(), |k| s[k].clone())
        };
        (0..rank)
            .map(|i| self.broadcast_dim(&dim(a, i), &dim(b, i)))
            .collect()
    }

    /// Returns an attribute's value. Attributes are complete, so every declared name is present.
    pub fn attr(&self, name: &str) -> &AttrValue {
        static NONE: AttrValue = AttrValue::None;
        self.attrs.get(name).unwrap_or(&NONE)
    }

    /// Returns an integer attribute; refuses other values, naming the attribute.
    pub fn int(&self, name: &'static str) -> RelResult<i64> {
        match self.attr(name).as_int() {
            Some(v) => Ok(v),
            None => self.refuse(
                Subject::Attr(name),
                format!("attribute `{name}` must be an integer"),
            ),
        }
    }

    /// Returns an attribute that is a list of integers; `None` stays `None`.
    pub fn ints(&self, name: &'static str) -> RelResult<Option<Vec<i64>>> {
        match self.attr(name) {
            AttrValue::None => Ok(None),
            AttrValue::Int(i) => Ok(Some(vec![*i])),
            AttrValue::Dim(d) if d.is_wide() => Ok(d.as_const().map(|i| vec![i])),
            other => match other.as_ints() {
                Some(v) => Ok(Some(v)),
                None => self.refuse(
                    Subject::Attr(name),
                    format!("attribute `{name}` must be a list of integers"),
                ),
            },
        }
    }

    /// An attribute that is a truth value.
    pub fn flag(&self, name: &'static str) -> bool {
        self.attr(name).as_bool().unwrap_or(false)
    }

    /// Returns an attribute that is an element type; `None` for `void` and `None`.
    pub fn dtype(&self, name: &'static str) -> Option<DType> {
        match self.attr(name) {
            AttrValue::DType(d) if !d.is_void() => Some(*d),
            AttrValue::Str(s) => s.parse().ok().filter(|d: &DType| !d.is_void()),
            _ => None,
        }
    }

    /// Normalises an axis attribute to `0..rank`; refuses one that is out of range.
    pub fn axis(&self, name: &'static str, value: i64, rank: usize) -> RelResult<usize> {
        let r = rank as i64;
        if (-r..r).contains(&value) {
            return Ok(if value < 0 { value + r } else { value } as usize);
        }
        let range = if r == 0 {
            "no axis at all".into()
        } else {
            format!("{} to {}", -r, r - 1)
        };
        self.refuse(
            Subject::Attr(name),
            format!(
                "`{name}={value}` is out of range: the tensor has rank {rank}, which allows {range}"
            ),
        )
    }
}
