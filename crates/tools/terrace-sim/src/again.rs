//! A test that runs again in a process of its own: for what concerns the whole process, or ends it.

use std::io::Result;
use std::process::Command;

/// The command that runs one test of this test binary, alone and in another process; what it is to do there it is
/// told by variables of its environment. `module` is the [`module_path`] of the test, `test` its name in there.
///
/// # Errors
/// When the binary is not to be found.
pub fn again(module: &str, test: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", &name_of(module, test), "--nocapture"]);
    Ok(command)
}

/// What the harness calls it: without the crate.
fn name_of(module: &str, test: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{test}"),
        None => test.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHILD: &str = "TERRACE_AGAIN_TEST";

    #[test]
    fn a_test_finds_itself() {
        if std::env::var_os(CHILD).is_some() {
            std::process::exit(7);
        }
        let mut command = again(module_path!(), "a_test_finds_itself").unwrap();
        let status = command.env(CHILD, "1").status().unwrap();
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn names_are_without_the_crate() {
        assert_eq!(name_of("some_test", "works"), "works");
        assert_eq!(name_of("tests::some::part", "works"), "some::part::works");
    }
}
