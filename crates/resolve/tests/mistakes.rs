//! Each mistake is reported as exactly one error, at its location.

mod common;

use common::errors;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(errors(text), expected, "{text}");
}

#[test]
fn missing_sigils_are_suggested() {
    check(
        "fn() { body }",
        &["RX0203 1:8 there is no operator, constructor or dimension `body`"],
    );
    check(
        "def @plus(%a: int32) { %a }\ndef @main(%a: int32) { plus(a) }",
        &[
            "RX0203 2:24 there is no operator or constructor `plus` -> @plus",
            "RX0203 2:29 there is no operator, constructor or dimension `a` -> %a",
        ],
    );
}

#[test]
fn an_unknown_name_is_reported_once_per_definition() {
    check(
        "def @main(%x: float32) { let %a = expp(%x); expp(%a) }",
        &["RX0203 1:35 there is no operator or constructor `expp` -> exp"],
    );
}

#[test]
fn arguments_and_attributes_are_counted() {
    check(
        "def @f(%x: float32) { exp(%x, %x) }",
        &["RX0510 1:23 `exp` takes 1 argument, but 2 are given"],
    );
    check(
        "def @f(%x: float32) { add(%x) }",
        &["RX0510 1:23 `add` takes 2 arguments, but 1 is given"],
    );
    check(
        "def @f(%x: float32) { exp(%x, axis=1) }",
        &["RX0511 1:31 `exp` has no attribute `axis`"],
    );
}

#[test]
fn user_operators_have_schemas_too() {
    let op = "op my.scale(%x: Tensor[(4,), float32], factor: float64 = 1.0, times: int64) -> \
              Tensor[(4,), float32] { compute %x * factor }\n";
    let call = |c: &str| format!("{op}def @f(%x: Tensor[(4,), float32]) {{ {c} }}");
    check(&call("my.scale(%x, times=2)"), &[]);
    check(
        &call("my.scale(%x)"),
        &["RX0513 2:37 `my.scale` needs the attribute `times`"],
    );
    check(
        &call("my.scale(%x, times=2, faktor=1)"),
        &["RX0511 2:59 `my.scale` has no attribute `faktor` -> factor"],
    );
    check(
        &call("my.scale(%x, times=\"a\", times=1)"),
        &[
            "RX0512 2:56 attribute `times` of `my.scale` must be an integer",
            "RX0514 2:61 attribute `times` is given twice",
        ],
    );
}

#[test]
fn constructors_and_types() {
    let list = "type L[A] { C(A, L[A]), N, }\n";
    let with = |t: &str| format!("{list}{t}");
    check(
        &with("def @f(%l: L[int32]) { match (%l) { C(%a) => 1, M => 2, } }"),
        &[
            "RX0210 2:37 `C` has 2 fields, the pattern gives 1",
            "RX0210 2:49 there is no constructor `M` -> %M",
        ],
    );
    check(
        &with("def @f(%l: L) { 1 }"),
        &["RX0311 2:12 `L` takes 1 type argument, 0 given"],
    );
    check(
        &with("type K { C(int32) }"),
        &["RX0205 2:10 constructor `C` is defined twice"],
    );
    check(
        "def @f(%l: Lst) { 1 }",
        &["RX0204 1:12 there is no type `Lst` -> List"],
    );
    check(
        "def @f(%x: Tensor[(2,), flaot32]) { %x }",
        &["RX0204 1:25 there is no element type `flaot32` -> float32"],
    );
    check(
        "data N { Z : () -> M }",
        &["RX0215 1:20 a constructor of `N` gives a `N` -> N"],
    );
}

#[test]
fn literals_fit_their_types() {
    check(
        "def @f() { Constant(300, (2,), int8) }",
        &["RX0212 1:12 the number does not fit the element type"],
    );
    check("def @f() { inff }", &[]);
}

#[test]
fn metadata_references_must_find_something() {
    check(
        "def @f() { meta[relay.Constant][0] }",
        &["RX0214 1:12 this constant stands in a metadata section, which the file does not have"],
    );
}

#[test]
fn tensor_programs() {
    let with = |body: &str| {
        format!(
            "prim_func @p(%X: Buffer[(n,), float32], %Y: Buffer[(n,), float32]) {{ \
             for %i in grid(n) {{ {body} }} }}"
        )
    };
    check(&with("%Y[%i] = exp(%X[%i]) * 2.0;"), &[]);
    check(
        &with("%Y[%i] = %i;"),
        &["RX0802 1:99 float32 is expected here, this is int64 -> float32(%i)"],
    );
    check(
        &with("%Y[%i] = %X[%i] + %i;"),
        &["RX0802 1:99 float32 and int64 do not mix"],
    );
    check(
        &with("%Y[%j] = 1.0;"),
        &["RX0801 1:93 there is no `%j` here"],
    );
    check(
        &with("%Y[%i] = expp(%X[%i]);"),
        &["RX0801 1:99 tensor programs know no function `expp` -> exp"],
    );
    check(
        "prim_func @p(%Y: Buffer[(4,), float32], %X: Buffer[(4,), float32]) { %Y[0] = %X[0]; }",
        &["RX0803 1:41 `%X` is only read, and stands after an output"],
    );
}

#[test]
fn relations() {
    check(
        "rel Flatten(Tensor[(d, *rest), t]) -> Tensor[(d, prod(rest)), t];",
        &[],
    );
    check(
        "Flatten(Tensor(sh, bt), O) :- O = Tensor(sh[0], prod(sh[1:]))",
        &[],
    );
    check(
        "rel R(Tensor[s, s]) -> _;",
        &["RX0310 1:17 `s` has kind Shape before and BaseType here"],
    );
    check(
        "def @f(%x: int32) where Brodcast { %x }",
        &["RX0211 1:25 there is no relation `Brodcast` -> Broadcast"],
    );
}
