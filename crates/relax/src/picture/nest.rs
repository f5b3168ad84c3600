//! Layout of nested boxes: each box is laid out by itself and is one large node in the enclosing
//! box. Hence no box covers a node outside of it, and edges enter and leave at its upper and lower
//! side.

use std::collections::BTreeMap;

use super::layers::{Layout, Place, Size, layout};
use super::{Graph, Node};

/// The padding of a box; the title takes additional space at the top.
const SIDE: f64 = 9.0;
const HEAD: f64 = 18.0;

/// The positions of all nodes, edges and boxes.
pub struct Nested {
    /// The position of each node: the middle of its upper edge.
    pub places: Vec<Place>,
    /// The intermediate points of each edge.
    pub ways: Vec<Vec<Place>>,
    /// Left, top, right and bottom of each box; `None` for a group that is not drawn as a box.
    pub boxes: Vec<Option<[f64; 4]>>,
    /// The size of the whole picture.
    pub size: (f64, f64),
}

/// An item that is laid out in a box.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Item {
    /// The port where edges of an outer node enter.
    In(usize),
    Node(usize),
    Group(usize),
    /// The port where edges of an inner node leave.
    Out(usize),
}

/// The contents of a box and their layout.
#[derive(Default)]
struct Inner {
    items: Vec<Item>,
    edges: Vec<(Item, Item)>,
    places: BTreeMap<Item, Place>,
    ways: BTreeMap<(Item, Item), Vec<Place>>,
    width: f64,
    height: f64,
}

/// The boxes of a graph; the last one is the whole picture.
struct Boxes<'g> {
    graph: &'g Graph,
    sizes: &'g [Size],
    /// Groups that are not drawn as boxes, as they would form a cycle or are nested too deeply.
    gone: Vec<bool>,
    /// For each group, the innermost drawn box that is or encloses it.
    alive: Vec<usize>,
    inner: Vec<Inner>,
}

/// Boxes nested more deeply than this are not drawn.
const DEEPEST: usize = 16;
/// After this many boxes on cycles, none is drawn.
const PATIENCE: usize = 64;

/// Lays a graph out.
pub fn nested(graph: &Graph, sizes: &[Size]) -> Nested {
    let whole = graph.groups.len();
    let mut depths = vec![0; whole];
    for (g, group) in graph.groups.iter().enumerate() {
        depths[g] = group.parent.map_or(1, |p| depths[p] + 1);
    }
    let mut boxes = Boxes {
        graph,
        sizes,
        gone: depths.iter().map(|&d| d > DEEPEST).collect(),
        alive: Vec::new(),
        inner: Vec::new(),
    };
    // A box that both precedes and follows an outer node cannot be a single node: it is dropped.
    let mut met = 0;
    while let Some(group) = boxes.fill() {
        boxes.gone[group] = true;
        met += 1;
        if met == PATIENCE {
            boxes.gone.fill(true);
        }
    }
    // A group's parent precedes it.
    for at in (0..whole).rev() {
        if !boxes.gone[at] {
            boxes.lay(at);
        }
    }
    boxes.lay(whole);
    boxes.placed()
}

