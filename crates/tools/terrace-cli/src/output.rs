//! The standard output, fast for many lines, and the standard error. Quiet when their reader has gone.

use std::io::{self, BufWriter, StdoutLock, Write};

/// Why nothing more could be printed.
#[derive(Debug)]
struct Unwritten(io::Error);

impl std::fmt::Display for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write to the standard output: {}", self.0)
    }
}

impl std::error::Error for Unwritten {}

/// The standard output, whose errors say that they are its own.
pub struct Output(StdoutLock<'static>);

fn unwritten(error: io::Error) -> io::Error {
    match error.kind() {
        // To be tried again.
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, Unwritten(error)),
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(unwritten)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(unwritten)
    }
}

/// Whether an error is one of the standard output.
pub fn is_unwritten(error: &anyhow::Error) -> bool {
    let io = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    { io }.any(|cause| cause.get_ref().is_some_and(|inner| inner.is::<Unwritten>()))
}

/// The standard output with a buffer. To be flushed by [`Write::flush`], which can fail.
pub fn stdout() -> BufWriter<Output> {
    BufWriter::with_capacity(64 << 10, Output(io::stdout().lock()))
}

/// Prints a text, and fails if that fails, where `println!` would panic.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints what was found by a command that says by its exit code what that is: that no process reads the
/// text does not change it.
pub fn print_found(text: &str) -> anyhow::Result<()> {
    match print(text) {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        printed => printed,
    }
}

/// Prints a line on the standard error. That no process reads there must neither end the work nor change
/// how it ends, so a failure is not told: there is nowhere to tell it, and `eprintln!` would panic.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// An error with its causes; a cause that the line before it has told already is left out.
pub fn told_once(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = match cause.downcast_ref::<crate::engine::Error>() {
            // The store says how a program gives it more.
            Some(crate::engine::Error::MemoryTooSmall {
                what,
                given,
                needed,
            }) => format!(
                "{given} bytes of memory are too few: {what} needs at least {needed} bytes; give it \
                 more with --memory"
            ),
            _ => cause.to_string(),
        };
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether an error only says that no process reads the output any more: not that of another pipe or
/// socket.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    is_unwritten(error)
        && error
            .chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn too_little_memory_is_told_in_the_words_of_the_command() {
        let error = anyhow::Error::new(crate::engine::Error::MemoryTooSmall {
            what: "a page".into(),
            given: 1,
            needed: 2,
        });
        let told = told_once(&error.context("line 7"));
        assert!(told.starts_with("line 7: 1 bytes of memory"), "{told}");
        assert!(told.contains("--memory"), "{told}");
        assert!(!told.contains("Options::"), "{told}");
    }

    #[test]
    fn an_error_is_told_once() {
        let error = anyhow!("no such file")
            .context("creating x failed: no such file")
            .context("cannot open x");
        let text = "cannot open x: creating x failed: no such file";
        assert_eq!(told_once(&error), text);
    }
}
