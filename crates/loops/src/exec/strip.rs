//! Computations over indices, strip by strip.
//!
//! The lanes of a strip are consecutive elements of the output: they run over its inner axes as if
//! these were one, with loops over the outer axes and over the domain of a reduction. Where the
//! output is small and the reduction is not, the lanes run over the domain of the reduction instead
//! and are reduced at the end.

use relax_base::Id;
use rustc_hash::FxHashSet;

use super::Dims;
use super::code::{Ins, Machine};
use super::compile::Compiler;
use super::error::Fault;
use super::memory::Bufs;
use super::num::Num;
use super::span::{AxisIndex, Reg, STRIP};
use crate::{Combiner, Compute, ExKind, Program, Role, Var, visit_expr};

/// The number of lanes below which another axis is added.
const FEW: i64 = 32;

/// A domain of index values, enumerated in row-major order.
struct Odometer {
    regs: Vec<Reg>,
    extents: Vec<i64>,
    at: Vec<i64>,
}

impl Odometer {
    fn new(regs: Vec<Reg>, extents: &[i64]) -> Odometer {
        Odometer {
            regs,
            at: vec![0; extents.len()],
            extents: extents.to_vec(),
        }
    }
    fn reset(&mut self, m: &mut Machine) {
        self.at.fill(0);
        self.regs.iter().for_each(|r| m.set_int(*r, 0));
    }
    /// The next point; `false` after the last.
    fn step(&mut self, m: &mut Machine) -> bool {
        for k in (0..self.at.len()).rev() {
            self.at[k] += 1;
            if self.at[k] < self.extents[k] {
                m.set_int(self.regs[k], self.at[k]);
                return true;
            }
            self.at[k] = 0;
            m.set_int(self.regs[k], 0);
        }
        false
    }
}

/// Recognises loads whose wide parts are the lanes' own coordinates, of consecutive elements.
/// Returns whether anything else asks for the coordinates.
fn along(segs: &mut [Vec<Ins>], value: Reg, lanes: &[Reg], extents: &[i64]) -> bool {
    let mut asked = lanes.contains(&value);
    for ins in segs.iter_mut().flatten() {
        match ins {
            Ins::Span(span, axes) => match greatest(axes, lanes, extents) {
                Some(greatest) => *ins = Ins::Along(*span, greatest),
                None => asked |= axes.iter().any(|a| a.wide.is_some()),
            },
            // Its span has computed what it needs of them.
            Ins::Load(_, _, _, _, mask) => asked |= mask.is_some_and(|m| lanes.contains(&m)),
            _ => ins.regs(&mut |r, _| asked |= lanes.contains(r)),
        }
    }
    asked
}

/// Returns the greatest wide part of each axis of an index, if consecutive lanes read consecutive
/// elements.
fn greatest(axes: &[AxisIndex], lanes: &[Reg], extents: &[i64]) -> Option<Box<[i64]>> {
    let mut met = 0;
    let mut greatest = Vec::with_capacity(axes.len());
    for axis in axes {
        let Some(wide) = axis.wide else {
            greatest.push(0);
            continue;
        };
        let k = lanes.iter().position(|r| *r == wide)?;
        if k != met || axis.stride != product(&extents[k + 1..]) {
            return None;
        }
        met += 1;
        greatest.push(extents[k] - 1);
    }
    (met == lanes.len()).then(|| greatest.into())
}

fn product(extents: &[i64]) -> i64 {
    extents.iter().product()
}

pub(super) fn run(
    program: &Program,
    c: &Compute,
    dims: &Dims,
    bufs: &mut Bufs,
) -> Result<(), Fault> {
    let out = c.out.index();
    let shape = bufs.at(c.out).shape.clone();
    if program.bufs[c.out].role == Role::Input {
        return Err(Fault::Unsupported("a computation of an input".into()));
    }
    if c.axes.len() != shape.len() || c.value.dtype() != program.bufs[c.out].dtype {
        return Err(Fault::Unsupported("a computation unlike its buffer".into()));
    }
    let mut over = Vec::new();
    if let Some(r) = &c.reduce {
        for (_, extent) in &r.axes {
            over.push(super::scalar(program, extent, dims, bufs)?.max(0));
        }
    }
    if product(&shape) == 0 {
        return Ok(());
    }
    // The output exists but must not be read: it is removed, so that reading it is an error.
    let mut memory = bufs.of[out]
        .take()
        .expect("it exists: its shape was just read");
    let result = match &c.reduce {
        None => across_output(program, c, None, &shape, &[], dims, bufs, &mut memory),
        Some(r) => {
            let axes: Vec<Var> = r.axes.iter().map(|a| a.0).collect();
            if over.contains(&0) {
                fill(program, c, r.combiner, dims, bufs, &mut memory)
            } else if product(&shape) < FEW && product(&over) > 2 * product(&shape) {
                across_box(
                    program,
                    c,
                    (&axes, r.combiner),
                    &shape,
                    &over,
                    dims,
                    bufs,
                    &mut memory,
                )
            } else {
                // The innermost loop is over an axis on which no condition depends, where there is
                // one: masks are then computed outside of it.
                let inner = quiet_axis(c, &axes, &over);
                let mut axes = axes;
                if !axes.is_empty() {
                    axes[inner..].rotate_left(1);
                    over[inner..].rotate_left(1);
                }
                let reduce = Some((&axes[..], r.combiner));
                across_output(program, c, reduce, &shape, &over, dims, bufs, &mut memory)
            }
        }
    };
    bufs.of[out] = Some(memory);
    result
}