impl Boxes<'_> {
    fn whole(&self) -> usize {
        self.graph.groups.len()
    }

    /// Returns the box that directly contains a node of this group.
    fn around(&self, group: Option<usize>) -> usize {
        group.map_or(self.whole(), |g| self.alive[g])
    }

    fn parent(&self, group: usize) -> usize {
        self.around(self.graph.groups[group].parent)
    }

    /// Returns the boxes around only one of two nodes, innermost first, and the smallest box around
    /// both.
    fn apart(&self, from: &Node, to: &Node) -> (Vec<usize>, usize, Vec<usize>) {
        let (mut a, mut b) = (self.around(from.group), self.around(to.group));
        let (mut out, mut into) = (Vec::new(), Vec::new());
        while a != b {
            // The later of two boxes does not enclose the other, except for the whole picture,
            // which encloses all.
            let later = |x: usize, y: usize| x != self.whole() && (y == self.whole() || x > y);
            if later(a, b) {
                out.push(a);
                a = self.parent(a);
            } else {
                into.push(b);
                b = self.parent(b);
            }
        }
        (out, a, into)
    }

    /// Splits an edge into segments: for each box it crosses, the items it connects there.
    fn steps(&self, from: usize, to: usize) -> Vec<(usize, Item, Item)> {
        let (out, middle, into) = self.apart(&self.graph.nodes[from], &self.graph.nodes[to]);
        let mut steps = Vec::with_capacity(out.len() + into.len() + 1);
        let mut at = Item::Node(from);
        for &group in &out {
            steps.push((group, at, Item::Out(from)));
            at = Item::Group(group);
        }
        let mut inner: Vec<(usize, Item)> = Vec::new();
        let mut next = Item::Node(to);
        for &group in &into {
            inner.push((group, next));
            next = Item::Group(group);
        }
        steps.push((middle, at, next));
        let within = inner.into_iter().rev();
        steps.extend(within.map(|(group, item)| (group, Item::In(from), item)));
        steps
    }

    /// Fills in the items of each box; returns a group whose box lies on a cycle, if any.
    fn fill(&mut self) -> Option<usize> {
        let whole = self.whole();
        self.alive.clear();
        for (g, group) in self.graph.groups.iter().enumerate() {
            let outer = group.parent.map_or(whole, |p| self.alive[p]);
            self.alive.push(if self.gone[g] { outer } else { g });
        }
        let mut inner: Vec<Inner> = (0..=whole).map(|_| Inner::default()).collect();
        for (n, node) in self.graph.nodes.iter().enumerate() {
            inner[self.around(node.group)].items.push(Item::Node(n));
        }
        let mut full: Vec<bool> = inner.iter().map(|i| !i.items.is_empty()).collect();
        for g in (0..whole).rev().filter(|&g| !self.gone[g]) {
            if full[g] {
                let parent = self.parent(g);
                inner[parent].items.push(Item::Group(g));
                full[parent] = true;
            }
        }
        for edge in &self.graph.edges {
            for (at, from, to) in self.steps(edge.from, edge.to) {
                inner[at].edges.push((from, to));
            }
        }
        for within in &mut inner {
            within.edges.sort_unstable();
            within.edges.dedup();
            let ports = within.edges.iter().flat_map(|&(a, b)| [a, b]);
            let ports = ports.filter(|i| matches!(i, Item::In(_) | Item::Out(_)));
            within.items.extend(ports.collect::<Vec<_>>());
            within.items.sort_unstable();
            within.items.dedup();
        }
        let circle = inner.iter_mut().find_map(|within| within.sort().err());
        self.inner = inner;
        circle
    }

    fn size(&self, item: Item) -> Size {
        match item {
            Item::Node(n) => self.sizes[n],
            Item::Group(g) => Size {
                width: self.inner[g].width,
                height: self.inner[g].height,
            },
            Item::In(_) | Item::Out(_) => Size {
                width: 8.0,
                height: 0.0,
            },
        }
    }

    /// Lays out a box whose inner boxes are laid out.
    fn lay(&mut self, at: usize) {
        let mut within = std::mem::take(&mut self.inner[at]);
        let sizes: Vec<Size> = within.items.iter().map(|&i| self.size(i)).collect();
        let number: BTreeMap<Item, usize> = within
            .items
            .iter()
            .enumerate()
            .map(|(i, &item)| (item, i))
            .collect();
        let edges: Vec<(usize, usize)> = within
            .edges
            .iter()
            .map(|(a, b)| (number[a], number[b]))
            .collect();
        let side = |f: fn(&Item) -> bool| within.items.iter().map(f).collect::<Vec<bool>>();
        let ports = (
            side(|i| matches!(i, Item::In(_))),
            side(|i| matches!(i, Item::Out(_))),
        );
        let Layout {
            places,
            ways,
            width,
            height,
        } = layout(&sizes, &edges, &ports);
        let (left, top, more) = match at == self.whole() {
            true => (0.0, 0.0, (0.0, 0.0)),
            // The layout has its own margin.
            false => (
                SIDE - 18.0,
                HEAD - 18.0,
                (2.0 * SIDE - 36.0, HEAD + SIDE - 36.0),
            ),
        };
        let move_ = |p: Place| Place {
            x: p.x + left,
            y: p.y + top,
        };
        within.places = (within.items.iter().zip(places))
            .map(|(&i, p)| (i, move_(p)))
            .collect();
        let ways = ways.into_iter().map(|w| w.into_iter().map(move_).collect());
        within.ways = within.edges.iter().copied().zip(ways).collect();
        (within.width, within.height) = (width + more.0, height + more.1);
        self.inner[at] = within;
    }

    /// Computes absolute positions.
    fn placed(self) -> Nested {
        let whole = self.whole();
        let mut origins = vec![Place::default(); whole + 1];
        let mut boxes = vec![None; whole];
        let mut order: Vec<usize> = vec![whole];
        order.extend((0..whole).filter(|&g| !self.gone[g]));
        let mut places = vec![Place::default(); self.graph.nodes.len()];
        for at in order {
            let origin = origins[at];
            for (&item, &p) in &self.inner[at].places {
                let p = Place {
                    x: p.x + origin.x,
                    y: p.y + origin.y,
                };
                match item {
                    Item::Node(n) => places[n] = p,
                    Item::Group(g) => {
                        let (w, h) = (self.inner[g].width, self.inner[g].height);
                        origins[g] = Place {
                            x: p.x - w / 2.0,
                            y: p.y,
                        };
                        boxes[g] = Some([p.x - w / 2.0, p.y, p.x + w / 2.0, p.y + h]);
                    }
                    Item::In(_) | Item::Out(_) => {}
                }
            }
        }
        let way = |edge: &super::Edge| {
            let mut points = Vec::new();
            for (at, from, to) in self.steps(edge.from, edge.to) {
                let (within, origin) = (&self.inner[at], origins[at]);
                let here = |p: &Place| Place {
                    x: p.x + origin.x,
                    y: p.y + origin.y,
                };
                // A port lies on the border of its box, whatever its row.
                if let (Item::In(_), Some([_, top, _, _])) =
                    (from, boxes.get(at).copied().flatten())
                {
                    points.extend(
                        within
                            .places
                            .get(&from)
                            .map(|p| Place { y: top, ..here(p) }),
                    );
                }
                points.extend(within.ways.get(&(from, to)).into_iter().flatten().map(here));
                if let (Item::Out(_), Some([_, _, _, bottom])) =
                    (to, boxes.get(at).copied().flatten())
                {
                    points.extend(within.places.get(&to).map(|p| Place {
                        y: bottom,
                        ..here(p)
                    }));
                }
            }
            points
        };
        let ways = self.graph.edges.iter().map(way).collect();
        let size = (self.inner[whole].width, self.inner[whole].height);
        Nested {
            places,
            ways,
            boxes,
            size,
        }
    }
}

