//! Printing of tensor programs: `prim_func` items, and scalar expressions.
//!
//! The text format only has loop nests: a computation over indices is printed as the equivalent
//! nest, and intermediate buffers are allocated at the start of the body.

use std::rc::Rc;

use relax_base::Symbol;
use relax_loops::{BinOp, Buf, Ex, ExKind, Mark, Program, Stage, Stmt, Var};
use relax_syntax::ast::{
    self, ExprKind, ForKind, NumSuffix, StmtKind, StoreOp, TypeExprKind, TypeOp,
};
use relax_tensor::{DType, TypeCode};
use rustc_hash::FxHashMap;

use super::names::{Names, Words};
use super::{NO, Printer};
use crate::build::program_cx::{INFIX, REINTERPRET, SELECT};

/// The names in a program.
pub(super) struct ProgramNames<'p> {
    program: &'p Program,
    bufs: FxHashMap<Buf, Symbol>,
    pub(super) vars: FxHashMap<Var, Symbol>,
    /// The expressions that are printed for loads of some buffers.
    pub(super) folded: FxHashMap<Buf, ast::ExprId>,
    /// Variables printed without a sigil: dimensions, and attributes of operators.
    bare: Vec<Var>,
    names: Names,
    /// Makes the names of dimensions unique.
    dims: Names,
    words: Rc<Words>,
    /// The names of the element types that are parameters, by their indices.
    pub(super) elements: Vec<Symbol>,
}

impl<'p> ProgramNames<'p> {
    pub(super) fn new(program: &'p Program, bare: Vec<Var>, words: Rc<Words>) -> ProgramNames<'p> {
        let mut names = ProgramNames {
            program,
            bufs: FxHashMap::default(),
            vars: FxHashMap::default(),
            folded: FxHashMap::default(),
            bare,
            names: Names::default(),
            dims: Names::default(),
            words,
            elements: Vec::new(),
        };
        for (id, buf) in program.bufs.iter() {
            let name = names.names.local(buf.name);
            names.bufs.insert(id, name);
        }
        names
    }
    /// Returns an element type's name in the text.
    fn element(&self, dtype: DType) -> Symbol {
        match dtype.as_param() {
            Some(index) => self.elements[usize::from(index)],
            None => Symbol::new(&dtype.to_string()),
        }
    }
    pub(super) fn buf(&self, id: Buf) -> Symbol {
        self.bufs[&id]
    }
    pub(super) fn var(&mut self, id: Var) -> Symbol {
        let wish = self.program.vars[id].name;
        let bare = self.bare.contains(&id);
        *self.vars.entry(id).or_insert_with(|| match bare {
            true => self.dims.word(wish, &self.words),
            false => self.names.local(wish),
        })
    }
}

/// The context of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The source of the type of a number without a suffix.
    number: Number,
    /// Whether it is inside index brackets with only arithmetic around it: `//` is a division
    /// there, and starts a comment elsewhere.
    bracket: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    /// An index or an extent: `int64`.
    Index,
    /// The other operand, which has a type of its own.
    Beside,
    /// Nothing.
    Alone,
}

impl Place {
    const INDEX: Place = Place {
        number: Number::Index,
        bracket: true,
    };
    /// The context of the extent of a reduction.
    pub(super) const EXTENT: Place = Place {
        number: Number::Index,
        bracket: false,
    };
    pub(super) const BESIDE: Place = Place {
        number: Number::Beside,
        bracket: false,
    };
    pub(super) const ALONE: Place = Place {
        number: Number::Alone,
        bracket: false,
    };
}

