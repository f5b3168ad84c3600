//! The choice of kernels: which stages of a program a kernel of the runtime computes, and which are
//! generated code.
//!
//! [`select`] makes it, for native code and for the pass `select-kernels` alike; the latter states it
//! in the program ([`state`]), and a program that states kernels gets these and no others. Each rule
//! is a module of its own: [`attention`], [`fused_bytes`], [`pooled`], [`epilogue`], [`hinted`],
//! [`lines`], and for stages that nothing else takes [`moves`], [`contraction`] and [`vectors`]. It
//! is asked of the stage whose result a kernel would store, and what it returns is all that code
//! generation needs.
//!
//! ```
//! use std::borrow::Cow;
//! use relax_loops::{Builder, select::{Weights, select}};
//! use relax_tensor::DType;
//!
//! let mut b = Builder::new("double");
//! let x = b.input("x", DType::F32, &[Some(4)]);
//! let y = b.compute("y", &x.shape, |i| &x.at(i) + &x.at(i));
//! b.output(&y);
//! let selection = select(Cow::Borrowed(&b.program), Weights::Any);
//! assert_eq!(selection.steps.len(), 1);
//! assert!(selection.steps[0].work.kind().is_none(), "four elements are generated code");
//! ```

use std::borrow::Cow;

use rustc_hash::FxHashSet;

use crate::attention::{self, Attention};
use crate::epilogue::{self, Epilogue, Fused};
use crate::fused_bytes::{self, FusedBytes};
use crate::lower::{accesses, reads};
use crate::pooled::{self, Pooled};
use crate::{Buf, Compute, KernelKind, Program, Stage, Stmt, quantised};
use boxes::Boxes;
use contraction::Contraction;
use gathered::Gathered;
use hinted::Hinted;
use lines::LinesNest;
use lookup::Lookup;
use moves::Moves;
use separate::has_marks;
use statement::computation;
use vectors::Vectors;

mod apart;
pub mod boxes;
mod byte_tables;
pub mod chosen;
pub mod contraction;
pub mod copies;
mod cut;
pub mod digits;
mod distribute;
pub mod gathered;
pub mod hinted;
mod in_two;
pub mod joined;
mod known;
pub mod lines;
pub mod lookup;
pub mod moves;
pub mod operations;
pub mod picks;
mod private;
mod rows;
pub(crate) mod separate;
mod stated;
mod statement;
pub mod strided;
pub mod strips;
pub mod sweep;
pub mod vectors;
mod versions;

use stated::Stated;
pub use stated::{check, state};

/// The weights of products that a kernel with packed weights may take.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Any.
    Any,
    /// These inputs: they are packed.
    Packed(&'a [Buf]),
}

/// A program with the choice of its kernels.
pub struct Selection<'p> {
    /// The program: the given one, but for tables that kernels read and expressions that became
    /// simpler. Its buffers are those of the given one, and more.
    pub program: Cow<'p, Program>,
    /// What is computed, in this order. Stages that only others' kernels would have read are not
    /// among them.
    pub steps: Vec<Step>,
}

/// A part of the work.
pub struct Step {
    /// The stage whose results are stored.
    pub stage: usize,
    /// The way they are computed.
    pub work: Work,
}

/// A way to compute a stage.
pub enum Work {
    /// As a stage that has no hint and is fused with none.
    Alone(Alone),
    /// By generated code, but for these statements of a nest, which are computed as a stage would be.
    Statements(Vec<Option<(Compute, Alone)>>),
    /// By the kernel of a hint, with an epilogue.
    Hinted(Hinted),
    /// By a kernel for lines.
    Lines(LinesNest),
    /// With the product of bytes before it.
    QuantizedProduct(FusedBytes),
    /// With the convolution before it, which has the epilogue.
    PooledConvolution(Pooled, Epilogue),
    /// With all of an attention before it.
    Attention(Attention),
}

/// A way to compute a stage that has no hint and is fused with none.
pub enum Alone {
    /// By generated code.
    Code,
    /// By the kernel for sums of products of any form.
    Contraction(Contraction),
    /// By kernels that move elements.
    Copy(Moves),
    /// By vector operations.
    Vectors(Vectors),
    /// By looking bytes up.
    Lookup(Lookup),
    /// Over boxes of elements.
    Boxes(Boxes),
    /// As sums of elements at tabulated places.
    Gathered(Gathered),
}

