//! Reduction of a program and pipeline while they fail in the same way.

use relax::Pipeline;
use relax_ir::Module;
use relax_passes::{PassRun, Step};

use super::{Finding, Question, Verdict, search, shrink};

/// The limit on attempts: the reduction is good enough then.
const TRIES: usize = 3000;

/// The result of a reduction.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The program.
    pub module: Module,
    /// The passes.
    pub pipeline: Pipeline,
    /// The failure.
    pub finding: Box<Finding>,
    /// The number of programs tried.
    pub tries: usize,
}

/// Shrinks a program and a pipeline while the same pass fails in the same way.
pub fn reduce(module: &Module, question: &Question, finding: &Finding) -> Reduced {
    let mut this = Reducer {
        question: question.clone(),
        finding: Box::new(finding.clone()),
        tries: 0,
    };
    this.passes(module);
    let mut left = TRIES.saturating_sub(this.tries);
    let entry = question.entry.clone();
    let less = shrink(module, &entry, &mut left, &mut |m| {
        let found = search_for(m, &this.question, &this.finding);
        let same = found.is_some();
        found.into_iter().for_each(|f| this.finding = f);
        same
    });
    this.tries = TRIES - left;
    this.passes(&less);
    Reduced {
        module: less,
        pipeline: this.question.pipeline,
        finding: this.finding,
        tries: this.tries,
    }
}

/// Returns the failure of a program, if it is the same as before.
fn search_for(m: &Module, question: &Question, before: &Finding) -> Option<Box<Finding>> {
    match search(m, question) {
        Verdict::Wrong(f) if f.pass == before.pass && f.kind.alike(&before.kind) => Some(f),
        _ => None,
    }
}

struct Reducer {
    question: Question,
    finding: Box<Finding>,
    tries: usize,
}

impl Reducer {
    fn wrong(&mut self, module: &Module, pipeline: &Pipeline) -> Option<Box<Finding>> {
        if self.tries >= TRIES {
            return None;
        }
        self.tries += 1;
        let question = Question {
            pipeline: pipeline.clone(),
            ..self.question.clone()
        };
        search_for(module, &question, &self.finding)
    }

    /// Shrinks the pipeline: to the failing pass alone, or by dropping passes that are not needed.
    fn passes(&mut self, module: &Module) {
        let all: Vec<PassRun> = self
            .question
            .pipeline
            .passes()
            .into_iter()
            .cloned()
            .collect();
        let pipeline = |runs: &[PassRun]| Pipeline {
            steps: runs.iter().cloned().map(Step::Pass).collect(),
        };
        let mut runs = all;
        let guilty = runs.iter().position(|r| r.to_string() == self.finding.run);
        if let Some(i) = guilty {
            let alone = pipeline(&runs[i..=i]);
            if let Some(f) = self.wrong(module, &alone) {
                self.finding = f;
                self.question.pipeline = alone;
                return;
            }
        }
        let mut i = runs.len();
        while i > 0 {
            i -= 1;
            let mut fewer = runs.clone();
            fewer.remove(i);
            if let Some(f) = self.wrong(module, &pipeline(&fewer)) {
                self.finding = f;
                self.question.pipeline = pipeline(&fewer);
                runs = fewer;
            }
        }
    }
}
