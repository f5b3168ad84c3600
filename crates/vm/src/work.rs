//! The work of a kernel's call, before it is called.

use relax_loops::{Buf, Ex, ExKind, Program, Stage, Stmt, Var, scalar};
use rustc_hash::FxHashMap;

/// The elements that are computed together: one iteration, as the reference interpreter counts.
const TOGETHER: u64 = 256;
/// The nodes of extents that are looked at, and the depth of them: no kernel that is called often
/// needs more.
const MOST_NODES: u32 = 10_000;
const DEEPEST: u32 = 64;

/// Returns how many iterations a call of a tensor program makes at most, given the shapes of its
/// inputs and of its results, where the caller knows these. `None` if that depends on more: on
/// elements, on conditions of `while`, on the variables of loops around a loop.
pub(crate) fn of_call<'s>(
    program: &Program,
    inputs: impl Iterator<Item = &'s [i64]>,
    outputs: Option<&[Vec<i64>]>,
) -> Option<u64> {
    let mut known = Known {
        program,
        dims: FxHashMap::default(),
        nodes: MOST_NODES,
    };
    known.bind(program.inputs.iter().zip(inputs));
    let outputs = outputs.unwrap_or_default().iter().map(|s| &s[..]);
    known.bind(program.outputs.iter().zip(outputs));
    let mut all = 0u64;
    for stage in &program.stages {
        let here = match stage {
            Stage::Compute(c) => {
                let inner = c.reduce.iter().flat_map(|r| r.axes.iter().map(|a| &a.1));
                let extents = program.bufs[c.out].shape.iter().chain(inner);
                known.product(extents)?.div_ceil(TOGETHER)
            }
            Stage::Nest(body) => known.block(body, DEEPEST)?,
        };
        all = all.saturating_add(here);
    }
    Some(all)
}

/// The extents of one call.
struct Known<'p> {
    program: &'p Program,
    dims: FxHashMap<Var, i64>,
    nodes: u32,
}

impl Known<'_> {
    fn bind<'b, 's>(&mut self, given: impl Iterator<Item = (&'b Buf, &'s [i64])>) {
        for (&buf, shape) in given {
            for (extent, &value) in self.program.bufs[buf].shape.iter().zip(shape) {
                if let ExKind::Var(v) = extent.kind() {
                    self.dims.entry(*v).or_insert(value);
                }
            }
        }
    }

    fn product<'e>(&mut self, extents: impl Iterator<Item = &'e Ex>) -> Option<u64> {
        let mut all = 1u64;
        for e in extents {
            all = all.saturating_mul(self.extent(e)?);
        }
        Some(all)
    }

    /// Returns the iterations in a block.
    fn block(&mut self, body: &[Stmt], depth: u32) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        let mut all = 0u64;
        for stmt in body {
            let here = match stmt {
                Stmt::For { extent, body, .. } => {
                    let each = self.block(body, depth)?.saturating_add(1);
                    self.extent(extent)?.saturating_mul(each)
                }
                Stmt::While { .. } => return None,
                Stmt::If {
                    then, otherwise, ..
                } => {
                    let then = self.block(then, depth)?;
                    then.max(self.block(otherwise, depth)?)
                }
                Stmt::Init { body, .. } => self.block(body, depth)?,
                Stmt::Alloc { buf } => {
                    let program = self.program;
                    self.product(program.bufs[*buf].shape.iter())? / TOGETHER
                }
                Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Assert { .. } => 0,
            };
            all = all.saturating_add(here);
        }
        Some(all)
    }

    fn extent(&mut self, e: &Ex) -> Option<u64> {
        let n = self.value(e, DEEPEST)? as i64;
        Some(u64::try_from(n).unwrap_or(0))
    }

    /// Returns the bits of an integer expression over dimensions.
    fn value(&mut self, e: &Ex, depth: u32) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        self.nodes = self.nodes.checked_sub(1)?;
        match e.kind() {
            ExKind::Int(n) => Some(*n as u64),
            ExKind::Var(v) => self.dims.get(v).map(|&n| n as u64),
            ExKind::Unary(op, a) => scalar::unary(*op, a.dtype(), self.value(a, depth)?),
            ExKind::Binary(op, a, b) => {
                let (x, y) = (self.value(a, depth)?, self.value(b, depth)?);
                scalar::binary(*op, a.dtype(), x, y)
            }
            ExKind::Select(c, a, b) => match self.value(c, depth)? {
                0 => self.value(b, depth),
                _ => self.value(a, depth),
            },
            ExKind::Cast(a) => scalar::cast(a.dtype(), e.dtype(), self.value(a, depth)?),
            ExKind::Float(_) | ExKind::Load(..) | ExKind::Reinterpret(_) => None,
        }
    }
}
