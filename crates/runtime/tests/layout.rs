//! The Rust structures have the offsets that `docs/values.md` and the headers state;
//! `tests/program.c` asserts the same numbers in C.

use relax_runtime::context::RxContext;
use relax_runtime::dlpack::DLManagedTensor;
use relax_runtime::kernels::conv::RxConv2dF32;
use relax_runtime::kernels::gemm::RxGemmF32;
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use relax_runtime::kernels::gemm::other::RxGemm;
use relax_runtime::kernels::pool2d::RxPool2dF32;
use relax_runtime::kernels::strips::{RxStripOp, RxStrips};
use relax_runtime::object::*;
use std::mem::offset_of;

#[test]
fn offsets_are_as_documented() {
    assert_eq!(size_of::<RxObject>(), 16);
    assert_eq!(
        [
            offset_of!(RxObject, kind),
            offset_of!(RxObject, cls),
            offset_of!(RxObject, tag),
            offset_of!(RxObject, count)
        ],
        [4, 6, 8, 12]
    );
    assert_eq!(size_of::<RxTensor>(), 64);
    assert_eq!(
        [
            offset_of!(RxTensor, dtype),
            offset_of!(RxTensor, ndim),
            offset_of!(RxTensor, data),
            offset_of!(RxTensor, shape),
            offset_of!(RxTensor, nbytes),
            offset_of!(RxTensor, owner),
            offset_of!(RxTensor, scalar)
        ],
        [16, 20, 24, 32, 40, 48, 56]
    );
    assert_eq!(offset_of!(RxFields, fields), 16);
    assert_eq!(
        [offset_of!(RxClosure, code), offset_of!(RxClosure, entry)],
        [16, 24]
    );
    assert_eq!(offset_of!(RxClosure, captures), 32);
    assert_eq!(
        [offset_of!(RxRef, value), offset_of!(RxShape, dims)],
        [16, 16]
    );
    assert_eq!(
        [
            offset_of!(RxForeign, pointer),
            offset_of!(RxForeign, destroy)
        ],
        [16, 24]
    );
    assert_eq!(offset_of!(RxString, bytes), 16);
    assert_eq!(
        [
            offset_of!(RxContext, stack_limit),
            offset_of!(RxContext, status),
            offset_of!(RxContext, threads)
        ],
        [0, 8, 12]
    );
    assert_eq!(size_of::<DLManagedTensor>(), 64);
    assert_eq!(size_of::<RxEpilogue>(), 48);
    assert_eq!(
        (size_of::<RxGemmF32>(), offset_of!(RxGemmF32, epilogue)),
        (160, 112)
    );
    assert_eq!(size_of::<RxStripOp>(), 24);
    assert_eq!((size_of::<RxStrips>(), offset_of!(RxStrips, out)), (80, 72));
    assert_eq!(size_of::<RxGemm>(), 96);
    assert_eq!(
        (size_of::<RxConv2dF32>(), offset_of!(RxConv2dF32, epilogue)),
        (216, 168)
    );
    assert_eq!(
        (size_of::<RxPool2dF32>(), offset_of!(RxPool2dF32, x)),
        (136, 120)
    );
}

#[test]
fn symbols_are_the_headers_functions() {
    let headers = concat!(
        include_str!("../include/relax_runtime.h"),
        include_str!("../include/relax_kernels.h")
    );
    let mut declared: Vec<&str> = headers
        .lines()
        .filter(|line| !line.starts_with(' ') && !line.starts_with('/'))
        .filter_map(|line| {
            let start = line.find("rx_")?;
            let (name, _) = line[start..].split_once('(')?;
            Some(name)
        })
        .collect();
    let mut known: Vec<&str> = relax_runtime::symbols()
        .iter()
        .map(|(name, _)| *name)
        .collect();
    declared.sort_unstable();
    known.sort_unstable();
    assert_eq!(declared, known);
}
