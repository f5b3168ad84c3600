//! Folding of repeated layers: a sequence of nodes that occurs several times in a row, each time on
//! the previous one's outputs, is drawn once.

use rustc_hash::FxHashMap;
use std::hash::{Hash as _, Hasher as _};

use super::{Graph, Group, Role};

/// Folding that saves fewer nodes than this does not make a picture clearer.
const WORTH: usize = 6;
/// The limit on comparisons in the search for repetitions.
const MOST: usize = 20_000_000;
/// The limit on folding rounds, for repetitions within repetitions.
const ROUNDS: usize = 8;
/// Graphs with deeper nested groups are left as they are.
const DEEPEST: usize = 64;

/// A repeated sequence of computed nodes: its start in the order, its length, and the number of
/// repetitions.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: usize,
    length: usize,
    times: usize,
}

/// Returns the graph with each repeated sequence drawn once, in a box labelled with the number of
/// repetitions.
pub fn folded(graph: &Graph) -> Graph {
    let mut out = graph.clone();
    for _ in 0..ROUNDS {
        let order = computed(&out);
        let Some(stretch) = longest(&out, &order) else {
            break;
        };
        match fold(&out, &order, stretch) {
            Some(smaller) => out = smaller,
            None => break,
        }
    }
    out
}

/// Returns the nodes other than parameters and the result.
fn computed(graph: &Graph) -> Vec<usize> {
    let all = graph.nodes.iter().enumerate();
    all.filter(|(_, n)| n.role == Role::Call)
        .map(|(i, _)| i)
        .collect()
}

/// Returns a hash of each node apart from where its inputs come from: nodes with different hashes
/// cannot correspond.
fn looks(graph: &Graph, order: &[usize], inputs: &[Vec<usize>]) -> Vec<u64> {
    let hash = |&node: &usize| {
        let n = &graph.nodes[node];
        let mut h = rustc_hash::FxHasher::default();
        (&n.label, &n.detail, &n.ty).hash(&mut h);
        for &edge in &inputs[node] {
            let from = &graph.nodes[graph.edges[edge].from];
            graph.edges[edge].label.hash(&mut h);
            (from.role == Role::Call).hash(&mut h);
            if from.role != Role::Call {
                from.ty.hash(&mut h);
            }
        }
        h.finish()
    };
    order.iter().map(hash).collect()
}

/// Returns the incoming edges of each node.
fn inputs(graph: &Graph) -> Vec<Vec<usize>> {
    let mut inputs = vec![Vec::new(); graph.nodes.len()];
    for (i, edge) in graph.edges.iter().enumerate() {
        inputs[edge.to].push(i);
    }
    inputs
}

/// Finds the repetition whose folding saves the most nodes.
fn longest(graph: &Graph, order: &[usize]) -> Option<Stretch> {
    let inputs = inputs(graph);
    let looks = looks(graph, order, &inputs);
    let at: FxHashMap<usize, usize> = order.iter().enumerate().map(|(i, &n)| (n, i)).collect();
    // Whether two nodes correspond in consecutive repetitions: their inputs have the same relative
    // positions, or are the same nodes.
    let alike = |i: usize, j: usize| {
        let pairs = inputs[order[i]].iter().zip(&inputs[order[j]]);
        looks[i] == looks[j]
            && pairs.into_iter().all(|(&a, &b)| {
                let (a, b) = (graph.edges[a].from, graph.edges[b].from);
                match (at.get(&a), at.get(&b)) {
                    (Some(a), Some(b)) => a == b || b - a.min(b) == j - i,
                    _ => true,
                }
            })
    };
    let n = order.len();
    let mut best: Option<Stretch> = None;
    let saved = |s: Stretch| s.length * (s.times - 1);
    let lengths = (1..=n / 2).take(MOST / n.max(1));
    for length in lengths {
        // Shorter remainders cannot save more.
        if best.is_some_and(|b| saved(b) >= n - length) {
            break;
        }
        let mut run = 0;
        for i in 0..=n - length {
            if i + length < n && alike(i, i + length) {
                run += 1;
                continue;
            }
            let times = run / length + 1;
            let stretch = Stretch {
                start: i - run,
                length,
                times,
            };
            let enough = times >= 2 && saved(stretch) >= WORTH;
            if enough && best.is_none_or(|b| saved(b) < saved(stretch)) {
                best = Some(stretch);
            }
            run = 0;
        }
    }
    best
}