impl Work {
    /// Returns the kind of kernel; `None` for generated code.
    pub fn kind(&self) -> Option<KernelKind> {
        Some(match self {
            Work::Alone(alone) => return alone.kind(),
            Work::Statements(_) => return None,
            Work::Hinted(h) => h.kind(),
            Work::Lines(_) => KernelKind::Lines,
            Work::QuantizedProduct(_) => KernelKind::QuantizedProduct,
            Work::PooledConvolution(..) => KernelKind::PooledConvolution,
            Work::Attention(_) => KernelKind::Attention,
        })
    }
}

impl Alone {
    /// Returns the kind of kernel; `None` for generated code.
    pub fn kind(&self) -> Option<KernelKind> {
        Some(match self {
            Alone::Code => return None,
            Alone::Contraction(_) => KernelKind::Contraction,
            Alone::Copy(_) => KernelKind::Copy,
            Alone::Vectors(_) | Alone::Lookup(_) | Alone::Boxes(_) | Alone::Gathered(_) => {
                KernelKind::Vectors
            }
        })
    }
}

/// Chooses the kernels of a program, or takes those that it states.
pub fn select<'p>(program: Cow<'p, Program>, weights: Weights<'_>) -> Selection<'p> {
    let mut stated = Stated::of(&program);
    let program = quantised::hint_requantised(program);
    let (program, bytes) = products_of_bytes(program, weights);
    let program = known::fold(crate::shorten_round_trips(program));
    let program = byte_tables::tabulate(program, &stated);
    let program = in_two::reduced(program, &mut stated);
    let is_code = |p: &Program, c: &Compute| matches!(alone(p, c, |_| true), Alone::Code);
    let program = apart::set(program, &mut stated, is_code);
    let rules = Rules {
        attention: attention::find(&program),
        fused: epilogue::find(&program),
        bytes,
        free: !stated.is_some() && !has_marks(&program),
        stated,
        program: &program,
    };
    let steps = rules.steps();
    Selection { program, steps }
}

/// A rule that finds a way to compute a stage alone.
type Rule = fn(&Program, &Compute) -> Option<Alone>;

/// The rules for stages alone with the kernels that they choose, in the order in which they are
/// asked.
const ALONE: [(KernelKind, Rule); 6] = [
    (KernelKind::Vectors, |p, c| {
        lookup::find(p, c).map(Alone::Lookup)
    }),
    (KernelKind::Vectors, |p, c| {
        boxes::find(p, c).map(Alone::Boxes)
    }),
    (KernelKind::Copy, |p, c| moves::find(p, c).map(Alone::Copy)),
    (KernelKind::Contraction, |p, c| {
        contraction::find(p, c).map(Alone::Contraction)
    }),
    (KernelKind::Vectors, |p, c| {
        vectors::find(p, c).map(Alone::Vectors)
    }),
    (KernelKind::Vectors, |p, c| {
        gathered::find(p, c).map(Alone::Gathered)
    }),
];

/// Chooses the way to compute a stage that has no hint and is fused with none, among the kernels
/// that are allowed: as elements that move, as a contraction, by vector operations, or by generated
/// code.
pub fn alone(program: &Program, c: &Compute, allows: impl Fn(KernelKind) -> bool) -> Alone {
    let mut allowed = ALONE.iter().filter(|(kind, _)| allows(*kind));
    allowed
        .find_map(|(_, find)| find(program, c))
        .unwrap_or(Alone::Code)
}

/// Finds the products of bytes whose weights may be packed. Without any, the program is unchanged.
fn products_of_bytes<'p>(
    program: Cow<'p, Program>,
    weights: Weights<'_>,
) -> (Cow<'p, Program>, Vec<FusedBytes>) {
    let packed = match weights {
        Weights::Any => None,
        Weights::Packed([]) => return (program, Vec::new()),
        Weights::Packed(packed) => Some(packed),
    };
    let (program, mut all) = fused_bytes::find(program);
    let weight = |f: &FusedBytes| f.hint.operands().get(1).copied();
    if let Some(packed) = packed {
        all.retain(|f| weight(f).is_some_and(|w| packed.contains(&w)));
    }
    (program, all)
}

/// What the rules found in a program.
struct Rules<'p> {
    program: &'p Program,
    attention: Vec<Attention>,
    bytes: Vec<FusedBytes>,
    fused: Vec<Fused>,
    stated: Stated,
    /// Whether statements of nests get kernels: the program states none, and has no schedule.
    free: bool,
}

