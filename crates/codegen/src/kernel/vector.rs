//! Loops that do several iterations at a time, in vectors of 16 bytes.
//!
//! A group of iterations (its lanes) is computed together by the operations that one iteration
//! would do, so each element is the same to the bit. Values uniform across lanes are computed once;
//! adjacent elements are read and written together; an operation without a vector form is done lane
//! by lane. Where a check fails for some lane, or a condition holds in some lanes only, the group's
//! iterations run one by one. So does the rest of the range.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Type, Value, types};
use relax_loops::{BinOp, Buf, Compute, Ex, ExKind, Mark, Stmt, Var, schedule, visit_expr};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::lanes::{Vector, vector_type};
use super::nest::Body;
use super::{Access, Kernel, Result, Unsupported};

/// The lanes of the vector loop that is being emitted.
pub(super) struct Group {
    /// The loop's variable.
    pub var: Var,
    /// The number of lanes.
    pub width: usize,
    /// The variable's value in the first lane.
    pub base: Value,
    /// The block that runs the lanes one by one.
    pub one_by_one: Block,
    /// Scalars of the body that differ from lane to lane.
    pub lets: FxHashMap<Var, Vector>,
    /// Values of expressions by address, one layer per block that dominates the code emitted next.
    pub memo: Vec<FxHashMap<usize, Vector>>,
    /// The kernel's layers up to here hold values uniform across lanes.
    floor: usize,
}

/// The properties of a loop's body that decide whether it is vectorised.
struct Look {
    /// The loop's variable.
    var: Var,
    /// Variables that differ from lane to lane.
    lanes: FxHashSet<Var>,
    /// The least size of the elements that are computed or moved as vectors.
    least: usize,
    /// The number of operations with a vector form, and of those done lane by lane.
    wide: usize,
    narrow: usize,
}

impl Look {
    fn differs(&self, e: &Ex) -> bool {
        let mut found = false;
        visit_expr(e, |x| {
            found |= matches!(x.kind(), ExKind::Var(v) if self.lanes.contains(v));
        });
        found
    }

    fn element(&mut self, dtype: DType) {
        if vector_type(dtype).is_some() || dtype.is_bool() {
            self.least = self.least.min(dtype.size());
        }
    }
}

/// The step of an index per lane: 0, 1 or another constant; `None` where it has none.
fn step(e: &Ex, differs: &dyn Fn(&Ex) -> bool, var: Var, depth: usize) -> Option<i64> {
    if !differs(e) {
        return Some(0);
    }
    let depth = depth.checked_sub(1)?;
    let of = |e: &Ex| step(e, differs, var, depth);
    match e.kind() {
        ExKind::Var(v) if *v == var => Some(1),
        ExKind::Binary(BinOp::Add, a, b) => of(a)?.checked_add(of(b)?),
        ExKind::Binary(BinOp::Sub, a, b) => of(a)?.checked_sub(of(b)?),
        ExKind::Binary(BinOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
            (_, Some(k)) => of(a)?.checked_mul(k),
            (Some(k), _) => of(b)?.checked_mul(k),
            _ => None,
        },
        _ => None,
    }
}

/// The nesting depth beyond which expressions are not analysed; no source text has it.
const DEPTH: usize = 32;

fn side_by_side(index: &[Ex], differs: &dyn Fn(&Ex) -> bool, var: Var) -> bool {
    match index.split_last() {
        Some((last, rest)) => {
            step(last, differs, var, DEPTH) == Some(1) && rest.iter().all(|e| !differs(e))
        }
        None => false,
    }
}

