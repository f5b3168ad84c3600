//! Whole programs: data types, global functions, `@main`, and its inputs.

use std::fmt::Write as _;

use relax_tensor::Tensor;

use crate::expr::{Gen, Global};
use crate::inputs;
use crate::rng::Rng;
use crate::types::{Dim, Elem, Ty};

/// The features that programs may use.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// First-class functions.
    pub closures: bool,
    /// `if`, `match`, recursion, lists and other data.
    pub control: bool,
    /// Reference cells.
    pub references: bool,
    /// Cells that are read and written behind calls, by closures and in branches; little else.
    pub effects: bool,
    /// Dimension variables.
    pub symbolic: bool,
    /// Extents unknown to type inference: hidden, recovered by matches, or data-dependent.
    pub unknown: bool,
    /// Tensor programs and calls of them.
    pub programs: bool,
    /// User-defined data types with functions and references in them, nested patterns, polymorphic
    /// local functions.
    pub data: bool,
    /// All element types.
    pub elements: bool,
    /// Relax's dataflow blocks.
    pub dataflow: bool,
    /// Graph bindings with several uses, also in different scopes.
    pub sharing: bool,
    /// NaN, infinities and signed zeros among the inputs.
    pub special: bool,
    /// Only continuous functions, on float32, for comparisons under different rounding: no
    /// comparisons of floats, no step functions, no quotients.
    pub smooth: bool,
    /// The approximate number of nodes of a program.
    pub size: usize,
}

impl Features {
    /// All features.
    pub const ALL: Features = Features {
        closures: true,
        control: true,
        references: true,
        effects: false,
        symbolic: true,
        unknown: false,
        programs: false,
        data: false,
        elements: false,
        dataflow: true,
        sharing: true,
        special: true,
        smooth: false,
        size: 60,
    };
    /// Operators on tensors of known shapes, and tuples.
    pub const TENSORS: Features = Features {
        closures: false,
        control: false,
        references: false,
        effects: false,
        symbolic: false,
        unknown: false,
        programs: false,
        data: false,
        elements: false,
        dataflow: false,
        sharing: true,
        special: true,
        smooth: false,
        size: 40,
    };
    /// Features whose results are preserved up to a tolerance under different rounding.
    pub const SMOOTH: Features = Features {
        special: false,
        smooth: true,
        ..Features::ALL
    };
    /// Features supported by native code.
    pub const NATIVE: Features = Features {
        unknown: true,
        programs: true,
        data: true,
        elements: true,
        size: 80,
        ..Features::SMOOTH
    };
    /// Effects on numbers, everywhere.
    pub const EFFECTS: Features = Features {
        effects: true,
        data: true,
        symbolic: false,
        sharing: false,
        size: 70,
        ..Features::SMOOTH
    };
}

/// A program, and the inputs of its `@main`.
#[derive(Clone, Debug)]
pub struct Program {
    /// The text.
    pub text: String,
    /// Inputs in the order of the parameters, with their names.
    pub inputs: Vec<(String, Tensor)>,
}

