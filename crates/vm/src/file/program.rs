//! Serialisation of tensor programs, with everything that lowering needs to know.
//!
//! Expressions are a list of nodes in post-order, so that sharing is preserved and depth needs no
//! stack. Variables and buffers are indices; all are bounds-checked when they are read.

use relax_loops::{
    BinOp, Buffer, Combiner, Compute, Ex, ExKind, Hint, Lines, Mark, Program, Role, Stage, Stmt,
    UnOp, VarInfo, visit_expr,
};
use rustc_hash::FxHashMap;

use super::bytes::Writer;

mod read;

pub(super) use read::read;

/// The maximum nesting depth of blocks, the same as in the text format.
const DEPTH: u32 = 200;

/// The maximum rank of a buffer.
const AXES: usize = 256;

/// Writes a program.
pub(super) fn write(w: &mut Writer, p: &Program) {
    let mut nodes = Nodes::of(p);
    w.text(p.name.as_str());
    let vars: Vec<&VarInfo> = p.vars.values().collect();
    w.list(&vars, |w, v| {
        w.text(v.name.as_str());
        w.dtype(v.dtype);
    });
    // Loads refer to buffers, whose extents may be nodes themselves: the number of buffers comes
    // first.
    w.word(p.bufs.len() as u32);
    let list = std::mem::take(&mut nodes.list);
    w.list(&list, |w, e| nodes.node(w, e));
    let bufs: Vec<&Buffer> = p.bufs.values().collect();
    w.list(&bufs, |w, b| {
        w.text(b.name.as_str());
        w.dtype(b.dtype);
        w.byte(match b.role {
            Role::Input => 0,
            Role::Output => 1,
            Role::Temp => 2,
            Role::Local => 3,
        });
        nodes.list_of(w, &b.shape);
    });
    w.list(&p.dims, |w, v| w.word(v.0));
    w.list(&p.inputs, |w, b| w.word(b.0));
    w.list(&p.outputs, |w, b| w.word(b.0));
    w.list(&p.stages, |w, s| match s {
        Stage::Compute(c) => {
            w.byte(0);
            nodes.compute(w, c);
        }
        Stage::Nest(body) => {
            w.byte(1);
            nodes.block(w, body);
        }
    });
    w.list(&p.hints, |w, (b, h)| {
        w.word(b.0);
        hint(w, h);
    });
    w.list(&p.accesses, |w, a| {
        w.word(a.buf.0);
        nodes.list_of(w, &a.index);
    });
    w.word(p.parts.len() as u32);
    w.list(&p.readers, |w, (b, part)| {
        w.word(b.0);
        w.word(*part);
    });
    w.list(&p.kernels, |w, k| {
        w.byte(k.kind as u8);
        w.word(k.stages.start as u32);
        w.word(k.stages.end as u32);
    });
}

/// The nodes of a program's expressions, by index.
struct Nodes<'p> {
    list: Vec<&'p Ex>,
    numbers: FxHashMap<usize, u32>,
}

