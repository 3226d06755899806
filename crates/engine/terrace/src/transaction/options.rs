//! How a transaction is to be made, and what it came to.

use terrace_wal::Durability;

/// How a transaction is to be made.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until they are used"]
pub struct TransactionOptions {
    pub(super) durability: Option<Durability>,
    pub(super) attempts: u32,
    pub(super) label: Option<&'static str>,
}

/// Attempts until a transaction is given up: with the waits between them, and from the ninth on with the fairness lock,
/// what then changes yet it changes itself, or it takes longer than others wait.
const ATTEMPTS: u32 = 100;

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            durability: None,
            attempts: ATTEMPTS,
            label: None,
        }
    }
}

impl TransactionOptions {
    /// The database's durability, 100 attempts, no label.
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }

    /// How durable it is when the commit returns.
    pub fn durability(mut self, durability: Durability) -> TransactionOptions {
        self.durability = Some(durability);
        self
    }

    /// How often it is tried, at least once, before the answer is [`crate::Error::Conflict`].
    pub fn attempts(mut self, attempts: u32) -> TransactionOptions {
        self.attempts = attempts.max(1);
        self
    }

    /// A name for the figures: [`crate::TransactionStats::last_conflicts`] says for each what it last met.
    pub fn label(mut self, label: &'static str) -> TransactionOptions {
        self.label = Some(label);
        self
    }
}

/// What a commit came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// Its place in the order of commits; none if it changed nothing, or nothing that is logged.
    pub sequence: Option<u64>,
}
