//! Tensor programs in the file, with everything that lowering knows of them.
//!
//! Expressions are a list of nodes, each after its parts, so that what is shared stays shared and depth is no stack.
//! Names of variables and buffers are numbers; all are held against what there is when they are read.

use relax_base::{Span, Symbol};
use relax_loops::{
    Access, BinOp, Buf, Buffer, Combiner, Compute, Ex, ExKind, Hint, Lines, Mark, Program, Reduce,
    Role, Stage, Stmt, UnOp, Var, VarInfo, visit_expr,
};
use rustc_hash::FxHashMap;

use super::FileError;
use super::bytes::{Read, Reader, Writer};
use crate::builtin::{BINARY, UNARY};

/// Blocks in blocks of statements; the language has the same limit.
const DEPTH: u32 = 200;

/// Axes of a buffer.
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
    // Loads name buffers, whose extents may be nodes themselves: how many there are comes first.
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
}

/// The nodes of a program's expressions, by number.
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
                w.byte(place(UNARY.iter().position(|u| u.1 == *op)));
                self.number(w, a);
            }
            ExKind::Binary(op, a, b) => {
                w.byte(place(BINARY.iter().position(|u| u.1 == *op)));
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

    /// Statements. They nest no deeper than the language lets them.
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

    /// The own parts of a statement.
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

const COMBINERS: [Combiner; 6] = [
    Combiner::Sum,
    Combiner::Prod,
    Combiner::Max,
    Combiner::Min,
    Combiner::And,
    Combiner::Or,
];

fn combiner(c: Combiner) -> u8 {
    place(COMBINERS.iter().position(|&k| k == c))
}

fn bits(all: &[bool]) -> u8 {
    let one = |(i, &b): (usize, &bool)| u8::from(b) << i;
    all.iter().enumerate().map(one).sum()
}

/// A hint: its kind, the buffers that it reads, its numbers, its truths as bits of a byte.
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
        Hint::LayerNorm { epsilon, .. } => {
            numbers.push(epsilon.to_bits() as i64);
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
    };
    w.byte(kind);
    w.list(&h.operands(), |w, b| w.word(b.0));
    w.list(&numbers, |w, &n| w.long(n as u64));
    w.byte(truths);
}

/// Reads a program. Its parts stand at places of no text, each at its own.
pub(super) fn read(r: &mut Reader<'_>) -> Read<Program> {
    let mut p = Program::new(Symbol::new(&r.text()?));
    let vars = r.list(|r| {
        Ok(VarInfo {
            name: Symbol::new(&r.text()?),
            dtype: r.dtype()?,
        })
    })?;
    for v in vars {
        p.vars.push(v);
    }
    let bufs = r.word()? as usize;
    let mut known = Known {
        vars: p.vars.len(),
        bufs,
        nodes: Vec::new(),
    };
    let n = r.count()?;
    for _ in 0..n {
        let e = known.node(r)?;
        known.nodes.push(e);
    }
    let at = r.at;
    let all = r.list(|r| known.buffer(r))?;
    if all.len() != bufs {
        let what = "the program has another number of buffers";
        return Err(FileError::damaged(at, what));
    }
    for b in all {
        p.bufs.push(b);
    }
    p.dims = r.list(|r| known.var(r))?;
    p.inputs = r.list(|r| known.buf(r))?;
    p.outputs = r.list(|r| known.buf(r))?;
    p.stages = r.list(|r| {
        let at = r.at;
        match r.byte()? {
            0 => Ok(Stage::Compute(known.compute(r)?)),
            1 => Ok(Stage::Nest(known.block(r)?)),
            _ => Err(FileError::damaged(at, "no stage is of that kind")),
        }
    })?;
    p.hints = r.list(|r| Ok((known.buf(r)?, known.hint(r)?)))?;
    let accesses = r.list(|r| Ok((known.buf(r)?, known.list(r)?)))?;
    let at = r.at;
    let parts = r.word()?;
    if parts as usize > r.bytes.len() {
        return Err(FileError::damaged(at, "a program has too many parts"));
    }
    let span = |k: u32| Span::new(k, k + 1);
    p.parts = (0..parts).map(span).collect();
    p.accesses = (accesses.into_iter().zip(parts..))
        .map(|((buf, index), k)| Access {
            buf,
            index,
            span: span(k),
        })
        .collect();
    p.readers = r.list(|r| Ok((known.buf(r)?, r.word()?)))?;
    Ok(p)
}

/// What there is so far.
struct Known {
    vars: usize,
    bufs: usize,
    nodes: Vec<Ex>,
}

