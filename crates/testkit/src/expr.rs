//! Expressions of any type.

use crate::program::Features;
use crate::programs::Programs;
use crate::rng::Rng;
use crate::types::{Dim, Dims, Elem, Ty};

/// A global function that can be called.
pub struct Global {
    pub name: String,
    pub args: Vec<Ty>,
    pub ret: Ty,
    /// Whether the first argument is the number of its steps.
    pub counted: bool,
}

/// A call that may be repeated where the variables that were in scope still are.
pub struct Said {
    pub text: String,
    pub ty: Ty,
    /// How many variables were in scope, and the last of them.
    pub scope: (usize, Option<String>),
}

/// The state of the generator.
pub struct Gen {
    pub rng: Rng,
    pub features: Features,
    pub globals: Vec<Global>,
    /// The variables in scope, innermost last: the text of a reference, and the type.
    pub env: Vec<(String, Ty)>,
    /// The number of nodes the function may still get.
    pub fuel: i64,
    /// The dimension variables in scope, each with a one-axis variable of that extent.
    pub bases: Vec<(u32, String)>,
    /// Local functions in scope that apply a function `fn (A) -> A` to an `A`, for any `A`.
    pub appliers: Vec<String>,
    /// The user-defined data types: the fields of each constructor.
    pub data: Vec<Vec<Vec<Ty>>>,
    /// Calls that may be repeated.
    pub said: Vec<Said>,
    /// Items required by expressions.
    pub programs: Programs,
    /// The nesting depth of closures and loops: code that runs often stays small.
    pub inner: u32,
    /// Whether inside dataflow blocks and graph bindings: operators only.
    pub plain: bool,
    /// Whether operands may go through a function that hides their extents.
    pub hiding: bool,
    /// The number of dimension variables bound by matches.
    pub matched: u32,
    pub graph: u32,
    fresh: u32,
}

impl Gen {
    pub fn new(rng: Rng, features: Features) -> Gen {
        Gen {
            rng,
            features,
            globals: Vec::new(),
            env: Vec::new(),
            fuel: 0,
            bases: Vec::new(),
            appliers: Vec::new(),
            data: Vec::new(),
            said: Vec::new(),
            programs: Programs::default(),
            inner: 0,
            plain: false,
            hiding: false,
            matched: 1,
            graph: 0,
            fresh: 0,
        }
    }

    /// Returns a unique name.
    pub fn name(&mut self) -> String {
        self.fresh += 1;
        format!("%v{}", self.fresh)
    }

    fn elem(&mut self) -> Elem {
        let f = self.features;
        if f.elements && self.rng.chance(50) {
            use Elem::*;
            return *(self.rng).pick(&[F16, BF16, F64, I8, I16, I64, U8, U16, Bool]);
        }
        let all = if f.smooth {
            &[Elem::F32, Elem::F32, Elem::F32, Elem::I32][..]
        } else {
            use Elem::*;
            &[F32, F32, F32, F32, I32, I32, Bool, F64, I64][..]
        };
        *self.rng.pick(all)
    }

    /// Generates a tensor type.
    pub fn tensor_ty(&mut self, symbolic: bool) -> Ty {
        if self.features.effects && self.rng.chance(85) {
            return Ty::scalar(Elem::I32);
        }
        let elem = self.elem();
        let rank = *self.rng.pick(&[0, 0, 1, 1, 2, 2, 2, 3, 4]);
        let mut dims: Vec<Dim> = (0..rank)
            .map(|_| Dim::Const(*self.rng.pick(&[1, 2, 2, 3, 4])))
            .collect();
        for _ in 0..2 {
            if symbolic && !dims.is_empty() && !self.bases.is_empty() && self.rng.chance(40) {
                let at = self.rng.below(dims.len());
                dims[at] = Dim::Var(self.rng.pick(&self.bases).0);
            }
        }
        Ty::Tensor(dims, elem)
    }

    /// Generates a type of first-class values.
    pub fn value_ty(&mut self, symbolic: bool, depth: u32) -> Ty {
        let f = self.features;
        if depth == 0 {
            return self.tensor_ty(symbolic);
        }
        if f.effects && self.rng.chance(80) {
            return self.effect_ty(symbolic, depth);
        }
        let below = |this: &mut Gen| Box::new(this.value_ty(symbolic, depth - 1));
        match self.rng.below(12) {
            0 | 1 => {
                let count = self.rng.below(4);
                Ty::Tuple((0..count).map(|_| *below(self)).collect())
            }
            2 if f.closures => {
                let count = *self.rng.pick(&[1, 1, 1, 2, 0]);
                Ty::Func((0..count).map(|_| *below(self)).collect(), below(self))
            }
            3 if f.control => Ty::List(below(self)),
            4 if f.control => Ty::Option(below(self)),
            5 if f.control => Ty::Choice(below(self)),
            6 if f.control && !self.data.is_empty() => Ty::Data(self.rng.below(self.data.len())),
            7 if f.control && f.references && f.data => Ty::Ref(below(self)),
            _ => self.tensor_ty(symbolic),
        }
    }

