//! The Rust structures of values have the offsets that `docs/values.md` and the headers state;
//! `tests/program.c` asserts the same numbers in C, `tests/header.rs` checks those of kernels.

use relax_runtime::context::RxContext;
use relax_runtime::dlpack::DLManagedTensor;
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
}

const VALUES: &str = include_str!("../../../docs/values.md");

/// A section of `docs/values.md`, without its heading.
fn section(heading: &str) -> &'static str {
    let (_, rest) = VALUES
        .split_once(&format!("\n## {heading}\n"))
        .expect("a section");
    rest.split("\n## ").next().expect("its text")
}

/// The cells of a table's rows.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|l| l.starts_with('|')).skip(2);
    lines
        .map(|l| l.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// The offset, size and name of each field that a table documents; the fields of one row are
/// consecutive.
fn documented(text: &str) -> Vec<(usize, usize, String)> {
    let mut out = Vec::new();
    for row in rows(text) {
        let mut at: usize = row[0].parse().expect("an offset");
        let size = |ty: &str| match ty {
            "u8" => 1,
            "u16" => 2,
            "u32" | "i32" => 4,
            "u64" | "i64" | "pointer" => 8,
            "header" => 16,
            other => panic!("{other} is no type of the table"),
        };
        let name = row[2].split('`').nth(1).unwrap_or_default();
        for ty in row[1].split(", ") {
            out.push((at, size(ty), name.to_owned()));
            at += size(ty);
        }
    }
    out
}

/// The same for a structure, in the order of its fields.
macro_rules! fields {
    ($ty:ty: $($field:ident $(as $name:literal)?),*) => {{
        let object = std::mem::MaybeUninit::<$ty>::uninit();
        let mut all = vec![$({
            // SAFETY: only the size of the field's type is looked at, through a pointer.
            let size = unsafe { size_of_pointee(&raw const (*object.as_ptr()).$field) };
            let name = [$($name,)? stringify!($field)][0];
            (offset_of!($ty, $field), size, name.to_owned())
        }),*];
        all.sort();
        all
    }};
}

fn size_of_pointee<T>(_: *const T) -> usize {
    size_of::<T>()
}

/// Asserts that no field is left out: each begins where the one before ends.
fn complete(fields: &[(usize, usize, String)], size: usize) {
    let mut end = 0;
    for (at, bytes, name) in fields {
        assert_eq!(*at, end, "`{name}` does not follow the field before it");
        end += bytes;
    }
    assert_eq!(end, size);
}

#[test]
fn tables_of_the_header_and_of_tensors_are_the_structures() {
    let header = documented(section("The header"));
    assert_eq!(
        header,
        fields!(RxObject: refs, kind, flags, cls, tag, count)
    );
    complete(&header, size_of::<RxObject>());
    let tensor = documented(section("Tensor"));
    complete(&tensor, size_of::<RxTensor>());
    let of = fields!(RxTensor: header as "tag", dtype as "code", ndim, data, shape, nbytes, owner, scalar);
    for (at, size, name) in &of {
        let parts: Vec<_> = tensor.iter().filter(|f| f.2 == *name).collect();
        assert_eq!(parts.first().map(|f| f.0), Some(*at), "`{name}`");
        assert_eq!(parts.iter().map(|f| f.1).sum::<usize>(), *size, "`{name}`");
    }
    assert_eq!(
        [
            offset_of!(DLDataType, code),
            offset_of!(DLDataType, bits),
            offset_of!(DLDataType, lanes)
        ],
        [0, 1, 2]
    );
    let bool = DLDataType::BOOL;
    let text = format!("bool is ({}, {}, {})", bool.code, bool.bits, bool.lanes);
    assert!(section("Tensor").contains(&text));
}

#[test]
fn numbers_of_kinds_and_owners_are_as_documented() {
    let kinds = [
        (Kind::Tensor, "Tensor"),
        (Kind::Tuple, "Tuple"),
        (Kind::Adt, "Adt"),
        (Kind::Closure, "Closure"),
        (Kind::Ref, "Ref"),
        (Kind::Shape, "Shape"),
        (Kind::Foreign, "Foreign"),
        (Kind::String, "String"),
        (Kind::Raw, "scratch"),
    ];
    let list = kinds
        .map(|(kind, name)| format!("{} {name}", kind as u8))
        .join(", ");
    assert!(section("The header").contains(&list), "{list}");
    let owners = [
        (Storage::Own, "own block"),
        (Storage::Borrowed, "borrowed"),
        (Storage::View, "view of `owner`"),
        (Storage::DLPack, "DLPack"),
    ];
    let list = owners
        .map(|(o, name)| format!("{} {name}", o as u32))
        .join(", ");
    assert!(section("Tensor").contains(&list), "{list}");
    assert!(section("The header").contains(&format!("`refs = {IMMORTAL:#x}`")));
}

#[test]
fn offsets_behind_the_header_are_as_documented() {
    let rows = rows(section("The others"));
    let of = |kind: &str| -> Vec<usize> {
        let row = rows.iter().find(|r| r[0].split(", ").any(|k| k == kind));
        let text = row.expect("a row for the kind")[1];
        let parts = text.split("; ").filter_map(|p| p.split_once(": "));
        parts.filter_map(|(at, _)| at.parse().ok()).collect()
    };
    assert_eq!(of("Tuple"), [offset_of!(RxFields, fields)]);
    assert_eq!(of("Adt"), [offset_of!(RxFields, fields)]);
    assert_eq!(
        of("Closure"),
        [
            offset_of!(RxClosure, code),
            offset_of!(RxClosure, entry),
            offset_of!(RxClosure, captures)
        ]
    );
    assert_eq!(of("Ref"), [offset_of!(RxRef, value)]);
    assert_eq!(of("Shape"), [offset_of!(RxShape, dims)]);
    assert_eq!(
        of("Foreign"),
        [
            offset_of!(RxForeign, pointer),
            offset_of!(RxForeign, destroy)
        ]
    );
    assert_eq!(of("String"), [offset_of!(RxString, bytes)]);
    let context = format!(
        "`status` is at offset {} of `RxContext`, `threads` at offset {}",
        offset_of!(RxContext, status),
        offset_of!(RxContext, threads)
    );
    assert!(VALUES.contains(&context), "{context}");
}
