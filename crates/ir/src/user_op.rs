//! Instantiation of an `op` item's computation for one call: attributes are constants, element types
//! and ranks are known.

use std::fmt;

use relax_base::Symbol;
use relax_loops::{
    Buffer, Ex, ExKind, Program, Role, Stage, TensorInfo, Unfit, Var, map_expr, substitute,
};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::{AttrValue, Attrs, DTy, Kind, Shape, Type, TypeArena, TypeParamId, UserOp};

/// The reason why a call of an `op` item has no program.
#[derive(Clone, PartialEq, Debug)]
pub enum NoProgram {
    /// The operator has no computation.
    NoComputation(Symbol),
    /// The operator, and an attribute of the call whose value is not a number.
    NoNumber(Symbol, Symbol),
    /// The operator, an element type that its computation is not for, and the part that has no
    /// meaning then.
    NoElements(Symbol, DType, Unfit),
}

impl fmt::Display for NoProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoProgram::NoComputation(op) => write!(f, "`{op}` has no computation"),
            NoProgram::NoNumber(op, name) => {
                write!(f, "attribute `{name}` of `{op}` has no number as its value")
            }
            NoProgram::NoElements(op, dtype, unfit) => {
                write!(f, "`{op}` is not for elements of {dtype}: {unfit}")
            }
        }
    }
}

impl std::error::Error for NoProgram {}

impl UserOp {
    /// Returns its type parameters that are element types: what the types of parameters in
    /// [`UserOp::program`] count.
    pub fn element_params<'a>(
        &'a self,
        types: &'a TypeArena,
    ) -> impl Iterator<Item = TypeParamId> + 'a {
        let params = self.type_params.iter().copied();
        params.filter(|&p| types.params[p].kind == Kind::BaseType)
    }

    /// Returns the index among [`UserOp::element_params`] of the element type of an operand; `None`
    /// where that is no parameter.
    pub fn element_param(&self, types: &TypeArena, operand: usize) -> Option<u8> {
        let DTy::Param(p) = types.as_tensor(self.params.get(operand)?.1)?.dtype else {
            return None;
        };
        let index = self.element_params(types).position(|q| q == p)?;
        u8::try_from(index).ok()
    }

    /// Returns why there is no computation where an element parameter stands for a type; `None`
    /// where there is one.
    pub fn unfit(&self, param: u8, dtype: DType) -> Option<Unfit> {
        self.program.as_ref()?.unfit(param, dtype)
    }

    /// Returns the program for such arguments, whose extents may be unknown until run time. In
    /// [`UserOp::program`], a shape parameter is a single axis over all elements; here it is
    /// expanded to the argument's axes, and element types are those of the arguments.
    ///
    /// # Errors
    /// The operator has no computation, or none for these element types, or an attribute is not a
    /// number.
    pub fn program_for(
        &self,
        types: &TypeArena,
        attrs: &Attrs,
        args: &[TensorInfo],
    ) -> Result<Program, NoProgram> {
        let Some(program) = &self.program else {
            return Err(NoProgram::NoComputation(self.name));
        };
        let mut p = self.at_elements(program, types, args)?;
        let mut known = self.attribute_values(program, attrs)?;
        let mut flat: FxHashMap<Var, Vec<Ex>> = FxHashMap::default();
        for (k, arg) in args.iter().enumerate().take(self.params.len()) {
            let extents = &arg.shape;
            let shape = p.bufs[p.inputs[k]].shape.clone();
            let param = match &types[self.params[k].1] {
                Type::Tensor(t) => matches!(t.shape, Shape::Param(_)),
                _ => false,
            };
            if param {
                let ExKind::Var(size) = *shape[0].kind() else {
                    continue;
                };
                flat.entry(size)
                    .or_insert_with(|| expanded(&mut p, size, extents));
                continue;
            }
            for (e, n) in shape.iter().zip(extents) {
                if let (ExKind::Var(v), Some(n)) = (e.kind(), n) {
                    known.entry(*v).or_insert_with(|| Ex::idx(*n));
                }
            }
        }
        p.dims
            .retain(|d| !known.contains_key(d) && !flat.contains_key(d));
        for (size, extents) in &flat {
            known.insert(*size, product(extents));
        }
        expand(&mut p, &flat);
        rewrite(&mut p, &|e| substitute(e, &|v| known.get(&v).cloned()));
        Ok(p)
    }

    /// Returns the program for the arguments' element types.
    fn at_elements(
        &self,
        program: &Program,
        types: &TypeArena,
        args: &[TensorInfo],
    ) -> Result<Program, NoProgram> {
        let mut at: FxHashMap<u8, DType> = FxHashMap::default();
        for (k, arg) in args.iter().enumerate() {
            if let Some(param) = self.element_param(types, k) {
                at.entry(param).or_insert(arg.dtype);
            }
        }
        if at.is_empty() {
            return Ok(program.clone());
        }
        for (&param, &dtype) in &at {
            if let Some(unfit) = program.unfit(param, dtype) {
                return Err(NoProgram::NoElements(self.name, dtype, unfit));
            }
        }
        // The resolver sees to it that each parameter is the type of some operand.
        Ok(program.at_types(&|param| at.get(&param).copied().unwrap_or(DType::F32)))
    }

    /// Maps the attributes' variables to their values.
    fn attribute_values(
        &self,
        program: &Program,
        attrs: &Attrs,
    ) -> Result<FxHashMap<Var, Ex>, NoProgram> {
        let mut values = FxHashMap::default();
        for ((name, _, default), var) in self.attrs.iter().zip(&self.attr_vars) {
            let dtype = program.vars[*var].dtype;
            let value = match attrs.get(name.as_str()).or(default.as_ref()) {
                Some(AttrValue::Float(x)) => Ex::float(dtype, *x),
                Some(v) if v.as_int().is_some() => Ex::int(dtype, v.as_int().unwrap_or(0)),
                _ => {
                    return Err(NoProgram::NoNumber(self.name, *name));
                }
            };
            values.insert(*var, value);
        }
        Ok(values)
    }
}

