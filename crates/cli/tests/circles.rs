//! Files of a crate, held against each other: which ones use which, as far as `use` and paths say,
//! without circles; and how long they are.
//!
//! Modules beside each other in one folder are looked at together, each with all that is in its own
//! folder: a module and the files in its folder are one thing in several files, and may speak of
//! each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Circles that there are: a crate, the module whose children they are (nothing for the crate
/// itself), their names, and why.
const ALLOWED: &[(&str, &str, &str, &str)] = &[
    // Data types that hold each other.
    (
        "ir",
        "",
        "damage expr gradient lists module rel script types",
        "ids and nodes of one recursive data type",
    ),
    (
        "loops",
        "",
        "children expr hint program",
        "expressions name buffers of programs, which are made of expressions",
    ),
    (
        "sym",
        "",
        "dim division eval extremum facts mono poly range rebuild recombine solve",
        "a dimension is a polynomial over operations on dimensions",
    ),
    (
        "syntax",
        "ast",
        "expr ty",
        "types of expressions hold literals",
    ),
    (
        "passes",
        "",
        "cx pass",
        "a definition holds the function, which takes what a pass runs with",
    ),
    (
        "onnx",
        "",
        "cx kind layers node tensor value",
        "values hold nodes of the text that the context collects",
    ),
    (
        "vm",
        "",
        "code file kernel listing lower programs verify",
        "an executable holds kernels, which are read and verified as its file is",
    ),
    (
        "relax",
        "",
        "compiled library",
        "a program may come from a library",
    ),
    // Entries that are called through a table, and call what looks them up.
    (
        "onnx",
        "",
        "graph ops table",
        "entries translate graphs inside of nodes",
    ),
    ("onnx", "export", "call entries table walk", "as above"),
    (
        "ops",
        "",
        "call_requirements compute def families registry",
        "entries ask the registry for each other",
    ),
    // Procedures that call each other.
    (
        "testkit",
        "",
        "expr program programs",
        "functions in expressions in functions",
    ),
    (
        "tvm",
        "",
        "expr program types",
        "types in expressions in programs",
    ),
    (
        "tvm",
        "",
        "error graph scan write",
        "errors name what cannot be written",
    ),
    (
        "tvmscript",
        "read",
        "calls eval types",
        "types are calls that are evaluated",
    ),
    (
        "tvmscript",
        "values",
        "chain lift matching",
        "values in functions in values",
    ),
    (
        "onnx",
        "ops",
        "sequence sequence_map",
        "a map over sequences makes a sequence",
    ),
    (
        "ops",
        "families",
        "layout_rules slice",
        "the rule of slices",
    ),
    (
        "ops",
        "families",
        "relax_vision vision_nms",
        "one operator of two releases",
    ),
    (
        "ops",
        "families",
        "nn_conv nn_winograd",
        "forms of one operator",
    ),
    (
        "passes",
        "passes::relax",
        "by_pattern matched",
        "what is wanted, and what was found",
    ),
    (
        "relax",
        "script",
        "heap numbers places",
        "three views of one function's memory",
    ),
    (
        "lsp",
        "",
        "features index library",
        "names in the library, found as in documents",
    ),
    (
        "cli",
        "",
        "cc kit",
        "the library inside of the executable, or beside it",
    ),
    (
        "cli",
        "",
        "interrupt progress",
        "the line on the terminal, and what removes it",
    ),
    (
        "cli",
        "",
        "io output places render stop weights",
        "errors are written as all else is",
    ),
    (
        "python",
        "",
        "arguments arrays errors packed results",
        "what Python raised goes through compiled code and comes out as it was",
    ),
    (
        "syntax",
        "print",
        "comments front layout sink",
        "operations, comments between them, and their layout",
    ),
    (
        "codegen",
        "",
        "image kernels",
        "compiled kernels hold where they were loaded",
    ),
    (
        "runtime",
        "",
        "context object packed",
        "a context holds functions that take contexts and values",
    ),
    (
        "runtime",
        "",
        "release tensor",
        "a tensor that is freed leaves the list of its block, and one that cannot be made is freed",
    ),
    (
        "runtime",
        "tensor",
        "place view",
        "a view is a place of a tensor",
    ),
    (
        "runtime",
        "kernels",
        "small strips",
        "a description that both read",
    ),
    (
        "runtime",
        "kernels",
        "contract conv gemm integer pool2d pool_lanes pool_parted",
        "panels and layouts are one format, and a convolution pools its own rows",
    ),
    (
        "runtime",
        "kernels::conv",
        "blocks rows",
        "a block of pixels, and one of the ways to compute it",
    ),
    (
        "runtime",
        "",
        "abi capi reach symbols",
        "the table of functions says what each accesses, and one of them looks it up there",
    ),
    (
        "runtime",
        "kernels::conv",
        "depthwise lanes",
        "one kernel in two forms",
    ),
    (
        "runtime",
        "kernels::integer",
        "conv conv_bytes tables",
        "one kernel in two forms",
    ),
];

