//! Folding of consecutive identical layers into one function that is called for each.
//!
//! Lines are equal when their texts are, up to variables. A sequence of lines that repeats
//! immediately is a layer if the variables have corresponding roles in each instance: values that a
//! layer takes from outside become parameters, values used outside become results. Nested functions
//! are part of a line's text and stay in place.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cx::{Cx, Line, mentioned, with_mentions};
use crate::names::{Names, readable};

/// The minimum number of lines in a layer.
const LEAST: usize = 6;
/// The maximum number of lines in a layer.
const LONGEST: usize = 4096;
/// The limit on functions created.
const MOST: usize = 32;
/// The limit on candidate start positions.
const BEGINNINGS: usize = 256;

/// A run of repeated lines: start, length, and number of repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    start: usize,
    len: usize,
    times: usize,
}

impl Run {
    fn instance(&self, k: usize) -> std::ops::Range<usize> {
        let from = self.start + k * self.len;
        from..from + self.len
    }
    fn end(&self) -> usize {
        self.start + self.len * self.times
    }
    fn saved(&self) -> usize {
        self.len * (self.times - 1)
    }
}

/// A layer: the arguments of each instance, and the lines whose values are used outside.
struct Layer {
    run: Run,
    /// For each parameter, the argument of each instance.
    params: Vec<Vec<u32>>,
    /// The lines whose values are used outside.
    results: Vec<usize>,
}

/// Folds repeated layers of lines in place, where `result` is computed from them. Returns the texts
/// of the functions.
pub fn fold(cx: &mut Cx, lines: &mut Vec<Line>, result: &str) -> Vec<String> {
    let mut functions = Vec::new();
    let mut names = Names::default();
    names.unique("main".into());
    let mut shapes = FxHashMap::default();
    while functions.len() < MOST {
        let forms: Vec<usize> = lines.iter().map(|l| form(&mut shapes, &l.text)).collect();
        let Some(layer) = longest(cx, lines, &forms, result) else {
            break;
        };
        functions.push(write(cx, lines, &layer, &mut names));
    }
    functions
}

/// Returns a number for a line's text up to variables.
fn form(known: &mut FxHashMap<String, usize>, text: &str) -> usize {
    let next = known.len();
    *known
        .entry(with_mentions(text, |_| String::new()))
        .or_insert(next)
}

/// Returns the layer whose folding saves the most lines.
fn longest(cx: &Cx, lines: &[Line], forms: &[usize], result: &str) -> Option<Layer> {
    let mut runs = Vec::new();
    for len in LEAST..=(lines.len() / 2).min(LONGEST) {
        let mut same = 0;
        for i in 0..=lines.len() - len {
            if i + len < lines.len() && forms[i] == forms[i + len] {
                same += 1;
                continue;
            }
            if same >= len {
                let times = same / len + 1;
                runs.push((
                    Run {
                        start: i - same,
                        len,
                        times,
                    },
                    same % len,
                ));
            }
            same = 0;
        }
    }
    runs.sort_by_key(|(r, _)| (std::cmp::Reverse(r.saved()), r.len));
    let taken = taken_by(lines, result);
    let mut tries = 0;
    for (run, spare) in runs {
        let best = (0..=spare)
            .take(BEGINNINGS)
            .filter_map(|by| {
                tries += 1;
                let start = run.start + by;
                let layer = isomorphic(cx, lines, Run { start, ..run }, &taken)?;
                let begins = start == 0 || lines[start].scope != lines[start - 1].scope;
                let cost = 2 * layer.results.len() + layer.params.len() + usize::from(!begins);
                Some((cost, layer))
            })
            .min_by_key(|(cost, _)| *cost);
        if let Some((_, layer)) = best {
            return Some(layer);
        }
        if tries > 16 * BEGINNINGS {
            return None;
        }
    }
    None
}

/// Returns the last line that uses each variable; the result comes after all lines.
fn taken_by(lines: &[Line], result: &str) -> FxHashMap<u32, usize> {
    let mut taken = FxHashMap::default();
    for (i, line) in lines.iter().enumerate() {
        for id in mentioned(&line.text) {
            taken.insert(id, i);
        }
    }
    for id in mentioned(result) {
        taken.insert(id, lines.len());
    }
    taken
}

