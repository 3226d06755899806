//! A group of processes whose memory is bounded, the system's cache of their files in it: control groups of Linux,
//! version 1 or 2, below a folder where the user may make them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// What a program may have beside the memory of its store if the least was not enough, in bytes: for stores that do
/// not keep to their number.
pub const BESIDE: [u64; 3] = [32 << 20, 96 << 20, 288 << 20];

/// A group; it goes when this is dropped.
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// One that may have this many bytes, all in all.
    ///
    /// # Errors
    /// What the system says; that no groups can be made there.
    pub fn new(parent: &Path, memory: u64) -> Result<Group> {
        let folder = parent.join(format!("terrace-peers-{}", std::process::id()));
        let group = Group { folder };
        std::fs::create_dir_all(&group.folder)
            .with_context(|| format!("cannot make the group {}", group.folder.display()))?;
        let bound = memory.to_string();
        let names = ["memory.max", "memory.limit_in_bytes"];
        let file = names.map(|name| group.folder.join(name));
        let file = file.into_iter().find(|file| file.exists());
        let file = file.with_context(|| {
            format!(
                "{} bounds no memory: give a folder of control groups that has the memory controller",
                parent.display()
            )
        })?;
        std::fs::write(&file, bound).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(group)
    }

    /// A program that runs in it from its first instruction on.
    pub fn command(&self, program: &Path, args: impl Iterator<Item = OsString>) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.folder.join("cgroup.procs"))
            .arg(program)
            .args(args);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It is empty, as the program has ended; if it is not, it stays, and says so by being there.
        let _ = std::fs::remove_dir(&self.folder);
    }
}
