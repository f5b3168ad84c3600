//! The metadata section: `metadata = tvm.ir.load_json("…")`.

use std::sync::Arc;

use relax_base::{Span, Symbol};
use relax_tensor::{DType, Tensor, TypeCode};
use serde_json::Value;

use super::Reader;
use super::value::Val;
use crate::codes;

/// The first eight bytes of a tensor in the stream format.
const MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;

/// The contents of the section.
#[derive(Default)]
pub(super) struct Section {
    nodes: Option<Value>,
    given: bool,
}

impl Section {
    pub fn is_given(&self) -> bool {
        self.given
    }

    fn node(&self, i: &Value) -> Option<&Value> {
        self.nodes.as_ref()?.get("nodes")?.get(i.as_u64()? as usize)
    }

    /// Returns the entry `metadata[key][index]`.
    fn entry(&self, key: &str, index: usize) -> Option<&Value> {
        let root = self.node(self.nodes.as_ref()?.get("root_index")?)?;
        let pairs = root.get("data")?.as_array()?;
        let mut pairs = pairs.chunks_exact(2);
        let list = pairs.find(|p| {
            let name = self
                .node(&p[0])
                .and_then(|n| n.get("data"))
                .and_then(Value::as_str);
            name == Some(key)
        })?;
        self.node(self.node(&list[1])?.get("data")?.get(index)?)
    }

    /// Returns the tensor of an entry: a tensor itself, or the value of a constant.
    fn tensor(&self, node: &Value) -> Option<Tensor> {
        let data = node.get("data")?;
        let text = match data {
            Value::Object(fields) => self.node(fields.get("value")?)?.get("data")?,
            other => other,
        };
        decode(text.as_str()?)
    }
}

/// Decodes a tensor of the stream format, in base64.
fn decode(text: &str) -> Option<Tensor> {
    let bytes = base64_simd::STANDARD.decode_to_vec(text).ok()?;
    let mut rest = &bytes[..];
    let mut take = |n: usize| -> Option<&[u8]> {
        let (head, tail) = rest.split_at_checked(n)?;
        rest = tail;
        Some(head)
    };
    let long = |b: &[u8]| b.try_into().ok().map(i64::from_le_bytes);
    if long(take(8)?)? as u64 != MAGIC {
        return None;
    }
    take(16)?;
    let rank = i32::from_le_bytes(take(4)?.try_into().ok()?);
    let head = take(4)?;
    let code = match head[0] {
        0 => TypeCode::Int,
        1 | 6 => TypeCode::UInt,
        2 => TypeCode::Float,
        4 => TypeCode::BFloat,
        _ => return None,
    };
    // Booleans have their own code in this format.
    let bits = if head[0] == 6 { 1 } else { head[1] };
    let dtype = DType {
        code,
        bits,
        lanes: u16::from_le_bytes([head[2], head[3]]),
    };
    let mut shape = Vec::new();
    for _ in 0..rank {
        shape.push(long(take(8)?)?);
    }
    let n = usize::try_from(long(take(8)?)?).ok()?;
    let data = take(n)?;
    Tensor::from_bytes(dtype, &shape, data)
}

impl Reader<'_> {
    /// Reads the section.
    pub(super) fn load_metadata(&mut self, text: &str, literal: Span) {
        self.metadata.given = true;
        self.script.metadata = Some(Arc::from(self.text(literal)));
        match serde_json::from_str(text) {
            Ok(value) => self.metadata.nodes = Some(value),
            Err(e) => {
                let message = format!("the metadata section is no JSON: {e}");
                self.error(codes::METADATA, literal, message);
            }
        }
    }

    /// Evaluates `metadata["ir.GenericConst"][0]`.
    pub(super) fn metadata_entry(&mut self, key: &str, index: i64, span: Span) -> Val {
        if self.metadata.nodes.is_none() {
            return Val::Bad;
        }
        let entry = usize::try_from(index)
            .ok()
            .and_then(|i| self.metadata.entry(key, i));
        let Some(entry) = entry else {
            let message = format!("the metadata section has no entry `{key}` {index}");
            return self.error(codes::METADATA, span, message);
        };
        if key != "ir.GenericConst" {
            return Val::Meta(Symbol::new(key), index as u32);
        }
        match self.metadata.tensor(entry) {
            Some(tensor) => Val::Expr(self.m.constant(tensor, span)),
            None => self.keep(
                "a constant of an element type that has no values here",
                span,
            ),
        }
    }
}
