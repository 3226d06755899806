//! The workspace passes every check, and every check finds what is planted for it.

use terrace_tidy::{CHECKS, Complaints, Tree};

const DANGER: &str = concat!("un", "safe");

fn workspace() -> Tree {
    Tree::load().expect("the workspace can be read")
}

#[test]
fn the_workspace_is_tidy() {
    let tree = workspace();
    assert!(
        tree.files.len() > 100,
        "only {} files were found",
        tree.files.len()
    );
    let mut all = Complaints::new();
    for (name, check) in CHECKS {
        all.extend(
            check(&tree)
                .into_iter()
                .map(|complaint| format!("[{name}] {complaint}")),
        );
    }
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

/// Puts a file there and returns what the named check says of it that it did not say before.
fn planted(name: &str, path: &str, text: &str) -> Complaints {
    planted_all(name, &[(path, text)])
}

/// The same with several files.
fn planted_all(name: &str, files: &[(&str, &str)]) -> Complaints {
    let (_, check) = CHECKS
        .iter()
        .find(|(found, _)| *found == name)
        .expect("a check of this name");
    let mut tree = workspace();
    if name.starts_with("circles of") {
        // Circles lie within a crate, and all files of all crates take seconds to parse.
        let path = files[0].0;
        let planted = path.split_at(path.find("/src/").expect("a source")).0;
        tree.files.retain(|file| file.path.starts_with(planted));
    }
    let before = check(&tree);
    for (path, text) in files {
        tree.put(path, text);
    }
    let mut after = check(&tree);
    after.retain(|complaint| !before.contains(complaint));
    after
}

/// The file as it is, with something in place of something else.
fn changed(path: &str, from: &str, to: &str) -> String {
    let tree = workspace();
    let text = &tree.file(path).expect("a file of this path").text;
    assert!(text.contains(from), "{path} has no {from:?}");
    text.replacen(from, to, 1)
}

#[test]
fn a_dependency_that_points_upwards_is_found() {
    let path = "crates/engine/terrace-pages/Cargo.toml";
    let line = "[dependencies]\nterrace-tier = { path = \"../terrace-tier\" }";
    let said = planted("layers", path, &changed(path, "[dependencies]", line));
    assert_eq!(said.len(), 1, "{said:?}");
    let table = "[dependencies.terrace-wal]\npath = \"../terrace-wal\"\n\n[features]";
    let said = planted("layers", path, &changed(path, "[features]", table));
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn the_simulated_disk_in_the_product_is_found() {
    let path = "crates/engine/terrace-wal/Cargo.toml";
    let line = "[dependencies]\nterrace-sim = { path = \"../terrace-sim\" }";
    let said = planted("layers", path, &changed(path, "[dependencies]", line));
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_crate_outside_the_layers_is_found() {
    let said = planted(
        "layers",
        "crates/engine/terrace-new/Cargo.toml",
        "[package]\n",
    );
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_crate_that_forbids_nothing_is_found() {
    let said = planted(
        "unsafe code is forbidden by every other crate",
        "crates/engine/terrace-tier/src/lib.rs",
        "//! A root.\n",
    );
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn code_that_may_not_be_there_is_found() {
    let text =
        format!("//! A file.\nfn f() {{\n    // SAFETY: none.\n    {DANGER} {{ g() }}\n}}\n");
    let name = "unsafe code is in files where it is allowed";
    let said = planted(name, "crates/engine/terrace-tier/src/new.rs", &text);
    assert_eq!(said.len(), 1, "{said:?}");
    let said = planted(
        name,
        "crates/engine/terrace-pages/src/frames/table.rs",
        "//! Without any.\n",
    );
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn code_without_its_reason_is_found() {
    let path = "crates/engine/terrace-pages/src/frames/region.rs";
    let name = "unsafe code says why it holds";
    let said = planted(name, path, &changed(path, "SAFETY:", "Trust me:"));
    assert_eq!(said.len(), 1, "{said:?}");
    let text = format!("//! A file.\n/// Doc.\npub {DANGER} fn f() {{}}\n");
    let said = planted(name, "crates/engine/terrace-pages/src/new.rs", &text);
    assert_eq!(said.len(), 1, "{said:?}");
    // Names that are ours are given out without one, and others are not.
    for (exported, complaints) in [("terrace_f", 0), ("malloc", 1)] {
        let text =
            format!("//! A file.\n#[{DANGER}(no_mangle)]\npub extern \"C\" fn {exported}() {{}}\n");
        let said = planted(name, "crates/engine/terrace-pages/src/new.rs", &text);
        assert_eq!(said.len(), complaints, "{said:?}");
    }
}

#[test]
fn a_new_circle_of_files_is_found() {
    let name = "circles of files";
    let path = "crates/engine/terrace-wal/src/lsn.rs";
    let text = &workspace()
        .file(path)
        .expect("a file of this path")
        .text
        .clone();
    let said = planted(name, path, &format!("{text}\nuse crate::log::Log as _;\n"));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("lsn.rs"), "{said:?}");
    // Tests may use anything.
    let tests = format!("{text}\nmod tests {{\n    use crate::log::Log as _;\n}}\n");
    assert_eq!(planted(name, path, &tests), Complaints::new());
}

#[test]
fn a_circle_that_grows_is_found() {
    let path = "crates/engine/terrace-tier/src/policy.rs";
    let text = &workspace()
        .file(path)
        .expect("a file of this path")
        .text
        .clone();
    let more = format!("{text}\nuse crate::tiered::Tiered as _;\n");
    let said = planted("circles of files", path, &more);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_circle_by_methods_is_found() {
    let name = "circles of files by methods";
    let (first, second) = (
        "crates/engine/terrace-access/src/first.rs",
        "crates/engine/terrace-access/src/second.rs",
    );
    // The first calls by the type of a parameter, the second by a name that one type alone has.
    let of_first = "//! A file.\npub struct First;\nimpl First {\n    \
        pub fn begin_planted(&self, second: &Second) { second.get() }\n}\n";
    let of_second = "//! A file.\npub struct Second;\nimpl Second {\n    \
        pub fn get(&self) { some().begin_planted(self) }\n}\n";
    let said = planted_all(name, &[(first, of_first), (second, of_second)]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("2 call methods of one another: first.rs, second.rs"),
        "{said:?}"
    );
    // A path of a type, and `self` of a type whose impl is in several files.
    let of_second = "//! A file.\nuse super::First;\npub struct Second;\nimpl Second {\n    \
        pub fn get(&self) { call(First::begin_planted) }\n}\n";
    assert_eq!(
        planted_all(name, &[(first, of_first), (second, of_second)]).len(),
        1
    );
    let of_first =
        "//! A file.\npub struct First;\nimpl First {\n    pub fn get(&self) { self.set() }\n}\n";
    let of_second = "//! A file.\nimpl First {\n    pub fn set(&self) { Self::get(self) }\n}\n";
    assert_eq!(
        planted_all(name, &[(first, of_first), (second, of_second)]).len(),
        1
    );
    // What only tests call, and what a type of the standard library may have.
    for back in [
        "//! A file.\n#[cfg(test)]\nimpl First {\n    pub fn set(&self) { self.get() }\n}\n",
        "//! A file.\nimpl First {\n    pub fn set(&self) { some().get() }\n}\n",
        "//! A file.\nimpl First {\n    pub fn set(&self, other: &Other) { other.get() }\n}\n",
    ] {
        let said = planted_all(name, &[(first, of_first), (second, back)]);
        assert_eq!(said, Complaints::new());
    }
}

#[test]
fn a_circle_of_folders_is_found() {
    let name = "circles of folders";
    let (first, second) = (
        "crates/engine/terrace-access/src/first/inner.rs",
        "crates/engine/terrace-access/src/second/inner.rs",
    );
    let others = [
        (
            "crates/engine/terrace-access/src/first/mod.rs",
            "//! A file.\n",
        ),
        (
            "crates/engine/terrace-access/src/second/mod.rs",
            "//! A file.\n",
        ),
    ];
    // No two files need one another, but the folders do.
    let back = "//! A file.\nuse crate::first::One;\n";
    let there = (first, "//! A file.\nuse crate::second::One;\n");
    let said = planted_all(name, &[there, (second, back), others[0], others[1]]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("2 are folders that need one another: first, second"),
        "{said:?}"
    );
    let said = planted_all(name, &[there, others[0], others[1]]);
    assert_eq!(said, Complaints::new());
}

#[test]
fn a_circle_of_folders_that_grows_is_found() {
    let path = "crates/engine/terrace-pages/src/planted.rs";
    let text = "//! A file.\nuse crate::store::PageStore;\n";
    let name = "circles of folders";
    assert_eq!(planted(name, path, text), Complaints::new());
    let options = "crates/engine/terrace-pages/src/parts/options.rs";
    let needs = changed(options, "\nuse ", "\nuse crate::planted::One;\nuse ");
    let said = planted_all(name, &[(path, text), (options, &needs)]);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_map_of_the_code_that_nobody_reads_is_found() {
    let path = "ARCHITECTURE.md";
    let text = workspace()
        .file(path)
        .expect("a file of this path")
        .text
        .repeat(2);
    assert_eq!(planted("length of the map", path, &text).len(), 1);
}

#[test]
fn a_long_file_is_found() {
    let text = format!("//! A file.\n{}", "fn f() {}\n".repeat(700));
    let said = planted(
        "length of files",
        "crates/engine/terrace-tier/src/new.rs",
        &text,
    );
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_file_without_its_job_is_found() {
    let said = planted(
        "opening lines",
        "crates/engine/terrace-tier/src/new.rs",
        "use std::fmt;\n",
    );
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_word_of_one_machine_is_found() {
    let text = concat!("//! See /wo", "rk/notes.\n");
    let name = "words that do not belong here";
    assert_eq!(
        planted(name, "crates/engine/terrace-tier/src/new.rs", text).len(),
        1
    );
    let text = concat!("Made in this ses", "sion.\n");
    assert_eq!(planted(name, "docs/new.md", text).len(), 1);
}

#[test]
fn a_link_to_nowhere_is_found() {
    let text = "See [this](nowhere.md), [that](../README.md) and [those](https://example.org).\n";
    let said = planted("links of documents", "docs/new.md", text);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_quoted_path_that_leads_nowhere_is_found() {
    let name = "paths that documents quote";
    for gone in [
        "terrace-pages/src/nowhere.rs",
        "crates/engine/terrace-pages/src/nowhere/",
        "terrace-pages/src/{store,nowhere}.rs",
        "docs/nowhere*.md",
        "nowhere.rs",
        "scripts/nowhere",
    ] {
        let said = planted(name, "docs/new.md", &format!("See `{gone}`.\n"));
        assert_eq!(said.len(), 1, "{gone}: {said:?}");
    }
    // In full, short, both of two, any of some, beside the document, a test in a file; and what is none of ours.
    let text = "`crates/engine/terrace-pages/src/store.rs` `terrace-pages/src/` `terrace-wal/src/{log,commit}.rs`\n\
        `docs/format*.md` `guide/index.md` `store.rs` `terrace/tests/disk/a_failing_call_loses_nothing.rs::any` `/var/x.toml` `a/b` `lib/`\n\
        ```\nlet path = `terrace-pages/src/nowhere.rs`;\n```\n";
    assert_eq!(planted(name, "docs/new.md", text), Complaints::new());
}

#[test]
fn a_tour_that_is_no_program_is_found() {
    let path = "README.md";
    let text = changed(path, "db.tree(\"users\")", "db.bush(\"users\")");
    let said = planted("the README's tour is the example's", path, &text);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_promise_without_its_test_is_found() {
    let path = "docs/promises.md";
    let text = changed(
        path,
        "::values_survive_a_clean_close",
        "::values_live_for_ever",
    );
    let said = planted("the promises name tests that exist", path, &text);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_page_of_the_guide_that_is_long_or_forgotten_is_found() {
    let path = "docs/guide/index.md";
    let short = "pages of the guide are short";
    let text = format!("# A page\n\n{}\n", "A sentence.\n".repeat(60));
    assert_eq!(planted(short, path, &text).len(), 1);
    let text = "# A page\n\nA sentence.\n\n".repeat(400);
    assert_eq!(planted(short, path, &text).len(), 1);
    let text = "A sentence.\n\n".repeat(600);
    assert_eq!(planted(short, "README.md", &text).len(), 1);
    let path = "docs/guide/recipes/new.md";
    let said = planted("pages of the guide are in the book", path, "# A page\n");
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn a_decision_that_is_long_or_does_not_begin_with_what_holds_is_found() {
    let path = "docs/decisions/new.md";
    let begins = "# A decision\n\n**What holds today.** It is so (by rule 1). And so.\n";
    let long = format!("{begins}\n{}\n", "A sentence.\n".repeat(60));
    let short = "paragraphs of the decisions are short";
    assert_eq!(planted(short, path, &long).len(), 1);
    // Items count each, also numbered ones.
    let items = format!("{begins}\n{}\n", "1. A sentence.\n".repeat(60));
    assert_eq!(planted(short, path, &items), Complaints::new());
    let name = "decisions begin with what holds today";
    assert_eq!(planted(name, path, begins), Complaints::new());
    let more = begins.replace("And so.", "And so. And so. And so.");
    for text in ["# A decision\n\nReasons.\n", &begins[2..], &more] {
        let said = planted(name, path, text);
        assert_eq!(said.len(), 1, "{text}: {said:?}");
    }
}

#[test]
fn a_program_of_the_guide_that_no_test_runs_is_found() {
    let programs = "programs of the guide are run";
    let block = |kind: &str| format!("# A page\n\n```{kind}\nx\n```\n");
    let path = "docs/guide/recipes/new.md";
    for kind in ["rust", "rust,ignore", "bash", ""] {
        let said = planted(programs, path, &block(kind));
        assert_eq!(said.len(), 1, "{kind}: {said:?}");
    }
    assert!(planted(programs, path, &block("python")).is_empty());
    assert!(planted(programs, "docs/guide/rust.md", &block("rust")).is_empty());
}
