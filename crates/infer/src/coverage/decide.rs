//! Decides whether some value matches none of a list of patterns, for matches that are too large to
//! enumerate the missing patterns.
//!
//! Usefulness of patterns is a form of satisfiability: a row of a match is a conjunction of tests
//! ("the part at this place is built by this constructor"), and a value that no row matches fails a
//! test of each. So this is the Davis-Logemann-Loveland procedure over constructors instead of
//! truth values: a row with one remaining test excludes its constructor, a constructor that no row
//! tests is the best choice at its place, and states without such a value are remembered by their
//! remaining rows.
//!
//! Invariant: keeps its own stack, and its work is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use relax_ir::{CtorId, Module, PatId, Pattern};
use rustc_hash::{FxHashMap, FxHashSet};

/// The answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Decision {
    /// A value that no row matches, as a pattern.
    Missing(String),
    /// The rows match every value.
    Covered,
    /// The work limit was exceeded.
    Unknown,
}

/// A part of the value: an index into the table of places. Parts have larger numbers than the
/// places that contain them.
type Place = u32;

/// The position of a place within its parent: under a constructor, or of a tuple.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PartOf {
    whole: Place,
    under: Option<CtorId>,
    index: u32,
}

/// A row: at each of these places the value must be built by the pattern's constructor. Sorted by
/// place.
type Row = Rc<[(Place, PatId)]>;

/// The rows still to be refuted, and the choices made so far.
#[derive(Clone)]
struct State {
    rows: Vec<Row>,
    chosen: Vec<(Place, CtorId)>,
    excluded: FxHashMap<Place, BTreeSet<CtorId>>,
}

/// The key of a state, which determines whether it has a value: its rows, and the excluded
/// constructors at their places.
type Key = (Vec<Row>, Vec<(Place, Vec<CtorId>)>);

enum Task {
    Try(State),
    /// All branches of a state were tried.
    Dead(Key),
}

struct Search<'m> {
    m: &'m Module,
    /// The place of each part, and the part that each place is.
    parts: FxHashMap<PartOf, Place>,
    places: Vec<Option<PartOf>>,
    /// The places that hold tuples, with the number of their fields.
    tuples: FxHashMap<Place, u32>,
    dead: FxHashSet<Key>,
    /// The remaining work, in visited rows.
    budget: u64,
}

/// Searches for a value that matches `pattern` (any value, without one) and none of `rows`;
/// subtracts its work from `budget`.
pub(super) fn decide(
    m: &Module,
    rows: &[PatId],
    pattern: Option<PatId>,
    budget: &mut u64,
) -> Decision {
    let mut search = Search {
        m,
        parts: FxHashMap::default(),
        places: vec![None],
        tuples: FxHashMap::default(),
        dead: FxHashSet::default(),
        budget: *budget,
    };
    let rows = rows.iter().map(|&p| search.row(&[(0, p)])).collect();
    let mut state = State {
        rows,
        chosen: Vec::new(),
        excluded: FxHashMap::default(),
    };
    // The constructors of the pattern are chosen already.
    let mut asked: Vec<(Place, PatId)> = pattern.map(|p| (0, p)).into_iter().collect();
    while let Some((place, p)) = asked.pop() {
        for &(place, p) in search.row(&[(place, p)]).iter() {
            if let Pattern::Ctor(c, parts) = &m.patterns[p] {
                search.choose(&mut state, place, *c);
                asked.extend(search.under(place, *c, parts));
            }
        }
    }
    let decision = search.run(state);
    *budget = search.budget;
    decision
}

