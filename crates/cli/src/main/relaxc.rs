//! The tool `relaxc`.

use std::process::ExitCode;

/// The embedded runtime library.
#[cfg(relax_carried)]
mod carried {
    // The library exists when this is assembled, as a program is built after everything it is
    // linked with; it does not exist when the program is only checked, where `include_bytes!` would
    // require it.
    std::arch::global_asm!(
        ".pushsection .rodata.relax_carried,\"a\"",
        ".balign 16",
        ".globl relax_carried_begin",
        "relax_carried_begin:",
        concat!(".incbin \"", env!("RELAX_CARRIED"), "\""),
        ".globl relax_carried_end",
        "relax_carried_end:",
        ".byte 0",
        ".popsection",
    );

    unsafe extern "C" {
        static relax_carried_begin: u8;
        static relax_carried_end: u8;
    }

    /// Returns its bytes.
    pub fn library() -> &'static [u8] {
        let (begin, end) = (&raw const relax_carried_begin, &raw const relax_carried_end);
        // SAFETY: the two symbols are the borders of one read-only range.
        unsafe { std::slice::from_raw_parts(begin, end.offset_from(begin) as usize) }
    }
}

#[cfg(not(relax_carried))]
mod carried {
    /// Returns `None`.
    pub fn library() -> &'static [u8] {
        &[]
    }
}

fn main() -> ExitCode {
    relax_cli::kit::carry(carried::library());
    relax_cli::tools::relaxc::main(std::env::args_os().collect()).into()
}
