//! Index maps: TVM's notation for transforming a tensor from one layout to another.

use relax_ops::Layout;

/// Returns `T.index_map(lambda i0, i1: (i1 // 4, i0, i1 % 4))`: the map of an element's indices in
/// one layout to those in another. `None` if the words are not layouts of the same axes.
pub(crate) fn map(from: &str, to: &str) -> Option<String> {
    let (from, to) = (Layout::parse(from)?, Layout::parse(to)?);
    if !from.convertible(&to) {
        return None;
    }
    let at = |letter: char| from.position(letter).map(|p| format!("i{p}"));
    let mut there = Vec::with_capacity(to.rank());
    for axis in to.axes() {
        let outer = axis.letter.to_ascii_uppercase();
        let (theirs, ours) = (from.factor(outer), to.factor(outer));
        let inner = at(outer.to_ascii_lowercase());
        let whole = at(outer)?;
        there.push(match (axis.factor > 0, inner) {
            (false, Some(_)) if theirs == ours => whole,
            (true, Some(inner)) if theirs == ours => inner,
            (false, inner) if ours == 1 => joined(whole, inner, theirs),
            (true, inner) => format!("{} % {ours}", factor(joined(whole, inner, theirs))),
            (false, inner) => format!("{} // {ours}", factor(joined(whole, inner, theirs))),
        });
    }
    Some(lambda(from.rank(), &there))
}

/// Formats an index map of so many indices, `i0` on.
pub(crate) fn lambda(given: usize, there: &[String]) -> String {
    let given: Vec<String> = (0..given).map(|i| format!("i{i}")).collect();
    let comma = if there.len() == 1 { "," } else { "" };
    format!(
        "T.index_map(lambda {}: ({}{comma}))",
        given.join(", "),
        there.join(", ")
    )
}

/// Returns the index along a whole axis.
pub(crate) fn joined(outer: String, inner: Option<String>, extent: i64) -> String {
    match inner {
        Some(inner) => format!("{outer} * {extent} + {inner}"),
        None => outer,
    }
}

/// Adds parentheses for use in a product or quotient.
pub(crate) fn factor(index: String) -> String {
    match index.contains(' ') {
        true => format!("({index})"),
        false => index,
    }
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn indices_of_layouts() {
        let cases = [
            ("NCHW", "NHWC", "lambda i0, i1, i2, i3: (i0, i2, i3, i1)"),
            (
                "NCHW",
                "NCHW4c",
                "lambda i0, i1, i2, i3: (i0, i1 // 4, i2, i3, i1 % 4)",
            ),
            (
                "NCHW4c",
                "NCHW",
                "lambda i0, i1, i2, i3, i4: (i0, i1 * 4 + i4, i2, i3)",
            ),
            ("NC4c", "C4cN", "lambda i0, i1, i2: (i1, i2, i0)"),
            (
                "C4c",
                "C8c",
                "lambda i0, i1: ((i0 * 4 + i1) // 8, (i0 * 4 + i1) % 8)",
            ),
            ("C4c", "C", "lambda i0, i1: (i0 * 4 + i1,)"),
        ];
        for (from, to, text) in cases {
            let made = map(from, to);
            assert_eq!(made, Some(format!("T.index_map({text})")), "{from} {to}");
        }
        assert_eq!(map("NCHW", "NCW"), None);
    }
}
