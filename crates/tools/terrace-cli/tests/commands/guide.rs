//! The command lines of the guide (`docs/guide`) are run as they stand there, and print what stands below them.
//!
//! In a block of `console`, lines that begin with `$ ` are commands, run one after the other in the folder of
//! their page. What follows is all that they print; a line `...` stands for any lines. A command with nothing
//! below it prints nothing. A command that ends with `&` goes on until the end of its page.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::Folder;

/// What stands before the exit code of a command in what a page prints.
const END: &str = "@@ ended with ";
/// The port that pages name; each run takes a free one instead.
const PORT: &str = "6380";

struct Step {
    line: usize,
    command: String,
    printed: Vec<String>,
}

/// The commands of a page, in order.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(kind) => inside = !inside && kind == "console",
            None if !inside => {}
            None => match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step {
                    line: number + 1,
                    command: command.to_owned(),
                    printed: Vec::new(),
                }),
                None => steps
                    .last_mut()
                    .expect("a command before what it prints")
                    .printed
                    .push(line.to_owned()),
            },
        }
    }
    steps
}

/// Whether lines are as they are said to be, where `...` stands for any.
fn fits(said: &[String], printed: &[&str]) -> bool {
    match said.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "..." => {
            (0..=printed.len()).any(|from| fits(rest, &printed[from..]))
        }
        Some((line, rest)) => {
            printed.first().is_some_and(|first| first == line) && fits(rest, &printed[1..])
        }
    }
}

/// Runs a page as one program of the shell, and says what was not as it stands there.
fn run(page: &str, steps: &[Step]) -> Vec<String> {
    let dir = Folder::new();
    let port = free_port().to_string();
    let mut script = String::new();
    for step in steps {
        let command = step.command.replace(PORT, &port);
        // What a command prints and what it complains about come in one order. One that goes on says so
        // by its port.
        match command.strip_suffix('&') {
            Some(server) => writeln!(
                script,
                "{server} &\nfor i in $(seq 600); do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; \
                 sleep 0.1; done"
            ),
            None => writeln!(script, "{command}"),
        }
        .unwrap();
        writeln!(script, "echo \"{END}$?\"").unwrap();
    }
    script += "kill $(jobs -p) 2>/dev/null; wait\n";
    let command = Path::new(env!("CARGO_BIN_EXE_terrace"));
    let path = std::env::var("PATH").unwrap_or_default();
    let ran = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{script}")])
        .current_dir(&dir.0)
        .env(
            "PATH",
            format!("{}:{path}", command.parent().unwrap().display()),
        )
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout).replace(&port, PORT);
    let mut parts = out.split(END);
    let mut printed = parts.next().unwrap_or_default();
    let mut wrong = Vec::new();
    for step in steps {
        let rest = parts.next().unwrap_or("? it did not end");
        let (code, next) = rest.split_once('\n').unwrap_or((rest, ""));
        let lines: Vec<&str> = printed.lines().collect();
        if code != "0" || !fits(&step.printed, &lines) {
            wrong.push(format!(
                "{page}:{}: {}\nended with {code} and printed:\n{printed}",
                step.line, step.command
            ));
        }
        printed = next;
    }
    wrong
}

/// Of five digits, which are not found in what commands print for another reason, and below those that the system
/// gives to whoever asks for any: no other process takes it between here and the command.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let n = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_001 + (n % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide");
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                pages.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    pages.sort();
    pages
}

#[test]
fn command_lines_of_the_guide_do_what_stands_below_them() {
    let has = |program: &str| Command::new(program).arg("-version").output().is_ok();
    let (has_redis, has_sqlite) = (has("redis-cli"), has("sqlite3"));
    let mut wrong = Vec::new();
    let mut all = 0;
    for (page, text) in pages() {
        let mut steps = steps(&text);
        all += steps.len();
        if !has_redis {
            // The client of others; what the server answers is tested elsewhere, too.
            steps.retain(|step| !step.command.starts_with("redis-cli"));
        }
        if !has_sqlite && steps.iter().any(|step| step.command.contains("sqlite")) {
            // All that follows is about what its files hold; the import itself is tested elsewhere, too.
            continue;
        }
        wrong.extend(run(&page, &steps));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(all >= 40, "{all} commands");
}

#[test]
fn a_command_line_that_prints_something_else_is_found() {
    let page = |text: &str| run("page", &steps(text)).len();
    assert_eq!(page("```console\n$ echo a; echo b\na\nb\n```\n"), 0);
    assert_eq!(page("```console\n$ echo a; echo b\n...\nb\n```\n"), 0);
    assert_eq!(page("```console\n$ echo a; echo b\na\n```\n"), 1);
    assert_eq!(page("```console\n$ echo a\n```\n"), 1);
    assert_eq!(
        page("```console\n$ terrace get nothing.db a\n...\n```\n"),
        1
    );
    assert_eq!(page("```console\n$ exit 3\n$ echo a\na\n```\n"), 2);
}
