//! Programs of the virtual machine that somebody changed: they read, or do not; what reads is written and read again,
//! and runs to a value or a fault.

use std::rc::Rc;
use std::sync::Arc;

use relax_tensor::Tensor;
use relax_vm::{Executable, Kernel, KernelError, Kernels, Machine, Value};

/// A file whose checksum is right whatever was changed: else nothing behind it would ever be looked at.
pub fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let length = out.get(16..24).and_then(|b| b.try_into().ok());
    let length = length.map_or(u64::MAX, u64::from_le_bytes);
    let end = usize::try_from(length).ok().and_then(|n| n.checked_add(24));
    if let Some(covered) = end.and_then(|end| out.get(16..end)) {
        let sum = crc32(covered);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, &byte: &u8| {
        let bit = |sum: u32, _| match sum & 1 {
            1 => sum >> 1 ^ 0xedb8_8320,
            _ => sum >> 1,
        };
        (0..8).fold(sum ^ u32::from(byte), bit)
    };
    !bytes.iter().fold(!0, step)
}

/// Kernels that do not run: loops of a program that was changed may take years.
struct Few;

impl Kernels for Few {
    fn run(
        &mut self,
        _: u32,
        kernel: &Kernel,
        _: &[Rc<Tensor>],
        _: Option<&[Vec<i64>]>,
    ) -> Result<Vec<Tensor>, KernelError> {
        Err(KernelError {
            code: relax_vm::MALFORMED,
            message: format!("`{}` is not run here", kernel.name),
            place: None,
        })
    }
}

/// Writes a program, reads it, and runs its functions that take no more than two parameters.
pub fn run(program: Option<Executable>) {
    let Some(program) = program else { return };
    let bytes = relax_vm::write(&program);
    match relax_vm::read(Arc::new(bytes.clone())) {
        Ok(again) => assert!(relax_vm::write(&again) == bytes, "it reads back as another"),
        Err(e) => panic!("what was read is not read again: {e}"),
    }
    for (number, f) in program.funcs.iter().enumerate().filter(|f| f.1.params <= 2) {
        let mut machine = Machine::new(&program, Few)
            .with_max_steps(Some(500))
            .with_stack(1 << 20);
        let argument = || Value::from(Tensor::from_slice(&[2], &[1f32, 2.0]));
        let arguments = (0..f.params).map(|_| argument()).collect();
        drop(machine.call(number as u32, arguments));
    }
}
