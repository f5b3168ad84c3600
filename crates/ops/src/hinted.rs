//! The calls that hints stand for.
//!
//! A stage of a tensor program that has a hint can be shown as the call of an operator whose
//! computation is this stage and has this hint. An operator with hints says which call that would be
//! ([`crate::OpDef::hinted`]); whoever shows it expands the call, and compares.

use relax_loops::{Buf, Ex, Hint, Program, Stage};
use relax_tensor::DType;

use crate::AttrValue;
use crate::extents::dim;

/// A program with a stage that has a hint.
pub struct HintSite<'p> {
    /// The program.
    pub program: &'p Program,
    /// The buffer that the stage writes.
    pub out: Buf,
}

impl HintSite<'_> {
    /// A buffer's element type.
    pub fn dtype(&self, buf: Buf) -> DType {
        self.program.bufs[buf].dtype
    }

    /// A buffer's extents.
    pub fn shape(&self, buf: Buf) -> &[Ex] {
        &self.program.bufs[buf].shape
    }

    /// A buffer's rank.
    pub fn rank(&self, buf: Buf) -> usize {
        self.shape(buf).len()
    }

    /// The difference of two extents, where it is a number for all values of their variables.
    pub fn difference(&self, a: &Ex, b: &Ex) -> Option<i64> {
        let [a, b] = [a, b].map(|e| dim(self.program, e));
        (&a? - &b?).as_const()
    }

    /// The buffers that the stage writes and that have hints.
    pub fn hinted_together(&self) -> Vec<Buf> {
        let stages = self.program.stages.iter().map(Stage::written);
        let mut all = { stages }
            .find(|w| w.contains(&self.out))
            .unwrap_or_default();
        all.retain(|b| self.program.hint(*b).is_some());
        all
    }
}

/// A call: its tensors, and the attributes that are not the defaults.
pub struct HintedCall {
    /// The tensors.
    pub args: Vec<Buf>,
    /// What it writes, where that is more than the buffer with the hint.
    pub outs: Option<Vec<Buf>>,
    /// Attributes.
    pub attrs: Vec<(&'static str, AttrValue)>,
}

impl HintedCall {
    /// A call that writes the buffer with the hint alone.
    pub fn new(args: impl Into<Vec<Buf>>, attrs: Vec<(&'static str, AttrValue)>) -> HintedCall {
        HintedCall {
            args: args.into(),
            outs: None,
            attrs,
        }
    }
}

/// The calls of an operator whose computation may have this hint.
pub type HintedFn = fn(&Hint, &HintSite<'_>) -> Vec<HintedCall>;
