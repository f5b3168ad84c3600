//! Statements of TensorIR.

use relax_base::Symbol;
use relax_loops::{BinOp, Ex, ExKind, Mark, Role, Stmt, VarInfo};
use relax_tensor::DType;

use super::scalar::{self, Sc};
use super::value::Tv;
use super::{Lower, Named, Out};
use crate::ast::{self, Node, NodeId, StmtKind};

/// The maximum nesting depth of blocks: loop nests own their parts, and traversing them recurses.
const DEEPEST: usize = 200;

impl<'s> Lower<'_, 's> {
    /// Reads the statements from `at` to `end`. Recursion is bounded by [`DEEPEST`].
    pub(super) fn block(&mut self, mut at: u32, end: u32, depth: usize) -> Out<Vec<Stmt>> {
        if depth > DEEPEST {
            return Err("blocks that nest so deeply");
        }
        let mark = self.hidden.len();
        let mut out = Vec::new();
        while at < end {
            let stmt = self.ast.stmts[at as usize];
            self.values(stmt.nodes.0, stmt.nodes.1)?;
            let next = stmt.end;
            match stmt.kind {
                StmtKind::Pass => {}
                StmtKind::Expr(e) => match self.take(e) {
                    Tv::Nothing | Tv::Text(..) => {}
                    Tv::Where(cond) => {
                        let then = self.block(next, end, depth + 1)?;
                        let otherwise = Vec::new();
                        out.push(Stmt::If {
                            cond,
                            then,
                            otherwise,
                        });
                        break;
                    }
                    _ => return Err("a statement for its effect"),
                },
                StmtKind::Assign(target, value) => {
                    self.assignment(target, value, depth, &mut out)?;
                }
                StmtKind::Annotated(target, _, Some(value)) => {
                    let value = self.number(value)?;
                    self.named(target, value, &mut out)?;
                }
                StmtKind::Assert(test, message) => self.assertion(test, message, &mut out)?,
                StmtKind::For(target, loops) => {
                    let body = (at + 1, next);
                    let stmt = self.loops(target, loops, body, depth)?;
                    out.extend(stmt);
                }
                StmtKind::While(test) => {
                    let cond = self.number(test)?.condition();
                    let body = self.block(at + 1, next, depth + 1)?;
                    out.push(Stmt::While { cond, body });
                }
                StmtKind::With(items) => {
                    let items = self.ast.list(items).to_vec();
                    let mut inner = self.with(&items, (at + 1, next), depth)?;
                    out.append(&mut inner);
                }
                StmtKind::If(test) => {
                    let cond = self.number(test)?.condition();
                    let then = self.block(at + 1, next, depth + 1)?;
                    let other = self.ast.stmts.get(next as usize).copied();
                    let otherwise = match other {
                        Some(o) if next < end && o.kind == StmtKind::Else => {
                            at = o.end;
                            self.block(next + 1, o.end, depth + 1)?
                        }
                        _ => Vec::new(),
                    };
                    out.push(Stmt::If {
                        cond,
                        then,
                        otherwise,
                    });
                    at = at.max(next);
                    continue;
                }
                _ => return Err("a statement that loops have not got"),
            }
            at = next;
        }
        self.leave(mark);
        Ok(out)
    }

    /// Binds a name to a scalar, for the rest of the block.
    fn named(&mut self, target: NodeId, value: Sc, out: &mut Vec<Stmt>) -> Out<()> {
        if self.ast.node(target) != Node::Name {
            return Err("an assignment to more than a name");
        }
        let name = self.node_text(target);
        let dtype = value.ex.dtype();
        let var = self.program.vars.push(VarInfo {
            name: Symbol::new(name),
            dtype,
        });
        out.push(Stmt::Let {
            var,
            value: value.ex,
        });
        let ex = Ex::var(var, dtype);
        self.bind(name, Named::Number(Sc { ex, ty: value.ty }));
        Ok(())
    }

    fn assignment(
        &mut self,
        target: NodeId,
        value: NodeId,
        depth: usize,
        out: &mut Vec<Stmt>,
    ) -> Out<()> {
        let name = self.node_text(target);
        let plain = self.ast.node(target) == Node::Name;
        match (self.take(value), self.ast.node(target)) {
            (Tv::Number(value), Node::Index(..)) => self.store(target, value, out),
            (Tv::Number(value), _) => self.named(target, value, out),
            (Tv::Axes(axes), Node::Name | Node::Tuple(_) | Node::List(_)) => {
                let names = match self.ast.node(target) {
                    Node::Tuple(list) | Node::List(list) => self.ast.list(list).to_vec(),
                    _ => vec![target],
                };
                if names.len() != axes.len() {
                    return Err("axes of another form");
                }
                for (id, (value, reduced)) in names.into_iter().zip(axes) {
                    if let (true, Some(list)) = (reduced, self.reduced.last_mut()) {
                        list.push(value.clone());
                    }
                    let name = self.node_text(id);
                    self.bind(name, Named::Number(value));
                }
                Ok(())
            }
            (Tv::Symbol(dtype), Node::Name) => self.new_symbol(name, dtype),
            (Tv::List(all), Node::Tuple(list)) if all.len() == list.len as usize => {
                let names = self.ast.list(list).to_vec();
                for (id, value) in names.into_iter().zip(all) {
                    let Tv::Symbol(dtype) = value else {
                        return Err("an assignment that loops have not got");
                    };
                    self.new_symbol(self.node_text(id), dtype)?;
                }
                Ok(())
            }
            (Tv::Alloc(form), _) if plain => {
                let role = if depth == 0 { Role::Temp } else { Role::Local };
                let buf = self.declare(name, form, role)?;
                if role == Role::Local {
                    out.push(Stmt::Alloc { buf });
                }
                Ok(())
            }
            (Tv::Match(param, form), _) if plain && self.params[param].is_none() => {
                let buf = self.declare(name, form, Role::Input)?;
                self.params[param] = Some(buf);
                Ok(())
            }
            _ => Err("an assignment that loops have not got"),
        }
    }

    /// Reads `n = T.int64()`; the signature may have mentioned the name in a string.
    fn new_symbol(&mut self, name: &'s str, dtype: DType) -> Out<()> {
        if !matches!(dtype, DType::I64 | DType::I32) {
            return Err("a symbol that is no integer");
        }
        if !self.names.contains_key(name) {
            self.symbol(name, dtype);
        }
        Ok(())
    }

    /// Reads `A[i, j] = value`.
    fn store(&mut self, target: NodeId, value: Sc, out: &mut Vec<Stmt>) -> Out<()> {
        let Tv::Number(place) = self.take(target) else {
            return Err("a store to a part of a buffer");
        };
        let ExKind::Load(buf, index) = place.ex.kind() else {
            return Err("a store to what is no buffer");
        };
        let dtype = self.program.bufs[*buf].dtype;
        let value = value.cast(dtype).real();
        out.push(Stmt::Store {
            buf: *buf,
            index: index.clone(),
            value,
        });
        Ok(())
    }

    fn assertion(&mut self, test: NodeId, message: Option<NodeId>, out: &mut Vec<Stmt>) -> Out<()> {
        let cond = self.number(test)?.condition();
        let message = match message.map(|m| self.take(m)) {
            Some(Tv::Text(text, _)) => text.replace("{}", "{ }"),
            None => "a condition does not hold".to_owned(),
            _ => return Err("an assertion of another form"),
        };
        let part = self.program.parts.len() as u32;
        self.program.parts.push(self.ast.span(test));
        out.push(Stmt::Assert {
            cond,
            message,
            values: Vec::new(),
            part,
        });
        Ok(())
    }

    fn loops(
        &mut self,
        target: NodeId,
        loops: NodeId,
        body: (u32, u32),
        depth: usize,
    ) -> Out<Vec<Stmt>> {
        let Tv::Loops(kind, ranges) = self.take(loops) else {
            return Err("a loop over what is no range");
        };
        let names = match self.ast.node(target) {
            Node::Name => vec![target],
            Node::Tuple(list) => self.ast.list(list).to_vec(),
            _ => return Err("a loop without a name"),
        };
        if names.len() != ranges.len() || depth + names.len() > DEEPEST {
            return Err("a loop with other names than ranges");
        }
        let mark = self.hidden.len();
        let mut heads = Vec::with_capacity(names.len());
        for (id, (start, extent)) in names.into_iter().zip(ranges) {
            let name = self.node_text(id);
            let (var, ex) = self.program.fresh(name, DType::I64);
            heads.push((var, extent.index()?));
            let own = Sc { ex, ty: extent.ty };
            let value = match start {
                None => own,
                Some(start) => scalar::binary(BinOp::Add, &own, &start)?,
            };
            self.bind(name, Named::Number(value));
        }
        let inner = depth + heads.len();
        let mut stmts = self.block(body.0, body.1, inner)?;
        self.leave(mark);
        for (i, (var, extent)) in heads.into_iter().enumerate().rev() {
            let mark = if i == 0 { kind } else { Mark::Serial };
            stmts = vec![Stmt::For {
                var,
                extent,
                mark,
                body: stmts,
            }];
        }
        Ok(stmts)
    }

    /// Reads `with T.sblock("name"):` and `with T.init():`.
    fn with(&mut self, items: &[NodeId], body: (u32, u32), depth: usize) -> Out<Vec<Stmt>> {
        let [item] = items else {
            return Err("a block of another form");
        };
        match self.take(*item) {
            Tv::Block => {
                self.reduced.push(Vec::new());
                // The outermost block is the program itself.
                let root = depth == 0 && !self.has_axes(body);
                let inner = self.block(body.0, body.1, if root { 0 } else { depth + 1 });
                self.reduced.pop();
                inner
            }
            Tv::Init => {
                let over = self.reduced.last().cloned().unwrap_or_default();
                let body = self.block(body.0, body.1, depth + 1)?;
                Ok(start(&over, body)?)
            }
            _ => Err("a block of another form"),
        }
    }

    fn has_axes(&self, body: (u32, u32)) -> bool {
        let first = self.ast.stmts.get(body.0 as usize);
        first.is_some_and(|s: &ast::Stmt| match s.kind {
            StmtKind::Assign(_, value) => self.node_text(value).starts_with("T.axis."),
            _ => false,
        })
    }
}

/// Reads the initialisation of a reduction over some axes.
fn start(over: &[Sc], body: Vec<Stmt>) -> Out<Vec<Stmt>> {
    let (mut loops, mut cond): (_, Option<Ex>) = (Vec::new(), None);
    for value in over {
        let index = value.index()?;
        match Lower::plain(&index) {
            Some(var) => loops.push(var),
            None if index.as_int().is_some() => {}
            None => {
                let other = index.eq(0i64);
                cond = Some(match cond {
                    None => other,
                    Some(c) => c & other,
                });
            }
        }
    }
    let body = match cond {
        None => body,
        Some(cond) => vec![Stmt::If {
            cond,
            then: body,
            otherwise: Vec::new(),
        }],
    };
    if loops.is_empty() {
        return Ok(body);
    }
    Ok(vec![Stmt::Init { over: loops, body }])
}
