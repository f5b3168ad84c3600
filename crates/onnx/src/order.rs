//! The order in which a graph's nodes are translated.
//!
//! ONNX asks that a node stands after those whose results it takes. Tools that insert nodes append
//! them (converters to float16 do so with their casts), and runtimes accept what they write.

use rustc_hash::FxHashMap;

use crate::proto::NodeProto;

/// Returns the nodes with every one after those whose results it takes. Otherwise they stay in their
/// order, and all do if some take each other's results, of which there is no order.
pub fn ordered(nodes: &[NodeProto]) -> Vec<&NodeProto> {
    let mut givers: FxHashMap<&str, usize> = FxHashMap::default();
    for (i, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            givers.entry(name).or_insert(i);
        }
    }
    let needs = |i: usize| -> Vec<usize> {
        let names = taken(&nodes[i]);
        names.filter_map(|name| givers.get(name).copied()).collect()
    };
    let mut met = vec![false; nodes.len()];
    let mut done = vec![false; nodes.len()];
    let mut out = Vec::with_capacity(nodes.len());
    for first in 0..nodes.len() {
        if std::mem::replace(&mut met[first], true) {
            continue;
        }
        // What is open waits for the first nodes of its list; the list is in reverse.
        let mut open = vec![(first, reversed(needs(first)))];
        while let Some((node, rest)) = open.last_mut() {
            match rest.pop() {
                Some(next) if !std::mem::replace(&mut met[next], true) => {
                    open.push((next, reversed(needs(next))));
                }
                Some(next) if !done[next] => return nodes.iter().collect(),
                Some(_) => {}
                None => {
                    done[*node] = true;
                    out.push(&nodes[*node]);
                    open.pop();
                }
            }
        }
    }
    out
}

fn reversed(mut list: Vec<usize>) -> Vec<usize> {
    list.reverse();
    list
}

/// Returns the names that a node takes, including what graphs in its attributes take from around
/// them. Names that such a graph gives itself are among them: no name is given twice.
fn taken(node: &NodeProto) -> impl Iterator<Item = &str> {
    let mut names: Vec<&str> = Vec::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        names.extend(node.input.iter().map(String::as_str));
        for graph in node.attribute.iter().filter_map(|a| a.g.as_ref()) {
            names.extend(graph.output.iter().map(|o| o.name.as_str()));
            open.extend(&graph.node);
        }
    }
    names.into_iter()
}
