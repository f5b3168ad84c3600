//! The signature of a program: dimensions, buffers, inputs and outputs.

use relax_tensor::DType;
use rustc_hash::FxHashSet;

use super::Verifier;
use super::types::computes;
use crate::{ExKind, MOST_EXTENT, Role};

impl Verifier<'_> {
    /// Checks that kernels are ranges of stages, in order and apart.
    fn kernels(&mut self) {
        let p = self.program;
        let mut end = 0;
        for k in &p.kernels {
            let name = k.kind.name();
            let (first, behind) = (k.stages.start, k.stages.end);
            if first >= behind || behind > p.stages.len() {
                self.problem(format!("the kernel `{name}` has no stages in the program"));
            } else if first < end {
                self.problem(format!("the kernel `{name}` has stages of another one"));
            }
            end = end.max(behind);
        }
    }

    pub(super) fn signature(&mut self) {
        let p = self.program;
        self.kernels();
        let mut bound = FxHashSet::default();
        for buf in p.inputs.iter().chain(&p.outputs) {
            for extent in &p.bufs[*buf].shape {
                if let ExKind::Var(v) = extent.kind() {
                    bound.insert(*v);
                }
            }
        }
        for var in &p.dims {
            self.scope.insert(*var, None);
            self.ranges.insert(*var, (0, MOST_EXTENT));
            if !bound.contains(var) {
                let name = p.vars[*var].name;
                self.problem(format!(
                    "no extent of an input or output is the dimension `{name}` alone, so nothing binds it"
                ));
            }
        }
        for (role, bufs) in [(Role::Input, &p.inputs), (Role::Output, &p.outputs)] {
            for buf in bufs {
                if p.bufs[*buf].role != role {
                    let name = self.name(*buf);
                    self.problem(format!(
                        "{name} is listed as {role:?}, but is {:?}",
                        p.bufs[*buf].role
                    ));
                }
            }
        }
        for (buf, info) in p.bufs.iter() {
            if !computes(info.dtype) {
                let name = self.name(buf);
                self.problem(format!(
                    "{name} has elements of {}, which programs do not hold",
                    info.dtype
                ));
            }
            for (axis, extent) in info.shape.iter().enumerate() {
                if extent.dtype() != DType::I64 {
                    let name = self.name(buf);
                    self.problem(format!(
                        "extent {axis} of {name} is {}, not int64",
                        extent.dtype()
                    ));
                }
                if extent.as_int().is_some_and(|n| n < 0) {
                    let name = self.name(buf);
                    self.problem(format!("extent {axis} of {name} is negative"));
                }
            }
        }
        let inputs = p.inputs.clone();
        for buf in inputs {
            self.extents(buf);
        }
    }
}
