//! Functions as pictures: operators, the data flow between them, and their grouping.

mod dot;
mod fold;
mod layers;
mod mermaid;
mod nest;
mod svg;
mod walk;

#[cfg(feature = "native")]
pub(crate) use svg::escaped;
#[cfg(feature = "native")]
pub(crate) use walk::cut;

use relax_ir::GlobalId;

use crate::{Error, Module, TypeSource, TypedModule};

/// The role of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A parameter, of the function or of a nested one.
    Param,
    /// A non-scalar constant.
    Constant,
    /// A call, or another expression.
    Call,
    /// The result.
    Result,
}

/// A node: a computed value, or an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The role.
    pub role: Role,
    /// The label: an operator, `%x`, `@f`.
    pub label: String,
    /// Attributes, and scalar arguments; may be empty.
    pub detail: String,
    /// The type; empty if unknown.
    pub ty: String,
    /// The group that contains it.
    pub group: Option<usize>,
}

/// A data-flow edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The producer.
    pub from: usize,
    /// The consumer, a later node.
    pub to: usize,
    /// The tuple field that is used, `.0`; empty for the whole value.
    pub label: String,
}

/// A group of nodes: a fused group, a dataflow block, a branch, a nested function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The label.
    pub label: String,
    /// The enclosing group, an earlier one.
    pub parent: Option<usize>,
}

/// A function as a graph.
///
/// Invariant: edges go from nodes to later ones, a group's parent precedes it.
///
/// ```
/// let module = relax::Module::parse("def @main(%x: Tensor[(n,), float32]) { exp(%x) + 1f }")?;
/// let graph = module.graph(None)?;
/// assert_eq!(graph.nodes.len(), 4);
/// assert!(graph.dot().starts_with("digraph"));
/// assert!(graph.svg().starts_with("<svg"));
/// # Ok::<(), relax::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Graph {
    /// The function's name.
    pub name: String,
    /// The nodes, in topological order.
    pub nodes: Vec<Node>,
    /// The edges.
    pub edges: Vec<Edge>,
    /// The groups.
    pub groups: Vec<Group>,
}

impl Graph {
    /// Builds the graph of a module's function; empty if `e` is not a function. With `types`, nodes
    /// show their types.
    #[must_use]
    pub fn of(
        module: &relax_ir::Module,
        function: GlobalId,
        types: Option<&dyn TypeSource>,
    ) -> Graph {
        walk::graph(module, function, types)
    }

    /// Folds repeated sequences of operators, such as the layers of a network: each is drawn once,
    /// in a group labelled with the number of repetitions.
    #[must_use]
    pub fn folded(&self) -> Graph {
        fold::folded(self)
    }

    /// Renders the graph in Graphviz's DOT language.
    #[must_use]
    pub fn dot(&self) -> String {
        dot::text(self)
    }

    /// Renders the graph as a Mermaid flowchart, which Markdown viewers show.
    #[must_use]
    pub fn mermaid(&self) -> String {
        mermaid::text(self)
    }

    /// Renders the graph as an SVG image.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::text(self)
    }

    /// Visits the nesting in order: groups when they open and close, and nodes.
    fn nested(&self, mut look: impl FnMut(Nest)) {
        // The contents of each group, computed once.
        let mut inside: Vec<Vec<Nest>> = vec![Vec::new(); self.groups.len()];
        let mut outer = Vec::new();
        for (g, group) in self.groups.iter().enumerate() {
            match group.parent {
                Some(p) => inside[p].push(Nest::Open(g)),
                None => outer.push(Nest::Open(g)),
            }
        }
        for (n, node) in self.nodes.iter().enumerate() {
            match node.group {
                Some(g) => inside[g].push(Nest::Node(n)),
                None => outer.push(Nest::Node(n)),
            }
        }
        let mut work: Vec<Nest> = outer.into_iter().rev().collect();
        while let Some(part) = work.pop() {
            look(part);
            if let Nest::Open(g) = part {
                work.push(Nest::Close);
                work.extend(std::mem::take(&mut inside[g]).into_iter().rev());
            }
        }
    }
}

/// An event of the traversal of nested groups.
#[derive(Clone, Copy, Debug)]
enum Nest {
    Open(usize),
    Node(usize),
    Close,
}

impl Module {
    /// Returns the graph, with types, of the named function, or of `main` or the only function.
    ///
    /// # Errors
    /// The function does not exist.
    pub fn graph(&self, function: Option<&str>) -> Result<Graph, Error> {
        let id = self.find(function)?;
        let typed = TypedModule {
            module: &self.ir,
            typing: &self.typing,
        };
        Ok(Graph::of(&self.ir, id, Some(&typed)))
    }
}
