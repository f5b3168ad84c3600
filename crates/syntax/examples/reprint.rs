//! Parses and prints files: `reprint STYLE FILE…`, STYLE one of `tvm`, `pretty`, `fmt`. With one
//! file the text goes to standard output; with several, each is checked: the printed text must
//! parse, and print the same again.

use relax_base::SourceMap;
use relax_syntax::{FmtOptions, PrintOptions, Style, format_source, parse, print};

fn once(style: &str, text: &str) -> Result<String, String> {
    let mut map = SourceMap::new();
    let file = map.add("text", text).ok_or("too large")?;
    let options = PrintOptions {
        style: if style == "tvm" {
            Style::Tvm
        } else {
            Style::Pretty
        },
        ..PrintOptions::default()
    };
    if style == "fmt" {
        return format_source(
            &file,
            &FmtOptions {
                width: std::env::var("WIDTH")
                    .ok()
                    .and_then(|w| w.parse().ok())
                    .unwrap_or(100),
                upgrade: false,
            },
        )
        .map_err(|d| d.iter().next().map_or(String::new(), |d| d.message.clone()));
    }
    let parsed = parse(&file);
    if let Some(d) = parsed.diagnostics.iter().find(|d| d.is_error()) {
        let at = file.line_col(d.span().start);
        return Err(format!("{}:{} {}", at.line, at.col, d.message));
    }
    Ok(print(&parsed.ast, &options))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [style, files @ ..] = args.as_slice() else {
        return;
    };
    let mut bad = 0;
    for name in files {
        let raw = std::fs::read(name).expect("a readable file");
        let text = String::from_utf8_lossy(&raw).into_owned();
        let first = match once(style, &text) {
            Ok(t) => t,
            Err(e) => {
                println!("{name}: {e}");
                bad += 1;
                continue;
            }
        };
        if files.len() == 1 {
            print!("{first}");
        }
        match once(style, &first) {
            Ok(second) if second == first => {}
            Ok(_) => {
                println!("{name}: prints differently the second time");
                bad += 1;
            }
            Err(e) => {
                println!("{name}: what was printed is not read: {e}");
                bad += 1;
            }
        }
    }
    if files.len() > 1 {
        println!("{} files, {bad} bad", files.len());
    }
}
