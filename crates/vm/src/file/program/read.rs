//! Deserialisation of tensor programs: every index and length is bounds-checked.

use relax_base::{Span, Symbol};
use relax_loops::{
    Access, BinOp, Buf, Buffer, Combiner, Compute, Ex, ExKind, Hint, Kernel, KernelKind, Lines,
    Mark, Program, Reduce, Role, Seen, Stage, Stmt, UnOp, Var, VarInfo,
};

use super::super::FileError;
use super::super::bytes::{Read, Reader};
use super::{AXES, DEPTH};

/// Reads a program. Its parts get distinct spans that refer to no source.
pub(in super::super) fn read(r: &mut Reader<'_>) -> Read<Program> {
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
    p.kernels = r.list(|r| {
        let at = r.at;
        let kind = KernelKind::ALL.get(usize::from(r.byte()?));
        let kind = *kind.ok_or_else(|| FileError::damaged(at, "no kernel is of that kind"))?;
        let stages = r.word()? as usize..r.word()? as usize;
        Ok(Kernel { kind, stages })
    })?;
    Ok(p)
}

/// The parts read so far.
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
            // Constants are normalised to their type, as everywhere else.
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
        let found = UnOp::ALL.get(usize::from(r.byte()?)).copied();
        found.ok_or_else(|| FileError::damaged(at, "there is no such function"))
    }
    fn binary(&self, r: &mut Reader<'_>) -> Read<BinOp> {
        let at = r.at;
        let found = BinOp::ALL.get(usize::from(r.byte()?)).copied();
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
                *(Combiner::ALL.get(usize::from(k) - 1))
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

    /// Reads a block up to its end.
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

/// Builds a hint from its parts; `None` if these do not match the kind.
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
        (11, &[data, weight], numbers @ &[_, _, _, _, _, _, _, _, _, _, _, _]) => {
            Hint::Depthwise3d {
                data,
                weight,
                strides: *numbers.first_chunk()?,
                padding: numbers[3..9].try_into().ok()?,
                dilation: *numbers.last_chunk()?,
                last: truth(0),
            }
        }
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
        (5, &[data, gamma, ref beta @ ..], &[epsilon, axis, groups]) => Hint::LayerNorm {
            data,
            gamma,
            beta: beta.first().copied(),
            epsilon: f64::from_bits(epsilon as u64),
            axis: usize::try_from(axis).ok()?,
            groups,
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
        (9, &[data, weight, scale], &[block, bits]) => Hint::Blockwise {
            data,
            weight,
            scale,
            block,
            bits,
        },
        (10, &[q, k, v, ref bias @ ..], &[scale, ref window @ ..]) => Hint::Attention {
            q,
            k,
            v,
            bias: bias.first().copied(),
            scale: f64::from_bits(scale as u64),
            seen: Seen {
                causal: truth(0),
                at_end: truth(1),
                window: window.first().copied(),
            },
        },
        _ => return None,
    })
}
