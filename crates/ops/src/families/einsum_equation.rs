//! The equations of Einstein's summation convention: which letters operands and result have.

/// The character that represents `...`.
const DOTS: char = '.';

/// An equation: the labels of each operand and of the result.
pub(super) struct Equation {
    pub(super) inputs: Vec<Vec<char>>,
    output: Vec<char>,
}

impl Equation {
    pub(super) fn parse(text: &str) -> Result<Equation, String> {
        let list = |part: &str| -> Result<Vec<char>, String> {
            let part = part.replace("...", "\u{2026}");
            let mut labels = Vec::new();
            for c in part.chars().filter(|c| *c != ' ') {
                match c {
                    '\u{2026}' if labels.contains(&DOTS) => {
                        return Err("`...` may stand only once for each operand".into());
                    }
                    '\u{2026}' => labels.push(DOTS),
                    c if c.is_ascii_alphabetic() => labels.push(c),
                    c => return Err(format!("`{c}` is no label")),
                }
            }
            Ok(labels)
        };
        let (inputs, output) = match text.split_once("->") {
            Some((a, b)) => (a, Some(list(b)?)),
            None => (text, None),
        };
        let inputs = inputs.split(',').map(list).collect::<Result<Vec<_>, _>>()?;
        // Without an arrow, the result has the labels that occur once, in alphabetical order.
        let output = output.unwrap_or_else(|| {
            let mut all: Vec<char> = inputs.iter().flatten().copied().collect();
            all.sort_unstable();
            let count = |c: char| all.iter().filter(|d| **d == c).count();
            let mut once: Vec<char> = all
                .iter()
                .copied()
                .filter(|&c| c == DOTS || count(c) == 1)
                .collect();
            once.dedup();
            once
        });
        for (k, c) in output.iter().enumerate() {
            if output[..k].contains(c) {
                return Err(format!("the result names `{c}` twice"));
            }
            if *c != DOTS && !inputs.iter().any(|i| i.contains(c)) {
                return Err(format!("the result names `{c}`, which no operand has"));
            }
        }
        Ok(Equation { inputs, output })
    }
    /// Returns the axes of each operand with their labels; those under `...` get labels of their
    /// own, equal for axes that are aligned from the last one. The error names an operand that does
    /// not fit.
    pub(super) fn axes(&self, ranks: &[usize]) -> Result<(Vec<Vec<Label>>, Vec<Label>), usize> {
        let mut dots = 0;
        for (k, (labels, &rank)) in self.inputs.iter().zip(ranks).enumerate() {
            let named = labels.iter().filter(|c| **c != DOTS).count();
            if rank < named || (rank > named && !labels.contains(&DOTS)) {
                return Err(k);
            }
            dots = dots.max(rank - named);
        }
        let expand = |labels: &[char], rank: usize| {
            let own = (rank + 1).saturating_sub(labels.len());
            let one = |&c: &char| match c {
                DOTS => (dots - own..dots).map(Label::Dots).collect(),
                c => vec![Label::Named(c)],
            };
            labels.iter().flat_map(one).collect::<Vec<Label>>()
        };
        let inputs = self
            .inputs
            .iter()
            .zip(ranks)
            .map(|(l, &r)| expand(l, r))
            .collect();
        let whole = self.output.iter().filter(|c| **c != DOTS).count() + dots;
        Ok((inputs, expand(&self.output, whole)))
    }
}

impl Equation {
    /// Returns a letter for each axis of the operands of these extents and of the result, those
    /// under `...` among them; `None` where an operand does not fit, or there are no letters left.
    pub(super) fn letters(&self, shapes: &[Vec<i64>]) -> Option<(Vec<Vec<char>>, Vec<char>)> {
        let ranks: Vec<usize> = shapes.iter().map(Vec::len).collect();
        if ranks.len() != self.inputs.len() {
            return None;
        }
        let (inputs, output) = self.axes(&ranks).ok()?;
        let named: Vec<char> = self.inputs.iter().flatten().copied().collect();
        let free: Vec<char> = ('a'..='z')
            .chain('A'..='Z')
            .filter(|c| !named.contains(c))
            .collect();
        let letter = |l: &Label| match *l {
            Label::Named(c) => Some(c),
            Label::Dots(k) => free.get(k).copied(),
        };
        let all = |labels: &Vec<Label>| labels.iter().map(letter).collect::<Option<Vec<char>>>();
        let inputs = inputs.iter().map(all).collect::<Option<Vec<_>>>()?;
        Some((inputs, all(&output)?))
    }
}

/// A label of one axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Named(char),
    Dots(usize),
}
