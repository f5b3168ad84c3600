//! The extent that a kernel was not compiled for, among those that it was compiled for.

/// An extent in a table: the tensor (the number of an input, or -1 minus that of an output), the
/// axis, and the expected extent.
pub type Expected = [i64; 3];

/// Returns the first of the extents in a table that is another one, as `found` says of a tensor and
/// an axis: its number in the table, and the actual and the expected extent. Where none is, the
/// last; `None` for an empty table.
pub fn first_other(
    table: &[Expected],
    found: impl Fn(i64, i64) -> i64,
) -> Option<(usize, [i64; 2])> {
    let each = table
        .iter()
        .map(|&[tensor, axis, needed]| [found(tensor, axis), needed]);
    let mut numbered = each.enumerate();
    let mut last = None;
    numbered
        .find(|&(number, values)| {
            last = Some((number, values));
            values[0] != values[1]
        })
        .or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_extent_that_differs_is_found() {
        let extents = |tensor: i64, axis: i64| 10 * tensor + axis;
        let table = [[0, 3, 3], [1, 4, 15], [2, 0, 0]];
        assert_eq!(first_other(&table, extents), Some((1, [14, 15])));
        assert_eq!(first_other(&table[..1], extents), Some((0, [3, 3])));
        assert_eq!(first_other(&[], extents), None);
    }
}