/// Modules that may not come to know others, whatever is between: a crate, its modules, and the
/// others.
const BELOW: &[(&str, &str, &str)] = &[(
    "infer",
    "flags unknown subst queue unifier unify map instantiate show",
    "solver relations scheme generalise mistakes report walk",
)];

/// The most lines of a file, and of a function outside of tests.
const LONGEST_FILE: usize = 600;
const LONGEST_FUNCTION: usize = 120;

fn crates() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).to_owned()
}

/// The crates by name.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(crates()).expect("a folder");
    let names = entries.map(|e| e.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|n| n.expect("a name")).collect();
    names.retain(|n| crates().join(n).join("Cargo.toml").exists());
    names.sort();
    names
}

/// The sources of a crate by the path of their module, tests left out.
fn modules(name: &str) -> BTreeMap<Vec<String>, PathBuf> {
    let root = crates().join(name).join("src");
    let (mut open, mut all) = (vec![root.clone()], BTreeMap::new());
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            open.extend(entries.map(|e| e.expect("an entry").path()));
            continue;
        }
        let inside = path
            .strip_prefix(&root)
            .expect("below it")
            .with_extension("");
        let parts = inside.iter().map(|p| p.to_string_lossy().into_owned());
        let mut parts: Vec<String> = parts.collect();
        let tests = parts.iter().any(|p| p == "tests");
        if tests || path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        if matches!(&*parts[parts.len() - 1], "mod" | "lib" | "main") {
            parts.pop();
        }
        all.insert(parts, path);
    }
    all
}

/// A text without comments, texts in quotes, and what is built for tests alone.
fn code(path: &Path) -> String {
    let whole = std::fs::read_to_string(path).expect("a text");
    let own = whole.split("#[cfg(test)]\nmod tests {").next();
    let mut out = String::new();
    for line in own.unwrap_or_default().lines() {
        let line = line.replace("\\\"", "");
        let parts = line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
        out.push_str(parts.split("//").next().unwrap_or_default());
        out.push('\n');
    }
    out
}

/// The paths of a tree of `use`.
fn spread(tree: &str, before: &str, out: &mut Vec<String>) {
    let (mut depth, mut from) = (0, 0);
    let ends = tree.char_indices().chain([(tree.len(), ',')]);
    for (at, c) in ends {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = &tree[from..at];
                from = at + 1;
                match part.split_once('{') {
                    Some((head, rest)) => {
                        let rest = rest.strip_suffix('}').unwrap_or(rest);
                        spread(rest, &format!("{before}{head}"), out);
                    }
                    None if part.is_empty() => {}
                    None => out.push(format!("{before}{part}")),
                }
            }
            _ => {}
        }
    }
}

/// A file as far as it matters here.
#[derive(Default)]
struct File {
    /// The paths that it names, as they are written.
    paths: Vec<String>,
    /// What it gives on under its own path, by name.
    given_on: BTreeMap<String, Vec<String>>,
    /// What it declares.
    declared: BTreeSet<String>,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns what a path means, from the crate's root on; nothing for what is of another crate.
fn absolute(
    path: &str,
    here: &[String],
    known: &BTreeMap<Vec<String>, PathBuf>,
) -> Option<Vec<String>> {
    let mut parts: Vec<String> = path.split("::").map(str::to_owned).collect();
    let mut base = here.to_vec();
    match &*parts[0] {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while parts.first().is_some_and(|p| p == "super") {
                parts.remove(0);
                base.pop();
            }
            base.append(&mut parts);
            return Some(base);
        }
        first => {
            base.push(first.to_owned());
            if !known.contains_key(&base) {
                return None;
            }
            base.pop();
            base.append(&mut parts);
            return Some(base);
        }
    }
    base.extend(parts.drain(1..));
    Some(base)
}

