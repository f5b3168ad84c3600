//! The interface between operators' computations and the tensor programs they become.

use relax_ir::{AttrValue, Attrs, TypeArena, TypeId};
use relax_loops::{Builder, Ex, Stage, Stmt, TensorInfo, TensorRef, roundings, wide};
use relax_sym::Atom;
use relax_tensor::{DType, Tensor};

use crate::call_requirements::{Extent, Requirements};

/// A computation that cannot be stated for these inputs ("not supported for layout …").
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ComputeError(pub String);

impl<T: Into<String>> From<T> for ComputeError {
    fn from(text: T) -> Self {
        ComputeError(text.into())
    }
}

/// The context of a computation: inputs, attributes, the expected outputs, and (through `Deref`)
/// the [`Builder`] that collects stages.
pub struct Te<'a> {
    builder: Builder,
    /// The tensors of each argument: one, or those of a (nested) tuple, flattened in order.
    args: Vec<Vec<TensorRef>>,
    /// The values of arguments that are constants.
    consts: Vec<Option<Tensor>>,
    /// Whether the computation has used a constant argument's value.
    asked: std::cell::Cell<bool>,
    attrs: &'a Attrs,
    outs: &'a [TensorInfo],
}

impl std::ops::Deref for Te<'_> {
    type Target = Builder;
    fn deref(&self) -> &Builder {
        &self.builder
    }
}
impl std::ops::DerefMut for Te<'_> {
    fn deref_mut(&mut self) -> &mut Builder {
        &mut self.builder
    }
}

