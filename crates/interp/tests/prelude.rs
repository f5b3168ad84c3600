//! The functions and operators of the prelude check, and compute what they document.

mod common;

use common::{numbers, run};

#[track_caller]
fn gives(body: &str, wanted: &[f64]) {
    let text = format!("def @main() {{ {body} }}");
    assert_eq!(numbers(&run(&text, &[])), wanted, "{body}");
}

#[test]
fn lists() {
    let l = "Cons(5, Cons(7, Cons(9, Nil)))";
    gives(&format!("@sum({l})"), &[21.0]);
    gives(&format!("@hd({l})"), &[5.0]);
    gives(&format!("@tl({l})"), &[7.0, 9.0]);
    gives(&format!("@nth({l}, 2)"), &[9.0]);
    gives(&format!("@length({l})"), &[3.0]);
    gives(&format!("@update({l}, 1, 4)"), &[5.0, 4.0, 9.0]);
    gives(&format!("@rev({l})"), &[9.0, 7.0, 5.0]);
    gives(
        &format!("@concat({l}, @tl({l}))"),
        &[5.0, 7.0, 9.0, 7.0, 9.0],
    );
    gives(
        &format!("@map(fn (%x: int32) {{ %x * 2 }}, {l})"),
        &[10.0, 14.0, 18.0],
    );
    gives(
        &format!("@filter(fn (%x: int32) {{ %x > 6 }}, {l})"),
        &[7.0, 9.0],
    );
    gives(
        &format!("@zip({l}, Cons(1, Cons(2, Nil)))"),
        &[5.0, 1.0, 7.0, 2.0],
    );
}

#[test]
fn folds_combine_in_their_order() {
    let l = "Cons(5, Cons(7, Cons(9, Nil)))";
    let f = "fn (%a: int32, %b: int32) { %a - %b }";
    gives(&format!("@foldl({f}, 1, {l})"), &[1.0 - 5.0 - 7.0 - 9.0]);
    gives(
        &format!("@foldr({f}, 1, {l})"),
        &[5.0 - (7.0 - (9.0 - 1.0))],
    );
    gives(&format!("@foldr1({f}, {l})"), &[5.0 - (7.0 - 9.0)]);
    let step = "fn (%s: int32, %x: int32) { (%s + %x, %s) }";
    gives(
        &format!("@map_accuml({step}, 0, {l})"),
        &[21.0, 12.0, 5.0, 0.0],
    );
    gives(
        &format!("@map_accumr({step}, 0, {l})"),
        &[21.0, 16.0, 9.0, 0.0],
    );
    let down = "fn (%n: int32) { if (%n == 0) { None } else { Some((%n - 1, %n)) } }";
    gives(&format!("@unfoldr({down}, 3)"), &[3.0, 2.0, 1.0]);
    gives(&format!("@unfoldl({down}, 3)"), &[1.0, 2.0, 3.0]);
}

#[test]
fn functions_and_trees() {
    gives(
        "@compose(fn (%x: int32) { %x + 1 }, fn (%x: int32) { %x * 2 })(5)",
        &[11.0],
    );
    gives("@iterate(fn (%x: int32) { %x * 2 }, 5)(1)", &[32.0]);
    gives("@id(3)", &[3.0]);
    let t = "Rose(1, Cons(Rose(2, Nil), Cons(Rose(3, Cons(Rose(4, Nil), Nil)), Nil)))";
    gives(&format!("@size({t})"), &[4.0]);
    gives(
        &format!("@tmap(fn (%x: int32) {{ %x * 10 }}, {t})"),
        &[10.0, 20.0, 30.0, 40.0],
    );
}

#[test]
fn tensor_arrays() {
    let a = "@tensor_array_write(@tensor_array_write(@tensor_array(2), 1, 8), 0, 3)";
    gives(
        &format!("@tensor_get_data(@tensor_array_read({a}, 1))"),
        &[8.0],
    );
    gives(
        "@tensor_get_or(@tensor_array_read(@tensor_array(2), 1), 6)",
        &[6.0],
    );
    gives(
        &format!("@tensor_array_fold(fn (%s: int32, %x: int32) {{ %s - %x }}, 0, {a})"),
        &[-11.0],
    );
}

#[test]
fn a_module_keeps_its_own_definitions() {
    let text = "type List[A] { End, Cons(A, List[A]), Nil }
        def @hd[A](%l: List[A], %or: A) -> A { match (%l) { Cons(%x, _) => %x, _ => %or } }
        def @main() { (@hd(End, 4), @hd(Cons(2, End), 4)) }";
    assert_eq!(numbers(&run(text, &[])), [4.0, 2.0]);
}
