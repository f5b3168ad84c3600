//! The runtime's C face, held apart from its core: where functions that C calls are defined, what
//! the core takes, and what makes its unsafe blocks safe.

use std::path::Path;

/// The sources without what is built for tests alone: their names below `src`, and their lines.
fn sources() -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut open, mut all) = (vec![root.clone()], Vec::new());
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            open.extend(entries.map(|e| e.expect("an entry").path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a text");
        let own = text.split("#[cfg(test)]\nmod tests {").next();
        let lines = own.unwrap_or_default().lines().map(str::to_owned).collect();
        let name = path.strip_prefix(&root).expect("below it").display();
        all.push((name.to_string().replace('\\', "/"), lines));
    }
    assert!(all.len() > 100, "only {} files were found", all.len());
    all
}

/// The same without the kernels.
fn without_kernels() -> Vec<(String, Vec<String>)> {
    let mut all = sources();
    all.retain(|(name, _)| !name.starts_with("kernels/"));
    all
}

#[test]
fn functions_that_c_calls_are_in_its_face() {
    // What C knows by name, and what is public and called as C calls. Private functions that are
    // given away as pointers (an allocator's, say) are no part of the interface.
    let is_c = |line: &&String| {
        let line = line.trim_start();
        let named = line.starts_with("#[unsafe(no_mangle)]");
        named || line.starts_with("pub") && line.contains("extern \"C\" fn ")
    };
    let (mut inside, mut outside) = (0, Vec::new());
    for (name, lines) in sources() {
        let found = lines.iter().filter(is_c).count();
        // Constants are no functions.
        let constants = lines.iter().filter(|l| l.starts_with("pub static RX_"));
        match (name.starts_with("capi/"), found - constants.count()) {
            (true, n) => inside += n / 2,
            (false, 0) => {}
            (false, _) => outside.push(name),
        }
    }
    assert!(inside > 70, "only {inside} functions are there");
    assert!(
        outside.is_empty(),
        "functions of C outside of capi: {outside:?}"
    );
}

#[test]
fn the_core_does_not_know_its_face() {
    let mut all = sources();
    all.retain(|(name, _)| !name.starts_with("capi/") && name != "symbols.rs");
    for (name, lines) in all {
        let known = lines.iter().any(|l| {
            let code = l.split("//").next().unwrap_or_default();
            code.contains("capi::")
        });
        assert!(!known, "{name} names functions of capi");
    }
}

/// The declarations of functions that are not private: from `pub` to the body.
fn declarations(lines: &[String]) -> Vec<String> {
    let begins = |line: &str| {
        let line = line.trim_start();
        line.starts_with("pub") && line.contains("fn ")
    };
    let from = (0..lines.len()).filter(|&i| begins(&lines[i]));
    let whole = |i: usize| {
        let end = (i..lines.len()).find(|&j| lines[j].ends_with('{'));
        lines[i..=end.unwrap_or(i)].join(" ")
    };
    from.map(whole).collect()
}

#[test]
fn kernels_take_references_to_contexts_and_descriptions() {
    let mut seen = 0;
    for (name, lines) in sources() {
        if !name.starts_with("kernels/") {
            continue;
        }
        for declaration in declarations(&lines) {
            seen += usize::from(declaration.contains("context: &mut RxContext"));
            for pointer in ["*const Rx", "*mut Rx"] {
                assert!(!declaration.contains(pointer), "{name}: {declaration}");
            }
        }
    }
    assert!(seen > 30, "only {seen} functions were found");
}

#[test]
fn heap_threads_stack_and_profile_take_no_pointers() {
    let mut seen = 0;
    for (name, lines) in without_kernels() {
        let parts = ["heap", "threads", "stack", "profile"];
        if !parts
            .iter()
            .any(|p| name.starts_with(&format!("{p}/")) || name == format!("{p}.rs"))
        {
            continue;
        }
        for declaration in declarations(&lines) {
            seen += 1;
            let parameters = declaration.split("->").next().unwrap_or_default();
            assert!(
                !parameters.contains("*const") && !parameters.contains("*mut"),
                "{name}: {declaration}"
            );
        }
    }
    assert!(seen > 30, "only {seen} functions were found");
}

#[test]
fn safety_is_said_by_bounds() {
    let mut seen = 0;
    for (name, lines) in without_kernels() {
        for (i, line) in lines.iter().enumerate() {
            if !line.trim_start().starts_with("// SAFETY:") {
                continue;
            }
            seen += 1;
            let more = lines[i + 1..].iter().map(|l| l.trim_start());
            let more = more.take_while(|l| l.starts_with("//"));
            let text = [line.trim_start()].into_iter().chain(more);
            let text = text.collect::<Vec<_>>().join(" ").to_lowercase();
            for word in ["caller", "as above", "as in "] {
                assert!(!text.contains(word), "{name}:{}: {text}", i + 1);
            }
        }
    }
    assert!(seen > 200, "only {seen} comments were found");
}

/// The unsafe blocks of a file: their first lines, and how many lines they have inside.
fn unsafe_blocks(lines: &[String]) -> Vec<(usize, usize)> {
    let begins = lines.iter().enumerate();
    let begins = begins.filter(|(_, line)| line.ends_with("unsafe {"));
    let blocks = begins.map(|(i, line)| {
        let indent = line.len() - line.trim_start().len();
        let end = format!("{}}}", &line[..indent]);
        let inside = lines[i + 1..].iter().take_while(|l| !l.starts_with(&end));
        (i + 1, inside.count())
    });
    blocks.collect()
}

#[test]
fn unsafe_blocks_are_small() {
    const LONGEST: usize = 15;
    for (name, lines) in without_kernels() {
        for (line, length) in unsafe_blocks(&lines) {
            assert!(length <= LONGEST, "{name}:{line}: {length} lines");
        }
    }
}

/// Where loads and stores stand beside each other, in inner loops, one block is around them all;
/// what is set up before them has its own, small ones.
#[test]
fn few_unsafe_blocks_of_kernels_are_long() {
    const LONG: usize = 25;
    let mut long = Vec::new();
    for (name, lines) in sources() {
        if !name.starts_with("kernels/") {
            continue;
        }
        let all = unsafe_blocks(&lines).into_iter();
        long.extend(all.filter(|b| b.1 > LONG).map(|b| (b.1, name.clone(), b.0)));
    }
    long.sort();
    assert!(long.len() <= 60, "{} blocks: {long:?}", long.len());
}
