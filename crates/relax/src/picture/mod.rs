//! Functions as pictures: operators, what flows between them, and what belongs together.

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

/// What a node stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A parameter, of the function or of one within it.
    Param,
    /// A constant that is no number.
    Constant,
    /// A call, or another expression.
    Call,
    /// The result.
    Result,
}

/// Something that is computed, or given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it stands for.
    pub role: Role,
    /// The operator, `%x`, `@f`.
    pub label: String,
    /// Attributes, and arguments that are numbers; may be empty.
    pub detail: String,
    /// The type; empty where it is not known.
    pub ty: String,
    /// The group that it is in.
    pub group: Option<usize>,
}

/// A value that goes from one node into another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Where it comes from.
    pub from: usize,
    /// Where it goes to: a node after that one.
    pub to: usize,
    /// Which part of a tuple it is, `.0`; empty for the whole.
    pub label: String,
}

/// What belongs together: a fused group, a dataflow block, a branch, a function in a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What it is.
    pub label: String,
    /// The group that it is in, one before it.
    pub parent: Option<usize>,
}

/// A function as a graph.
///
/// Invariant: edges go from nodes to later ones, groups are in earlier ones.
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
    /// What is computed, in an order in which it can be.
    pub nodes: Vec<Node>,
    /// What goes where.
    pub edges: Vec<Edge>,
    /// What belongs together.
    pub groups: Vec<Group>,
}

impl Graph {
    /// The graph of a function of a module; what is no function has an empty one. With `types`
    /// nodes have types.
    #[must_use]
    pub fn of(
        module: &relax_ir::Module,
        function: GlobalId,
        types: Option<&dyn TypeSource>,
    ) -> Graph {
        walk::graph(module, function, types)
    }

    /// The same with each repeated stretch of operators, as the layers of a network are, once: in a
    /// group that says how often it comes.
    #[must_use]
    pub fn folded(&self) -> Graph {
        fold::folded(self)
    }

    /// In the language of Graphviz.
    #[must_use]
    pub fn dot(&self) -> String {
        dot::text(self)
    }

    /// As a flowchart of Mermaid, which pages in Markdown show.
    #[must_use]
    pub fn mermaid(&self) -> String {
        mermaid::text(self)
    }

    /// As a picture.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::text(self)
    }

    /// Calls `look` with what stands within what, in order: groups when they open and close, and
    /// nodes.
    fn nested(&self, mut look: impl FnMut(Nest)) {
        // Of each group, what is in it: looked up once.
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

/// What a walk over groups meets.
#[derive(Clone, Copy, Debug)]
enum Nest {
    Open(usize),
    Node(usize),
    Close,
}

impl Module {
    /// A function as a graph, with types: the one of that name, or `main`, or the only one.
    ///
    /// # Errors
    /// There is none.
    pub fn graph(&self, function: Option<&str>) -> Result<Graph, Error> {
        let id = self.find(function)?;
        let typed = TypedModule {
            module: &self.ir,
            typing: &self.typing,
        };
        Ok(Graph::of(&self.ir, id, Some(&typed)))
    }
}
