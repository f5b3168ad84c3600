//! The accesses of statements to elements of buffers: stores and loads.

use crate::rewrite::visit_stmts_mut;
use crate::{Buf, Ex, ExKind, Stmt, map_expr, statements, visit_expr};

/// Visits every access of a block to an element of a buffer, stores and loads.
pub(crate) fn visit_accesses(block: &[Stmt], mut see: impl FnMut(Buf, &[Ex])) {
    for s in statements(block) {
        if let Stmt::Store { buf, index, .. } = s {
            see(*buf, index);
        }
        for e in s.exprs() {
            visit_expr(e, |e| {
                if let ExKind::Load(buf, index) = e.kind() {
                    see(*buf, index);
                }
            });
        }
    }
}

/// Moves the accesses of a block to other elements, where `loads` and `stores` name these.
pub(crate) fn move_accesses(
    block: &mut [Stmt],
    loads: impl Fn(Buf, &[Ex]) -> Option<(Buf, Vec<Ex>)>,
    stores: impl Fn(Buf, &[Ex]) -> Option<(Buf, Vec<Ex>)>,
) {
    visit_stmts_mut(block, &mut |s| {
        for e in s.exprs_mut() {
            *e = map_expr(e, |e| match e.kind() {
                ExKind::Load(buf, index) => {
                    let (buf, index) = loads(*buf, index)?;
                    Some(Ex::new(ExKind::Load(buf, index), e.dtype()))
                }
                _ => None,
            });
        }
        if let Stmt::Store { buf, index, .. } = s
            && let Some(to) = stores(*buf, index)
        {
            (*buf, *index) = to;
        }
    });
}
