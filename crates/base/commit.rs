// Included by the build scripts of the packages with tools.

/// Sets the text of `--version`: the version number, and the commit that a release build was made
/// from.
///
/// `RELAX_COMMIT` overrides the commit where there is no repository (a package built from an
/// archive). Debug builds have none, so that a commit does not trigger a rebuild.
fn version() {
    println!("cargo:rerun-if-env-changed=RELAX_COMMIT");
    let version = env("CARGO_PKG_VERSION");
    let made_of = match std::env::var("RELAX_COMMIT") {
        Ok(named) => Some(named),
        Err(_) if env("PROFILE") == "release" => commit(),
        Err(_) => Some("debug build".to_owned()),
    };
    let made_of = made_of.map_or(String::new(), |c| format!(" ({c})"));
    println!("cargo:rustc-env=RELAX_VERSION={version}{made_of}");
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("Cargo sets {name}"))
}

/// Returns the output of a git command in the package's folder; `None` without git or a repository.
fn git(args: &[&str]) -> Option<String> {
    let mut git = std::process::Command::new("git");
    let out = git.args(args).current_dir(env("CARGO_MANIFEST_DIR"));
    let out = out.output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(out.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

/// Returns the commit and its date, if the package is in its own project's repository.
fn commit() -> Option<String> {
    let root = std::path::Path::new(&env("CARGO_MANIFEST_DIR")).join("../..");
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if std::path::Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        // The package is vendored into another repository.
        return None;
    }
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    let moves = ["HEAD", "logs/HEAD", "packed-refs"].map(str::to_owned);
    for name in moves.into_iter().chain(branch) {
        // Cargo would rerun the script every time for a path that does not exist.
        let Some(path) = git(&["rev-parse", "--git-path", &name]) else {
            continue;
        };
        let path = std::path::Path::new(&env("CARGO_MANIFEST_DIR")).join(path);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    git(&["show", "-s", "--format=%h %cs", "--abbrev=12", "HEAD"])
}
