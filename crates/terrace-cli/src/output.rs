//! The standard output: fast for many lines, and quiet when its reader has gone.

use std::io::{self, BufWriter, StdoutLock, Write};

/// The standard output with a buffer. To be flushed by [`Write::flush`], which can fail.
pub fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Prints a text, and fails if that fails, where `println!` would panic.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Whether an error only says that nobody reads the output any more.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
