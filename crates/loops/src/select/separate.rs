//! Loop nests, as people write them, taken apart: a statement that computes every element of a
//! buffer becomes a stage of its own, a computation over indices, for which there are kernels.

use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::distribute::distributed;
use super::private::shared;
use super::statement::{computation, known_at_start, reads_inside, rounds_each_time, writes};
use super::versions::split_versions;
use crate::accumulation::Accumulation;
use crate::lower::accesses;
use crate::reduction_init::depends;
use crate::{
    Buf, Buffer, Compute, Ex, ExKind, Mark, Program, Role, Stage, Stmt, Var, map_expr, settle,
    statements,
};

/// How often loops are distributed, each time without those that have to stay as they are.
const ROUNDS: usize = 4;

/// Makes the statements of nests that are computations stages of their own, and brings the program
/// to the form of groups of operators then ([`settle`]). Returns whether there were any.
///
/// A program that has a schedule or states its kernels is left as it is: its author has decided. So
/// is a nest that a hint describes as a whole.
///
/// ```
/// use relax_loops::{Builder, Stage, lower_stage, separate};
/// use relax_tensor::DType;
///
/// let mut b = Builder::new("double");
/// let x = b.input("x", DType::F32, &[Some(4)]);
/// let y = b.compute("y", &x.shape, |i| &x.at(i) + &x.at(i));
/// b.output(&y);
/// let mut written = b.program.clone();
/// written.stages = vec![Stage::Nest(lower_stage(&b.program, &b.program.stages[0]))];
/// assert!(separate(&mut written));
/// assert_eq!(written.stages, b.program.stages);
/// ```
pub fn separate(program: &mut Program) -> bool {
    let plain = |p: &Program| {
        p.stages
            .iter()
            .any(|s| matches!(s, Stage::Nest(_)) && !s.is_guard())
    };
    if !program.kernels.is_empty() || !plain(program) || has_marks(program) {
        return false;
    }
    let mut separator = Separator::of(program);
    let mut stages = Vec::with_capacity(program.stages.len());
    for stage in std::mem::take(&mut program.stages) {
        match stage {
            Stage::Nest(body) => separator.nest(program, body, &mut stages),
            Stage::Compute(c) => {
                separator.written.insert(c.out);
                stages.push(Stage::Compute(c));
            }
        }
    }
    program.stages = stages;
    if separator.changed {
        settle(program);
        super::rows::add_hints(program);
    }
    separator.changed
}

/// Returns whether a program has schedule marks.
pub fn has_marks(program: &Program) -> bool {
    program
        .statements()
        .any(|s| matches!(s, Stmt::For { mark, .. } if *mark != Mark::Serial))
}

/// Takes the nests of a program apart.
#[derive(Clone)]
struct Separator {
    /// How many statements of bodies, and stages, write a buffer.
    writers: FxHashMap<Buf, usize>,
    /// The buffers that stages so far write.
    written: FxHashSet<Buf>,
    changed: bool,
}

impl Separator {
    fn of(program: &Program) -> Separator {
        let mut writers: FxHashMap<Buf, usize> = FxHashMap::default();
        for stage in &program.stages {
            let own = match stage {
                Stage::Compute(c) => vec![c.out],
                Stage::Nest(body) => body.iter().flat_map(writes).collect(),
            };
            for buf in own {
                *writers.entry(buf).or_default() += 1;
            }
        }
        Separator {
            writers,
            written: FxHashSet::default(),
            changed: false,
        }
    }

