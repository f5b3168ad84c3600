//! Substitutes for the objects of a missing metadata section: attributes recovered from elsewhere,
//! and placeholder tensors.

use relax_base::{Span, Symbol};
use relax_ir::{AttrValue, Attrs, AttrsId, OpId};
use relax_ops::AttrTy;
use relax_tensor::Tensor;

use super::Resolver;
use super::attr_type::element_type;

impl Resolver<'_> {
    /// Recovers the attributes of an operator whose result type mirrors them (extents and element
    /// type) from the type comment after the call.
    pub(super) fn attrs_of_comment(&mut self, op: OpId, call: Span) -> Option<AttrsId> {
        let key = self.registry.get(op)?.shape_attr()?.name;
        let tensor = self.type_comment(call.end)?.to_owned();
        let ty = self.comment_type(&tensor)?;
        let tensor = self.module.types.as_tensor(ty)?;
        let (dims, dtype) = (tensor.shape.dims()?.to_vec(), tensor.dtype.known()?);
        let schema = self.schema(op);
        let attrs = schema.attrs.iter().map(|a| {
            let value = match a.ty {
                _ if a.name == key => AttrValue::array(dims.iter().cloned().map(AttrValue::dim)),
                AttrTy::DType => AttrValue::DType(dtype),
                _ => a.default.clone()?,
            };
            Some((a.name, value))
        });
        let attrs: Attrs = attrs.collect::<Option<Vec<_>>>()?.into_iter().collect();
        Some(self.module.make_attrs(attrs))
    }

    /// Recovers the attributes of an operator that carry only a name (the compiler of a region) if
    /// their section is missing: the reference itself serves as the name.
    pub(super) fn attrs_by_name(&mut self, op: OpId, key: Symbol, index: u32) -> Option<AttrsId> {
        let schema = self.schema(op);
        let mut named = false;
        let attrs = schema.attrs.iter().map(|a| {
            let value = match (a.ty, &a.default) {
                (_, Some(default)) => default.clone(),
                (AttrTy::Str, None) => {
                    named = true;
                    AttrValue::Str(format!("meta[{key}][{index}]").into())
                }
                _ => return None,
            };
            Some((a.name, value))
        });
        let attrs: Attrs = attrs.collect::<Option<Vec<_>>>()?.into_iter().collect();
        named.then(|| self.module.make_attrs(attrs))
    }
}

/// Creates a zero tensor of a type as printed in TVM's comments.
pub(super) fn stub(ty: &str) -> Option<Tensor> {
    let Some(inside) = ty.strip_prefix("Tensor[(") else {
        return Some(Tensor::zeros(element_type(ty)?, &[]));
    };
    let (dims, dtype) = inside.strip_suffix(']')?.split_once(')')?;
    let dtype = element_type(dtype.trim_start_matches(',').trim())?;
    let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
    let shape: Vec<i64> = dims.map(|d| d.parse().ok()).collect::<Option<_>>()?;
    Tensor::byte_len(dtype, &shape).filter(|&len| len < 1 << 32)?;
    Some(Tensor::zeros(dtype, &shape))
}

/// Fills a tensor with small random numbers, determined by the seed and the constant's index.
pub(super) fn fill(t: &mut Tensor, seed: u64, index: u32) {
    let mut state = seed ^ (u64::from(index) << 32) ^ 0x9E37_79B9_7F4A_7C15;
    let mut next = || {
        // splitmix64
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let dtype = t.dtype();
    for i in 0..t.len() {
        let bits = next();
        if dtype.is_float() {
            t.set_f64(i, (bits >> 11) as f64 / (1u64 << 53) as f64 * 0.2 - 0.1);
        } else {
            t.set_i64(i, i64::from(bits & 1 != 0));
        }
    }
}