    /// Generates a function of these types.
    pub fn closure(&mut self, args: &[Ty], ret: &Ty) -> String {
        let mark = self.env.len();
        let mut shown = Vec::new();
        for t in args {
            let v = self.name();
            shown.push(format!("{v}: {t}"));
            self.env.push((v, t.clone()));
        }
        self.inner += 1;
        let bases = self.bases.len();
        let body = self.block(ret, 2);
        self.bases.truncate(bases);
        self.inner -= 1;
        self.env.truncate(mark);
        format!("fn ({}) -> {ret} {{\n{body}}}", shown.join(", "))
    }

    /// Generates an expression of this type.
    pub fn expr(&mut self, ty: &Ty, depth: u32) -> String {
        self.fuel -= 1;
        if depth == 0 || self.fuel <= 0 {
            return self.leaf(ty);
        }
        if self.rng.chance(20)
            && let Some(v) = self.variable(ty)
        {
            return v;
        }
        if self.features.effects
            && !self.plain
            && self.rng.chance(45)
            && let Some(text) = self.effectful(ty, depth)
        {
            return text;
        }
        if !self.plain
            && self.rng.chance(45)
            && let Some(text) = self.general(ty, depth)
        {
            return text;
        }
        match ty {
            Ty::Tensor(dims, elem @ (Elem::I32 | Elem::Bool))
                if self.features.effects
                    && !self.plain
                    && dims.is_empty()
                    && self.rng.chance(90) =>
            {
                self.number(*elem, depth)
            }
            Ty::Tensor(dims, elem) => self.tensor(dims, *elem, depth),
            _ => self.construct(ty, depth),
        }
    }

    fn variable(&mut self, ty: &Ty) -> Option<String> {
        let plain = self.plain;
        let fits = |v: &&(String, Ty)| v.1 == *ty && !(plain && matches!(v.1, Ty::Func(..)));
        let fitting: Vec<String> = self.env.iter().filter(fits).map(|v| v.0.clone()).collect();
        (!fitting.is_empty()).then(|| self.rng.pick(&fitting).clone())
    }

    /// Generates the smallest expression of this type.
    pub fn leaf(&mut self, ty: &Ty) -> String {
        if self.rng.chance(75)
            && let Some(v) = self.variable(ty)
        {
            return v;
        }
        match ty {
            Ty::Tensor(dims, elem) => self.fill(dims, *elem),
            _ => self.construct(ty, 0),
        }
    }

    /// Generates a constructor application, a tuple, or a closure.
    fn construct(&mut self, ty: &Ty, depth: u32) -> String {
        let depth = depth.saturating_sub(1);
        match ty {
            Ty::Tensor(dims, elem) => self.fill(dims, *elem),
            Ty::Tuple(fields) => {
                let parts: Vec<String> = fields.iter().map(|t| self.expr(t, depth)).collect();
                match parts.len() {
                    1 => format!("({},)", parts[0]),
                    _ => format!("({})", parts.join(", ")),
                }
            }
            Ty::Func(args, ret) => {
                // Without fuel, a function returns its argument or something equally small.
                self.closure(args, ret)
            }
            Ty::Ref(t) => format!("ref({})", self.expr(t, depth)),
            Ty::List(t) => {
                let count = 1 + self.rng.below(2);
                let mut list = String::from("Nil");
                for _ in 0..count {
                    list = format!("Cons({}, {list})", self.expr(t, depth));
                }
                list
            }
            Ty::Option(t) => format!("Some({})", self.expr(t, depth)),
            Ty::Data(k) => self.instance(*k, depth),
            Ty::Choice(t) => {
                let first = self.expr(t, depth);
                if self.rng.chance(50) {
                    format!("First({first})")
                } else {
                    format!("Both({first}, {})", self.expr(t, depth))
                }
            }
        }
    }

    /// Generates an expression that works for any type: control flow, calls, projections.
    pub fn general(&mut self, ty: &Ty, depth: u32) -> Option<String> {
        let f = self.features;
        let below = depth - 1;
        match self.rng.below(12) {
            0 | 1 if f.control => {
                let cond = self.condition(below);
                let (then, other) = (self.block(ty, below), self.block(ty, below));
                Some(format!("if ({cond}) {{\n{then}}} else {{\n{other}}}"))
            }
            2 => {
                let field = |t: &Ty| match t {
                    Ty::Tuple(fields) => fields.iter().position(|t| t == ty),
                    _ => None,
                };
                let found: Vec<String> = (self.env.iter())
                    .filter_map(|(v, t)| Some(format!("{v}.{}", field(t)?)))
                    .collect();
                (!found.is_empty()).then(|| self.rng.pick(&found).clone())
            }
            3 | 4 if f.closures => {
                let found: Vec<(String, Vec<Ty>)> = (self.env.iter())
                    .filter_map(|(v, t)| match t {
                        Ty::Func(args, ret) if **ret == *ty => Some((v.clone(), args.clone())),
                        _ => None,
                    })
                    .collect();
                if found.is_empty() || self.inner > 1 {
                    return None;
                }
                let (v, args) = self.rng.pick(&found).clone();
                let args: Vec<String> = args.iter().map(|t| self.expr(t, below)).collect();
                Some(format!("{v}({})", args.join(", ")))
            }
            5 if f.closures => {
                let t = self.value_ty(!self.bases.is_empty(), 1);
                let function = self.closure(std::slice::from_ref(&t), ty);
                let arg = self.expr(&t, below);
                Some(format!("({function})({arg})"))
            }
            6 | 7 if self.inner < 2 => self.call(ty, below),
            8 if f.control => Some(self.matching(ty, below)),
            9 | 10 if f.control && f.closures && self.inner < 2 => self.library(ty, below),
            11 => Some(self.inline(ty, below)),
            _ => None,
        }
    }

