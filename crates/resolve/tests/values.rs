//! Literals, attributes, the metadata section, nesting depth.

mod common;

use common::{call, function, good, read_with};
use relax_ir::{AttrValue, Expr, Module};
use relax_resolve::Options;
use relax_tensor::{DType, Tensor};

fn body_const(m: &Module) -> &Tensor {
    match m.exprs[function(m, "f").body] {
        Expr::Const(c) => &m.consts[c],
        ref other => panic!("a constant, not {other:?}"),
    }
}

#[test]
fn suffixes_name_element_types() {
    for (text, dtype, value) in [
        ("1", DType::I32, 1.0),
        ("3000000000", DType::I64, 3e9),
        ("-7i64", DType::I64, -7.0),
        ("2.5", DType::F32, 2.5),
        ("2.5f64", DType::F64, 2.5),
        ("0.1f16", DType::F16, 0.0999755859375),
        ("0.1bf16", DType::BF16, 0.10009765625),
        ("200u8", DType::U8, 200.0),
        ("True", DType::BOOL, 1.0),
        ("-inff", DType::F32, f64::NEG_INFINITY),
    ] {
        let m = good(&format!("def @f() {{ {text} }}"));
        let t = body_const(&m);
        assert_eq!((t.dtype(), t.get_f64(0)), (dtype, value), "{text}");
    }
    let m = good("def @f() { add(1, 1i32) }");
    let plain: Vec<bool> = {
        let (_, args) = call(&m, function(&m, "f").body);
        let id = |e| match m.exprs[e] {
            Expr::Const(c) => c,
            _ => panic!(),
        };
        args.into_iter().map(|a| m.literals[&id(a)]).collect()
    };
    assert_eq!(plain, [true, false]);
}

#[test]
fn dense_constants() {
    let m = good("def @f() { Constant(1.5, (2, 3), float16) }");
    let t = body_const(&m);
    assert_eq!((t.shape(), t.dtype()), (&[2, 3][..], DType::F16));
    assert!((0..6).all(|i| t.get_f64(i) == 1.5));
}

/// Returns a metadata section with one constant: `int32` elements 1, 2, 3 in shape (3,).
fn section() -> String {
    let mut bytes = Vec::new();
    bytes.extend(0xDD5E_40F0_96B4_A13Fu64.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0, 32, 1, 0]);
    bytes.extend(3i64.to_le_bytes());
    bytes.extend(12i64.to_le_bytes());
    for v in [1i32, 2, 3] {
        bytes.extend(v.to_le_bytes());
    }
    let text = base64_simd::STANDARD.encode_to_string(&bytes);
    format!(
        r#"#[metadata]
{{ "root": 1, "nodes": [ {{ "type_key": "" }},
  {{ "type_key": "Map", "keys": [ "relay.Constant" ], "data": [2] }},
  {{ "type_key": "Array", "data": [3] }},
  {{ "type_key": "relay.Constant", "attrs": {{ "data": "0", "span": "0" }} }} ],
  "b64ndarrays": [ "{text}" ], "attrs": {{ "tvm_version": "0.12.0" }} }}
"#
    )
}

#[test]
fn constants_of_the_metadata_section() {
    let m = good(&format!(
        "def @f() {{ meta[relay.Constant][0] }}\n{}",
        section()
    ));
    assert_eq!(body_const(&m), &Tensor::from_slice(&[3], &[1i32, 2, 3]));
    assert_eq!(m.metadata.raw, None);
    let two = "def @f() { (meta[relay.Constant][0], meta[relay.Constant][0]) }";
    assert_eq!(good(&format!("{two}\n{}", section())).consts.len(), 1);
}

#[test]
fn damaged_tensors_are_errors() {
    let at = section().find("\"b64ndarrays\"").expect("it has tensors") + 18;
    for change in ["A", "!!", "%"] {
        let mut text = section();
        text.replace_range(at..at + change.len(), change);
        let text = format!("def @f() {{ meta[relay.Constant][0] }}\n{text}");
        let (_, diagnostics, _) = read_with(&text, &Options::default());
        assert_eq!(diagnostics.error_count(), 1, "{change}");
        assert_eq!(diagnostics.iter().next().map(|d| d.code.0), Some(213));
    }
    let cut = section().replace("\"root\": 1,", "\"root\": 9,");
    let text = format!("def @f() {{ meta[relay.Constant][0] }}\n{cut}");
    assert_eq!(read_with(&text, &Options::default()).1.error_count(), 1);
}

#[test]
fn placeholders_are_typed_by_comments() {
    let options = Options {
        stub_constants: Some(relax_resolve::Stubs::Zeros),
        ..Options::default()
    };
    let text = "def @f() { meta[relay.Constant][7] /* ty=Tensor[(64, 2), float16] */ }";
    let (m, diagnostics, _) = read_with(text, &options);
    assert!(!diagnostics.has_errors());
    assert_eq!(body_const(&m), &Tensor::zeros(DType::F16, &[64, 2]));
    let (_, diagnostics, _) = read_with("def @f() { meta[relay.Constant][7] }", &options);
    assert_eq!(diagnostics.error_count(), 1);
}

#[test]
fn attributes_are_complete_and_in_order() {
    let text = "op o(%x: Tensor[(4,), float32], a: float64, b: int64 = 3) -> \
                Tensor[(4,), float32] { compute %x }
                def @f(%x: Tensor[(4,), float32], Primitive=1, hash=\"h\") { o(%x, a=2) }";
    let m = good(text);
    let f = function(&m, "f");
    assert_eq!(f.attrs.get("Primitive"), Some(&AttrValue::Int(1)));
    let Expr::Call { attrs, .. } = m.exprs[f.body] else {
        panic!()
    };
    let all: Vec<_> = m
        .attrs(attrs)
        .iter()
        .map(|(n, v)| (n.as_str(), v.clone()))
        .collect();
    assert_eq!(
        all,
        [("a", AttrValue::Float(2.0)), ("b", AttrValue::Int(3))]
    );
}

#[test]
fn depth_is_data() {
    let n = 50_000;
    good(&format!(
        "def @f() {{ {}1{} }}",
        "(".repeat(n),
        ")".repeat(n)
    ));
    good(&format!(
        "def @f(%x: {}float32{}) {{ %x }}",
        "(".repeat(n),
        ",)".repeat(n)
    ));
    good(&format!(
        "def @f() {{ {}1{} }}",
        "ref(".repeat(n),
        ")".repeat(n)
    ));
    let lets: String = (0..n).map(|_| "let %x = add(%x, %x);\n").collect();
    good(&format!("def @f(%x: float32) {{ {lets} %x }}"));
    let sum = vec!["n"; 2000].join(" + ");
    good(&format!(
        "def @f(%x: Tensor[(n, {sum}), float32], a=[[1], [{sum}]]) {{ %x }}"
    ));
    let text = format!(
        "def @f(%x: float32, a={}1{}) {{ %x }}",
        "[".repeat(n),
        "]".repeat(n)
    );
    let (_, diagnostics, _) = read_with(&text, &Options::default());
    assert_eq!(
        diagnostics.error_count(),
        1,
        "attributes do not nest as deep as programs"
    );
}
