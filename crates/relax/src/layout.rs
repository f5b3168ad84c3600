//! Parameters that are lists and options: how many tensors they are made of, the arrays say.

use relax_ir::{AdtId, CtorId, Module, Type, TypeId};
use relax_tensor::Tensor;

use crate::param::Param;

/// A type whose values are so many of another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sort {
    /// Any number, as `List` has.
    List,
    /// One or none, as `Option` has.
    Option,
}

/// A list or an option.
#[derive(Clone, Copy, Debug)]
pub struct Several {
    /// Which of them.
    pub sort: Sort,
    /// The type of what it holds.
    pub of: TypeId,
    /// The constructor of an element, or of what is there.
    some: CtorId,
    /// The constructor of the end, or of nothing.
    none: CtorId,
}

impl Several {
    /// The numbers of the constructors: of an element or of what is there, and of the end or of nothing.
    pub(crate) fn tags(&self, m: &Module) -> (u32, u32) {
        (m.ctors[self.some].tag, m.ctors[self.none].tag)
    }
}

/// What a type holds several of: a data type with one parameter, a constructor without fields, and one of an element
/// and, for lists, the rest.
pub fn several(m: &Module, ty: TypeId) -> Option<Several> {
    let Type::Adt(adt, args) = &m.types[ty] else {
        return None;
    };
    let (data, [of]) = (&m.adts[*adt], &**args) else {
        return None;
    };
    let ([a, b], [param]) = (data.ctors.as_slice(), data.params.as_slice()) else {
        return None;
    };
    let (some, none) = match (m.ctors[*a].fields.len(), m.ctors[*b].fields.len()) {
        (_, 0) => (*a, *b),
        (0, _) => (*b, *a),
        _ => return None,
    };
    let element = |ty: &TypeId| m.types[*ty] == Type::Param(*param);
    let sort = match m.ctors[some].fields.as_slice() {
        [x] if element(x) => Sort::Option,
        [x, rest] if element(x) && same(m, *rest, *adt, element) => Sort::List,
        _ => return None,
    };
    let of = *of;
    Some(Several {
        sort,
        of,
        some,
        none,
    })
}

/// Whether a type is that data type of its own parameter.
fn same(m: &Module, ty: TypeId, adt: AdtId, element: impl Fn(&TypeId) -> bool) -> bool {
    matches!(&m.types[ty], Type::Adt(a, args) if *a == adt && args.len() == 1 && element(&args[0]))
}

/// Whether the tensors of a value of a type say all of it: tuples of tensors, of lists of tensors, and of options of
/// either.
pub fn plain(m: &Module, ty: TypeId) -> bool {
    let mut work = vec![ty];
    while let Some(ty) = work.pop() {
        if let Type::Tuple(fields) = &m.types[ty] {
            work.extend_from_slice(fields);
            continue;
        }
        let mut inner = ty;
        if let Some(s) = several(m, inner).filter(|s| s.sort == Sort::Option) {
            inner = s.of;
        }
        if let Some(s) = several(m, inner).filter(|s| s.sort == Sort::List) {
            inner = s.of;
        }
        if !matches!(m.types[inner], Type::Tensor(_)) {
            return false;
        }
    }
    true
}

/// A step of putting values together, on a stack.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next tensor.
    Take,
    /// A tuple of the last so many.
    Tuple(usize),
    /// What a constructor makes of the last so many.
    Make(CtorId, usize),
}

/// The tensors of a call, and how they become its arguments.
#[derive(Debug)]
pub struct Layout {
    /// The tensors: a parameter each, or the fields of one that is a tuple, or the elements of one that is a list, in
    /// order. A part of `%p` is called `p.0`, one of a part `p.0.1`; what an option holds is called as the option.
    pub slots: Vec<Param>,
    steps: Vec<Step>,
    count: usize,
}

enum Part {
    See(Param),
    Do(Step),
}