impl Known {
    fn id(r: &mut Reader<'_>, most: usize, what: &str) -> Read<u32> {
        let at = r.at;
        let number = r.word()?;
        if (number as usize) < most {
            return Ok(number);
        }
        Err(FileError::Damaged(
            at,
            format!("there is no {what} {number}"),
        ))
    }
    fn var(&self, r: &mut Reader<'_>) -> Read<Var> {
        Ok(Var(Self::id(r, self.vars, "variable")?))
    }
    fn buf(&self, r: &mut Reader<'_>) -> Read<Buf> {
        Ok(Buf(Self::id(r, self.bufs, "buffer")?))
    }
    fn expr(&self, r: &mut Reader<'_>) -> Read<Ex> {
        let number = Self::id(r, self.nodes.len(), "expression")?;
        Ok(self.nodes[number as usize].clone())
    }
    fn list(&self, r: &mut Reader<'_>) -> Read<Vec<Ex>> {
        let at = r.at;
        let all = r.list(|r| self.expr(r))?;
        if all.len() > AXES {
            return Err(FileError::damaged(at, "a buffer has too many axes"));
        }
        Ok(all)
    }

    fn node(&self, r: &mut Reader<'_>) -> Read<Ex> {
        let at = r.at;
        let kind = r.byte()?;
        let dtype = r.dtype()?;
        let wrong = |what: &str| FileError::damaged(at, what);
        let kind = match kind {
            // Constants are brought to their type, as every other way to make them does.
            0 if !dtype.is_float() => return Ok(Ex::int(dtype, r.long()? as i64)),
            1 if dtype.is_float() => return Ok(Ex::float(dtype, f64::from_bits(r.long()?))),
            2 => ExKind::Var(self.var(r)?),
            3 => ExKind::Load(self.buf(r)?, self.list(r)?),
            4 => ExKind::Unary(self.unary(r)?, self.expr(r)?),
            5 => ExKind::Binary(self.binary(r)?, self.expr(r)?, self.expr(r)?),
            6 => ExKind::Select(self.expr(r)?, self.expr(r)?, self.expr(r)?),
            7 => ExKind::Cast(self.expr(r)?),
            8 => ExKind::Reinterpret(self.expr(r)?),
            _ => return Err(wrong("no expression is of that kind")),
        };
        Ok(Ex::new(kind, dtype))
    }

    fn unary(&self, r: &mut Reader<'_>) -> Read<UnOp> {
        let at = r.at;
        let found = UNARY.get(usize::from(r.byte()?)).map(|u| u.1);
        found.ok_or_else(|| FileError::damaged(at, "there is no such function"))
    }
    fn binary(&self, r: &mut Reader<'_>) -> Read<BinOp> {
        let at = r.at;
        let found = BINARY.get(usize::from(r.byte()?)).map(|u| u.1);
        found.ok_or_else(|| FileError::damaged(at, "there is no such function"))
    }

    fn buffer(&self, r: &mut Reader<'_>) -> Read<Buffer> {
        let name = Symbol::new(&r.text()?);
        let dtype = r.dtype()?;
        let at = r.at;
        let role = match r.byte()? {
            0 => Role::Input,
            1 => Role::Output,
            2 => Role::Temp,
            3 => Role::Local,
            _ => return Err(FileError::damaged(at, "no buffer is of that kind")),
        };
        let shape = self.list(r)?;
        Ok(Buffer {
            name,
            dtype,
            shape,
            role,
        })
    }

    fn compute(&self, r: &mut Reader<'_>) -> Read<Compute> {
        let out = self.buf(r)?;
        let axes = r.list(|r| self.var(r))?;
        let at = r.at;
        let combiner = match r.byte()? {
            0 => None,
            k => Some(
                *(COMBINERS.get(usize::from(k) - 1))
                    .ok_or_else(|| FileError::damaged(at, "no reduction combines so"))?,
            ),
        };
        let over = r.list(|r| Ok((self.var(r)?, self.expr(r)?)))?;
        let value = self.expr(r)?;
        Ok(Compute {
            out,
            axes,
            reduce: combiner.map(|combiner| Reduce {
                axes: over,
                combiner,
            }),
            value,
        })
    }

    /// A block, to its end.
    fn block(&self, r: &mut Reader<'_>) -> Read<Vec<Stmt>> {
        self.block_in(r, 0)
    }

