//! Mutations of inputs, by tokens and by bytes.

use std::cell::RefCell;
use std::ops::Range;

/// A random number generator (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u32) -> Random {
        Random((u64::from(seed) << 1 | 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// The limit on remembered pieces of inputs, for splicing.
const KEPT: usize = 2048;
/// The maximum length of a piece, in bytes.
const STRETCH: usize = 300;

thread_local! {
    static SEEN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a number that a text decides, from one on.
pub(crate) fn sum(from: u32, data: &[u8]) -> u32 {
    let add = |h: u32, &b: &u8| h.wrapping_mul(31).wrapping_add(u32::from(b));
    data.iter().fold(from, add)
}

/// Remembers a piece of an input.
pub fn remember(data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let sum = sum(data.len() as u32, data);
    let mut random = Random::new(sum);
    if random.below(4) > 0 {
        return;
    }
    let tokens = split(data);
    let Some(first) = tokens.get(random.below(tokens.len())) else {
        return;
    };
    let last = &tokens[random.below(tokens.len())];
    let (from, to) = (first.start.min(last.start), first.end.max(last.end));
    let stretch = data[from..to.min(from + STRETCH)].to_vec();
    SEEN.with_borrow_mut(|seen| {
        if seen.len() < KEPT {
            seen.push(stretch);
        } else {
            let at = random.below(KEPT);
            seen[at] = stretch;
        }
    });
}

/// Frequent tokens; the corpus supplies the rest.
const WORDS: &[&str] = &[
    "def",
    "let",
    "fn",
    "if",
    "else",
    "match",
    "match?",
    "type",
    "dataflow",
    "output",
    "prim_func",
    "op",
    "grad",
    "rel",
    "compute",
    "for",
    "where",
    "ref",
    "ref_read",
    "ref_write",
    "meta[relay.Constant][0]",
    "#[metadata]",
    "%0",
    "%x",
    "@main",
    "_",
    "0",
    "1",
    "-1",
    "2147483648",
    "9223372036854775807",
    "1f",
    "-0.5f",
    "1e400",
    "nan",
    "True",
    "n",
    "?",
    "float32",
    "int64",
    "bool",
    "uint8",
    "Tensor[(n, ?), float32]",
    "()",
    "(,)",
    "[]",
    "{",
    "}",
    "->",
    "=>",
    ";",
    ",",
    "/* ty=int32 */",
    "// c\n",
    "\"s\"",
    "Cons",
    "Nil",
    "axis=0",
    "match_cast",
    "match_shape",
    "call_tir",
    "shape(n, 4)",
];

/// The limit on bytes added by token mutations.
const GROWTH: usize = 600;

/// Mutates some tokens of a text; the mutation is determined by its number, given the same
/// [`remember`]ed pieces.
pub fn tokens(text: &[u8], number: u32) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut changed_text = text.to_vec();
    for _ in 0..=random.below(3) {
        changed_text = changed(&changed_text, &mut random);
    }
    changed_text.truncate(text.len() + GROWTH);
    changed_text
}

/// Replaces one to three tokens by others of their kind, mostly from the same text: of these
/// mutations far more still check than of [`tokens`].
pub fn alike(text: &[u8], number: u32) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut text = text.to_vec();
    for _ in 0..=random.below(3) {
        let tokens = split(&text);
        let Some(here) = tokens.get(random.below(tokens.len())).cloned() else {
            return text;
        };
        let of = kind(&text, &here);
        let others = tokens.iter().filter(|t| kind(&text, t) == of);
        let mut others: Vec<&[u8]> = others.map(|t| &text[t.clone()]).collect();
        if let Some(more) = INSTEAD.iter().find(|i| i.0 == of) {
            others.extend(more.1.iter().map(|w| w.as_bytes()));
        }
        others.retain(|o| *o != &text[here.clone()]);
        if !others.is_empty() {
            let new = others[random.below(others.len())].to_vec();
            text.splice(here, new);
        }
    }
    text
}

/// What a token is, by its first byte and what follows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Variable,
    Global,
    Number,
    Called,
    Word,
    Infix,
    Other,
}

fn kind(text: &[u8], token: &Range<usize>) -> Kind {
    match text[token.start] {
        b'%' if token.len() > 1 => Kind::Variable,
        b'@' => Kind::Global,
        b'0'..=b'9' => Kind::Number,
        b'+' | b'-' | b'*' | b'/' | b'<' | b'%' => Kind::Infix,
        b if b.is_ascii_alphabetic() => match text.get(token.end) {
            Some(b'(') => Kind::Called,
            _ => Kind::Word,
        },
        _ => Kind::Other,
    }
}