impl<'p> Nodes<'p> {
    fn of(p: &'p Program) -> Nodes<'p> {
        let mut nodes = Nodes {
            list: Vec::new(),
            numbers: FxHashMap::default(),
        };
        for b in p.bufs.values() {
            b.shape.iter().for_each(|e| nodes.add(e));
        }
        for stage in &p.stages {
            match stage {
                Stage::Compute(c) => {
                    let reduce = c.reduce.iter().flat_map(|r| &r.axes);
                    reduce.for_each(|a| nodes.add(&a.1));
                    nodes.add(&c.value);
                }
                Stage::Nest(body) => {
                    for s in relax_loops::statements(body) {
                        s.exprs().for_each(|e| nodes.add(e));
                    }
                }
            }
        }
        for a in &p.accesses {
            a.index.iter().for_each(|e| nodes.add(e));
        }
        nodes
    }

    fn add(&mut self, e: &'p Ex) {
        visit_expr(e, |e| {
            let next = self.list.len() as u32;
            self.numbers.entry(e.addr()).or_insert_with(|| {
                self.list.push(e);
                next
            });
        });
    }

    fn number(&self, w: &mut Writer, e: &Ex) {
        w.word(self.numbers.get(&e.addr()).copied().unwrap_or(0));
    }

    fn list_of(&self, w: &mut Writer, all: &[Ex]) {
        w.list(all, |w, e| self.number(w, e));
    }

    fn node(&self, w: &mut Writer, e: &Ex) {
        let kind = match e.kind() {
            ExKind::Int(_) => 0,
            ExKind::Float(_) => 1,
            ExKind::Var(_) => 2,
            ExKind::Load(..) => 3,
            ExKind::Unary(..) => 4,
            ExKind::Binary(..) => 5,
            ExKind::Select(..) => 6,
            ExKind::Cast(_) => 7,
            ExKind::Reinterpret(_) => 8,
        };
        w.byte(kind);
        w.dtype(e.dtype());
        match e.kind() {
            ExKind::Int(v) => w.long(*v as u64),
            ExKind::Float(v) => w.long(v.to_bits()),
            ExKind::Var(v) => w.word(v.0),
            ExKind::Load(b, index) => {
                w.word(b.0);
                self.list_of(w, index);
            }
            ExKind::Unary(op, a) => {
                w.byte(place(UnOp::ALL.iter().position(|u| u == op)));
                self.number(w, a);
            }
            ExKind::Binary(op, a, b) => {
                w.byte(place(BinOp::ALL.iter().position(|u| u == op)));
                self.number(w, a);
                self.number(w, b);
            }
            ExKind::Select(c, a, b) => [c, a, b].into_iter().for_each(|e| self.number(w, e)),
            ExKind::Cast(a) | ExKind::Reinterpret(a) => self.number(w, a),
        }
    }

    fn compute(&self, w: &mut Writer, c: &Compute) {
        w.word(c.out.0);
        w.list(&c.axes, |w, v| w.word(v.0));
        w.byte(c.reduce.as_ref().map_or(0, |r| 1 + combiner(r.combiner)));
        let axes = c.reduce.as_ref().map_or(&[][..], |r| &r.axes);
        w.list(axes, |w, (v, extent)| {
            w.word(v.0);
            self.number(w, extent);
        });
        self.number(w, &c.value);
    }

    /// Writes statements. Their nesting depth is limited by the language.
    fn block(&self, w: &mut Writer, body: &[Stmt]) {
        w.list(body, |w, s| {
            self.statement(w, s);
            let blocks = match s {
                Stmt::If { .. } => 2,
                Stmt::For { .. } | Stmt::While { .. } | Stmt::Init { .. } => 1,
                _ => 0,
            };
            s.bodies()[..blocks].iter().for_each(|b| self.block(w, b));
        });
    }

    /// Writes the operands of a statement.
    fn statement(&self, w: &mut Writer, s: &Stmt) {
        match s {
            Stmt::For {
                var, extent, mark, ..
            } => {
                w.byte(0);
                w.word(var.0);
                self.number(w, extent);
                let (kind, lanes) = match mark {
                    Mark::Serial => (0, 0),
                    Mark::Parallel => (1, 0),
                    Mark::Vectorize(n) => (2, *n),
                    Mark::Unroll => (3, 0),
                };
                w.byte(kind);
                w.word(lanes);
            }
            Stmt::While { cond, .. } => {
                w.byte(1);
                self.number(w, cond);
            }
            Stmt::If { cond, .. } => {
                w.byte(2);
                self.number(w, cond);
            }
            Stmt::Store { buf, index, value } => {
                w.byte(3);
                w.word(buf.0);
                self.list_of(w, index);
                self.number(w, value);
            }
            Stmt::Let { var, value } => {
                w.byte(4);
                w.word(var.0);
                self.number(w, value);
            }
            Stmt::Alloc { buf } => {
                w.byte(5);
                w.word(buf.0);
            }
            Stmt::Init { over, .. } => {
                w.byte(6);
                w.list(over, |w, v| w.word(v.0));
            }
            Stmt::Assert {
                cond,
                message,
                values,
                part,
            } => {
                w.byte(7);
                self.number(w, cond);
                w.text(message);
                self.list_of(w, values);
                w.word(*part);
            }
        }
    }
}

fn place(at: Option<usize>) -> u8 {
    at.unwrap_or(usize::from(u8::MAX)) as u8
}

fn combiner(c: Combiner) -> u8 {
    place(Combiner::ALL.iter().position(|&k| k == c))
}

fn bits(all: &[bool]) -> u8 {
    let one = |(i, &b): (usize, &bool)| u8::from(b) << i;
    all.iter().enumerate().map(one).sum()
}

/// Writes a hint: its kind, the buffers that it reads, its numbers, its flags as bits of a byte.
fn hint(w: &mut Writer, h: &Hint) {
    let mut numbers: Vec<i64> = Vec::new();
    let (kind, truths) = match h {
        Hint::Gemm {
            transpose_a,
            transpose_b,
            ..
        } => (0, bits(&[*transpose_a, *transpose_b])),
        Hint::BatchGemm {
            transpose_a,
            transpose_b,
            ..
        } => (1, bits(&[*transpose_a, *transpose_b])),
        Hint::Conv2d {
            strides,
            padding,
            dilation,
            groups,
            nhwc,
            ..
        } => {
            numbers.extend(
                strides
                    .iter()
                    .chain(padding)
                    .chain(dilation)
                    .chain([groups]),
            );
            (2, bits(&[*nhwc]))
        }
        Hint::Depthwise3d {
            strides,
            padding,
            dilation,
            last,
            ..
        } => {
            numbers.extend(strides.iter().chain(padding).chain(dilation));
            (11, bits(&[*last]))
        }
        Hint::Conv2dTranspose {
            strides,
            padding,
            dilation,
            groups,
            ..
        } => {
            numbers.extend(
                strides
                    .iter()
                    .chain(padding)
                    .chain(dilation)
                    .chain([groups]),
            );
            (3, 0)
        }
        Hint::Softmax { log, .. } => (4, bits(&[*log])),
        Hint::LayerNorm {
            epsilon,
            axis,
            groups,
            ..
        } => {
            numbers.extend([epsilon.to_bits() as i64, *axis as i64, *groups]);
            (5, 0)
        }
        Hint::Pool2d {
            nhwc,
            window,
            strides,
            padding,
            dilation,
            max,
            count_include_pad,
            ..
        } => {
            numbers.extend(window.iter().chain(strides).chain(padding).chain(dilation));
            (6, bits(&[*nhwc, *max, *count_include_pad]))
        }
        Hint::Lines { axis, work, .. } => {
            numbers.push(*axis as i64);
            let (kind, truths) = match *work {
                Lines::Sorted { ascend, indices } => (0, bits(&[ascend, indices])),
                Lines::Extreme { greatest, last } => (1, bits(&[greatest, last])),
                Lines::Running { product, exclusive } => (2, bits(&[product, exclusive])),
            };
            numbers.push(kind);
            (7, truths)
        }
        Hint::Requantize { axis, bounds, .. } => {
            let axis = axis.map_or(-1, |a| a as i64);
            numbers.extend([axis, bounds.0, bounds.1]);
            (8, 0)
        }
        Hint::Blockwise { block, bits, .. } => {
            numbers.extend([block, bits]);
            (9, 0)
        }
        Hint::Attention { scale, seen, .. } => {
            numbers.push(scale.to_bits() as i64);
            numbers.extend(seen.window);
            (10, bits(&[seen.causal, seen.at_end]))
        }
    };
    w.byte(kind);
    w.list(&h.operands(), |w, b| w.word(b.0));
    w.list(&numbers, |w, &n| w.long(n as u64));
    w.byte(truths);
}