impl Kernel<'_, '_, '_> {
    /// Returns the number of iterations of a loop per group; `None` where it is not vectorised.
    pub(super) fn vector_width(
        &self,
        var: Var,
        extent: &Ex,
        mark: Mark,
        body: Body<'_>,
    ) -> Option<usize> {
        let wish = match mark {
            Mark::Vectorize(w) => Some(w as usize),
            // A loop shared among threads may be vectorised too, if it has no schedule.
            Mark::Serial | Mark::Parallel if self.auto => None,
            _ => return None,
        };
        if self.group.is_some() || self.tables.is_some() || !self.has_vectors() {
            return None;
        }
        let mut look = Look {
            var,
            lanes: FxHashSet::from_iter([var]),
            least: 16,
            wide: 0,
            narrow: 0,
        };
        match body {
            Body::Elements(c, axis) => {
                if axis != c.axes.len() || wish.is_some() {
                    return None;
                }
                let dtype = self.program.bufs[c.out].dtype;
                if let Some(reduce) = &c.reduce {
                    vector_type(dtype)?;
                    if reduce.axes.iter().any(|(_, n)| look.differs(n)) {
                        return None;
                    }
                    look.wide += 1;
                }
                look.element(dtype);
                look.wide += 1;
                self.look_at(&mut look, &c.value);
            }
            Body::Stmts(stmts) => {
                if schedule::independent(self.program, var, stmts).is_err() {
                    return None;
                }
                let mut stored = false;
                if !self.look_at_stmts(&mut look, stmts, &mut stored) {
                    return None;
                }
            }
        }
        let natural = (16 / look.least).max(4);
        let width = match wish {
            Some(w) if (w * look.least).is_multiple_of(16) => w,
            _ => natural,
        };
        let short = extent.as_int().is_some_and(|n| n < width as i64);
        let pays = wish.is_some() || look.wide >= 2 * look.narrow;
        (pays && !short).then_some(width)
    }

    /// Counts the operations of an expression.
    fn look_at(&self, look: &mut Look, e: &Ex) {
        let mut inside_index: FxHashSet<usize> = FxHashSet::default();
        let mut found: Vec<&Ex> = Vec::new();
        visit_expr(e, |x| found.push(x));
        // Expressions used only in indices are not computed per lane.
        for x in &found {
            if let ExKind::Load(_, index) = x.kind() {
                for i in index {
                    visit_expr(i, |y| {
                        inside_index.insert(y.addr());
                    });
                }
            }
        }
        for x in found {
            if inside_index.contains(&x.addr()) || !look.differs(x) {
                continue;
            }
            let wide = match x.kind() {
                ExKind::Var(_) | ExKind::Int(_) | ExKind::Float(_) => continue,
                ExKind::Load(_, index) => {
                    let wide = side_by_side(index, &|e| look.differs(e), look.var);
                    if wide {
                        look.element(x.dtype());
                    }
                    wide && (vector_type(x.dtype()).is_some() || x.dtype().is_bool())
                }
                ExKind::Unary(op, a) => self.wide_unary(*op, a.dtype()),
                ExKind::Binary(op, a, _) => self.wide_binary(*op, a.dtype()),
                ExKind::Cast(a) => self.wide_cast(a.dtype(), x.dtype()),
                ExKind::Select(c, a, b) => {
                    let lazy = !(self.harmless(a) && self.harmless(b));
                    vector_type(x.dtype()).is_some() && !(lazy && look.differs(c))
                }
                ExKind::Reinterpret(_) => false,
            };
            if wide {
                look.wide += 1;
            } else {
                look.narrow += 1;
            }
        }
    }

    /// Returns whether statements can be vectorised; `stored` tells whether a store precedes them.
    fn look_at_stmts(&self, look: &mut Look, stmts: &[Stmt], stored: &mut bool) -> bool {
        stmts.iter().all(|s| match s {
            Stmt::Store { buf, index, value } => {
                *stored = true;
                look.element(self.program.bufs[*buf].dtype);
                if side_by_side(index, &|e| look.differs(e), look.var) {
                    look.wide += 1;
                } else {
                    look.narrow += 1;
                }
                self.look_at(look, value);
                true
            }
            Stmt::Let { var, value } => {
                if look.differs(value) {
                    self.look_at(look, value);
                    look.lanes.insert(*var);
                }
                true
            }
            Stmt::For { extent, body, .. } => {
                !look.differs(extent) && self.look_at_stmts(look, body, stored)
            }
            Stmt::Init { over, body } => {
                over.iter().all(|v| !look.lanes.contains(v))
                    && self.look_at_stmts(look, body, stored)
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                // A divergent condition must hold in all lanes, before any store.
                let fine = !look.differs(cond) || otherwise.is_empty() && !*stored;
                fine && self.look_at_stmts(look, then, stored)
                    && self.look_at_stmts(look, otherwise, stored)
            }
            Stmt::Assert { cond, .. } => !look.differs(cond) || !*stored,
            Stmt::While { .. } | Stmt::Alloc { .. } => false,
        })
    }

    /// The iterations of `from..to` in groups of `width`.
    pub(super) fn in_vectors(
        &mut self,
        var: Var,
        extent: &Ex,
        (from, to): (Value, Value),
        width: usize,
        body: Body<'_>,
    ) -> Result<()> {
        let [head, inside, rest, after, done] = [(); 5].map(|()| self.b.create_block());
        let one_by_one = self.b.create_block();
        let i = self.b.append_block_param(head, types::I64);
        self.b.ins().jump(head, &[BlockArg::Value(from)]);
        self.b.switch_to_block(head);
        let next = self.b.ins().iadd_imm_s(i, width as i64);
        let fits = self.b.ins().icmp(IntCC::SignedLessThanOrEqual, next, to);
        let some = [BlockArg::Value(i), BlockArg::Value(to)];
        self.b.ins().brif(fits, inside, &[], rest, &some);

        self.b.switch_to_block(inside);
        let old = (self.vars.get(&var).copied(), self.ranges.get(&var).copied());
        self.enter(var, extent, i);
        self.group = Some(Group {
            var,
            width,
            base: i,
            one_by_one,
            lets: FxHashMap::default(),
            memo: vec![FxHashMap::default()],
            floor: self.memo.len(),
        });
        self.memo.push(FxHashMap::default());
        let emitted = self.body(body);
        self.memo.pop();
        self.group = None;
        emitted?;
        self.b.ins().jump(head, &[BlockArg::Value(next)]);

        self.b.switch_to_block(one_by_one);
        let group = [BlockArg::Value(i), BlockArg::Value(next)];
        self.b.ins().jump(rest, &group);

        // One by one from `at` to `stop`: a group, or the remainder.
        self.b.switch_to_block(rest);
        let at = self.b.append_block_param(rest, types::I64);
        let stop = self.b.append_block_param(rest, types::I64);
        self.in_order(var, extent, (at, stop), &mut |k| k.body(body))?;
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, stop, to);
        let again = [BlockArg::Value(stop)];
        self.b.ins().brif(more, head, &again, done, &[]);
        self.b.switch_to_block(done);
        if let (Some(v), Some(r)) = old {
            self.vars.insert(var, v);
            self.ranges.insert(var, r);
        }
        self.forget_loads();
        Ok(())
    }

    pub(super) fn group(&self) -> &Group {
        self.group.as_ref().expect("in a vector loop")
    }

    /// Continues with the group where `fine` holds; else runs its iterations one by one.
    pub(super) fn all_or_one_by_one(&mut self, fine: Value) {
        let one_by_one = self.group().one_by_one;
        let ok = self.b.create_block();
        self.b.ins().brif(fine, ok, &[], one_by_one, &[]);
        self.b.switch_to_block(ok);
    }

    /// Returns whether an expression differs from lane to lane.
    pub(super) fn differs(&self, e: &Ex) -> bool {
        let group = self.group();
        let mut found = false;
        visit_expr(e, |x| {
            found |= matches!(x.kind(),
                ExKind::Var(v) if *v == group.var || group.lets.contains_key(v));
        });
        found
    }

    fn side_by_side(&self, index: &[Ex]) -> bool {
        side_by_side(index, &|e| self.differs(e), self.group().var)
    }

    /// The values of an expression in each lane, computed as by single iterations.
    pub(super) fn each<T>(
        &mut self,
        f: &mut dyn FnMut(&mut Self, usize) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (var, width, base) = (self.group().var, self.group().width, self.group().base);
        let floor = self.group().floor;
        let lets: Vec<(Var, Vector)> = (self.group().lets.iter())
            .map(|(v, x)| (*v, x.clone()))
            .collect();
        let mut scalars: Vec<(Var, Vec<Value>)> = Vec::new();
        for (v, x) in lets {
            let dtype = self.program.vars[v].dtype;
            scalars.push((v, self.lane_values(&x, dtype)));
        }
        scalars.sort_by_key(|s| s.0);
        // Facts about the first lane do not hold for the others.
        let known = self.memo.split_off(floor);
        let mut values = Vec::with_capacity(width);
        for lane in 0..width {
            let i = self.b.ins().iadd_imm_s(base, lane as i64);
            self.vars.insert(var, i);
            for (v, x) in &scalars {
                self.vars.insert(*v, x[lane]);
            }
            self.memo.push(FxHashMap::default());
            let value = f(self, lane);
            self.memo.pop();
            values.push(value?);
        }
        self.memo.extend(known);
        self.vars.insert(var, base);
        Ok(values)
    }

    /// One of two values, by a condition that is the same in all lanes.
    pub(super) fn either(&mut self, cond: &Ex, sides: [&Ex; 2], ty: Type) -> Result<Vector> {
        let cond = self.eval(cond)?;
        let [yes, no, done] = [(); 3].map(|()| self.b.create_block());
        let count = self.group().width / ty.lane_count() as usize;
        let chosen = (0..count).map(|_| self.b.append_block_param(done, ty));
        let chosen: Vec<Value> = chosen.collect();
        self.b.ins().brif(cond, yes, &[], no, &[]);
        for (block, side) in [yes, no].into_iter().zip(sides) {
            self.b.switch_to_block(block);
            self.push_memo();
            let value = self.vector(side);
            self.pop_memo();
            let parts: Vec<BlockArg> = (self.parts(&value?, ty).into_iter())
                .map(BlockArg::Value)
                .collect();
            self.b.ins().jump(done, &parts);
        }
        self.b.switch_to_block(done);
        Ok(Vector::Parts(chosen))
    }

    /// The address of the first lane's element; the lanes' elements are adjacent.
    fn first_address(&mut self, buf: Buf, index: &[Ex]) -> Result<Value> {
        let address = self.address(buf, index)?;
        let (Some(last), Some(extent)) = (index.last(), self.program.bufs[buf].shape.last()) else {
            return Ok(address);
        };
        if !self.inside(last, extent) {
            let first = self.eval(last)?;
            let extent = *self.places[&buf].extents.last().expect("as many as axes");
            let reach = self.group().width as i64 - 1;
            let end = self.b.ins().iadd_imm_s(first, reach);
            let access = Access {
                buf,
                axis: index.len() as u32 - 1,
                place: None,
            };
            self.check(access, end, extent);
        }
        Ok(address)
    }

    /// The elements that the lanes read.
    pub(super) fn vector_load(&mut self, e: &Ex, buf: Buf, index: &[Ex]) -> Result<Vector> {
        if !self.side_by_side(index) {
            return Ok(Vector::Each(self.each(&mut |k, _| k.eval(e))?));
        }
        let address = self.first_address(buf, index)?;
        Ok(self.load_lanes(e.dtype(), address))
    }

    fn vector_store(&mut self, buf: Buf, index: &[Ex], value: &Vector) -> Result<()> {
        let dtype = self.program.bufs[buf].dtype;
        if self.side_by_side(index) {
            let address = self.first_address(buf, index)?;
            self.store_lanes(dtype, value, address);
        } else {
            let values = self.lane_values(value, dtype);
            self.each(&mut |k, lane| {
                let address = k.address(buf, index)?;
                k.scalars().store(dtype, values[lane], address);
                Ok(())
            })?;
        }
        self.forget_loads();
        Ok(())
    }

    /// The elements of a computation at the lanes.
    pub(super) fn vector_element(&mut self, c: &Compute) -> Result<()> {
        let dtype = self.program.bufs[c.out].dtype;
        let index: Vec<Ex> = c.axes.iter().map(|&v| Ex::var(v, DType::I64)).collect();
        self.held.extend(index.iter().cloned());
        let value = match &c.reduce {
            None => self.vector(&c.value)?,
            Some(reduce) => {
                let ty: Type = self
                    .parts_type(dtype)
                    .ok_or_else(|| Unsupported("this reduction in vectors".into()))?;
                let start = self.neutral(reduce.combiner, dtype);
                let start = self.parts(&Vector::Same(start), ty);
                let acc: Vec<_> = (start.iter())
                    .map(|&s| {
                        let v = self.b.declare_var(ty);
                        self.b.def_var(v, s);
                        v
                    })
                    .collect();
                self.loops(&reduce.axes, &mut |k| {
                    let v = k.vector(&c.value)?;
                    let sum = acc.iter().map(|&a| k.b.use_var(a)).collect();
                    let op = reduce.combiner.op();
                    let next = k.vector_binary(op, dtype, &Vector::Parts(sum), &v)?;
                    let next = k.parts(&next, ty);
                    for (&a, n) in acc.iter().zip(next) {
                        k.b.def_var(a, n);
                    }
                    Ok(())
                })?;
                Vector::Parts(acc.iter().map(|&a| self.b.use_var(a)).collect())
            }
        };
        self.vector_store(c.out, &index, &value)
    }

    pub(super) fn vector_stmts(&mut self, stmts: &[Stmt]) -> Result<()> {
        for s in stmts {
            self.vector_stmt(s)?;
        }
        Ok(())
    }

    fn vector_nested(&mut self, stmts: &[Stmt]) -> Result<()> {
        self.push_memo();
        let result = self.vector_stmts(stmts);
        self.pop_memo();
        result
    }

    fn vector_stmt(&mut self, s: &Stmt) -> Result<()> {
        match s {
            Stmt::Store { buf, index, value } => {
                let v = self.vector(value)?;
                self.vector_store(*buf, index, &v)
            }
            Stmt::Let { var, value } if self.differs(value) => {
                let v = self.vector(value)?;
                self.group
                    .as_mut()
                    .expect("in a vector loop")
                    .lets
                    .insert(*var, v);
                Ok(())
            }
            Stmt::If {
                cond,
                then,
                otherwise: _,
            } if self.differs(cond) => {
                self.in_all_lanes(cond)?;
                self.vector_nested(then)
            }
            Stmt::Assert { cond, .. } if self.differs(cond) => self.in_all_lanes(cond),
            Stmt::Assert { cond, .. } => {
                let holds = self.eval(cond)?;
                self.all_or_one_by_one(holds);
                Ok(())
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                let c = self.eval(cond)?;
                self.two_ways(c, &mut |k| k.vector_nested(then), &mut |k| {
                    k.vector_nested(otherwise)
                })
            }
            Stmt::Init { over, body } => {
                let first = self.at_start(over);
                self.two_ways(first, &mut |k| k.vector_nested(body), &mut |_| Ok(()))
            }
            // Statements uniform across lanes are emitted as in a scalar loop.
            _ => self.stmt(s, &mut Vec::new()),
        }
    }

    /// Continues only where a condition holds in all lanes.
    fn in_all_lanes(&mut self, cond: &Ex) -> Result<()> {
        let lanes = self.each(&mut |k, _| k.eval(cond))?;
        let mut all = lanes[0];
        for &l in &lanes[1..] {
            all = self.b.ins().band(all, l);
        }
        self.all_or_one_by_one(all);
        Ok(())
    }
}
