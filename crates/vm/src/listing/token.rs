//! The listing's tokens.

use logos::{Lexer, Logos};

fn after<'s, T: std::str::FromStr>(lex: &Lexer<'s, Tok<'s>>, from: usize, end: usize) -> Option<T> {
    let text = lex.slice();
    text.get(from..text.len() - end)?.parse().ok()
}

#[derive(Logos, Clone, Copy, Debug, PartialEq)]
#[logos(skip r"[ \t\r\n]+")]
#[logos(skip(r"//[^\n]*", allow_greedy = true))]
pub enum Tok<'s> {
    #[token("=")]
    Equals,
    #[token(":")]
    Colon,
    #[token(";")]
    Semicolon,
    #[token(",")]
    Comma,
    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token("->")]
    Arrow,
    #[token("#[vm = \"1\"]")]
    Header,
    #[token("entry")]
    Entry,
    #[token("function")]
    Function,
    #[token("closure")]
    Closure,
    #[token("kernel")]
    Kernel,
    #[token("written")]
    Written,
    #[token("registers")]
    Registers,
    #[token("call")]
    Call,
    #[token("ret")]
    Ret,
    #[token("if")]
    If,
    #[token("goto")]
    Goto,
    #[token("in")]
    In,
    #[token("dst")]
    Dst,
    #[token("at")]
    At,
    #[token("tensor")]
    Tensor,
    #[token("scalar")]
    Scalar,
    #[token("shape")]
    Shape,
    #[token("text")]
    Text,
    #[token("%void")]
    Void,
    #[regex("%[0-9]+", |lex| after(lex, 1, 0))]
    Reg(u32),
    #[regex("%[0-9]+!", |lex| after(lex, 1, 1))]
    Last(u32),
    #[regex("i-?[0-9]+", |lex| after(lex, 1, 0), priority = 20)]
    Int(i64),
    #[regex(r"c\[[0-9]+\]", |lex| after(lex, 2, 1))]
    Const(u32),
    #[regex("-?[0-9]+", |lex| after(lex, 0, 0))]
    Num(i64),
    #[regex("0x[0-9a-f]+", |lex| u64::from_str_radix(&lex.slice()[2..], 16).ok())]
    Bits(u64),
    #[regex(r#""([^"\\]|\\.)*""#, |lex| &lex.slice()[1..lex.slice().len() - 1])]
    Str(&'s str),
    #[regex(r#"@("([^"\\]|\\.)*"|[A-Za-z0-9_.$]+)"#, |lex| &lex.slice()[1..])]
    Global(&'s str),
    #[regex(r"#[A-Za-z0-9_.]+", |lex| &lex.slice()[1..])]
    KernelName(&'s str),
    #[regex(r"vm\.builtin\.[a-z0-9_.]+", |lex| lex.slice())]
    Builtin(&'s str),
    #[regex("[a-z][a-z0-9]*", |lex| lex.slice())]
    Name(&'s str),
}
