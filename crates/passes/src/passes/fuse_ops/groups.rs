//! Which nodes stand together in one kernel.

use relax_base::SideTable;
use relax_ir::ExprId;
use relax_ops::Fusion;

/// The nodes of a function, operands first, and their users.
pub(super) struct Graph {
    index: SideTable<ExprId, u32>,
    /// How each node takes part in fusion.
    pub kind: Vec<Fusion>,
    /// Whether something beside the users in `users` needs the node's value.
    left: Vec<bool>,
    users: Vec<Vec<(usize, Fusion)>>,
}

impl Graph {
    pub fn new(order: &[ExprId]) -> Graph {
        let mut index = SideTable::default();
        for (i, &e) in order.iter().enumerate() {
            index.set(e, i as u32);
        }
        Graph {
            index,
            kind: vec![Fusion::Opaque; order.len()],
            left: vec![false; order.len()],
            users: vec![Vec::new(); order.len()],
        }
    }
    /// The number of a node.
    pub fn of(&self, e: ExprId) -> usize {
        self.index[e] as usize
    }
    /// The value of a node leaves the dataflow of operators.
    pub fn leave(&mut self, e: ExprId) {
        let i = self.of(e);
        self.left[i] = true;
    }
    /// A node uses another.
    pub fn edge(&mut self, from: ExprId, to: ExprId, kind: Fusion) {
        let (from, to) = (self.of(from), self.of(to));
        self.users[from].push((to, kind));
    }
}

/// The immediate post-dominator of each node with the kind of the paths to it.
struct Dominators {
    parent: Vec<Option<usize>>,
    depth: Vec<u32>,
    kind: Vec<Fusion>,
}

impl Dominators {
    fn new(graph: &Graph) -> Dominators {
        let n = graph.kind.len();
        let mut tree = Dominators {
            parent: vec![None; n],
            depth: vec![1; n],
            kind: vec![Fusion::Opaque; n],
        };
        // Users have higher numbers than what they use.
        for i in (0..n).rev() {
            if graph.left[i] {
                continue;
            }
            let mut kind = Fusion::Elementwise;
            let mut users = graph.users[i].iter();
            let mut parent = None;
            if let Some(&(first, edge)) = users.next() {
                parent = Some(first);
                kind = kind.max(edge);
                for &(user, edge) in users {
                    parent = tree.common(parent, Some(user), &mut kind);
                    kind = kind.max(edge);
                }
            }
            tree.depth[i] = parent.map_or(1, |p| tree.depth[p] + 1);
            tree.parent[i] = parent;
            tree.kind[i] = kind;
        }
        tree
    }

    fn common(&self, a: Option<usize>, b: Option<usize>, kind: &mut Fusion) -> Option<usize> {
        let (mut a, mut b) = (a?, b?);
        while a != b {
            let (da, db) = (self.depth[a], self.depth[b]);
            if da <= db {
                *kind = (*kind).max(self.kind[b]);
            }
            if db <= da {
                *kind = (*kind).max(self.kind[a]);
            }
            let (x, y) = (a, b);
            if db <= da {
                a = self.parent[x]?;
            }
            if da <= db {
                b = self.parent[y]?;
            }
        }
        Some(a)
    }
}

/// The groups, a forest of nodes.
pub(super) struct Groups {
    parent: Vec<usize>,
    kind: Vec<Fusion>,
    size: Vec<usize>,
    stamp: Vec<u32>,
    now: u32,
}

impl Groups {
    /// Groups of at most `most` nodes.
    pub fn new(graph: &Graph, together: bool, most: usize) -> Groups {
        let n = graph.kind.len();
        let mut groups = Groups {
            parent: (0..n).collect(),
            kind: graph.kind.clone(),
            size: vec![1; n],
            stamp: vec![0; n],
            now: 0,
        };
        if together {
            let tree = Dominators::new(graph);
            for phase in 0..3 {
                groups.phase(graph, &tree, phase, most);
            }
        }
        groups
    }

    /// The node that stands for the group of a node: its last.
    pub fn root(&mut self, node: usize) -> usize {
        let mut root = node;
        while self.parent[root] != root {
            root = self.parent[root];
        }
        let mut at = node;
        while self.parent[at] != root {
            at = std::mem::replace(&mut self.parent[at], root);
        }
        root
    }

    fn phase(&mut self, graph: &Graph, tree: &Dominators, phase: u32, most: usize) {
        use Fusion::{Broadcast, Elementwise, Injective, Opaque, OutElementwise, Reduction, Tuple};
        for i in 0..graph.kind.len() {
            // A group's own kind, not that of its root: nodes that joined a group keep theirs.
            let kind = self.kind[i];
            if kind == Opaque {
                continue;
            }
            let Some(sink) = tree.parent[i] else { continue };
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

    /// Calls `f` for each node on a path from one node to another, both included, until it says no.
    fn between(
        &mut self,
        graph: &Graph,
        from: usize,
        to: usize,
        mut f: impl FnMut(&mut Self, usize) -> bool,
    ) -> bool {
        self.now += 1;
        let mut stack = vec![from];
        while let Some(node) = stack.pop() {
            if self.stamp[node] == self.now {
                continue;
            }
            self.stamp[node] = self.now;
            if !f(self, node) {
                return false;
            }
            if node != to {
                stack.extend(graph.users[node].iter().map(|u| u.0));
            }
        }
        true
    }

    /// Whether the kinds of all groups on the way allow it; the start itself is asked too.
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

    /// How large the group would be; anything above `most` means too large.
    fn size_with(&mut self, graph: &Graph, from: usize, to: usize, most: usize) -> usize {
        let root = self.root(to);
        let mut size = self.size[root];
        self.between(graph, from, to, |this, node| {
            if node != to {
                size += this.size[node];
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
                this.parent[root] = target;
                this.size[target] += this.size[root];
                if this.kind[root] == Fusion::OutElementwise {
                    this.kind[target] = this.kind[target].max(this.kind[root]);
                }
            }
            true
        });
    }
}
