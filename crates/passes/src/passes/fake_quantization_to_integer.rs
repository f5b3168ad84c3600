//! `fake-quantization-to-integer`: computes with integers what lies between `qnn.dequantize` and
//! `qnn.quantize`.
//!
//! What integers stand for ([`Affine`]) goes along with the values of a function's graph. What an
//! operator does with such operands is in its entry ([`relax_ops::AffineRole`]); where an operator
//! has no rule, or its rule does not apply, its operands are numbers again. Sums of products are
//! computed with integers in any case; everything else only between integers.

use relax_base::Diagnostics;
use relax_ir::{Expr, ExprId, Memo};
use relax_ops::families::{dequantized, requantized};
use relax_ops::{Affine, AffineRole, AffineSite, Build, Number};
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;

use crate::build::{At, site};
use crate::edit::Edit;
use crate::{Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "fake-quantization-to-integer",
    doc: "Computes with integers what lies between dequantisation and quantisation.",
    options: &[],
    contract: Contract::TYPED.coarser(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let mut regions = 0;
    for (global, body) in edit.m.global_bodies() {
        let func = edit.m.global_func(global).expect("it has a body");
        if crate::util::is_primitive(&edit.m.funcs[func]) {
            continue;
        }
        let mut walk = Walk::new(&mut edit, body);
        let new = walk.body(body);
        regions += walk.regions;
        edit.m.set_global_body(global, new);
    }
    cx.count("calls computed with integers", regions);
    Ok(())
}

/// A value as integers.
#[derive(Clone, Copy)]
struct Carried {
    e: ExprId,
    kind: Affine,
    /// Whether sums of products are in it, which are not computed twice.
    product: bool,
    /// Whether it is rounded to what its only user makes of it, and nothing else may see it.
    rounded: bool,
}

/// One function's graph.
struct Walk<'e, 'm> {
    edit: &'e mut Edit<'m>,
    /// All nodes, operands first.
    order: Vec<ExprId>,
    /// What the only user of a value makes of it.
    wanted: FxHashMap<ExprId, Affine>,
    /// The numbers of each value.
    numbers: Memo,
    /// Its integers.
    carried: FxHashMap<ExprId, Carried>,
    regions: u64,
}

impl<'e, 'm> Walk<'e, 'm> {
    fn new(edit: &'e mut Edit<'m>, body: ExprId) -> Walk<'e, 'm> {
        let order = edit.m.post_order([body]);
        Walk {
            edit,
            order,
            wanted: FxHashMap::default(),
            numbers: Memo::default(),
            carried: FxHashMap::default(),
            regions: 0,
        }
    }

    fn body(&mut self, body: ExprId) -> ExprId {
        self.wants();
        for old in std::mem::take(&mut self.order) {
            let node = {
                let numbers = &self.numbers;
                self.edit.m.map_children(old, |c| numbers[&c])
            };
            if node != old {
                let ty = self.edit.ty(old);
                self.edit.set_ty(node, ty);
                self.edit.retype(node);
            }
            let number = self.node(old, node).unwrap_or(node);
            self.numbers.insert(old, number);
        }
        self.numbers[&body]
    }

    /// Finds what the only users of values make of them, users first.
    fn wants(&mut self) {
        let mut users: FxHashMap<ExprId, u32> = FxHashMap::default();
        for &e in &self.order {
            self.edit
                .m
                .for_each_child(e, |c| *users.entry(c).or_default() += 1);
        }
        let order = std::mem::take(&mut self.order);
        for &e in order.iter().rev() {
            let wanted = match self.role(e) {
                Some(AffineRole::Enter) => self.kind(e, e),
                Some(AffineRole::Ordered(_)) => self.wanted.get(&e).copied(),
                _ => None,
            };
            let Some((_, args, _)) = self.edit.applied(e) else {
                continue;
            };
            for &arg in args {
                if let Some(kind) = wanted.filter(|_| users[&arg] == 1) {
                    self.wanted.insert(arg, kind);
                }
            }
        }
        self.order = order;
    }

    /// Returns what builds expressions at the place of one.
    fn at(&mut self, e: ExprId) -> At<'_, 'm> {
        let span = self.edit.m.span(e);
        At {
            edit: self.edit,
            span,
        }
    }

    fn role(&self, e: ExprId) -> Option<AffineRole> {
        self.edit.callee(e)?.1.hooks.affine
    }

    /// Returns what the integers that a conversion takes or gives stand for; `integers` are these.
    fn kind(&mut self, call: ExprId, integers: ExprId) -> Option<Affine> {
        let site = site(self.edit, call)?;
        let [_, scale, zero] = site.args[..] else {
            return None;
        };
        let mut b = self.at(call);
        let (dtype, rank) = (b.dtype(integers)?, b.rank(integers)?);
        let axis = site.int("axis")?;
        let axis = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok();
        // One zero point for all is as good as many that are equal.
        let zero = match b.value(zero) {
            Some(v) if !v.is_scalar() && !v.is_empty() => {
                let first = v.get_i64(0);
                match (1..v.len()).all(|i| v.get_i64(i) == first) {
                    true => b.constant(Tensor::scalar_i64(DType::I32, first)),
                    false => zero,
                }
            }
            _ => zero,
        };
        let scalars = b.rank(scale)? == 0 && b.rank(zero)? == 0;
        let even = site.value("rounding").as_str() == Some("TOEVEN");
        Some(Affine {
            scale,
            zero,
            dtype,
            axis: if scalars {
                None
            } else {
                Some(axis.filter(|a| *a < rank)?)
            },
            even,
        })
    }

    /// Handles a node over new operands: returns its numbers, where they are others than the node
    /// itself, and keeps its integers.
    fn node(&mut self, old: ExprId, node: ExprId) -> Option<ExprId> {
        if let Expr::Proj { tuple, index } = self.edit.m.exprs[old] {
            // A field of a tuple whose fields are integers of one kind.
            let whole = *self.carried.get(&tuple)?;
            let e = self.edit.field(whole.e, index, self.edit.m.span(old));
            self.carried.insert(old, Carried { e, ..whole });
            return None;
        }
        let role = self.role(old)?;
        let (_, args, _) = self.edit.applied(old)?;
        let operands = args.to_vec();
        match role {
            AffineRole::Leave => {
                let (_, args, _) = self.edit.applied(node)?;
                let e = *args.first()?;
                let kind = self.kind(node, e)?;
                let carried = Carried {
                    e,
                    kind,
                    product: false,
                    rounded: false,
                };
                self.carried.insert(old, carried);
                None
            }
            AffineRole::Enter => {
                let from = *self.carried.get(operands.first()?)?;
                let to = self.kind(node, node)?;
                let new = requantized(&mut self.at(old), from.e, from.kind, to)?;
                self.regions += 1;
                Some(new)
            }
            AffineRole::Rule(rule) | AffineRole::Ordered(rule) | AffineRole::Product(rule) => {
                let operands: Vec<Number> = operands.iter().map(|&o| self.operand(o)).collect();
                let any = |n: &Number| match n {
                    Number::Affine(..) => true,
                    Number::Tuple(all) => all.iter().any(|n| n.affine().is_some()),
                    Number::Plain(_) => false,
                };
                if !operands.iter().any(any) {
                    return None;
                }
                let product = matches!(role, AffineRole::Product(_)) || self.products(old);
                let wanted = self.wanted.get(&old).copied();
                let at = AffineSite {
                    site: site(self.edit, node)?,
                    operands,
                    wanted,
                };
                let (e, kind) = rule(&mut self.at(old), &at)?;
                if !self.edit.typed(e) {
                    return None;
                }
                let rounded = wanted.is_some_and(|w| w == kind);
                let carried = Carried {
                    e,
                    kind,
                    product,
                    rounded,
                };
                self.carried.insert(old, carried);
                self.left(node, carried)
            }
        }
    }

    /// Returns the numbers of a value that was computed with integers, if there is to be no other
    /// way to them.
    fn left(&mut self, node: ExprId, carried: Carried) -> Option<ExprId> {
        let tensor = self.edit.dtype(node) == Some(DType::F32);
        if !carried.product || carried.rounded || !tensor {
            return None;
        }
        let mut b = self.at(node);
        Some(dequantized(&mut b, carried.e, carried.kind))
    }

    /// Returns whether sums of products are among a call's operands.
    fn products(&self, call: ExprId) -> bool {
        let mut found = false;
        let carried = &self.carried;
        self.edit.m.for_each_child(call, |c| {
            found |= carried.get(&c).is_some_and(|c| c.product);
        });
        found
    }

    fn operand(&self, old: ExprId) -> Number {
        if let Expr::Tuple(fields) = self.edit.m.exprs[old] {
            let fields = self.edit.m.list(fields);
            return Number::Tuple(fields.iter().map(|&f| self.one(f)).collect());
        }
        self.one(old)
    }

    fn one(&self, old: ExprId) -> Number {
        match self.carried.get(&old) {
            Some(c) => Number::Affine(c.e, c.kind),
            None => Number::Plain(self.numbers[&old]),
        }
    }
}