impl Printer<'_> {
    /// Prints a tensor program.
    pub(super) fn prim_func(&mut self, name: Symbol, program: &Program) -> ast::PrimFunc {
        let words = self.types.words.clone();
        let mut cx = ProgramNames::new(program, program.dims.clone(), words);
        let mut params = Vec::new();
        for &buf in program.inputs.iter().chain(&program.outputs) {
            params.push(self.buffer_binder(&mut cx, buf));
        }
        let mut stmts = Vec::new();
        if program.kernels.is_empty() {
            for id in relax_loops::used_temps(program) {
                stmts.push(self.buffer_alloc(&mut cx, id));
            }
            for stage in &program.stages {
                self.stage_loops(&mut cx, stage, &mut stmts);
            }
        } else {
            self.program_kernels(&mut cx, program, &mut stmts);
        }
        let body = self.out.block(stmts, None, NO);
        ast::PrimFunc {
            name,
            params: self.out.make_list(params),
            attrs: ast::List::EMPTY,
            body,
        }
    }

    /// Prints the allocation of a buffer.
    pub(super) fn buffer_alloc(&mut self, cx: &mut ProgramNames<'_>, id: Buf) -> ast::StmtId {
        let binder = self.buffer_binder(cx, id);
        self.out.stmt(StmtKind::Alloc(binder), NO)
    }

    /// Prints a stage as loops.
    pub(super) fn stage_loops(
        &mut self,
        cx: &mut ProgramNames<'_>,
        stage: &Stage,
        out: &mut Vec<ast::StmtId>,
    ) {
        match stage {
            Stage::Nest(body) => self.program_stmts(cx, body, out),
            Stage::Compute(_) => {
                let nest = relax_loops::lower_stage(cx.program, stage);
                self.program_stmts(cx, &nest, out);
            }
        }
    }

    fn buffer_binder(&mut self, cx: &mut ProgramNames<'_>, id: Buf) -> ast::BinderId {
        let program = cx.program;
        let buf = &program.bufs[id];
        let dtype = self.dtype(buf.dtype.into());
        let ty = if buf.shape.is_empty() {
            dtype
        } else {
            let extents: Vec<_> = buf.shape.iter().map(|e| self.extent(cx, e)).collect();
            let shape = self.out.type_tuple(extents, NO);
            self.out.type_apply("Buffer".into(), [shape, dtype], NO)
        };
        self.out.binder(cx.buf(id), Some(ty), NO)
    }

    /// Prints an extent as a type-level term. The recursion is bounded by the reader's nesting
    /// limit, and extents created by lowering are shallow.
    fn extent(&mut self, cx: &mut ProgramNames<'_>, e: &Ex) -> ast::TypeId {
        let kind = match e.kind() {
            ExKind::Int(value) => TypeExprKind::Int {
                value: *value,
                suffix: NumSuffix::None,
            },
            ExKind::Var(v) => TypeExprKind::Name(cx.var(*v)),
            ExKind::Binary(op, a, b) => {
                let (a, b) = (self.extent(cx, a), self.extent(cx, b));
                let op = match op {
                    BinOp::Add => TypeOp::Add,
                    BinOp::Sub => TypeOp::Sub,
                    BinOp::Mul => TypeOp::Mul,
                    BinOp::FloorDiv | BinOp::Div => TypeOp::FloorDiv,
                    BinOp::FloorMod | BinOp::Rem => TypeOp::Mod,
                    BinOp::Min | BinOp::Max => {
                        let name = if *op == BinOp::Min { "min" } else { "max" };
                        let head = self.out.type_name(name.into(), NO);
                        let args = self.out.make_list([a, b]);
                        return self.out.ty(TypeExprKind::Call { head, args }, NO);
                    }
                    _ => return self.out.ty(TypeExprKind::Any, NO),
                };
                let (lhs, rhs) = (
                    self.type_operand(a, op, false),
                    self.type_operand(b, op, true),
                );
                TypeExprKind::Binary { op, lhs, rhs }
            }
            // An element computed by an earlier stage, which has no name in the text.
            _ => TypeExprKind::Any,
        };
        self.out.ty(kind, NO)
    }

    fn type_operand(&mut self, id: ast::TypeId, around: TypeOp, right: bool) -> ast::TypeId {
        let TypeExprKind::Binary { op, .. } = self.out.types[id].kind else {
            return id;
        };
        let (inner, outer) = (op.precedence(), around.precedence());
        if inner > outer || (inner == outer && !right) {
            return id;
        }
        let items = self.out.make_list([id]);
        self.out.ty(
            TypeExprKind::Tuple {
                items,
                comma: false,
            },
            NO,
        )
    }

    fn program_block(&mut self, cx: &mut ProgramNames<'_>, body: &[Stmt]) -> ast::ExprId {
        let mut stmts = Vec::new();
        self.program_stmts(cx, body, &mut stmts);
        self.out.block(stmts, None, NO)
    }

    /// Prints statements. The recursion follows loop nests, which own their parts and so are
    /// bounded.
    fn program_stmts(
        &mut self,
        cx: &mut ProgramNames<'_>,
        body: &[Stmt],
        out: &mut Vec<ast::StmtId>,
    ) {
        for stmt in body {
            let kind = self.program_stmt(cx, stmt);
            out.push(self.out.stmt(kind, NO));
        }
    }

    fn program_stmt(&mut self, cx: &mut ProgramNames<'_>, stmt: &Stmt) -> StmtKind {
        match stmt {
            Stmt::For { .. } => self.program_loops(cx, stmt),
            Stmt::While { cond, body } => {
                let cond = self.scalar_ex(cx, cond, Place::BESIDE);
                let body = self.program_block(cx, body);
                StmtKind::While { cond, body }
            }
            Stmt::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.scalar_ex(cx, cond, Place::BESIDE);
                let then = self.program_block(cx, then);
                let otherwise = if otherwise.is_empty() {
                    None
                } else {
                    Some(self.program_block(cx, otherwise))
                };
                let kind = ExprKind::If {
                    cond,
                    then,
                    otherwise,
                };
                StmtKind::Expr(self.out.expr(kind, NO))
            }
            Stmt::Store { buf, index, value } => {
                let target = self.element(cx, *buf, index);
                let value = self.scalar_ex(cx, value, Place::BESIDE);
                let op = StoreOp::Set;
                StmtKind::Store { target, op, value }
            }
            Stmt::Let { var, value } => {
                let dtype = cx.program.vars[*var].dtype;
                let value = self.scalar_ex(cx, value, Place::BESIDE);
                let ty = self.dtype(dtype.into());
                let name = cx.var(*var);
                let binder = self.out.binder(name, Some(ty), NO);
                StmtKind::Bind { binder, value }
            }
            Stmt::Alloc { buf } => StmtKind::Alloc(self.buffer_binder(cx, *buf)),
            Stmt::Init { over: _, body } => StmtKind::Init(self.program_block(cx, body)),
            Stmt::Assert {
                cond,
                message,
                values,
                part: _,
            } => {
                let cond = self.scalar_ex(cx, cond, Place::BESIDE);
                let message = self.out.expr(ExprKind::Str(Symbol::new(message)), NO);
                let mut args = vec![cond, message];
                for v in values {
                    args.push(self.scalar_ex(cx, v, Place::ALONE));
                }
                let callee = self.name("assert");
                StmtKind::Expr(self.out.call(callee, args, NO))
            }
        }
    }

    /// Prints a loop, merged with directly nested loops as long as one header can express them:
    /// extents must not depend on the header's own variables, and only the first loop (`parallel`)
    /// or the last may carry an annotation.
    fn program_loops(&mut self, cx: &mut ProgramNames<'_>, stmt: &Stmt) -> StmtKind {
        let (mut chain, mut vars, mut kind) = (Vec::new(), Vec::new(), ForKind::Serial);
        let mut rest: &[Stmt] = std::slice::from_ref(stmt);
        while let [
            Stmt::For {
                var,
                extent,
                mark,
                body,
            },
        ] = rest
        {
            let mut free = true;
            relax_loops::visit_expr(extent, |e| {
                free &= !matches!(e.kind(), ExKind::Var(v) if vars.contains(v));
            });
            let first = chain.is_empty();
            let ended = matches!(kind, ForKind::Vectorize(_) | ForKind::Unroll);
            let fits = match mark {
                Mark::Serial => true,
                Mark::Parallel => first,
                Mark::Vectorize(_) | Mark::Unroll => kind == ForKind::Serial,
            };
            if !first && (!free || ended || !fits) {
                break;
            }
            kind = match mark {
                Mark::Serial => kind,
                Mark::Parallel => ForKind::Parallel,
                Mark::Vectorize(w) => ForKind::Vectorize(*w),
                Mark::Unroll => ForKind::Unroll,
            };
            vars.push(*var);
            chain.push((*var, extent));
            rest = body;
        }
        let mut loops = Vec::new();
        for (var, extent) in chain {
            // The parentheses of `grid(…)` count as brackets of extents.
            let extent = self.scalar_ex(cx, extent, Place::INDEX);
            let name = cx.var(var);
            let binder = self.out.binder(name, None, NO);
            loops.push(self.out.loops.push(ast::Loop { binder, extent }));
        }
        let loops = self.out.make_list(loops);
        let body = self.program_block(cx, rest);
        StmtKind::For { kind, loops, body }
    }

    fn element(&mut self, cx: &mut ProgramNames<'_>, buf: Buf, index: &[Ex]) -> ast::ExprId {
        let base = self.out.expr(ExprKind::Local(cx.buf(buf)), NO);
        if index.is_empty() {
            return base;
        }
        let indices = index.iter().map(|e| self.scalar_ex(cx, e, Place::INDEX));
        let indices: Vec<_> = indices.collect();
        let indices = self.out.make_list(indices);
        self.out.expr(ExprKind::Index { base, indices }, NO)
    }

    /// Prints a scalar expression, with a worklist.
    pub(super) fn scalar_ex(
        &mut self,
        cx: &mut ProgramNames<'_>,
        root: &Ex,
        place: Place,
    ) -> ast::ExprId {
        let mut stack = vec![(root, place, false)];
        let mut results: Vec<ast::ExprId> = Vec::new();
        while let Some((e, place, expanded)) = stack.pop() {
            let children = e.children();
            if !expanded && !children.is_empty() {
                stack.push((e, place, true));
                let inner = inner_places(e, place);
                let parts = children.into_iter().zip(inner);
                stack.extend(parts.rev().map(|(c, p)| (c, p, false)));
                continue;
            }
            let parts = results.split_off(results.len() - children.len());
            let node = self.scalar_node(cx, e, place, parts);
            results.push(node);
        }
        results.pop().expect("one result for the root")
    }

    fn scalar_node(
        &mut self,
        cx: &mut ProgramNames<'_>,
        e: &Ex,
        place: Place,
        parts: Vec<ast::ExprId>,
    ) -> ast::ExprId {
        let dtype = e.dtype();
        let call = |this: &mut Self, name: &str, parts: Vec<ast::ExprId>| {
            let callee = this.name(name);
            this.out.call(callee, parts, NO)
        };
        let kind = match e.kind() {
            ExKind::Int(_) | ExKind::Float(_) if dtype.as_param().is_some() => {
                let suffix = NumSuffix::None;
                let number = match *e.kind() {
                    ExKind::Float(value) => ExprKind::Float { value, suffix },
                    _ => ExprKind::Int {
                        value: e.as_int().unwrap_or(0),
                        suffix,
                    },
                };
                if place.number == Number::Beside {
                    number
                } else {
                    let number = self.out.expr(number, NO);
                    return call(self, cx.element(dtype).as_str(), vec![number]);
                }
            }
            ExKind::Int(v) if dtype.is_bool() => ExprKind::Bool(*v != 0),
            ExKind::Int(value) => {
                let typed = matches!(place.number, Number::Index | Number::Beside);
                let suffix = match suffix(dtype) {
                    Some(_) if typed && dtype == DType::I64 => NumSuffix::None,
                    Some(suffix) => suffix,
                    // The type has no literals: a conversion of one is printed.
                    None => {
                        let (value, suffix) = (*value, NumSuffix::None);
                        let number = self.out.expr(ExprKind::Int { value, suffix }, NO);
                        return call(self, &dtype.to_string(), vec![number]);
                    }
                };
                let value = *value;
                ExprKind::Int { value, suffix }
            }
            ExKind::Float(value) => ExprKind::Float {
                value: *value,
                suffix: suffix(dtype).unwrap_or(NumSuffix::F),
            },
            ExKind::Var(v) => {
                let name = cx.var(*v);
                if cx.bare.contains(v) {
                    ExprKind::Name(name)
                } else {
                    ExprKind::Local(name)
                }
            }
            ExKind::Load(buf, _) => {
                if let Some(&value) = cx.folded.get(buf) {
                    return value;
                }
                let base = self.out.expr(ExprKind::Local(cx.buf(*buf)), NO);
                if parts.is_empty() {
                    return base;
                }
                let indices = self.out.make_list(parts);
                ExprKind::Index { base, indices }
            }
            ExKind::Unary(op, _) => {
                return call(self, op.name(), parts);
            }
            ExKind::Binary(op, a, _) => {
                let infix = match infix(*op, a.dtype()) {
                    Some(ast::BinOp::FloorDiv) if !(place.bracket && self.divisor(parts[1])) => {
                        None
                    }
                    infix => infix,
                };
                if let Some(op) = infix {
                    return self.scalar_binary(op, parts[0], parts[1]);
                }
                return call(self, op.call().unwrap_or("unknown"), parts);
            }
            ExKind::Select(..) => return call(self, SELECT, parts),
            ExKind::Cast(_) => return call(self, cx.element(dtype).as_str(), parts),
            ExKind::Reinterpret(_) => return call(self, &format!("{REINTERPRET}{dtype}"), parts),
        };
        self.out.expr(kind, NO)
    }

    fn scalar_binary(&mut self, op: ast::BinOp, lhs: ast::ExprId, rhs: ast::ExprId) -> ast::ExprId {
        let lhs = self.scalar_operand(lhs, op, false);
        let rhs = self.scalar_operand(rhs, op, true);
        self.out.expr(ExprKind::Binary { op, lhs, rhs }, NO)
    }

    /// Returns whether an expression may follow `//` such that the parser takes it as a divisor: it
    /// only looks ahead to a number or a name.
    fn divisor(&self, id: ast::ExprId) -> bool {
        match self.out.exprs[id].kind {
            ExprKind::Int { value, .. } => value >= 0,
            ExprKind::Local(_) | ExprKind::Name(_) => true,
            _ => false,
        }
    }

    fn scalar_operand(&mut self, id: ast::ExprId, around: ast::BinOp, right: bool) -> ast::ExprId {
        let ExprKind::Binary { op, .. } = self.out.exprs[id].kind else {
            return id;
        };
        let (inner, outer) = (op.precedence(), around.precedence());
        if inner > outer || (inner == outer && !right) {
            return id;
        }
        self.out.expr(ExprKind::Paren(id, 1), NO)
    }
}

