//! The verifier's diagnostics for programs that break its rules, and the proofs that it is expected
//! to find.

use super::*;
use crate::{Builder, Combiner, TensorRef};

fn messages(b: &Builder) -> Vec<String> {
    verify(&b.program)
        .problems
        .into_iter()
        .map(|p| p.message)
        .collect()
}

#[test]
fn guarded_and_structural_bounds_are_proven() {
    let mut b = Builder::new("f");
    let x = b.input("x", DType::F32, &[None, Some(8)]);
    let zero = Ex::float(DType::F32, 0.0);
    let padded = [&x.shape[0] + 2, Ex::idx(10)];
    let p = b.compute("p", &padded, |i| {
        let (r, c) = (&i[0] - 1, &i[1] - 1);
        let inside = r.ge(0) & r.lt(&x.shape[0]) & c.ge(0) & c.lt(8);
        Ex::where_(&inside, &x.at(&[r, c]), &zero)
    });
    let s = b.reduce("s", &[Ex::idx(8)], &[Ex::idx(3)], Combiner::Sum, |i, r| {
        p.at(&[Ex::idx(0), &i[0] + &r[0]])
    });
    let t = b.compute("t", &x.shape, |i| {
        x.at(&[(&i[0] + 7).min(&x.shape[0] - 1), i[1].clone()]) + s.at(&i[1..])
    });
    b.output(&t);
    let v = verify(&b.program);
    assert_eq!(v.problems, []);
    // Row 0 of `p` exists because its extent is at least 2.
    assert_eq!(v.unproven, []);
    let u = b.compute("u", &x.shape, |i| x.at(&[&i[0] + 1, i[1].clone()]));
    b.output(&u);
    assert_eq!(verify(&b.program).unproven.len(), 1);
}

#[test]
fn rules_are_named() {
    let mut b = Builder::new("f");
    let x = b.input("x", DType::F32, &[Some(3)]);
    let y = b.temp("y", DType::F32, &x.shape);
    let early = TensorRef {
        shape: x.shape.clone(),
        ..y.clone()
    };
    b.nest(|n| {
        n.for_(3, |n, i| {
            let i = std::slice::from_ref(i);
            n.store(&y, i, early.at(i) + x.at(i));
        });
    });
    b.output(&y);
    assert_eq!(
        messages(&b),
        ["`y` is only updated from its own elements: it has no start value (use `init`)"]
    );

    let mut b = Builder::new("g");
    let x = b.input("x", DType::F32, &[Some(3)]);
    let y = b.compute("y", &x.shape, |i| x.at(i));
    b.output(&y);
    b.program.bufs[y.buf].dtype = DType::I32;
    assert_eq!(messages(&b), ["`y` is int32, its elements are float32"]);

    let mut b = Builder::new("h");
    let t = b.temp("t", DType::F32, &[]);
    let z = b.compute("z", &[], |_| t.scalar());
    b.output(&z);
    b.output(&t);
    assert_eq!(
        messages(&b),
        [
            "`t` is read before it is written",
            "no stage writes the output `t`"
        ]
    );

    let mut b = Builder::new("k");
    let (_, free) = b.program.fresh("free", DType::I64);
    let z = b.compute("z", &[], |_| free.clone());
    b.output(&z);
    b.program.dims.push(Var(0));
    b.program.dims.clear();
    assert_eq!(messages(&b), ["`free` is used where nothing defines it"]);
}

#[test]
fn an_init_makes_an_update_legal() {
    let mut b = Builder::new("f");
    let x = b.input("x", DType::F32, &[Some(3), Some(4)]);
    let over = [Ex::idx(4)];
    let s = b.reduce("s", &x.shape[..1], &over, Combiner::Sum, |i, r| {
        x.at(&[i[0].clone(), r[0].clone()])
    });
    b.output(&s);
    let p = &mut b.program;
    p.stages = p
        .stages
        .iter()
        .map(|s| Stage::Nest(crate::lower_stage(p, s)))
        .collect();
    let v = verify(p);
    assert_eq!((v.problems, v.unproven), (vec![], vec![]));
}
