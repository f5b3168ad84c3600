//! Arrays that others hold, as slices.

/// Returns elements as a slice; an empty one for null.
///
/// # Safety
/// `first` is null or has `count` elements, if that is more than 0, which outlive the result.
#[inline]
pub(crate) unsafe fn slice<'a, T>(first: *const T, count: impl TryInto<usize>) -> &'a [T] {
    let count = count.try_into().unwrap_or(0);
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: not null, and has `count` elements by the contract.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// As [`slice`], for elements that are written.
///
/// # Safety
/// As for [`slice`], and nobody else reads or writes the elements meanwhile.
#[inline]
pub(crate) unsafe fn slice_mut<'a, T>(first: *mut T, count: impl TryInto<usize>) -> &'a mut [T] {
    let count = count.try_into().unwrap_or(0);
    if count == 0 || first.is_null() {
        return &mut [];
    }
    // SAFETY: not null, and has `count` elements of its own by the contract.
    unsafe { std::slice::from_raw_parts_mut(first, count) }
}
