//! `match`: compares constructors' numbers and extracts fields.

use std::sync::Arc;

use relax_base::Span;
use relax_ir::{Attrs, Clause, CtorId, Expr, PatId, Pattern, Type, TypeId, TypeSubst, VarId};
use relax_tensor::{DType, Tensor};

use super::Lowering;
use super::chain::{Given, State};
use super::lift::Code;

/// A `match` being converted.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    /// The variable that holds the scrutinee.
    pub value: VarId,
    pub clauses: Arc<[Clause]>,
    /// The current clause.
    pub at: usize,
    pub complete: bool,
    /// The type of the result in Relay.
    pub ty: TypeId,
}

/// The continuation of a step.
pub(super) enum Next {
    Code(Code),
    Given(Given),
}

impl Lowering<'_> {
    /// Processes the remaining tests of a clause's pattern, up to the first one that may fail.
    pub(super) fn clause(
        &mut self,
        st: &mut State,
        mut todo: Vec<(VarId, PatId)>,
        matched: Matched,
        mut tested: bool,
    ) -> Next {
        let last = matched.at + 1 == matched.clauses.len();
        while let Some((var, pattern)) = todo.pop() {
            match self.m.patterns[pattern].clone() {
                Pattern::Wildcard => {}
                Pattern::Var(v) => {
                    let value = self.var_value(st, var);
                    let ty = self.rep_of(st, v);
                    st.scope.insert(v, (value, ty));
                }
                Pattern::Tuple(parts) => {
                    let ty = self.var_type(var);
                    let fields = match &self.m.types[ty] {
                        Type::Tuple(fields) => fields.to_vec(),
                        _ => vec![self.any; parts.len()],
                    };
                    let tuple = self.var_value(st, var);
                    self.fields(st, tuple, &fields, &parts, &mut todo);
                }
                Pattern::Ctor(ctor, parts) => {
                    let adt = self.m.ctors[ctor].adt;
                    let one = self.m.adts[adt].ctors.len() < 2;
                    if !(one || tested || last && matched.complete) {
                        todo.push((var, pattern));
                        return Next::Given(self.test(st, ctor, todo, matched));
                    }
                    tested = false;
                    let types = self.field_types(ctor, var);
                    if parts
                        .iter()
                        .all(|&p| matches!(self.m.patterns[p], Pattern::Wildcard))
                    {
                        continue;
                    }
                    let reps: Vec<TypeId> = types.iter().map(|&t| self.here(st, t)).collect();
                    let ty = self.m.types.tuple(reps);
                    let tuple = self.var_value(st, var);
                    let payload = self.m.add(Expr::Proj { tuple, index: 1 }, Span::NONE);
                    let payload = self.bound(st, "payload", payload, self.any);
                    let cast = self
                        .m
                        .add(Expr::MatchCast { value: payload, ty }, Span::NONE);
                    let cast = self.bound(st, "fields", cast, ty);
                    self.fields(st, cast, &types, &parts, &mut todo);
                }
            }
        }
        Next::Code(Code::Body(matched.clauses[matched.at].body))
    }

    /// Pushes the remaining tests of a tuple's fields, the first on top.
    fn fields(
        &mut self,
        st: &mut State,
        tuple: relax_ir::ExprId,
        types: &[TypeId],
        parts: &[PatId],
        todo: &mut Vec<(VarId, PatId)>,
    ) {
        let mut own = Vec::new();
        for (i, (&pattern, &ty)) in parts.iter().zip(types).enumerate() {
            let name = match self.m.patterns[pattern] {
                Pattern::Wildcard => continue,
                Pattern::Var(v) => self.m.vars[v].name,
                _ => "field".into(),
            };
            let index = i as u32;
            let field = self.m.add(Expr::Proj { tuple, index }, Span::NONE);
            let rep = self.here(st, ty);
            let field = self.bound(st, name.as_str(), field, rep);
            let var = self.part(name.as_str(), ty);
            st.scope.insert(var, (field, rep));
            own.push((var, pattern));
        }
        todo.extend(own.into_iter().rev());
    }

    /// Returns the types of a constructor's fields in an instance.
    fn field_types(&mut self, ctor: CtorId, var: VarId) -> Vec<TypeId> {
        let ctor = self.m.ctors[ctor].clone();
        let ty = self.var_type(var);
        let mut subst = TypeSubst::new();
        if let Type::Adt(adt, args) = self.m.types[ty].clone() {
            for (&param, &arg) in self.m.adts[adt].params.iter().zip(&args) {
                subst.types.insert(param, arg);
            }
        }
        ctor.fields
            .iter()
            .map(|&f| subst.ty(&mut self.m.types, f))
            .collect()
    }

    /// Branches on the constructor's number.
    fn test(
        &mut self,
        st: &mut State,
        ctor: CtorId,
        todo: Vec<(VarId, PatId)>,
        matched: Matched,
    ) -> Given {
        let var = todo.last().map_or(matched.value, |t| t.0);
        let name = self.m.ctors[ctor].name;
        let tuple = self.var_value(st, var);
        let tag = self.m.add(Expr::Proj { tuple, index: 0 }, Span::NONE);
        let number = self.m.types.scalar(DType::I32);
        let tag = self.bound(st, "tag", tag, number);
        let wanted = Tensor::scalar_i64(DType::I32, i64::from(self.m.ctors[ctor].tag));
        let wanted = self.m.constant(wanted, Span::NONE);
        let cond = self.operator("equal", &[tag, wanted], Attrs::new());
        let truth = self.m.types.scalar(DType::BOOL);
        let cond = self.bound(st, "is", cond, truth);
        let ty = matched.ty;
        let rest = match matched.at + 1 {
            next if next < matched.clauses.len() => {
                let pattern = matched.clauses[next].pattern;
                let todo = vec![(matched.value, pattern)];
                let rest = Matched {
                    at: next,
                    ..matched.clone()
                };
                Some((todo, rest))
            }
            _ => None,
        };
        let code = Code::Clause(todo, matched, true);
        let Some((todo, rest)) = rest else {
            // There is no other case: a value that does not match aborts the program.
            let call = self.told("assert_op", &["condition"], &[cond], true);
            let unit = self.any;
            self.bound(st, "fits", call, unit);
            let value = self.apart(st, code, ty, name.as_str());
            let ty = self.here(st, ty);
            return Given::Value(value, ty);
        };
        let then = self.apart(st, code, ty, name.as_str());
        let key = (rest.value, rest.at);
        let known = match self.rest.get(&key) {
            Some(known) => known.clone(),
            None => {
                let name = format!("{}_rest", self.name);
                let known = self.lift(st, Code::Clause(todo, rest, false), &[], &[], ty, &name);
                self.rest.insert(key, known.clone());
                known
            }
        };
        let otherwise = self.call_known(st, &known, Vec::new(), Span::NONE);
        let choice = Expr::If {
            cond,
            then,
            otherwise,
        };
        let choice = self.m.add(choice, self.place);
        let ty = self.here(st, ty);
        Given::Value(self.bound(st, "choice", choice, ty), ty)
    }
}