impl Rules<'_> {
    /// Chooses from the last stage to the first: a stage is computed if a later step reads what it
    /// writes.
    fn steps(&self) -> Vec<Step> {
        let p = self.program;
        let mut wanted: FxHashSet<Buf> = p.outputs.iter().copied().collect();
        for b in p.bufs.values() {
            b.shape.iter().for_each(|e| reads(e, &mut wanted));
        }
        let mut steps = Vec::new();
        for (stage, body) in p.stages.iter().enumerate().rev() {
            let work = match body {
                Stage::Compute(c) if !wanted.contains(&c.out) => continue,
                Stage::Compute(c) => self.work(stage, c),
                Stage::Nest(stmts) => match lines::find(p, body) {
                    Some(found) if self.stated.allows(KernelKind::Lines, p, stage) => {
                        Work::Lines(found)
                    }
                    _ => self.statements(stmts),
                },
            };
            self.reads(body, &work, &mut wanted);
            steps.push(Step { stage, work });
        }
        steps.reverse();
        steps
    }

    fn work(&self, stage: usize, c: &Compute) -> Work {
        let p = self.program;
        let allows = |kind| self.stated.allows(kind, p, stage);
        if let Some(f) = self.bytes.iter().find(|f| f.bytes == c.out)
            && allows(KernelKind::QuantizedProduct)
        {
            return Work::QuantizedProduct(f.clone());
        }
        if allows(KernelKind::PooledConvolution)
            && let Some(found) = pooled::ending_at(p, &self.fused, stage)
        {
            let epilogue = self.fused.iter().find(|f| f.consumer == found.last);
            let epilogue = epilogue.map(|f| f.epilogue.clone()).unwrap_or_default();
            return Work::PooledConvolution(found, epilogue);
        }
        if let Some(a) = self.attention.iter().find(|a| a.out.buf == c.out)
            && allows(KernelKind::Attention)
        {
            return Work::Attention(a.clone());
        }
        if let Some(f) = self.fused.iter().find(|f| f.consumer == stage)
            && let Stage::Compute(sums) = &p.stages[f.producer]
            && self.attention.iter().all(|a| a.out.buf != sums.out)
            && self.stated.together(f.producer, stage, p)
            && let Some(hinted) = hinted::find(p, sums)
            && allows(hinted.kind())
        {
            return Work::Hinted(Hinted {
                out: c.out,
                epilogue: f.epilogue.clone(),
                ..hinted
            });
        }
        match hinted::find(p, c) {
            Some(hinted) if allows(hinted.kind()) => Work::Hinted(hinted),
            _ => Work::Alone(alone(p, c, allows)),
        }
    }

    /// Chooses for the statements of a nest that is no stage of a stated kernel, and has no schedule.
    /// Those that [`crate::separate`] can move are stages already.
    fn statements(&self, stmts: &[Stmt]) -> Work {
        if !self.free {
            return Work::Alone(Alone::Code);
        }
        let work = |s| {
            let c = computation(self.program, s)?;
            let work = alone(self.program, &c, |_| true);
            Some((c, work))
        };
        let all: Vec<_> = stmts.iter().map(work).collect();
        match all.iter().any(Option::is_some) {
            true => Work::Statements(all),
            false => Work::Alone(Alone::Code),
        }
    }

    /// Adds the buffers that a step reads.
    fn reads(&self, stage: &Stage, work: &Work, wanted: &mut FxHashSet<Buf>) {
        match (work, stage) {
            (Work::Hinted(h), _) => {
                wanted.extend(h.hint.operands());
                wanted.extend(h.epilogue.operands());
                h.zeros.iter().flatten().for_each(|e| reads(e, wanted));
            }
            (Work::QuantizedProduct(f), _) => {
                wanted.extend(f.hint.operands());
                wanted.extend(f.tables());
                f.zeros.iter().for_each(|e| reads(e, wanted));
            }
            (Work::PooledConvolution(p, epilogue), _) => {
                let conv = match &self.program.stages[p.conv] {
                    Stage::Compute(c) => self.program.hint(c.out),
                    Stage::Nest(_) => None,
                };
                wanted.extend(conv.into_iter().flat_map(|h| h.operands()));
                wanted.extend(epilogue.operands());
            }
            (Work::Attention(a), _) => {
                wanted.extend([a.q, a.k, a.v].map(|o| o.buf));
                wanted.extend(a.mask.as_ref().map(|m| m.buf));
            }
            (Work::Alone(_) | Work::Statements(_) | Work::Lines(_), stage) => {
                let (written, read) = accesses(stage);
                wanted.extend(read);
                if let Stage::Nest(_) = stage {
                    // A nest may add to what an earlier stage wrote.
                    wanted.extend(written);
                }
            }
        }
    }
}