/// Returns the contexts of an expression's operands.
fn inner_places(e: &Ex, place: Place) -> Vec<Place> {
    let constant = |e: &Ex| matches!(e.kind(), ExKind::Int(_) | ExKind::Float(_));
    // A number takes the type of the other operand, unless that is a number too.
    let beside = |other: &Ex, bracket| Place {
        number: match constant(other) {
            true => Number::Alone,
            false => Number::Beside,
        },
        bracket,
    };
    match e.kind() {
        ExKind::Load(_, index) => vec![Place::INDEX; index.len()],
        ExKind::Binary(op, a, b) => {
            // A divisor may only be followed by arithmetic, a comma or the closing bracket.
            let logical = op.is_comparison() || matches!(op, BinOp::And | BinOp::Or);
            let bracket = place.bracket && !logical;
            vec![beside(b, bracket), beside(a, bracket)]
        }
        ExKind::Select(_, a, b) => vec![
            Place::ALONE,
            beside(b, place.bracket),
            beside(a, place.bracket),
        ],
        _ => vec![
            Place {
                number: Number::Alone,
                ..place
            };
            e.children().len()
        ],
    }
}

/// Returns the infix operator of an operation, if it has one.
fn infix(op: BinOp, dtype: DType) -> Option<ast::BinOp> {
    let logical = op.is_comparison() || matches!(op, BinOp::And | BinOp::Or);
    if dtype.is_bool() && !logical {
        return None;
    }
    if matches!(op, BinOp::And | BinOp::Or) && !dtype.is_bool() {
        return None;
    }
    INFIX.iter().find(|i| i.1 == op).map(|i| i.0)
}

/// Returns the suffix that gives a number this type, if there is one.
fn suffix(dtype: DType) -> Option<NumSuffix> {
    Some(match (dtype.code, dtype.bits) {
        _ if dtype.lanes != 1 => return None,
        (TypeCode::Int, 8 | 16 | 32 | 64) => NumSuffix::I(dtype.bits),
        (TypeCode::UInt | TypeCode::Handle, 8 | 16 | 32 | 64) => NumSuffix::U(dtype.bits),
        (TypeCode::Int | TypeCode::UInt | TypeCode::Handle | TypeCode::Param, _) => return None,
        (TypeCode::Float, 32) => NumSuffix::F,
        (TypeCode::Float, _) => NumSuffix::Float(dtype.bits),
        (TypeCode::BFloat, _) => NumSuffix::Bf16,
    })
}
