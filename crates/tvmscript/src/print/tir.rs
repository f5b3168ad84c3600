//! Tensor programs as TensorIR: buffers, loops, blocks with axes.

use relax_base::Symbol;
use relax_loops::{Buf, Compute, Ex, ExKind, Mark, Program, Role, Stage, Stmt, Var};
use rustc_hash::{FxHashMap, FxHashSet};

use super::body::line;
use super::names::python;
use super::share::repeated;
use super::tir_ops::{Part, binary, float, integer, unary};
use super::{Printer, Stop};

/// A text that exceeds this length belongs to an expression whose parts are shared, and may not be
/// named.
const LONGEST: usize = 1 << 17;

struct Writer<'p> {
    p: &'p Program,
    out: String,
    bufs: FxHashMap<Buf, String>,
    vars: FxHashMap<Var, String>,
    /// The named parts of the current statement, by their addresses.
    named: FxHashMap<usize, String>,
    taken: FxHashSet<String>,
    /// The nesting depth of the body.
    depth: usize,
}

/// Returns the program with a dimension of its own for each extent of an output that is computed:
/// the caller determines the size of an output, and TVM requires the signature to agree with the
/// caller literally.
fn opened(p: &Program) -> Program {
    let mut p = p.clone();
    for o in p.outputs.clone() {
        for axis in 0..p.bufs[o].shape.len() {
            let extent = p.bufs[o].shape[axis].clone();
            if matches!(extent.kind(), ExKind::Int(_) | ExKind::Var(_)) {
                continue;
            }
            let name = format!("{}_d{axis}", p.bufs[o].name);
            let (var, dim) = p.fresh(&name, extent.dtype());
            p.dims.push(var);
            p.bufs[o].shape[axis] = dim;
        }
    }
    p
}

impl Printer<'_> {
    /// Prints a tensor program as an item.
    pub(super) fn program(
        &mut self,
        name: Symbol,
        p: &Program,
        out: &mut String,
    ) -> Result<(), Stop> {
        let own = opened(p);
        let p = &own;
        let mut w = Writer {
            p,
            depth: 2,
            out: String::new(),
            bufs: FxHashMap::default(),
            vars: FxHashMap::default(),
            named: FxHashMap::default(),
            taken: ["T", "R", "I"].into_iter().map(String::from).collect(),
        };
        for &d in &p.dims {
            let name = python(p.vars[d].name.as_str());
            self.names.declare(Symbol::new(&name));
            w.taken.insert(name.clone());
            w.vars.insert(d, name);
        }
        for name in &self.names.declared {
            w.taken.insert(name.clone());
        }
        w.item(name.as_str())?;
        out.push_str(&w.out);
        out.push('\n');
        Ok(())
    }
}

