//! What a thread did to a key, and when.

/// An operation on one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads the value.
    Get,
    /// Sets the value, not looking at what was there.
    Put(Vec<u8>),
    /// Sets the value if there is none.
    Insert(Vec<u8>),
    /// Sets the value if there is one.
    Update(Vec<u8>),
    /// Takes the value away, not looking whether there was one.
    Delete,
    /// Takes the value away and says whether there was one.
    Remove,
    /// Sets the value, which is there until this time; the value that all others set is there for ever, but for
    /// an update, which keeps the time.
    PutUntil(Vec<u8>, u64),
    /// Sets the time until which the value is there, and says whether there was one.
    ExpireAt(u64),
    /// It is this late: no thread asked, the clock went on. It begins with 0.
    Time(u64),
}

/// What an operation answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The value that a get found.
    Value(Option<Vec<u8>>),
    /// A put or delete was done.
    Done,
    /// Whether an insert, update or remove did something.
    Changed(bool),
}

/// An operation with the moments of its call and its return on the history's own clock.
#[derive(Clone, Debug)]
pub struct Event {
    /// What was asked.
    pub operation: Operation,
    /// What was answered; `None` if it failed, so that it may or may not have had its effect, at
    /// once or at any later time.
    pub outcome: Option<Outcome>,
    /// When it was called.
    pub called: u64,
    /// When it returned.
    pub returned: u64,
    /// Who called it.
    pub thread: usize,
}
