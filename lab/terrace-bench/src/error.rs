//! Why a benchmark stopped.

use crate::target::TargetError;

/// Why a benchmark stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan makes no sense; nothing was done.
    #[error("{0}")]
    Plan(String),
    /// The store failed.
    #[error("the store failed while it was asked to {doing}")]
    Target {
        /// What it was asked for.
        doing: &'static str,
        /// What it said.
        source: TargetError,
    },
    /// The store gave a wrong answer.
    #[error("the store gave a wrong answer: {0}")]
    Wrong(String),
    /// A plot could not be written.
    #[error("cannot write the plot {path}: {reason}; check that the folder exists and is writable")]
    Plot {
        /// Where it should have gone.
        path: String,
        /// Why not.
        reason: String,
    },
}

impl Error {
    pub(crate) fn target(doing: &'static str) -> impl Fn(TargetError) -> Error {
        move |source| Error::Target { doing, source }
    }
}
