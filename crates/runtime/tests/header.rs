//! The C headers declare functions, structures and numbers like the Rust sources.

use std::collections::BTreeMap;

use relax_runtime::abi::{CALLBACK, FUNCTIONS, Structure, Type};
use relax_runtime::kernels::{
    attention::Masking,
    combiner::Combiner,
    conv::Layout,
    gemm::epilogue::{Activation, BiasAxis, Rounding},
    kinds::Kind,
    lines::Work,
    math::Math,
    pool2d::Pooling,
    reduce::Op as Reduction,
};

const KERNELS: &str = include_str!("../include/relax_kernels.h");
const RUNTIME: &str = include_str!("../include/relax_runtime.h");

/// A header without comments and directives.
fn code(header: &str) -> String {
    let mut out = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        out.push_str(before);
        out.push(' ');
        rest = comment.split_once("*/").expect("comments end").1;
    }
    out.push_str(rest);
    let lines = out.lines().filter(|l| !l.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// The declarations of a header, without their semicolons.
fn declarations(header: &str) -> Vec<String> {
    let code = code(header);
    let code = code.replace("extern \"C\" {", "");
    let (mut out, mut depth, mut text) = (Vec::new(), 0, String::new());
    for c in code.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                out.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
                text.clear();
                continue;
            }
            _ => {}
        }
        text.push(c);
    }
    out
}

/// A declaration's type, spelled as [`Type`] does it, and its name, if it has one.
fn declared(text: &str) -> (String, String) {
    if text.contains("(*") {
        return (CALLBACK.to_owned(), String::new());
    }
    let text = text.replace('*', " * ").replace('[', " [ ");
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let mut array = String::new();
    if let Some(at) = words.iter().position(|&w| w == "[") {
        array = format!("[{}", words[at + 1..].concat());
        words.truncate(at);
    }
    if words[0] == "const" {
        words.swap(0, 1);
    }
    let named = words.len() > 1 && !matches!(words[words.len() - 1], "*" | "const");
    let name = if named { words.pop() } else { None };
    let mut ty = words.join(" ") + &array;
    // Names used for pointers to functions.
    if matches!(&ty[..], "RxPackedFn" | "RxRangeFn") {
        ty = CALLBACK.to_owned();
    }
    (ty, name.unwrap_or_default().to_owned())
}

/// The result and the parameters of every function that the headers declare.
fn prototypes() -> BTreeMap<String, (String, Vec<String>)> {
    let all = [declarations(RUNTIME), declarations(KERNELS)].concat();
    let functions = all.iter().filter(|d| !d.starts_with("typedef"));
    let parsed = functions.filter_map(|d| {
        let (result, params) = d.split_once('(')?;
        let params = params.strip_suffix(')').expect("a list of parameters");
        // Commas in function types do not separate parameters.
        let (mut depth, mut list) = (0, vec![String::new()]);
        for c in params.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    list.push(String::new());
                    continue;
                }
                _ => {}
            }
            list.last_mut().expect("never empty").push(c);
        }
        let mut list: Vec<String> = list.iter().map(|p| declared(p.trim()).0).collect();
        list.retain(|p| p != "void");
        let (result, name) = declared(result);
        Some((name, (result, list)))
    });
    parsed.collect()
}

/// Fields with their types.
type Fields = Vec<(String, String)>;

/// The structures of the header of kernels.
fn structures() -> BTreeMap<String, Fields> {
    let all = declarations(KERNELS);
    let structures = all.iter().filter_map(|d| {
        let (name, rest) = d.strip_prefix("typedef struct ")?.split_once(" {")?;
        let (body, again) = rest.split_once('}')?;
        assert_eq!(name, again.trim());
        let mut fields = Vec::new();
        for line in body.split(';').map(str::trim).filter(|l| !l.is_empty()) {
            let mut of = String::new();
            for (k, part) in line.split(',').enumerate() {
                // Names after the first one have its type, except for their own stars.
                let (ty, field) = match k {
                    0 => declared(part.trim()),
                    _ => declared(&format!("{of} {}", part.trim())),
                };
                if k == 0 {
                    of = ty.trim_end_matches([' ', '*']).to_owned();
                }
                fields.push((field, ty));
            }
        }
        Some((name.to_owned(), fields))
    });
    structures.collect()
}

/// The fields of a structure, with those of parts that C does not name inlined.
fn fields_of(s: &Structure, known: &BTreeMap<String, Fields>) -> Fields {
    let mut out = Vec::new();
    for member in s.members {
        let Type { name, structure } = (member.ty)();
        match structure {
            Some(part) if part.name == name && !known.contains_key(&name) => {
                out.extend(fields_of(part, known));
            }
            _ => out.push((member.name.to_owned(), name)),
        }
    }
    out
}

