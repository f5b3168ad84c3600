//! Graphs as SVG images.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::layers::{Place, Size};
use super::nest::{Nested, nested};
use super::walk::cut;
use super::{Graph, Node, Role, dot::lines};

/// The approximate width of a character in an 11-pixel sans-serif font.
const CHARACTER: f64 = 6.2;
const LINE: f64 = 14.0;
/// Longer lines are truncated.
const WIDEST: usize = 44;
/// Fill colours of groups, by group index.
const TINTS: &[&str] = &[
    "#ddebf7", "#e6f4e1", "#fdeedd", "#f2e5f7", "#fbe3e4", "#e2f3f3", "#f5f1d8", "#e9e9f5",
];

pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn size(node: &Node) -> Size {
    let lines = lines(node);
    let longest = lines.iter().map(|l| l.chars().count().min(WIDEST + 1));
    Size {
        width: longest.max().unwrap_or(1) as f64 * CHARACTER + 16.0,
        height: lines.len().max(1) as f64 * LINE + 8.0,
    }
}

pub fn text(graph: &Graph) -> String {
    let sizes: Vec<Size> = graph.nodes.iter().map(size).collect();
    let at = nested(graph, &sizes);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w:.0}\" height=\"{h:.0}\" viewBox=\"0 0 {w:.0} {h:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <title>@{}</title>\n\
         <defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0,0L8,4L0,8z\" fill=\"#57606a\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        escaped(&graph.name),
        w = at.size.0,
        h = at.size.1,
    );
    boxes(graph, &at, &mut out);
    edges(graph, &sizes, &at, &mut out);
    for (i, node) in graph.nodes.iter().enumerate() {
        draw(node, at.places[i], sizes[i], &mut out);
    }
    out + "</svg>\n"
}

/// Draws the boxes of groups, outer ones first.
fn boxes(graph: &Graph, at: &Nested, out: &mut String) {
    for (g, around) in at.boxes.iter().enumerate() {
        let Some([left, top, right, bottom]) = around else {
            continue;
        };
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"6\" fill=\"{}\" \
             fill-opacity=\"0.7\" stroke=\"#afb8c1\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\" \
             fill=\"#57606a\">{}</text>",
            right - left,
            bottom - top,
            TINTS[g % TINTS.len()],
            left + 6.0,
            top + 11.0,
            escaped(&cut(&graph.groups[g].label, WIDEST)),
        );
    }
}

fn edges(graph: &Graph, sizes: &[Size], at: &Nested, out: &mut String) {
    // Parallel edges between two nodes share one label.
    let mut labels: BTreeMap<(usize, usize), (Place, Vec<&str>)> = BTreeMap::new();
    for (edge, way) in graph.edges.iter().zip(&at.ways) {
        let (from, to) = (at.places[edge.from], at.places[edge.to]);
        let mut last = Place {
            x: from.x,
            y: from.y + sizes[edge.from].height,
        };
        let _ = write!(out, "<path d=\"M{:.1},{:.1}", last.x, last.y);
        // The point where the edges of a node have diverged.
        let mut parted = None;
        for &next in way.iter().chain([&to]) {
            let middle = f64::midpoint(last.y, next.y);
            if (next.x - last.x).abs() < 0.05 {
                let _ = write!(out, "L{:.1},{:.1}", next.x, next.y);
            } else {
                parted = parted.or(Some((last, next)));
                let _ = write!(
                    out,
                    "C{:.1},{middle:.1} {:.1},{middle:.1} {:.1},{:.1}",
                    last.x, next.x, next.x, next.y
                );
            }
            last = next;
        }
        out.push_str("\" fill=\"none\" stroke=\"#57606a\" marker-end=\"url(#to)\"/>\n");
        if !edge.label.is_empty() {
            let place = match parted {
                Some((a, b)) => Place {
                    x: a.x + (b.x - a.x) * 0.75,
                    y: a.y + (b.y - a.y) * 0.75,
                },
                None => Place {
                    x: to.x,
                    y: to.y - 14.0,
                },
            };
            let label = labels
                .entry((edge.from, edge.to))
                .or_insert((place, Vec::new()));
            label.1.push(&edge.label);
        }
    }
    for (place, texts) in labels.values() {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\" fill=\"#57606a\">{}</text>",
            place.x + 4.0,
            place.y + 3.0,
            escaped(&texts.join(", ")),
        );
    }
}

fn draw(node: &Node, at: Place, size: Size, out: &mut String) {
    let (fill, stroke, round) = match node.role {
        Role::Call => ("#ffffff", "#24292f", 4.0),
        Role::Param => ("#f6f8fa", "#0969da", 11.0),
        Role::Constant => ("#f6f8fa", "#8250df", 2.0),
        Role::Result => ("#f6f8fa", "#1a7f37", 11.0),
    };
    let _ = write!(
        out,
        "<g><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{round}\" fill=\"{fill}\" \
         stroke=\"{stroke}\"/>",
        at.x - size.width / 2.0,
        at.y,
        size.width,
        size.height,
    );
    for (i, line) in lines(node).into_iter().enumerate() {
        let style = match i {
            0 => "font-weight=\"bold\"",
            _ => "fill=\"#57606a\"",
        };
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" {style}>{}</text>",
            at.x,
            at.y + LINE * (i as f64 + 1.0),
            escaped(&cut(line, WIDEST)),
        );
    }
    out.push_str("</g>\n");
}
