//! The text of a fused tensor program, built as TVM does: the statements of each program are copied
//! verbatim, with the buffers of the new program.

use relax_base::Symbol;
use relax_infer::Typing;
use relax_ir::{Expr, ExprId, Kept, Module, Shape, Type, TypeId, VarId};
use relax_ops::Lowering;
use relax_sym::{Atom, Dim, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

use super::kept;
use super::text::{Item, balanced, dim_text, find, lone, once_each, parts, renamed, words};
use crate::code::{Bind, Code};
use crate::parallel;
use crate::util::{called_op, dims_of};

/// A fused program.
pub(super) struct Merged {
    /// Its text.
    pub text: String,
    /// Names of the symbols that the text uses.
    pub symbols: Vec<Symbol>,
    /// The argument that each result is written to, -1 for new ones; empty if all are new.
    pub inplace: Vec<i64>,
}

/// The representation of a value of the function in the program.
#[derive(Clone, Debug)]
enum Place {
    Buffer(String, Vec<Dim>),
    Number(String),
    Tuple(Vec<Place>),
}

/// Returns the extents and element type of a tensor, if they are known.
pub(super) fn tensor(m: &Module, ty: TypeId) -> Option<(Vec<Dim>, relax_tensor::DType)> {
    dims_of(m, ty).filter(|(dims, _)| dims.iter().all(Dim::is_known))
}

/// Returns the tensors of a type: itself, or its fields.
pub(super) fn tensors(m: &Module, ty: TypeId) -> Option<Vec<(Vec<Dim>, relax_tensor::DType)>> {
    match &m.types[ty] {
        Type::Tuple(fields) => fields.iter().map(|&f| tensor(m, f)).collect(),
        _ => Some(vec![tensor(m, ty)?]),
    }
}

/// Returns the fused program of a function that calls programs with texts; `None` if the function
/// does anything else, or if a text cannot be concatenated with others.
pub(super) fn merged(
    m: &Module,
    typing: &Typing,
    name: Symbol,
    params: &[VarId],
    code: &Code,
    texts: &Texts<'_>,
) -> Option<Merged> {
    let [seq] = &code.seqs[..] else {
        return None;
    };
    let binds: Vec<(VarId, ExprId)> = (seq.parts.iter().flat_map(|p| &p.binds))
        .map(|b| Some((b.var, b.expr()?)))
        .collect::<Option<_>>()?;
    let mut made = Made {
        m,
        typing,
        taken: FxHashSet::default(),
        said: FxHashSet::default(),
        dims: FxHashMap::default(),
        of: FxHashMap::default(),
        params: Vec::new(),
        buffers: Vec::new(),
        written: FxHashSet::default(),
        body: String::new(),
        blocks: FxHashSet::default(),
        closed: true,
    };
    // Names inside the texts are kept; buffers are renamed to avoid them.
    let call = |b: &(VarId, ExprId)| Call::of(m, b.1, texts);
    let steps: Vec<Option<Call<'_>>> = binds.iter().map(call).collect();
    for call in steps.iter().flatten() {
        made.said.extend(&call.text.inner);
        made.closed &= call.text.closed;
    }
    for &p in params {
        made.parameter(p)?;
    }
    for (&(var, value), call) in binds.iter().zip(steps) {
        let place = match call {
            Some(call) => made.step(call, typing.vars[var])?,
            None => made.place(value)?,
        };
        made.of.insert(var, place);
    }
    let result = made.place(seq.value)?;
    made.finish(name, result)
}

/// The text of a program, parsed.
pub(super) struct Text<'m> {
    item: Item<'m>,
    symbols: &'m [Symbol],
    /// Names in it that stay what they are.
    inner: Vec<&'m str>,
    /// Whether all brackets and strings are closed in it.
    closed: bool,
}

impl<'m> Text<'m> {
    fn of(kept: &'m Kept) -> Option<Text<'m>> {
        let item = Item::of(&kept.text)?;
        let mut own = item.own_names();
        own.extend(kept.symbols.iter().map(|s| s.as_str()));
        let words = item.words.iter().copied();
        Some(Text {
            inner: words.filter(|w| !own.contains(w)).collect(),
            closed: item.is_closed(),
            symbols: &kept.symbols,
            item,
        })
    }
}

/// The texts that functions call, by name: many functions call the same ones. `None` for those that
/// cannot be concatenated with others.
pub(super) type Texts<'m> = FxHashMap<Symbol, Option<Text<'m>>>;

/// Parses the texts of the programs that some functions call.
pub(super) fn texts<'m>(m: &'m Module, functions: impl Iterator<Item = &'m Code>) -> Texts<'m> {
    let mut called: FxHashMap<Symbol, &Kept> = FxHashMap::default();
    for e in functions.flat_map(Code::binds).filter_map(Bind::expr) {
        if let Expr::Call { args, .. } = m.exprs[e]
            && let Some(&callee) = m.list(args).first()
            && let Some(kept) = text_of(m, callee)
        {
            called.insert(kept.name, kept);
        }
    }
    let called: Vec<&Kept> = called.into_values().collect();
    let parsed = parallel::mapped(&called, |kept| (kept.name, Text::of(kept)));
    parsed.into_iter().collect()
}

/// A call of a program that has a text.
struct Call<'m> {
    text: &'m Text<'m>,
    args: &'m [ExprId],
    /// The arguments that are written as results, -1 for new ones.
    inplace: Option<Vec<i64>>,
}

