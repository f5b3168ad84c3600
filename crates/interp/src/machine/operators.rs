//! Calls of operators, tensor programs, and packed functions on tensors.

use std::borrow::Cow;
use std::rc::Rc;

use relax_ir::{Attrs, Expr, ExprId, GlobalKind, OpId};
use relax_tensor::Tensor;

use super::Result;
use crate::plan::{self, Plan, Request};
use crate::types::Dims;
use crate::value::Value;
use crate::{Interp, codes};

impl Interp<'_> {
    pub(super) fn attrs(&self, at: ExprId) -> &Attrs {
        match self.m.exprs[at] {
            Expr::Call { attrs, .. } => self.m.attrs(attrs),
            _ => self.m.attrs(relax_ir::AttrsId::NONE),
        }
    }

    /// Returns the tensors of an argument: of a tensor, a shape, or a tuple of them.
    pub(super) fn tensors(&self, at: ExprId, value: &Value) -> Result<Vec<Tensor>> {
        self.readable(at, value)?;
        if let Value::Shape(s) = value {
            return Ok(vec![plan::shape_tensor(s)]);
        }
        match value.flatten() {
            Some(all) => Ok(all),
            None => self.error(
                codes::NO_COMPUTATION,
                at,
                format!(
                    "an operator is given {}, which is not made of tensors",
                    value.kind()
                ),
            ),
        }
    }

    pub(super) fn operator(
        &mut self,
        at: ExprId,
        op: OpId,
        args: Vec<Value>,
        dims: &Dims,
    ) -> Result<Value> {
        let mut tensors = Vec::with_capacity(args.len());
        for a in &args {
            tensors.push(self.tensors(at, a)?);
        }
        let mut key: Vec<i64> = Vec::new();
        for all in &tensors {
            key.push(-1 - all.len() as i64);
            for t in all {
                let d = t.dtype();
                key.push(
                    i64::from(d.code as u8) << 32
                        | i64::from(d.bits) << 16
                        | t.shape().len() as i64,
                );
                key.extend(t.shape());
            }
        }
        let given = match relax_ops::registry().get(op) {
            Some(def) => def.attrs_of(self.attrs(at)),
            None => Cow::Borrowed(self.attrs(at)),
        };
        let attrs = plan::concrete(&given, dims);
        if attrs.is_some() || !dims.is_empty() {
            key.extend(dims.iter().map(|d| d.1));
        }
        let key = (at, op, key);
        let plan = match self.plans.get(&key) {
            Some(plan) => plan.clone(),
            None => {
                let consts = self.constants(at, args.len());
                let request = Request {
                    m: self.m,
                    typing: self.typing,
                    at,
                    op,
                    attrs: attrs.as_ref().unwrap_or(&given),
                    args: &args,
                    tensors: &tensors,
                    consts: &consts,
                    dims,
                    span: self.span(at),
                };
                let plan: Rc<Plan> = Rc::new(plan::plan(&request)?);
                self.plans.insert(key, plan.clone());
                plan
            }
        };
        let inputs: Vec<Tensor> = tensors.into_iter().flatten().collect();
        let outs = self.execute(at, &plan.program, &inputs, plan.outs.as_deref())?;
        Ok(plan::build(&plan.form, outs))
    }

    /// Returns for each argument of a call whether it is a constant in the program.
    fn constants(&self, at: ExprId, n: usize) -> Vec<bool> {
        match &self.m.exprs[at] {
            Expr::Call { args, .. } if args.len() == n => (self.m.list(*args).iter())
                .map(|a| matches!(self.m.exprs[*a], Expr::Const(_)))
                .collect(),
            _ => vec![false; n],
        }
    }

    /// Returns the shapes in `call_tir`'s third argument, and whether the result is a tuple.
    pub(super) fn wanted(&self, at: ExprId, value: &Value) -> Result<(Vec<Vec<i64>>, bool)> {
        let shape = |v: &Value| match v {
            Value::Shape(s) => Some(s.to_vec()),
            _ => None,
        };
        let all = match value.fields() {
            Some(fields) => fields
                .iter()
                .map(shape)
                .collect::<Option<Vec<_>>>()
                .map(|s| (s, true)),
            None => shape(value).map(|s| (vec![s], false)),
        };
        match all {
            Some(found) => Ok(found),
            None => self.error(codes::TYPE, at, "the output shape is no shape value"),
        }
    }

    pub(super) fn results(&self, outs: Vec<Tensor>, several: bool) -> Value {
        let mut values: Vec<Value> = outs.into_iter().map(Value::from).collect();
        match values.pop() {
            Some(one) if !several => one,
            last => {
                values.extend(last);
                Value::tuple(values)
            }
        }
    }

    pub(super) fn call_tir(&mut self, at: ExprId, args: Vec<Value>) -> Result<Value> {
        let [Value::Global(g), inputs, shape] = &args[..] else {
            return self.error(
                codes::TYPE,
                at,
                "this form of call needs a tensor program, inputs and a shape",
            );
        };
        let m = self.m;
        let GlobalKind::Prim(program) = &m.globals[*g].kind else {
            return self.error(
                codes::TYPE,
                at,
                format!("@{} is no tensor program", m.globals[*g].name),
            );
        };
        let inputs = self.tensors(at, inputs)?;
        let (shapes, several) = self.wanted(at, shape)?;
        let outs = self.execute(at, program, &inputs, Some(&shapes))?;
        Ok(self.results(outs, several))
    }

    pub(super) fn call_dps(&mut self, at: ExprId, args: Vec<Value>) -> Result<Value> {
        let [Value::Extern(name), inputs, shape] = &args[..] else {
            return self.error(
                codes::TYPE,
                at,
                "this form of call needs a name, inputs and a shape",
            );
        };
        let inputs = self.tensors(at, inputs)?;
        let (shapes, several) = self.wanted(at, shape)?;
        let Some(dtypes) = plan::dtypes(self.attrs(at), shapes.len()) else {
            return self.error(
                codes::TYPE,
                at,
                "`dtype` gives no element type for each output",
            );
        };
        let mut outs = Vec::new();
        for (s, d) in shapes.iter().zip(dtypes) {
            if Tensor::byte_len(d, s).is_none() {
                return self.error(
                    codes::DIMENSION,
                    at,
                    format!("there is no tensor of shape {s:?}"),
                );
            }
            outs.push(Tensor::zeros(d, s));
        }
        let result = self.packed.call_dps(name.as_str(), &inputs, &mut outs);
        result.or_else(|e| self.error(codes::PACKED, at, e.to_string()))?;
        Ok(self.results(outs, several))
    }
}
