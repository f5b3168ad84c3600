//! Values of the lanes of a vector loop, and the operations on them.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_codegen::isa::TargetIsa;
use relax_loops::{BinOp, Ex, ExKind, UnOp};
use relax_tensor::{DType, TypeCode};

use super::{Kernel, Result, Unsupported};
use crate::scalar::{instruction, register, takes_first};

/// The values of all lanes.
#[derive(Clone, Debug)]
pub(super) enum Vector {
    /// The same value in all lanes.
    Same(Value),
    /// One register per lane.
    Each(Vec<Value>),
    /// Vectors of 16 bytes, in order.
    Parts(Vec<Value>),
    /// For `bool`: vectors in which a lane is all ones or all zeros.
    Mask(Vec<Value>),
}

/// Returns the vector type of 16 bytes of an element type, if it has operations.
pub(super) fn vector_type(dtype: DType) -> Option<Type> {
    let exact = usize::from(dtype.bits) == 8 * dtype.size() && dtype.lanes == 1;
    Some(match (dtype.code, dtype.size()) {
        (TypeCode::Float, 4) => types::F32X4,
        (TypeCode::Float, 8) => types::F64X2,
        (TypeCode::Float | TypeCode::BFloat, _) => return None,
        (_, 1) if exact => types::I8X16,
        (_, 2) if exact => types::I16X8,
        (_, 4) if exact => types::I32X4,
        (_, 8) if exact => types::I64X2,
        _ => return None,
    })
}

