//! What packages have beside the program: completions for shells, and the manual's pages.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::Cli;
use crate::output::print;

/// `terrace completions`
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "terrace", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace man`
pub fn pages(folder: &Path) -> Result<ExitCode> {
    let failed = || format!("cannot write pages of the manual to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}
