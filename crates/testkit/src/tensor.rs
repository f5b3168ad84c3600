//! Tensor operators.

use crate::expr::Gen;
use crate::types::{Dim, Elem, Ty};

fn list<T: ToString>(of: &[T]) -> String {
    let parts: Vec<String> = of.iter().map(T::to_string).collect();
    format!("[{}]", parts.join(", "))
}

/// Returns whether all extents are constant.
fn known(dims: &[Dim]) -> bool {
    dims.iter().all(|d| matches!(d, Dim::Const(_)))
}

impl Gen {
    /// Generates a tensor without significant operands.
    pub fn fill(&mut self, dims: &[Dim], elem: Elem) -> String {
        if dims.is_empty() {
            return elem.literal(&mut self.rng);
        }
        let dtype = elem.name();
        if known(dims) {
            let shape = list(dims);
            return match self.rng.below(3) {
                0 => format!("zeros(shape={shape}, dtype=\"{dtype}\")"),
                1 => format!("ones(shape={shape}, dtype=\"{dtype}\")"),
                _ => {
                    let value = elem.literal(&mut self.rng);
                    format!("full({value}, shape={shape}, dtype=\"{dtype}\")")
                }
            };
        }
        // Only its base has the extent of a dimension variable: bases are reshaped and broadcast.
        let mut rest = dims.to_vec();
        let mut placed = Vec::new();
        for (at, dim) in dims.iter().enumerate() {
            let Dim::Var(v) = *dim else { continue };
            rest[at] = Dim::Const(1);
            let base = self.bases.iter().rev().find(|b| b.0 == v);
            let mut text = base.map(|b| b.1.clone()).unwrap_or_default();
            if at > 0 {
                text = format!("expand_dims({text}, axis=0, num_newaxis={at})");
            }
            let after = dims.len() - at - 1;
            if after > 0 {
                text = format!("expand_dims({text}, axis={}, num_newaxis={after})", at + 1);
            }
            placed.push(text);
        }
        let zeros = format!("zeros(shape={}, dtype=\"float32\")", list(&rest));
        let sum = (placed.into_iter()).fold(zeros.clone(), |sum, p| format!("add({p}, {sum})"));
        if elem == Elem::F32 {
            return sum;
        }
        // True unless the bases contain NaN or infinities, whatever was rounded before.
        let truth = format!("equal(multiply({sum}, 0f), {zeros})");
        match elem {
            Elem::Bool => truth,
            _ => format!("cast({truth}, dtype=\"{dtype}\")"),
        }
    }