    fn block_in(&self, r: &mut Reader<'_>, depth: u32) -> Read<Vec<Stmt>> {
        if depth > DEPTH {
            return Err(FileError::damaged(r.at, "blocks nest too deep"));
        }
        r.list(|r| {
            let at = r.at;
            Ok(match r.byte()? {
                0 => {
                    let (var, extent) = (self.var(r)?, self.expr(r)?);
                    let at = r.at;
                    let (kind, lanes) = (r.byte()?, r.word()?);
                    let mark = match kind {
                        0 => Mark::Serial,
                        1 => Mark::Parallel,
                        2 => Mark::Vectorize(lanes),
                        3 => Mark::Unroll,
                        _ => return Err(FileError::damaged(at, "no loop is marked so")),
                    };
                    Stmt::For {
                        var,
                        extent,
                        mark,
                        body: self.block_in(r, depth + 1)?,
                    }
                }
                1 => Stmt::While {
                    cond: self.expr(r)?,
                    body: self.block_in(r, depth + 1)?,
                },
                2 => Stmt::If {
                    cond: self.expr(r)?,
                    then: self.block_in(r, depth + 1)?,
                    otherwise: self.block_in(r, depth + 1)?,
                },
                3 => Stmt::Store {
                    buf: self.buf(r)?,
                    index: self.list(r)?,
                    value: self.expr(r)?,
                },
                4 => Stmt::Let {
                    var: self.var(r)?,
                    value: self.expr(r)?,
                },
                5 => Stmt::Alloc { buf: self.buf(r)? },
                6 => Stmt::Init {
                    over: r.list(|r| self.var(r))?,
                    body: self.block_in(r, depth + 1)?,
                },
                7 => Stmt::Assert {
                    cond: self.expr(r)?,
                    message: r.text()?,
                    values: self.list(r)?,
                    part: r.word()?,
                },
                _ => return Err(FileError::damaged(at, "no statement is of that kind")),
            })
        })
    }

    fn hint(&self, r: &mut Reader<'_>) -> Read<Hint> {
        let at = r.at;
        let kind = r.byte()?;
        let bufs = r.list(|r| self.buf(r))?;
        let numbers = r.list(|r| Ok(r.long()? as i64))?;
        let truths = r.byte()?;
        let made = made(kind, &bufs, &numbers, |i| truths >> i & 1 == 1);
        made.ok_or_else(|| FileError::damaged(at, "no hint is of that kind"))
    }
}

/// A hint of its parts; `None` where these are not those of its kind.
fn made(kind: u8, bufs: &[Buf], numbers: &[i64], truth: impl Fn(u32) -> bool) -> Option<Hint> {
    Some(match (kind, bufs, numbers) {
        (0, &[a, b], []) => Hint::Gemm {
            a,
            b,
            transpose_a: truth(0),
            transpose_b: truth(1),
        },
        (1, &[a, b], []) => Hint::BatchGemm {
            a,
            b,
            transpose_a: truth(0),
            transpose_b: truth(1),
        },
        (2, &[data, weight], &[sh, sw, t, l, b, r, dh, dw, groups]) => Hint::Conv2d {
            data,
            weight,
            strides: [sh, sw],
            padding: [t, l, b, r],
            dilation: [dh, dw],
            groups,
            nhwc: truth(0),
        },
        (3, &[data, weight], &[sh, sw, t, l, dh, dw, groups]) => Hint::Conv2dTranspose {
            data,
            weight,
            strides: [sh, sw],
            padding: [t, l],
            dilation: [dh, dw],
            groups,
        },
        (4, &[data], []) => Hint::Softmax {
            data,
            log: truth(0),
        },
        (5, &[data, gamma, beta], &[epsilon]) => Hint::LayerNorm {
            data,
            gamma,
            beta,
            epsilon: f64::from_bits(epsilon as u64),
        },
        (6, &[data], &[wh, ww, sh, sw, t, l, b, r, dh, dw]) => Hint::Pool2d {
            data,
            nhwc: truth(0),
            window: [wh, ww],
            strides: [sh, sw],
            padding: [t, l, b, r],
            dilation: [dh, dw],
            max: truth(1),
            count_include_pad: truth(2),
        },
        (7, &[data], &[axis, work]) => Hint::Lines {
            data,
            axis: usize::try_from(axis).ok()?,
            work: match work {
                0 => Lines::Sorted {
                    ascend: truth(0),
                    indices: truth(1),
                },
                1 => Lines::Extreme {
                    greatest: truth(0),
                    last: truth(1),
                },
                2 => Lines::Running {
                    product: truth(0),
                    exclusive: truth(1),
                },
                _ => return None,
            },
        },
        (8, &[data, a, b, c, d, e, f], &[axis, least, most]) => Hint::Requantize {
            data,
            tables: [a, b, c, d, e, f],
            axis: usize::try_from(axis).ok(),
            bounds: (least, most),
        },
        _ => return None,
    })
}