/// Returns the layer of a run, if its variables have corresponding roles.
fn isomorphic(cx: &Cx, lines: &[Line], run: Run, taken: &FxHashMap<u32, usize>) -> Option<Layer> {
    let outer: FxHashMap<u32, usize> = lines.iter().enumerate().map(|(i, l)| (l.id, i)).collect();
    let mut params: Vec<Vec<u32>> = Vec::new();
    let mut known: FxHashMap<Vec<u32>, usize> = FxHashMap::default();
    // Variables of functions within a line, and their counterparts in the other instances.
    let mut inner: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    let mut backwards: FxHashMap<(usize, u32), u32> = FxHashMap::default();
    for at in 0..run.len {
        let mut mentions: Vec<_> = (0..run.times)
            .map(|k| mentioned(&lines[run.start + k * run.len + at].text))
            .collect();
        while let Some(first) = mentions[0].next() {
            let mut slot = vec![first];
            for other in &mut mentions[1..] {
                slot.push(other.next()?);
            }
            let place = |k: usize| {
                let i = *outer.get(&slot[k])?;
                run.instance(k)
                    .contains(&i)
                    .then(|| i - run.instance(k).start)
            };
            if let Some(own) = place(0) {
                if (1..run.times).any(|k| place(k) != Some(own)) {
                    return None;
                }
            } else if (0..run.times).any(|k| place(k).is_some()) {
                return None;
            } else if outer.contains_key(&first) || cx.type_of(first).is_some() {
                if !known.contains_key(&slot) {
                    let ty = cx.type_of(first)?;
                    if slot.iter().any(|&v| cx.type_of(v).as_deref() != Some(&*ty)) {
                        return None;
                    }
                    known.insert(slot.clone(), params.len());
                    params.push(slot);
                }
            } else {
                if slot
                    .iter()
                    .any(|v| outer.contains_key(v) || cx.type_of(*v).is_some())
                {
                    return None;
                }
                for (k, &v) in slot.iter().enumerate().skip(1) {
                    if *backwards.entry((k, v)).or_insert(first) != first {
                        return None;
                    }
                }
                if *inner.entry(first).or_insert_with(|| slot.clone()) != slot {
                    return None;
                }
            }
        }
    }
    let results: Vec<usize> = (0..run.len)
        .filter(|at| {
            (0..run.times).any(|k| {
                let range = run.instance(k);
                let last = taken.get(&lines[range.start + at].id);
                last.is_some_and(|&last| last >= range.end)
            })
        })
        .collect();
    // A function that is used outside its layer has no type here.
    let leaves = |at: &usize| cx.type_of(lines[run.start + at].id).is_some();
    (!results.is_empty() && results.iter().all(leaves)).then_some(Layer {
        run,
        params,
        results,
    })
}

/// Emits a layer's function, and calls in place of its instances.
fn write(cx: &mut Cx, lines: &mut Vec<Line>, layer: &Layer, names: &mut Names) -> String {
    let run = layer.run;
    let (first, second) = (run.instance(0), run.instance(1));
    let (what, depth) = called(&lines[first.clone()], &lines[second.clone()]);
    let name = names.unique(what);
    // Inside, variables are named by what the instances' names have in common.
    let mut renamed: FxHashMap<u32, u32> = FxHashMap::default();
    let mut header = String::new();
    for slot in &layer.params {
        let ty = cx.type_of(slot[0]).unwrap_or_default();
        let id = like_both(cx, slot[0], slot[1]);
        header.push_str(&format!("  {}: {ty},\n", Cx::mention(id)));
        // Several parameters may receive the same value.
        renamed.entry(slot[0]).or_insert(id);
    }
    for (a, b) in first.clone().zip(second) {
        let id = like_both(cx, lines[a].id, lines[b].id);
        renamed.insert(lines[a].id, id);
    }
    let bodies = bodies(lines, layer, &renamed, cx, &header);
    let scopes: Vec<&str> = (0..run.times)
        .map(|k| part(&lines[run.instance(k).start].scope, depth))
        .collect();
    let distinct: FxHashSet<&str> = scopes.iter().copied().filter(|s| !s.is_empty()).collect();
    let mut text = format!("// Called {} times", run.times);
    if distinct.len() > 1 {
        text.push_str(&format!(", for {}", scopes.join(", ")));
    }
    text.push_str(&format!(".\ndef @{name}(\n{header}) {{\n"));
    let mut scope: Rc<str> = "".into();
    for (i, body) in first.clone().zip(&bodies) {
        let own = &lines[i].scope;
        if *own != scope && !own.is_empty() {
            let inside = below(own, depth);
            if !inside.is_empty() {
                text.push_str(&format!("// {inside}\n"));
            }
        }
        scope = Rc::clone(own);
        let id = renamed[&lines[i].id];
        text.push_str(&format!("let {} = {body};\n", Cx::mention(id)));
    }
    let given: Vec<String> = (layer.results.iter())
        .map(|at| Cx::mention(renamed[&lines[run.start + at].id]))
        .collect();
    match given.as_slice() {
        [one] => text.push_str(one),
        _ => text.push_str(&format!("({})", given.join(", "))),
    }
    text.push_str("\n}\n\n");
    let calls = (0..run.times).flat_map(|k| call(cx, lines, layer, k, &name, depth));
    let calls: Vec<Line> = calls.collect();
    lines.splice(run.start..run.end(), calls);
    text
}