fn read(text: &str, here: &[String], known: &BTreeMap<Vec<String>, PathBuf>) -> File {
    let mut file = File::default();
    let words: Vec<&str> = text
        .split(|c: char| !is_word(c))
        .filter(|w| !w.is_empty())
        .collect();
    for pair in words.windows(2) {
        let declares = [
            "fn", "struct", "enum", "trait", "type", "const", "static", "union",
        ];
        if declares.contains(&pair[0]) {
            file.declared.insert(pair[1].to_owned());
        }
    }
    let mut rest = text;
    let mut other = String::new();
    while let Some(at) = rest.find("use ") {
        let (before, after) = rest.split_at(at);
        other.push_str(before);
        if before.ends_with(is_word) {
            other.push_str("use ");
            rest = &after[4..];
            continue;
        }
        let end = after.find(';').unwrap_or(after.len());
        let mut tree = String::new();
        for word in after[4..end].split_inclusive([',', '{', '}']) {
            let named = word.split(" as ").next().unwrap_or_default();
            tree.extend(named.chars().filter(|c| !c.is_whitespace()));
            if named.len() < word.len() {
                tree.extend(word.chars().last().filter(|c| !is_word(*c)));
            }
        }
        let mut paths = Vec::new();
        spread(&tree, "", &mut paths);
        let line = before.rsplit('\n').next().unwrap_or_default().trim_start();
        if line.starts_with("pub") {
            for p in paths.iter().filter_map(|p| absolute(p, here, known)) {
                if let Some(last) = p.last() {
                    file.given_on.insert(last.clone(), p.clone());
                }
            }
        }
        file.paths.append(&mut paths);
        rest = &after[end..];
    }
    other.push_str(rest);
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in other.match_indices(start) {
            if !other[..at].ends_with(|c| is_word(c) || c == ':') {
                let tail = other[at..].split(|c: char| !is_word(c) && c != ':').next();
                let path = tail.unwrap_or_default().trim_end_matches(':');
                file.paths.push(path.to_owned());
            }
        }
    }
    file
}

/// The module that a path from the root on leads to.
fn target(mut path: Vec<String>, files: &BTreeMap<Vec<String>, File>) -> Option<Vec<String>> {
    for _ in 0..8 {
        let mut depth = path.len();
        while !files.contains_key(&path[..depth]) {
            depth = depth.checked_sub(1)?;
        }
        let (module, file) = (&path[..depth], &files[&path[..depth]]);
        let Some(name) = path.get(depth).filter(|n| !file.declared.contains(*n)) else {
            return Some(module.to_vec());
        };
        path = match (file.given_on.get(name), file.given_on.get("*")) {
            (Some(on), _) => on.clone(),
            (None, Some(all)) => [&all[..all.len() - 1], &path[depth..]].concat(),
            (None, None) => return Some(module.to_vec()),
        };
    }
    None
}

/// Returns which modules of a crate use which.
fn edges(name: &str) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let known = modules(name);
    let files: BTreeMap<Vec<String>, File> = (known.iter())
        .map(|(at, path)| (at.clone(), read(&code(path), at, &known)))
        .collect();
    let used = |(at, file): (&Vec<String>, &File)| {
        let to = file.paths.iter().filter_map(|p| absolute(p, at, &known));
        let to = to.map(|mut p| {
            p.retain(|part| part != "*");
            p
        });
        let to = to.filter_map(|p| target(p, &files)).filter(|t| t != at);
        (at.clone(), to.collect())
    };
    files.iter().map(used).collect()
}

/// Returns what each one comes to, by any way.
fn reached<T: Ord + Clone>(edges: &BTreeMap<T, BTreeSet<T>>) -> BTreeMap<T, BTreeSet<T>> {
    let from = |start: &T| {
        let (mut open, mut seen) = (vec![start.clone()], BTreeSet::new());
        while let Some(at) = open.pop() {
            for next in edges.get(&at).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        (start.clone(), seen)
    };
    edges.keys().map(from).collect()
}

/// The circles among the children of each module.
fn circles(name: &str) -> BTreeSet<(String, String)> {
    let edges = edges(name);
    let mut folders: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (from, to) in &edges {
        for to in to {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                let folder = folders.entry(from[..common].to_vec()).or_default();
                folder.entry(a.clone()).or_default().insert(b.clone());
            }
        }
    }
    let mut found = BTreeSet::new();
    for (folder, edges) in folders {
        let reached = reached(&edges);
        for (at, to) in &reached {
            let back = |b: &&String| reached.get(*b).is_some_and(|r| r.contains(at));
            let circle: BTreeSet<&String> = to.iter().filter(back).collect();
            if circle.len() > 1 {
                let names: Vec<&str> = circle.into_iter().map(String::as_str).collect();
                found.insert((folder.join("::"), names.join(" ")));
            }
        }
    }
    found
}

