//! The assignment of nodes to kernels.

use relax_ir::{ExprId, IdTable};
use relax_ops::Fusion;

/// A node that uses another, and how.
#[derive(Clone, Copy)]
struct User {
    node: u32,
    kind: Fusion,
}

/// The nodes of a function, operands first, and their users.
pub(in crate::passes) struct Graph {
    index: IdTable<ExprId, u32>,
    /// The fusion kind of each node.
    pub kind: Vec<Fusion>,
    /// Whether the node's value is needed by something other than its users.
    left: Vec<bool>,
    /// The users of all nodes, grouped by node, in order.
    users: Vec<User>,
    /// The index of each node's first user; one more at the end.
    first: Vec<u32>,
    /// The edges until [`Graph::close`]: source, target, kind.
    edges: Vec<(u32, User)>,
}

impl Graph {
    pub fn new(order: &[ExprId]) -> Graph {
        let mut index = IdTable::default();
        for (i, &e) in order.iter().enumerate() {
            index.set(e, i as u32);
        }
        Graph {
            index,
            kind: vec![Fusion::Opaque; order.len()],
            left: vec![false; order.len()],
            users: Vec::new(),
            first: Vec::new(),
            edges: Vec::new(),
        }
    }
    /// Creates a graph of nodes without expressions, which are identified by their numbers.
    pub fn numbered(kind: Vec<Fusion>) -> Graph {
        Graph {
            left: vec![false; kind.len()],
            kind,
            ..Graph::new(&[])
        }
    }
    /// [`Graph::edge`] and [`Graph::leave`] by index.
    pub fn numbered_edge(&mut self, from: usize, to: usize, kind: Fusion) {
        let node = to as u32;
        self.edges.push((from as u32, User { node, kind }));
    }
    /// See [`Graph::numbered_edge`].
    pub fn numbered_leave(&mut self, node: usize) {
        self.left[node] = true;
    }
    /// Returns the index of a node.
    pub fn of(&self, e: ExprId) -> usize {
        self.index[e] as usize
    }
    /// Gives a node the index of another, since they are the same value.
    pub fn same(&mut self, e: ExprId, as_other: ExprId) {
        self.index.set(e, self.index[as_other]);
    }
    /// Records that the value of a node leaves the dataflow of operators.
    pub fn leave(&mut self, e: ExprId) {
        let i = self.of(e);
        self.left[i] = true;
    }
    /// Records that a node uses another.
    pub fn edge(&mut self, from: ExprId, to: ExprId, kind: Fusion) {
        let node = self.index[to];
        self.edges.push((self.index[from], User { node, kind }));
    }
    /// Finishes construction: users are looked up by the node that they use.
    pub fn close(&mut self) {
        let mut first = vec![0u32; self.kind.len() + 1];
        for (from, _) in &self.edges {
            first[*from as usize + 1] += 1;
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut next = first.clone();
        let none = User {
            node: 0,
            kind: Fusion::Opaque,
        };
        self.users = vec![none; self.edges.len()];
        for (from, user) in std::mem::take(&mut self.edges) {
            let at = &mut next[from as usize];
            self.users[*at as usize] = user;
            *at += 1;
        }
        self.first = first;
    }
    /// Returns the users of a node, in order of their edges.
    fn users(&self, node: usize) -> &[User] {
        &self.users[self.first[node] as usize..self.first[node + 1] as usize]
    }
}

/// The immediate post-dominator of each node, with the kind of the paths to it.
struct Dominators {
    parent: Vec<u32>,
    depth: Vec<u32>,
    kind: Vec<Fusion>,
}

/// The parent of a node that has none.
const NONE: u32 = u32::MAX;

impl Dominators {
    fn new(graph: &Graph) -> Dominators {
        let n = graph.kind.len();
        let mut tree = Dominators {
            parent: vec![NONE; n],
            depth: vec![1; n],
            kind: vec![Fusion::Opaque; n],
        };
        // Users have higher indices than their operands.
        for i in (0..n).rev() {
            if graph.left[i] {
                continue;
            }
            let mut kind = Fusion::Elementwise;
            let mut users = graph.users(i).iter();
            let mut parent = NONE;
            if let Some(first) = users.next() {
                parent = first.node;
                kind = kind.max(first.kind);
                for user in users {
                    parent = tree.common(parent, user.node, &mut kind);
                    kind = kind.max(user.kind);
                }
            }
            tree.depth[i] = match parent {
                NONE => 1,
                p => tree.depth[p as usize] + 1,
            };
            tree.parent[i] = parent;
            tree.kind[i] = kind;
        }
        tree
    }

