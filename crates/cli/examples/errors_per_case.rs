//! Measures the number of errors per mistake:
//! `cargo run -p relax-cli --no-default-features --example errors_per_case -- FOLDER`
//!
//! Checks every `.relay` file of a folder whose files contain one mistake each (the benchmark is
//! TVM's rejected modules, `../shared/conformance/relay/types-bad`) and prints the mean and the
//! median number of errors, a histogram, and the files with none or with several.

use std::collections::BTreeMap;
use std::path::PathBuf;

use relax_base::Severity;
use relax_cli::check::{Options, check_file};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("which folder?")?;
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{folder}: {e}"))?;
    let mut files: Vec<PathBuf> = (entries.flatten().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "relay"))
        .collect();
    files.sort();
    let mut counts = Vec::new();
    for file in &files {
        let checked = check_file(file, &Options::default(), false)?;
        let n = checked.count(Severity::Error);
        if n != 1 {
            println!("{n} {}", file.display());
        }
        counts.push(n);
    }
    counts.sort_unstable();
    let Some(&median) = counts.get(counts.len() / 2) else {
        return Err(format!("{folder} holds no .relay files").into());
    };
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    let mut often: BTreeMap<usize, usize> = BTreeMap::new();
    counts
        .iter()
        .for_each(|n| *often.entry(*n).or_default() += 1);
    for (n, times) in often {
        println!("{times:>6} files with {n}");
    }
    println!("{} files: median {median}, mean {mean:.3}", counts.len());
    Ok(())
}
