//! Observers of a pipeline: printing between passes, timing, statistics.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::around::Around;
use crate::stop::Stop;
use crate::{output, places, say};
use relax::{Found, PassEvent, PassObserver, Style, TypeSource, TypedModule};

/// The requested output.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// The modules to print between passes.
    pub around: Around,
    /// Whether to print `/* ty=… */` comments.
    pub types: bool,
    /// Whether diffs are coloured.
    pub color: bool,
}

/// A pass run.
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
    starting: Duration,
    /// The time of reading, of verification between passes, and of printing.
    pub reading: Duration,
    typing: Duration,
    checking: Duration,
    /// See `reading`.
    pub printing: Duration,
    /// The analyses computed while passes ran.
    pub found: Found,
    /// The index of the module in the input, from 1, if there are several: each has a folder of its
    /// own.
    pub part: Option<usize>,
    /// Errors in writing files.
    pub troubles: Vec<Stop>,
}

impl Watch {
    /// Creates an observer.
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
        relax::print(event.module, self.style, types)
    }

    fn show(&self, when: &str, event: &PassEvent<'_>) {
        say!("// ---- {when} {} ----\n{}", event.run, self.text(event));
    }

    fn difference(&self, name: &str, new: &str) {
        let mut out = format!("// ---- changed by {name} ----\n");
        let names = ("before", "after");
        crate::diff::unified(names, &self.last, new, self.wishes.color, &mut out);
        crate::io::say(&out);
    }

    /// Writes the module to a file in the folder.
    fn file(&mut self, name: &str, event: &PassEvent<'_>) {
        let Some(dir) = &self.wishes.around.print_ir_tree_dir else {
            return;
        };
        let dir = match self.part {
            Some(part) => dir.join(part.to_string()),
            None => dir.clone(),
        };
        let path = dir.join(format!("{name}.relay"));
        let text = self.text(event);
        let made = std::fs::create_dir_all(&dir).map_err(|e| output::trouble(&path, &e));
        let written = made
            .and_then(|()| places::output(&path))
            .and_then(|()| output::write(&path, text.as_bytes()));
        self.troubles.extend(written.err());
    }

    /// Starts the shared worker threads, so that their start-up is not attributed to the first pass
    /// that needs them.
    pub fn threads(&mut self) {
        let begin = Instant::now();
        rayon::broadcast(|_| ());
        self.starting = begin.elapsed();
    }

    /// Returns the time of all passes and of the work around them as a table, slowest first.
    pub fn timing(&self) -> String {
        let mut rows: Vec<(Duration, &str)> =
            (self.ran.iter().map(|r| (r.time, r.name.as_str()))).collect();
        rows.push((self.reading, "(reading)"));
        rows.push((self.starting, "(starting threads)"));
        rows.push((self.typing, "(finding types of what was read)"));
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

    /// Returns the passes' statistics.
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
        if self.wishes.around.before(event.run.pass.name) {
            self.show("before", event);
        }
        if event.index > 0 {
            self.checking += event.checking;
            return;
        }
        self.typing += event.checking;
        if self.wishes.around.print_ir_after_change {
            self.last = self.text(event);
        }
        self.file("00_input", event);
    }

    fn after(&mut self, event: &PassEvent<'_>) {
        let name = event.run.pass.name;
        if self.wishes.around.after(name) {
            self.show("after", event);
        }
        if self.wishes.around.print_ir_after_change {
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
