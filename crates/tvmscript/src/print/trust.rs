//! Decides whether TVM's semantics of a Relax operator equals that of Relay's: if not, a tensor
//! program is called instead.

use relax_ir::{Attrs, ExprId, TypeId};
use relax_ops::call_requirements::fits_relax;
use relax_ops::{Fusion, OpDef};
use relax_sym::Dim;

use super::Printer;

impl Printer<'_> {
    /// Returns whether TVM computes Relay's result with these operands.
    pub(super) fn computes(
        &mut self,
        e: ExprId,
        def: &OpDef,
        args: &[ExprId],
        attrs: &Attrs,
    ) -> bool {
        let open = def.fusion == Fusion::Broadcast && self.may_broadcast(e, args);
        let empty = def.fusion == Fusion::Reduction && args.iter().any(|&a| self.is_empty(a));
        !open && !empty && !self.chooses(e) && self.takes(def, args, attrs)
    }

    /// Returns the extents of a tensor, if they are known.
    fn extents(&self, e: ExprId) -> Option<&[Dim]> {
        let ty = self.types?.expr(e)?;
        self.m.types.as_tensor(ty)?.shape.dims()
    }

    /// Returns whether the extent of a tensor along an axis is known; true if it has no such axis.
    pub(super) fn knows_extent(&self, e: ExprId, axis: i64) -> bool {
        let dims = self.extents(e).unwrap_or_default();
        let axis = if axis < 0 {
            axis + dims.len() as i64
        } else {
            axis
        };
        let dim = usize::try_from(axis).ok().and_then(|k| dims.get(k));
        dim.is_none_or(|d| d.as_const().is_some())
    }

    /// Returns whether the extents of a tensor of known rank are known.
    pub(super) fn knows_extents(&self, e: ExprId) -> bool {
        let dims = self.extents(e).unwrap_or_default();
        dims.iter().all(|d| d.as_const().is_some())
    }

    /// Returns whether a tensor has no elements: TVM does not initialise a reduction over nothing.
    fn is_empty(&self, e: ExprId) -> bool {
        let dims = self.extents(e).unwrap_or_default();
        dims.iter().any(|d| d.as_const() == Some(0))
    }

    /// Returns whether an unknown extent is either 1 or that of the result: TVM assumes that of the
    /// result.
    fn may_broadcast(&self, e: ExprId, args: &[ExprId]) -> bool {
        let Some(out) = self.extents(e) else {
            return false;
        };
        args.iter().any(|&a| {
            let own = self.extents(a).unwrap_or_default();
            let mut pairs = own.iter().rev().zip(out.iter().rev());
            pairs.any(|(d, whole)| d.as_const().is_none() && whole.as_const().is_some())
        })
    }

    /// Returns whether Relax accepts these operands, which Relay accepts.
    fn takes(&self, def: &OpDef, args: &[ExprId], attrs: &Attrs) -> bool {
        let types = args.iter().map(|&a| self.types.and_then(|t| t.expr(a)));
        let types: Option<Vec<TypeId>> = types.collect();
        types.is_none_or(|types| fits_relax(def, &self.m.types, &types, attrs))
    }

    /// Returns whether an extent of a result is the maximum or the minimum of others: where TVM
    /// cannot decide, it assumes that broadcast extents are equal.
    fn chooses(&mut self, e: ExprId) -> bool {
        let Some(ty) = self.types.and_then(|t| t.expr(e)) else {
            return false;
        };
        let tensors = self.m.types.leaves(ty);
        let tensors = tensors
            .into_iter()
            .filter_map(|t| self.m.types.as_tensor(t));
        let dims = tensors.filter_map(|t| t.shape.dims()).flatten();
        let mut open = dims.filter(|d| d.as_const().is_none() && d.as_atom().is_none());
        open.any(super::types::chooses)
    }
}