impl Inner {
    /// Sorts the items topologically; the error is a group on a cycle.
    fn sort(&mut self) -> Result<(), usize> {
        let mut needs: BTreeMap<Item, usize> = self.items.iter().map(|&i| (i, 0)).collect();
        let mut users: BTreeMap<Item, Vec<Item>> = BTreeMap::new();
        for &(from, to) in &self.edges {
            *needs.entry(to).or_insert(0) += 1;
            users.entry(from).or_default().push(to);
        }
        let free = |needs: &BTreeMap<Item, usize>| -> Vec<Item> {
            needs.iter().filter(|n| *n.1 == 0).map(|n| *n.0).collect()
        };
        let mut work = free(&needs);
        work.reverse();
        let mut order = Vec::with_capacity(self.items.len());
        while let Some(item) = work.pop() {
            needs.remove(&item);
            order.push(item);
            for &user in users.get(&item).into_iter().flatten() {
                if let Some(left) = needs.get_mut(&user) {
                    *left -= 1;
                    if *left == 0 {
                        work.push(user);
                    }
                }
            }
        }
        match self.circle(&needs) {
            Some(group) => Err(group),
            None => {
                self.items = order;
                Ok(())
            }
        }
    }

    /// Returns a group on a cycle among the remaining items; `None` if no group lies on one.
    fn circle(&self, left: &BTreeMap<Item, usize>) -> Option<usize> {
        let before: BTreeMap<Item, Item> = (self.edges.iter())
            .filter(|(from, to)| left.contains_key(from) && left.contains_key(to))
            .map(|&(from, to)| (to, from))
            .collect();
        // Following inputs backwards ends up in a cycle.
        let mut at = *left.keys().next()?;
        for _ in 0..left.len() {
            at = *before.get(&at)?;
        }
        let mut seen = at;
        for _ in 0..left.len() {
            if let Item::Group(g) = seen {
                return Some(g);
            }
            seen = *before.get(&seen)?;
        }
        None
    }
}