impl Layout {
    /// The layout of these parameters for these arrays. With `made_up`, a list of which there is no array has so many
    /// elements, and an option a value.
    pub fn new(
        m: &Module,
        params: &[Param],
        arrays: &[(String, Tensor)],
        made_up: Option<usize>,
    ) -> Layout {
        let mut slots = Vec::new();
        let mut steps = Vec::new();
        let unnamed = unnamed(m, params, arrays);
        let mut work: Vec<Part> = params.iter().rev().cloned().map(Part::See).collect();
        while let Some(part) = work.pop() {
            let p = match part {
                Part::Do(step) => {
                    steps.push(step);
                    continue;
                }
                Part::See(p) => p,
            };
            if let Type::Tuple(fields) = &m.types[p.ty] {
                work.push(Part::Do(Step::Tuple(fields.len())));
                let field = |(i, &ty): (usize, &TypeId)| part_of(&p, i, ty);
                work.extend(fields.iter().enumerate().map(field).rev());
                continue;
            }
            let Some(s) = several(m, p.ty) else {
                slots.push(p);
                steps.push(Step::Take);
                continue;
            };
            let there = named(&p.name, arrays);
            match s.sort {
                Sort::Option if there || unnamed > 0 || made_up.is_some() => {
                    work.push(Part::Do(Step::Make(s.some, 1)));
                    work.push(Part::See(Param { ty: s.of, ..p }));
                }
                Sort::Option => steps.push(Step::Make(s.none, 0)),
                Sort::List => {
                    let given = (0..).take_while(|i| named(&format!("{}.{i}", p.name), arrays));
                    let count = match given.count() {
                        0 if unnamed > 0 => unnamed,
                        0 => made_up.unwrap_or(0),
                        n => n,
                    };
                    let ends = std::iter::repeat_n(Step::Make(s.some, 2), count);
                    work.extend(ends.map(Part::Do));
                    work.push(Part::Do(Step::Make(s.none, 0)));
                    work.extend((0..count).rev().map(|i| part_of(&p, i, s.of)));
                }
            }
        }
        Layout {
            slots,
            steps,
            count: params.len(),
        }
    }

    /// The arguments, of the values of the slots. `None` when there are too few.
    pub fn arguments<T>(
        &self,
        slots: impl IntoIterator<Item = T>,
        tuple: impl Fn(Vec<T>) -> T,
        data: impl Fn(CtorId, Vec<T>) -> T,
    ) -> Option<Vec<T>> {
        let mut slots = slots.into_iter();
        let mut done: Vec<T> = Vec::new();
        for step in &self.steps {
            let value = match *step {
                Step::Take => slots.next()?,
                Step::Tuple(n) => tuple(done.split_off(done.len().checked_sub(n)?)),
                Step::Make(ctor, n) => data(ctor, done.split_off(done.len().checked_sub(n)?)),
            };
            done.push(value);
        }
        (done.len() == self.count).then_some(done)
    }
}

fn part_of(p: &Param, i: usize, ty: TypeId) -> Part {
    Part::See(Param {
        name: format!("{}.{i}", p.name),
        ty,
    })
}

/// Whether an array belongs to a parameter of this name.
fn named(name: &str, arrays: &[(String, Tensor)]) -> bool {
    let part = |a: &str| a.strip_prefix(name).is_some_and(|r| r.starts_with('.'));
    arrays.iter().any(|(a, _)| a == name || part(a))
}

/// How many arrays that are counted (`in0`, `in1`, …) belong to the only parameter that is a list or an option.
fn unnamed(m: &Module, params: &[Param], arrays: &[(String, Tensor)]) -> usize {
    let counted = |(name, _): &&(String, Tensor)| {
        let digits = name.strip_prefix("in").or(name.strip_prefix("arr_"));
        digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    };
    let count = arrays.iter().filter(counted).count();
    let slots = crate::inputs::slots(m, params);
    let open = slots.iter().filter(|p| several(m, p.ty).is_some()).count();
    match open {
        1 if count == arrays.len() => (count + 1).saturating_sub(slots.len()),
        _ => 0,
    }
}
