//! Effects: cells that are read and written behind calls, in closures, in data and in branches.
//!
//! What a program did in which order shows in its result: writes do not commute, and `@main` ends
//! by returning every number it can reach.

use crate::expr::{Gen, Said};
use crate::types::{Elem, Ty};

/// The most numbers that `@main` returns for its effects.
const OBSERVED: usize = 24;
/// The most calls in scope that may be repeated.
const REPEATED: usize = 12;

fn int() -> Ty {
    Ty::scalar(Elem::I32)
}

fn cell(of: Ty) -> Ty {
    Ty::Ref(Box::new(of))
}

impl Gen {
    /// Generates a type in programs with effects: mostly numbers, cells and functions.
    pub fn effect_ty(&mut self, symbolic: bool, depth: u32) -> Ty {
        if depth == 0 {
            return self.tensor_ty(symbolic);
        }
        match self.rng.below(16) {
            0..=2 => cell(int()),
            3 => cell(self.value_ty(symbolic, depth - 1)),
            4 => Ty::Func(Vec::new(), Box::new(int())),
            5 => Ty::Func(vec![int()], Box::new(int())),
            6 => {
                let unit = self.rng.chance(50);
                let ret = if unit { Ty::Tuple(Vec::new()) } else { int() };
                Ty::Func(vec![cell(int())], Box::new(ret))
            }
            7 => {
                let first = self.effect_ty(symbolic, depth - 1);
                let call = Ty::Func(Vec::new(), Box::new(int()));
                let others = [cell(int()), call, int()];
                Ty::Tuple(vec![first, self.rng.pick(&others).clone()])
            }
            8 => Ty::Tuple(Vec::new()),
            9 => Ty::List(Box::new(self.effect_ty(symbolic, depth - 1))),
            10 if !self.data.is_empty() => Ty::Data(self.rng.below(self.data.len())),
            11 => Ty::Option(Box::new(self.effect_ty(symbolic, depth - 1))),
            _ => self.tensor_ty(symbolic),
        }
    }

    /// Returns the values within reach: variables, fields of tuples, contents of cells.
    fn reach(&self) -> Vec<(String, Ty)> {
        let mut all: Vec<(String, Ty)> = self.env.clone();
        let mut from = 0;
        for _ in 0..2 {
            let until = all.len();
            for at in from..until {
                let (text, ty) = all[at].clone();
                match ty {
                    Ty::Tuple(fields) => {
                        let fields = fields.into_iter().enumerate();
                        all.extend(fields.map(|(i, t)| (format!("{text}.{i}"), t)));
                    }
                    Ty::Ref(t) => all.push((format!("ref_read({text})"), *t)),
                    _ => {}
                }
            }
            from = until;
        }
        all
    }

    /// Returns one of the values within reach of this type.
    fn reached(&mut self, ty: &Ty) -> Option<String> {
        let all = self.reach();
        let fits: Vec<&String> = all.iter().filter(|r| r.1 == *ty).map(|r| &r.0).collect();
        (!fits.is_empty()).then(|| (*self.rng.pick(&fits)).clone())
    }

    /// Generates an expression of this type that reads, writes or calls what may do so.
    pub fn effectful(&mut self, ty: &Ty, depth: u32) -> Option<String> {
        let below = depth - 1;
        let text = match self.rng.below(8) {
            0 | 1 => self.reached(ty),
            2..=4 => self.called(Some(ty), below).map(|c| c.0),
            5 => {
                let said = self.said.iter();
                let said = said.filter(|s| s.ty == *ty && self.in_scope(s));
                let said: Vec<String> = said.map(|s| s.text.clone()).collect();
                (!said.is_empty()).then(|| self.rng.pick(&said).clone())
            }
            6 => Some(self.inline(ty, below)),
            _ => None,
        };
        match ty {
            Ty::Tuple(fields) if fields.is_empty() => text.or_else(|| self.write(below)),
            _ => text,
        }
    }

    /// Generates a number or a truth value of few operators: what counts is what they read.
    pub fn number(&mut self, elem: Elem, depth: u32) -> String {
        let names = match elem {
            Elem::I32 if self.rng.chance(30) => {
                return match self.reached(&int()) {
                    Some(text) => text,
                    None => self.leaf(&int()),
                };
            }
            Elem::I32 => ["add", "subtract", "multiply", "maximum"],
            _ => ["less", "equal", "greater", "not_equal"],
        };
        let name = *self.rng.pick(&names);
        let (x, y) = (self.expr(&int(), depth - 1), self.expr(&int(), depth - 1));
        format!("{name}({x}, {y})")
    }