impl<'a> Te<'a> {
    /// Creates the context. `args` gives the known facts about each argument's tensors (unknown
    /// extents become dimension variables), `consts` the values of constant arguments.
    pub fn new(
        name: &str,
        args: &[Vec<TensorInfo>],
        consts: Vec<Option<Tensor>>,
        attrs: &'a Attrs,
        outs: &'a [TensorInfo],
    ) -> Te<'a> {
        let mut builder = Builder::new(name);
        let mut number = 0;
        let args = (args.iter())
            .map(|tensors| {
                let declare = |t: &TensorInfo| {
                    number += 1;
                    builder.input(&format!("p{}", number - 1), t.dtype, &t.shape)
                };
                tensors.iter().map(declare).collect()
            })
            .collect();
        Te {
            builder,
            args,
            consts,
            asked: std::cell::Cell::new(false),
            attrs,
            outs,
        }
    }
    /// The finished program.
    pub fn finish(self) -> relax_loops::Program {
        self.builder.program
    }
    /// Inserts the requirements on the arguments' extents before everything else. `types` are those
    /// of the arguments in their arena.
    pub fn require(&mut self, needs: &Requirements, types: &TypeArena, args: &[TypeId]) {
        let extent = |e: Extent| match e {
            Extent::Axis(i, j, axis) => self.args.get(i)?.get(j)?.shape.get(axis).cloned(),
            Extent::Var(v) => {
                let parts = args
                    .iter()
                    .zip(&self.args)
                    .flat_map(|(&ty, tensors)| types.leaves(ty).into_iter().zip(tensors));
                parts.into_iter().find_map(|(ty, t)| {
                    let dims = types.as_tensor(ty)?.shape.dims()?;
                    let axis = dims
                        .iter()
                        .position(|d| d.as_atom() == Some(Atom::Var(v)))?;
                    t.shape.get(axis).cloned()
                })
            }
        };
        let asserts: Vec<Stmt> = (needs.asserts(&extent).into_iter())
            .map(|(cond, message, values)| Stmt::Assert {
                cond,
                message,
                values,
                part: 0,
            })
            .collect();
        if !asserts.is_empty() {
            self.builder.program.stages.insert(0, Stage::Nest(asserts));
        }
    }
    /// The tensor of an argument that is one tensor.
    pub fn arg(&self, i: usize) -> TensorRef {
        self.args[i][0].clone()
    }
    /// The tensors of an argument that is a tuple.
    pub fn tuple(&self, i: usize) -> Vec<TensorRef> {
        self.args[i].clone()
    }
    /// Returns whether the program depends on the values of constant arguments.
    pub fn asked_for_consts(&self) -> bool {
        self.asked.get()
    }
    /// Number of arguments.
    pub fn arg_count(&self) -> usize {
        self.args.len()
    }
    /// The value of an argument, when it is a constant.
    pub fn const_arg(&self, i: usize) -> Option<&Tensor> {
        self.asked.set(true);
        self.consts.get(i)?.as_ref()
    }
    /// Returns the known facts about output `k` (tuples flattened).
    pub fn out(&self, k: usize) -> &TensorInfo {
        &self.outs[k]
    }
    /// A dimension variable that no input binds: the caller binds it by the extent of an output.
    pub fn dim(&mut self, name: &str) -> Ex {
        let (var, ex) = self.builder.program.fresh(name, DType::I64);
        self.builder.program.dims.push(var);
        ex
    }
    /// All attributes.
    pub fn attrs(&self) -> &'a Attrs {
        self.attrs
    }
    /// An attribute's value.
    pub fn attr(&self, name: &str) -> &'a AttrValue {
        static NONE: AttrValue = AttrValue::None;
        self.attrs.get(name).unwrap_or(&NONE)
    }
    /// An integer attribute. The relation has checked it.
    ///
    /// # Errors
    /// The call has no such integer.
    pub fn int(&self, name: &str) -> Result<i64, ComputeError> {
        self.attr(name)
            .as_int()
            .ok_or_else(|| format!("attribute `{name}` is no integer").into())
    }
    /// A float attribute.
    ///
    /// # Errors
    /// The call has no such number.
    pub fn float(&self, name: &str) -> Result<f64, ComputeError> {
        self.attr(name)
            .as_float()
            .ok_or_else(|| format!("attribute `{name}` is no number").into())
    }
    /// A truth-value attribute; `None` is false.
    pub fn flag(&self, name: &str) -> bool {
        self.attr(name).as_bool().unwrap_or(false)
    }
    /// A list-of-integers attribute; `None` stays `None`.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        let value = self.attr(name);
        match value.as_array() {
            None => value.as_int().map(|i| vec![i]),
            Some(_) => value.as_ints(),
        }
    }
    /// A string attribute; empty when absent.
    pub fn str(&self, name: &str) -> &'a str {
        self.attr(name).as_str().unwrap_or("")
    }
    /// An axis attribute, normalised to `0..rank`.
    ///
    /// # Errors
    /// There is no such axis.
    pub fn axis(&self, name: &str, rank: usize) -> Result<usize, ComputeError> {
        let v = self.int(name)?;
        let at = if v < 0 { v + rank as i64 } else { v };
        usize::try_from(at)
            .ok()
            .filter(|&a| a < rank.max(1))
            .ok_or_else(|| format!("`{name}={v}` is out of range for rank {rank}").into())
    }
    /// The element-wise output: the shape of argument 0, each element by `f`. Several operations on
    /// narrow floats are done in float32, and rounded once.
    pub fn elementwise(&mut self, f: impl Fn(&Ex) -> Ex) -> Result<(), ComputeError> {
        let x = self.arg(0);
        let wide = wide(x.dtype);
        let y = self.compute("y", &x.shape, |i| {
            let y = f(&x.at(i));
            match wide != x.dtype && y.dtype() == x.dtype && roundings(&y) > 1 {
                true => f(&x.at(i).cast(wide)).cast(x.dtype),
                false => y,
            }
        });
        self.output(&y);
        Ok(())
    }
    /// The broadcast extents of two shapes.
    pub fn broadcast_shape(a: &[Ex], b: &[Ex]) -> Vec<Ex> {
        let rank = a.len().max(b.len());
        let at = |s: &[Ex], i: usize| (i + s.len()).checked_sub(rank).map(|k| s[k].clone());
        (0..rank)
            .map(|i| match (at(a, i), at(b, i)) {
                (Some(x), Some(y)) => match (x.as_int(), y.as_int()) {
                    (Some(1), _) => y,
                    (_, Some(1)) => x,
                    (Some(_), _) => x,
                    (_, Some(_)) => y,
                    (None, None) if x == y => x,
                    (None, None) => Ex::where_(&x.eq(1i64), &y, &x),
                },
                (Some(x), None) | (None, Some(x)) => x,
                (None, None) => Ex::idx(1),
            })
            .collect()
    }
    /// The broadcast binary output: arguments 0 and 1, each element by `f`.
    pub fn broadcast(&mut self, f: impl FnOnce(&Ex, &Ex) -> Ex) -> Result<(), ComputeError> {
        let (a, b) = (self.arg(0), self.arg(1));
        let shape = Self::broadcast_shape(&a.shape, &b.shape);
        let y = self.compute("y", &shape, |i| f(&a.at_broadcast(i), &b.at_broadcast(i)));
        self.output(&y);
        Ok(())
    }
}
