//! Expressions of any type, and blocks.

use std::fmt::Write as _;

use crate::program::Features;
use crate::rng::Rng;
use crate::types::{Dim, Elem, Ty};

/// A global function that may be called.
pub struct Global {
    pub name: String,
    pub args: Vec<Ty>,
    pub ret: Ty,
    /// Whether the first argument is how many steps it makes.
    pub counted: bool,
}

/// The state of generation.
pub struct Gen {
    pub rng: Rng,
    pub features: Features,
    pub globals: Vec<Global>,
    /// What is in scope, innermost last: text of a reference, and type.
    pub env: Vec<(String, Ty)>,
    /// How many nodes the function may still get.
    pub fuel: i64,
    /// A variable with the dimension `n`, where there is one.
    pub base: Option<String>,
    /// How deep in closures and loops: what runs often stays small.
    inner: u32,
    /// Within dataflow blocks and graph bindings: operators only.
    pub plain: bool,
    fresh: u32,
    graph: u32,
}

impl Gen {
    pub fn new(rng: Rng, features: Features) -> Gen {
        Gen {
            rng,
            features,
            globals: Vec::new(),
            env: Vec::new(),
            fuel: 0,
            base: None,
            inner: 0,
            plain: false,
            fresh: 0,
            graph: 0,
        }
    }

    fn name(&mut self) -> String {
        self.fresh += 1;
        format!("%v{}", self.fresh)
    }

    /// A tensor type.
    pub fn tensor_ty(&mut self, symbolic: bool) -> Ty {
        let elem = if self.features.smooth {
            *self.rng.pick(&[Elem::F32, Elem::F32, Elem::F32, Elem::I32])
        } else {
            let all = [
                Elem::F32,
                Elem::F32,
                Elem::F32,
                Elem::F32,
                Elem::I32,
                Elem::I32,
                Elem::Bool,
                Elem::F64,
                Elem::I64,
            ];
            *self.rng.pick(&all)
        };
        let rank = *self.rng.pick(&[0, 0, 1, 1, 2, 2, 2, 3, 4]);
        let mut dims: Vec<Dim> = (0..rank)
            .map(|_| Dim::Const(*self.rng.pick(&[1, 2, 2, 3, 4])))
            .collect();
        if symbolic && !dims.is_empty() && self.rng.chance(50) {
            let at = self.rng.below(dims.len());
            dims[at] = Dim::N;
        }
        Ty::Tensor(dims, elem)
    }

    /// A type of values that can be passed around.
    pub fn value_ty(&mut self, symbolic: bool, depth: u32) -> Ty {
        let f = self.features;
        if depth == 0 {
            return self.tensor_ty(symbolic);
        }
        let below = |this: &mut Gen| Box::new(this.value_ty(symbolic, depth - 1));
        match self.rng.below(12) {
            0 | 1 => {
                let count = self.rng.below(4);
                Ty::Tuple((0..count).map(|_| *below(self)).collect())
            }
            2 if f.closures => Ty::Func(vec![*below(self)], below(self)),
            3 if f.control => Ty::List(below(self)),
            4 if f.control => Ty::Option(below(self)),
            5 if f.control => Ty::Choice(below(self)),
            _ => self.tensor_ty(symbolic),
        }
    }

    /// The body of a global function: a block of its own.
    pub fn function(&mut self, params: &[(String, Ty)], ret: &Ty, fuel: i64) -> String {
        let params = params.iter().map(|(n, t)| (format!("%{n}"), t.clone()));
        self.env = params.collect();
        let symbol = Ty::Tensor(vec![Dim::N], Elem::F32);
        let base = self.env.iter().find(|v| v.1 == symbol);
        self.base = base.map(|v| v.0.clone());
        (self.fuel, self.inner, self.graph) = (fuel, 0, 0);
        self.block(ret, 5)
    }

    /// `if (k <= 0) { acc } else { … step(k - 1, …) … }`, over `%k` and `%acc`.
    pub fn countdown(&mut self, step: &str, ty: &Ty, fuel: i64) -> String {
        self.env = vec![
            ("%k".into(), Ty::scalar(Elem::I32)),
            ("%acc".into(), ty.clone()),
        ];
        (self.base, self.fuel, self.inner, self.graph) = (None, fuel, 2, 0);
        self.countdown_here(step, ty, "%k", "%acc")
    }

    fn countdown_here(&mut self, step: &str, ty: &Ty, k: &str, acc: &str) -> String {
        let tail = self.rng.chance(50);
        let next = self.expr(ty, 3);
        let more = format!("{step}(subtract({k}, 1), {next})");
        let last = if tail {
            more
        } else {
            let mark = self.env.len();
            let rest = self.name();
            self.env.push((rest.clone(), ty.clone()));
            let combined = self.expr(ty, 3);
            self.env.truncate(mark);
            format!("let {rest}: {ty} = {more}; {combined}")
        };
        format!("if (less_equal({k}, 0)) {{ {acc} }} else {{ {last} }}\n")
    }

