//! The figures of a database as text that collectors of metrics read: the Prometheus text format, version
//! 0.0.4, and OpenMetrics 1.0.
//!
//! Every figure of [`terrace::Stats`] is there. Names begin with `terrace_`, units are bytes, seconds and
//! ratios, and labels are names of structures and indexes and words from fixed lists, never keys; so how many
//! series there are depends on the number of structures alone, and that is bounded by
//! [`MAX_STRUCTURES`]. Names and labels are frozen: a test compares them with a file. docs/metrics.md lists
//! them.
//!
//! ```
//! use terrace::{Database, Options};
//! use terrace_metrics::{Format, render};
//! # let dir = tempfile::tempdir().unwrap();
//! let db = Database::open(dir.path(), Options::new().memory(16 << 20))?;
//! let text = render(&db.stats(), Format::Prometheus);
//! assert!(text.contains("\nterrace_memory_limit_bytes 16777216\n"));
//! # Ok::<(), terrace::Error>(())
//! ```

#![forbid(unsafe_code)]

mod backups;
mod calls;
mod families;
/// The guide's web server, whose program is a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/recipes/axum.md")]
mod guide {}
mod merging;
mod named;
mod program;
mod text;

pub use named::MAX_STRUCTURES;

use terrace::Stats;
use text::Text;

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The Prometheus text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The one that the `Accept` header of a request asks for; Prometheus if it asks for neither.
    ///
    /// ```
    /// # use terrace_metrics::Format;
    /// let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
    /// assert_eq!(Format::accepted(accept), Format::OpenMetrics);
    /// assert_eq!(Format::accepted("*/*"), Format::Prometheus);
    /// ```
    pub fn accepted(accept: &str) -> Format {
        if accept.contains("application/openmetrics-text") {
            Format::OpenMetrics
        } else {
            Format::Prometheus
        }
    }

    /// What the `Content-Type` header of the answer says.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The figures as text. Numbers of records are in it if they are in the figures: see
/// [`terrace::Database::survey`]. O(structures).
pub fn render(stats: &Stats, format: Format) -> String {
    let mut text = Text::new(format);
    families::write(stats, &mut text);
    text.end()
}