#[test]
fn functions_are_declared_as_they_are() {
    let header = prototypes();
    let mut names: Vec<&str> = Vec::new();
    for f in FUNCTIONS {
        let params = f.signature.params.iter().map(|p| (p.ty)().name);
        let own = ((f.signature.result.ty)().name, params.collect::<Vec<_>>());
        let declared = header
            .get(f.name)
            .unwrap_or_else(|| panic!("no header declares {}", f.name));
        assert_eq!(*declared, own, "{}", f.name);
        names.push(f.name);
    }
    names.sort_unstable();
    assert!(
        names.is_sorted_by(|a, b| a < b),
        "a function stands in the table twice"
    );
    assert_eq!(names, header.keys().collect::<Vec<_>>());
}

#[test]
fn structures_are_declared_as_they_are() {
    let header = structures();
    let mut seen: BTreeMap<&str, &Structure> = BTreeMap::new();
    let mut work: Vec<&Structure> = (FUNCTIONS.iter())
        .flat_map(|f| f.signature.params)
        .filter_map(|p| (p.ty)().structure)
        .collect();
    while let Some(s) = work.pop() {
        if seen.insert(s.name, s).is_none() {
            work.extend(s.members.iter().filter_map(|m| (m.ty)().structure));
        }
    }
    for (name, fields) in &header {
        let own = seen
            .get(&name[..])
            .unwrap_or_else(|| panic!("no function takes {name}"));
        assert_eq!(*fields, fields_of(own, &header), "{name}");
    }
    assert!(header.len() >= 15, "{} structures were found", header.len());
}

/// Offsets and sizes that comments of the header state: those of the first field of a line, and of
/// the whole.
#[test]
fn comments_state_offsets() {
    let structures: BTreeMap<&str, &Structure> = (FUNCTIONS.iter())
        .flat_map(|f| f.signature.params)
        .filter_map(|p| (p.ty)().structure)
        .flat_map(|s| {
            let parts = s.members.iter().filter_map(|m| (m.ty)().structure);
            parts.chain([s])
        })
        .map(|s| (s.name, s))
        .collect();
    /// Returns the offset of a field, including those of parts.
    fn offset(s: &Structure, field: &str) -> Option<usize> {
        s.members.iter().find_map(|m| match (m.ty)() {
            _ if m.name == field => Some(m.offset),
            Type { name, structure } => {
                let part = structure.filter(|p| p.name == name)?;
                Some(m.offset + offset(part, field)?)
            }
        })
    }
    let mut checked = 0;
    for text in KERNELS.split("typedef struct ").skip(1) {
        let (name, body) = text.split_once(" {").expect("a body");
        let structure = structures[name];
        for line in body.lines() {
            let Some((field, comment)) = line.split_once("/*") else {
                continue;
            };
            let digits = comment.trim_start().split(|c: char| !c.is_ascii_digit());
            let Some(number) = digits.into_iter().next().and_then(|n| n.parse().ok()) else {
                continue;
            };
            if field.starts_with('}') {
                assert_eq!(structure.size, number, "the size of {name}");
                break;
            }
            let first = field.split([',', ';']).next().expect("a field");
            let (_, field) = declared(first.trim());
            assert_eq!(offset(structure, &field), Some(number), "{name}::{field}");
            checked += 1;
        }
    }
    assert!(checked > 80, "{checked} offsets were found");
}

#[test]
fn numbers_are_declared_as_they_are() {
    let mut own: Vec<(&str, usize)> = Vec::new();
    for names in [
        Activation::C,
        Rounding::C,
        BiasAxis::C,
        Combiner::C,
        Kind::C,
        Layout::C,
        Masking::C,
        Math::C,
        Pooling::C,
        Reduction::C,
        Work::C,
    ] {
        own.extend(names.iter().copied().zip(0..));
    }
    own.push(("RX_MATH_COUNT", Math::ALL.len()));
    let mut header = Vec::new();
    let all = declarations(KERNELS);
    for d in all
        .iter()
        .filter(|d| d.starts_with("enum") || d.starts_with("typedef enum"))
    {
        let (_, body) = d.split_once('{').expect("a body");
        let (body, _) = body.split_once('}').expect("its end");
        for (k, entry) in body.split(',').enumerate() {
            let (name, number) = entry.split_once('=').unwrap_or((entry, ""));
            let number = number.trim().parse().unwrap_or(k);
            assert_eq!(number, k, "{name}");
            header.push((name.trim().to_owned(), number));
        }
    }
    let mut own: Vec<(String, usize)> = own.iter().map(|(n, k)| (n.to_string(), *k)).collect();
    own.sort_unstable();
    header.sort_unstable();
    assert_eq!(own, header);
}