    /// Statements and a last expression.
    pub fn block(&mut self, ty: &Ty, depth: u32) -> String {
        let mark = self.env.len();
        let mut out = String::new();
        let statements = if self.fuel > 10 {
            let most = 1 + (self.fuel / 4).min(9) as usize;
            self.rng.below(most)
        } else {
            0
        };
        let symbolic = self.base.is_some();
        for _ in 0..statements {
            let f = self.features;
            let line = match self.rng.below(14) {
                0 | 1 if f.closures => {
                    let t = self.value_ty(symbolic, 1);
                    let ret = self.value_ty(symbolic, 1);
                    let value = self.closure(std::slice::from_ref(&t), &ret);
                    let v = self.name();
                    self.env.push((v.clone(), Ty::Func(vec![t], Box::new(ret))));
                    format!("let {v} = {value};")
                }
                2 if f.closures && f.control => self.local_loop(),
                3 | 4 if f.references => self.reference(symbolic),
                5 if f.dataflow && self.inner == 0 => self.dataflow(symbolic),
                6 | 7 if f.sharing => {
                    let t = self.tensor_ty(symbolic);
                    let value = self.operators(&t);
                    let v = format!("%{}", self.graph);
                    self.graph += 1;
                    self.env.push((v.clone(), t));
                    format!("{v} = {value};")
                }
                8 => {
                    // A Relax binding.
                    let t = self.tensor_ty(symbolic);
                    let value = self.expr(&t, depth.min(3));
                    let v = self.name();
                    self.env.push((v.clone(), t));
                    format!("{v} = {value};")
                }
                _ => {
                    let t = self.value_ty(symbolic, 2);
                    let value = self.expr(&t, depth.min(3));
                    let v = self.name();
                    self.env.push((v.clone(), t.clone()));
                    if self.rng.chance(30) {
                        format!("let {v}: {t} = {value};")
                    } else {
                        format!("let {v} = {value};")
                    }
                }
            };
            let _ = writeln!(out, "  {line}");
        }
        let last = self.expr(ty, depth);
        let _ = writeln!(out, "  {last}");
        self.env.truncate(mark);
        out
    }

    /// A tensor by operators alone: what a dataflow block and a shared node may hold.
    fn operators(&mut self, ty: &Ty) -> String {
        let was = std::mem::replace(&mut self.plain, true);
        let value = self.expr(ty, 3);
        self.plain = was;
        value
    }

