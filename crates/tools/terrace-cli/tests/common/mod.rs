//! Runs the command in a folder of its own.
#![allow(dead_code)] // Each test file uses its own part of this.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is deleted at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Beside the build, not in the folder for temporary files: that may be in memory.
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), content).unwrap();
    }

    /// What is in a folder.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join(folder)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Flips a bit wherever the data file of a database holds these bytes.
    pub fn damage(&self, db: &str, bytes: &[u8]) {
        let path = self.0.join(db).join("data");
        let mut data = std::fs::read(&path).unwrap();
        let mut from = 0;
        while let Some(at) = data[from..].windows(bytes.len()).position(|w| w == bytes) {
            data[from + at] ^= 1;
            from += at + 1;
        }
        assert!(from > 0, "{db} does not hold {}", bytes.escape_ascii());
        std::fs::write(&path, data).unwrap();
    }

    /// Runs the command, without input.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs the command.
    pub fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        self.run_into(args, input, Stdio::piped(), Stdio::piped())
    }

    /// Runs the command with a standard error that no process reads.
    pub fn run_unheard(&self, args: &[&str], input: &[u8]) -> Ran {
        self.run_into(args, input, Stdio::piped(), unread())
    }

    /// Runs the command with a standard output that no process reads.
    pub fn run_unseen(&self, args: &[&str]) -> Ran {
        self.run_into(args, b"", unread(), Stdio::piped())
    }

    /// Runs the command where no file can be written to behind its first 8 KiB: a small log can, and of
    /// the two superblocks the first.
    pub fn run_without_space(&self, args: &[&str]) -> Ran {
        let mut shell = Command::new("sh");
        let limited = "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"";
        shell.args(["-c", limited, env!("CARGO_BIN_EXE_terrace")]);
        self.run_as(shell, args, b"", Stdio::piped(), Stdio::piped())
    }

    fn run_into(&self, args: &[&str], input: &[u8], out: Stdio, error: Stdio) -> Ran {
        let command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        self.run_as(command, args, input, out, error)
    }

    fn run_as(
        &self,
        mut command: Command,
        args: &[&str],
        input: &[u8],
        out: Stdio,
        error: Stdio,
    ) -> Ran {
        let mut child = command
            .args(args)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(error)
            .spawn()
            .unwrap();
        // A command that does not read its input may close it.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!error.contains("panicked"), "{args:?}: {error}");
        Ran {
            code: output.status.code(),
            out: output.stdout,
            error,
        }
    }
}

/// A pipe whose reader has gone before anything is written.
fn unread() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What came of it.
pub struct Ran {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub error: String,
}

impl Ran {
    /// The output of a command that must have worked.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.error);
        std::str::from_utf8(&self.out).unwrap()
    }

    /// The message of a command that must have failed, with all of these words in it.
    #[track_caller]
    pub fn fails(&self, words: &[&str]) -> &str {
        assert_eq!(self.code, Some(1), "{}", self.error);
        for word in words {
            assert!(
                self.error.contains(word),
                "{word:?} is missing in: {}",
                self.error
            );
        }
        &self.error
    }

    /// The JSON object that a command has printed.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.ok()).unwrap()
    }
}