#[test]
fn files_use_each_other_in_one_direction() {
    let found: BTreeSet<(String, String, String)> = (names().into_iter())
        .flat_map(|n| {
            circles(&n)
                .into_iter()
                .map(move |(at, c)| (n.clone(), at, c))
        })
        .collect();
    let allowed: BTreeSet<(String, String, String)> = (ALLOWED.iter())
        .map(|a| (a.0.to_owned(), a.1.to_owned(), a.2.to_owned()))
        .collect();
    let more: Vec<_> = found.difference(&allowed).collect();
    assert!(more.is_empty(), "circles: {more:#?}");
    let gone: Vec<_> = allowed.difference(&found).collect();
    assert!(gone.is_empty(), "no circles any more: {gone:#?}");
}

#[test]
fn what_is_below_does_not_know_what_is_above() {
    for (name, below, above) in BELOW {
        let reached = reached(&edges(name));
        for module in below.split(' ') {
            let known = reached.get(&vec![module.to_owned()]);
            let known = known.unwrap_or_else(|| panic!("`{name}` has no module `{module}`"));
            for other in above.split(' ') {
                let other = vec![other.to_owned()];
                assert!(
                    reached.contains_key(&other),
                    "`{name}` has no module {other:?}"
                );
                assert!(
                    !known.contains(&other),
                    "`{name}::{module}` comes to {other:?}"
                );
            }
        }
    }
}

/// The sources of all crates, tests left out: each with its name below `crates`.
fn sources() -> Vec<(String, PathBuf)> {
    let of = |name: String| {
        let all = modules(&name).into_values();
        let inside = |p: PathBuf| {
            let inside = p.strip_prefix(crates()).expect("below it");
            (inside.display().to_string(), p)
        };
        all.map(inside).collect::<Vec<_>>()
    };
    names().into_iter().flat_map(of).collect()
}

#[test]
fn files_are_short() {
    let lines = |path: &Path| {
        std::fs::read_to_string(path)
            .expect("a text")
            .lines()
            .count()
    };
    let long = |(name, path): (String, PathBuf)| (lines(&path) > LONGEST_FILE).then_some(name);
    let found: Vec<String> = sources().into_iter().filter_map(long).collect();
    assert!(
        found.is_empty(),
        "files of more than {LONGEST_FILE} lines: {found:#?}"
    );
}

/// The functions of a text as it is formatted: their names and lengths.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let begins = line.trim_start();
        let words: Vec<&str> = begins.split_whitespace().collect();
        let Some(word) = words.iter().position(|w| *w == "fn") else {
            continue;
        };
        let before = |w: &&str| {
            let known = ["const", "async", "unsafe", "extern", "default", "\"\""];
            known.contains(w) || w.starts_with("pub") || w.ends_with(')')
        };
        let Some(name) = words
            .get(word + 1)
            .filter(|_| words[..word].iter().all(before))
        else {
            continue;
        };
        // A body ends with a line of one brace below the function's first letter, a declaration
        // with that of its parameters.
        let inner = &line[..line.len() - begins.len()];
        let ends = |l: &&str| {
            let own = l.strip_prefix(inner).unwrap_or_default();
            own == "}" || own.starts_with(')') && own.ends_with(';')
        };
        let length = match line.ends_with(['}', ';']) {
            true => 1,
            false => 1 + lines[at..].iter().take_while(|l| !ends(l)).count(),
        };
        let named = name.split(|c| !is_word(c)).next().unwrap_or_default();
        found.push((named.to_owned(), length));
    }
    found
}

#[test]
fn functions_are_short() {
    let (mut all, mut long) = (0, Vec::new());
    for (file, path) in sources() {
        for (name, length) in functions(&code(&path)) {
            all += 1;
            if length > LONGEST_FUNCTION {
                long.push(format!("{file}: {name}, {length} lines"));
            }
        }
    }
    assert!(all > 8000, "only {all} functions were found");
    assert!(
        long.is_empty(),
        "functions of more than {LONGEST_FUNCTION} lines: {long:#?}"
    );
}

#[test]
fn lengths_of_functions_are_those_of_their_text() {
    let text = "fn a() {}\nimpl B {\n    pub const unsafe fn b<T>(\n        x: T,\n    ) -> T {\n        {\n            x\n        }\n    }\n}\ntrait C {\n    fn c(&self);\n    fn d(\n    );\n    fn e();\n}\n";
    let of = |name: &str, length| (name.to_owned(), length);
    let all = [of("a", 1), of("b", 7), of("c", 1), of("d", 2), of("e", 1)];
    assert_eq!(functions(text), all);
}
