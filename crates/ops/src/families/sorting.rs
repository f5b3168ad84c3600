//! Sorting inside loop nests.

use relax_loops::{Ex, Nest, TensorRef};
use relax_tensor::DType;

/// Returns a local vector of `capacity` indices whose first `len` are `0..len`, stably sorted:
/// `before(a, b)` tells whether index `a` must precede index `b`. Bottom-up merge sort:
/// `len * log(len)` steps.
pub(super) fn stable_order(
    n: &mut Nest<'_>,
    len: &Ex,
    capacity: &Ex,
    before: impl Fn(&Ex, &Ex) -> Ex,
) -> TensorRef {
    let order = n.local("order", DType::I64, std::slice::from_ref(capacity));
    let merged = n.local("merged", DType::I64, std::slice::from_ref(capacity));
    n.for_(len.clone(), |n, i| {
        n.store(&order, std::slice::from_ref(i), i)
    });
    let width = n.cell(Ex::idx(1));
    let low = n.cell(Ex::idx(0));
    let (left, right) = (n.cell(Ex::idx(0)), n.cell(Ex::idx(0)));
    n.while_(width.scalar().lt(len), |n| {
        n.set(&low, 0i64);
        n.while_(low.scalar().lt(len), |n| {
            let from = n.let_(low.scalar());
            let middle = n.let_((&from + &width.scalar()).min(len));
            let end = n.let_((&middle + &width.scalar()).min(len));
            n.set(&left, &from);
            n.set(&right, &middle);
            n.for_(&end - &from, |n, k| {
                let (l, r) = (left.scalar(), right.scalar());
                let earlier = before(
                    &order.at(std::slice::from_ref(&r)),
                    &order.at(std::slice::from_ref(&l)),
                );
                let some = Ex::where_(&r.lt(&end), &earlier, &Ex::bool(false));
                let take_right = Ex::where_(&l.ge(&middle), &Ex::bool(true), &some);
                let at = [&from + k];
                n.if_else(
                    take_right,
                    |n| {
                        n.store(&merged, &at, order.at(std::slice::from_ref(&r)));
                        n.set(&right, &r + 1);
                    },
                    |n| {
                        n.store(&merged, &at, order.at(std::slice::from_ref(&l)));
                        n.set(&left, &l + 1);
                    },
                );
            });
            n.set(&low, end);
        });
        n.for_(len.clone(), |n, i| {
            let at = std::slice::from_ref(i);
            n.store(&order, at, merged.at(at));
        });
        n.set(&width, width.scalar() * 2);
    });
    order
}
