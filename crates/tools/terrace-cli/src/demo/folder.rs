//! The folder of the databases, which goes away however the demonstration ends.

use anyhow::{Context, Result, bail};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// The database with two tiers.
pub const TWO: &str = "two-tiers";
/// The database with one.
pub const ONE: &str = "one-tier";
/// That of the other store.
pub const OTHER: &str = "redb";

/// The folder, and the process that deletes it if this one is interrupted or killed.
pub struct Folder {
    pub path: PathBuf,
    keep: bool,
    janitor: Option<Child>,
}

impl Folder {
    pub fn create(path: &Path, keep: bool) -> Result<Self> {
        if path.exists() {
            bail!(
                "{} is there already: delete it if an earlier demo has left it, or choose \
                 another folder with --dir",
                path.display()
            );
        }
        let made = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .map_or(Ok(()), std::fs::create_dir_all)
            // Not if another demo has made it meanwhile.
            .and_then(|()| std::fs::create_dir(path));
        made.with_context(|| {
            format!(
                "cannot create the folder {}; choose another with --dir",
                path.display()
            )
        })?;
        let mut folder = Folder {
            path: path.into(),
            keep,
            janitor: None,
        };
        if !keep {
            folder.janitor = start_janitor(path);
        }
        Ok(folder)
    }

    /// Deletes one of the databases.
    pub fn remove_part(&self, name: &str) -> Result<()> {
        let path = self.path.join(name);
        let context = || format!("cannot delete {}; delete it by hand", path.display());
        std::fs::remove_dir_all(&path).with_context(context)
    }

    /// Deletes it, unless it is to be kept.
    pub fn remove(self, say: impl Fn(&str) -> Result<()>) -> Result<()> {
        if self.keep {
            let path = self.path.display();
            return say(&format!(
                "\nThe databases are in {path}. Look into them, for example:\n  \
                 terrace scan {path}/{TWO} --prefix bako --limit 5\n  \
                 terrace stat {path}/{TWO}"
            ));
        }
        std::fs::remove_dir_all(&self.path)
            .with_context(|| format!("cannot delete {}; delete it by hand", self.path.display()))
    }
}

impl Drop for Folder {
    /// Also when something went wrong on the way.
    fn drop(&mut self) {
        if !self.keep {
            // The error that brought us here matters more than one of cleaning up.
            let _ = std::fs::remove_dir_all(&self.path);
        }
        if let Some(mut janitor) = self.janitor.take() {
            // Its input ends with this, and so does it.
            drop(janitor.stdin.take());
            let _ = janitor.wait();
        }
    }
}

/// Starts a process that waits for the end of this one. It is there for interruptions only: without
/// it everything works, so that it cannot be started is no error.
fn start_janitor(path: &Path) -> Option<Child> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command
        .args(["demo", "--janitor"])
        .arg(std::path::absolute(path).ok()?)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // A group of its own: an interruption from the terminal is not for it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().ok()
}

/// In that process: deletes the databases, and the folder if nothing else is in it.
pub fn janitor(path: &Path) -> Result<ExitCode> {
    // The input ends when the process that holds its other end does, however that happens.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    for _ in 0..50 {
        for name in [TWO, ONE, OTHER] {
            let _ = std::fs::remove_dir_all(path.join(name));
        }
        let _ = std::fs::remove_dir(path);
        if ![TWO, ONE, OTHER]
            .iter()
            .any(|name| path.join(name).exists())
        {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(ExitCode::SUCCESS)
}
