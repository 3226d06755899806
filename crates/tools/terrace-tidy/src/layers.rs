//! The order of the layers: which crate may know which.

use crate::{Complaints, Tree};

/// What each crate may depend on, of the workspace's own. ARCHITECTURE.md has the drawing.
const ALLOWED: &[(&str, &[&str])] = &[
    ("terrace-base", &[]),
    ("terrace-wal", &["terrace-base"]),
    ("terrace-pages", &["terrace-base"]),
    ("terrace-access", &["terrace-base", "terrace-pages"]),
    (
        "terrace-methods",
        &["terrace-access", "terrace-base", "terrace-pages"],
    ),
    (
        "terrace-tier",
        &["terrace-access", "terrace-base", "terrace-pages"],
    ),
    (
        "terrace",
        &[
            "terrace-access",
            "terrace-base",
            "terrace-methods",
            "terrace-pages",
            "terrace-tier",
            "terrace-wal",
        ],
    ),
    ("terrace-metrics", &["terrace"]),
    ("terrace-view", &["terrace", "terrace-metrics"]),
    (
        "terrace-ffi",
        &["terrace", "terrace-base", "terrace-metrics"],
    ),
    ("terrace-c", &["terrace-ffi"]),
    ("terrace-serve", &["terrace"]),
    ("terrace-bench", &[]),
    (
        "terrace-cli",
        &[
            "terrace",
            "terrace-bench",
            "terrace-place",
            "terrace-pm",
            "terrace-pm-bench",
            "terrace-serve",
            "terrace-view",
        ],
    ),
    ("terrace-sim", &["terrace-base"]),
    (
        "terrace-measure",
        &[
            "terrace",
            "terrace-access",
            "terrace-base",
            "terrace-methods",
            "terrace-pages",
            "terrace-sim",
            "terrace-tier",
            "terrace-wal",
        ],
    ),
    ("terrace-mem", &["terrace-place"]),
    ("terrace-rows", &["terrace", "terrace-mem"]),
    ("terrace-pm", &["terrace-base"]),
    ("terrace-pm-bench", &["terrace-base", "terrace-pm"]),
    ("terrace-mem-bench", &["terrace-mem", "terrace-place-bench"]),
    (
        "oltp",
        &["terrace", "terrace-bench", "terrace-mem", "terrace-rows"],
    ),
    ("cores", &["terrace"]),
    ("terrace-papers", &[]),
    ("peers", &["terrace-bench", "terrace-papers"]),
    ("terrace-place", &[]),
    ("terrace-place-bench", &["terrace-mem", "terrace-place"]),
    ("terrace-tidy", &[]),
];

/// What tests may use besides.
const FOR_TESTS: &[&str] = &["terrace-methods", "terrace-sim", "terrace-wal"];

/// The crates that one may depend on.
pub fn may_need(name: &str) -> &'static [&'static str] {
    let known = ALLOWED.iter().find(|(known, _)| *known == name);
    known.map_or(&[], |(_, allowed)| allowed)
}

/// Dependencies point downwards only.
pub fn layers(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    for file in tree
        .files
        .iter()
        .filter(|f| f.path.ends_with("/Cargo.toml"))
    {
        let Some((name, "Cargo.toml")) = file.in_crate() else {
            continue;
        };
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!(
                "{}: the crate has no place in the order of layers",
                file.path
            ));
            continue;
        };
        let mut section = "";
        for (number, line) in file.lines() {
            let line = line.trim();
            if line.starts_with('[') {
                section = line.trim_matches(['[', ']']);
                // The form `[dependencies.terrace-base]` names it in the header.
                if let Some((kind, named)) = section.rsplit_once('.') {
                    check(
                        kind,
                        named,
                        allowed,
                        name,
                        (&file.path, number),
                        &mut complaints,
                    );
                }
                continue;
            }
            let named = line.split(['=', '.', ' ']).next().unwrap_or_default();
            check(
                section,
                named,
                allowed,
                name,
                (&file.path, number),
                &mut complaints,
            );
        }
    }
    complaints
}

fn check(
    section: &str,
    named: &str,
    allowed: &[&str],
    name: &str,
    (path, line): (&str, usize),
    complaints: &mut Complaints,
) {
    let ours = named == "terrace" || named.starts_with("terrace-");
    let for_tests = section.ends_with("dev-dependencies");
    if !ours || !section.ends_with("dependencies") || allowed.contains(&named) {
        return;
    }
    if for_tests && (FOR_TESTS.contains(&named) || named == name) {
        return;
    }
    complaints.push(format!("{path}:{line}: {name} may not depend on {named}"));
}