impl<'m> Call<'m> {
    fn of(m: &'m Module, e: ExprId, texts: &'m Texts<'_>) -> Option<Call<'m>> {
        let Expr::Call { args, .. } = m.exprs[e] else {
            return None;
        };
        let inplace = match kept::name(m, e) {
            Some("call_tir_inplace") => Some(kept::attr(m, e, "inplace_indices")?.as_ints()?),
            Some(_) => return None,
            None => match called_op(m, e)?.hooks.lowering {
                Lowering::CallTir | Lowering::CallDpsPacked => None,
                _ => return None,
            },
        };
        let [callee, given, ..] = *m.list(args) else {
            return None;
        };
        let Expr::Tuple(fields) = m.exprs[given] else {
            return None;
        };
        let kept = text_of(m, callee)?;
        Some(Call {
            text: texts.get(&kept.name)?.as_ref()?,
            args: m.list(fields),
            inplace,
        })
    }
}

/// Returns the text of a program, as long as it still defines the program.
fn text_of(m: &Module, callee: ExprId) -> Option<&Kept> {
    let script = m.script.as_deref()?;
    match m.exprs[callee] {
        Expr::Global(g) => {
            let kept = script.kept(m.globals[g].name)?;
            match &m.globals[g].kind {
                relax_ir::GlobalKind::Prim(p) => kept.says(p).then_some(kept),
                relax_ir::GlobalKind::Func(_) => None,
            }
        }
        Expr::Extern(name) => script
            .kept(name)
            .filter(|k| find(&k.text, "@T.prim_func").is_some()),
        _ => None,
    }
}

/// The extents and element type of a buffer, as text.
type Form = (Vec<String>, String);

/// The program under construction.
struct Made<'m> {
    m: &'m Module,
    typing: &'m Typing,
    taken: FxHashSet<String>,
    /// Names inside of the texts.
    said: FxHashSet<&'m str>,
    dims: FxHashMap<DimVar, String>,
    of: FxHashMap<VarId, Place>,
    /// The names of the parameters, each with the extents and element type of a buffer, or the type
    /// of a number.
    params: Vec<(String, Result<Form, String>)>,
    /// Buffers that are not parameters, in order: the text after `=`, or the extents and element
    /// type of a result.
    buffers: Vec<(String, Result<Form, String>)>,
    written: FxHashSet<String>,
    body: String,
    blocks: FxHashSet<String>,
    /// Whether all brackets and strings are closed in each of the texts.
    closed: bool,
}

