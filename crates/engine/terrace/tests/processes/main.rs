//! Processes around a database: one that is killed, others that ask, and what a program may do around an open
//! database: change its working directory, fork, panic. What belongs to the whole process is done in a process of
//! its own: this test binary itself, told by an environment variable what to be.

#[path = "../common/mod.rs"]
mod common;

mod a_killed_process_keeps_its_word;
mod forks;
mod other_processes_ask_for_figures;
mod panics;
mod working_directory;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use terrace_sim::again;

const CHILD: &str = "TERRACE_PROGRAM_TEST_DIRECTORY";

/// The directory to work in, if this is such a process.
fn child() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// Runs the test of this name, which ends as its [`child`], in a process of its own.
fn run_child(test: &str, directory: &Path) -> ExitStatus {
    again(module_path!(), test)
        .unwrap()
        .args(["--test-threads", "1"])
        .env(CHILD, directory)
        .status()
        .unwrap()
}
