//! The builder with which operators (and tests) construct tensor programs.

use relax_base::Symbol;
use relax_tensor::DType;

use crate::expr::Operand;
use crate::{
    Buf, Buffer, Combiner, Compute, Ex, ExKind, Mark, Program, Reduce, Role, Stage, Stmt, Var,
};

/// A buffer as operators see it, with its extents and element type; `at` reads an element.
#[derive(Clone, Debug)]
pub struct TensorRef {
    /// The buffer.
    pub buf: Buf,
    /// Its extents (`int64`).
    pub shape: Vec<Ex>,
    /// Its element type.
    pub dtype: DType,
}

impl TensorRef {
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
    /// The element at `index`.
    ///
    /// # Panics
    /// The number of indices is not the rank.
    pub fn at(&self, index: &[Ex]) -> Ex {
        assert_eq!(index.len(), self.rank(), "one index per axis");
        Ex::new(ExKind::Load(self.buf, index.to_vec()), self.dtype)
    }
    /// Returns the element at `index` under numpy broadcasting: leading indices that this tensor
    /// lacks are dropped, axes of extent 1 are read at 0. An axis whose extent is not constant is
    /// read at the index when its extent is larger than 1 at run time.
    pub fn at_broadcast(&self, index: &[Ex]) -> Ex {
        let skip = index.len() - self.rank();
        let ix: Vec<Ex> = (self.shape.iter().zip(&index[skip..]))
            .map(|(extent, i)| match extent.as_int() {
                Some(1) => Ex::idx(0),
                Some(_) => i.clone(),
                None => Ex::where_(&extent.eq(1i64), &Ex::idx(0), i),
            })
            .collect();
        self.at(&ix)
    }
    /// Returns the only element of a rank-0 tensor (or of one with all extents 1).
    pub fn scalar(&self) -> Ex {
        self.at(&vec![Ex::idx(0); self.rank()])
    }
    /// Number of elements.
    pub fn size(&self) -> Ex {
        self.shape.iter().fold(Ex::idx(1), |n, d| n * d)
    }
}

/// Builds a [`Program`] stage by stage.
pub struct Builder {
    /// The program so far.
    pub program: Program,
}

impl Builder {
    /// Starts a program.
    pub fn new(name: &str) -> Builder {
        Builder {
            program: Program::new(name),
        }
    }

    /// Declares the next input. Extents `None` become fresh dimension variables.
    pub fn input(&mut self, name: &str, dtype: DType, shape: &[Option<i64>]) -> TensorRef {
        let mut extents = Vec::with_capacity(shape.len());
        for (axis, extent) in shape.iter().enumerate() {
            extents.push(match extent {
                Some(n) => Ex::idx(*n),
                None => {
                    let (var, ex) = self.program.fresh(&format!("{name}_d{axis}"), DType::I64);
                    self.program.dims.push(var);
                    ex
                }
            });
        }
        let t = self.buffer(name, dtype, extents, Role::Input);
        self.program.inputs.push(t.buf);
        t
    }

    /// Declares a buffer of any role.
    pub fn buffer(&mut self, name: &str, dtype: DType, shape: Vec<Ex>, role: Role) -> TensorRef {
        let name = Symbol::new(name);
        let buf = self.program.bufs.push(Buffer {
            name,
            dtype,
            shape: shape.clone(),
            role,
        });
        TensorRef { buf, shape, dtype }
    }

    /// Adds a buffer of the given extents whose element at `index` is `element(index)`.
    pub fn compute(
        &mut self,
        name: &str,
        shape: &[Ex],
        element: impl FnOnce(&[Ex]) -> Ex,
    ) -> TensorRef {
        let (vars, index) = self.axes(shape.len());
        let value = element(&index);
        let t = self.buffer(name, value.dtype(), shape.to_vec(), Role::Temp);
        let stage = Compute {
            out: t.buf,
            axes: vars,
            reduce: None,
            value,
        };
        self.program.stages.push(Stage::Compute(stage));
        t
    }

    /// Adds a buffer of the given extents whose element at `index` combines `element(index, r)` for
    /// all `r` in the domain `over`.
    pub fn reduce(
        &mut self,
        name: &str,
        shape: &[Ex],
        over: &[Ex],
        combiner: Combiner,
        element: impl FnOnce(&[Ex], &[Ex]) -> Ex,
    ) -> TensorRef {
        let (vars, index) = self.axes(shape.len());
        let mut axes = Vec::new();
        let mut r = Vec::new();
        for (k, extent) in over.iter().enumerate() {
            let (var, ex) = self.program.fresh(&format!("r{k}"), DType::I64);
            axes.push((var, extent.clone()));
            r.push(ex);
        }
        let value = element(&index, &r);
        let t = self.buffer(name, value.dtype(), shape.to_vec(), Role::Temp);
        let reduce = Some(Reduce { axes, combiner });
        self.program.stages.push(Stage::Compute(Compute {
            out: t.buf,
            axes: vars,
            reduce,
            value,
        }));
        t
    }

    /// Adds a temporary buffer that a later [`Builder::nest`] fills.
    pub fn temp(&mut self, name: &str, dtype: DType, shape: &[Ex]) -> TensorRef {
        self.buffer(name, dtype, shape.to_vec(), Role::Temp)
    }

