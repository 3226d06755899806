//! Why a command has no answer of its own.

use std::borrow::Cow;

use terrace::Error;

use crate::kind::Kind;

/// Why a command stopped.
#[derive(Debug)]
pub enum Stop {
    /// It needs what is not in memory, and may not wait here.
    Miss,
    /// Another command has one of its keys.
    Busy,
    /// It has to be alone.
    Alone,
    /// An error for the client, as it is sent.
    Reply(Cow<'static, str>),
    /// It waits for one of these keys of the session's database.
    Wait(Wait),
}

/// What a command waits for.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The keys, of which any will do.
    pub keys: Vec<Vec<u8>>,
    /// How long, in milliseconds; none for ever.
    pub timeout: Option<u64>,
    /// Whether the answer is an array within a transaction, where nothing is waited for.
    pub array: bool,
    /// Of which kind the value has to be.
    pub kind: Kind,
    /// Whether what it waits for is not taken away, so that all who wait get it.
    pub all: bool,
}

/// What a command comes to: its answer was written, or why not.
pub type Run<T = ()> = Result<T, Stop>;

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Reply(Cow::Owned(told(&error)))
    }
}

/// An error of the database in Redis' form.
pub fn told(error: &Error) -> String {
    match error {
        Error::Poisoned { .. } => format!("MISCONF {error}"),
        _ => format!("ERR {error}"),
    }
}

/// An error for the client.
pub fn refuse<T>(text: impl Into<Cow<'static, str>>) -> Run<T> {
    Err(Stop::Reply(text.into()))
}

/// The value is of another kind.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// What a command gathers is more than one may.
pub const TOO_LARGE: &str = "ERR the answer is too large: ask for less at a time";
/// What a command does not understand.
pub const SYNTAX: &str = "ERR syntax error";
/// What should be a whole number.
pub const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
/// What should be a number.
pub const NOT_FLOAT: &str = "ERR value is not a valid float";
/// There is no such key.
pub const NO_KEY: &str = "ERR no such key";
