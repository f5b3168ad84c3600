//! Kernels that a program states: writing them, checking them, and keeping to them.

use std::borrow::Cow;

use rustc_hash::FxHashSet;

use super::{Selection, Weights, select};
use crate::continued::in_extents;
use crate::{Buf, ExKind, Kernel, KernelKind, Program, Role, Stage, reads_buffer};

/// The kernels that a program states, by the buffers that their stages write: stages may be
/// inserted between them.
pub(super) struct Stated {
    groups: Vec<Group>,
    /// What stages write that the choice has inserted: any kernel may compute them.
    inserted: FxHashSet<Buf>,
}

struct Group {
    kind: KernelKind,
    /// What all its stages write.
    written: FxHashSet<Buf>,
    /// What the last one writes.
    stored: Vec<Buf>,
}

impl Stated {
    pub(super) fn of(program: &Program) -> Stated {
        let group = |k: &Kernel| {
            let stages = program.stages.get(k.stages.clone()).unwrap_or_default();
            Group {
                kind: k.kind,
                written: stages.iter().flat_map(Stage::written).collect(),
                stored: stages.last().map(Stage::written).unwrap_or_default(),
            }
        };
        let groups = program.kernels.iter().map(group).collect();
        Stated {
            groups,
            inserted: FxHashSet::default(),
        }
    }

