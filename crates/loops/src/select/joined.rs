//! Programs that one kernel computes together, though each is one of its own: consecutive ones,
//! each one's only result an input of the next.
//!
//! A product, a softmax of its result and another product become one kernel where
//! [`attention`] finds its computation in the joined program: the matrix of
//! scores is then never stored. So do a convolution and the pooling of its output
//! ([`pooled`]), and heads that are repeated and the attention that reads them. The
//! programs are recognised by their hints, however they were written.

use crate::{Buf, Hint, Program, attention, compose, epilogue, pooled};

/// The kernels that programs may be joined to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// Product, softmax, product.
    Attention,
    /// Convolution and pooling.
    Pooled,
    /// Repeated heads and their attention.
    Heads,
}

impl Joined {
    /// Returns the kernels that a program may be the last part of, each with the input from the
    /// part before.
    pub fn ending_with(p: &Program) -> Vec<(Joined, usize)> {
        let place = |whole, buf: Buf| Some((whole, p.inputs.iter().position(|i| *i == buf)?));
        let own = p.hints.iter().filter_map(|(_, h)| match *h {
            Hint::BatchGemm {
                a,
                transpose_a: false,
                ..
            } => place(Joined::Attention, a),
            Hint::Pool2d {
                data,
                nhwc: false,
                dilation: [1, 1],
                ..
            } => place(Joined::Pooled, data),
            _ => None,
        });
        let read = (attention::find(p).into_iter())
            .flat_map(|a| [a.k.buf, a.v.buf])
            .filter_map(|buf| place(Joined::Heads, buf));
        own.chain(read).collect()
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Joined::Attention | Joined::Heads => "attention",
            Joined::Pooled => "pooled_convolution",
        }
    }

    /// The number of programs that are joined.
    fn parts(self) -> usize {
        match self {
            Joined::Attention => 3,
            Joined::Pooled | Joined::Heads => 2,
        }
    }

    /// The input of a middle part from the one before; `None` for any other program.
    fn middle(self, p: &Program) -> Option<usize> {
        (self == Joined::Attention && softmax(p)).then_some(0)
    }

    /// Walks from the last part to the first: `before` returns the part that makes an input of one,
    /// `program` a part's program. Returns the parts, the first one first, and the inputs of all but
    /// the first from the part before.
    pub fn walk<'p, P>(
        self,
        (last, mut input): (P, usize),
        mut before: impl FnMut(&P, usize) -> Option<P>,
        program: impl Fn(&P) -> Option<&'p Program>,
    ) -> Option<(Vec<P>, Vec<usize>)> {
        let (mut parts, mut inputs) = (vec![last], vec![input]);
        while parts.len() < self.parts() {
            parts.push(before(parts.last()?, input)?);
            if parts.len() < self.parts() {
                input = self.middle(program(parts.last()?)?)?;
                inputs.push(input);
            }
        }
        parts.reverse();
        inputs.reverse();
        Some((parts, inputs))
    }

    /// Returns the joined program of `parts`, the first one first, if there is a kernel for it.
    /// `inputs` are those of all but the first from the part before.
    pub fn join(self, parts: &[&Program], inputs: &[usize]) -> Option<Program> {
        let (first, rest) = parts.split_first()?;
        let mut program = (*first).clone();
        for (part, &input) in rest.iter().zip(inputs) {
            program = compose::chain(&program, part, input)?;
        }
        let between = *first.outputs.first()?;
        self.known(&program, between).then_some(program)
    }

    /// Returns whether there is a kernel for a joined program, whose first part writes `between`.
    fn known(self, p: &Program, between: Buf) -> bool {
        let found = || attention::find(p);
        match self {
            Joined::Attention => !found().is_empty(),
            Joined::Heads => found()
                .first()
                .is_some_and(|a| [a.q, a.k, a.v].iter().all(|o| o.buf != between)),
            Joined::Pooled => {
                let fused = epilogue::find(p);
                (0..p.stages.len()).any(|k| pooled::ending_at(p, &fused, k).is_some())
            }
        }
    }
}

/// Returns what a joined program is called with: the arguments of its first part, then those of each
/// of the others but for the input from the part before.
pub fn arguments<'a, A: Copy + 'a>(
    parts: impl IntoIterator<Item = &'a [A]>,
    inputs: &[usize],
) -> Vec<A> {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default().to_vec();
    for (args, input) in parts.zip(inputs) {
        let rest = args.iter().enumerate().filter(|(i, _)| i != input);
        all.extend(rest.map(|(_, a)| *a));
    }
    all
}

fn softmax(p: &Program) -> bool {
    let ([input], [out]) = (&p.inputs[..], &p.outputs[..]) else {
        return false;
    };
    let is = |h: &Hint| matches!(h, Hint::Softmax { data, log: false } if data == input);
    p.hints.iter().any(|(b, h)| b == out && is(h))
}
