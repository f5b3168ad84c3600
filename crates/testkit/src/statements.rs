//! Statements: blocks, loops, references, dataflow, matches of shapes.

use std::fmt::Write as _;

use crate::expr::Gen;
use crate::types::{Dim, Elem, Ty};

impl Gen {
    /// Generates the body of a global function.
    pub fn function(&mut self, params: &[(String, Ty)], ret: &Ty, fuel: i64) -> String {
        self.enter(params, fuel);
        self.block(ret, 5)
    }

    /// Begins the body of a global function: only its parameters are in scope.
    pub fn enter(&mut self, params: &[(String, Ty)], fuel: i64) {
        let params = params.iter().map(|(n, t)| (format!("%{n}"), t.clone()));
        self.env = params.collect();
        self.bases.clear();
        for (name, ty) in &self.env {
            if let Ty::Tensor(dims, Elem::F32) = ty
                && let [Dim::Var(v)] = dims[..]
            {
                self.bases.push((v, name.clone()));
            }
        }
        (self.fuel, self.inner, self.graph) = (fuel, 0, 0);
        self.said.clear();
    }

    /// Generates `if (k <= 0) { acc } else { … step(k - 1, …) … }`, over `%k` and `%acc`.
    pub fn countdown(&mut self, step: &str, ty: &Ty, fuel: i64) -> String {
        self.env = vec![
            ("%k".into(), Ty::scalar(Elem::I32)),
            ("%acc".into(), ty.clone()),
        ];
        self.bases.clear();
        self.said.clear();
        (self.fuel, self.inner, self.graph) = (fuel, 2, 0);
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

    /// Generates statements and a final expression.
    pub fn block(&mut self, ty: &Ty, depth: u32) -> String {
        let marks = (self.env.len(), self.bases.len(), self.appliers.len());
        let mut out = self.statements(depth);
        let last = self.expr(ty, depth);
        let _ = writeln!(out, "  {last}");
        self.env.truncate(marks.0);
        self.bases.truncate(marks.1);
        self.appliers.truncate(marks.2);
        out
    }

    /// Generates statements, whose variables stay in scope.
    pub fn statements(&mut self, depth: u32) -> String {
        let mut out = String::new();
        let statements = if self.fuel > 10 {
            let most = 1 + (self.fuel / 4).min(9) as usize;
            self.rng.below(most)
        } else {
            0
        };
        for _ in 0..statements {
            let f = self.features;
            let symbolic = !self.bases.is_empty();
            if f.effects
                && self.rng.chance(65)
                && let Some(line) = self.effect(symbolic)
            {
                let _ = writeln!(out, "  {line}");
                continue;
            }
            let line = match self.rng.below(17) {
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
                8 if f.closures && f.data => {
                    let v = self.name();
                    self.appliers.push(v.clone());
                    let (f, x) = (self.name(), self.name());
                    match self.rng.below(2) {
                        0 => format!("let {v} = fn ({f}, {x}) {{ {f}({x}) }};"),
                        _ => format!(
                            "let {v} = fn [A]({f}: fn (A) -> A, {x}: A) -> A {{ {f}({f}({x})) }};"
                        ),
                    }
                }
                9 | 10 if f.unknown => self.known_again(),
                11 if f.unknown => self.matched(),
                12 => {
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
        out
    }

    /// Generates a tensor with operators alone, as allowed in a dataflow block or a shared node.
    pub fn operators(&mut self, ty: &Ty) -> String {
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
        // The last one, and some of the others, are outputs.
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
        // A cell that can contain itself would form a cycle, which reference counting never frees
        // (docs/values.md).
        if t.holds_cells() || self.rng.chance(50) {
            self.env.push((v.clone(), t));
            format!("let {v} = ref_read({cell});")
        } else {
            let value = self.expr(&t, 2);
            format!("let {v} = ref_write({cell}, {value});")
        }
    }

    fn local_loop(&mut self) -> String {
        let symbolic = !self.bases.is_empty();
        let ty = self.value_ty(symbolic, 1);
        let start = self.expr(&ty, 2);
        let (steps, name, result) = (self.steps(), self.name(), self.name());
        let mark = self.env.len();
        // Unique names: an inner loop must not shadow the variables of an outer one.
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

    /// Generates a number of steps: a literal, or a run-time value of at most 3.
    pub fn steps(&mut self) -> String {
        if self.rng.chance(60) {
            format!("{}", self.rng.below(4))
        } else {
            let count = self.expr(&Ty::scalar(Elem::I32), 2);
            format!("minimum({count}, 3)")
        }
    }

    /// Generates a tensor whose extents are hidden and recovered.
    fn known_again(&mut self) -> String {
        let ty = self.tensor_ty(!self.bases.is_empty());
        let was = std::mem::replace(&mut self.hiding, true);
        let value = self.operators(&ty);
        self.hiding = was;
        let v = self.name();
        self.env.push((v.clone(), ty.clone()));
        format!("{v} = match_cast({value}, {ty});")
    }

    /// Generates a dimension variable bound by a match: a data-dependent or hidden extent.
    fn matched(&mut self) -> String {
        self.matched += 1;
        let dim = Dim::Var(self.matched);
        let from = match self.bases.is_empty() {
            false if self.rng.chance(50) => Dim::Var(self.rng.pick(&self.bases).0),
            _ => Dim::Const(1 + self.rng.below(4) as i64),
        };
        let v = self.name();
        let (elem, hide) = match self.rng.below(2) {
            0 => (Elem::I32, false),
            _ => (Elem::F32, true),
        };
        let value = self.operators(&Ty::Tensor(vec![from], elem));
        let value = match hide {
            true => self.programs.hidden(&value, 1, Elem::F32),
            false => format!("cast(unique({value}).0, dtype=\"float32\")"),
        };
        self.bases.push((self.matched, v.clone()));
        self.env.push((v.clone(), Ty::Tensor(vec![dim], Elem::F32)));
        match self.rng.below(2) {
            0 => format!("{v} = match_shape({value}, ({dim},));"),
            _ => format!("{v} = match_cast({value}, Tensor[({dim},), float32]);"),
        }
    }
}
