//! Watching a pipeline: printing between passes, timing, counting.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use relax_driver::{Found, PassEvent, PassObserver, Style, TypeSource, TypedModule};

/// What is to be shown.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Print before these passes; an empty name means all.
    pub before: Vec<String>,
    /// Print after these passes; an empty name means all.
    pub after: Vec<String>,
    /// Print the difference after each pass that changed something.
    pub change: bool,
    /// Write the module after each pass into files of this folder.
    pub tree: Option<PathBuf>,
    /// With `/* ty=… */` comments.
    pub types: bool,
    /// Colours in differences.
    pub color: bool,
}

/// A pass that ran.
#[derive(Clone, Debug)]
struct Ran {
    name: String,
    changed: bool,
    time: Duration,
    counts: Vec<(&'static str, u64)>,
}

/// The observer behind relax-opt's flags.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    wishes: Wishes,
    style: Style,
    last: String,
    ran: Vec<Ran>,
    /// How long reading, the checks between passes, and printing took.
    pub reading: Duration,
    checking: Duration,
    /// See `reading`.
    pub printing: Duration,
    /// What was found out while passes ran.
    pub found: Found,
    /// Which module of the input it is, from 1, when there are several: it has a folder of its own.
    pub part: Option<usize>,
    /// What could not be written.
    pub troubles: Vec<String>,
}

fn wanted(names: &[String], pass: &str) -> bool {
    names.iter().any(|n| n.is_empty() || n == pass)
}

impl Watch {
    /// An observer with these wishes.
    pub fn new(wishes: Wishes, style: Style) -> Watch {
        Watch {
            wishes,
            style,
            ..Watch::default()
        }
    }

    fn text(&self, event: &PassEvent<'_>) -> String {
        let typed = event.typing.filter(|_| self.wishes.types);
        let typed = typed.map(|typing| TypedModule {
            module: event.module,
            typing,
        });
        let types = typed.as_ref().map(|t| t as &dyn TypeSource);
        relax_driver::print(event.module, self.style, types)
    }

    fn show(&self, when: &str, event: &PassEvent<'_>) {
        eprintln!("// ---- {when} {} ----", event.run);
        eprint!("{}", self.text(event));
    }

    fn difference(&self, name: &str, new: &str) {
        let mut out = format!("// ---- changed by {name} ----\n");
        let names = ("before", "after");
        crate::diff::unified(names, &self.last, new, self.wishes.color, &mut out);
        eprint!("{out}");
    }

    /// Writes the module into a file of the folder.
    fn file(&mut self, name: &str, event: &PassEvent<'_>) {
        let Some(dir) = &self.wishes.tree else { return };
        let dir = match self.part {
            Some(part) => dir.join(part.to_string()),
            None => dir.clone(),
        };
        let path = dir.join(format!("{name}.relay"));
        let text = self.text(event);
        let written = std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&path, text));
        if let Err(e) = written {
            let path = path.display();
            self.troubles.push(format!("cannot write {path}: {e}"));
        }
    }

    /// Times of all passes and of what is done around them, slowest first, as a table.
    pub fn timing(&self) -> String {
        let mut rows: Vec<(Duration, &str)> =
            (self.ran.iter().map(|r| (r.time, r.name.as_str()))).collect();
        rows.push((self.reading, "(reading)"));
        rows.push((self.checking, "(verifying, finding types)"));
        rows.push((self.printing, "(printing)"));
        rows.sort_by_key(|r| std::cmp::Reverse(r.0));
        let total: Duration = rows.iter().map(|r| r.0).sum();
        let mut out = String::from("// ---- time ----\n");
        for (time, name) in rows {
            let share = 100.0 * time.as_secs_f64() / total.as_secs_f64().max(1e-12);
            let ms = time.as_secs_f64() * 1e3;
            let _ = writeln!(out, "{ms:10.3} ms {share:5.1} %  {name}");
        }
        let _ = writeln!(out, "{:10.3} ms         total", total.as_secs_f64() * 1e3);
        out
    }

    /// What the passes counted.
    pub fn stats(&self) -> String {
        let mut out = String::from("// ---- statistics ----\n");
        for r in &self.ran {
            let changed = if r.changed {
                "changed the module"
            } else {
                "changed nothing"
            };
            let _ = writeln!(out, "{}: {changed}", r.name);
            for (what, n) in &r.counts {
                let _ = writeln!(out, "{n:8} {what}");
            }
        }
        out.push_str("found out, and known from then on:\n");
        for (n, what) in [
            (self.found.types, "times types"),
            (self.found.typed, "functions typed for that"),
            (self.found.verified, "functions verified"),
            (self.found.effects, "times effects"),
            (self.found.of_functions, "times something of one function"),
        ] {
            let _ = writeln!(out, "{n:8} {what}");
        }
        out
    }
}

impl PassObserver for Watch {
    fn before(&mut self, event: &PassEvent<'_>) {
        if wanted(&self.wishes.before, event.run.pass.name) {
            self.show("before", event);
        }
        if event.index > 0 {
            return;
        }
        if self.wishes.change {
            self.last = self.text(event);
        }
        self.file("00_input", event);
    }

    fn after(&mut self, event: &PassEvent<'_>) {
        let name = event.run.pass.name;
        if wanted(&self.wishes.after, name) {
            self.show("after", event);
        }
        if self.wishes.change {
            let new = self.text(event);
            if new != self.last {
                self.difference(name, &new);
            }
            self.last = new;
        }
        self.file(&format!("{:02}_{name}", event.index + 1), event);
        self.checking += event.checking;
        self.ran.push(Ran {
            name: event.run.to_string(),
            changed: event.changed,
            time: event.time,
            counts: event.counts.iter().map(|(k, v)| (*k, *v)).collect(),
        });
    }
}
