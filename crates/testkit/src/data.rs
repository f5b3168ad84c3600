//! Data types: user-defined ones, instances, patterns, recursion over their contents.

use std::fmt::Write as _;

use crate::expr::{Gen, Global};
use crate::types::{Elem, Ty};

impl Gen {
    /// Generates a user-defined data type, whose first constructor is not recursive.
    pub fn data_type(&mut self) -> String {
        let at = self.data.len();
        let mut constructors = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let count = self.rng.below(4);
            constructors.push(
                (0..count)
                    .map(|_| self.value_ty(false, 2))
                    .collect::<Vec<_>>(),
            );
        }
        if self.rng.chance(60) {
            let mut fields = vec![Ty::Data(at), self.value_ty(false, 1)];
            if self.rng.chance(40) {
                fields.push(Ty::List(Box::new(Ty::Data(at))));
            }
            constructors.push(fields);
        }
        let mut text = format!("type Own{at} {{");
        for (k, fields) in constructors.iter().enumerate() {
            let _ = write!(text, " C{at}x{k}");
            if !fields.is_empty() {
                let shown: Vec<String> = fields.iter().map(Ty::to_string).collect();
                let _ = write!(text, "({})", shown.join(", "));
            }
            text.push(',');
        }
        text.push_str(" }\n");
        self.data.push(constructors);
        text
    }

    /// Generates an instance of the user-defined type `k`.
    pub fn instance(&mut self, k: usize, depth: u32) -> String {
        let which = match depth {
            0 => 0,
            _ => self.rng.below(self.data[k].len()),
        };
        let fields = self.data[k][which].clone();
        let shown: Vec<String> = fields.iter().map(|t| self.expr(t, depth)).collect();
        applied(&format!("C{k}x{which}"), &shown)
    }

    /// Generates a pattern for values of a type; its variables are added to the scope.
    fn pattern(&mut self, ty: &Ty, depth: u32) -> String {
        if depth > 0 && self.rng.chance(75) {
            let of = |c: &str, fields: &[&Ty]| {
                (
                    c.to_owned(),
                    fields.iter().map(|t| (*t).clone()).collect::<Vec<Ty>>(),
                )
            };
            let choices = match ty {
                Ty::Tuple(fields) if !fields.is_empty() => {
                    let parts: Vec<String> =
                        fields.iter().map(|t| self.pattern(t, depth - 1)).collect();
                    return match parts.len() {
                        1 => format!("({},)", parts[0]),
                        _ => format!("({})", parts.join(", ")),
                    };
                }
                Ty::List(t) => vec![of("Cons", &[t, ty]), of("Nil", &[])],
                Ty::Option(t) => vec![of("Some", &[t]), of("None", &[])],
                Ty::Choice(t) => vec![of("First", &[t]), of("Both", &[t, t]), of("Neither", &[])],
                Ty::Data(k) => (self.data[*k].iter().enumerate())
                    .map(|(c, fields)| (format!("C{k}x{c}"), fields.clone()))
                    .collect(),
                _ => Vec::new(),
            };
            if !choices.is_empty() {
                let (name, fields) = self.rng.pick(&choices).clone();
                let parts: Vec<String> =
                    fields.iter().map(|t| self.pattern(t, depth - 1)).collect();
                return applied(&name, &parts);
            }
        }
        if self.rng.chance(25) {
            return String::from("_");
        }
        let v = self.name();
        self.env.push((v.clone(), ty.clone()));
        v
    }

    /// Generates a `match` whose last clause covers everything the others leave.
    pub fn matching(&mut self, ty: &Ty, depth: u32) -> String {
        let symbolic = !self.bases.is_empty();
        let mut of = self.value_ty(symbolic, 2);
        for _ in 0..3 {
            if matches!(of, Ty::Tensor(..) | Ty::Func(..) | Ty::Ref(..)) {
                of = self.value_ty(symbolic, 2);
            }
        }
        let mut clauses = String::new();
        for _ in 0..1 + self.rng.below(3) {
            let mark = self.env.len();
            let pattern = self.pattern(&of, 3);
            let body = self.block(ty, depth);
            self.env.truncate(mark);
            let _ = write!(clauses, " {pattern} => {{\n{body}}},");
        }
        let rest = self.block(ty, depth);
        let value = self.expr(&of, depth);
        format!("match ({value}) {{{clauses} _ => {{\n{rest}}} }}")
    }

    /// Generates a recursive function over a list that combines each element with the result for
    /// the rest; either without tail calls, or with an accumulator.
    pub fn folding(&mut self, k: usize, fuel: usize) -> String {
        let (of, ret) = (self.value_ty(false, 1), self.value_ty(false, 1));
        let list = Ty::List(Box::new(of.clone()));
        let name = format!("fold{k}");
        self.bases.clear();
        self.said.clear();
        (self.fuel, self.inner, self.graph) = (fuel as i64, 2, 0);
        self.env = vec![("%acc".into(), ret.clone()), ("%head".into(), of)];
        let body = if self.rng.chance(50) {
            let next = self.expr(&ret, 3);
            format!("@{name}(%tail, {next})")
        } else {
            let rest = self.name();
            self.env.push((rest.clone(), ret.clone()));
            let joined = self.expr(&ret, 3);
            format!("{{ let {rest} = @{name}(%tail, %acc); {joined} }}")
        };
        self.globals.push(Global {
            name: name.clone(),
            args: vec![list.clone(), ret.clone()],
            ret: ret.clone(),
            counted: false,
        });
        format!(
            "def @{name}(%list: {list}, %acc: {ret}) -> {ret} {{\n  \
             match (%list) {{ Cons(%head, %tail) => {body}, Nil => %acc }}\n}}\n"
        )
    }

    /// Generates a boolean scalar.
    pub fn condition(&mut self, depth: u32) -> String {
        self.expr(&Ty::scalar(Elem::Bool), depth)
    }
}

fn applied(constructor: &str, fields: &[String]) -> String {
    match fields {
        [] => constructor.to_owned(),
        _ => format!("{constructor}({})", fields.join(", ")),
    }
}