/// Returns the axes that replace a flattened one; unknown extents become variables.
fn expanded(p: &mut Program, size: Var, extents: &[Option<i64>]) -> Vec<Ex> {
    let name = p.vars[size].name;
    let mut axis = |(k, n): (usize, &Option<i64>)| match n {
        Some(n) => Ex::idx(*n),
        None => {
            let (var, ex) = p.fresh(&format!("{name}{k}"), DType::I64);
            p.dims.push(var);
            ex
        }
    };
    extents.iter().enumerate().map(&mut axis).collect()
}

fn product(extents: &[Ex]) -> Ex {
    extents.iter().fold(Ex::idx(1), |a, b| a * b)
}

/// Returns the row-major linear index of an element.
fn position(index: &[Ex], extents: &[Ex]) -> Ex {
    index
        .iter()
        .zip(extents)
        .fold(Ex::idx(0), |at, (i, n)| at * n + i)
}

/// Returns the indices of the element at a row-major linear index.
fn indices(at: &Ex, extents: &[Ex]) -> Vec<Ex> {
    let mut rest = at.clone();
    let mut out: Vec<Ex> = Vec::with_capacity(extents.len());
    for n in extents.iter().rev() {
        out.push(rest.floor_mod(n));
        rest = rest.floor_div(n);
    }
    out.reverse();
    out
}

/// Expands the buffers whose only axis is one of `flat`.
fn expand(p: &mut Program, flat: &FxHashMap<Var, Vec<Ex>>) {
    let axes_of = |b: &Buffer| match b.shape[..] {
        [ref e] => match e.kind() {
            ExKind::Var(v) => flat.get(v).cloned(),
            _ => None,
        },
        _ => None,
    };
    // The buffers to expand, with their axes.
    let buffers: FxHashMap<_, Vec<Ex>> = (p.bufs.iter())
        .filter(|(_, b)| b.role != Role::Local)
        .filter_map(|(id, b)| Some((id, axes_of(b)?)))
        .collect();
    let mut stages = std::mem::take(&mut p.stages);
    for stage in &mut stages {
        // The bodies of `op` items consist of computations only.
        let Stage::Compute(c) = stage else { continue };
        // The indices that replace the single axis of the stage's result.
        let mut own: Option<(Var, Vec<Ex>, Ex)> = None;
        if let Some(extents) = buffers.get(&c.out) {
            let old = c.axes[0];
            c.axes.clear();
            let mut index = Vec::with_capacity(extents.len());
            for k in 0..extents.len() {
                let (var, ex) = p.fresh(&format!("i{k}"), DType::I64);
                c.axes.push(var);
                index.push(ex);
            }
            let at = position(&index, extents);
            own = Some((old, index, at));
        }
        let loads = |e: &Ex| {
            map_expr(e, |e| {
                let ExKind::Load(b, index) = e.kind() else {
                    return None;
                };
                let extents = buffers.get(b)?;
                let at = &index[0];
                let index = match (&own, at.kind()) {
                    (Some((axis, index, _)), ExKind::Var(v))
                        if v == axis && index.len() == extents.len() =>
                    {
                        index.clone()
                    }
                    _ => indices(at, extents),
                };
                Some(Ex::new(ExKind::Load(*b, index), e.dtype()))
            })
        };
        let positions = |e: &Ex| match &own {
            Some((axis, _, at)) => substitute(e, &|v| (v == *axis).then(|| at.clone())),
            None => e.clone(),
        };
        c.value = positions(&loads(&c.value));
        for (_, extent) in c.reduce.iter_mut().flat_map(|r| &mut r.axes) {
            *extent = positions(&loads(extent));
        }
    }
    p.stages = stages;
    for (id, extents) in buffers {
        p.bufs[id].shape = extents;
    }
}

/// Rewrites every expression of a program that consists of computations.
fn rewrite(p: &mut Program, f: &dyn Fn(&Ex) -> Ex) {
    for buffer in p.bufs.values_mut() {
        buffer.shape.iter_mut().for_each(|e| *e = f(e));
    }
    for stage in &mut p.stages {
        let Stage::Compute(c) = stage else { continue };
        c.value = f(&c.value);
        for (_, extent) in c.reduce.iter_mut().flat_map(|r| &mut r.axes) {
            *extent = f(extent);
        }
    }
}
