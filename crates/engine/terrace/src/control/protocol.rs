//! The lines that go over the socket; see [`crate::control`].

use super::refusal::Refusal;
use crate::gentle::Rate;

/// Longest request, and longest line that a client takes: figures of thousands of structures fit in the
/// latter many times over.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// Version of the protocol. Commands may be added without raising it.
pub const PROTOCOL: u32 = 1;

/// Longest answer that a client takes: a line of figures has about a kilobyte for each structure.
pub(super) const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Connections at a time: a person with `top`, a page, a collector of metrics, and some to spare.
pub(super) const MAX_CONNECTIONS: usize = 8;

/// How long a connection may be without a whole request, or not take an answer, before it is closed.
pub(super) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// What is asked.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) command: String,
    /// What a backup is to be.
    #[cfg(feature = "backup")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) backup: Option<BackupRequest>,
    /// That of a mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// The place from which on changes are read, and whether they end with what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) until_now: bool,
    /// How full a compaction makes pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fill: Option<f64>,
    /// How fast it goes, in bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<u64>,
    /// Whether it goes so slowly that others hardly notice.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) gentle: bool,
}

/// What is not said is not sent: a version before it was known would refuse it.
fn is_false(said: &bool) -> bool {
    !said
}

/// A rate as it is sent: bytes a second, and whether it is a gentle one.
pub(super) fn rate_sent(rate: Rate) -> (Option<u64>, bool) {
    match rate {
        Rate::Gentle => (None, true),
        Rate::BytesPerSecond(bytes) => (Some(bytes), false),
        Rate::Fast => (None, false),
    }
}

/// What was sent as a rate.
pub(super) fn rate_of(bytes: Option<u64>, gentle: bool) -> Rate {
    match (bytes, gentle) {
        (Some(bytes), _) => Rate::BytesPerSecond(bytes),
        (None, true) => Rate::Gentle,
        (None, false) => Rate::Fast,
    }
}

/// What a backup is to be.
#[cfg(feature = "backup")]
#[derive(Clone, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupRequest {
    pub(super) set: std::path::PathBuf,
    #[serde(default)]
    pub(super) full: bool,
    /// Bytes a second.
    #[serde(default)]
    pub(super) rate: Option<u64>,
    /// Whether it goes so slowly that others hardly notice.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) gentle: bool,
    /// How often the log is copied, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) every_ms: Option<u64>,
    /// After how much archived log a new point is made, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) point_after: Option<u64>,
}

#[cfg(feature = "backup")]
impl BackupRequest {
    /// One that says nothing but the folder.
    pub(super) fn of(set: &std::path::Path) -> BackupRequest {
        BackupRequest {
            set: set.to_owned(),
            full: false,
            rate: None,
            gentle: false,
            every_ms: None,
            point_after: None,
        }
    }
}

/// A line of an answer.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<T> {
    /// How far long work has come, if anything is known of it.
    Progress(Option<crate::Progress>),
    /// A commit, of those that were asked for.
    Commit(crate::CommitLine),
    /// What was asked for.
    Ok(T),
    /// Why there is nothing.
    Error(Refusal),
}

/// What `version` answers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Version {
    /// Of Terrace, in the process that has the database open.
    pub version: String,
    /// Of the protocol.
    pub protocol: u32,
    /// The number of that process.
    pub process: u32,
}

impl Version {
    /// That of this process.
    pub(super) fn own() -> Version {
        Version {
            version: env!("CARGO_PKG_VERSION").into(),
            protocol: PROTOCOL,
            process: std::process::id(),
        }
    }
}
