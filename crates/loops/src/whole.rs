//! Buffers of which a loop nest may leave elements unwritten.
//!
//! An unwritten element is 0 in reference execution. Native code uses uninitialised memory, and
//! zeroes it first where it is not proven here that the nest writes all of it before it reads any.
//!
//! The proof covers stores under loops that run over all of a buffer: each index a sum of loop
//! variables that enumerates its axis (`i`, or `i_o * 8 + i_i` of a loop that was split), under no
//! condition other than that an index is in bounds, or in the `init` of a reduction.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::outside::{DEEPEST, Linear};
use crate::reduction_init::starts_without;
use crate::{BinOp, Buf, Ex, ExKind, Program, Role, Stage, Stmt, Var, statements, visit_expr};

/// Returns the buffers whose elements are not proven to be written before they are read, or at all.
pub fn unwritten(program: &Program) -> FxHashSet<Buf> {
    let mut found = FxHashSet::default();
    let mut begun: FxHashSet<Buf> = program.inputs.iter().copied().collect();
    for stage in &program.stages {
        let body = match stage {
            Stage::Compute(c) => {
                begun.insert(c.out);
                continue;
            }
            Stage::Nest(body) => body,
        };
        for buf in crate::exec::written(body) {
            let own = program.bufs[buf].role == Role::Local;
            if !own && begun.insert(buf) && !writes_all(program, body, buf) {
                found.insert(buf);
            }
        }
        locals(program, body, &mut found);
    }
    found
}

/// Does it for the buffers that blocks allocate.
fn locals(program: &Program, body: &[Stmt], found: &mut FxHashSet<Buf>) {
    let mut blocks = vec![body];
    while let Some(block) = blocks.pop() {
        for (k, stmt) in block.iter().enumerate() {
            if let Stmt::Alloc { buf } = stmt
                && !writes_all(program, &block[k + 1..], *buf)
            {
                found.insert(*buf);
            }
            blocks.extend(stmt.bodies());
        }
    }
}

/// Returns whether a block writes all of a buffer, each element before it is read.
fn writes_all(program: &Program, body: &[Stmt], buf: Buf) -> bool {
    let mut cover = Cover {
        shape: &program.bufs[buf].shape,
        buf,
        around: Vec::new(),
        lets: FxHashMap::default(),
        guards: Vec::new(),
        starts: FxHashSet::default(),
        early: false,
    };
    let Some(index) = cover.block(body) else {
        return false;
    };
    // An element that is read was written by the store before it.
    let mut fine = !cover.early;
    for e in statements(body).flat_map(Stmt::exprs) {
        visit_expr(e, |x| {
            if let ExKind::Load(b, at) = x.kind() {
                fine &= *b != buf || *at == index;
            }
        });
    }
    fine
}

/// The search for the store that writes all.
struct Cover<'s> {
    shape: &'s [Ex],
    buf: Buf,
    /// The loops around.
    around: Vec<&'s Stmt>,
    lets: FxHashMap<Var, &'s Ex>,
    /// The conditions under which the store executes: an index less than a number.
    guards: Vec<(Ex, Ex)>,
    /// Loops that an initial value does not depend on.
    starts: FxHashSet<Var>,
    /// Whether the buffer is read before the store.
    early: bool,
}

