//! Which characters names have beyond ASCII.
//!
//! The lexers' automata let names have any characters beyond ASCII, since the tables of Unicode would
//! make thousands of states of them; which of these characters a name really has is decided here,
//! where there is one.

/// Returns the length of the part of a text, a name with such characters, up to the first that is
/// not a part of names: no letter, mark or digit (`XID_Continue` of Unicode's annex 31), or one that
/// is no letter (`XID_Start`) where a name or a part of it begins.
///
/// ```
/// use relax_base::name_end;
///
/// assert_eq!(name_end("größe"), "größe".len());
/// assert_eq!(name_end("a→b"), 1);
/// assert_eq!(name_end("%x.٣"), 3, "a digit begins no part of a name");
/// ```
pub fn name_end(text: &str) -> usize {
    for (i, c) in text.char_indices().filter(|(_, c)| !c.is_ascii()) {
        if unicode_ident::is_xid_start(c) {
            continue;
        }
        let before = text[..i].trim_end_matches(|c: char| c.is_ascii_digit());
        let begins = match before.chars().next_back() {
            None | Some('.') => true,
            Some('%' | '@' | ' ' | '\t') => before.len() == i,
            _ => false,
        };
        if begins || !unicode_ident::is_xid_continue(c) {
            return i;
        }
    }
    text.len()
}
