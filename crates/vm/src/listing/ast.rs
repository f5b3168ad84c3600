//! The syntax tree of a listing, with names and strings as written.

/// An item of a listing, usually with its start position.
pub enum Item<'s> {
    Const(usize, u32, RawConst<'s>),
    Entry(usize, RawEntry<'s>),
    Func(usize, RawFunc<'s>),
    /// A kernel: its name, whether it is hand-written, and its serialised program if that has no
    /// text form.
    Kernel(usize, &'s str, bool, Option<&'s str>),
}

pub struct RawEntry<'s> {
    pub name: &'s str,
    pub params: Vec<(&'s str, &'s str)>,
    pub result: &'s str,
    pub func: &'s str,
}

pub enum RawConst<'s> {
    Tensor(&'s str, Vec<i64>, &'s str),
    Scalar(&'s str, u64),
    Shape(Vec<i64>),
    Text(&'s str),
}

pub struct RawFunc<'s> {
    pub name: &'s str,
    pub closure: bool,
    pub params: i64,
    pub registers: i64,
    pub code: Vec<RawLine<'s>>,
}

pub struct RawLine<'s> {
    pub start: usize,
    pub number: i64,
    pub inst: RawInst<'s>,
    pub place: Option<&'s str>,
}

pub enum RawInst<'s> {
    Call(RawCallee<'s>, Vec<RawArg<'s>>, Option<u32>),
    Ret(RawArg<'s>),
    If(u32, i64),
    Goto(i64),
}

pub enum RawCallee<'s> {
    Func(&'s str),
    Kernel(&'s str),
    Builtin(&'s str),
}

pub enum RawArg<'s> {
    Void,
    Reg(u32),
    Last(u32),
    Int(i64),
    Const(u32),
    Func(&'s str),
}
