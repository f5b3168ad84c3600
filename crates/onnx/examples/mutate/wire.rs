//! Schema-less protobuf messages, and mutations of them.

use std::collections::BTreeMap;

#[path = "../../tests/build/mod.rs"]
mod build;

use build::{graph, graph_attribute, int_attribute, integers, list_attribute, model, node, value};

/// A field of a message.
#[derive(Clone)]
pub enum Field {
    Varint(u64, u64),
    Fixed(u64, Vec<u8>),
    Bytes(u64, Vec<u8>),
    Message(u64, Vec<Field>),
}

impl Field {
    fn number(&self) -> u64 {
        match self {
            Field::Varint(n, _) | Field::Fixed(n, _) | Field::Bytes(n, _) => *n,
            Field::Message(n, _) => *n,
        }
    }
}

/// A random number generator (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random((seed << 1 | 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// The maximum nesting depth of parsed fields.
const DEEPEST: usize = 24;

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 127) << shift;
        if first < 128 {
            return Some(value);
        }
    }
    None
}

/// Parses the fields of a model; what is not a message is kept as bytes.
pub fn parse(bytes: &[u8]) -> Vec<Field> {
    fields(bytes, 0).unwrap_or_default()
}

fn fields(mut bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = key >> 3;
        if number == 0 || number > 1000 {
            return None;
        }
        out.push(match key & 7 {
            0 => Field::Varint(number, varint(&mut bytes)?),
            kind @ (1 | 5) => {
                let len = if kind == 1 { 8 } else { 4 };
                let (value, rest) = bytes.split_at_checked(len)?;
                bytes = rest;
                Field::Fixed(number, value.to_vec())
            }
            2 => {
                let len = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(len)?;
                bytes = rest;
                let text = value.iter().all(|b| (32..127).contains(b));
                let inner = (!text && depth < DEEPEST).then(|| fields(value, depth + 1));
                match inner.flatten() {
                    Some(inner) => Field::Message(number, inner),
                    None => Field::Bytes(number, value.to_vec()),
                }
            }
            _ => return None,
        });
    }
    Some(out)
}

fn put(out: &mut Vec<u8>, mut v: u64) {
    while v >= 128 {
        out.push(v as u8 | 128);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Encodes fields.
fn encoded(list: &[Field], out: &mut Vec<u8>) {
    for field in list {
        let number = field.number() << 3;
        match field {
            Field::Varint(_, v) => {
                put(out, number);
                put(out, *v);
            }
            Field::Fixed(_, v) => {
                put(out, number | if v.len() == 8 { 1 } else { 5 });
                out.extend_from_slice(v);
            }
            Field::Bytes(_, v) => {
                put(out, number | 2);
                put(out, v.len() as u64);
                out.extend_from_slice(v);
            }
            Field::Message(_, inner) => {
                let mut own = Vec::new();
                encoded(inner, &mut own);
                put(out, number | 2);
                put(out, own.len() as u64);
                out.extend_from_slice(&own);
            }
        }
    }
}

/// Parts of models to splice into others, by field number.
pub struct Pool {
    parts: BTreeMap<(u64, bool), Vec<Field>>,
    operators: Vec<&'static str>,
}

/// The limit on parts per field number.
const KEPT: usize = 4096;

impl Pool {
    pub fn new(trees: &[Vec<Field>]) -> Pool {
        let mut parts: BTreeMap<_, Vec<Field>> = BTreeMap::new();
        let mut open: Vec<&Field> = trees.iter().flatten().collect();
        while let Some(field) = open.pop() {
            let message = matches!(field, Field::Message(..));
            let known = parts.entry((field.number(), message)).or_default();
            if known.len() < KEPT {
                known.push(field.clone());
            }
            if let Field::Message(_, inner) = field {
                open.extend(inner);
            }
        }
        let operators = relax_onnx::operators().iter().map(|e| e.name).collect();
        Pool { parts, operators }
    }
    fn like(&self, field: &Field, random: &mut Random) -> Option<Field> {
        let message = matches!(field, Field::Message(..));
        let known = self.parts.get(&(field.number(), message))?;
        known.get(random.below(known.len())).cloned()
    }
}

/// Returns the bytes of a model with a few mutations.
pub fn changed(tree: &[Field], pool: &Pool, random: &mut Random) -> Vec<u8> {
    let mut tree = tree.to_vec();
    for _ in 0..=random.below(4) {
        change(&mut tree, pool, random);
    }
    let mut bytes = Vec::new();
    encoded(&tree, &mut bytes);
    if random.below(16) == 0 && !bytes.is_empty() {
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                _ => bytes.truncate(at.max(1)),
            }
        }
    }
    bytes
}