impl<'s> Cover<'s> {
    /// Returns the indices of the first store that writes all. The nesting depth is bounded by the
    /// resolver.
    fn block(&mut self, block: &'s [Stmt]) -> Option<Vec<Ex>> {
        for stmt in block {
            self.early |= stmt.exprs().any(|e| self.reads(e));
            let found = match stmt {
                Stmt::Store { buf, index, .. } => {
                    (*buf == self.buf && self.all(index)).then(|| index.clone())
                }
                Stmt::For { body, .. } => {
                    self.around.push(stmt);
                    let found = self.block(body);
                    self.around.pop();
                    found
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => self.two_ways(cond, then, otherwise),
                Stmt::Init { over, body } => self.init(over, body),
                Stmt::Let { var, value } => {
                    self.lets.insert(*var, value);
                    None
                }
                Stmt::While { body, .. } => {
                    self.early |= statements(body)
                        .flat_map(Stmt::exprs)
                        .any(|e| self.reads(e));
                    None
                }
                Stmt::Alloc { .. } | Stmt::Assert { .. } => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn reads(&self, e: &Ex) -> bool {
        let mut found = false;
        visit_expr(e, |x| {
            found |= matches!(x.kind(), ExKind::Load(b, _) if *b == self.buf)
        });
        found
    }

    fn two_ways(&mut self, cond: &Ex, then: &'s [Stmt], otherwise: &'s [Stmt]) -> Option<Vec<Ex>> {
        let before = self.guards.len();
        let inside = self.bounds(cond);
        let found = inside.then(|| self.block(then)).flatten();
        self.guards.truncate(before);
        if found.is_some() {
            return found;
        }
        let both = (self.block(then), self.block(otherwise));
        match both {
            (Some(a), Some(b)) if a == b => Some(a),
            _ => None,
        }
    }

    /// Interprets a condition as bounds of indices, when it is nothing else.
    fn bounds(&mut self, cond: &Ex) -> bool {
        let mut work = vec![cond];
        while let Some(e) = work.pop() {
            match e.kind() {
                ExKind::Binary(BinOp::And, a, b) if e.dtype().is_bool() => work.extend([a, b]),
                ExKind::Binary(BinOp::Lt, a, b) => self.guards.push((self.plain(a), b.clone())),
                ExKind::Binary(BinOp::Gt, a, b) => self.guards.push((self.plain(b), a.clone())),
                _ => return false,
            }
        }
        true
    }

    fn init(&mut self, over: &[Var], body: &'s [Stmt]) -> Option<Vec<Ex>> {
        let in_over = |s: &&&Stmt| matches!(s, Stmt::For { var, .. } if over.contains(var));
        let runs = |s: &Stmt| match s {
            Stmt::For { extent, .. } => extent.as_int().is_some_and(|n| n > 0),
            _ => false,
        };
        let loops: Vec<&Stmt> = self.around.iter().filter(in_over).copied().collect();
        let known = loops.len() == over.len()
            && (loops.iter().all(|s| runs(s))
                || loops.first().is_some_and(|s| starts_without(s, over)));
        if !known {
            self.early |= statements(body)
                .flat_map(Stmt::exprs)
                .any(|e| self.reads(e));
            return None;
        }
        let before = self.starts.clone();
        self.starts.extend(over);
        let found = self.block(body);
        self.starts = before;
        found
    }

    /// Returns an index with names replaced by their values.
    fn plain(&self, e: &Ex) -> Ex {
        let mut e = e.clone();
        // The value of a name may be another one.
        for _ in 0..8 {
            let new = crate::substitute(&e, &|v| self.lets.get(&v).map(|x| (*x).clone()));
            if new == e {
                break;
            }
            e = new;
        }
        e
    }

    /// Returns whether a store with this index, under the enclosing loops, writes every element.
    fn all(&self, index: &[Ex]) -> bool {
        if index.len() != self.shape.len() {
            return false;
        }
        let index: Vec<Ex> = index.iter().map(|i| self.plain(i)).collect();
        let mut used: FxHashSet<Var> = FxHashSet::default();
        for (i, extent) in index.iter().zip(self.shape) {
            let guarded = self.guards.iter().any(|g| g.0 == *i && g.1 == *extent);
            let Some(vars) = self.counts(i, extent, guarded) else {
                return false;
            };
            if !vars.into_iter().all(|v| used.insert(v)) {
                return false;
            }
        }
        let of_index = |g: &(Ex, Ex)| {
            index
                .iter()
                .zip(self.shape)
                .any(|(i, n)| g.0 == *i && g.1 == *n)
        };
        self.guards.iter().all(of_index)
            && self.around.iter().all(|s| match s {
                Stmt::For { var, extent, .. } => match self.starts.contains(var) {
                    true => !used.contains(var),
                    false => used.contains(var) || extent.as_int().is_some_and(|n| n > 0),
                },
                _ => false,
            })
    }

    /// Returns the loops by whose variables an index enumerates all of an axis. Where it is
    /// `guarded` it may go further.
    fn counts(&self, i: &Ex, extent: &Ex, guarded: bool) -> Option<Vec<Var>> {
        if i.as_int() == Some(0) && extent.as_int() == Some(1) {
            return Some(Vec::new());
        }
        let form = Linear::of(i, DEEPEST)?;
        if form.constant != 0 || form.factors.is_empty() {
            return None;
        }
        let mut parts: Vec<(Var, i128)> = form.factors.into_iter().collect();
        parts.sort_by_key(|p| p.1);
        let mut step = 1i128;
        for (k, &(var, factor)) in parts.iter().enumerate() {
            if factor != step {
                return None;
            }
            let n = self.extent(var)?;
            match n.as_int() {
                Some(n) if n > 0 => step = step.checked_mul(i128::from(n))?,
                // Only the outermost one may be of any length.
                _ if k + 1 == parts.len() => {
                    let fits = step == 1 && n == extent || guarded && blocks(n, extent, step);
                    return fits.then(|| parts.iter().map(|p| p.0).collect());
                }
                _ => return None,
            }
        }
        let whole = i128::from(extent.as_int()?);
        let fits = step == whole || guarded && step > whole;
        fits.then(|| parts.iter().map(|p| p.0).collect())
    }

    fn extent(&self, var: Var) -> Option<&'s Ex> {
        self.around.iter().find_map(|s| match s {
            Stmt::For { var: v, extent, .. } if *v == var => Some(extent),
            _ => None,
        })
    }
}

/// Returns whether `n` blocks of `size` are enough for `extent`: `n` is
/// `(extent + size - 1) // size`.
fn blocks(n: &Ex, extent: &Ex, size: i128) -> bool {
    let Ok(size) = i64::try_from(size) else {
        return false;
    };
    let ExKind::Binary(BinOp::FloorDiv, room, by) = n.kind() else {
        return false;
    };
    by.as_int() == Some(size) && crate::outside::same_number(room, &(extent + (size - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, TensorRef};
    use relax_tensor::DType;

    /// Returns whether a nest over `x: (n, 8)` and `y` of the same extents is proven to write all
    /// of `y`.
    fn whole(nest: impl FnOnce(&mut crate::Nest<'_>, &TensorRef, &TensorRef)) -> bool {
        let mut b = Builder::new("f");
        let x = b.input("x", DType::F32, &[None, Some(8)]);
        let y = b.temp("y", DType::F32, &x.shape);
        b.nest(|n| nest(n, &x, &y));
        b.output(&y);
        unwritten(&b.program).is_empty()
    }

    #[test]
    fn stores_under_loops_over_everything_write_everything() {
        assert!(whole(|n, x, y| n.grid(&x.shape, |n, i| n.store(
            y,
            i,
            x.at(i)
        ))));
        // Split loops with a guard, and names for indices.
        assert!(whole(|n, x, y| {
            n.for_((&x.shape[0] + 3).floor_div(4), |n, o| {
                n.for_(4, |n, i| {
                    let row = n.let_(o * 4 + i);
                    n.if_(row.lt(&x.shape[0]), |n| {
                        n.for_(8, |n, j| n.store(y, &[row.clone(), j.clone()], 1));
                    });
                });
            });
        }));
        // Both ways.
        assert!(whole(|n, x, y| {
            n.grid(&x.shape, |n, i| {
                n.if_else(i[0].lt(2), |n| n.store(y, i, 1), |n| n.store(y, i, x.at(i)));
            });
        }));
    }

    #[test]
    fn what_may_be_left_out_is_not_written() {
        assert!(!whole(|n, x, y| {
            n.grid(&x.shape, |n, i| n.if_(i[0].lt(2), |n| n.store(y, i, 1)));
        }));
        assert!(!whole(|n, x, y| {
            n.for_(x.shape[0].clone(), |n, i| {
                n.store(y, &[i.clone(), Ex::idx(3)], 1)
            });
        }));
        assert!(!whole(|n, x, y| {
            n.for_(x.shape[0].clone(), |n, i| {
                n.for_(4, |n, j| n.store(y, &[i.clone(), j * 2], 1));
            });
        }));
        // The diagonal, and a loop around that may not run.
        assert!(!whole(|n, _, y| {
            n.for_(8, |n, i| n.store(y, &[i.clone(), i.clone()], 1));
        }));
        assert!(!whole(|n, x, y| {
            n.for_(&x.shape[0] - 1, |n, _| {
                n.grid(&x.shape, |n, i| n.store(y, i, 1));
            });
        }));
        // Another element is read before it is written.
        assert!(!whole(|n, x, y| {
            n.grid(&x.shape, |n, i| {
                let turned = [i[0].clone(), i[1].clone() * -1 + 7];
                n.store(y, i, y.at(&turned));
            });
        }));
    }

    #[test]
    fn local_buffers_are_looked_at_in_their_block() {
        let local = |set: bool| {
            let mut b = Builder::new("f");
            let x = b.input("x", DType::F32, &[None]);
            let y = b.temp("y", DType::F32, &x.shape);
            b.nest(|n| {
                n.for_(x.shape[0].clone(), |n, i| {
                    let cell = n.local("c", DType::F32, &[]);
                    if set {
                        n.set(&cell, 0);
                    }
                    n.set(&cell, cell.scalar() + x.at(std::slice::from_ref(i)));
                    n.store(&y, std::slice::from_ref(i), cell.scalar());
                });
            });
            b.output(&y);
            unwritten(&b.program).len()
        };
        assert_eq!((local(true), local(false)), (0, 1));
    }
}
