//! Progress bars on the standard error, where they do not mix with results.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// A bar over a number of bytes.
pub fn bytes(total: u64, quiet: bool) -> ProgressBar {
    styled(
        total,
        quiet,
        "{msg} [{bar:32}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
    )
}

/// A bar over a number of things.
pub fn things(total: u64, quiet: bool) -> ProgressBar {
    styled(
        total,
        quiet,
        "{prefix:.bold} [{bar:32}] {percent:>3} %  {msg}",
    )
}

/// Something that turns while the end cannot be foreseen.
pub fn spinner(quiet: bool) -> ProgressBar {
    let bar = styled(0, quiet, "{spinner} {msg}");
    if !quiet {
        bar.enable_steady_tick(Duration::from_millis(100));
    }
    bar
}

/// Says how many things there have been, seldom enough that it costs nothing.
pub fn counted(bar: &ProgressBar, count: u64, what: &str) {
    if count.is_multiple_of(10_000) {
        bar.set_message(format!("{count} {what}"));
    }
}

fn styled(total: u64, quiet: bool, template: &str) -> ProgressBar {
    // A bar is drawn only on a terminal; elsewhere nothing is.
    let target = if quiet {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr_with_hz(10)
    };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    // A template that cannot be read would be a mistake here: the bar without style is no harm.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
