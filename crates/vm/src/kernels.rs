//! The interface for running kernels.

use relax_loops::{ExecFault, execute_within};
use relax_tensor::Tensor;
use std::fmt;
use std::rc::Rc;

use crate::Kernel;
use crate::fault::{MALFORMED, Trouble};
use crate::work;

/// An engine that runs kernels.
pub trait Kernels {
    /// Runs a kernel, by index, on its inputs; returns its results in order. `shapes` are those of
    /// the results, if the caller knows all of them. `left` is how many iterations of its loops the
    /// run may still make; the engine subtracts those that it made (see [`charged`]).
    ///
    /// # Errors
    /// The tensor program failed, memory is exhausted, or `left` does not suffice.
    fn run(
        &mut self,
        number: u32,
        kernel: &Kernel,
        inputs: &[Rc<Tensor>],
        shapes: Option<&[Vec<i64>]>,
        left: &mut u64,
    ) -> Result<Vec<Tensor>, KernelError>;
}

impl<K: Kernels + ?Sized> Kernels for Box<K> {
    fn run(
        &mut self,
        number: u32,
        kernel: &Kernel,
        inputs: &[Rc<Tensor>],
        shapes: Option<&[Vec<i64>]>,
        left: &mut u64,
    ) -> Result<Vec<Tensor>, KernelError> {
        (**self).run(number, kernel, inputs, shapes, left)
    }
}

/// Why a kernel failed.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelError {
    /// The diagnostic code.
    pub code: relax_base::Code,
    /// A description of the failure.
    pub message: String,
    /// The source location, if the kernel knows it.
    pub place: Option<String>,
}

/// The reference interpreter of tensor programs: needs no native code, and is slow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loops;

/// Takes the iterations of a kernel's call from those that are left, before an engine makes it that
/// does not count. Returns whether it did: else they do not suffice, or are not known before the
/// call, and [`Loops`], which counts them, has to make the call. Nothing is counted without a limit.
pub fn charged(
    kernel: &Kernel,
    inputs: &[Rc<Tensor>],
    shapes: Option<&[Vec<i64>]>,
    left: &mut u64,
) -> bool {
    if *left == u64::MAX {
        return true;
    }
    // What is wrong with the program is an error of the call.
    let Ok(program) = kernel.program() else {
        return true;
    };
    let inputs = inputs.iter().map(|t| t.shape());
    let rest = work::of_call(program, inputs, shapes).and_then(|work| left.checked_sub(work));
    if let Some(rest) = rest {
        *left = rest;
    }
    rest.is_some()
}

impl Kernels for Loops {
    fn run(
        &mut self,
        _: u32,
        kernel: &Kernel,
        inputs: &[Rc<Tensor>],
        shapes: Option<&[Vec<i64>]>,
        left: &mut u64,
    ) -> Result<Vec<Tensor>, KernelError> {
        let program = kernel.program().map_err(|e| KernelError::malformed(e))?;
        let inputs: Vec<Tensor> = inputs.iter().map(|t| (**t).clone()).collect();
        execute_within(program, &inputs, shapes, left).map_err(|e| {
            let d = e.diagnostic(relax_base::Span::NONE);
            // Assertions concern the call, not the tensor program that it was lowered to.
            let message = match &e.fault {
                ExecFault::Assertion(text) => text.clone(),
                _ => d.message,
            };
            KernelError {
                code: d.code,
                message,
                place: kernel.place(e.own).map(str::to_owned),
            }
        })
    }
}

impl KernelError {
    /// Creates the error for a kernel without a valid program.
    pub fn malformed(why: &dyn fmt::Display) -> KernelError {
        KernelError {
            code: MALFORMED,
            message: format!("the program is malformed: {why}"),
            place: None,
        }
    }

    pub(crate) fn trouble(self, kernel: &Kernel) -> Box<Trouble> {
        let mut t = Trouble::new(self.code, self.message);
        t.own = self.place.map(|place| (place, kernel.by_hand));
        t
    }
}
