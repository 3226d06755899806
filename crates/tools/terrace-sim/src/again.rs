//! A test that runs again in a process of its own: for what concerns the whole process, or ends it.

use std::io::Result;
use std::process::{Command, Output};
use std::sync::Mutex;

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

/// Which test [`alone`](crate::alone) has started this process for.
const ALONE: &str = "TERRACE_TEST_ALONE";

/// See [`alone`](crate::alone): `here` is the path of a function in the test.
///
/// # Panics
/// When the test fails in its process, or that cannot be started.
pub fn is_alone(here: &str) -> bool {
    let (test, _) = here.rsplit_once("::").expect("a function in a test");
    if std::env::var_os(ALONE).is_some_and(|started| started == test) {
        return true;
    }
    let (module, name) = test.rsplit_once("::").expect("a test in a crate");
    let output =
        again(module, name).and_then(|mut test_alone| test_alone.env(ALONE, test).output());
    let output = output.expect("the test's own program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    // A child that runs nothing ends well, too.
    let ran = said.contains("1 passed");
    assert!(output.status.success() && ran, "{test}, alone: {said}{why}");
    false
}

/// Whether the test in which this stands is alone in its process, as one must be that plants a fault in a whole one
/// or counts what all threads do. If not, it runs the test again in a process of its own, and passes if that does:
/// `if !alone!() { return; }`.
#[macro_export]
macro_rules! alone {
    () => {{
        fn here() {}
        $crate::is_alone(std::any::type_name_of_val(&here))
    }};
}

/// Runs one test once for each of `values`, which `variable` of the environment tells it, as many at once as there
/// are processors; returns what each said and how it ended, in the order of the values.
///
/// # Errors
/// When a process cannot be started.
pub fn again_for_each(
    (module, test): (&str, &str),
    variable: &str,
    values: &[String],
) -> Result<Vec<Output>> {
    let done = Mutex::new(Vec::new());
    let next = Mutex::new(values.iter().enumerate());
    let work = || -> Result<()> {
        loop {
            let Some((i, value)) = next.lock().unwrap_or_else(|e| e.into_inner()).next() else {
                return Ok(());
            };
            let output = again(module, test)?.env(variable, value).output()?;
            done.lock()
                .unwrap_or_else(|e| e.into_inner())
                .push((i, output));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut ended = workers.into_iter().map(|worker| worker.join());
        ended.try_for_each(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, output)| output).collect())
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
    fn a_test_runs_for_each_value() {
        if let Ok(value) = std::env::var(CHILD) {
            std::process::exit(value.parse().unwrap());
        }
        let values: Vec<String> = (0..9).map(|i| i.to_string()).collect();
        let outputs = again_for_each(
            (module_path!(), "a_test_runs_for_each_value"),
            CHILD,
            &values,
        );
        let codes: Vec<_> = outputs.unwrap().iter().map(|o| o.status.code()).collect();
        assert_eq!(codes, (0..9).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_test_is_alone_once() {
        let before = std::env::var_os(ALONE).is_some();
        assert_eq!(crate::alone!(), before);
    }

    #[test]
    #[should_panic = "alone"]
    fn one_that_fails_alone_fails() {
        if crate::alone!() {
            std::process::exit(7);
        }
    }

    #[test]
    fn names_are_without_the_crate() {
        assert_eq!(name_of("some_test", "works"), "works");
        assert_eq!(name_of("tests::some::part", "works"), "some::part::works");
    }
}