    /// Returns the first node that post-dominates both, or [`NONE`].
    fn common(&self, mut a: u32, mut b: u32, kind: &mut Fusion) -> u32 {
        while a != b {
            if a == NONE || b == NONE {
                return NONE;
            }
            let (x, y) = (a as usize, b as usize);
            let (da, db) = (self.depth[x], self.depth[y]);
            if da <= db {
                *kind = (*kind).max(self.kind[y]);
            }
            if db <= da {
                *kind = (*kind).max(self.kind[x]);
            }
            if db <= da {
                a = self.parent[x];
            }
            if da <= db {
                b = self.parent[y];
            }
        }
        a
    }
}

/// The groups, a forest of nodes.
pub(in crate::passes) struct Groups {
    parent: Vec<u32>,
    kind: Vec<Fusion>,
    size: Vec<u32>,
    stamp: Vec<u32>,
    now: u32,
    /// A worklist of nodes, kept for its capacity.
    stack: Vec<u32>,
}

impl Groups {
    /// Forms groups of at most `most` nodes.
    pub fn new(graph: &Graph, together: bool, most: usize) -> Groups {
        let n = graph.kind.len();
        let mut groups = Groups {
            parent: (0..n as u32).collect(),
            kind: graph.kind.clone(),
            size: vec![1; n],
            stamp: vec![0; n],
            now: 0,
            stack: Vec::new(),
        };
        if together {
            let tree = Dominators::new(graph);
            for phase in 0..3 {
                groups.phase(graph, &tree, phase, most);
            }
        }
        groups
    }

    /// Returns the representative of a node's group: its last node.
    pub fn root(&mut self, node: usize) -> usize {
        let mut root = node;
        while self.parent[root] as usize != root {
            root = self.parent[root] as usize;
        }
        let mut at = node;
        while self.parent[at] as usize != root {
            at = std::mem::replace(&mut self.parent[at], root as u32) as usize;
        }
        root
    }

    fn phase(&mut self, graph: &Graph, tree: &Dominators, phase: u32, most: usize) {
        use Fusion::{Broadcast, Elementwise, Injective, Opaque, OutElementwise, Reduction, Tuple};
        for i in 0..graph.kind.len() {
            // The group's own kind, not that of its root: nodes that joined a group keep theirs.
            let kind = self.kind[i];
            if kind == Opaque {
                continue;
            }
            if tree.parent[i] == NONE {
                continue;
            }
            let sink = tree.parent[i] as usize;
            if self.size_with(graph, i, sink, most) > most {
                continue;
            }
            if phase == 2 {
                if kind > Injective {
                    continue;
                }
                let root = self.root(sink);
                if self.kind[root] != Tuple
                    && self.kind[sink] == Tuple
                    && self.kind[root] <= Injective
                    && self.allowed(graph, i, sink, |k, _| k <= Injective)
                {
                    self.join(graph, i, sink);
                }
                continue;
            }
            if self.root(i) == self.root(sink) || self.kind[sink] == Tuple {
                continue;
            }
            let allowed = match kind {
                OutElementwise => {
                    phase == 0
                        && tree.kind[i] == Elementwise
                        && self.allowed(graph, i, sink, |k, _| k <= Broadcast)
                }
                Elementwise | Broadcast => {
                    (tree.kind[i] <= Injective || tree.kind[i] == Reduction)
                        && self.allowed(graph, i, sink, |k, last| {
                            k <= Injective || last && matches!(k, Reduction | OutElementwise)
                        })
                }
                Injective | Tuple => {
                    phase == 1 && self.allowed(graph, i, sink, |k, _| k <= Injective)
                }
                Reduction | Opaque => false,
            };
            if allowed {
                self.join(graph, i, sink);
            }
        }
    }

    /// Calls `f` for each node on a path from one node to another, both included, until it returns
    /// false.
    fn between(
        &mut self,
        graph: &Graph,
        from: usize,
        to: usize,
        mut f: impl FnMut(&mut Self, usize) -> bool,
    ) -> bool {
        self.now += 1;
        let mut stack = std::mem::take(&mut self.stack);
        stack.push(from as u32);
        let mut fine = true;
        while let Some(node) = stack.pop() {
            let node = node as usize;
            if self.stamp[node] == self.now {
                continue;
            }
            self.stamp[node] = self.now;
            if !f(self, node) {
                fine = false;
                break;
            }
            if node != to {
                stack.extend(graph.users(node).iter().map(|u| u.node));
            }
        }
        stack.clear();
        self.stack = stack;
        fine
    }

    /// Returns whether the kinds of all groups on the path allow it, including the start's.
    fn allowed(
        &mut self,
        graph: &Graph,
        from: usize,
        to: usize,
        allow: impl Fn(Fusion, bool) -> bool,
    ) -> bool {
        let start = from;
        self.between(graph, from, to, |this, node| {
            let root = this.root(node);
            node == start || allow(this.kind[root], node == to)
        })
    }

    /// Returns the size that the group would have; anything above `most` means too large.
    fn size_with(&mut self, graph: &Graph, from: usize, to: usize, most: usize) -> usize {
        let root = self.root(to);
        let mut size = self.size[root] as usize;
        self.between(graph, from, to, |this, node| {
            if node != to {
                size += this.size[node] as usize;
            }
            size <= most
        });
        size
    }

    fn join(&mut self, graph: &Graph, from: usize, to: usize) {
        let target = self.root(to);
        self.between(graph, from, to, |this, node| {
            let root = this.root(node);
            if node != to && root != target {
                this.parent[root] = target as u32;
                this.size[target] += this.size[root];
                if this.kind[root] == Fusion::OutElementwise {
                    this.kind[target] = this.kind[target].max(this.kind[root]);
                }
            }
            true
        });
    }
}