/// Draws a repetition once; returns `None` if group boundaries prevent it.
fn fold(graph: &Graph, order: &[usize], s: Stretch) -> Option<Graph> {
    let first = &order[s.start..s.start + s.length];
    let others = &order[s.start + s.length..s.start + s.length * s.times];
    let parent = outside(graph, first, others)?;
    // Users of a later repetition's outputs use the box instead.
    let mut stands: FxHashMap<usize, usize> = FxHashMap::default();
    for (i, &node) in others.iter().enumerate() {
        stands.insert(node, first[i % s.length]);
    }
    let gone = |n: usize| stands.contains_key(&n);
    // Inputs that only later repetitions use are dropped too.
    let mut kept = vec![false; graph.nodes.len()];
    let mut taken = vec![false; graph.nodes.len()];
    for edge in &graph.edges {
        kept[edge.from] |= !gone(edge.to);
        taken[edge.from] = true;
    }
    let stays = |n: usize| !gone(n) && (graph.nodes[n].role == Role::Call || kept[n] || !taken[n]);
    let mut out = Graph {
        name: graph.name.clone(),
        ..Graph::default()
    };
    let inside = |g: usize| {
        first
            .iter()
            .any(|&n| within(graph, graph.nodes[n].group, g))
    };
    let held: Vec<bool> = (0..graph.groups.len())
        .map(|g| graph.groups[g].parent == parent && Some(g) != parent && inside(g))
        .collect();
    let place = held.iter().position(|&h| h).unwrap_or(graph.groups.len());
    let moved = |g: usize| if g < place { g } else { g + 1 };
    for (g, group) in graph.groups.iter().enumerate() {
        if g == place {
            out.groups.push(around(s, parent));
        }
        out.groups.push(Group {
            label: group.label.clone(),
            parent: match held[g] {
                true => Some(place),
                false => group.parent.map(moved),
            },
        });
    }
    if place == graph.groups.len() {
        out.groups.push(around(s, parent));
    }
    let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
    for (n, node) in graph.nodes.iter().enumerate().filter(|(n, _)| stays(*n)) {
        numbers.insert(n, out.nodes.len());
        let mut node = node.clone();
        let own = first.contains(&n) && node.group == parent;
        node.group = if own {
            Some(place)
        } else {
            node.group.map(moved)
        };
        out.nodes.push(node);
    }
    for edge in &graph.edges {
        let from = stands.get(&edge.from).copied().unwrap_or(edge.from);
        let (Some(&from), Some(&to)) = (numbers.get(&from), numbers.get(&edge.to)) else {
            continue;
        };
        let mut edge = edge.clone();
        (edge.from, edge.to) = (from, to);
        if from < to && !out.edges.contains(&edge) {
            out.edges.push(edge);
        }
    }
    Some(out)
}

fn around(s: Stretch, parent: Option<usize>) -> Group {
    Group {
        label: format!("{} ×", s.times),
        parent,
    }
}

/// Returns whether a group is `other` or nested in it.
fn within(graph: &Graph, group: Option<usize>, other: usize) -> bool {
    let mut at = group;
    while let Some(g) = at {
        if g == other {
            return true;
        }
        at = graph.groups[g].parent.filter(|_| g > other);
    }
    false
}

/// Returns the innermost group around all repetitions, provided that each group inside it holds
/// nodes of one repetition only.
fn outside(graph: &Graph, first: &[usize], others: &[usize]) -> Option<Option<usize>> {
    // The groups around a node, outermost first.
    let chain = |n: usize| {
        let mut chain = Vec::new();
        let mut at = graph.nodes[n].group;
        while let Some(g) = at {
            chain.push(g);
            at = graph.groups[g].parent;
            if chain.len() > DEEPEST {
                return None;
            }
        }
        chain.reverse();
        Some(chain)
    };
    let whole = first.iter().chain(others).map(|&n| chain(n));
    let whole: Vec<Vec<usize>> = whole.collect::<Option<_>>()?;
    let depth = whole.iter().map(Vec::len).min()?;
    let common = (0..depth)
        .take_while(|&d| whole.iter().all(|c| c[d] == whole[0][d]))
        .count();
    let parent = common.checked_sub(1).map(|d| whole[0][d]);
    // A nested group that crosses the end of a repetition would be split.
    let time = |i: usize| i / first.len();
    let mut times: FxHashMap<usize, usize> = FxHashMap::default();
    let mut members: FxHashMap<usize, usize> = FxHashMap::default();
    for (i, c) in whole.iter().enumerate() {
        for &g in &c[common..] {
            *members.entry(g).or_insert(0) += 1;
            if *times.entry(g).or_insert(time(i)) != time(i) {
                return None;
            }
        }
    }
    let own = |g: usize| {
        let nodes = graph.nodes.iter();
        nodes
            .filter(|n| n.role == Role::Call && within(graph, n.group, g))
            .count()
    };
    let firsts = times.iter().filter(|t| *t.1 == 0);
    let whole_groups = firsts.into_iter().all(|(&g, _)| own(g) == members[&g]);
    whole_groups.then_some(parent)
}
