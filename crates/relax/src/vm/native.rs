//! The virtual machine's kernels as native code.

use std::rc::Rc;

use relax_base::{Diagnostics, Symbol};
use relax_codegen::{Failure, Host, Site};
use relax_lower::lir::KernelDef;
use relax_tensor::Tensor;
use relax_vm::{Arg, Callee, Const, Executable, Inst, Kernel, KernelError, MALFORMED};

use crate::failure;

/// Native kernels of a program: the same code that ahead-of-time compiled programs call.
pub struct Native {
    kernels: relax_codegen::Kernels,
    host: Host,
}

impl Native {
    /// Compiles the kernels of a program for this machine, to run on `threads` threads, 0 for one
    /// per processor.
    ///
    /// # Errors
    /// A kernel uses something that has no native code, or memory is exhausted.
    pub fn new(program: &Executable, threads: usize) -> Result<Native, Diagnostics> {
        let (defs, sites) = (definitions(program)?, sites(program));
        let checks = crate::native::checked();
        let kernels = relax_codegen::Kernels::compile(&defs, &sites, checks);
        let kernels = kernels.map_err(|d| one(*d))?;
        Native::with(kernels, threads)
    }

    pub(super) fn with(
        kernels: relax_codegen::Kernels,
        threads: usize,
    ) -> Result<Native, Diagnostics> {
        let host = Host::new(threads).map_err(|e| one(refused(e.to_string())))?;
        Ok(Native { kernels, host })
    }
}

pub(super) fn refused(text: String) -> relax_base::Diagnostic {
    let none = relax_base::Span::NONE;
    relax_base::Diagnostic::error(relax_lower::codes::UNSUPPORTED, none, text)
}

pub(super) fn one(d: relax_base::Diagnostic) -> Diagnostics {
    let mut all = Diagnostics::new();
    all.push(d);
    all
}

/// Returns the kernels in the form that code generation takes.
///
/// # Errors
/// A kernel's tensor program is invalid.
pub(super) fn definitions(program: &Executable) -> Result<Vec<KernelDef>, Diagnostics> {
    let mut holds = vec![true; program.kernels.len()];
    for (kernel, args) in calls(program) {
        let inputs = program.kernels[kernel].inputs();
        // A kernel that gets no result buffers at one call is compiled to get them at none.
        holds[kernel] &= args.iter().skip(inputs).all(|a| *a != Arg::Void);
    }
    let define = |(kernel, holds_outputs): (&Kernel, bool)| {
        let program = kernel.program().map_err(|e| one(refused(e.to_string())))?;
        let parts = program.parts.len().min(kernel.places.len());
        let named = |all: &[String]| all.iter().map(|p| Symbol::new(p)).collect();
        Ok(KernelDef {
            program: (**program).clone(),
            label: kernel.name.clone(),
            by_hand: kernel.by_hand,
            holds_outputs,
            parts: named(&kernel.places[..parts]),
            accesses: named(&kernel.places[parts..]),
        })
    };
    program.kernels.iter().zip(holds).map(define).collect()
}

/// Returns the kernel calls of a program.
fn calls(program: &Executable) -> impl Iterator<Item = (usize, &[Arg])> {
    let code = program.funcs.iter().flat_map(|f| &f.code);
    code.filter_map(|inst| match inst {
        Inst::Call {
            callee: Callee::Kernel(k),
            args,
            ..
        } => Some((*k as usize, &args[..])),
        _ => None,
    })
}

/// Returns the kernel calls that have constant arguments.
pub(super) fn sites(program: &Executable) -> Vec<Site> {
    let constant = |arg: &Arg| match arg {
        Arg::Const(c) => match program.consts.get(*c as usize) {
            Some(Const::Tensor(t)) => Some(t.clone()),
            _ => None,
        },
        _ => None,
    };
    let site = |(kernel, args): (usize, &[Arg])| Site {
        kernel,
        constants: args.iter().map(constant).collect(),
    };
    calls(program).map(site).collect()
}

impl relax_vm::Kernels for Native {
    fn run(
        &mut self,
        number: u32,
        kernel: &Kernel,
        inputs: &[Rc<Tensor>],
        shapes: Option<&[Vec<i64>]>,
        left: &mut u64,
    ) -> Result<Vec<Tensor>, KernelError> {
        if !relax_vm::charged(kernel, inputs, shapes, left) {
            return relax_vm::Loops.run(number, kernel, inputs, shapes, left);
        }
        let inputs: Vec<&Tensor> = inputs.iter().map(|t| &**t).collect();
        let called = self
            .kernels
            .call(&self.host, number as usize, &inputs, shapes);
        called.map_err(|failure| match failure {
            Failure::Unfit(text) => KernelError::malformed(&text),
            Failure::Failed(status, message) => {
                // A kernel's own location comes before the message.
                let own = kernel.places.iter().filter(|p| !p.is_empty());
                let told = |place: &&String| {
                    let rest = message.strip_prefix(place.as_str());
                    rest.is_some_and(|rest| rest.starts_with(": "))
                };
                let place = own.into_iter().find(told).cloned();
                let from = place.as_ref().map_or(0, |p| p.len() + 2);
                KernelError {
                    code: failure::code(status).unwrap_or(MALFORMED),
                    message: message[from..].to_owned(),
                    place,
                }
            }
        })
    }
}
