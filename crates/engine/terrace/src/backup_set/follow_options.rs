//! How a log is followed, and how far a follower has come.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::gentle::Rate;

/// How often what was written is copied, if nothing is said.
const EVERY: Duration = Duration::from_secs(1);
/// How a log is followed.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a log is followed with them"]
pub struct FollowOptions {
    pub(crate) every: Duration,
    pub(crate) point_after: Option<u64>,
    pub(crate) rate: Rate,
}

impl Default for FollowOptions {
    fn default() -> Self {
        FollowOptions {
            every: EVERY,
            point_after: None,
            rate: Rate::Gentle,
        }
    }
}

impl FollowOptions {
    /// The defaults: the log is copied once a second, and points are made as it grows.
    pub fn new() -> FollowOptions {
        FollowOptions::default()
    }

    /// How often the log is copied. With it the time is noted, so a restore to a time is as exact as this.
    pub fn every(self, every: Duration) -> FollowOptions {
        FollowOptions { every, ..self }
    }

    /// After how many bytes of archived log a new point is made, so that a restore need not replay more;
    /// without, when the log is longer than the database and than 64 MiB.
    pub fn point_after(mut self, bytes: u64) -> FollowOptions {
        self.point_after = Some(bytes);
        self
    }

    /// How fast points are made.
    pub fn rate(self, rate: Rate) -> FollowOptions {
        FollowOptions { rate, ..self }
    }
}

/// How far a follower has come.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct FollowStatus {
    /// The folder of the set, if it lies in one.
    #[serde(default)]
    pub set: Option<PathBuf>,
    /// The last change that a restore of the set can go to.
    pub sequence: u64,
    /// When that was found to be so.
    pub time: Option<SystemTime>,
    /// Bytes of log that were copied.
    pub log_bytes: u64,
    /// The newest point that was made by following.
    pub point: Option<u64>,
    /// How often the log was put aside before it was copied. Each time a new point is needed: until it
    /// is made `sequence` stays, and between that change and the point nothing can be restored.
    pub breaks: u64,
    /// How often the clock had gone back between two copies. Times up to there are in the set twice:
    /// `terrace backup list` shows where, and a restore to one of them says which changes they may mean.
    #[serde(default)]
    pub clock_leaps: u64,
    /// Why the last attempt failed, if it did. It is tried again.
    pub error: Option<String>,
}