    fn arg(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> String {
        let value = self.expr(&Ty::Tensor(dims.to_vec(), elem), depth);
        match self.hiding && !dims.is_empty() && self.rng.chance(15) {
            true => self.programs.hidden(&value, dims.len(), elem),
            false => value,
        }
    }

    /// Generates an operand that broadcasts to these dimensions.
    fn operand(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> String {
        let mut dims = dims.to_vec();
        match self.rng.below(6) {
            0 => dims.clear(),
            1 if !dims.is_empty() => {
                let skip = self.rng.below(dims.len());
                dims.drain(..skip);
            }
            2 if !dims.is_empty() => {
                let at = self.rng.below(dims.len());
                dims[at] = Dim::Const(1);
            }
            _ => {}
        }
        self.arg(&dims, elem, depth)
    }

    /// Generates a tensor with an operator.
    pub fn tensor(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> String {
        let below = depth - 1;
        for _ in 0..4 {
            let found = match self.rng.below(10) {
                9 if self.features.programs && !self.hiding => self.call_tir(dims, elem, below),
                0 | 1 => Some(self.unary(dims, elem, below)),
                2..=4 => Some(self.binary(dims, elem, below)),
                5 => self.reduction(dims, elem, below),
                6 => self.movement(dims, elem, below),
                7 => self.join(dims, elem, below),
                _ => self.product(dims, elem, below),
            };
            if let Some(text) = found {
                return text;
            }
        }
        self.binary(dims, elem, below)
    }

    fn unary(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> String {
        let smooth = self.features.smooth;
        if self.rng.chance(15) {
            let from = match elem {
                Elem::Bool => Elem::I32,
                _ if elem.is_float() => *self.rng.pick(&[Elem::I32, Elem::Bool, Elem::F32]),
                _ => *self.rng.pick(&[Elem::I32, Elem::Bool]),
            };
            let from = match self.features.elements && self.rng.chance(30) {
                true => *self
                    .rng
                    .pick(&[Elem::I8, Elem::U8, Elem::I64, Elem::I16, Elem::U16]),
                false if smooth && from == Elem::Bool => Elem::I32,
                false => from,
            };
            let x = self.arg(dims, from, depth);
            return format!("cast({x}, dtype=\"{}\")", elem.name());
        }
        let x = self.arg(dims, elem, depth);
        let name = match elem {
            Elem::Bool => "logical_not",
            _ if !elem.is_float() => *self.rng.pick(&["negative", "abs", "copy", "bitwise_not"]),
            _ if smooth => {
                let all = [
                    "tanh", "sigmoid", "negative", "nn.relu", "abs", "copy", "sin",
                ];
                *self.rng.pick(&all)
            }
            _ => {
                let all = [
                    "exp", "tanh", "sigmoid", "negative", "nn.relu", "abs", "copy", "sqrt",
                    "rsqrt", "log", "erf", "floor", "ceil", "round", "sin", "sign",
                ];
                *self.rng.pick(&all)
            }
        };
        if elem.is_float() && !dims.is_empty() && self.rng.chance(15) {
            return match self.rng.below(3) {
                0 => format!("nn.softmax({x})"),
                1 => format!("clip({x}, a_min=-2f64, a_max=3f64)"),
                _ => format!("nn.log_softmax({x})"),
            };
        }
        format!("{name}({x})")
    }

    fn binary(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> String {
        if self.rng.chance(12) {
            let cond = self.arg(dims, Elem::Bool, depth);
            let (x, y) = (self.arg(dims, elem, depth), self.arg(dims, elem, depth));
            return format!("where({cond}, {x}, {y})");
        }
        if elem == Elem::Bool && self.rng.chance(60) {
            let from = if self.features.smooth {
                Elem::I32
            } else {
                *self.rng.pick(&[Elem::F32, Elem::I32])
            };
            let all = [
                "less",
                "greater",
                "equal",
                "not_equal",
                "less_equal",
                "greater_equal",
            ];
            let name = *self.rng.pick(&all);
            let (x, y) = (self.arg(dims, from, depth), self.operand(dims, from, depth));
            return format!("{name}({x}, {y})");
        }
        if !elem.is_float() && elem != Elem::Bool && self.rng.chance(15) {
            let x = self.arg(dims, elem, depth);
            let by = 1 + self.rng.below(3);
            let all = [
                "divide",
                "floor_divide",
                "floor_mod",
                "mod",
                "left_shift",
                "right_shift",
            ];
            return format!(
                "{}({x}, cast({by}, dtype=\"{}\"))",
                self.rng.pick(&all),
                elem.name()
            );
        }
        let name = match elem {
            Elem::Bool => *self.rng.pick(&["logical_and", "logical_or"]),
            _ if !elem.is_float() && self.rng.chance(20) => {
                *self.rng.pick(&["bitwise_and", "bitwise_or", "bitwise_xor"])
            }
            _ if elem.is_float() && !self.features.smooth => {
                let all = [
                    "add", "subtract", "multiply", "divide", "maximum", "minimum",
                ];
                *self.rng.pick(&all)
            }
            _ => *self
                .rng
                .pick(&["add", "subtract", "multiply", "maximum", "minimum"]),
        };
        let whole = self.arg(dims, elem, depth);
        let other = self.operand(dims, elem, depth);
        if self.rng.chance(50) {
            format!("{name}({whole}, {other})")
        } else {
            format!("{name}({other}, {whole})")
        }
    }

    fn reduction(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> Option<String> {
        let name = match elem {
            Elem::Bool => *self.rng.pick(&["all", "any"]),
            _ if elem.is_float() && self.features.smooth => "mean",
            _ if elem.is_float() => *self.rng.pick(&["sum", "max", "min", "mean"]),
            _ => *self.rng.pick(&["sum", "max", "min"]),
        };
        if dims.len() > 3 {
            return None;
        }
        let axis = self.rng.below(dims.len() + 1);
        let mut from = dims.to_vec();
        from.insert(axis, Dim::Const(1 + self.rng.below(3) as i64));
        let x = self.arg(&from, elem, depth);
        Some(format!("{name}({x}, axis=[{axis}])"))
    }

    /// Generates a reordering or reshape of elements.
    fn movement(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> Option<String> {
        let rank = dims.len();
        match self.rng.below(8) {
            // Extents that are products and sums of variables, and back.
            6 if rank > 0 && !known(dims) && !self.hiding => {
                let x = self.arg(dims, elem, depth);
                let shape: Vec<String> = dims.iter().map(Dim::to_string).collect();
                Some(format!(
                    "reshape(reshape({x}, newshape=[-1]), shape({}))",
                    shape.join(", ")
                ))
            }
            7 if rank > 0 => {
                let axis = self.rng.below(rank);
                let (x, y) = (self.arg(dims, elem, depth), self.arg(dims, elem, depth));
                let which = self.rng.below(2);
                Some(format!(
                    "split(concatenate(({x}, {y}), axis={axis}), indices_or_sections=2, axis={axis}).{which}"
                ))
            }
            0 if rank > 1 => {
                let mut axes: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    let j = self.rng.below(i + 1);
                    axes.swap(i, j);
                }
                let mut from = dims.to_vec();
                for (i, &a) in axes.iter().enumerate() {
                    from[a] = dims[i];
                }
                let x = self.arg(&from, elem, depth);
                Some(format!("transpose({x}, axes={})", list(&axes)))
            }
            1 if rank > 0 && known(dims) => {
                let count: i64 = dims
                    .iter()
                    .map(|d| if let Dim::Const(c) = d { *c } else { 1 })
                    .product();
                let from = if count % 2 == 0 && self.rng.chance(50) {
                    vec![Dim::Const(2), Dim::Const(count / 2)]
                } else {
                    vec![Dim::Const(count)]
                };
                let x = self.arg(&from, elem, depth);
                Some(format!("reshape({x}, newshape={})", list(dims)))
            }
            2 if rank > 0 => {
                let at = dims.iter().position(|&d| d == Dim::Const(1))?;
                let mut from = dims.to_vec();
                from.remove(at);
                let x = self.arg(&from, elem, depth);
                Some(format!("expand_dims({x}, axis={at})"))
            }
            3 if rank < 4 => {
                let at = self.rng.below(rank + 1);
                let mut from = dims.to_vec();
                from.insert(at, Dim::Const(1));
                let x = self.arg(&from, elem, depth);
                Some(format!("squeeze({x}, axis=[{at}])"))
            }
            4 if rank > 0 => {
                let axis = self.rng.below(rank);
                let x = self.arg(dims, elem, depth);
                Some(format!("reverse({x}, axis={axis})"))
            }
            5 if rank > 0 && known(dims) => {
                let from: Vec<Dim> = (dims.iter())
                    .map(|&d| {
                        if self.rng.chance(50) {
                            Dim::Const(1)
                        } else {
                            d
                        }
                    })
                    .collect();
                let x = self.arg(&from, elem, depth);
                Some(format!("broadcast_to({x}, shape={})", list(dims)))
            }
            _ => None,
        }
    }

    /// Generates concatenations, and their inverse.
    fn join(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> Option<String> {
        let consts: Vec<(usize, i64)> = (dims.iter().enumerate())
            .filter_map(|(i, d)| match d {
                Dim::Const(c) => Some((i, *c)),
                Dim::Var(_) => None,
            })
            .collect();
        if consts.is_empty() {
            return None;
        }
        let (axis, extent) = *self.rng.pick(&consts);
        let with = |c: i64| {
            let mut of = dims.to_vec();
            of[axis] = Dim::Const(c);
            of
        };
        match self.rng.below(4) {
            0 if extent > 1 => {
                let first = 1 + self.rng.below(extent as usize - 1) as i64;
                let (x, y) = (
                    self.arg(&with(first), elem, depth),
                    self.arg(&with(extent - first), elem, depth),
                );
                Some(format!("concatenate(({x}, {y}), axis={axis})"))
            }
            1 => {
                let parts = 2 + self.rng.below(2) as i64;
                let x = self.arg(&with(extent * parts), elem, depth);
                let which = self.rng.below(parts as usize);
                Some(format!(
                    "split({x}, indices_or_sections={parts}, axis={axis}).{which}"
                ))
            }
            2 => {
                let more = self.rng.below(3) as i64;
                let x = self.arg(&with(extent + more), elem, depth);
                let begin = self.rng.below(more as usize + 1) as i64;
                Some(format!(
                    "strided_slice({x}, begin=[{begin}], end=[{}], strides=[1], axes=[{axis}])",
                    begin + extent
                ))
            }
            _ => {
                let mut from = dims.to_vec();
                from.insert(axis, Dim::Const(3));
                if from.len() > 4 {
                    return None;
                }
                let x = self.arg(&from, elem, depth);
                let index = self.rng.below(3);
                Some(format!("take({x}, {index}, axis={axis})"))
            }
        }
    }

    /// Generates matrix products, convolutions, poolings, normalisations.
    fn product(&mut self, dims: &[Dim], elem: Elem, depth: u32) -> Option<String> {
        let inner = Dim::Const(2 + self.rng.below(2) as i64);
        if !elem.is_float() {
            return self.integer_product(dims, elem, inner, depth);
        }
        match (dims, self.rng.below(3)) {
            (&[a, Dim::Const(u)], 0) => {
                let x = self.arg(&[a, inner], elem, depth);
                let w = self.arg(&[Dim::Const(u), inner], elem, depth);
                Some(format!("nn.dense({x}, {w}, units={u})"))
            }
            (&[_, c @ Dim::Const(_)], 1) => {
                let x = self.arg(dims, elem, depth);
                let b = self.arg(&[c], elem, depth);
                Some(format!("nn.bias_add({x}, {b}, axis=1)"))
            }
            (&[a, b, c], 0) => {
                let x = self.arg(&[a, b, inner], elem, depth);
                let y = self.arg(&[a, c, inner], elem, depth);
                Some(format!("nn.batch_matmul({x}, {y}, transpose_b=True)"))
            }
            // Windows of three require extents of at least one.
            (&[a, Dim::Const(c), h @ Dim::Const(_), w @ Dim::Const(_)], 0) => {
                let x = self.arg(&[a, inner, h, w], elem, depth);
                let k = self.arg(
                    &[Dim::Const(c), inner, Dim::Const(3), Dim::Const(3)],
                    elem,
                    depth,
                );
                Some(format!(
                    "nn.conv2d({x}, {k}, padding=[1, 1, 1, 1], channels={c}, kernel_size=[3, 3])"
                ))
            }
            (&[_, _, Dim::Const(_), Dim::Const(_)], 1) => {
                let x = self.arg(dims, elem, depth);
                Some(format!(
                    "nn.max_pool2d({x}, pool_size=[3, 3], padding=[1, 1, 1, 1])"
                ))
            }
            (&[.., c @ Dim::Const(_)], 2) if !self.features.smooth && dims.len() > 1 => {
                let x = self.arg(dims, elem, depth);
                let (g, b) = (self.arg(&[c], elem, depth), self.arg(&[c], elem, depth));
                Some(format!("nn.layer_norm({x}, {g}, {b})"))
            }
            (&[_, c @ Dim::Const(_), ..], 2) => {
                let x = self.arg(dims, elem, depth);
                let mut stats = || self.arg(&[c], elem, 0);
                let (g, b, m) = (stats(), stats(), stats());
                let v = format!("ones(shape=[{c}], dtype=\"{}\")", elem.name());
                Some(format!("nn.batch_norm({x}, {g}, {b}, {m}, {v}).0"))
            }
            _ => None,
        }
    }

    /// Generates products and convolutions of small integers with 32-bit results.
    fn integer_product(
        &mut self,
        dims: &[Dim],
        elem: Elem,
        inner: Dim,
        depth: u32,
    ) -> Option<String> {
        if elem != Elem::I32 || !self.features.elements {
            return None;
        }
        let (a, b) = *(self.rng).pick(&[
            (Elem::I8, Elem::I8),
            (Elem::U8, Elem::I8),
            (Elem::U8, Elem::U8),
        ]);
        match *dims {
            [n, Dim::Const(u)] => {
                let a = if a == b { a } else { Elem::I8 };
                let x = self.arg(&[n, inner], a, depth);
                let w = self.arg(&[Dim::Const(u), inner], if a == b { b } else { a }, depth);
                Some(format!(
                    "nn.dense({x}, {w}, units={u}, out_dtype=\"int32\")"
                ))
            }
            [n, Dim::Const(c), h @ Dim::Const(_), w @ Dim::Const(_)] => {
                let x = self.arg(&[n, inner, h, w], a, depth);
                let k = self.arg(
                    &[Dim::Const(c), inner, Dim::Const(3), Dim::Const(3)],
                    b,
                    depth,
                );
                Some(format!(
                    "nn.conv2d({x}, {k}, padding=[1, 1, 1, 1], channels={c}, kernel_size=[3, 3], out_dtype=\"int32\")"
                ))
            }
            _ => None,
        }
    }
}