    /// Adds the stages of a nest.
    fn nest(&mut self, program: &mut Program, mut body: Vec<Stmt>, stages: &mut Vec<Stage>) {
        let whole = body
            .iter()
            .flat_map(writes)
            .any(|b| program.hint(b).is_some());
        let alone = if whole || !body.iter().all(|s| may_outlive(program, s)) {
            vec![None; body.len()]
        } else {
            body = self.prepared(program, body);
            self.alone(program, &body)
        };
        if alone.iter().all(Option::is_none) {
            self.written.extend(body.iter().flat_map(writes));
            return stages.push(Stage::Nest(body));
        }
        self.changed = true;
        let mut rest = Vec::new();
        for (s, alone) in body.into_iter().zip(alone) {
            match (s, alone) {
                // Stages that follow use the buffer, too.
                (Stmt::Alloc { buf }, _) => program.bufs[buf].role = Role::Temp,
                (_, Some(computed)) => {
                    if !rest.is_empty() {
                        stages.push(Stage::Nest(std::mem::take(&mut rest)));
                    }
                    stages.extend(computed.into_iter().map(Stage::Compute));
                }
                (s, None) => rest.push(s),
            }
        }
        if !rest.is_empty() {
            stages.push(Stage::Nest(rest));
        }
    }

    /// Returns a nest with loops around several statements [`distributed`], and buffers that are
    /// written anew [split](split_versions), where more of its statements become stages by that.
    fn prepared(&mut self, program: &mut Program, body: Vec<Stmt>) -> Vec<Stmt> {
        let before = self.tried(program, &body);
        // Loops that stay as they are: not all of their parts would become stages.
        let mut whole = vec![false; body.len()];
        let outside = shared(&body);
        for _ in 0..ROUNDS {
            if before.iter().all(|done| *done) {
                break;
            }
            let (mut new, mut changed) = (self.clone(), program.clone());
            // The parts, and the statements that they come from.
            let (mut parts, mut of) = (Vec::new(), Vec::new());
            for (k, s) in body.iter().enumerate() {
                let split = match whole[k] {
                    true => None,
                    false => distributed(&mut changed, s, &outside),
                };
                parts.extend(split.unwrap_or_else(|| vec![s.clone()]));
                of.resize(parts.len(), k);
            }
            new.recount(&body, &parts);
            let separate = parts.clone();
            split_versions(&mut changed, &mut parts, &new.writers);
            new.recount(&separate, &parts);
            let mut after = vec![true; body.len()];
            for (&k, done) in of.iter().zip(new.tried(&changed, &parts)) {
                after[k] &= done;
            }
            let mut number_of = vec![0; body.len()];
            of.iter().for_each(|&k| number_of[k] += 1);
            let failed: Vec<usize> = (0..body.len())
                .filter(|&k| !after[k] && number_of[k] > 1)
                .collect();
            if failed.is_empty() {
                let number = |done: &[bool]| done.iter().filter(|d| **d).count();
                if number(&after) > number(&before) {
                    (*self, *program) = (new, changed);
                    return parts;
                }
                break;
            }
            for k in failed {
                whole[k] = true;
            }
        }
        body
    }

    /// Returns which statements of a nest become stages, or are not needed then.
    fn tried(&self, program: &Program, body: &[Stmt]) -> Vec<bool> {
        let alone = self.clone().alone(&mut program.clone(), body);
        (alone.iter().zip(body))
            .map(|(alone, s)| alone.is_some() || matches!(s, Stmt::Alloc { .. }))
            .collect()
    }

    /// Counts the statements of a nest that has taken the place of another one.
    fn recount(&mut self, old: &[Stmt], new: &[Stmt]) {
        for buf in old.iter().flat_map(writes) {
            if let Some(n) = self.writers.get_mut(&buf) {
                *n -= 1;
            }
        }
        for buf in new.iter().flat_map(writes) {
            *self.writers.entry(buf).or_default() += 1;
        }
    }