    /// Generates a call of a function within reach, global or not, with the type of its result.
    fn called(&mut self, ret: Option<&Ty>, depth: u32) -> Option<(String, Ty)> {
        if self.inner > 2 || self.inner == 2 && self.rng.chance(60) {
            return None;
        }
        if !self.globals.is_empty() && self.rng.chance(50) {
            let ty = match ret {
                Some(ty) => ty.clone(),
                None => self.rng.pick(&self.globals).ret.clone(),
            };
            let text = self.call(&ty, depth)?;
            return Some(self.repeatable(text, ty));
        }
        let mut all = self.reach();
        all.retain(|r| matches!(&r.1, Ty::Func(_, own) if ret.is_none_or(|t| **own == *t)));
        if all.is_empty() {
            return None;
        }
        let (function, ty) = self.rng.pick(&all).clone();
        let Ty::Func(args, ret) = ty else {
            return None;
        };
        let args: Vec<String> = args.iter().map(|t| self.expr(t, depth)).collect();
        Some(self.repeatable(format!("{function}({})", args.join(", ")), *ret))
    }

    /// Remembers a call, so that it may be made again: passes that merge equal calls must not.
    fn repeatable(&mut self, text: String, ty: Ty) -> (String, Ty) {
        // Whatever binds names has lines of its own.
        if !text.contains('\n') {
            let last = self.env.last().map(|v| v.0.clone());
            if self.said.len() == REPEATED {
                self.said.remove(0);
            }
            self.said.push(Said {
                text: text.clone(),
                ty: ty.clone(),
                scope: (self.env.len(), last),
            });
        }
        (text, ty)
    }

    /// Returns whether a call means the same here. Variables have unique names, and scopes nest.
    fn in_scope(&self, said: &Said) -> bool {
        let (count, last) = &said.scope;
        count
            .checked_sub(1)
            .map(|at| self.env.get(at).map(|v| &v.0))
            == Some(last.as_ref())
    }

    /// Generates a write to a cell within reach.
    fn write(&mut self, depth: u32) -> Option<String> {
        let mut all = self.reach();
        all.retain(|r| matches!(&r.1, Ty::Ref(t) if !t.may_hold_itself()));
        if all.is_empty() {
            return None;
        }
        let (cell, ty) = self.rng.pick(&all).clone();
        let Ty::Ref(ty) = ty else {
            return None;
        };
        let mut value = self.expr(&ty, depth);
        if *ty == int() {
            let by = 1 + self.rng.below(3);
            value = match self.rng.below(4) {
                0 => value,
                1 => format!("subtract({value}, ref_read({cell}))"),
                2 => format!("ref_read({cell}) + {by}"),
                _ => format!("add(ref_read({cell}) * {by}, {value})"),
            };
        }
        Some(format!("ref_write({cell}, {value})"))
    }

    /// Generates a statement with effects.
    pub fn effect(&mut self, symbolic: bool) -> Option<String> {
        let (value, ty) = match self.rng.below(10) {
            0 | 1 => {
                let of = if self.rng.chance(60) {
                    int()
                } else {
                    self.effect_ty(symbolic, 1)
                };
                (format!("ref({})", self.expr(&of, 2)), cell(of))
            }
            2..=4 => (self.write(2)?, Ty::Tuple(Vec::new())),
            5..=7 => self.called(None, 2)?,
            8 => {
                let ty = Ty::Tuple(Vec::new());
                (self.general(&ty, 2)?, ty)
            }
            _ => {
                let ty = self.effect_ty(symbolic, 1);
                (self.reached(&ty)?, ty)
            }
        };
        if matches!(ty, Ty::Tuple(_)) && self.rng.chance(50) {
            return Some(format!("{value};"));
        }
        let v = self.name();
        self.env.push((v.clone(), ty));
        Some(match self.rng.below(4) {
            0 => format!("{v} = {value};"),
            _ => format!("let {v} = {value};"),
        })
    }

    /// Generates the body of a function that returns its result, and all numbers that it can reach
    /// in the end; and the type of that.
    pub fn observed(&mut self, params: &[(String, Ty)], ret: &Ty, fuel: i64) -> (String, Ty) {
        self.enter(params, fuel);
        let mut body = String::new();
        for _ in 0..2 + self.rng.below(2) {
            let (v, value) = (self.name(), self.leaf(&int()));
            body.push_str(&format!("  let {v} = ref({value});\n"));
            self.env.push((v, cell(int())));
        }
        body.push_str(&self.statements(5));
        let (last, value) = (self.name(), self.expr(ret, 5));
        let mut all = vec![(last.clone(), ret.clone())];
        let numbers = self.reach().into_iter();
        let mut numbers: Vec<_> = numbers.filter(|r| matches!(r.1, Ty::Tensor(..))).collect();
        // The last ones show the most.
        numbers.drain(..numbers.len().saturating_sub(OBSERVED));
        all.extend(numbers);
        let (shown, types): (Vec<String>, Vec<Ty>) = all.into_iter().unzip();
        body.push_str(&format!(
            "  let {last} = {value};\n  ({},)\n",
            shown.join(", ")
        ));
        (body, Ty::Tuple(types))
    }
}
