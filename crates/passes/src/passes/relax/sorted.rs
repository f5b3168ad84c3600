//! `topological-sort`: orders the bindings of dataflow blocks by a traversal of their dependencies.

use std::collections::VecDeque;

use relax_base::Diagnostics;
use relax_ir::{FuncId, Module, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{Bind, Code, Step, Value, each_code, each_var};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "topological-sort",
    doc: "Sorts the bindings of dataflow blocks along who needs whom.",
    options: &[
        OptionDef {
            name: "order",
            ty: OptionType::Choice(&["depth-first", "breadth-first"]),
            default: "depth-first",
            doc: "what the walk sees next",
        },
        OptionDef {
            name: "direction",
            ty: OptionType::Choice(&["from-inputs", "from-outputs"]),
            default: "from-inputs",
            doc: "where the walk begins",
        },
    ],
    contract: Contract::PLAIN,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let depth_first = cx.options.text("order") == "depth-first";
    let from_outputs = cx.options.text("direction") == "from-outputs";
    let mut sorted = 0;
    each_code(cx.module, |m, func, code| {
        if !code.seqs.iter().any(|s| s.parts.iter().any(|p| p.flow)) {
            return false;
        }
        let edges = Edges::of(m, func, code, depth_first);
        let mut changed = false;
        for part in code.seqs.iter_mut().flat_map(|s| &mut s.parts) {
            if part.flow
                && let Some(binds) = order(&edges, &part.binds, depth_first, from_outputs)
            {
                sorted += 1;
                changed = true;
                part.binds = binds;
            }
        }
        changed
    });
    cx.count("dataflow blocks sorted", sorted);
    Ok(())
}

/// A node of the traversal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Node {
    Inputs,
    Var(VarId),
    Outputs,
}

/// Uses and dependencies, in the order of the text.
#[derive(Default)]
struct Edges {
    users: FxHashMap<Node, VecDeque<Node>>,
    needs: FxHashMap<Node, VecDeque<Node>>,
}

impl Edges {
    fn of(m: &Module, func: FuncId, code: &Code, depth_first: bool) -> Edges {
        let mut edges = Edges::default();
        let mut known: FxHashSet<VarId> = FxHashSet::default();
        let mut bound = Vec::new();
        for &p in &m.funcs[func].params {
            known.insert(p);
            edges.add(Node::Inputs, Node::Var(p));
        }
        let mut user = vec![Node::Outputs; code.seqs.len()];
        for step in code.steps() {
            match step {
                Step::Bind(s, p, i) => {
                    let b = code.seqs[s].parts[p].binds[i];
                    known.insert(b.var);
                    bound.push(b.var);
                    let node = Node::Var(b.var);
                    match b.value {
                        Value::Plain(e) => edges.mentions(m, e, node, &known),
                        Value::If {
                            cond,
                            then,
                            otherwise,
                        } => {
                            edges.mentions(m, cond, node, &known);
                            (user[then], user[otherwise]) = (node, node);
                        }
                        Value::Func { func, body } => {
                            user[body] = node;
                            for &p in &m.funcs[func].params {
                                known.insert(p);
                                edges.add(Node::Inputs, Node::Var(p));
                            }
                        }
                    }
                }
                Step::Value(s) => edges.mentions(m, code.seqs[s].value, user[s], &known),
                _ => {}
            }
        }
        let first: Vec<VarId> = (bound.iter().copied())
            .filter(|v| !edges.needs.contains_key(&Node::Var(*v)))
            .collect();
        let unused: Vec<VarId> = (bound.iter().copied())
            .filter(|v| !edges.users.contains_key(&Node::Var(*v)))
            .collect();
        for v in first {
            edges.add(Node::Inputs, Node::Var(v));
        }
        for &v in unused.iter().rev() {
            let v = Node::Var(v);
            edges.needs.entry(Node::Outputs).or_default().push_front(v);
            edges.users.entry(v).or_default().push_front(Node::Outputs);
        }
        if depth_first {
            for list in edges.users.values_mut() {
                list.make_contiguous().reverse();
            }
        }
        edges
    }

    fn add(&mut self, needed: Node, user: Node) {
        self.users.entry(needed).or_default().push_back(user);
        self.needs.entry(user).or_default().push_back(needed);
    }

    fn mentions(&mut self, m: &Module, e: relax_ir::ExprId, user: Node, known: &FxHashSet<VarId>) {
        each_var(m, e, |v| {
            // A recursive function does not depend on itself.
            if known.contains(&v) && user != Node::Var(v) {
                self.add(Node::Var(v), user);
            }
        });
    }
}

/// Returns a block's bindings in traversal order; `None` if that is their current order.
fn order(
    edges: &Edges,
    binds: &[Bind],
    depth_first: bool,
    from_outputs: bool,
) -> Option<Vec<Bind>> {
    let (forward, backward, first) = if from_outputs {
        (&edges.needs, &edges.users, Node::Outputs)
    } else {
        (&edges.users, &edges.needs, Node::Inputs)
    };
    let mut left: FxHashMap<VarId, Bind> = binds.iter().map(|b| (b.var, *b)).collect();
    // The number of unvisited predecessors of each node.
    let mut waits: FxHashMap<Node, usize> = FxHashMap::default();
    let (mut seen, mut open) = (FxHashSet::default(), VecDeque::from([first]));
    let mut new = Vec::with_capacity(binds.len());
    loop {
        let next = if depth_first {
            open.pop_back()
        } else {
            open.pop_front()
        };
        let Some(node) = next else {
            break;
        };
        if !seen.insert(node) {
            continue;
        }
        if let Node::Var(v) = node
            && let Some(b) = left.remove(&v)
        {
            new.push(b);
        }
        for &next in forward.get(&node).into_iter().flatten() {
            let all = backward.get(&next).map_or(0, VecDeque::len);
            let waiting = waits.entry(next).or_insert(all);
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 && !seen.contains(&next) {
                open.push_back(next);
            }
        }
    }
    if from_outputs {
        new.reverse();
    }
    let same = new.iter().zip(binds).all(|(a, b)| a.var == b.var);
    (left.is_empty() && !same).then_some(new)
}
