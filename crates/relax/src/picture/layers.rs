//! Layered graph drawing (Sugiyama's method): each node lies below all its inputs.

/// The size of a node.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub width: f64,
    pub height: f64,
}

/// A position: the middle of a node's upper edge.
#[derive(Clone, Copy, Default, Debug)]
pub struct Place {
    pub x: f64,
    pub y: f64,
}

/// The positions of all nodes and the routes of all edges.
pub struct Layout {
    pub places: Vec<Place>,
    /// The intermediate points of each edge.
    pub ways: Vec<Vec<Place>>,
    pub width: f64,
    pub height: f64,
}

const GAP: f64 = 18.0;
const ROW: f64 = 42.0;
/// The gap between the end rows and their neighbours.
const END: f64 = 20.0;
/// The width that an edge takes when it crosses a layer.
const LANE: f64 = 10.0;
/// With more intermediate points than this, edges are drawn straight.
const MOST_POINTS: usize = 50_000;
const SWEEPS: usize = 6;

/// Assigns layers: each node below all its inputs; a node without inputs directly above its first
/// user.
fn ranks(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut ranks = vec![0; count];
    let mut first = vec![usize::MAX; count];
    let mut rooted = vec![true; count];
    let mut sorted = edges.to_vec();
    sorted.sort_unstable_by_key(|e| (e.1, e.0));
    for &(from, to) in &sorted {
        ranks[to] = ranks[to].max(ranks[from] + 1);
        rooted[to] = false;
    }
    for &(from, to) in &sorted {
        first[from] = first[from].min(ranks[to]);
    }
    for node in 0..count {
        if rooted[node] && first[node] != usize::MAX {
            ranks[node] = first[node].saturating_sub(1);
        }
    }
    ranks
}

/// The points of each layer: real nodes first, then the dummy nodes of long edges.
struct Layers {
    rows: Vec<Vec<usize>>,
    widths: Vec<f64>,
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    x: Vec<f64>,
}

impl Layers {
    fn link(&mut self, from: usize, to: usize) {
        self.below[from].push(to);
        self.above[to].push(from);
    }

    fn point(&mut self, rank: usize, width: f64) -> usize {
        let id = self.widths.len();
        self.widths.push(width);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        self.x.push(0.0);
        self.rows[rank].push(id);
        id
    }

    /// Returns the mean position of a point's neighbours.
    fn wanted(&self, id: usize, above: bool) -> f64 {
        let near = if above {
            &self.above[id]
        } else {
            &self.below[id]
        };
        match near.len() {
            0 => self.x[id],
            n => near.iter().map(|&k| self.x[k]).sum::<f64>() / n as f64,
        }
    }

    /// Places the points of a row side by side, each as close to its wanted position as possible.
    fn settle(&mut self, row: usize, wanted: &[f64]) {
        let ids = std::mem::take(&mut self.rows[row]);
        let mut left = f64::NEG_INFINITY;
        let mut shift = 0.0;
        for (&id, &want) in ids.iter().zip(wanted) {
            let half = self.widths[id] / 2.0;
            let x = want.max(left + half);
            shift += want - x;
            self.x[id] = x;
            left = x + half + GAP;
        }
        let shift = shift / ids.len().max(1) as f64;
        ids.iter().for_each(|&id| self.x[id] += shift);
        self.rows[row] = ids;
    }

    fn sweep(&mut self, down: bool, order: bool) {
        let count = self.rows.len();
        for k in 0..count {
            let row = if down { k } else { count - 1 - k };
            let mut wants: Vec<(f64, usize)> = (self.rows[row].iter())
                .map(|&id| (self.wanted(id, down), id))
                .collect();
            if order {
                wants.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.rows[row] = wants.iter().map(|w| w.1).collect();
            }
            let wanted: Vec<f64> = wants.iter().map(|w| w.0).collect();
            self.settle(row, &wanted);
        }
    }
}

/// The nodes that form a row of their own at the top, and those that form one at the bottom.
pub type Ends = (Vec<bool>, Vec<bool>);

/// Moves the end nodes to rows of their own.
fn ended(ranks: &mut [usize], ends: &Ends) {
    if ends.0.contains(&true) {
        ranks.iter_mut().for_each(|r| *r += 1);
        let first = ranks
            .iter()
            .zip(&ends.0)
            .filter(|e| !e.1)
            .map(|e| *e.0)
            .min();
        let spare = first.unwrap_or(1) - 1;
        for (rank, &end) in ranks.iter_mut().zip(&ends.0) {
            *rank = if end { 0 } else { *rank - spare };
        }
    }
    if ends.1.contains(&true) {
        let last = ranks
            .iter()
            .zip(&ends.1)
            .filter(|e| !e.1)
            .map(|e| *e.0)
            .max();
        let last = last.map_or(0, |r| r + 1);
        for (rank, _) in ranks.iter_mut().zip(&ends.1).filter(|e| *e.1) {
            *rank = last;
        }
    }
}