impl Writer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        line(&mut self.out, depth, text);
    }

    fn fresh(&mut self, base: &str) -> String {
        let base = python(base);
        let mut name = base.clone();
        let mut i = 0;
        while !self.taken.insert(name.clone()) {
            i += 1;
            name = format!("{base}_{i}");
        }
        name
    }

    fn buf(&mut self, b: Buf) -> String {
        if let Some(name) = self.bufs.get(&b) {
            return name.clone();
        }
        let name = self.fresh(self.p.bufs[b].name.as_str());
        self.bufs.insert(b, name.clone());
        name
    }

    fn new_var(&mut self, v: Var) -> String {
        let name = self.fresh(self.p.vars[v].name.as_str());
        self.vars.insert(v, name.clone());
        name
    }

    fn shape(&mut self, b: Buf, signature: bool) -> Result<String, Stop> {
        let p = self.p;
        let mut parts = Vec::new();
        for e in &p.bufs[b].shape {
            let text = self.ex(e)?;
            let plain = matches!(e.kind(), ExKind::Int(_) | ExKind::Var(_));
            parts.push(if signature && !plain {
                format!("\"{text}\"")
            } else {
                text
            });
        }
        Ok(Printer::tuple_text(&parts))
    }

    fn item(&mut self, name: &str) -> Result<(), Stop> {
        let p = self.p;
        self.line(1, "@T.prim_func(private=True, s_tir=True)");
        let mut params = Vec::new();
        for &b in p.inputs.iter().chain(&p.outputs) {
            let (name, shape) = (self.buf(b), self.shape(b, true)?);
            params.push(format!(
                "{name}: T.Buffer({shape}, \"{}\")",
                p.bufs[b].dtype
            ));
        }
        self.line(1, &format!("def {name}({}):", params.join(", ")));
        self.line(2, "T.func_attr({\"tirx.noalias\": True})");
        let used = relax_loops::used_temps(p);
        let inner: Vec<Buf> = (p.bufs.iter())
            .filter(|(id, b)| b.role == Role::Local || b.role == Role::Temp && used.contains(id))
            .map(|(id, _)| id)
            .collect();
        for &b in &inner {
            let (name, shape) = (self.buf(b), self.shape(b, false)?);
            self.line(
                2,
                &format!(
                    "{name} = T.sblock_alloc_buffer({shape}, \"{}\")",
                    p.bufs[b].dtype
                ),
            );
        }
        let blocks = |s: &Stage| matches!(s, Stage::Compute(_));
        if inner.is_empty() && !p.stages.iter().any(blocks) {
            // TVM's reader creates the root block only if something requires it.
            self.line(2, "with T.sblock(\"root\"):");
            self.depth = 3;
        }
        for stage in &p.stages {
            match stage {
                Stage::Compute(c) => self.compute(c)?,
                Stage::Nest(body) => self.nest(body)?,
            }
        }
        Ok(())
    }

    fn compute(&mut self, c: &Compute) -> Result<(), Stop> {
        let p = self.p;
        if let Some(r) = &c.reduce
            && r.axes.iter().any(|a| a.1.as_int() == Some(0))
        {
            // TVM does not initialise a reduction over nothing.
            return self.compute(&Compute {
                reduce: None,
                value: r.combiner.identity(p.bufs[c.out].dtype),
                ..c.clone()
            });
        }
        let out = self.buf(c.out);
        let extents = p.bufs[c.out].shape.iter();
        let reduced = c.reduce.iter().flat_map(|r| r.axes.iter());
        let mut loops: Vec<(Var, &Ex, char)> = c
            .axes
            .iter()
            .copied()
            .zip(extents)
            .map(|(v, e)| (v, e, 'S'))
            .collect();
        loops.extend(reduced.map(|(v, e)| (*v, e, 'R')));
        let mut depth = self.depth;
        let (mut names, mut extents) = (Vec::new(), Vec::new());
        for (v, e, _) in &loops {
            extents.push(self.ex(e)?);
            let base = self.p.vars[*v].name;
            names.push(self.fresh(&format!("i_{base}")));
        }
        match &names[..] {
            [] => {}
            [one] => self.line(depth, &format!("for {one} in T.serial({}):", extents[0])),
            _ => self.line(
                depth,
                &format!(
                    "for {} in T.grid({}):",
                    names.join(", "),
                    extents.join(", ")
                ),
            ),
        }
        depth += usize::from(!names.is_empty());
        self.line(depth, &format!("with T.sblock(\"{out}\"):"));
        depth += 1;
        let axes: Vec<String> = loops.iter().map(|l| self.new_var(l.0)).collect();
        let kinds: String = loops.iter().map(|l| l.2).collect();
        match &names[..] {
            [] => {}
            [one] => {
                let kind = if kinds == "R" { "reduce" } else { "spatial" };
                self.line(
                    depth,
                    &format!("{} = T.axis.{kind}({}, {one})", axes[0], extents[0]),
                );
            }
            _ => self.line(
                depth,
                &format!(
                    "{} = T.axis.remap(\"{kinds}\", [{}])",
                    axes.join(", "),
                    names.join(", ")
                ),
            ),
        }
        let target = format!("{out}[{}]", index_text(&axes[..c.axes.len()]));
        if let Some(r) = &c.reduce {
            let start = self.ex(&r.combiner.identity(p.bufs[c.out].dtype))?;
            self.line(depth, "with T.init():");
            self.line(depth + 1, &format!("{target} = {start}"));
        }
        self.name_parts(depth, &[&c.value])?;
        let value = self.ex(&c.value)?;
        self.named.clear();
        match &c.reduce {
            None => self.line(depth, &format!("{target} = {value}")),
            Some(r) => {
                let dtype = p.bufs[c.out].dtype;
                let combined = binary(r.combiner.op(), dtype);
                self.line(
                    depth,
                    &format!("{target} = {}", combined.text(&target, &value)),
                );
            }
        }
        Ok(())
    }

    /// Prints statements, nested ones through a list of open constructs.
    fn nest(&mut self, body: &[Stmt]) -> Result<(), Stop> {
        enum Task<'s> {
            Stmt(usize, &'s Stmt),
            Line(usize, String),
        }
        let mut tasks: Vec<Task> = (body.iter().rev())
            .map(|s| Task::Stmt(self.depth, s))
            .collect();
        while let Some(task) = tasks.pop() {
            let (depth, stmt) = match task {
                Task::Line(depth, text) => {
                    self.line(depth, &text);
                    continue;
                }
                Task::Stmt(depth, stmt) => (depth, stmt),
            };
            let open = |tasks: &mut Vec<Task<'_>>, body| {
                let body: &[Stmt] = body;
                if body.is_empty() {
                    tasks.push(Task::Line(depth + 1, "T.evaluate(0)".to_owned()));
                }
            };
            let mut inner: &[Stmt] = &[];
            // A condition that is evaluated in each iteration keeps its parts inline.
            if !matches!(stmt, Stmt::While { .. }) {
                let exprs: Vec<&Ex> = stmt.exprs().collect();
                self.name_parts(depth, &exprs)?;
            }
            match stmt {
                Stmt::For {
                    var,
                    extent,
                    mark,
                    body,
                } => {
                    let extent = self.ex(extent)?;
                    let name = self.new_var(*var);
                    let kind = match mark {
                        Mark::Parallel => "parallel",
                        _ => "serial",
                    };
                    self.line(depth, &format!("for {name} in T.{kind}({extent}):"));
                    inner = body;
                    open(&mut tasks, body);
                }
                Stmt::While { cond, body } => {
                    let cond = self.ex(cond)?;
                    self.line(depth, &format!("while {cond}:"));
                    inner = body;
                    open(&mut tasks, body);
                }
                Stmt::If {
                    cond,
                    then,
                    otherwise,
                } => {
                    let cond = self.ex(cond)?;
                    self.line(depth, &format!("if {cond}:"));
                    if !otherwise.is_empty() {
                        tasks.extend(otherwise.iter().rev().map(|s| Task::Stmt(depth + 1, s)));
                        tasks.push(Task::Line(depth, "else:".to_owned()));
                    }
                    inner = then;
                    open(&mut tasks, then);
                }
                Stmt::Store { buf, index, value } => {
                    let target = self.access(*buf, index)?;
                    let value = self.ex(value)?;
                    self.line(depth, &format!("{target} = {value}"));
                }
                Stmt::Let { var, value } => {
                    let text = self.ex(value)?;
                    let name = self.new_var(*var);
                    self.line(
                        depth,
                        &format!("{name}: T.let[T.{}] = {text}", value.dtype()),
                    );
                }
                Stmt::Alloc { .. } => {}
                Stmt::Init { over, body } => {
                    let conditions: Vec<String> = over
                        .iter()
                        .map(|v| format!("{} == T.int64(0)", self.vars.get(v).map_or("", |s| s)))
                        .collect();
                    if conditions.is_empty() {
                        tasks.extend(body.iter().rev().map(|s| Task::Stmt(depth, s)));
                        continue;
                    }
                    self.line(depth, &format!("if {}:", conditions.join(" and ")));
                    inner = body;
                    open(&mut tasks, body);
                }
                Stmt::Assert { cond, message, .. } => {
                    let cond = self.ex(cond)?;
                    let mut text = format!("assert {cond}, ");
                    crate::strings::quote(message, &mut text);
                    self.line(depth, &text);
                }
            }
            self.named.clear();
            tasks.extend(inner.iter().rev().map(|s| Task::Stmt(depth + 1, s)));
        }
        Ok(())
    }

    /// Names repeated parts of a statement's expressions, before the statement. The caller forgets
    /// them after it.
    fn name_parts(&mut self, depth: usize, exprs: &[&Ex]) -> Result<(), Stop> {
        for part in repeated(self.p, exprs) {
            let text = self.ex(&part)?;
            let name = self.fresh("part");
            let line = format!("{name}: T.let[T.{}] = {text}", part.dtype());
            self.line(depth, &line);
            self.named.insert(part.addr(), name);
        }
        Ok(())
    }

    fn access(&mut self, b: Buf, index: &[Ex]) -> Result<String, Stop> {
        let mut parts = Vec::new();
        for e in index {
            parts.push(self.ex(e)?);
        }
        Ok(format!("{}[{}]", self.buf(b), index_text(&parts)))
    }

    fn ex(&mut self, e: &Ex) -> Result<String, Stop> {
        let mut out = String::new();
        let mut parts = vec![Part::Value(e)];
        while let Some(part) = parts.pop() {
            if out.len() > LONGEST {
                return Err(Stop::NoForm(
                    "a tensor program whose expressions are so long",
                ));
            }
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Owned(text) => out.push_str(&text),
                Part::Value(e) if self.named.contains_key(&e.addr()) => {
                    out.push_str(&self.named[&e.addr()]);
                }
                Part::Value(e) => {
                    let mut own = Vec::new();
                    self.node(e, &mut own)?;
                    parts.extend(own.into_iter().rev());
                }
            }
        }
        Ok(out)
    }

    fn node<'e>(&mut self, e: &'e Ex, out: &mut Vec<Part<'e>>) -> Result<(), Stop> {
        let d = e.dtype();
        match e.kind() {
            ExKind::Int(v) => out.push(Part::Owned(integer(d, *v))),
            ExKind::Float(x) => out.push(Part::Owned(float(d, *x))),
            ExKind::Var(v) => match self.vars.get(v) {
                Some(name) => out.push(Part::Owned(name.clone())),
                None => {
                    return Err(Stop::NoForm(
                        "a tensor program whose extents are found while it runs",
                    ));
                }
            },
            ExKind::Load(b, index) => {
                out.push(Part::Owned(format!("{}[", self.buf(*b))));
                if index.is_empty() {
                    out.push(Part::Text("()"));
                }
                for (i, e) in index.iter().enumerate() {
                    if i > 0 {
                        out.push(Part::Text(", "));
                    }
                    out.push(Part::Value(e));
                }
                out.push(Part::Text("]"));
            }
            ExKind::Unary(op, x) => unary(*op, x, d, out),
            ExKind::Binary(op, a, b) => {
                let form = binary(*op, a.dtype());
                out.push(Part::Text(form.before));
                out.push(Part::Value(a));
                out.push(Part::Text(form.between));
                out.push(Part::Value(b));
                out.push(Part::Text(form.after));
            }
            ExKind::Select(c, a, b) => {
                out.push(Part::Text("T.if_then_else("));
                out.push(Part::Value(c));
                out.push(Part::Text(", "));
                out.push(Part::Value(a));
                out.push(Part::Text(", "));
                out.push(Part::Value(b));
                out.push(Part::Text(")"));
            }
            ExKind::Cast(x) if d.is_bool() => {
                out.push(Part::Text("("));
                out.push(Part::Value(x));
                let zero = if x.dtype().is_float() {
                    float(x.dtype(), 0.0)
                } else {
                    integer(x.dtype(), 0)
                };
                out.push(Part::Owned(format!(" != {zero})")));
            }
            ExKind::Cast(x) => {
                out.push(Part::Owned(format!("T.Cast(\"{d}\", ")));
                out.push(Part::Value(x));
                out.push(Part::Text(")"));
            }
            ExKind::Reinterpret(x) => {
                out.push(Part::Owned(format!("T.reinterpret(\"{d}\", ")));
                out.push(Part::Value(x));
                out.push(Part::Text(")"));
            }
        }
        Ok(())
    }
}

fn index_text(index: &[String]) -> String {
    if index.is_empty() {
        "()".to_owned()
    } else {
        index.join(", ")
    }
}
