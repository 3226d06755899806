//! A commit as a line of JSON, on the command line and between processes.
//!
//! Invariant: bytes that are text stand under their name, others in hexadecimal under `NAME_hex`; one of the
//! two is there.

use serde::{Deserialize, Serialize};

use super::commit::{Change, ChangedStructure, Commit};
use super::place::Place;
use crate::millis::millis;

/// One commit, to be printed or sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CommitLine {
    /// Its number.
    pub sequence: u64,
    /// The place behind it.
    pub place: String,
    /// What was changed, in order.
    pub changes: Vec<ChangeLine>,
}

/// One change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChangeLine {
    /// `put`, `delete`, `delete_range`, `created`, `dropped`, `renamed` or `marked`.
    pub op: String,
    /// The structure's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structure: Option<String>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// The kind of one that was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The key, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key in hexadecimal, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_hex: Option<String>,
    /// The value, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value in hexadecimal, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_hex: Option<String>,
    /// The first key of a range, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The first key of a range in hexadecimal, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_hex: Option<String>,
    /// The first key behind a range, if there is one and it is text; without any it goes on to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The first key behind a range in hexadecimal, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_hex: Option<String>,
    /// When the record expires, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// The name of a mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// When a mark was made, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
}

/// The text, or hexadecimal digits.
fn text_or_hex(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (
            None,
            Some(bytes.iter().map(|b| format!("{b:02x}")).collect()),
        ),
    }
}

impl ChangeLine {
    fn of(op: &str, structure: &ChangedStructure) -> ChangeLine {
        ChangeLine {
            op: op.into(),
            structure: structure.name.clone(),
            id: Some(structure.id),
            ..ChangeLine::default()
        }
    }

    fn of_record(op: &str, structure: &ChangedStructure, key: &[u8]) -> ChangeLine {
        let (key, key_hex) = text_or_hex(key);
        ChangeLine {
            key,
            key_hex,
            ..ChangeLine::of(op, structure)
        }
    }
}

impl From<Change<'_>> for ChangeLine {
    fn from(change: Change<'_>) -> ChangeLine {
        match change {
            Change::Put {
                structure,
                key,
                value,
                expires,
            } => {
                let (value, value_hex) = text_or_hex(value);
                ChangeLine {
                    value,
                    value_hex,
                    expires_ms: expires.map(millis),
                    ..ChangeLine::of_record("put", structure, key)
                }
            }
            Change::Delete { structure, key } => ChangeLine::of_record("delete", structure, key),
            Change::DeleteRange {
                structure,
                low,
                high,
            } => {
                let (from, from_hex) = text_or_hex(low);
                let (to, to_hex) = high.map_or((None, None), text_or_hex);
                ChangeLine {
                    from,
                    from_hex,
                    to,
                    to_hex,
                    ..ChangeLine::of("delete_range", structure)
                }
            }
            Change::Created { structure } => ChangeLine {
                kind: structure.kind.map(|kind| kind.as_str().to_owned()),
                ..ChangeLine::of("created", structure)
            },
            Change::Dropped { structure } => ChangeLine::of("dropped", structure),
            Change::Renamed { structure } => ChangeLine::of("renamed", structure),
            Change::Marked { name, time } => ChangeLine {
                op: "marked".into(),
                mark: Some(name.to_owned()),
                time_ms: Some(millis(time)),
                ..ChangeLine::default()
            },
        }
    }
}

impl From<Place> for CommitLine {
    /// No changes: where reading begins.
    fn from(place: Place) -> CommitLine {
        CommitLine {
            sequence: place.next_sequence().saturating_sub(1),
            place: place.to_string(),
            changes: Vec::new(),
        }
    }
}

/// The same as [`CommitLine`] once it is written, made change by change: a commit may have millions.
#[cfg(feature = "control")]
#[derive(Serialize)]
pub(crate) struct WrittenCommit<'c> {
    sequence: u64,
    place: String,
    #[serde(serialize_with = "written")]
    changes: &'c Commit,
}

#[cfg(feature = "control")]
fn written<S: serde::Serializer>(commit: &&Commit, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(commit.changes().map(ChangeLine::from))
}

#[cfg(feature = "control")]
impl<'c> From<&'c Commit> for WrittenCommit<'c> {
    fn from(commit: &'c Commit) -> WrittenCommit<'c> {
        WrittenCommit {
            sequence: commit.sequence(),
            place: commit.place().to_string(),
            changes: commit,
        }
    }
}

impl From<&Commit> for CommitLine {
    fn from(commit: &Commit) -> CommitLine {
        CommitLine {
            sequence: commit.sequence(),
            place: commit.place().to_string(),
            changes: commit.changes().map(ChangeLine::from).collect(),
        }
    }
}
