//! Graphs as Mermaid flowcharts.

use std::fmt::Write as _;

use super::{Graph, Nest, Role, dot::lines};

/// Quotes a text, with entities for the characters that Mermaid or HTML would interpret.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '#' | '<' | '>' | '&' | '`' | '[' | ']' | '{' | '}' | '\\' | '|' => {
                let _ = write!(out, "#{};", u32::from(c));
            }
            '\n' => out.push_str("<br>"),
            c => out.push(c),
        }
    }
    out + "\""
}

pub fn text(graph: &Graph) -> String {
    let mut out = String::from("flowchart TD\n");
    graph.nested(|part| {
        let _ = match part {
            Nest::Open(g) => {
                writeln!(out, "  subgraph g{g} [{}]", quoted(&graph.groups[g].label))
            }
            Nest::Close => writeln!(out, "  end"),
            Nest::Node(n) => {
                let node = &graph.nodes[n];
                let label = quoted(&lines(node).join("\n"));
                let (open, close) = match node.role {
                    Role::Call => ("[", "]"),
                    Role::Param => ("([", "])"),
                    Role::Constant => ("[(", ")]"),
                    Role::Result => ("[[", "]]"),
                };
                writeln!(out, "  n{n}{open}{label}{close}")
            }
        };
    });
    for edge in &graph.edges {
        let label = match edge.label.is_empty() {
            true => String::new(),
            false => format!("|{}|", quoted(&edge.label)),
        };
        let _ = writeln!(out, "  n{} -->{label} n{}", edge.from, edge.to);
    }
    out
}