/// Descends to a random message, and mutates one of its fields.
fn change(mut list: &mut Vec<Field>, pool: &Pool, random: &mut Random) {
    loop {
        if list.is_empty() {
            return;
        }
        let at = random.below(list.len());
        let deeper = matches!(&list[at], Field::Message(_, inner) if !inner.is_empty());
        if !deeper || random.below(6) == 0 {
            return change_at(list, at, pool, random);
        }
        let Field::Message(_, inner) = &mut list[at] else {
            return;
        };
        list = inner;
    }
}

fn change_at(list: &mut Vec<Field>, at: usize, pool: &Pool, random: &mut Random) {
    match random.below(8) {
        0 => drop(list.remove(at)),
        1 => list.insert(at, list[at].clone()),
        2 => {
            let other = random.below(list.len());
            list.swap(at, other);
        }
        3 => {
            if let Some(part) = pool.like(&list[at], random) {
                list[at] = part;
            }
        }
        4 => {
            if let Some(part) = pool.like(&list[at], random) {
                list.insert(at, part);
            }
        }
        _ => alter(&mut list[at], pool, random),
    }
}

fn alter(field: &mut Field, pool: &Pool, random: &mut Random) {
    const ENDS: [i64; 16] = [
        0,
        1,
        2,
        3,
        7,
        -1,
        -2,
        i64::MAX,
        i64::MIN,
        1 << 31,
        (1 << 31) - 1,
        1 << 40,
        1 << 62,
        255,
        16,
        64,
    ];
    match field {
        Field::Varint(_, v) => {
            *v = match random.below(3) {
                0 => v.wrapping_add(1),
                1 => v.wrapping_sub(1),
                _ => ENDS[random.below(ENDS.len())] as u64,
            };
        }
        Field::Fixed(_, v) => {
            let at = random.below(v.len());
            v[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)];
        }
        Field::Bytes(number, v) => match random.below(4) {
            0 if *number == 4 => {
                let name = pool.operators[random.below(pool.operators.len())];
                *v = name.as_bytes().to_vec();
            }
            1 => v.truncate(random.below(v.len() + 1)),
            2 => v.extend_from_within(..random.below(v.len() + 1)),
            _ => {
                if let Some(Field::Bytes(_, other)) =
                    pool.like(&Field::Bytes(*number, Vec::new()), random)
                {
                    *v = other;
                }
            }
        },
        Field::Message(_, inner) => inner.reverse(),
    }
}

/// Returns a few small models that cover most code paths.
pub fn small() -> Vec<Vec<u8>> {
    let concat = node("Concat", &["rows", "minus"], &["to"]).message(5, &int_attribute("axis", 0));
    let pads = list_attribute("pads", &[1, 1, 1, 1]);
    let conv = node("Conv", &["x", "w"], &["c"]).message(5, &pads);
    let image = model(
        &[
            conv,
            node("Shape", &["c"], &["s"]),
            node("Gather", &["s", "zero"], &["rows"]),
            concat,
            node("Reshape", &["c", "to"], &["y"]),
        ],
        &[integers("zero", &[0]), integers("minus", &[-1])],
        &[
            value("x", 1, &["n", "3", "8", "8"]),
            value("w", 1, &["4", "3", "3", "3"]),
        ],
        &["y"],
    );
    let body = graph(
        &[
            node("Identity", &["go"], &["on"]),
            node("Add", &["v", "v"], &["next"]),
        ],
        &[
            value("i", 7, &[]),
            value("go", 9, &[]),
            value("v", 1, &["2"]),
        ],
        &["on", "next", "v"].map(|o| value(o, 1, &[])),
    );
    let looped = node("Loop", &["count", "", "x"], &["last", "rows"]);
    let looped = looped.message(5, &graph_attribute("body", &body));
    let control = model(
        &[looped],
        &[],
        &[value("x", 1, &["2"]), value("count", 7, &[])],
        &["last", "rows"],
    );
    vec![image, control]
}
