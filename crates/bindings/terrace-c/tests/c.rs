//! The header is what it is made of; only our names are exported; a program in C for each area, with sanitisers;
//! the examples in other languages.

use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the libraries of this build lie: beside the tests.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    deps.to_owned()
}

fn library() -> PathBuf {
    let found = libraries().join("libterrace_c.so");
    assert!(found.exists(), "{} was not built", found.display());
    found
}

/// Whether a tool is here; says so if it is not.
fn is_here(tool: &str, test: &str) -> bool {
    let found = Command::new(tool).arg("--version").output();
    // Go has another word for it.
    let found = found.is_ok_and(|ran| ran.status.success() || tool == "go");
    if !found {
        eprintln!("{test} is skipped: there is no {tool}");
    }
    found
}

fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
    out
}

const MACROS: &str = include_str!("header_tail.h");

fn header() -> String {
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        cpp_compat: true,
        include_guard: Some("TERRACE_H".into()),
        header: Some(
            "/* Terrace for C: an embedded, durable key-value engine. The guide is docs/c.md.\n\n   Calls answer a \
             terrace_status, 0 (TERRACE_OK) if all is well, and take a place for the details as their\n   last \
             argument, which may be NULL; what is stored there is given back with terrace_error_free. An answer\n   \
             that fails sets nothing else. Handles may be used by any thread, also by several at once; one that \
             was\n   closed is an error, as is one in the child of a fork. Pointers that may be NULL are said to be; \
             others that\n   are NULL are errors. All calls may wait for a disk.\n\n   Made by cbindgen; do not \
             change it by hand. */"
                .into(),
        ),
        trailer: Some(MACROS.into()),
        after_includes: None,
        style: cbindgen::Style::Type,
        usize_is_size_t: true,
        line_length: 110,
        tab_width: 4,
        documentation_style: cbindgen::DocumentationStyle::C,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h", "string.h"]
            .map(String::from)
            .to_vec(),
        no_includes: true,
        // Functions take these as numbers, so that any number is an error and nothing worse.
        export: cbindgen::ExportConfig {
            include: [
                "terrace_durability",
                "terrace_choice",
                "terrace_merge_kind",
                "terrace_change_kind",
            ]
            .map(String::from)
            .to_vec(),
            ..Default::default()
        },
        enumeration: cbindgen::EnumConfig {
            prefix_with_name: false,
            ..Default::default()
        },
        ..Default::default()
    };
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in [
        "status",
        "error",
        "raw",
        "structs",
        "options",
        "database",
        "structure",
        "record",
        "expiring",
        "removal",
        "cursor",
        "batch",
        "changes",
        "transaction",
        "snapshot",
        "backup",
        "load",
    ] {
        builder = builder.with_src(here().join(format!("src/{file}.rs")));
    }
    let mut bytes = Vec::new();
    builder.generate().unwrap().write(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn the_header_is_what_the_source_says() {
    let path = here().join("include/terrace.h");
    let made = header();
    if std::env::var_os("TERRACE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        made == checked_in,
        "include/terrace.h is not what the source says; TERRACE_WRITE_GOLDEN=1 writes it anew"
    );
}

#[test]
fn only_our_names_are_exported_and_all_of_them_are_in_the_header() {
    if !is_here("nm", "what is exported") {
        return;
    }
    let listed = ran(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library()));
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let header = std::fs::read_to_string(here().join("include/terrace.h")).unwrap();
    assert!(names.len() > 80, "{names:?}");
    for name in names {
        assert!(name.starts_with("terrace_"), "{name}");
        assert!(header.contains(&format!("{name}(")), "{name}");
    }
}

/// Compiles a program against the library and runs it in a folder of its own.
fn program(name: &str, compiler: &str, flags: &[&str]) {
    if !is_here(compiler, name) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let mut compile = Command::new(compiler);
    compile
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-pthread"])
        .args(flags)
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .arg("-I")
        .arg(here().join("include"))
        .arg("-o")
        .arg(&program)
        .arg(here().join("tests/c").join(name))
        .arg("-L")
        .arg(libraries())
        .arg("-l:libterrace_c.so")
        .arg(format!("-Wl,-rpath,{}", libraries().display()));
    ran(&mut compile);
    // The library has another name for others than the file has here.
    let soname = folder.path().join("libterrace.so.0");
    std::os::unix::fs::symlink(library(), soname).unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut run = Command::new(&program);
    run.arg(&data)
        .env("LD_LIBRARY_PATH", folder.path())
        .env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0");
    ran(&mut run);
}

#[test]
fn records() {
    program("records.c", "cc", &["-std=c99"]);
}

#[test]
fn cursors() {
    program("cursors.c", "cc", &["-std=c99"]);
}

#[test]
fn changes() {
    program("changes.c", "cc", &["-std=c99"]);
}

#[test]
fn feed() {
    program("feed.c", "cc", &["-std=c99"]);
}

#[test]
fn expiring() {
    program("expiring.c", "cc", &["-std=c99"]);
}

#[test]
fn transactions() {
    program("transactions.c", "cc", &["-std=c99"]);
}

#[test]
fn backups() {
    program("backups.c", "cc", &["-std=c99"]);
}

#[test]
fn misuse() {
    program("misuse.c", "cc", &["-std=c99"]);
}

#[test]
fn classes_of_cpp() {
    program("plain.cpp", "c++", &["-std=c++11"]);
}

/// What C says is also C++, as it is.
#[test]
fn programs_in_c_are_programs_in_cpp() {
    program(
        "changes.c",
        "c++",
        &["-std=c++11", "-x", "c++", "-Wno-deprecated"],
    );
}

/// Runs an example as `run example` does, with the library of this build.
fn example(language: &str, tools: &[&str]) {
    if !tools.iter().all(|tool| is_here(tool, language)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    std::fs::create_dir_all(prefix.join("lib")).unwrap();
    std::os::unix::fs::symlink(here().join("include"), prefix.join("include")).unwrap();
    for name in ["libterrace.so", "libterrace.so.0"] {
        std::os::unix::fs::symlink(library(), prefix.join("lib").join(name)).unwrap();
    }
    let mut run = Command::new(here().join("examples/run"));
    run.arg(language).arg(&prefix).arg(folder.path());
    let said = ran(&mut run);
    assert!(said.contains("alice lives in Berlin"), "{said}");
    assert!(said.contains("bob: "), "{said}");
}

#[test]
fn example_in_c() {
    example("c", &["cc"]);
}

#[test]
fn example_in_cpp() {
    example("cpp", &["c++"]);
}

#[test]
fn example_in_go() {
    example("go", &["cc", "go"]);
}

#[test]
fn example_in_ruby() {
    example("ruby", &["ruby"]);
}