/// The work list of [`Kernel::vector`].
enum Work<'e> {
    Visit(&'e Ex),
    Emit(&'e Ex),
}

fn on(isa: &dyn TargetIsa, flag: &str) -> bool {
    let flags = isa.isa_flags();
    flags
        .iter()
        .any(|f| f.name == flag && f.as_bool() == Some(true))
}

impl Kernel<'_, '_, '_> {
    /// Returns whether the target has vectors of 16 bytes.
    pub(super) fn has_vectors(&self) -> bool {
        let isa = self.env.module.isa();
        matches!(isa.name(), "x64" | "aarch64")
    }

    /// Returns whether the target can round vectors to integers.
    fn rounds(&self) -> bool {
        let isa = self.env.module.isa();
        isa.name() != "x64" || on(isa, "has_sse41")
    }

    /// Returns the type of the vectors that hold the lanes' elements, if these fill whole ones.
    pub(super) fn parts_type(&self, dtype: DType) -> Option<Type> {
        let full = (self.group().width * dtype.size()).is_multiple_of(16);
        vector_type(dtype).filter(|_| full)
    }

    pub(super) fn wide_unary(&self, op: UnOp, dtype: DType) -> bool {
        if dtype.is_bool() {
            return op == UnOp::Not;
        }
        if vector_type(dtype).is_none() {
            return false;
        }
        match op {
            UnOp::Neg | UnOp::Abs => true,
            UnOp::Not => !dtype.is_float(),
            UnOp::Sqrt | UnOp::Rsqrt | UnOp::IsNan => dtype.is_float(),
            UnOp::Floor | UnOp::Ceil | UnOp::Trunc | UnOp::RoundEven => {
                dtype.is_float() && self.rounds()
            }
            _ => false,
        }
    }

    pub(super) fn wide_binary(&self, op: BinOp, dtype: DType) -> bool {
        if dtype.is_bool() {
            return matches!(op, BinOp::And | BinOp::Or | BinOp::Xor);
        }
        if vector_type(dtype).is_none() {
            return false;
        }
        let (float, size) = (dtype.is_float(), dtype.size());
        match op {
            BinOp::Add | BinOp::Sub => true,
            BinOp::Mul => float || size > 1,
            BinOp::Div => float,
            BinOp::Min | BinOp::Max => float || size < 8,
            BinOp::And | BinOp::Or | BinOp::Xor => !float,
            BinOp::Eq | BinOp::Ne => true,
            _ if op.is_comparison() => float || size < 8,
            _ => false,
        }
    }

    pub(super) fn wide_cast(&self, from: DType, to: DType) -> bool {
        let (f, t) = (from.size(), to.size());
        if to.is_bool() {
            return vector_type(from).is_some();
        }
        if vector_type(to).is_none() {
            return false;
        }
        if from.is_bool() {
            return true;
        }
        if vector_type(from).is_none() {
            return false;
        }
        match (from.is_float(), to.is_float()) {
            (true, true) => f == t,
            (false, false) => t >= f,
            _ => f == 4 && t == 4,
        }
    }

    /// Returns the values of an expression in all lanes; like [`Kernel::eval`], with a work list.
    pub(super) fn vector(&mut self, root: &Ex) -> Result<Vector> {
        let mut work = vec![Work::Visit(root)];
        while let Some(step) = work.pop() {
            match step {
                Work::Visit(e) => {
                    if self.vector_known(e).is_some() {
                        continue;
                    }
                    let found = if !self.differs(e) {
                        Vector::Same(self.eval(e)?)
                    } else {
                        match e.kind() {
                            ExKind::Load(buf, index) => self.vector_load(e, *buf, index)?,
                            ExKind::Select(c, a, b) if !(self.harmless(a) && self.harmless(b)) => {
                                match self.parts_type(e.dtype()) {
                                    Some(ty) if !self.differs(c) => self.either(c, [a, b], ty)?,
                                    _ => Vector::Each(self.each(&mut |k, _| k.eval(e))?),
                                }
                            }
                            _ => {
                                work.push(Work::Emit(e));
                                work.extend(e.children().map(Work::Visit));
                                continue;
                            }
                        }
                    };
                    self.vector_remember(e, found);
                }
                Work::Emit(e) => {
                    if self.vector_known(e).is_none() {
                        let v = self.vector_node(e)?;
                        self.vector_remember(e, v);
                    }
                }
            }
        }
        Ok(self.vector_known(root).expect("just evaluated"))
    }

    fn vector_known(&self, e: &Ex) -> Option<Vector> {
        let memo = &self.group().memo;
        memo.iter().rev().find_map(|l| l.get(&e.addr())).cloned()
    }

    fn vector_remember(&mut self, e: &Ex, v: Vector) {
        let group = self.group.as_mut().expect("in a vector loop");
        if let Some(layer) = group.memo.last_mut() {
            layer.insert(e.addr(), v);
        }
    }

    /// Evaluates one node that varies between lanes; its children are known.
    fn vector_node(&mut self, e: &Ex) -> Result<Vector> {
        let get = |k: &Self, e: &Ex| k.vector_known(e).expect("children first");
        let to = e.dtype();
        match e.kind() {
            ExKind::Var(v) => match self.group().lets.get(v) {
                Some(x) => Ok(x.clone()),
                None => {
                    let (base, width) = (self.group().base, self.group().width);
                    let lane = |k| self.b.ins().iadd_imm_s(base, k as i64);
                    Ok(Vector::Each((0..width).map(lane).collect()))
                }
            },
            ExKind::Unary(op, a) => {
                let (dtype, v) = (a.dtype(), get(self, a));
                if self.wide_unary(*op, dtype)
                    && let Some(wide) = self.unary_parts(*op, dtype, &v)
                {
                    return Ok(wide);
                }
                let mut lanes = self.lane_values(&v, dtype);
                for x in &mut lanes {
                    let r = self.scalars().unary(*op, dtype, *x);
                    *x = r.ok_or_else(|| Unsupported(format!("{op:?} of {dtype}")))?;
                }
                Ok(Vector::Each(lanes))
            }
            ExKind::Binary(op, a, b) => {
                let (x, y) = (get(self, a), get(self, b));
                self.vector_binary(*op, a.dtype(), &x, &y)
            }
            ExKind::Select(c, a, b) => {
                let (c, x, y) = (get(self, c), get(self, a), get(self, b));
                if let Some(ty) = self.parts_type(to) {
                    let mask = self.mask(&c, ty.as_truthy());
                    let (x, y) = (self.parts(&x, ty), self.parts(&y, ty));
                    let pick = |k: &mut Self, i: usize| k.pick(ty, mask[i], x[i], y[i]);
                    return Ok(Vector::Parts((0..x.len()).map(|i| pick(self, i)).collect()));
                }
                let c = self.lane_values(&c, DType::BOOL);
                let (x, y) = (self.lane_values(&x, to), self.lane_values(&y, to));
                let pick = |i: usize| self.b.ins().select(c[i], x[i], y[i]);
                Ok(Vector::Each((0..x.len()).map(pick).collect()))
            }
            ExKind::Cast(a) => {
                let (from, v) = (a.dtype(), get(self, a));
                if self.wide_cast(from, to)
                    && let Some(wide) = self.cast_parts(from, to, &v)
                {
                    return Ok(wide);
                }
                let mut lanes = self.lane_values(&v, from);
                for x in &mut lanes {
                    *x = self.scalars().cast(from, to, *x);
                }
                Ok(Vector::Each(lanes))
            }
            ExKind::Reinterpret(a) => {
                let v = get(self, a);
                let mut lanes = self.lane_values(&v, a.dtype());
                for x in &mut lanes {
                    *x = self.scalars().reinterpret(a, e, *x)?;
                }
                Ok(Vector::Each(lanes))
            }
            ExKind::Int(_) | ExKind::Float(_) | ExKind::Load(..) => {
                unreachable!("handled where it is visited")
            }
        }
    }

    pub(super) fn vector_binary(
        &mut self,
        op: BinOp,
        dtype: DType,
        a: &Vector,
        b: &Vector,
    ) -> Result<Vector> {
        if self.wide_binary(op, dtype)
            && let Some(wide) = self.binary_parts(op, dtype, a, b)
        {
            return Ok(wide);
        }
        let (x, y) = (self.lane_values(a, dtype), self.lane_values(b, dtype));
        let mut lanes = Vec::with_capacity(x.len());
        for (x, y) in x.into_iter().zip(y) {
            let r = self.scalars().binary(op, dtype, x, y);
            lanes.push(r.ok_or_else(|| Unsupported(format!("{op:?} of {dtype}")))?);
        }
        Ok(Vector::Each(lanes))
    }

    /// The lanes' values, one register each.
    pub(super) fn lane_values(&mut self, v: &Vector, dtype: DType) -> Vec<Value> {
        match v {
            Vector::Same(x) => vec![*x; self.group().width],
            Vector::Each(lanes) => lanes.clone(),
            Vector::Parts(parts) => {
                let count = (16 / register(dtype).bytes()) as u8;
                let mut lanes = Vec::with_capacity(self.group().width);
                for &p in parts {
                    lanes.extend((0..count).map(|l| self.b.ins().extractlane(p, l)));
                }
                lanes
            }
            Vector::Mask(parts) => {
                let mut lanes = Vec::with_capacity(self.group().width);
                for &p in parts {
                    let count = self.b.func.dfg.value_type(p).lane_count() as u8;
                    for l in 0..count {
                        let bits = self.b.ins().extractlane(p, l);
                        lanes.push(self.b.ins().icmp_imm_s(IntCC::NotEqual, bits, 0));
                    }
                }
                lanes
            }
        }
    }

    /// The lanes' values in vectors of type `ty`.
    pub(super) fn parts(&mut self, v: &Vector, ty: Type) -> Vec<Value> {
        let count = self.group().width / ty.lane_count() as usize;
        match v {
            Vector::Parts(parts) => parts.clone(),
            Vector::Same(x) => {
                let all = self.b.ins().splat(ty, *x);
                vec![all; count]
            }
            Vector::Each(lanes) => self.packed(lanes, ty),
            Vector::Mask(_) => unreachable!("a mask is no number"),
        }
    }

    fn packed(&mut self, lanes: &[Value], ty: Type) -> Vec<Value> {
        (lanes.chunks(ty.lane_count() as usize))
            .map(|lanes| {
                let mut part = self.b.ins().splat(ty, lanes[0]);
                for (l, &x) in lanes.iter().enumerate().skip(1) {
                    part = self.b.ins().insertlane(part, x, l as u8);
                }
                part
            })
            .collect()
    }

    /// `bool` lanes as masks whose lanes are those of `ty`.
    fn mask(&mut self, v: &Vector, ty: Type) -> Vec<Value> {
        if let Vector::Mask(parts) = v
            && self.b.func.dfg.value_type(parts[0]) == ty
        {
            return parts.clone();
        }
        let lane = ty.lane_type();
        let ones = |k: &mut Self, x: Value| {
            let wide = if lane == types::I8 {
                x
            } else {
                k.b.ins().uextend(lane, x)
            };
            k.b.ins().ineg(wide)
        };
        if let Vector::Same(x) = v {
            let x = ones(self, *x);
            return self.parts(&Vector::Same(x), ty);
        }
        let lanes = self.lane_values(v, DType::BOOL);
        let lanes: Vec<Value> = lanes.into_iter().map(|x| ones(self, x)).collect();
        self.packed(&lanes, ty)
    }

    fn pick(&mut self, ty: Type, mask: Value, x: Value, y: Value) -> Value {
        let mask = if ty == ty.as_truthy() {
            mask
        } else {
            let flags = MemFlagsData::new().with_endianness(Endianness::Little);
            self.b.ins().bitcast(ty, flags, mask)
        };
        self.b.ins().bitselect(mask, x, y)
    }

    pub(super) fn load_lanes(&mut self, dtype: DType, address: Value) -> Vector {
        let flags = MemFlagsData::new().with_notrap();
        let width = self.group().width;
        if let Some(ty) = self.parts_type(dtype) {
            let count = width / ty.lane_count() as usize;
            let load = |k: usize| self.b.ins().load(ty, flags, address, 16 * k as i32);
            return Vector::Parts((0..count).map(load).collect());
        }
        if dtype.is_bool() && width.is_multiple_of(16) {
            let mut parts = Vec::with_capacity(width / 16);
            for k in 0..width / 16 {
                let bytes = self
                    .b
                    .ins()
                    .load(types::I8X16, flags, address, 16 * k as i32);
                let zero = self.zeros(types::I8X16);
                parts.push(self.b.ins().icmp(IntCC::NotEqual, bytes, zero));
            }
            return Vector::Mask(parts);
        }
        let size = dtype.size() as i64;
        let mut lanes = Vec::with_capacity(width);
        for k in 0..width as i64 {
            let at = self.b.ins().iadd_imm_s(address, k * size);
            lanes.push(self.scalars().load(dtype, at));
        }
        Vector::Each(lanes)
    }

    pub(super) fn store_lanes(&mut self, dtype: DType, v: &Vector, address: Value) {
        let flags = MemFlagsData::new().with_notrap();
        let parts = match (v, self.parts_type(dtype)) {
            (_, Some(ty)) if !dtype.is_bool() => Some(self.parts(v, ty)),
            (Vector::Mask(parts), _) => self.bytes(parts),
            _ => None,
        };
        if let Some(parts) = parts {
            for (k, p) in parts.into_iter().enumerate() {
                self.b.ins().store(flags, p, address, 16 * k as i32);
            }
            return;
        }
        let size = dtype.size() as i64;
        for (k, x) in self.lane_values(v, dtype).into_iter().enumerate() {
            let at = self.b.ins().iadd_imm_s(address, k as i64 * size);
            self.scalars().store(dtype, x, at);
        }
    }

    /// Masks as bytes of 0 and 1.
    fn bytes(&mut self, parts: &[Value]) -> Option<Vec<Value>> {
        let mut parts = parts.to_vec();
        loop {
            let ty = self.b.func.dfg.value_type(parts[0]);
            match ty.lane_bits() {
                8 => break,
                64 => return None,
                _ if !parts.len().is_multiple_of(2) => return None,
                _ => {
                    // All ones and all zeros are preserved.
                    parts = (parts.chunks(2))
                        .map(|p| self.b.ins().snarrow(p[0], p[1]))
                        .collect();
                }
            }
        }
        let one = self.b.ins().iconst(types::I8, 1);
        let ones = self.b.ins().splat(types::I8X16, one);
        Some(
            parts
                .into_iter()
                .map(|p| self.b.ins().band(p, ones))
                .collect(),
        )
    }

    fn zeros(&mut self, ty: Type) -> Value {
        let lane = ty.lane_type();
        let zero = match lane {
            types::F32 => self.b.ins().f32const(0.0),
            types::F64 => self.b.ins().f64const(0.0),
            _ => self.b.ins().iconst(lane, 0),
        };
        self.b.ins().splat(ty, zero)
    }

    fn unary_parts(&mut self, op: UnOp, dtype: DType, v: &Vector) -> Option<Vector> {
        if let (UnOp::Not, Vector::Mask(parts)) = (op, v) {
            let not = |&p: &Value| self.b.ins().bnot(p);
            return Some(Vector::Mask(parts.iter().map(not).collect()));
        }
        let ty = self.parts_type(dtype).filter(|_| !dtype.is_bool())?;
        let float = dtype.is_float();
        let mut parts = self.parts(v, ty);
        for p in &mut parts {
            let x = *p;
            *p = match op {
                UnOp::Neg if float => self.b.ins().fneg(x),
                UnOp::Neg => self.b.ins().ineg(x),
                UnOp::Abs if float => self.b.ins().fabs(x),
                UnOp::Abs if dtype.is_int() => self.b.ins().iabs(x),
                UnOp::Abs => x,
                UnOp::Not => self.b.ins().bnot(x),
                UnOp::Sqrt => self.b.ins().sqrt(x),
                UnOp::Rsqrt => {
                    let root = self.b.ins().sqrt(x);
                    let one = self.scalars().float(dtype, 1.0);
                    let one = self.b.ins().splat(ty, one);
                    self.b.ins().fdiv(one, root)
                }
                UnOp::Floor => self.b.ins().floor(x),
                UnOp::Ceil => self.b.ins().ceil(x),
                UnOp::Trunc => self.b.ins().trunc(x),
                UnOp::RoundEven => self.b.ins().nearest(x),
                UnOp::IsNan => self.b.ins().fcmp(FloatCC::Unordered, x, x),
                _ => return None,
            };
        }
        Some(if op == UnOp::IsNan {
            Vector::Mask(parts)
        } else {
            Vector::Parts(parts)
        })
    }

    fn binary_parts(&mut self, op: BinOp, dtype: DType, a: &Vector, b: &Vector) -> Option<Vector> {
        if dtype.is_bool() {
            let ((Vector::Mask(m), _) | (_, Vector::Mask(m))) = (a, b) else {
                return None;
            };
            let ty = self.b.func.dfg.value_type(m[0]);
            let (x, y) = (self.mask(a, ty), self.mask(b, ty));
            let join = |(&x, &y): (&Value, &Value)| match op {
                BinOp::And => self.b.ins().band(x, y),
                BinOp::Or => self.b.ins().bor(x, y),
                _ => self.b.ins().bxor(x, y),
            };
            return Some(Vector::Mask(x.iter().zip(&y).map(join).collect()));
        }
        let ty = self.parts_type(dtype)?;
        let (x, y) = (self.parts(a, ty), self.parts(b, ty));
        let mut out = Vec::with_capacity(x.len());
        for (&x, &y) in x.iter().zip(&y) {
            out.push(match op {
                BinOp::Min | BinOp::Max if dtype.is_float() => {
                    let first = takes_first(self.b, op, x, y);
                    self.pick(ty, first, x, y)
                }
                _ => instruction(self.b, op, dtype, x, y)?,
            });
        }
        Some(if op.is_comparison() {
            Vector::Mask(out)
        } else {
            Vector::Parts(out)
        })
    }

    fn cast_parts(&mut self, from: DType, to: DType, v: &Vector) -> Option<Vector> {
        if to.is_bool() {
            let ty = self.parts_type(from)?;
            let zero = self.zeros(ty);
            let mut parts = self.parts(v, ty);
            for p in &mut parts {
                *p = if from.is_float() {
                    self.b.ins().fcmp(FloatCC::NotEqual, *p, zero)
                } else {
                    self.b.ins().icmp(IntCC::NotEqual, *p, zero)
                };
            }
            return Some(Vector::Mask(parts));
        }
        let ty = self.parts_type(to)?;
        if from.is_bool() {
            let one = if to.is_float() {
                self.scalars().float(to, 1.0)
            } else {
                self.scalars().int(to, 1)
            };
            let (one, zero) = (self.b.ins().splat(ty, one), self.zeros(ty));
            let mask = self.mask(v, ty.as_truthy());
            let pick = |m: Value| self.pick(ty, m, one, zero);
            return Some(Vector::Parts(mask.into_iter().map(pick).collect()));
        }
        let source = self.parts_type(from)?;
        let mut parts = self.parts(v, source);
        let (signed_from, signed_to) = (from.is_int(), to.is_int());
        match (from.is_float(), to.is_float()) {
            (false, true) => {
                for p in &mut parts {
                    *p = if signed_from {
                        self.b.ins().fcvt_from_sint(ty, *p)
                    } else {
                        self.b.ins().fcvt_from_uint(ty, *p)
                    };
                }
            }
            (true, false) => {
                for p in &mut parts {
                    *p = if signed_to {
                        self.b.ins().fcvt_to_sint_sat(ty, *p)
                    } else {
                        self.b.ins().fcvt_to_uint_sat(ty, *p)
                    };
                }
            }
            (true, true) => {}
            (false, false) => {
                while self.b.func.dfg.value_type(parts[0]).lane_bits() < ty.lane_bits() {
                    let mut wider = Vec::with_capacity(2 * parts.len());
                    for p in parts {
                        wider.push(if signed_from {
                            self.b.ins().swiden_low(p)
                        } else {
                            self.b.ins().uwiden_low(p)
                        });
                        wider.push(if signed_from {
                            self.b.ins().swiden_high(p)
                        } else {
                            self.b.ins().uwiden_high(p)
                        });
                    }
                    parts = wider;
                }
            }
        }
        Some(Vector::Parts(parts))
    }
}
