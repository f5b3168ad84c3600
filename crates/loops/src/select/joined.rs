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

    /// Returns the number of programs that are joined.
    pub fn parts(self) -> usize {
        match self {
            Joined::Attention => 3,
            Joined::Pooled | Joined::Heads => 2,
        }
    }

    /// Returns the input of a middle part from the one before; `None` for any other program.
    pub fn middle(self, p: &Program) -> Option<usize> {
        (self == Joined::Attention && softmax(p)).then_some(0)
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

fn softmax(p: &Program) -> bool {
    let ([input], [out]) = (&p.inputs[..], &p.outputs[..]) else {
        return false;
    };
    let is = |h: &Hint| matches!(h, Hint::Softmax { data, log: false } if data == input);
    p.hints.iter().any(|(b, h)| b == out && is(h))
}
