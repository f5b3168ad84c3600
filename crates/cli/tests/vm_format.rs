//! The specification in `docs/vm.md` matches the files that `relaxc` writes: they are parsed here
//! using only its tables and rules.
#![cfg(feature = "native")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The meaning of a word in a rule.
enum Part {
    Byte,
    Word,
    Long,
    Text,
    Bytes(usize),
    Rule(String),
    List(String),
}

enum Rule {
    Parts(Vec<Part>),
    Tag(BTreeMap<u8, Vec<Part>>),
}

fn parts(text: &str) -> Vec<Part> {
    let part = |word: &str| match word {
        "byte" => Part::Byte,
        "word" => Part::Word,
        "long" => Part::Long,
        "text" => Part::Text,
        _ => {
            let between = |open, close| word.strip_prefix(open).and_then(|w| w.strip_suffix(close));
            if let Some(n) = between("[", "]") {
                return Part::Bytes(n.parse().expect("a number of bytes"));
            }
            match between("list(", ")") {
                Some(item) => Part::List(item.to_owned()),
                None => Part::Rule(word.to_owned()),
            }
        }
    };
    text.split_whitespace().map(part).collect()
}

/// Parses the rules in the document.
fn rules(document: &str) -> BTreeMap<String, Rule> {
    let block = document
        .split("```format\n")
        .nth(1)
        .expect("a block of rules");
    let block = block.split("```").next().expect("its end");
    let rule = |line: &str| {
        let (name, text) = line.split_once('=').expect("a rule");
        let text = text.trim();
        let tags = text.strip_prefix("tag {").and_then(|t| t.strip_suffix('}'));
        let rule = match tags {
            None => Rule::Parts(parts(text)),
            Some(tags) => {
                let one = |tag: &str| {
                    let (number, text) = tag.split_once(':').expect("a tag");
                    (number.trim().parse().expect("a byte"), parts(text))
                };
                Rule::Tag(tags.split(';').map(one).collect())
            }
        };
        (name.trim().to_owned(), rule)
    };
    block.lines().map(rule).collect()
}

struct Walk<'f> {
    rules: &'f BTreeMap<String, Rule>,
    bytes: &'f [u8],
    at: usize,
    /// The number of times each rule was used.
    used: BTreeMap<&'f str, usize>,
}

impl<'f> Walk<'f> {
    fn take(&mut self, n: usize) -> &'f [u8] {
        self.at += n;
        &self.bytes[self.at - n..self.at]
    }
    fn word(&mut self) -> usize {
        u32::from_le_bytes(self.take(4).try_into().expect("four bytes")) as usize
    }
    fn parts(&mut self, all: &'f [Part]) {
        for part in all {
            match part {
                Part::Byte => drop(self.take(1)),
                Part::Word => drop(self.word()),
                Part::Long => drop(self.take(8)),
                Part::Bytes(n) => drop(self.take(*n)),
                Part::Text => {
                    let n = self.word();
                    std::str::from_utf8(self.take(n)).expect("UTF-8");
                }
                Part::Rule(name) => self.rule(name),
                Part::List(item) => {
                    for _ in 0..self.word() {
                        match item.as_str() {
                            "text" | "word" | "long" | "byte" => self.simple(item),
                            rule => self.rule(rule),
                        }
                    }
                }
            }
        }
    }
    fn simple(&mut self, name: &str) {
        match name {
            "text" => {
                let n = self.word();
                std::str::from_utf8(self.take(n)).expect("UTF-8");
            }
            "word" => drop(self.take(4)),
            "long" => drop(self.take(8)),
            _ => drop(self.take(1)),
        }
    }
    fn rule(&mut self, name: &str) {
        let (name, rule) = self
            .rules
            .get_key_value(name)
            .unwrap_or_else(|| panic!("no rule {name}"));
        *self.used.entry(name).or_default() += 1;
        match rule {
            Rule::Parts(all) => self.parts(all),
            Rule::Tag(tags) => {
                let tag = self.take(1)[0];
                let all = tags.get(&tag);
                self.parts(all.unwrap_or_else(|| panic!("{name}: no tag {tag}")));
            }
        }
    }
}

const PROGRAM: &str = "type Tree { Leaf(float32), Node(Tree, Tree), }
def @grow(%n: int32) -> Tree { if (%n < 1) { Leaf(1f) } else { Node(@grow(%n - 1), Leaf(2f)) } }
def @main(%x: Tensor[(n, 4), float32], %n: int32) {
  let %y = nn.softmax(nn.dense(%x, stack((stack((1f, 2f, 3f, 4f), axis=0), stack((5f, 6f, 7f, 8f), axis=0)), axis=0), units=2));
  let %f = fn (%a: Tensor[(n, 2), float32]) { argsort(%a + %y) };
  (%f(%y), match (@grow(%n)) { Leaf(%v) => %v, Node(_, _) => sum(%x) })
}";

#[test]
fn files_are_as_the_document_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/vm.md")).expect("the document");
    let rules = rules(&document);
    let folder = tempfile::tempdir().expect("a folder");
    let [source, out] = ["p.relay", "p.vmbin"].map(|n| folder.path().join(n));
    std::fs::write(&source, PROGRAM).expect("written");
    for pipeline in [
        "infer-type,fold-constant",
        "infer-type,fold-constant,fuse-ops",
    ] {
        let made = Command::new(env!("CARGO_BIN_EXE_relaxc"))
            .args(["--pipeline", pipeline])
            .arg(&source)
            .arg("-o")
            .arg(&out)
            .output()
            .expect("relaxc starts");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        let bytes = std::fs::read(&out).expect("it is written");
        assert_eq!(&bytes[..8], b"relaxvm\0");
        assert_eq!(bytes[8..12], 5u32.to_le_bytes());
        let length = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
        let end = 24 + length as usize;
        let mut walk = Walk {
            rules: &rules,
            bytes: &bytes[..end],
            at: 24,
            used: BTreeMap::new(),
        };
        walk.rule("head");
        assert_eq!(walk.at, end, "the head ends where its length says");
        let left: Vec<_> = rules
            .keys()
            .filter(|r| !walk.used.contains_key(r.as_str()))
            .collect();
        let rare = ["access", "reader", "hint", "group"];
        assert!(
            left.iter().all(|r| rare.contains(&r.as_str())),
            "not in the file: {left:?}"
        );
        // The elements of the weight are present, aligned to 64 bytes.
        let weight: Vec<u8> = (1..=8u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
        let mut places = (end.next_multiple_of(64)..bytes.len()).step_by(64);
        assert!(places.any(|at| bytes[at..].starts_with(&weight)));
    }
}