    /// Returns whether the program states any.
    pub(super) fn is_some(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Returns whether a buffer is written by a kernel that the program states.
    pub(super) fn names(&self, out: Buf) -> bool {
        self.group_of(&[out]).is_some()
    }

    /// Returns whether vector operations alone may compute a stage that writes a buffer.
    pub(super) fn allows_vectors_alone(&self, out: Buf) -> bool {
        let alone = |g: &Group| g.kind == KernelKind::Vectors && g.written.len() == 1;
        self.groups.is_empty() || self.group_of(&[out]).is_some_and(alone)
    }

    /// Notes that the choice has inserted a stage that writes a buffer of its own.
    pub(super) fn insert(&mut self, out: Buf) {
        self.inserted.insert(out);
    }

    /// Returns whether a stage may be the last one of such a kernel: the one that the program
    /// states. A product of bytes whose weight turns out not to be packed is computed as its parts.
    pub(super) fn allows(&self, kind: KernelKind, program: &Program, stage: usize) -> bool {
        if self.groups.is_empty() {
            return true;
        }
        let out = program.stages[stage].written();
        if !out.is_empty() && out.iter().all(|b| self.inserted.contains(b)) {
            return true;
        }
        self.group_of(&out).is_some_and(|g| match g.kind {
            KernelKind::QuantizedProduct if kind != g.kind => {
                matches!(
                    kind,
                    KernelKind::Product | KernelKind::Requantize | KernelKind::Vectors
                )
            }
            _ => kind == g.kind && g.stored == out,
        })
    }

    /// Returns whether two stages may be computed by one kernel.
    pub(super) fn together(&self, a: usize, b: usize, program: &Program) -> bool {
        let [a, b] = [a, b].map(|k| program.stages[k].written());
        self.groups.is_empty()
            || self
                .group_of(&a)
                .is_some_and(|g| b.iter().all(|b| g.written.contains(b)))
    }

    fn group_of(&self, out: &[Buf]) -> Option<&Group> {
        let first = out.first()?;
        self.groups.iter().find(|g| g.written.contains(first))
    }
}

/// Chooses the kernels of a program, and states them in it. The stages of each become adjacent; no
/// stage changes, and none is lost. Returns the number of kernels.
///
/// ```
/// use relax_loops::{Builder, select::state};
/// use relax_tensor::DType;
///
/// let mut b = Builder::new("double");
/// let x = b.input("x", DType::F32, &[Some(64)]);
/// let y = b.compute("y", &x.shape, |i| &x.at(i) + &x.at(i));
/// b.output(&y);
/// assert_eq!(state(&mut b.program), 1);
/// assert_eq!(b.program.kernels[0].kind.name(), "vectors");
/// ```
pub fn state(program: &mut Program) -> usize {
    program.kernels.clear();
    let groups = groups(program);
    let inner: FxHashSet<usize> = (groups.iter())
        .flat_map(|(_, all)| &all[..all.len() - 1])
        .copied()
        .collect();
    let mut order: Vec<usize> = Vec::with_capacity(program.stages.len());
    for k in 0..program.stages.len() {
        match groups.iter().find(|(_, all)| all.last() == Some(&k)) {
            Some((kind, all)) => {
                let from = order.len();
                order.extend(all);
                program.kernels.push(Kernel {
                    kind: *kind,
                    stages: from..order.len(),
                });
            }
            None if inner.contains(&k) => {}
            None => order.push(k),
        }
    }
    let mut old: Vec<Option<Stage>> = program.stages.drain(..).map(Some).collect();
    program.stages = order.iter().filter_map(|&k| old[k].take()).collect();
    program.kernels.len()
}

/// The stages of each kernel, in order.
fn groups(program: &Program) -> Vec<(KernelKind, Vec<usize>)> {
    let chosen = select(Cow::Borrowed(program), Weights::Any);
    let computed = computed(&chosen);
    let mut groups = Vec::new();
    for step in &chosen.steps {
        let Some(kind) = step.work.kind() else {
            continue;
        };
        let out = chosen.program.stages[step.stage].written();
        let Some(last) = program.stages.iter().position(|s| s.written() == out) else {
            continue;
        };
        let mut all = vec![last];
        for k in (0..last).rev() {
            let Stage::Compute(c) = &program.stages[k] else {
                continue;
            };
            // A number that the choice knows stays where it is.
            let known = (chosen.program.stage_of(c.out))
                .is_some_and(|c| matches!(c.value.kind(), ExKind::Int(_) | ExKind::Float(_)));
            let own = program.bufs[c.out].role == Role::Temp
                && !known
                && !computed.contains(&c.out)
                && !in_extents(program, c.out);
            let mut readers = (k + 1..program.stages.len())
                .filter(|&r| reads_buffer(&program.stages[r], c.out))
                .peekable();
            if own && readers.peek().is_some() && readers.all(|r| all.contains(&r)) {
                all.push(k);
            }
        }
        all.reverse();
        // Stages do not move across a nest, which may write what they read.
        let nests = (all[0]..last)
            .any(|k| !program.stages[k].is_guard() && matches!(program.stages[k], Stage::Nest(_)));
        if !nests {
            groups.push((kind, all));
        }
    }
    groups
}

/// The buffers that the steps of a selection write.
fn computed(chosen: &Selection<'_>) -> FxHashSet<Buf> {
    let stages = chosen.steps.iter().map(|s| &chosen.program.stages[s.stage]);
    stages.flat_map(Stage::written).collect()
}

/// Checks that a kernel which a program states computes just these stages: what it is called, and
/// nothing that others read before its end.
///
/// # Errors
/// It is another kernel's work, or none's.
pub fn check(program: &Program, kernel: &Kernel) -> Result<(), String> {
    let name = kernel.kind.name();
    let Some(stages) = (program.stages.get(kernel.stages.clone())).filter(|s| !s.is_empty()) else {
        return Err(format!("the kernel `{name}` has no stages"));
    };
    let only = Program {
        kernels: vec![kernel.clone()],
        ..program.clone()
    };
    let chosen = select(Cow::Borrowed(&only), Weights::Any);
    let out = stages[stages.len() - 1].written();
    let step = (chosen.steps.iter()).find(|s| chosen.program.stages[s.stage].written() == out);
    let Some(step) = step else {
        return Err(format!("nothing reads what the kernel `{name}` computes"));
    };
    if step.work.kind() != Some(kernel.kind) {
        return Err(format!(
            "these stages are not the work of a kernel `{name}`"
        ));
    }
    let computed = computed(&chosen);
    let inner = stages[..stages.len() - 1].iter().flat_map(Stage::written);
    match { inner }.find(|b| computed.contains(b)) {
        Some(b) => Err(format!(
            "the kernel `{name}` does not store `%{}`, which is read",
            program.bufs[b].name
        )),
        None => Ok(()),
    }
}
