//! Items required by expressions: tensor programs, and functions that hide extents.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::expr::Gen;
use crate::types::{Dim, Elem, Ty};

/// The items required so far.
#[derive(Default)]
pub struct Programs {
    items: String,
    count: usize,
    hiding: BTreeMap<String, ()>,
}

impl Programs {
    /// Returns their text.
    pub fn text(&self) -> &str {
        &self.items
    }

    /// Returns a call of the function that hides the extents of a tensor of this rank from type
    /// inference.
    pub fn hidden(&mut self, value: &str, rank: usize, elem: Elem) -> String {
        let name = format!("hide_{}_{rank}", elem.name());
        if self.hiding.insert(name.clone(), ()).is_none() {
            let ty = format!("Tensor[({}), {}]", "?, ".repeat(rank), elem.name());
            let _ = writeln!(self.items, "def @{name}(%x: {ty}) -> {ty} {{ copy(%x) }}");
        }
        format!("@{name}({value})")
    }

    fn name(&mut self) -> String {
        self.count += 1;
        format!("tir{}", self.count)
    }
}

impl Gen {
    /// Generates a scalar expression over elements.
    fn scalar(&mut self, of: &[String], elem: Elem, depth: u32) -> String {
        if depth == 0 || self.rng.chance(20) {
            if self.rng.chance(20) {
                return format!("{}({})", elem.name(), self.rng.below(3));
            }
            return self.rng.pick(of).clone();
        }
        let (a, b) = (
            self.scalar(of, elem, depth - 1),
            self.scalar(of, elem, depth - 1),
        );
        match self.rng.below(5) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - {b})"),
            2 => format!("({a} * {b})"),
            3 => format!("max({a}, {b})"),
            _ => format!("min({a}, {b})"),
        }
    }

    /// Generates a call of a new tensor program: elementwise over one or two operands, possibly
    /// transposed or broadcast, or a reduction of the last axis. Its extents are variables of its
    /// own, or constants.
    pub fn call_tir(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> Option<String> {
        let rank = dims.len();
        if rank == 0 || rank > 3 || elem == Elem::Bool {
            return None;
        }
        let fixed = self.rng.chance(30);
        let dim = |k: usize| match dims[k] {
            Dim::Const(c) if fixed => c.to_string(),
            _ => format!("d{k}"),
        };
        let axes: Vec<String> = (0..rank).map(dim).collect();
        let loops: Vec<String> = (0..rank).map(|k| format!("%i{k}")).collect();
        let buffer = |of: &[String]| format!("Buffer[({},), {}]", of.join(", "), elem.name());
        let at = |v: &str, of: &[String]| format!("{v}[{}]", of.join(", "));
        // Operands, as the order of their axes.
        let mut operands: Vec<Vec<usize>> = vec![(0..rank).collect()];
        match self.rng.below(4) {
            0 if rank > 1 => operands.push((1..rank).collect()),
            1 if rank > 1 => operands.push((0..rank).rev().collect()),
            2 => operands.push((0..rank).collect()),
            _ => {}
        }
        let reduced = self.rng.chance(30);
        let name = self.programs.name();
        let (mut params, mut reads, mut args) = (Vec::new(), Vec::new(), Vec::new());
        for (i, order) in operands.iter().enumerate() {
            let mut shape: Vec<String> = order.iter().map(|&k| axes[k].clone()).collect();
            let mut index: Vec<String> = order.iter().map(|&k| loops[k].clone()).collect();
            let mut own: Vec<Dim> = order.iter().map(|&k| dims[k]).collect();
            if i == 0 && reduced {
                shape.push("r".into());
                index.push("%j".into());
                own.push(Dim::Const(1 + self.rng.below(3) as i64));
            }
            params.push(format!("%A{i}: {}", buffer(&shape)));
            reads.push(at(&format!("%A{i}"), &index));
            args.push(self.expr(&Ty::Tensor(own, elem), depth));
        }
        let result = at("%Y", &loops);
        let value = self.scalar(&reads, elem, 2);
        let body = if reduced {
            format!(
                "  for {}, %j in grid({}, r) {{\n    init {{ {result} = 0; }}\n    \
                 {result} = {result} + {value};\n  }}\n",
                loops.join(", "),
                axes.join(", ")
            )
        } else {
            format!(
                "  for {} in grid({}) {{\n    {result} = {value};\n  }}\n",
                loops.join(", "),
                axes.join(", ")
            )
        };
        let _ = writeln!(
            self.programs.items,
            "prim_func @{name}({}, %Y: {}) {{\n{body}}}",
            params.join(", "),
            buffer(&axes)
        );
        let shape: Vec<String> = dims.iter().map(Dim::to_string).collect();
        Some(format!(
            "call_tir(@{name}, ({},), shape({}), dtype=\"{}\")",
            args.join(", "),
            shape.join(", "),
            elem.name()
        ))
    }
}