    /// Generates a block in parentheses.
    pub fn inline(&mut self, ty: &Ty, depth: u32) -> String {
        let block = self.block(ty, depth);
        // Parentheses do not begin with a statement that is an expression.
        let first = block.trim_start();
        let begins = !self.features.effects || first.starts_with("let ");
        match begins || block.lines().count() == 1 {
            true => format!("(\n{block})"),
            false => format!("(\n  let {} = ();\n{block})", self.name()),
        }
    }

    /// Generates a call of a global function with this result.
    pub fn call(&mut self, ty: &Ty, depth: u32) -> Option<String> {
        let found: Vec<(usize, Dims)> = (self.globals.iter().enumerate())
            .filter_map(|(at, g)| {
                let mut dims = Dims::new();
                g.ret.unify(ty, &mut dims).then_some((at, dims))
            })
            .collect();
        if found.is_empty() {
            return None;
        }
        let (at, mut dims) = self.rng.pick(&found).clone();
        let g = &self.globals[at];
        let (name, args, counted) = (g.name.clone(), g.args.clone(), g.counted);
        // Extents not determined by the result: chosen for this call.
        let mut open = Vec::new();
        args.iter().for_each(|t| t.vars(&mut open));
        for v in open {
            let own = match self.bases.is_empty() || self.rng.chance(60) {
                true => Dim::Const(*self.rng.pick(&[1, 2, 3, 5])),
                false => Dim::Var(self.rng.pick(&self.bases).0),
            };
            dims.entry(v).or_insert(own);
        }
        let args: Vec<Ty> = args.iter().map(|t| t.with(&dims)).collect();
        let mut shown = Vec::new();
        for (i, t) in args.iter().enumerate() {
            let arg = if counted && i == 0 {
                self.steps()
            } else {
                self.expr(t, depth)
            };
            shown.push(arg);
        }
        Some(format!("@{name}({})", shown.join(", ")))
    }

    /// Generates a call of a polymorphic function of the prelude or the program.
    fn library(&mut self, ty: &Ty, depth: u32) -> Option<String> {
        let other = self.value_ty(!self.bases.is_empty(), 1);
        let list = |t: &Ty| Ty::List(Box::new(t.clone()));
        if let Ty::List(element) = ty {
            return Some(match self.rng.below(2) {
                0 => {
                    let f = self.closure(std::slice::from_ref(&other), element);
                    format!("@map({f}, {})", self.expr(&list(&other), depth))
                }
                _ => {
                    let (a, b) = (self.expr(ty, depth), self.expr(ty, depth));
                    format!("@concat({a}, {b})")
                }
            });
        }
        if *ty == Ty::scalar(Elem::I32) && self.rng.chance(30) {
            return Some(format!("@length({})", self.expr(&list(&other), depth)));
        }
        if let Ty::Tuple(fields) = ty
            && let [a, b] = &fields[..]
        {
            let pair = Ty::Tuple(vec![b.clone(), a.clone()]);
            return Some(format!("@swap({})", self.expr(&pair, depth)));
        }
        let own = std::slice::from_ref(ty);
        if !self.appliers.is_empty() && self.rng.chance(40) {
            let apply = self.rng.pick(&self.appliers).clone();
            let f = self.closure(own, ty);
            return Some(format!("{apply}({f}, {})", self.expr(ty, depth)));
        }
        Some(match self.rng.below(4) {
            0 => {
                let f = self.closure(&[ty.clone(), other.clone()], ty);
                let (state, over) = (self.expr(ty, depth), self.expr(&list(&other), depth));
                format!("@foldl({f}, {state}, {over})")
            }
            1 => {
                let f = self.closure(own, ty);
                format!("@twice({f}, {})", self.expr(ty, depth))
            }
            2 => {
                let f = self.closure(std::slice::from_ref(&other), ty);
                let g = self.closure(own, &other);
                format!("@compose({f}, {g})({})", self.expr(ty, depth))
            }
            _ => {
                let f = self.closure(own, ty);
                let steps = self.rng.below(3);
                format!("@iterate({f}, {steps})({})", self.expr(ty, depth))
            }
        })
    }
}