    /// Returns for each statement of a nest the computations that it becomes.
    ///
    /// Invariant: what a computation reads is written by no more than one statement, which comes
    /// before, and nothing else writes its result. So it may be moved, or become part of a kernel.
    fn alone(&mut self, program: &mut Program, body: &[Stmt]) -> Vec<Option<Vec<Compute>>> {
        // Statements up to the last use of a name stay with it.
        let mut held = 0;
        let mut found: Vec<Option<Vec<Compute>>> = Vec::with_capacity(body.len());
        for (k, s) in body.iter().enumerate() {
            if let Stmt::Let { var, .. } = s {
                let last = body.iter().rposition(|s| mentions(s, *var)).unwrap_or(k);
                held = held.max(last + 1).max(k + 1);
            }
            let mut computed = None;
            if k >= held {
                computed = self.free(computation(program, s), 1).map(|c| vec![c]);
                if computed.is_none() {
                    let before = k.checked_sub(1).filter(|b| *b >= held).map(|b| &body[b]);
                    if let Some((sums, takes_before)) = self.reduction(program, s, before) {
                        if takes_before && let Some(last) = found.last_mut() {
                            *last = Some(Vec::new());
                            // Both are one stage for those that read it.
                            self.writers.extend(sums.last().map(|c| (c.out, 1)));
                        }
                        computed = Some(sums);
                    }
                }
            }
            found.push(computed);
            self.written.extend(writes(s));
        }
        found
    }

    /// Returns the computations of a statement that reduces in a form of its own, and whether the
    /// statement before it, which says what its elements are at first, has become part of them.
    fn reduction(
        &self,
        program: &mut Program,
        s: &Stmt,
        before: Option<&Stmt>,
    ) -> Option<(Vec<Compute>, bool)> {
        let Accumulation { sums, start } = Accumulation::of(program, s)?;
        let takes_before = start.is_none();
        let (axes, start) = match start {
            Some(start) => (sums.axes.clone(), start),
            None => {
                let first = computation(program, before?)?;
                if first.out != sums.out || first.reduce.is_some() {
                    return None;
                }
                (first.axes, first.value)
            }
        };
        let own = 1 + usize::from(takes_before);
        let first = Compute {
            out: sums.out,
            axes: axes.clone(),
            reduce: None,
            value: start.clone(),
        };
        self.free(Some(first), own)?;
        let sums = self.free(Some(sums), own)?;
        if rounds_each_time(program, &sums) {
            return None;
        }
        let extents: Vec<(Var, Ex)> = (axes.iter().copied())
            .zip(program.bufs[sums.out].shape.iter().cloned())
            .collect();
        if !reads_inside(program, &sums.value, &program.loops(&sums))
            || !reads_inside(program, &start, &extents)
        {
            return None;
        }
        let combiner = sums.reduce.as_ref()?.combiner;
        let buffer = program.bufs[sums.out].clone();
        if start == combiner.identity(buffer.dtype) {
            return Some((vec![sums], takes_before));
        }
        let out = sums.out;
        let between = program.bufs.push(Buffer {
            role: Role::Temp,
            ..buffer
        });
        // The two stages have axes of their own.
        let fresh: Vec<(Var, Ex)> = axes
            .iter()
            .map(|_| program.fresh("i", DType::I64))
            .collect();
        let start = map_expr(&start, |e| match e.kind() {
            ExKind::Var(v) => axes.iter().position(|a| a == v).map(|k| fresh[k].1.clone()),
            _ => None,
        });
        let index = fresh.iter().map(|f| f.1.clone()).collect();
        let total = Ex::new(ExKind::Load(between, index), start.dtype());
        let last = Compute {
            out,
            axes: fresh.iter().map(|f| f.0).collect(),
            reduce: None,
            value: start.binary(combiner.op(), &total),
        };
        let sums = Compute {
            out: between,
            ..sums
        };
        Some((vec![sums, last], takes_before))
    }

    /// Returns a computation whose result so many statements write, if it may be a stage.
    fn free(&self, c: Option<Compute>, own: usize) -> Option<Compute> {
        let c = c?;
        let writers = |b: &Buf| self.writers.get(b).copied().unwrap_or(0);
        let (_, read) = accesses(&Stage::Compute(c.clone()));
        let settled = |b: &Buf| writers(b) == 0 || writers(b) == 1 && self.written.contains(b);
        (writers(&c.out) == own && read.iter().all(settled)).then_some(c)
    }
}

/// Returns whether the buffer that a statement may allocate can live as long as the program.
fn may_outlive(program: &Program, s: &Stmt) -> bool {
    let Stmt::Alloc { buf } = s else { return true };
    known_at_start(program, &program.bufs[*buf].shape)
}