impl Search<'_> {
    fn part(&mut self, of: PartOf) -> Place {
        let places = &mut self.places;
        *self.parts.entry(of).or_insert_with(|| {
            places.push(Some(of));
            places.len() as Place - 1
        })
    }

    /// Returns the fields of a pattern's constructor with their patterns.
    fn under(&mut self, whole: Place, c: CtorId, parts: &[PatId]) -> Vec<(Place, PatId)> {
        let under = Some(c);
        let parts = parts.iter().take(self.m.ctors[c].fields.len());
        let place = |(index, &p): (u32, &PatId)| {
            (
                self.part(PartOf {
                    whole,
                    under,
                    index,
                }),
                p,
            )
        };
        (0u32..).zip(parts).map(place).collect()
    }

    /// Returns the tests of some patterns at some places: tuples are destructured, wildcards are no
    /// tests.
    fn row(&mut self, patterns: &[(Place, PatId)]) -> Row {
        let m = self.m;
        let mut tests = Vec::new();
        let mut work = patterns.to_vec();
        while let Some((whole, p)) = work.pop() {
            match &m.patterns[p] {
                Pattern::Wildcard | Pattern::Var(_) => {}
                Pattern::Ctor(..) => tests.push((whole, p)),
                Pattern::Tuple(parts) => {
                    self.tuples.insert(whole, parts.len() as u32);
                    for (index, &p) in (0u32..).zip(parts.iter()) {
                        let under = None;
                        let place = self.part(PartOf {
                            whole,
                            under,
                            index,
                        });
                        work.push((place, p));
                    }
                }
            }
        }
        tests.sort();
        tests.into()
    }

    fn ctor(&self, p: PatId) -> Option<CtorId> {
        match &self.m.patterns[p] {
            Pattern::Ctor(c, _) => Some(*c),
            _ => None,
        }
    }

    /// Returns whether the fields of a constructor pattern are all wildcards.
    fn is_plain(&self, p: PatId) -> bool {
        let mut work = vec![p];
        let mut first = true;
        while let Some(p) = work.pop() {
            match &self.m.patterns[p] {
                Pattern::Wildcard | Pattern::Var(_) => {}
                Pattern::Ctor(_, parts) if std::mem::take(&mut first) => work.extend(parts.iter()),
                Pattern::Tuple(parts) => work.extend(parts.iter()),
                Pattern::Ctor(..) => return false,
            }
        }
        true
    }

    /// Returns the constructors that a place may still have; `like` is one of its type.
    fn open(&self, state: &State, place: Place, like: CtorId) -> Vec<CtorId> {
        let out = state.excluded.get(&place);
        let all = &self.m.adts[self.m.ctors[like].adt].ctors;
        let open = |c: &&CtorId| out.is_none_or(|o| !o.contains(c));
        all.iter().filter(open).copied().collect()
    }

    /// Chooses a constructor for a place: rows that test for another one are refuted, the others
    /// test its fields.
    fn choose(&mut self, state: &mut State, place: Place, c: CtorId) {
        let rows = std::mem::take(&mut state.rows);
        self.budget = self.budget.saturating_sub(rows.len() as u64);
        for row in rows {
            let Some(k) = row.iter().position(|t| t.0 == place) else {
                state.rows.push(row);
                continue;
            };
            let p = row[k].1;
            if self.ctor(p) != Some(c) {
                continue;
            }
            let Pattern::Ctor(_, parts) = &self.m.patterns[p] else {
                continue;
            };
            let inside = self.under(place, c, parts);
            let more = self.row(&inside);
            let mut tests: Vec<_> = row.iter().filter(|t| t.0 != place).copied().collect();
            tests.extend(more.iter());
            tests.sort();
            state.rows.push(tests.into());
        }
        state.excluded.remove(&place);
        state.chosen.push((place, c));
    }

    /// Propagates forced choices; returns whether some value may still remain.
    fn settle(&mut self, state: &mut State) -> bool {
        loop {
            self.budget = self.budget.saturating_sub(1 + state.rows.len() as u64);
            if self.budget == 0 {
                return true;
            }
            if state.rows.iter().any(|r| r.is_empty()) {
                return false;
            }
            // Only another constructor fails a row with one plain test.
            let mut out: BTreeMap<Place, BTreeSet<CtorId>> = BTreeMap::new();
            for row in &state.rows {
                if let [(place, p)] = row[..]
                    && self.is_plain(p)
                    && let Some(c) = self.ctor(p)
                {
                    out.entry(place).or_default().insert(c);
                }
            }
            if out.is_empty() {
                return true;
            }
            let asks = |&(place, p): &(Place, PatId)| {
                let out = out.get(&place);
                out.is_some_and(|out| self.ctor(p).is_some_and(|c| out.contains(&c)))
            };
            state.rows.retain(|row| !row.iter().any(asks));
            for (place, out) in out {
                let Some(&like) = out.first() else { continue };
                state.excluded.entry(place).or_default().extend(out);
                match self.open(state, place, like)[..] {
                    [] => return false,
                    [one] => self.choose(state, place, one),
                    _ => {}
                }
            }
        }
    }

    /// Returns the place at which the most and shortest rows have a test, and a constructor of its
    /// type.
    fn busiest(&self, state: &State) -> Option<(Place, CtorId)> {
        let mut weights: FxHashMap<Place, (f64, CtorId)> = FxHashMap::default();
        for row in &state.rows {
            let weight = 0.5f64.powi(row.len().min(60) as i32);
            for &(place, p) in row.iter() {
                let Some(c) = self.ctor(p) else { continue };
                weights.entry(place).or_insert((0.0, c)).0 += weight;
            }
        }
        let best = weights.into_iter().max_by(|a, b| {
            let weight = a.1.0.total_cmp(&b.1.0);
            weight.then(b.0.cmp(&a.0))
        });
        best.map(|(place, (_, c))| (place, c))
    }

    fn key(&self, state: &State) -> Key {
        let mut rows = state.rows.clone();
        rows.sort();
        rows.dedup();
        let mut out: Vec<(Place, Vec<CtorId>)> = (state.excluded.iter())
            .filter(|(place, _)| rows.iter().any(|r| r.iter().any(|t| t.0 == **place)))
            .map(|(place, all)| (*place, all.iter().copied().collect()))
            .collect();
        out.sort();
        (rows, out)
    }

    fn run(&mut self, state: State) -> Decision {
        let mut work = vec![Task::Try(state)];
        while let Some(task) = work.pop() {
            let mut state = match task {
                Task::Try(state) => state,
                Task::Dead(key) => {
                    self.dead.insert(key);
                    continue;
                }
            };
            if !self.settle(&mut state) {
                continue;
            }
            if self.budget == 0 {
                return Decision::Unknown;
            }
            let Some((place, like)) = self.busiest(&state) else {
                return Decision::Missing(self.spell(&state));
            };
            let key = self.key(&state);
            if self.dead.contains(&key) {
                continue;
            }
            work.push(Task::Dead(key));
            let open = self.open(&state, place, like);
            let asked: FxHashSet<CtorId> = (state.rows.iter())
                .flat_map(|r| r.iter().filter(|t| t.0 == place))
                .filter_map(|t| self.ctor(t.1))
                .collect();
            // One that no row tests for refutes all rows with a test at this place: no other choice
            // is better.
            let ways = match open.iter().find(|c| !asked.contains(c)) {
                Some(&other) => vec![other],
                None => open,
            };
            for &c in ways.iter().rev() {
                let mut next = state.clone();
                self.choose(&mut next, place, c);
                work.push(Task::Try(next));
            }
        }
        Decision::Covered
    }

    /// Returns the value that was found, as a pattern.
    fn spell(&self, state: &State) -> String {
        let chosen: FxHashMap<Place, CtorId> = state.chosen.iter().copied().collect();
        let mut texts: FxHashMap<Place, String> = FxHashMap::default();
        // Parts come after the places that contain them.
        for place in (0..self.places.len() as Place).rev() {
            let list = |under: Option<CtorId>, n: u32| -> String {
                let text = |index| {
                    let of = PartOf {
                        whole: place,
                        under,
                        index,
                    };
                    let found = self.parts.get(&of).and_then(|p| texts.get(p));
                    found.map_or("_", String::as_str)
                };
                (0..n).map(text).collect::<Vec<_>>().join(", ")
            };
            let named = |c: CtorId, parts: &dyn Fn(u32) -> String| {
                let ctor = &self.m.ctors[c];
                match ctor.fields.len() as u32 {
                    0 => ctor.name.to_string(),
                    n => format!("{}({})", ctor.name, parts(n)),
                }
            };
            let text = if let Some(&c) = chosen.get(&place) {
                named(c, &|n| list(Some(c), n))
            } else if let Some(out) = state.excluded.get(&place).and_then(|o| o.first()) {
                let Some(&c) = self.open(state, place, *out).first() else {
                    continue;
                };
                named(c, &|n| vec!["_"; n as usize].join(", "))
            } else if let Some(&n) = self.tuples.get(&place) {
                let parts = list(None, n);
                if parts.chars().all(|c| "_, ".contains(c)) {
                    continue;
                }
                if n == 1 {
                    format!("({parts},)")
                } else {
                    format!("({parts})")
                }
            } else {
                continue;
            };
            texts.insert(place, text);
        }
        texts.remove(&0).unwrap_or_else(|| "_".into())
    }
}
