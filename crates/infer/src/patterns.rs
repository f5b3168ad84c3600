//! Patterns: their scrutinees, and the types of their variables.

use relax_base::{Diagnostic, Id, Span};
use relax_ir::{ExprId, PatId, Pattern, Type, TypeId};

use crate::codes;
use crate::solver::{Solver, UNTYPED};
use crate::unknown::Site;

impl Solver<'_> {
    /// Binds the variables of a pattern to types derived from its scrutinee's.
    pub fn bind_pattern(&mut self, of: ExprId, pat: PatId, ty: TypeId) {
        let m = self.m;
        let mut work = vec![(pat, ty)];
        while let Some((pat, ty)) = work.pop() {
            let ty = self.head(ty);
            let error = self.error;
            match &m.patterns[pat] {
                Pattern::Ctor(_, parts) | Pattern::Tuple(parts) if self.is_damaged(pat) => {
                    self.excuse(ty);
                    self.bad_matches.insert(of);
                    work.extend(parts.iter().rev().map(|&p| (p, error)));
                }
                Pattern::Wildcard if self.is_damaged(pat) => {
                    self.excuse(ty);
                    self.bad_matches.insert(of);
                }
                Pattern::Wildcard => {}
                Pattern::Var(v) => {
                    self.moved = true;
                    if m.vars[*v].ty.is_none() && self.var_ty[v.index()] == UNTYPED {
                        self.set_var(*v, ty);
                    } else {
                        let want = self.declare_var(*v);
                        self.site = Site::Pattern { pat, of };
                        if let Err(clash) = self.unify(ty, want) {
                            self.report_clash(ty, want, &clash);
                        }
                    }
                }
                Pattern::Ctor(c, parts) => {
                    let ctor = self.constructor_type(*c);
                    let ctor = self.instantiate_func(ctor, &[]).map_or(ctor, |i| i.ty);
                    let Type::Func(f) = self.types[ctor].clone() else {
                        continue;
                    };
                    self.site = Site::Pattern { pat, of };
                    let ok = match self.unify(ty, f.ret) {
                        Ok(()) => true,
                        Err(clash) => {
                            self.report_clash(ty, f.ret, &clash);
                            self.bad_matches.insert(of);
                            false
                        }
                    };
                    if parts.len() != f.args.len() {
                        let (name, n) = (m.ctors[*c].name, f.args.len());
                        let d = Diagnostic::error(
                            codes::PATTERN_TYPE,
                            self.pattern_place(pat, of),
                            format!("`{name}` has {n} fields, and the pattern {}", parts.len()),
                        );
                        self.report(d);
                    }
                    for (i, &p) in parts.iter().enumerate().rev() {
                        let field = f.args.get(i).copied().filter(|_| ok);
                        work.push((p, field.unwrap_or(error)));
                    }
                }
                Pattern::Tuple(parts) => {
                    let fields: Vec<TypeId> = match &self.types[ty] {
                        Type::Tuple(fields) if fields.len() == parts.len() => fields.to_vec(),
                        _ => {
                            let fields: Vec<TypeId> = parts.iter().map(|_| self.fresh()).collect();
                            let want = self.types.tuple(fields.clone());
                            self.site = Site::Pattern { pat, of };
                            match self.unify(ty, want) {
                                Ok(()) => fields,
                                Err(clash) => {
                                    self.report_clash(ty, want, &clash);
                                    self.bad_matches.insert(of);
                                    vec![self.error; parts.len()]
                                }
                            }
                        }
                    };
                    for (&p, t) in parts.iter().zip(fields).rev() {
                        work.push((p, t));
                    }
                }
            }
        }
    }

    /// Returns whether a pattern, or its constructor's data type, comes from erroneous text.
    fn is_damaged(&self, pat: PatId) -> bool {
        let damage = &self.m.damage;
        match self.m.patterns[pat] {
            Pattern::Ctor(c, _) => {
                damage.patterns.contains(&pat) || damage.adts.contains(&self.m.ctors[c].adt)
            }
            _ => damage.patterns.contains(&pat),
        }
    }

    /// Returns the location of a pattern: that of its first variable, or of the match.
    pub fn pattern_place(&self, pat: PatId, of: ExprId) -> Span {
        let mut work = vec![pat];
        let own = self.m.pattern_spans[pat];
        if !own.is_none() {
            return own;
        }
        while let Some(p) = work.pop() {
            match &self.m.patterns[p] {
                Pattern::Var(v) => return self.m.vars[*v].span,
                Pattern::Wildcard => {}
                Pattern::Ctor(_, parts) | Pattern::Tuple(parts) => work.extend(parts.iter().rev()),
            }
        }
        self.place(of)
    }
}