    /// An explicit loop nest, as a stage.
    pub fn nest(&mut self, write: impl FnOnce(&mut Nest<'_>)) {
        let mut nest = Nest {
            program: &mut self.program,
            body: Vec::new(),
        };
        write(&mut nest);
        let body = nest.body;
        self.program.stages.push(Stage::Nest(body));
    }

    /// Makes `t` the next output. An input (or a buffer that is an output already) is copied.
    pub fn output(&mut self, t: &TensorRef) {
        let t = if self.program.bufs[t.buf].role == Role::Temp {
            t.clone()
        } else {
            self.compute("copy", &t.shape, |i| t.at(i))
        };
        self.program.bufs[t.buf].role = Role::Output;
        self.program.outputs.push(t.buf);
    }

    fn axes(&mut self, rank: usize) -> (Vec<Var>, Vec<Ex>) {
        (0..rank)
            .map(|k| self.program.fresh(&format!("i{k}"), DType::I64))
            .unzip()
    }
}

/// Writes the statements of a loop nest.
pub struct Nest<'a> {
    program: &'a mut Program,
    body: Vec<Stmt>,
}

impl Nest<'_> {
    fn block(&mut self, write: impl FnOnce(&mut Nest<'_>)) -> Vec<Stmt> {
        let mut inner = Nest {
            program: self.program,
            body: Vec::new(),
        };
        write(&mut inner);
        inner.body
    }
    /// `for i in 0..extent`.
    pub fn for_(&mut self, extent: impl Into<Ex>, body: impl FnOnce(&mut Nest<'_>, &Ex)) {
        let (var, ex) = self.program.fresh("i", DType::I64);
        let body = self.block(|n| body(n, &ex));
        self.body.push(Stmt::For {
            var,
            extent: extent.into(),
            mark: Mark::Serial,
            body,
        });
    }
    /// Nested loops over a whole index domain.
    pub fn grid(&mut self, extents: &[Ex], body: impl FnOnce(&mut Nest<'_>, &[Ex])) {
        let (vars, index): (Vec<_>, Vec<_>) = (0..extents.len())
            .map(|k| self.program.fresh(&format!("i{k}"), DType::I64))
            .unzip();
        let mut stmts = self.block(|n| body(n, &index));
        for (var, extent) in vars.into_iter().zip(extents).rev() {
            let extent = extent.clone();
            stmts = vec![Stmt::For {
                var,
                extent,
                mark: Mark::Serial,
                body: stmts,
            }];
        }
        self.body.append(&mut stmts);
    }
    /// `while cond`.
    pub fn while_(&mut self, cond: Ex, body: impl FnOnce(&mut Nest<'_>)) {
        let body = self.block(body);
        self.body.push(Stmt::While { cond, body });
    }
    /// `if cond`.
    pub fn if_(&mut self, cond: Ex, then: impl FnOnce(&mut Nest<'_>)) {
        let then = self.block(then);
        self.body.push(Stmt::If {
            cond,
            then,
            otherwise: Vec::new(),
        });
    }
    /// `if cond … else …`.
    pub fn if_else(
        &mut self,
        cond: Ex,
        then: impl FnOnce(&mut Nest<'_>),
        otherwise: impl FnOnce(&mut Nest<'_>),
    ) {
        let then = self.block(then);
        let otherwise = self.block(otherwise);
        self.body.push(Stmt::If {
            cond,
            then,
            otherwise,
        });
    }
    /// Writes an element; a number is converted to the buffer's type.
    pub fn store(&mut self, t: &TensorRef, index: &[Ex], value: impl Into<Operand>) {
        assert_eq!(index.len(), t.rank(), "one index per axis");
        let value = match value.into() {
            Operand::Ex(e) => e,
            Operand::Int(v) => Ex::int(t.dtype, v),
            Operand::Float(v) => Ex::float(t.dtype, v),
        };
        assert_eq!(value.dtype(), t.dtype, "a store of another type");
        self.body.push(Stmt::Store {
            buf: t.buf,
            index: index.to_vec(),
            value,
        });
    }
    /// Names a value for the rest of the block (evaluated here, once).
    pub fn let_(&mut self, value: Ex) -> Ex {
        let (var, ex) = self.program.fresh("t", value.dtype());
        self.body.push(Stmt::Let { var, value });
        ex
    }
    /// Creates a local mutable scalar with an initial value; read it with `scalar()`, write it with
    /// [`Nest::set`].
    pub fn cell(&mut self, value: Ex) -> TensorRef {
        let cell = self.local("cell", value.dtype(), &[]);
        self.set(&cell, value);
        cell
    }
    /// Writes a cell.
    pub fn set(&mut self, cell: &TensorRef, value: impl Into<Operand>) {
        self.store(cell, &[], value);
    }
    /// A local buffer, uninitialised.
    pub fn local(&mut self, name: &str, dtype: DType, shape: &[Ex]) -> TensorRef {
        let name = Symbol::new(name);
        let shape = shape.to_vec();
        let buf = self.program.bufs.push(Buffer {
            name,
            dtype,
            shape: shape.clone(),
            role: Role::Local,
        });
        self.body.push(Stmt::Alloc { buf });
        TensorRef { buf, shape, dtype }
    }
    /// Aborts the program with `message` unless `cond` holds.
    pub fn assert(&mut self, cond: Ex, message: impl Into<String>) {
        self.assert_showing(cond, message, Vec::new());
    }
    /// Like [`Nest::assert`]; each `{}` of the message is replaced by the next of `values`.
    pub fn assert_showing(&mut self, cond: Ex, message: impl Into<String>, values: Vec<Ex>) {
        let message = format!("`{}`: {}", self.program.name, message.into());
        self.body.push(Stmt::Assert {
            cond,
            message,
            values,
            part: 0,
        });
    }
}