/// Lays out a graph whose edges go from earlier nodes to later ones.
pub fn layout(sizes: &[Size], edges: &[(usize, usize)], ends: &Ends) -> Layout {
    let mut ranks = ranks(sizes.len(), edges);
    ended(&mut ranks, ends);
    let rows = ranks.iter().max().map_or(0, |r| r + 1);
    let mut layers = Layers {
        rows: vec![Vec::new(); rows],
        widths: Vec::new(),
        above: Vec::new(),
        below: Vec::new(),
        x: Vec::new(),
    };
    for (size, &rank) in sizes.iter().zip(&ranks) {
        layers.point(rank, size.width);
    }
    let span = |&(from, to): &(usize, usize)| ranks[to].saturating_sub(ranks[from] + 1);
    let passing = edges.iter().map(span).sum::<usize>() <= MOST_POINTS;
    let mut ways: Vec<Vec<usize>> = Vec::with_capacity(edges.len());
    for edge in edges {
        let mut last = edge.0;
        let mut way = Vec::new();
        if passing {
            for rank in ranks[edge.0] + 1..ranks[edge.1].max(ranks[edge.0] + 1) {
                let point = layers.point(rank, LANE);
                layers.link(last, point);
                way.push(point);
                last = point;
            }
        }
        layers.link(last, edge.1);
        ways.push(way);
    }
    for row in 0..rows {
        let zeros = vec![0.0; layers.rows[row].len()];
        layers.settle(row, &zeros);
    }
    for k in 0..SWEEPS {
        layers.sweep(k % 2 == 0, true);
    }
    layers.sweep(false, false);
    layers.sweep(true, false);
    placed(sizes, &ranks, &layers, (edges, &ways), ends)
}

/// Computes coordinates from layers.
fn placed(
    sizes: &[Size],
    ranks: &[usize],
    layers: &Layers,
    (edges, ways): (&[(usize, usize)], &[Vec<usize>]),
    ends: &Ends,
) -> Layout {
    let left = (layers.x.iter().zip(&layers.widths)).map(|(x, w)| x - w / 2.0);
    let left = left.fold(f64::INFINITY, f64::min);
    let right = (layers.x.iter().zip(&layers.widths)).map(|(x, w)| x + w / 2.0);
    let right = right.fold(f64::NEG_INFINITY, f64::max);
    let mut tops = Vec::with_capacity(layers.rows.len());
    let mut heights = vec![0f64; layers.rows.len()];
    for (size, &rank) in sizes.iter().zip(ranks) {
        heights[rank] = heights[rank].max(size.height);
    }
    let mut y = GAP;
    let last = heights.len().saturating_sub(1);
    let (above, below) = (ends.0.contains(&true), ends.1.contains(&true));
    for (row, height) in heights.iter().enumerate() {
        tops.push(y);
        // Nothing lies between an end row and its neighbours.
        let end = row == 0 && above || row + 1 == last && below;
        y += height
            + if row == last {
                0.0
            } else if end {
                END
            } else {
                ROW
            };
    }
    let mut rank_of = vec![0; layers.x.len()];
    for (rank, row) in layers.rows.iter().enumerate() {
        row.iter().for_each(|&id| rank_of[id] = rank);
    }
    let x = |id: usize| layers.x[id] - left + GAP;
    let place = |id: usize| Place {
        x: x(id),
        y: tops[rank_of[id]],
    };
    // Edges cross a row vertically, so that they do not cut nodes taller than the one they come
    // from.
    let through = |id: usize| {
        let (x, top) = (x(id), tops[rank_of[id]]);
        let bottom = top + heights[rank_of[id]];
        [Place { x, y: top }, Place { x, y: bottom }]
    };
    let way = |(from, way): (usize, &Vec<usize>)| {
        let [_, below] = through(from);
        let end = tops[rank_of[from]] + sizes[from].height;
        let first = (below.y > end + 1.0).then_some(below);
        let passed = way.iter().flat_map(|&id| through(id));
        first.into_iter().chain(passed).collect()
    };
    Layout {
        places: (0..sizes.len()).map(place).collect(),
        ways: edges.iter().map(|e| e.0).zip(ways).map(way).collect(),
        width: if sizes.is_empty() {
            2.0 * GAP
        } else {
            right - left + 2.0 * GAP
        },
        height: y + GAP,
    }
}