    fn dataflow(&mut self, symbolic: bool) -> String {
        let mut lines = String::from("dataflow {");
        let mark = self.env.len();
        let mut made = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let t = self.tensor_ty(symbolic);
            let value = self.operators(&t);
            let v = self.name();
            let _ = write!(lines, " {v} = {value};");
            self.env.push((v.clone(), t.clone()));
            made.push((v, t));
        }
        self.env.truncate(mark);
        // The last one, and some of the others, are seen outside.
        let last = made.len() - 1;
        let mut index = 0;
        made.retain(|_| {
            index += 1;
            index - 1 == last || self.rng.chance(50)
        });
        let names: Vec<&str> = made.iter().map(|m| &*m.0).collect();
        let _ = write!(lines, " output({}); }};", names.join(", "));
        self.env.extend(made);
        lines
    }

    fn reference(&mut self, symbolic: bool) -> String {
        let cells: Vec<(String, Ty)> = (self.env.iter())
            .filter_map(|(v, t)| match t {
                Ty::Ref(t) => Some((v.clone(), (**t).clone())),
                _ => None,
            })
            .collect();
        let v = self.name();
        if cells.is_empty() || self.rng.chance(20) {
            let t = self.value_ty(symbolic, 1);
            let value = self.expr(&t, 2);
            self.env.push((v.clone(), Ty::Ref(Box::new(t))));
            return format!("let {v} = ref({value});");
        }
        let (cell, t) = self.rng.pick(&cells).clone();
        if self.rng.chance(50) {
            self.env.push((v.clone(), t));
            format!("let {v} = ref_read({cell});")
        } else {
            let value = self.expr(&t, 2);
            format!("let {v} = ref_write({cell}, {value});")
        }
    }

    fn local_loop(&mut self) -> String {
        let symbolic = self.base.is_some();
        let ty = self.value_ty(symbolic, 1);
        let start = self.expr(&ty, 2);
        let (steps, name, result) = (self.steps(), self.name(), self.name());
        let mark = self.env.len();
        // Names of their own: an inner loop must not hide the variables of an outer one.
        let (k, acc) = (self.name(), self.name());
        self.env.push((k.clone(), Ty::scalar(Elem::I32)));
        self.env.push((acc.clone(), ty.clone()));
        self.inner += 1;
        let body = self.countdown_here(&name, &ty, &k, &acc);
        self.inner -= 1;
        self.env.truncate(mark);
        self.env.push((result.clone(), ty.clone()));
        format!(
            "let {name} = fn ({k}: int32, {acc}: {ty}) -> {ty} {{ {body} }};\n  \
             let {result} = {name}({steps}, {start});"
        )
    }

    /// A number of steps: a literal, or something that is found at run time, at most 3.
    fn steps(&mut self) -> String {
        if self.rng.chance(60) {
            format!("{}", self.rng.below(4))
        } else {
            let count = self.expr(&Ty::scalar(Elem::I32), 2);
            format!("minimum({count}, 3)")
        }
    }

    fn closure(&mut self, args: &[Ty], ret: &Ty) -> String {
        let mark = self.env.len();
        let mut shown = Vec::new();
        for t in args {
            let v = self.name();
            shown.push(format!("{v}: {t}"));
            self.env.push((v, t.clone()));
        }
        self.inner += 1;
        let body = self.block(ret, 2);
        self.inner -= 1;
        self.env.truncate(mark);
        format!("fn ({}) -> {ret} {{\n{body}}}", shown.join(", "))
    }

    /// An expression of that type.
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
        if !self.plain
            && self.rng.chance(45)
            && let Some(text) = self.general(ty, depth)
        {
            return text;
        }
        match ty {
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

    /// The smallest expression of that type.
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

    /// A constructor's application, a tuple, a closure.
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
                // Without fuel a function returns its argument or something as small.
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

    /// What makes a value of any type: control flow, calls, projections.
    fn general(&mut self, ty: &Ty, depth: u32) -> Option<String> {
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
                let t = self.value_ty(self.base.is_some(), 1);
                let function = self.closure(std::slice::from_ref(&t), ty);
                let arg = self.expr(&t, below);
                Some(format!("({function})({arg})"))
            }
            6 | 7 if self.inner < 2 => self.call(ty, below),
            8 if f.control => Some(self.matching(ty, below)),
            9 | 10 if f.control && f.closures && self.inner < 2 => self.library(ty, below),
            11 => Some(format!("(\n{})", self.block(ty, below))),
            _ => None,
        }
    }

    /// A scalar truth value.
    pub fn condition(&mut self, depth: u32) -> String {
        self.expr(&Ty::scalar(Elem::Bool), depth)
    }

    fn call(&mut self, ty: &Ty, depth: u32) -> Option<String> {
        let can = |g: &&Global| g.ret == *ty && !g.args.iter().any(Ty::symbolic);
        let found: Vec<(String, Vec<Ty>, bool)> = (self.globals.iter())
            .filter(can)
            .map(|g| (g.name.clone(), g.args.clone(), g.counted))
            .collect();
        if found.is_empty() {
            return None;
        }
        let (name, args, counted) = self.rng.pick(&found).clone();
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

    fn matching(&mut self, ty: &Ty, depth: u32) -> String {
        let t = self.value_ty(self.base.is_some(), 1);
        let (p, q) = (self.name(), self.name());
        let mark = self.env.len();
        let clause = |this: &mut Gen, bound: &[(&str, Ty)]| {
            let bound = bound.iter().map(|(v, t)| (v.to_string(), t.clone()));
            this.env.extend(bound);
            let body = this.block(ty, depth);
            this.env.truncate(mark);
            format!("{{\n{body}}}")
        };
        match self.rng.below(3) {
            0 => {
                let list = Ty::List(Box::new(t.clone()));
                let some = clause(self, &[(&p, t.clone()), (&q, list.clone())]);
                let none = clause(self, &[]);
                let value = self.expr(&list, depth);
                format!("match ({value}) {{ Cons({p}, {q}) => {some}, Nil => {none} }}")
            }
            1 => {
                let some = clause(self, &[(&p, t.clone())]);
                let none = clause(self, &[]);
                let value = self.expr(&Ty::Option(Box::new(t)), depth);
                format!("match ({value}) {{ Some({p}) => {some}, None => {none} }}")
            }
            _ => {
                let both = clause(self, &[(&p, t.clone()), (&q, t.clone())]);
                let rest = clause(self, &[]);
                let value = self.expr(&Ty::Choice(Box::new(t)), depth);
                format!("match ({value}) {{ Both({p}, {q}) => {both}, _ => {rest} }}")
            }
        }
    }

    /// Polymorphic functions of the prelude and of the program.
    fn library(&mut self, ty: &Ty, depth: u32) -> Option<String> {
        let other = self.value_ty(self.base.is_some(), 1);
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