impl Made<'_> {
    fn unique(&mut self, base: &str) -> String {
        let (mut name, mut i) = (base.to_owned(), 0);
        while self.said.contains(name.as_str()) || !self.taken.insert(name.clone()) {
            i += 1;
            name = format!("{base}_{i}");
        }
        name
    }

    fn dim(&mut self, d: &Dim) -> Option<String> {
        for v in d.free_vars() {
            if !self.dims.contains_key(&v) {
                let name = self.unique(self.m.dims[v].name.as_str());
                self.dims.insert(v, name);
            }
        }
        dim_text(d, &self.dims, true)
    }

    fn form(&mut self, dims: &[Dim], dtype: relax_tensor::DType) -> Option<Form> {
        let dims = dims.iter().map(|d| self.dim(d)).collect::<Option<_>>()?;
        Some((dims, dtype.to_string()))
    }

    fn parameter(&mut self, p: VarId) -> Option<()> {
        let ty = self.typing.vars[p];
        let number = self.m.var_attrs.get(&p);
        if let Type::Shape(Shape::Dims(dims)) = &self.m.types[ty] {
            for d in dims.clone() {
                let Some(Atom::Var(v)) = d.as_atom() else {
                    return None;
                };
                let name = self.dim(&Dim::var(v))?;
                if self.params.iter().any(|p| p.0 == name) {
                    return None;
                }
                self.params.push((name, Err("T.int64".to_owned())));
            }
            return Some(());
        }
        let (dims, dtype) = tensor(self.m, ty)?;
        let name = self.unique(self.m.vars[p].name.as_str());
        if number.is_some_and(|a| a.get("scalar").is_some()) {
            self.params.push((name.clone(), Err(format!("T.{dtype}"))));
            self.of.insert(p, Place::Number(name));
            return Some(());
        }
        let form = self.form(&dims, dtype)?;
        self.params.push((name.clone(), Ok(form)));
        self.of.insert(p, Place::Buffer(name, dims));
        Some(())
    }

    /// Returns what an expression without calls of programs corresponds to.
    fn place(&mut self, e: ExprId) -> Option<Place> {
        let m = self.m;
        match &m.exprs[e] {
            Expr::Var(v) => self.of.get(v).cloned(),
            Expr::Proj { tuple, index } => {
                let Expr::Var(v) = m.exprs[*tuple] else {
                    return None;
                };
                match self.of.get(&v)? {
                    Place::Tuple(all) => all.get(*index as usize).cloned(),
                    _ => None,
                }
            }
            // A tuple of names: Relax's form has no nested tuples.
            Expr::Tuple(fields) => {
                let mut all = Vec::with_capacity(fields.len());
                for &f in m.list(*fields) {
                    let Expr::Var(v) = m.exprs[f] else {
                        return None;
                    };
                    all.push(self.of.get(&v)?.clone());
                }
                Some(Place::Tuple(all))
            }
            Expr::Call { attrs, .. } => {
                let value = m.attrs(*attrs).get("value")?;
                match called_op(m, e)?.name {
                    "relax.value" => Some(Place::Number(self.dim(&value.as_dim()?)?)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Appends a call; returns what its result corresponds to.
    fn step(&mut self, call: Call<'_>, ty: TypeId) -> Option<Place> {
        let outs = tensors(self.m, ty)?;
        let mut args = Vec::with_capacity(call.args.len());
        for &a in call.args {
            args.push(self.place(a)?);
        }
        let mut names: FxHashMap<&str, String> = FxHashMap::default();
        let text = call.text;
        let params = &text.item.params;
        for (p, arg) in params.iter().zip(&args) {
            self.bind(&call, p, arg, &mut names)?;
        }
        for (name, rest) in &text.item.allocs {
            let new = self.unique(name);
            self.buffers.push((new.clone(), Err((*rest).to_owned())));
            names.insert(*name, new);
        }
        let (mut fresh, mut results) = (args.len(), Vec::with_capacity(outs.len()));
        for (i, (dims, dtype)) in outs.into_iter().enumerate() {
            let at = call
                .inplace
                .as_ref()
                .map_or(Some(-1), |all| all.get(i).copied())?;
            if let Ok(at) = usize::try_from(at) {
                let place = args.get(at)?.clone();
                if let Place::Buffer(name, _) = &place {
                    self.written.insert(name.clone());
                }
                results.push(place);
                continue;
            }
            let p = params.get(fresh)?;
            fresh += 1;
            let new = self.unique(&format!("{}_intermediate", p.0));
            let form = self.form(&dims, dtype)?;
            self.buffers.push((new.clone(), Ok(form)));
            self.written.insert(new.clone());
            let place = Place::Buffer(new, dims);
            self.bind(&call, p, &place, &mut names)?;
            results.push(place);
        }
        if fresh != params.len() || text.symbols.iter().any(|s| !names.contains_key(s.as_str())) {
            return None;
        }
        // Extents of the program's own buffers may contain symbols too.
        for (name, form) in &mut self.buffers {
            if let Err(rest) = form
                && names.values().any(|n| *n == *name)
            {
                *rest = renamed(rest, &names);
            }
        }
        self.add(&text.item, &names);
        match self.m.types[ty] {
            Type::Tuple(_) => Some(Place::Tuple(results)),
            _ => results.pop(),
        }
    }

    /// Binds a parameter of a program to an operand, and the symbols in its type to dimensions.
    fn bind<'t>(
        &mut self,
        call: &Call<'t>,
        (name, ty): &(&'t str, &'t str),
        arg: &Place,
        names: &mut FxHashMap<&'t str, String>,
    ) -> Option<()> {
        let form = ty
            .strip_prefix("T.Buffer(")
            .and_then(|t| t.strip_suffix(')'));
        match (form, arg) {
            (Some(form), Place::Buffer(new, dims)) => {
                let shape = *parts(form).first()?;
                let extents = parts(shape.get(1..shape.len().checked_sub(1)?)?);
                if extents.len() != dims.len() || !shape.starts_with(['(', '[']) {
                    return None;
                }
                for (extent, d) in extents.into_iter().zip(dims) {
                    let symbol = call.text.symbols.iter().any(|s| s.as_str() == extent);
                    if symbol && !names.contains_key(extent) {
                        let text = self.dim(d)?;
                        names.insert(extent, grouped(text));
                    }
                }
                names.insert(*name, new.clone());
            }
            (None, Place::Number(value)) => {
                names.insert(*name, grouped(value.clone()));
            }
            _ => return None,
        }
        Some(())
    }

    /// Appends the statements of a program.
    fn add(&mut self, item: &Item<'_>, names: &FxHashMap<&str, String>) {
        let new: Vec<Option<&String>> = item.words.iter().map(|w| names.get(w)).collect();
        for line in &item.body {
            let mut line = once_each(item.renamed(line, &new));
            // Schedules look up blocks by name.
            if line.trim_ascii_start().starts_with("with ")
                && let Some((before, rest)) = line.split_once("T.sblock(\"")
                && let Some((block, after)) = rest.split_once('"')
                && !block.is_empty()
            {
                let (mut new, mut i) = (block.to_owned(), 0);
                while !self.blocks.insert(new.clone()) {
                    i += 1;
                    new = format!("{block}{i}");
                }
                line = format!("{before}T.sblock(\"{new}\"{after}");
            }
            self.body.extend(["    ", &line, "\n"]);
        }
    }

    fn finish(mut self, name: Symbol, result: Place) -> Option<Merged> {
        let results = match result {
            Place::Tuple(all) => all,
            one => vec![one],
        };
        let (mut inplace, mut outputs) = (Vec::new(), FxHashSet::default());
        for r in results {
            let Place::Buffer(name, _) = r else {
                return None;
            };
            if !self.written.contains(&name) || !outputs.insert(name.clone()) {
                return None;
            }
            let at = self.params.iter().position(|p| p.0 == name);
            inplace.push(at.map_or(-1, |i| i as i64));
            if at.is_none() {
                let at = self.buffers.iter().position(|b| b.0 == name)?;
                let (name, form) = self.buffers.remove(at);
                self.params.push((name, Ok(form.ok()?)));
            }
        }
        if inplace.iter().all(|&i| i < 0) {
            inplace.clear();
        }
        let numbers: Vec<&String> = (self.params.iter().filter(|p| p.1.is_err()))
            .map(|p| &p.0)
            .collect();
        let mut params = Vec::with_capacity(self.params.len());
        for (i, (name, form)) in self.params.iter().enumerate() {
            let later: Vec<&String> = (self.params[i..].iter().filter(|p| p.1.is_err()))
                .map(|p| &p.0)
                .collect();
            params.push(match form {
                Ok(form) => format!("{name}: T.Buffer({})", buffer(form, &later)),
                Err(ty) => format!("{name}: {ty}"),
            });
        }
        let mut text = format!(
            "@T.prim_func(private=True, s_tir=True)\ndef {name}({}):\n    T.func_attr({{\"tirx.noalias\": True}})\n    \
             # with T.sblock(\"root\"):\n",
            params.join(", ")
        );
        for (name, form) in &self.buffers {
            let form = match form {
                Ok(form) => format!("T.sblock_alloc_buffer({})", buffer(form, &[])),
                Err(rest) => rest.clone(),
            };
            text.push_str(&format!("    {name} = {form}\n"));
        }
        text.push_str(self.body.trim_end());
        let alone = |d: &String| {
            self.params
                .iter()
                .flat_map(|p| &p.1)
                .any(|f| f.0.contains(d))
        };
        let mut symbols = Vec::new();
        for d in self.dims.values().filter(|d| !numbers.contains(d)) {
            // The symbol must be bound by an argument of the caller.
            if !alone(d) {
                return None;
            }
            symbols.push(Symbol::new(d));
        }
        symbols.sort_unstable_by_key(|s| s.as_str());
        // What is made here is closed, and texts that are cannot change that.
        (self.closed || balanced(&text)).then_some(Merged {
            text,
            symbols,
            inplace,
        })
    }
}

/// Formats a buffer's extents and element type. Extents that mention a later parameter are quoted.
fn buffer((dims, dtype): &Form, later: &[&String]) -> String {
    let mentions = |d: &String| words(d).any(|w| later.iter().any(|l| *l == w));
    let extent = |d: &String| match !later.is_empty() && mentions(d) {
        true => format!("\"{d}\""),
        false => d.clone(),
    };
    let dims: Vec<String> = dims.iter().map(extent).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    format!("({}{comma}), \"{dtype}\"", dims.join(", "))
}

/// Adds parentheses unless the text is a single word or call.
fn grouped(text: String) -> String {
    match lone(&text) {
        true => text,
        false => format!("({text})"),
    }
}
