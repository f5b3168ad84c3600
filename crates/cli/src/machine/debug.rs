//! Interactive debugging of a run: `relax-run --engine vm --debug`.

use std::io::BufRead;

use relax::show::{self, Extent};
use relax_vm::{Moment, Value, Watch};

use super::{brief, line};
use crate::io;

/// When the run stops next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    /// After this many instructions.
    Steps(u64),
    /// At an instruction of a frame at most this deep.
    Depth(usize),
    /// At a breakpoint.
    Break,
}

/// A breakpoint: a function, and an instruction of it other than the first.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Break {
    function: String,
    at: u32,
}

const HELP: &str = "\
step [N]            goes on for an instruction, or N of them
next                the same, but calls count as one
finish              goes on until the function has returned
continue            goes on to the next break, or the end
break FUNCTION[:N]  stops at a function, or at its instruction N
delete FUNCTION[:N] does not stop there any more
breaks              where the run stops
registers           what registers hold, in a few words
print %N            what a register holds
backtrace           the functions that run, the innermost first
list                the instructions of the function
quit                ends the run
";

/// Steps through a run under commands, one per line; an empty line repeats the last one. The run
/// ends at the end of the commands.
pub struct Debugger<R> {
    commands: R,
    until: Until,
    breaks: Vec<Break>,
    last: String,
}

impl<R: BufRead> Debugger<R> {
    /// Creates a debugger that reads commands from `commands`. It stops at the first instruction.
    pub fn new(commands: R) -> Debugger<R> {
        Debugger {
            commands,
            until: Until::Steps(0),
            breaks: Vec::new(),
            last: String::new(),
        }
    }

    fn stops(&mut self, moment: &Moment<'_>) -> bool {
        let here = |b: &Break| b.at == moment.at && b.function == moment.function.name;
        if self.breaks.iter().any(here) {
            return true;
        }
        match &mut self.until {
            Until::Steps(0) => true,
            Until::Steps(n) => {
                *n -= 1;
                *n == 0
            }
            Until::Depth(most) => moment.depth() <= *most,
            Until::Break => false,
        }
    }

    /// Executes a command; returns whether the run continues, if the command resumes it.
    fn command(&mut self, text: &str, moment: &Moment<'_>) -> Option<bool> {
        let (word, rest) = match text.split_once(char::is_whitespace) {
            Some((word, rest)) => (word, rest.trim()),
            None => (text, ""),
        };
        match word {
            "step" | "s" => match rest.is_empty() {
                true => self.go(Until::Steps(1)),
                false => match rest.parse() {
                    Ok(n) if n > 0 => self.go(Until::Steps(n)),
                    _ => say("step takes a number from 1 on"),
                },
            },
            "next" | "n" => self.go(Until::Depth(moment.depth())),
            "finish" | "f" => self.go(Until::Depth(moment.depth() - 1)),
            "continue" | "c" => self.go(Until::Break),
            "break" | "b" => match place(rest, moment) {
                Ok(b) => {
                    if !self.breaks.contains(&b) {
                        self.breaks.push(b);
                    }
                    None
                }
                Err(text) => say(&text),
            },
            "delete" | "d" => match place(rest, moment) {
                Ok(b) => {
                    self.breaks.retain(|k| *k != b);
                    None
                }
                Err(text) => say(&text),
            },
            "breaks" => {
                let lines = self
                    .breaks
                    .iter()
                    .map(|b| format!("@{}:{}\n", b.function, b.at));
                io::say(&lines.collect::<String>());
                None
            }
            "registers" | "r" => {
                registers(moment);
                None
            }
            "print" | "p" => {
                print(rest, moment);
                None
            }
            "backtrace" | "bt" => {
                for (k, (name, at)) in moment.calls().enumerate() {
                    io::say(&format!("{k}: @{name}, instruction {at}\n"));
                }
                None
            }
            "list" | "l" => {
                list(moment);
                None
            }
            "quit" | "q" => Some(false),
            "help" | "h" => {
                io::say(HELP);
                None
            }
            _ => say(&format!("there is no command `{word}`; `help` lists them")),
        }
    }

    fn go(&mut self, until: Until) -> Option<bool> {
        self.until = until;
        Some(true)
    }
}

fn say<T>(text: &str) -> Option<T> {
    io::say(&format!("{text}\n"));
    None
}

/// Parses a location in the program: `f`, `@f`, `f:3`.
fn place(text: &str, moment: &Moment<'_>) -> Result<Break, String> {
    let text = text.strip_prefix('@').unwrap_or(text);
    let (name, at) = match text.rsplit_once(':') {
        Some((name, at)) => {
            let at = at.parse().map_err(|_| format!("`{at}` is no number"))?;
            (name, at)
        }
        None => (text, 0),
    };
    let found = moment.program.funcs.iter().find(|f| f.name == name);
    match found {
        Some(f) if (at as usize) < f.code.len() => Ok(Break {
            function: name.to_owned(),
            at,
        }),
        Some(f) => Err(format!("@{name} has {} instructions", f.code.len())),
        None => {
            let names = moment.program.funcs.iter().map(|f| f.name.as_str());
            let near = relax_base::did_you_mean(name, names);
            let near = near.map_or(String::new(), |n| format!("; did you mean @{n}?"));
            Err(format!("there is no function @{name}{near}"))
        }
    }
}

fn registers(moment: &Moment<'_>) {
    for (r, value) in moment.registers.iter().enumerate() {
        if !matches!(value, Value::Void) {
            io::say(&format!("%{r}: {}\n", brief(value)));
        }
    }
}

/// Prints the contents of registers, one per line: tensors with their elements, composite values
/// summarised.
fn print(text: &str, moment: &Moment<'_>) {
    let number = text.strip_prefix('%').unwrap_or(text).parse::<usize>();
    let Some(value) = number.ok().and_then(|r| moment.registers.get(r)) else {
        io::say(&format!("there is no register `{text}`\n"));
        return;
    };
    if let Some(t) = value.tensor() {
        io::say(&format!("{}\n", show::tensor(&t, Extent::Corners)));
        return;
    }
    io::say(&format!("{}\n", brief(value)));
    let fields = match value {
        Value::Node(node) => node.fields(),
        _ => &[],
    };
    for (i, field) in fields.iter().enumerate() {
        io::say(&format!("  {i}: {}\n", brief(field)));
    }
}

/// Prints the instructions around the next one.
fn list(moment: &Moment<'_>) {
    const AROUND: usize = 8;
    let at = moment.at as usize;
    let code = moment.function.code.iter().enumerate();
    for (k, inst) in code.skip(at.saturating_sub(AROUND)).take(2 * AROUND + 1) {
        let mark = if k == at { "->" } else { "  " };
        io::say(&format!("{mark} {k}: {}\n", moment.program.shown(inst)));
    }
}

impl<R: BufRead> Watch for Debugger<R> {
    fn step(&mut self, moment: &Moment<'_>) -> bool {
        if !self.stops(moment) {
            return true;
        }
        io::say(&line(moment));
        loop {
            let mut text = String::new();
            if !matches!(self.commands.read_line(&mut text), Ok(n) if n > 0) {
                return false;
            }
            let command = match text.trim() {
                "" => self.last.clone(),
                other => other.to_owned(),
            };
            self.last.clone_from(&command);
            if command.is_empty() {
                continue;
            }
            if let Some(goes_on) = self.command(&command, moment) {
                return goes_on;
            }
        }
    }
}
