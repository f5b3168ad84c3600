//! Graphs in Graphviz's DOT language.

use std::fmt::Write as _;

use super::{Graph, Nest, Node, Role};

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Returns the lines of a node's label: its name, its attributes, its type.
pub(super) fn lines(node: &Node) -> Vec<&str> {
    let all = [&node.label, &node.detail, &node.ty];
    all.into_iter()
        .map(String::as_str)
        .filter(|t| !t.is_empty())
        .collect()
}

pub fn text(graph: &Graph) -> String {
    let mut out = format!("digraph {} {{\n", quoted(&graph.name));
    out.push_str("  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\", fontsize=10];\n");
    out.push_str("  edge [fontname=\"sans-serif\", fontsize=9];\n");
    graph.nested(|part| {
        let _ = match part {
            Nest::Open(g) => writeln!(
                out,
                "  subgraph cluster_{g} {{ label={}; style=\"rounded,filled\"; fillcolor=\"#0000000c\";",
                quoted(&graph.groups[g].label)
            ),
            Nest::Close => writeln!(out, "  }}"),
            Nest::Node(n) => {
                let node = &graph.nodes[n];
                let more = match node.role {
                    Role::Call => "",
                    Role::Param => ", shape=ellipse",
                    Role::Constant => ", shape=cylinder",
                    Role::Result => ", shape=doubleoctagon",
                };
                writeln!(out, "  n{n} [label={}{more}];", quoted(&lines(node).join("\n")))
            }
        };
    });
    for edge in &graph.edges {
        let label = match edge.label.is_empty() {
            true => String::new(),
            false => format!(" [label={}]", quoted(&edge.label)),
        };
        let _ = writeln!(out, "  n{} -> n{}{label};", edge.from, edge.to);
    }
    out + "}\n"
}
