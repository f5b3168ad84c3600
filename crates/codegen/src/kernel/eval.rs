//! Scalar expressions of a kernel.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use relax_loops::{BinOp, Buf, Ex, ExKind, Interval, interval};
use relax_tensor::DType;

use super::{Access, Kernel, Result, Unsupported};
use crate::scalar::{DIVIDED_BITS, register};

/// A step of evaluation on the work list.
enum Work<'e> {
    Visit(&'e Ex),
    Emit(&'e Ex),
}

fn key(e: &Ex) -> usize {
    std::ptr::from_ref(e.kind()) as usize
}

impl Kernel<'_, '_, '_> {
    /// Returns the interval that an index expression is known to lie in.
    pub(super) fn interval(&self, e: &Ex) -> Interval {
        interval(e, &|v| self.ranges.get(&v).copied())
    }

    fn known(&self, e: &Ex) -> Option<Value> {
        let k = key(e);
        self.memo
            .iter()
            .rev()
            .find_map(|layer| layer.get(&k))
            .copied()
    }

    fn remember(&mut self, e: &Ex, v: Value) {
        if let Some(layer) = self.memo.last_mut() {
            layer.insert(key(e), v);
        }
    }

    /// The value of an expression here. Common subexpressions are computed once.
    ///
    /// Work list instead of recursion; only a `select` whose sides must not both be evaluated
    /// recurses, once per nesting level.
    pub(super) fn eval(&mut self, root: &Ex) -> Result<Value> {
        let mut work = vec![Work::Visit(root)];
        while let Some(step) = work.pop() {
            match step {
                Work::Visit(e) => {
                    if self.known(e).is_some() {
                        continue;
                    }
                    if let Some(v) = self.looked_up(e) {
                        self.remember(e, v);
                        continue;
                    }
                    if let ExKind::Select(c, a, b) = e.kind()
                        && !(self.harmless(a) && self.harmless(b))
                    {
                        let v = self.lazy_select(e, c, a, b)?;
                        self.remember(e, v);
                        continue;
                    }
                    work.push(Work::Emit(e));
                    work.extend(e.children().map(Work::Visit));
                }
                Work::Emit(e) => {
                    if self.known(e).is_none() {
                        let v = self.emit(e)?;
                        self.remember(e, v);
                    }
                }
            }
        }
        Ok(self.known(root).expect("just evaluated"))
    }

    /// Returns whether an expression can be evaluated speculatively: all its loads are proven in
    /// bounds.
    pub(super) fn harmless(&self, e: &Ex) -> bool {
        let mut work = vec![e];
        while let Some(e) = work.pop() {
            if let ExKind::Load(buf, index) = e.kind() {
                let shape = &self.program.bufs[*buf].shape;
                if !index.iter().zip(shape).all(|(i, n)| self.inside(i, n)) {
                    return false;
                }
            }
            work.extend(e.children());
        }
        true
    }

    /// Returns whether an index is proven to lie in `0..extent`.
    pub(super) fn inside(&self, index: &Ex, extent: &Ex) -> bool {
        if self.env.checks {
            return false;
        }
        // A loop over exactly this (perhaps symbolic) extent.
        if let ExKind::Var(v) = index.kind()
            && self.over.get(v) == Some(extent)
        {
            return true;
        }
        let Some(n) = extent.as_int() else {
            return false;
        };
        let i = self.interval(index);
        i.exact && i.lo >= 0 && i.hi < n
    }

    fn lazy_select(&mut self, e: &Ex, c: &Ex, a: &Ex, b: &Ex) -> Result<Value> {
        let cond = self.eval(c)?;
        let [yes, no, done] = [(); 3].map(|()| self.b.create_block());
        let result = self.b.append_block_param(done, register(e.dtype()));
        self.b.ins().brif(cond, yes, &[], no, &[]);
        for (block, side) in [(yes, a), (no, b)] {
            self.b.switch_to_block(block);
            self.memo.push(rustc_hash::FxHashMap::default());
            let v = self.eval(side);
            self.memo.pop();
            self.b.ins().jump(done, &[BlockArg::Value(v?)]);
        }
        self.b.switch_to_block(done);
        Ok(result)
    }

    /// One node; its children have been evaluated.
    fn emit(&mut self, e: &Ex) -> Result<Value> {
        match e.kind() {
            ExKind::Var(v) => self.vars.get(v).copied().ok_or_else(|| {
                Unsupported(format!(
                    "`{}` has no value here",
                    self.program.vars[*v].name
                ))
            }),
            ExKind::Load(buf, index) => {
                let address = self.address(*buf, index)?;
                Ok(self.scalars().load(e.dtype(), address))
            }
            ExKind::Binary(op, a, by) if self.divides(*op, a, by) => {
                let (x, by) = (self.known(a).expect("children first"), by.as_int());
                let (by, most) = (by.expect("a constant"), self.interval(a).hi);
                Ok(self.scalars().divided(*op, x, by, most))
            }
            _ => {
                let parts = e.children();
                let parts: Vec<(usize, Value)> = parts
                    .map(|p| (key(p), self.known(p).expect("children first")))
                    .collect();
                let get = |p: &Ex| {
                    let found = parts.iter().find(|x| x.0 == key(p));
                    found.expect("one of the children").1
                };
                self.scalars().node(e, &get)
            }
        }
    }

    /// Returns whether an operation is a division of an index that is proven not to be negative by a
    /// constant, both small enough for [`divided`](crate::scalar::Scalars::divided).
    fn divides(&self, op: BinOp, a: &Ex, by: &Ex) -> bool {
        let division = matches!(
            op,
            BinOp::FloorDiv | BinOp::FloorMod | BinOp::Div | BinOp::Rem
        );
        let small = 0..1 << DIVIDED_BITS;
        let by = by.as_int().filter(|by| *by > 0 && small.contains(by));
        if !division || a.dtype() != DType::I64 || by.is_none() {
            return false;
        }
        let a = self.interval(a);
        a.exact && small.contains(&a.lo) && small.contains(&a.hi)
    }

    /// The address of an element. Indices that are not proven in bounds are checked.
    pub(super) fn address(&mut self, buf: Buf, index: &[Ex]) -> Result<Value> {
        let values: Vec<Value> = index.iter().map(|i| self.eval(i)).collect::<Result<_>>()?;
        let place = self.places.get(&buf).cloned();
        let name = self.program.bufs[buf].name;
        let place =
            place.ok_or_else(|| Unsupported(format!("`{name}` is read before it is written")))?;
        let shape = self.program.bufs[buf].shape.clone();
        let mut offset = None;
        for (k, &i) in values.iter().enumerate() {
            if !self.inside(&index[k], &shape[k]) {
                let access = Access {
                    buf,
                    axis: k as u32,
                    place: self.program.access(buf, index),
                };
                self.check(access, i, place.extents[k]);
            }
            offset = Some(match offset {
                None => i,
                Some(o) => {
                    let scaled = self.b.ins().imul(o, place.extents[k]);
                    self.b.ins().iadd(scaled, i)
                }
            });
        }
        Ok(match offset {
            None => place.data,
            Some(o) => {
                let bytes = self
                    .b
                    .ins()
                    .imul_imm_s(o, self.program.bufs[buf].dtype.size() as i64);
                self.b.ins().iadd(place.data, bytes)
            }
        })
    }

    /// Continues only if `index` lies in `0..extent`; else the kernel fails, or a vector loop runs
    /// the iterations of this group one by one, and the right one fails.
    pub(super) fn check(&mut self, access: Access, index: Value, extent: Value) {
        if self.group.is_some() {
            let fine = self.b.ins().icmp(IntCC::UnsignedLessThan, index, extent);
            self.all_or_one_by_one(fine);
            return;
        }
        let outside = match self.outside.get(&access) {
            Some(&block) => block,
            None => {
                let block = self.b.create_block();
                self.b.set_cold_block(block);
                for _ in 0..3 {
                    self.b.append_block_param(block, types::I64);
                }
                self.outside.insert(access, block);
                block
            }
        };
        let at = self.iteration();
        let ok = self.b.create_block();
        let told = [index, at, extent].map(BlockArg::Value);
        let bad = (self.b.ins()).icmp(IntCC::UnsignedGreaterThanOrEqual, index, extent);
        // What is named last follows in the code.
        self.b.ins().brif(bad, outside, &told, ok, &[]);
        self.b.switch_to_block(ok);
    }
}
