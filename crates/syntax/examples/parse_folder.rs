//! Parses every `.relay` file of the folders given as arguments and reports what could not be read.

use std::path::PathBuf;

use relax_base::SourceMap;

fn main() {
    let verbose = std::env::var_os("VERBOSE").is_some();
    let (mut files, mut bad, mut bytes) = (0, 0, 0usize);
    let mut spent = std::time::Duration::ZERO;
    let mut paths: Vec<PathBuf> = Vec::new();
    for arg in std::env::args().skip(1) {
        let path = PathBuf::from(arg);
        if path.is_dir() {
            let listed = std::fs::read_dir(&path).expect("a readable folder");
            paths.extend(listed.filter_map(|e| e.ok().map(|e| e.path())));
        } else {
            paths.push(path);
        }
    }
    paths.retain(|p| p.extension().is_some_and(|e| e == "relay"));
    paths.sort();
    for path in paths {
        let raw = std::fs::read(&path).expect("a readable file");
        let text = String::from_utf8_lossy(&raw).into_owned();
        bytes += text.len();
        let mut map = SourceMap::new();
        let Some(file) = map.add(path.display().to_string(), text) else {
            continue;
        };
        let start = std::time::Instant::now();
        let parsed = relax_syntax::parse(&file);
        spent += start.elapsed();
        files += 1;
        if parsed.diagnostics.has_errors() {
            bad += 1;
            if verbose {
                for d in parsed.diagnostics.iter() {
                    let at = file.line_col(d.span().start);
                    println!(
                        "{}:{}:{}: {} {}\n    {}",
                        file.name,
                        at.line,
                        at.col,
                        d.code,
                        d.message,
                        file.line(at.line)
                    );
                }
            } else {
                println!(
                    "{} errors in {}",
                    parsed.diagnostics.error_count(),
                    file.name
                );
            }
        }
    }
    let speed = bytes as f64 / 1e6 / spent.as_secs_f64();
    println!("{files} files, {bad} with errors, {bytes} bytes, {speed:.1} MB/s");
}
