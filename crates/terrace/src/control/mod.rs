//! A socket in the folder of an open database, over which other processes of the same user ask for figures,
//! checkpoints and verifications: see [`crate::Options::control`] and [`Control`].
//!
//! The protocol is lines of JSON. A request is `{"command":"stat"}`, of at most [`MAX_LINE_BYTES`] with its
//! line end. An answer is any number of lines `{"progress":…}`, where it takes long and somebody listens, and
//! then `{"ok":…}` or `{"error":{"kind":"…","text":"…"}}`, with `detail` beside it where the text is made of
//! parts ([`crate::Error`] of that kind). No command reads or writes a record. In a
//! request for a backup `set` is the whole path of the folder of the set. `rate`, there and of a compaction, is
//! in bytes a second, or none for as fast as it goes; with `"gentle":true` it goes so slowly that others hardly
//! notice. A backup, a compaction and a verification are ended when who asked goes away, and when the database
//! is closed.
//!
//! | command | what `ok` holds |
//! | --- | --- |
//! | `version` | the version of Terrace, and of the protocol |
//! | `stat` | [`crate::Stats`], as [`crate::Database::stats`] gives it |
//! | `survey` | the same as [`crate::Database::survey`] gives it; reads some dozen pages of each structure |
//! | `checkpoint` | [`crate::CheckpointInfo`] |
//! | `backup` | `BackupReport`; the request has `"backup":{"set":"/path","full":false,"rate":null}` beside it |
//! | `follow` | `FollowStatus`; a point is made, and the log is copied to the set until the database is closed or this is stopped; the request has `backup` (`set`; `rate` for points, gentle without; and if others than usual are wanted `every_ms` and `point_after`, in bytes) |
//! | `stop_following` | `FollowStatus`, when the rest was copied; the request has `backup`, of which `set` counts |
//! | `mark` | [`crate::Mark`]; the request has `"name":"…"` beside it, and that of a backup may |
//! | `compact` | [`crate::CompactReport`]; the request may have `"fill":0.95`, `"rate":null` and `"gentle":true` beside it |
//! | `verify` | [`crate::VerifyReport`]; all other calls of the database wait until it is done |
//!
//! Limits: eight connections, ten idle seconds each, requests one after the other. The socket belongs to
//! the user of the process (mode 0600), and who connects must be that user, or root.

mod ask;
mod listen;
mod refusal;
mod serve;

use crate::gentle::Rate;

pub use ask::Control;
pub(crate) use listen::Listening;
use refusal::Refusal;

/// Name of the socket in the folder of the database.
pub const SOCKET: &str = "control";

/// Longest request, and longest line that a client takes: figures of thousands of structures fit in the
/// latter many times over.
pub const MAX_LINE_BYTES: usize = 64 << 10;

/// Version of the protocol. Commands may be added without raising it.
pub const PROTOCOL: u32 = 1;

/// Longest answer that a client takes: a line of figures has about a kilobyte for each structure.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Connections at a time: a person with `top`, a page, a collector of metrics, and some to spare.
const MAX_CONNECTIONS: usize = 8;

/// How long a connection may be without a whole request, or not take an answer, before it is closed.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// What is asked.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    command: String,
    /// What a backup is to be.
    #[cfg(feature = "backup")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backup: Option<BackupRequest>,
    /// That of a mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// How full a compaction makes pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fill: Option<f64>,
    /// How fast it goes, in bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    /// Whether it goes so slowly that others hardly notice.
    #[serde(default, skip_serializing_if = "is_false")]
    gentle: bool,
}

/// What is not said is not sent: a version before it was known would refuse it.
fn is_false(said: &bool) -> bool {
    !said
}

/// A rate as it is sent: bytes a second, and whether it is a gentle one.
fn rate_sent(rate: Rate) -> (Option<u64>, bool) {
    match rate {
        Rate::Gentle => (None, true),
        Rate::BytesPerSecond(bytes) => (Some(bytes), false),
        Rate::Fast => (None, false),
    }
}

/// What was sent as a rate.
fn rate_of(bytes: Option<u64>, gentle: bool) -> Rate {
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
struct BackupRequest {
    set: std::path::PathBuf,
    #[serde(default)]
    full: bool,
    /// Bytes a second.
    #[serde(default)]
    rate: Option<u64>,
    /// Whether it goes so slowly that others hardly notice.
    #[serde(default, skip_serializing_if = "is_false")]
    gentle: bool,
    /// How often the log is copied, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    /// After how much archived log a new point is made, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    point_after: Option<u64>,
}

#[cfg(feature = "backup")]
impl BackupRequest {
    /// One that says nothing but the folder.
    fn of(set: &std::path::Path) -> BackupRequest {
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
enum Answer<T> {
    /// How far long work has come, if anything is known of it.
    Progress(Option<crate::Progress>),
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
    fn own() -> Version {
        Version {
            version: env!("CARGO_PKG_VERSION").into(),
            protocol: PROTOCOL,
            process: std::process::id(),
        }
    }
}

/// A path to the socket that fits in an address, which holds about a hundred bytes; what it leads through
/// must be kept until the path was used.
fn reach(folder: &std::path::Path) -> std::io::Result<(std::path::PathBuf, Option<std::fs::File>)> {
    const FITS: usize = 100;
    let path = folder.join(SOCKET);
    if path.as_os_str().len() <= FITS {
        return Ok((path, None));
    }
    let folder = std::fs::File::open(folder)?;
    Ok((path_through(&folder), Some(folder)))
}

/// A path to the socket that leads through a handle of its folder, so that it is of that folder under whatever
/// name; `None` where the system has no such paths.
fn through(folder: &std::fs::File) -> Option<std::path::PathBuf> {
    let path = path_through(folder);
    path.parent()?.is_dir().then_some(path)
}

fn path_through(folder: &std::fs::File) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()).into()
}
