//! Why there is no answer: an error on its way to another process.
//!
//! Invariant: whoever asked gets an error of the same kind and, where it is one that a command can meet, with
//! the same parts, so that a program can do the same about it as in the process that has the database open.

use std::sync::Arc;

use terrace_base::Error;

/// What the other side makes of an operation whose name it does not know.
const SOME_OPERATION: &str = "using";
/// Names of operations, as errors have them.
const OPERATIONS: &[&str] = &[
    "creating",
    "cutting",
    "deleting",
    "examining",
    "finding",
    "growing",
    "listing",
    "locking",
    "measuring",
    "opening",
    "reading",
    "reading again",
    "renaming",
    "renaming to",
    "reserving",
    "reserving memory for",
    "reserving space for",
    "starting",
    "syncing",
    "writing",
    "writing the superblock of",
];

/// Why there is no answer.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Refusal {
    /// [`Error::kind`], or a kind of the socket itself.
    kind: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<Detail>,
}

/// What the text is made of.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Detail {
    what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    /// The number of a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    /// The number of the operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<i32>,
}

impl Refusal {
    /// One that is no error of the engine.
    pub fn new(kind: &str, text: String) -> Refusal {
        Refusal {
            kind: kind.to_owned(),
            text,
            detail: None,
        }
    }

    /// The one that says this.
    pub fn of(error: &Error) -> Refusal {
        let what = |what: &String| Detail {
            what: what.clone(),
            ..Detail::default()
        };
        let detail = match error {
            Error::Corrupt {
                file, offset, what, ..
            } => Some(Detail {
                what: what.clone(),
                file: Some(file.clone()),
                offset: *offset,
                ..Detail::default()
            }),
            Error::Io { op, file, source } => Some(Detail {
                what: source.to_string(),
                file: Some(file.clone()),
                operation: Some((*op).to_owned()),
                number: source.raw_os_error(),
                ..Detail::default()
            }),
            Error::DiskFull { what: of } | Error::Cancelled { what: of } => Some(what(of)),
            Error::Poisoned { cause } => Some(what(cause)),
            Error::ChangesGone { from, cause } => Some(Detail {
                from: Some(*from),
                ..what(cause)
            }),
            _ => None,
        };
        Refusal {
            kind: error.kind().to_owned(),
            text: error.to_string(),
            detail,
        }
    }

    /// The error, on the side that asked.
    pub fn error(self) -> Error {
        let Some(detail) = self.detail else {
            return Error::invalid(format!(
                "the process that has the database open refuses: {}",
                self.text
            ));
        };
        let Detail {
            what, file, offset, ..
        } = detail;
        let file = file.unwrap_or_default();
        match self.kind.as_str() {
            "corrupt" => Error::corrupt(file, offset, what),
            "io" => {
                let known = OPERATIONS
                    .iter()
                    .find(|op| Some(**op) == detail.operation.as_deref());
                let source = match detail.number {
                    Some(number) => std::io::Error::from_raw_os_error(number),
                    None => std::io::Error::other(what),
                };
                Error::Io {
                    op: known.copied().unwrap_or(SOME_OPERATION),
                    file,
                    source: Arc::new(source),
                }
            }
            "disk_full" => Error::DiskFull { what },
            "cancelled" => Error::Cancelled { what },
            "poisoned" => Error::Poisoned { cause: what },
            "changes_gone" => Error::ChangesGone {
                from: detail.from.unwrap_or_default(),
                cause: what,
            },
            _ => Error::invalid(format!(
                "the process that has the database open refuses: {}",
                self.text
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_the_same_on_the_other_side() {
        let what = || "something".to_owned();
        let missing = || std::io::Error::from_raw_os_error(2);
        for error in [
            Error::corrupt("data", 4096, what()),
            Error::corrupt("data", None, what()),
            Error::io("reading", "data", missing()),
            Error::io("writing", "set", std::io::Error::other("it is odd")),
            Error::DiskFull { what: what() },
            Error::Cancelled { what: what() },
            Error::Poisoned { cause: what() },
            Error::ChangesGone {
                from: 7,
                cause: what(),
            },
        ] {
            let sent = serde_json::to_string(&Refusal::of(&error)).unwrap();
            let told = serde_json::from_str::<Refusal>(&sent).unwrap().error();
            assert_eq!(told.kind(), error.kind());
            assert_eq!(told.to_string(), error.to_string());
            assert_eq!(told.is_unreadable(), error.is_unreadable());
            assert_eq!(told.is_disk_full(), error.is_disk_full());
        }
    }

    #[test]
    fn what_is_not_known_is_a_refusal_with_its_text() {
        for sent in [
            r#"{"kind":"busy","text":"8 are open"}"#,
            r#"{"kind":"new","text":"8 are open","detail":{"what":"x","more":1}}"#,
        ] {
            let error = serde_json::from_str::<Refusal>(sent).unwrap().error();
            assert_eq!(error.kind(), "invalid");
            assert!(error.to_string().contains("8 are open"), "{error}");
        }
        let odd = r#"{"kind":"io","text":"","detail":{"what":"x","operation":"baking"}}"#;
        let error = serde_json::from_str::<Refusal>(odd).unwrap().error();
        assert_eq!(error.to_string(), "using  failed: x");
    }
}