/// Returns the last axis with more than one value that no select's condition mentions; the last
/// axis where there is none.
fn quiet_axis(c: &Compute, axes: &[Var], over: &[i64]) -> usize {
    let mut conditions = Vec::new();
    visit_expr(&c.value, |e| {
        if let ExKind::Select(cond, ..) = e.kind() {
            conditions.push(cond);
        }
    });
    let (mut asked, mut seen) = (FxHashSet::default(), FxHashSet::default());
    while let Some(e) = conditions.pop() {
        if seen.insert(e.addr()) {
            conditions.extend(e.children());
            if let ExKind::Var(v) = e.kind() {
                asked.insert(*v);
            }
        }
    }
    let last = axes.len().saturating_sub(1);
    (0..axes.len())
        .rev()
        .find(|&k| over[k] > 1 && !asked.contains(&axes[k]))
        .unwrap_or(last)
}

/// A reduction over an empty domain.
fn fill(
    program: &Program,
    c: &Compute,
    combiner: Combiner,
    dims: &Dims,
    bufs: &mut Bufs,
    memory: &mut super::memory::Memory,
) -> Result<(), Fault> {
    let identity = combiner.identity(c.value.dtype());
    let mut compiler = Compiler::new(program, bufs, false);
    dims.bind(&mut compiler);
    let mut value = compiler.expr(&identity)?;
    let words = compiler.allocate(&mut [&mut value]);
    let segs = std::mem::take(&mut compiler.segs);
    let mut m = Machine::new(words, 0);
    m.run(&segs[0], bufs)?;
    let n = product(&memory.shape) as usize;
    m.store_lanes(memory, 0, n, value);
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn across_output(
    program: &Program,
    c: &Compute,
    reduce: Option<(&[Var], Combiner)>,
    shape: &[i64],
    over: &[i64],
    dims: &Dims,
    bufs: &mut Bufs,
    memory: &mut super::memory::Memory,
) -> Result<(), Fault> {
    let enough = if reduce.is_some() { FEW } else { STRIP as i64 };
    let mut split = shape.len();
    while split > 0 && product(&shape[split..]) < enough {
        split -= 1;
    }
    let num =
        Num::of(c.value.dtype()).ok_or_else(|| Fault::Unsupported("its element type".into()))?;
    let mut compiler = Compiler::new(program, bufs, false);
    dims.bind(&mut compiler);
    // Lanes do not run over an axis with a single value: nothing depending on it is computed per
    // lane.
    let wide = |k: usize| k >= split && shape[k] != 1;
    let (inside, outside): (Vec<usize>, Vec<usize>) = (0..shape.len()).partition(|&k| wide(k));
    let extents = |axes: &[usize]| axes.iter().map(|&k| shape[k]).collect::<Vec<i64>>();
    let (inside_extents, outside_extents) = (extents(&inside), extents(&outside));
    let mut outer: Vec<Reg> = (outside.iter())
        .map(|&k| compiler.bind(c.axes[k], false, 1))
        .collect();
    let mut lanes: Vec<Reg> = (inside.iter())
        .map(|&k| compiler.bind(c.axes[k], true, 2))
        .collect();
    let axes = reduce.map_or(&[][..], |r| r.0);
    let mut inner: Vec<Reg> = (axes.iter().enumerate())
        .map(|(k, v)| compiler.bind(*v, false, if k + 1 == axes.len() { 4 } else { 3 }))
        .collect();
    let mut value = compiler.expr(&c.value)?;
    let reduces = reduce.is_some();
    let mut acc = compiler.reg(reduces, 4, true);
    let mut spare = compiler.reg(reduces, 4, true);
    let identity = reduce.map(|(_, combiner)| combiner.identity(c.value.dtype()));
    let mut start = identity.as_ref().map(|e| compiler.expr(e)).transpose()?;
    let mut roots = vec![&mut value, &mut acc, &mut spare];
    roots.extend(
        outer
            .iter_mut()
            .chain(&mut lanes)
            .chain(&mut inner)
            .chain(&mut start),
    );
    let words = compiler.allocate(&mut roots);
    let spans = compiler.spans;
    let mut segs = std::mem::take(&mut compiler.segs);
    let asked = along(&mut segs, value, &lanes, &inside_extents);

    let mut m = Machine::new(words, spans);
    m.run(&segs[0], bufs)?;
    let total = product(&inside_extents);
    m.strip.regs = lanes;
    m.strip.extents = inside_extents;
    let mut outer = Odometer::new(outer, &outside_extents);
    let split_box = over.len().saturating_sub(1);
    let mut innermost = Odometer::new(inner.split_off(split_box), &over[split_box..]);
    let mut inner = Odometer::new(inner, &over[..split_box]);
    let mut at = 0;
    outer.reset(&mut m);
    loop {
        m.lanes = 1;
        m.run(&segs[1], bufs)?;
        let mut from = 0;
        while from < total {
            let n = (total - from).min(STRIP as i64);
            m.lanes = n as usize;
            m.strip.from = from;
            if asked {
                m.coordinates();
            }
            bufs.iterate()?;
            m.run(&segs[2], bufs)?;
            let result = match (reduce, start) {
                (Some((_, combiner)), Some(start)) => {
                    m.copy(num, acc, start);
                    inner.reset(&mut m);
                    loop {
                        m.run(&segs[3], bufs)?;
                        innermost.reset(&mut m);
                        loop {
                            bufs.iterate()?;
                            m.run(&segs[4], bufs)?;
                            m.accumulate(combiner.op(), num, acc, value, spare);
                            if !innermost.step(&mut m) {
                                break;
                            }
                        }
                        if !inner.step(&mut m) {
                            break acc;
                        }
                    }
                }
                _ => value,
            };
            m.store_lanes(memory, at, n as usize, result);
            at += n as usize;
            from += n;
        }
        if !outer.step(&mut m) {
            return Ok(());
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn across_box(
    program: &Program,
    c: &Compute,
    (axes, combiner): (&[Var], Combiner),
    shape: &[i64],
    over: &[i64],
    dims: &Dims,
    bufs: &mut Bufs,
    memory: &mut super::memory::Memory,
) -> Result<(), Fault> {
    let num =
        Num::of(c.value.dtype()).ok_or_else(|| Fault::Unsupported("its element type".into()))?;
    let mut compiler = Compiler::new(program, bufs, false);
    dims.bind(&mut compiler);
    let mut outer: Vec<Reg> = c.axes.iter().map(|v| compiler.bind(*v, false, 1)).collect();
    let mut lanes: Vec<Reg> = axes.iter().map(|v| compiler.bind(*v, true, 2)).collect();
    let mut value = compiler.expr(&c.value)?;
    let mut acc = compiler.reg(true, 4, true);
    let mut spare = compiler.reg(true, 4, true);
    let identity = combiner.identity(c.value.dtype());
    let mut start = compiler.expr(&identity)?;
    let mut roots = vec![&mut value, &mut acc, &mut spare, &mut start];
    roots.extend(outer.iter_mut().chain(&mut lanes));
    let words = compiler.allocate(&mut roots);
    let spans = compiler.spans;
    let segs = std::mem::take(&mut compiler.segs);

    let mut m = Machine::new(words, spans);
    m.run(&segs[0], bufs)?;
    let total = product(over);
    (m.strip.regs, m.strip.extents) = (lanes, over.to_vec());
    let most = total.min(STRIP as i64);
    let mut outer = Odometer::new(outer, shape);
    let mut at = 0;
    outer.reset(&mut m);
    loop {
        m.lanes = 1;
        m.run(&segs[1], bufs)?;
        m.lanes = most as usize;
        m.copy(num, acc, start);
        let mut from = 0;
        while from < total {
            let n = (total - from).min(STRIP as i64);
            m.lanes = n as usize;
            m.strip.from = from;
            m.coordinates();
            bufs.iterate()?;
            m.run(&segs[2], bufs)?;
            m.accumulate(combiner.op(), num, acc, value, spare);
            from += n;
        }
        m.fold(combiner.op(), num, acc, most as usize, spare);
        m.lanes = 1;
        m.store_lanes(memory, at, 1, acc);
        at += 1;
        if !outer.step(&mut m) {
            return Ok(());
        }
    }
}
