//! Run-time checks of values whose static types are imprecise: kind, rank, element type, extents.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, types};
use relax_base::Symbol;
use relax_loops::Ex;
use relax_lower::described::Described;
use relax_lower::lir::{self, Reg};
use relax_runtime::abi;
use relax_runtime::context::Status;
use relax_runtime::object::Kind;
use relax_tensor::DType;

use super::Emit;
use super::objects::at;
use crate::described;
use crate::kernel::dl_dtype;
use crate::scalar::words;

const KIND_TENSOR: i64 = Kind::Tensor as i64;
const KIND_TUPLE: i64 = Kind::Tuple as i64;
const KIND_ADT: i64 = Kind::Adt as i64;
const KIND_SHAPE: i64 = Kind::Shape as i64;
const ERR_SHAPE: i64 = Status::Shape as i64;
const ERR_DTYPE: i64 = Status::Dtype as i64;

impl Emit<'_, '_, '_, '_> {
    /// The kind of a value.
    fn kind(&mut self, v: Value) -> Value {
        let flags = MemFlagsData::trusted();
        self.b.ins().uload8(types::I32, flags, v, at::KIND)
    }

    /// Returns whether a value is a tensor (else a shape), and its rank.
    fn rank_of(&mut self, v: Value) -> (Value, Value) {
        let kind = self.kind(v);
        let is_tensor = self.b.ins().icmp_imm_s(IntCC::Equal, kind, KIND_TENSOR);
        let ndim = self.load32(v, at::NDIM);
        let count = self.load32(v, at::COUNT);
        (is_tensor, self.b.ins().select(is_tensor, ndim, count))
    }

    /// An extent of a tensor, or a number of a shape.
    pub(super) fn extent(&mut self, src: Reg, axis: u32) -> Value {
        let v = self.reg(src);
        if let Some(&base) = self.shapes.get(&v) {
            return self.load(base, 8 * axis as i32);
        }
        let kind = self.kind(v);
        let is_tensor = self.b.ins().icmp_imm_s(IntCC::Equal, kind, KIND_TENSOR);
        let [tensor, shape, done] = [(); 3].map(|()| self.b.create_block());
        let base = self.b.append_block_param(done, types::I64);
        self.b.ins().brif(is_tensor, tensor, &[], shape, &[]);
        self.b.switch_to_block(tensor);
        let dims = self.load(v, at::SHAPE);
        self.b.ins().jump(done, &[BlockArg::Value(dims)]);
        self.b.switch_to_block(shape);
        let dims = self.b.ins().iadd_imm_s(v, i64::from(at::FIELDS));
        self.b.ins().jump(done, &[BlockArg::Value(dims)]);
        self.b.switch_to_block(done);
        self.shapes.insert(v, base);
        self.load(base, 8 * axis as i32)
    }

    /// Fails unless a tensor or a shape has this rank, and a tensor this element type.
    pub(super) fn check_tensor(
        &mut self,
        src: Reg,
        rank: Option<u32>,
        dtype: Option<DType>,
        place: Symbol,
    ) {
        let v = self.reg(src);
        if let Some(rank) = rank {
            let (_, found) = self.rank_of(v);
            let same = self
                .b
                .ins()
                .icmp_imm_s(IntCC::Equal, found, i64::from(rank));
            self.require(same, |e| {
                let wide = e.b.ins().sextend(types::I64, found);
                let expected = e.b.ins().iconst(types::I64, i64::from(rank));
                let (place, what) = (e.text(place.as_str()), e.text("the rank"));
                e.call(abi::rx_fail_dim, &[e.ctx, place, what, expected, wide]);
            });
        }
        if let Some(dtype) = dtype {
            let found = self.load32(v, at::DTYPE);
            let same = self
                .b
                .ins()
                .icmp_imm_s(IntCC::Equal, found, dl_dtype(dtype));
            self.require(same, |e| {
                let status = e.int32(ERR_DTYPE);
                let what = e.text(&format!("the element type is not {dtype}"));
                let place = e.text(place.as_str());
                e.call(abi::rx_fail, &[e.ctx, status, place, what]);
            });
        }
    }

    /// Fails unless a value is of this kind.
    pub(super) fn check_kind(&mut self, src: Reg, kind: lir::Kind, place: Symbol) {
        let v = self.reg(src);
        let found = self.kind(v);
        let (code, fields, what) = match kind {
            lir::Kind::Tensor => (KIND_TENSOR, None, "is no tensor".to_owned()),
            lir::Kind::Shape => (KIND_SHAPE, None, "is no shape".to_owned()),
            lir::Kind::Adt => (KIND_ADT, None, "is no instance of a data type".to_owned()),
            lir::Kind::Tuple(n) => (KIND_TUPLE, Some(n), format!("is no tuple of {n} fields")),
        };
        let mut fine = self.b.ins().icmp_imm_s(IntCC::Equal, found, code);
        if let Some(n) = fields {
            let count = self.load32(v, at::COUNT);
            let same = self.b.ins().icmp_imm_s(IntCC::Equal, count, i64::from(n));
            fine = self.b.ins().band(fine, same);
        }
        self.require(fine, |e| {
            let status = e.int32(ERR_DTYPE);
            let (place, what) = (e.text(place.as_str()), e.text(&what));
            e.call(abi::rx_fail, &[e.ctx, status, place, what]);
        });
    }

    /// Fails unless a value matches a description, part by part.
    pub(super) fn check_value(&mut self, src: Reg, described: &Described, place: Symbol) {
        let v = self.reg(src);
        let words = described::data(self.env, described);
        let (words, place) = (self.object(words), self.text(place.as_str()));
        let status = self.value_of(abi::rx_check_value, &[self.ctx, v, words, place]);
        self.checked_status(status);
    }

    /// Fails unless two extents are equal, or, with `or_one`, one of them is 1.
    pub(super) fn check_dims(
        &mut self,
        (a, b): (&Ex, &Ex),
        or_one: bool,
        place: Symbol,
        message: Symbol,
    ) {
        let (a, b) = (self.dim(a), self.dim(b));
        let mut fine = self.b.ins().icmp(IntCC::Equal, a, b);
        if or_one {
            let least = self.b.ins().smin(a, b);
            let one = self.b.ins().icmp_imm_s(IntCC::Equal, least, 1);
            fine = self.b.ins().bor(fine, one);
        }
        self.require(fine, |e| {
            let (place, text) = (e.text(place.as_str()), e.text(message.as_str()));
            let (status, values, n) = (e.int32(ERR_SHAPE), words(e.b, &[a, b]), e.int32(2));
            e.call(
                abi::rx_fail_values,
                &[e.ctx, status, place, text, values, n],
            );
        });
    }
}