/// What may stand in place of tokens of some kinds besides those of the text.
const INSTEAD: &[(Kind, &[&str])] = &[
    (
        Kind::Called,
        &[
            "add",
            "subtract",
            "multiply",
            "maximum",
            "divide",
            "less",
            "equal",
            "where",
            "negative",
            "abs",
            "sqrt",
            "exp",
            "sigmoid",
            "tanh",
            "copy",
            "sum",
            "max",
            "mean",
            "argmax",
            "transpose",
            "reverse",
            "squeeze",
            "nn.relu",
            "nn.softmax",
            "nn.dense",
            "nn.batch_flatten",
            "zeros_like",
            "ones_like",
            "floor_mod",
            "power",
        ],
    ),
    (
        Kind::Word,
        &[
            "True", "False", "int32", "int8", "uint8", "float32", "float64", "float16", "bool",
            "int64",
        ],
    ),
    (
        Kind::Number,
        &[
            "0", "1", "2", "3", "-1", "5", "0f", "1f", "-2.5f", "7i64", "nan",
        ],
    ),
    (Kind::Infix, &["+", "-", "*", "/"]),
];

/// Numbers that often cause defects.
const NUMBERS: [u64; 8] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Mutates bytes: some are removed, duplicated, set, or replaced by a number; the mutation is
/// determined by its number.
pub fn bytes(data: &[u8], number: u32) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut data = data.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(data.len());
        let some = (1 + random.below(16)).min(data.len() - at);
        match random.below(7) {
            0 => data.truncate(at),
            1 => drop(data.drain(at..at + some)),
            2 => {
                let stretch = data[at..at + some].to_vec();
                let to = random.below(data.len());
                drop(data.splice(to..to, stretch));
            }
            3 if at < data.len() => data[at] ^= 1 << random.below(8),
            4 if at < data.len() => data[at] = random.next() as u8,
            _ => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                let width = [1, 2, 4, 8][random.below(4)];
                for (to, from) in data[at..].iter_mut().zip(&number.to_le_bytes()[..width]) {
                    *to = *from;
                }
            }
        }
    }
    data
}

/// Applies one mutation: something is removed, duplicated, moved, or spliced in from elsewhere or
/// another input.
fn changed(text: &[u8], random: &mut Random) -> Vec<u8> {
    let tokens = split(text);
    let count = tokens.len();
    let at = random.below(count);
    let here = tokens.get(at).cloned().unwrap_or(0..0);
    let other = tokens.get(random.below(count)).cloned().unwrap_or(0..0);
    let some = 1 + random.below(8);
    let stretch = here.start
        ..tokens
            .get((at + some).min(count.saturating_sub(1)))
            .map_or(here.end, |t| t.end);
    let with =
        |range: Range<usize>, new: &[u8]| [&text[..range.start], new, &text[range.end..]].concat();
    match random.below(9) {
        0 => with(here, b""),
        1 => with(stretch, b""),
        2 => with(here.start..here.start, &text[other]),
        3 => with(here, &text[other]),
        4 => with(other.start..other.start, &text[stretch]),
        5 => {
            let (a, b) = if here.start < other.start {
                (here, other)
            } else {
                (other, here)
            };
            if a.end > b.start {
                return text.to_vec();
            }
            [
                &text[..a.start],
                &text[b.clone()],
                &text[a.end..b.start],
                &text[a],
                &text[b.end..],
            ]
            .concat()
        }
        6 => with(here, WORDS[random.below(WORDS.len())].as_bytes()),
        7 => with(
            here.start..here.start,
            WORDS[random.below(WORDS.len())].as_bytes(),
        ),
        _ => SEEN.with_borrow(|seen| match seen.get(random.below(seen.len())) {
            Some(new) => with(if random.below(2) == 0 { here } else { stretch }, new),
            None => text.to_vec(),
        }),
    }
}

/// Splits a text into tokens for mutation: words with their sigils, numbers, strings, and single
/// characters otherwise.
fn split(text: &[u8]) -> Vec<Range<usize>> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'.' || b >= 0x80;
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let from = at;
        let first = text[at];
        at += 1;
        if word(first) || matches!(first, b'%' | b'@') {
            while at < text.len() && word(text[at]) {
                at += 1;
            }
        } else if first == b'"' {
            while at < text.len() && text[at] != b'"' && text[at] != b'\n' {
                at += 1;
            }
            at = (at + 1).min(text.len());
        } else if first.is_ascii_whitespace() {
            continue;
        }
        out.push(from..at);
    }
    out
}
