//! Progress bars on the standard error, where they do not mix with results.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use terrace::{Progress, Work};

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

/// A bar for work of the store: drawn only when it is not over at once.
pub struct Late {
    quiet: bool,
    began: Instant,
    /// What it is about.
    bar: Mutex<Option<(Work, ProgressBar)>>,
}

/// Whoever waits less than this does not wonder what goes on.
const AT_ONCE: Duration = Duration::from_millis(300);

impl Late {
    /// Work that begins now.
    pub fn new(quiet: bool) -> Late {
        Late {
            quiet,
            began: Instant::now(),
            bar: Mutex::default(),
        }
    }

    /// Draws how far it has come.
    pub fn show(&self, progress: Progress) {
        if self.quiet || self.began.elapsed() < AT_ONCE {
            return;
        }
        // No thread panics while it holds it; a bar less would be no harm.
        let Ok(mut shown) = self.bar.lock() else {
            return;
        };
        if shown
            .as_ref()
            .is_none_or(|(work, _)| *work != progress.work)
        {
            clear(&mut shown);
            let bar = bar_of(progress);
            bar.set_position(progress.done);
            // What was done before it is there says nothing about how long the rest takes.
            bar.reset_eta();
            *shown = Some((progress.work, bar));
        }
        if let Some((_, bar)) = &*shown {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        }
    }

    /// Takes it away.
    pub fn clear(&self) {
        if let Ok(mut shown) = self.bar.lock() {
            clear(&mut shown);
        }
    }
}

fn clear(shown: &mut Option<(Work, ProgressBar)>) {
    if let Some((_, bar)) = shown.take() {
        bar.finish_and_clear();
    }
}

fn bar_of(progress: Progress) -> ProgressBar {
    if progress.work == Work::Replay {
        let bar = bytes(progress.total, false);
        bar.set_message("replaying the log");
        return bar;
    }
    let bar = things(progress.total, false);
    bar.set_prefix(match progress.work {
        Work::Pages => "reading every page",
        Work::Rows => "comparing rows and indexes",
        Work::Checkpoint => "writing a checkpoint",
        Work::Load => "writing in order",
        Work::Backup => "backing up",
        Work::Restore => "restoring",
        Work::CheckBackup => "checking",
        Work::Move => "moving pages to the front",
        Work::Compact => "bringing pages together",
        _ => "working",
    });
    bar
}

/// Says how many things there have been, seldom enough that it costs nothing.
pub fn counted(bar: &ProgressBar, count: u64, what: &str) {
    if count.is_multiple_of(10_000) {
        bar.set_message(format!("{count} {what}"));
    }
}

/// Draws one that was quiet from now on.
pub fn reveal(bar: &ProgressBar) {
    bar.set_draw_target(shown());
}

fn shown() -> ProgressDrawTarget {
    // Drawn only on a terminal; elsewhere nothing is.
    ProgressDrawTarget::stderr_with_hz(10)
}

fn styled(total: u64, quiet: bool, template: &str) -> ProgressBar {
    let target = if quiet {
        ProgressDrawTarget::hidden()
    } else {
        shown()
    };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    // A template that cannot be read would be a mistake here: the bar without style is no harm.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
