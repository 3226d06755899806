//! What is said of a file of a set that is not what it should be.

use terrace_base::Error;

/// Damage in a file of a set.
pub fn damaged(name: &str, offset: impl Into<Option<u64>>, what: impl Into<String>) -> Error {
    Error::Corrupt {
        file: name.into(),
        offset: offset.into(),
        what: what.into(),
        way_out: "restore another point (`terrace backup verify` says which are whole), or use another backup set",
    }
}

/// Why a file of a set cannot be opened.
pub fn missing(name: &str, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => damaged(name, None, "the file is missing"),
        _ => Error::io("opening", name, error),
    }
}