/// Returns whether a statement uses a variable.
fn mentions(s: &Stmt, var: Var) -> bool {
    let mut all = statements(std::slice::from_ref(s)).flat_map(Stmt::exprs);
    all.any(|e| depends(e, &|v| v == var))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Combiner, lower_stage};

    /// Sums of rows divided by their number, with what is between them; `k` numbers its statements.
    fn rows() -> Program {
        let mut b = Builder::new("rows");
        let x = b.input("x", DType::F32, &[Some(6), Some(8)]);
        let extents = [Ex::idx(6)];
        let sums = b.reduce("s", &extents, &[Ex::idx(8)], Combiner::Sum, |i, r| {
            x.at(&[i[0].clone(), r[0].clone()])
        });
        let y = b.compute("y", &extents, |i| sums.at(i) + sums.at(i));
        b.output(&y);
        b.program
    }

    /// The program as one nest, whose buffers live in it, with statements before those of its stages.
    fn by_hand(program: &Program, before: [Vec<Stmt>; 2]) -> Program {
        let mut new = program.clone();
        let temps: Vec<Buf> = crate::used_temps(program);
        for &b in &temps {
            new.bufs[b].role = Role::Local;
        }
        let mut body: Vec<Stmt> = temps.iter().map(|&buf| Stmt::Alloc { buf }).collect();
        for (stage, before) in program.stages.iter().zip(before) {
            body.extend(before);
            body.extend(lower_stage(program, stage));
        }
        new.stages = vec![Stage::Nest(body)];
        new
    }

    fn kinds(program: &Program) -> String {
        let kind = |s: &Stage| {
            if matches!(s, Stage::Nest(_)) {
                'n'
            } else {
                'c'
            }
        };
        program.stages.iter().map(kind).collect()
    }

    #[test]
    fn statements_become_stages() {
        let program = rows();
        let mut new = by_hand(&program, [vec![], vec![]]);
        separate(&mut new);
        assert_eq!(new, program);
    }

    #[test]
    fn results_that_are_written_in_part_stay() {
        let program = rows();
        let out = program.outputs[0];
        let store = |buf, index: i64| Stmt::Store {
            buf,
            index: vec![Ex::idx(index)],
            value: Ex::float(DType::F32, 1.0),
        };
        // A store to the sums holds both back. One to the result comes before all of it is written,
        // and goes to another buffer.
        for (buf, expected) in [(out, "cnc"), (crate::used_temps(&program)[0], "n")] {
            let mut new = by_hand(&program, [vec![], vec![store(buf, 2)]]);
            separate(&mut new);
            assert_eq!(kinds(&new), expected);
        }
    }

    #[test]
    fn what_follows_a_name_that_is_used_stays() {
        let mut program = rows();
        let (var, named) = program.fresh("n", DType::I64);
        let lets = Stmt::Let {
            var,
            value: Ex::idx(3),
        };
        let used = Stmt::Assert {
            cond: named.binary(crate::BinOp::Lt, &Ex::idx(4)),
            message: "three".to_owned(),
            values: Vec::new(),
            part: 0,
        };
        let mut new = by_hand(&program, [vec![lets.clone()], vec![used.clone()]]);
        separate(&mut new);
        assert_eq!(kinds(&new), "nc", "the sums are between a name and its use");
        let mut new = by_hand(&program, [vec![lets, used], vec![]]);
        separate(&mut new);
        assert_eq!(kinds(&new), "ncc");
    }

    #[test]
    fn schedules_and_stated_kernels_are_left_as_they_are() {
        let program = by_hand(&rows(), [vec![], vec![]]);
        let mut marked = program.clone();
        if let Stage::Nest(body) = &mut marked.stages[0]
            && let Some(Stmt::For { mark, .. }) = body.last_mut()
        {
            *mark = Mark::Parallel;
        }
        let mut stated = program.clone();
        stated.kernels.push(crate::Kernel {
            kind: crate::KernelKind::Vectors,
            stages: 0..1,
        });
        for program in [marked, stated] {
            let mut new = program.clone();
            separate(&mut new);
            assert_eq!(new, program);
        }
    }
}