/// Returns the lines that call a layer in place of an instance.
fn call(
    cx: &mut Cx,
    lines: &[Line],
    layer: &Layer,
    k: usize,
    name: &str,
    depth: usize,
) -> Vec<Line> {
    let from = layer.run.instance(k).start;
    let scope = &lines[from].scope;
    let scope: Rc<str> = match scope.split('/').nth(depth) {
        Some(_) => scope
            .split('/')
            .take(depth + 1)
            .collect::<Vec<_>>()
            .join("/")
            .into(),
        None => "".into(),
    };
    let args: Vec<String> = layer
        .params
        .iter()
        .map(|slot| Cx::mention(slot[k]))
        .collect();
    let text = format!("@{name}({})", args.join(", "));
    let line = |id: u32, text: String| Line {
        id,
        text,
        scope: Rc::clone(&scope),
    };
    if let [one] = layer.results.as_slice() {
        return vec![line(lines[from + one].id, text)];
    }
    let both = cx.variable();
    let mut out = vec![line(both, text)];
    for (i, at) in layer.results.iter().enumerate() {
        let field = format!("{}.{i}", Cx::mention(both));
        out.push(line(lines[from + at].id, field));
    }
    out
}

/// Returns the texts of a layer's lines with its own variables: each variable of the first instance
/// is replaced by the parameter of its slot, in the header, or by the inner variable.
fn bodies(
    lines: &[Line],
    layer: &Layer,
    renamed: &FxHashMap<u32, u32>,
    cx: &mut Cx,
    header: &str,
) -> Vec<String> {
    let run = layer.run;
    let ids: Vec<u32> = mentioned(header).collect();
    let slots: FxHashMap<&[u32], u32> = (layer.params.iter())
        .zip(ids)
        .map(|(slot, id)| (slot.as_slice(), id))
        .collect();
    let mut bodies = Vec::new();
    let mut inner: FxHashMap<u32, u32> = FxHashMap::default();
    for at in 0..run.len {
        let mut others: Vec<_> = (1..run.times)
            .map(|k| mentioned(&lines[run.instance(k).start + at].text))
            .collect();
        let text = with_mentions(&lines[run.start + at].text, |id| {
            let mut slot = vec![id];
            slot.extend(others.iter_mut().filter_map(Iterator::next));
            let own = slots
                .get(slot.as_slice())
                .or_else(|| renamed.get(&id))
                .copied();
            let own = own.unwrap_or_else(|| *inner.entry(id).or_insert_with(|| cx.alike(id)));
            Cx::mention(own)
        });
        bodies.push(text);
    }
    bodies
}

/// Creates a variable named by what two variables' names have in common.
fn like_both(cx: &mut Cx, a: u32, b: u32) -> u32 {
    let name = {
        let (x, y) = (cx.hint_of(a), cx.hint_of(b));
        common(&x, &y)
    };
    let id = cx.alike(a);
    if let Some(name) = name {
        cx.rename(id, &name);
    }
    id
}

/// Returns what two names have in common: a common prefix and suffix.
fn common(a: &str, b: &str) -> Option<String> {
    if a == b {
        return None;
    }
    let (x, y): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let digit = |c: &&char| c.is_ascii_digit();
    let mut front = x.iter().zip(&y).take_while(|(p, q)| p == q).count();
    // Numbers differ as a whole.
    front -= x[..front].iter().rev().take_while(digit).count();
    let rest = x.len().min(y.len()) - front;
    let (p, q) = (x.iter().rev(), y.iter().rev());
    let mut back = p.zip(q).take(rest).take_while(|(p, q)| p == q).count();
    back -= x[x.len() - back..].iter().take_while(digit).count();
    let kept: String = x[..front].iter().chain(&x[x.len() - back..]).collect();
    let name = kept
        .split('_')
        .filter(|p| !p.is_empty())
        .collect::<Vec<_>>()
        .join("_");
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic());
    named.then(|| readable(&name, "v"))
}

/// Returns the name of the function for two instances, and the index of the scope part in which
/// they differ.
fn called(a: &[Line], b: &[Line]) -> (String, usize) {
    for (x, y) in a.iter().zip(b) {
        let parts = x.scope.split('/').zip(y.scope.split('/'));
        for (depth, (p, q)) in parts.enumerate() {
            if p != q {
                let name = p.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
                let name = readable(name, "layer");
                return (
                    if name.is_empty() {
                        "layer".into()
                    } else {
                        name
                    },
                    depth,
                );
            }
        }
    }
    ("layer".into(), usize::MAX)
}

/// Returns one part of a scope.
fn part(scope: &str, depth: usize) -> &str {
    scope.split('/').nth(depth).unwrap_or_default()
}

/// Returns a scope without the part in which the instances differ, and those around it.
fn below(scope: &str, depth: usize) -> String {
    scope
        .split('/')
        .skip(depth.saturating_add(1))
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_what_they_have_in_common() {
        let both = |a, b| common(a, b);
        assert_eq!(
            both("layer_0_attn_w", "layer_1_attn_w").as_deref(),
            Some("layer_attn_w")
        );
        assert_eq!(both("layer_9_w", "layer_10_w").as_deref(), Some("layer_w"));
        assert_eq!(both("w", "w"), None);
        assert_eq!(both("12", "34"), None);
    }
}
