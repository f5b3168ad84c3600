//! The graph under construction: nodes, initialisers, names.

use relax_ir::{DTy, Module, Shape, TensorType, TypeId};
use relax_sym::DimVar;
use relax_tensor::{DType, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use super::raw;
use crate::proto::{
    AttributeProto, DimensionProto, DimensionValue, GraphProto, NodeProto, ShapeProto, TensorProto,
    TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
};
use crate::value::Elem;

/// Integers below this are exact as 64-bit floats.
const EXACT: f64 = 9007199254740992.0;

/// The value of a node's attribute.
#[derive(Clone)]
pub(super) enum Attr {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(&'static str),
    /// A string created at run time.
    Text(String),
    /// Integers.
    Ints(Vec<i64>),
    /// A tensor.
    Tensor(Tensor),
    /// A graph.
    Graph(GraphProto),
}

/// The state of one graph and those that enclose it.
#[derive(Default)]
pub(super) struct Level {
    nodes: Vec<NodeProto>,
    /// One-element vectors that hold the values of dimension variables.
    pub(super) extents: FxHashMap<DimVar, String>,
    inputs: Vec<ValueInfoProto>,
    outputs: Vec<ValueInfoProto>,
}

/// A graph under construction, with its open branches.
pub(super) struct Graph<'m> {
    pub(super) m: &'m Module,
    levels: Vec<Level>,
    initializers: Vec<TensorProto>,
    ints: FxHashMap<Vec<i64>, String>,
    /// Scalar constants.
    numbers: FxHashMap<String, f64>,
    taken: FxHashSet<String>,
    /// The operator set version that it requires.
    pub(super) opset: i64,
}

impl<'m> Graph<'m> {
    pub(super) fn new(m: &'m Module) -> Graph<'m> {
        Graph {
            m,
            levels: vec![Level::default()],
            initializers: Vec::new(),
            ints: FxHashMap::default(),
            numbers: FxHashMap::default(),
            taken: FxHashSet::default(),
            opset: super::OPSET,
        }
    }

    /// Returns a unique name.
    pub(super) fn fresh(&mut self, hint: &str) -> String {
        let hint = if hint.is_empty() { "value" } else { hint };
        let mut name = hint.to_owned();
        let mut n = 1;
        while !self.taken.insert(name.clone()) {
            name = format!("{hint}_{n}");
            n += 1;
        }
        name
    }

    fn level(&mut self) -> &mut Level {
        self.levels
            .last_mut()
            .expect("the outermost is never closed")
    }

    /// Returns the vector that holds the value of a dimension variable.
    pub(super) fn extent(&self, var: DimVar) -> Option<&String> {
        self.levels.iter().rev().find_map(|l| l.extents.get(&var))
    }

    pub(super) fn set_extent(&mut self, var: DimVar, name: String) {
        self.level().extents.insert(var, name);
    }

    /// Adds a node with several results.
    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: Vec<String>,
        attrs: Vec<(&str, Attr)>,
        outputs: Vec<String>,
    ) {
        let attribute = attrs.into_iter().map(|(n, a)| attribute(n, a)).collect();
        let name = outputs.first().cloned().unwrap_or_default();
        let node = NodeProto {
            input: inputs,
            output: outputs,
            name,
            op_type: op.to_owned(),
            attribute,
            ..NodeProto::default()
        };
        self.level().nodes.push(node);
    }

    /// Adds a constant.
    pub(super) fn constant(&mut self, hint: &str, t: &Tensor) -> String {
        let name = self.fresh(hint);
        // Larger integers are not exact as floats.
        if t.is_scalar() && t.get_f64(0).abs() < EXACT {
            self.numbers.insert(name.clone(), t.get_f64(0));
        }
        self.initializers.push(message(name.clone(), t));
        name
    }

    /// Returns the value of a scalar constant.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.numbers.get(name).copied()
    }

    /// Adds a vector of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> String {
        if let Some(name) = self.ints.get(values) {
            return name.clone();
        }
        let hint = match values {
            [] => "none".to_owned(),
            _ if values.len() > 6 => "ints".to_owned(),
            _ => {
                let all: Vec<String> = values.iter().map(i64::to_string).collect();
                format!("ints_{}", all.join("_"))
            }
        };
        let name = self.constant(&hint, &Tensor::from_slice(&[values.len() as i64], values));
        self.ints.insert(values.to_vec(), name.clone());
        name
    }

    /// Starts a branch.
    pub(super) fn open(&mut self) {
        self.levels.push(Level::default());
    }

    /// Adds an output with a name of its own.
    pub(super) fn output(&mut self, value: &str, hint: &str, ty: Option<TypeId>) {
        let own = self
            .level()
            .nodes
            .iter()
            .any(|n| n.output.iter().any(|o| o == value));
        let again = self.level().outputs.iter().any(|o| o.name == value);
        let name = if own && !again {
            value.to_owned()
        } else {
            let name = self.fresh(hint);
            self.node(
                "Identity",
                vec![value.to_owned()],
                Vec::new(),
                vec![name.clone()],
            );
            name
        };
        let info = self.info(name, ty);
        self.level().outputs.push(info);
    }

    /// Ends a branch.
    pub(super) fn close(&mut self, name: &str) -> GraphProto {
        let level = self.levels.pop().expect("a branch was opened");
        GraphProto {
            node: level.nodes,
            name: name.to_owned(),
            input: level.inputs,
            output: level.outputs,
            ..GraphProto::default()
        }
    }

    /// Adds an input of a tensor type to the current graph.
    pub(super) fn input(&mut self, hint: &str, ty: Option<TypeId>) -> String {
        let name = self.fresh(hint);
        let info = self.info(name.clone(), ty);
        self.level().inputs.push(info);
        name
    }

    /// Adds a scalar input.
    pub(super) fn scalar_input(&mut self, hint: &str, dtype: DType) -> String {
        let name = self.fresh(hint);
        let scalar = TensorType {
            shape: Shape::Dims(Box::default()),
            dtype: DTy::Known(dtype),
        };
        let r#type = self.tensor_type(&scalar);
        self.level().inputs.push(ValueInfoProto {
            name: name.clone(),
            r#type,
        });
        name
    }

    /// Returns the whole graph, and its operator set version.
    pub(super) fn finish(mut self, name: &str) -> (GraphProto, i64) {
        let mut graph = self.close(name);
        graph.initializer = self.initializers;
        (graph, self.opset)
    }

    /// Raises the required operator set version.
    pub(super) fn needs(&mut self, opset: i64) {
        self.opset = self.opset.max(opset);
    }

    fn info(&self, name: String, ty: Option<TypeId>) -> ValueInfoProto {
        let tensor = ty.and_then(|t| self.m.types.as_tensor(t));
        ValueInfoProto {
            name,
            r#type: tensor.and_then(|t| self.tensor_type(t)),
        }
    }

    fn tensor_type(&self, t: &TensorType) -> Option<TypeProto> {
        let DTy::Known(dtype) = t.dtype else {
            return None;
        };
        let extent = |d: &relax_sym::Dim| DimensionProto {
            value: match (d.as_const(), d.is_known()) {
                (Some(n), _) => Some(DimensionValue::Value(n)),
                (None, true) => Some(DimensionValue::Param(self.m.show_dim(d))),
                _ => None,
            },
        };
        let shape = match &t.shape {
            Shape::Dims(dims) => Some(ShapeProto {
                dim: dims.iter().map(extent).collect(),
            }),
            _ => None,
        };
        Some(TypeProto {
            value: Some(TypeValue::Tensor(TensorTypeProto {
                elem_type: elem(dtype),
                shape,
            })),
        })
    }
}

/// Converts a tensor to a message.
fn message(name: String, t: &Tensor) -> TensorProto {
    TensorProto {
        dims: t.shape().to_vec(),
        data_type: elem(t.dtype()),
        name,
        raw_data: raw(t.bytes()),
        ..TensorProto::default()
    }
}

/// Returns ONNX's code of an element type.
pub(super) fn elem(dtype: DType) -> i32 {
    Elem::of(dtype).0
}

fn attribute(name: &str, value: Attr) -> AttributeProto {
    let mut a = AttributeProto {
        name: name.to_owned(),
        ..AttributeProto::default()
    };
    let kind = match value {
        Attr::Float(v) => {
            a.f = v as f32;
            1
        }
        Attr::Int(v) => {
            a.i = v;
            2
        }
        Attr::Str(v) => {
            a.s = raw(v.as_bytes());
            3
        }
        Attr::Text(v) => {
            a.s = raw(v.as_bytes());
            3
        }
        Attr::Tensor(v) => {
            a.t = Some(message(String::new(), &v));
            4
        }
        Attr::Graph(v) => {
            a.g = Some(v);
            5
        }
        Attr::Ints(v) => {
            a.ints = v;
            7
        }
    };
    a.r#type = kind;
    a
}
