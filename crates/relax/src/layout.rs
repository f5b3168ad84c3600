//! Layout of parameters that are lists or options, whose number of tensors depends on the arrays
//! given.

use relax_ir::{AdtId, CtorId, Module, Type, TypeId};
use relax_tensor::Tensor;

use crate::param::Param;

/// The kind of a container type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sort {
    /// Any number of elements, as `List`.
    List,
    /// One element or none, as `Option`.
    Option,
}

/// A list or an option.
#[derive(Clone, Copy, Debug)]
pub struct Several {
    /// The kind of container.
    pub sort: Sort,
    /// The element type.
    pub of: TypeId,
    /// The constructor of a list cell, or of a present value.
    some: CtorId,
    /// The constructor of the empty list, or of an absent value.
    none: CtorId,
}

impl Several {
    /// The tags of the two constructors: cell or present value, and empty or absent.
    pub(crate) fn tags(&self, m: &Module) -> (u32, u32) {
        (m.ctors[self.some].tag, m.ctors[self.none].tag)
    }
}

/// Matches a type against list and option: a data type with one type parameter, a constructor
/// without fields, and one with an element and, for lists, the tail.
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

/// Returns whether a type is `adt` applied to its own type parameter.
fn same(m: &Module, ty: TypeId, adt: AdtId, element: impl Fn(&TypeId) -> bool) -> bool {
    matches!(&m.types[ty], Type::Adt(a, args) if *a == adt && args.len() == 1 && element(&args[0]))
}

/// Returns whether values of a type are made of tensors only: tuples of tensors, of lists of
/// tensors, and of options of either.
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

/// A step of rebuilding arguments from slots, on a stack.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Push the next tensor.
    Take,
    /// Pop this many values and push a tuple of them.
    Tuple(usize),
    /// Pop this many values and push the constructor applied to them.
    Make(CtorId, usize),
}

/// The slots of a call, and how they are assembled into its arguments.
#[derive(Debug)]
pub struct Layout {
    /// The slots: one for each parameter, for each field of a tuple parameter, or for each element
    /// of a list parameter, in order. A part of `%p` is named `p.0`, a nested one `p.0.1`; the
    /// content of an option has the option's name.
    pub slots: Vec<Param>,
    steps: Vec<Step>,
    count: usize,
}

enum Part {
    See(Param),
    Do(Step),
}

impl Layout {
    /// Computes the layout of these parameters for these arrays. With `made_up`, a list that no
    /// array is given for gets this many elements, and an option a value.
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

    /// Assembles the arguments from the slots' values. Returns `None` if there are too few.
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

/// Returns whether any array is bound to the parameter of this name.
fn named(name: &str, arrays: &[(String, Tensor)]) -> bool {
    let part = |a: &str| a.strip_prefix(name).is_some_and(|r| r.starts_with('.'));
    arrays.iter().any(|(a, _)| a == name || part(a))
}

/// Returns how many positional arrays (`in0`, `in1`, …) go to the only parameter that is a list or
/// an option.
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
