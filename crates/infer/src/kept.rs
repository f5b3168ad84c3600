//! What has to stay polymorphic where it meets another function: see [`Way`].

use std::cmp::Ordering;

use relax_base::Id;
use relax_ir::{AdtId, DTy, FuncType, Shape, Type, TypeId, TypeParamId};
use relax_sym::Atom;
use rustc_hash::FxHashSet;

use crate::solver::Solver;
use crate::subst::Subst;
use crate::unifier::Unifier;
use crate::unknown::{Clash, Detail};
use crate::way::{Kept, Way};

/// An unknown that nothing solved.
type Open = (u8, u32);

impl Unifier<'_> {
    /// Requires that nothing solves the unknowns of a polymorphic type.
    pub fn keep(&mut self, unknowns: Subst, found: TypeId, expected: TypeId) {
        self.kept.push(Kept {
            unknowns,
            clash: (found, expected),
            whole: (found, expected),
            site: self.site,
        });
    }

    /// Checks what the last unification, of these types, has to keep; `from` is the number of what
    /// was kept before.
    pub fn hold_kept(&mut self, from: usize, found: TypeId, expected: TypeId) -> Result<(), Clash> {
        for i in from..self.kept.len() {
            self.kept[i].whole = (found, expected);
            if !self.is_kept(i, None) {
                let (found, expected) = self.kept[i].clash;
                self.kept.truncate(from);
                return Err(Clash {
                    found,
                    expected,
                    detail: Detail::Form,
                });
            }
        }
        Ok(())
    }

    /// Returns whether all unknowns are open and distinct, or solved by parameters from `made` on,
    /// those of inference.
    fn is_kept(&mut self, i: usize, made: Option<TypeParamId>) -> bool {
        let unknowns = self.kept[i].unknowns.clone();
        let mut open: Vec<Open> = Vec::new();
        let new = |p: TypeParamId| made.is_some_and(|made| p >= made).then_some((1, p.0));
        for (_, t) in &unknowns.types {
            let t = self.find(*t);
            open.extend(match &self.types[t] {
                Type::Infer(v) => Some((0, v.0)),
                Type::Param(p) => match new(*p) {
                    Some(p) => Some(p),
                    None => return false,
                },
                // What is wrong was reported, or of any type.
                Type::Error | Type::Object => None,
                _ => return false,
            });
        }
        for (_, s) in &unknowns.shapes {
            open.extend(match self.resolve_shape(s) {
                Shape::Infer(v) => Some((2, v.0)),
                Shape::Param(p) => match new(p) {
                    Some(p) => Some(p),
                    None => return false,
                },
                Shape::Unknown => None,
                Shape::Dims(_) => return false,
            });
        }
        for (_, d) in &unknowns.dtypes {
            open.extend(match self.head_dtype(*d) {
                DTy::Infer(v) => Some((3, v.0)),
                DTy::Param(p) => match new(p) {
                    Some(p) => Some(p),
                    None => return false,
                },
                DTy::Unknown => None,
                DTy::Known(_) => return false,
            });
        }
        for (_, d) in &unknowns.dims {
            let d = self.resolve_dim(d);
            match d.as_atom() {
                Some(Atom::Infer(v)) => open.push((4, v.0)),
                Some(Atom::Var(v)) if made.is_some() && v.index() >= self.m.dims.len() => {
                    open.push((5, v.0));
                }
                _ if d.is_any() => {}
                _ => return false,
            }
        }
        let mut seen = FxHashSet::default();
        open.into_iter().all(|o| seen.insert(o))
    }

    /// The way between the arguments of a data type: of its own where its fields only hold values,
    /// both where they hold functions or cells, which may take them.
    pub fn of_fields(&mut self, way: Way, adt: AdtId) -> Way {
        if way == Way::Both {
            return way;
        }
        if let Some(&takes) = self.takes.get(&adt) {
            return if takes { Way::Both } else { way };
        }
        let (mut adts, mut seen) = (vec![adt], FxHashSet::default());
        let mut takes = false;
        while let Some(adt) = adts.pop() {
            if !seen.insert(adt) {
                continue;
            }
            let ctors = &self.m.adts[adt].ctors;
            let fields = ctors.iter().flat_map(|&c| &self.m.ctors[c].fields);
            let (mut types, mut met): (Vec<TypeId>, FxHashSet<TypeId>) =
                (fields.copied().collect(), FxHashSet::default());
            while let Some(ty) = types.pop() {
                if !met.insert(ty) {
                    continue;
                }
                match &self.types[ty] {
                    Type::Func(_) | Type::Ref(_) => takes = true,
                    Type::Adt(other, _) => adts.push(*other),
                    _ => {}
                }
                types.extend(self.types.children(ty));
            }
        }
        self.takes.insert(adt, takes);
        if takes { Way::Both } else { way }
    }

    /// Returns the function type with fewer parameters, if two that are joined have more and less:
    /// both functions allow its uses.
    pub fn less_general(&self, a: TypeId, b: TypeId) -> Option<TypeId> {
        let binders = |f: &FuncType| f.params.len() + f.dims.len();
        match (&self.types[a], &self.types[b]) {
            (Type::Func(x), Type::Func(y)) => match binders(x).cmp(&binders(y)) {
                Ordering::Less => Some(a),
                Ordering::Equal => None,
                Ordering::Greater => Some(b),
            },
            _ => None,
        }
    }
}

impl Solver<'_> {
    /// Reports polymorphic types for which functions stood that turned out to have one type.
    pub fn report_kept(&mut self) {
        let made = Some(self.first_made);
        for i in 0..self.kept.len() {
            if !self.is_kept(i, made) {
                let Kept {
                    clash, whole, site, ..
                } = self.kept[i];
                self.site = site;
                let clash = Clash {
                    found: clash.0,
                    expected: clash.1,
                    detail: Detail::Form,
                };
                self.report_clash(whole.0, whole.1, &clash);
            }
        }
        self.kept.clear();
    }
}