/// Generates the program of a seed.
pub fn program(seed: u64, features: &Features) -> Program {
    let mut rng = Rng::new(seed);
    let size = features.size;
    let extents = [0; 2].map(|_| [1, 2, 2, 3, 5, 0][rng.below(6)]);
    let mut gen_ = Gen::new(rng, *features);
    let mut items = String::from(
        "type Choice[A] {\n  First(A),\n  Both(A, A),\n  Neither,\n}\n\
         def @twice[A](%step: fn (A) -> A, %from: A) -> A { %step(%step(%from)) }\n\
         def @swap[A, B](%pair: (A, B)) -> (B, A) { (%pair.1, %pair.0) }\n",
    );
    if features.data {
        for _ in 0..gen_.rng.below(3) {
            let text = gen_.data_type();
            items.push_str(&text);
        }
    }
    let fewest = if features.effects { 2 } else { 0 };
    for k in 0..fewest + gen_.rng.below(4) {
        let text = match gen_.rng.below(4) {
            0 if features.control => gen_.recursive(k, size / 6),
            1 if features.control => gen_.mutual(k, size / 6),
            2 if features.control => gen_.folding(k, size / 6),
            _ => gen_.plain(k, size / 4),
        };
        items.push_str(&text);
    }

    let mut params = gen_.bases(50, "x");
    let symbolic = !params.is_empty();
    for i in 0..1 + gen_.rng.below(4) {
        let ty = gen_.tensor_ty(symbolic);
        params.push((format!("p{i}"), ty));
    }
    let count = 1 + gen_.rng.below(3);
    let mut results: Vec<Ty> = (0..count).map(|_| gen_.tensor_ty(symbolic)).collect();
    if gen_.rng.chance(20) {
        let inner = vec![gen_.tensor_ty(symbolic), gen_.tensor_ty(symbolic)];
        results.push(Ty::Tuple(inner));
    }
    let ret = match results.len() {
        1 => results.remove(0),
        _ => Ty::Tuple(results),
    };
    let (body, ret) = match features.effects {
        true => gen_.observed(&params, &ret, size as i64),
        false => (gen_.function(&params, &ret, size as i64), ret),
    };
    let shown: Vec<String> = params.iter().map(|(n, t)| format!("%{n}: {t}")).collect();
    // The result is annotated now and then; otherwise it is inferred.
    let annotated = if gen_.rng.chance(60) {
        format!(" -> {ret}")
    } else {
        String::new()
    };
    let _ = writeln!(
        items,
        "def @main({}){annotated} {{\n{body}}}",
        shown.join(", ")
    );

    items.push_str(gen_.programs.text());
    let mut rng = gen_.rng;
    let inputs = (params.into_iter())
        .map(|(name, ty)| {
            let Ty::Tensor(dims, elem) = ty else {
                unreachable!("parameters of main are tensors")
            };
            let extent = |d: &Dim| match d {
                Dim::Const(c) => *c,
                Dim::Var(v) => extents[*v as usize],
            };
            let shape: Vec<i64> = dims.iter().map(extent).collect();
            let value = inputs::tensor(&mut rng, elem, &shape, features.special);
            (name, value)
        })
        .collect();
    Program {
        text: items,
        inputs,
    }
}

impl Gen {
    /// Generates one-axis parameters that bind the dimension variables of a signature.
    fn bases(&mut self, percent: usize, name: &str) -> Vec<(String, Ty)> {
        self.bases.clear();
        let mut params = Vec::new();
        for v in 0..2 {
            if self.features.symbolic && self.rng.chance(percent) {
                self.bases.push((v, format!("%{name}{v}")));
                params.push((
                    format!("{name}{v}"),
                    Ty::Tensor(vec![Dim::Var(v)], Elem::F32),
                ));
            }
        }
        params
    }

    fn signature(&mut self, k: usize) -> (Vec<(String, Ty)>, Ty) {
        let mut params = self.bases(30, &format!("x{k}_"));
        let symbolic = !params.is_empty();
        for i in 0..1 + self.rng.below(3) {
            params.push((format!("a{k}_{i}"), self.value_ty(symbolic, 2)));
        }
        (params, self.value_ty(symbolic, 2))
    }

    fn plain(&mut self, k: usize, fuel: usize) -> String {
        let (params, ret) = self.signature(k);
        let body = self.function(&params, &ret, fuel as i64);
        let shown: Vec<String> = params.iter().map(|(n, t)| format!("%{n}: {t}")).collect();
        let name = format!("f{k}");
        self.globals.push(Global {
            name: name.clone(),
            args: params.into_iter().map(|p| p.1).collect(),
            ret: ret.clone(),
            counted: false,
        });
        format!("def @{name}({}) -> {ret} {{\n{body}}}\n", shown.join(", "))
    }

    /// Generates `@r(k, acc)`: k steps over an accumulator, tail-recursive or not.
    fn recursive(&mut self, k: usize, fuel: usize) -> String {
        let ty = self.value_ty(false, 1);
        let name = format!("r{k}");
        let text = self.counted(&name, &name, &ty, fuel);
        self.count(&name, &ty);
        text
    }

    /// Generates two mutually recursive functions.
    fn mutual(&mut self, k: usize, fuel: usize) -> String {
        let ty = self.value_ty(false, 1);
        let (a, b) = (format!("even{k}"), format!("odd{k}"));
        let mut text = self.counted(&a, &b, &ty, fuel);
        text += &self.counted(&b, &a, &ty, fuel);
        self.count(&a, &ty);
        text
    }

    fn count(&mut self, name: &str, ty: &Ty) {
        self.globals.push(Global {
            name: name.to_owned(),
            args: vec![Ty::scalar(Elem::I32), ty.clone()],
            ret: ty.clone(),
            counted: true,
        });
    }

    fn counted(&mut self, name: &str, next: &str, ty: &Ty, fuel: usize) -> String {
        let body = self.countdown(&format!("@{next}"), ty, fuel as i64);
        format!("def @{name}(%k: int32, %acc: {ty}) -> {ty} {{\n{body}}}\n")
    }
}
