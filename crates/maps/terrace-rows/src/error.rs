//! What can go wrong.

/// Why an operation or a transaction was not done. Nothing was changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A unique key is there already.
    #[error(
        "\"{table}\" has a row with this key of \"{index}\" already; change that row, or give this one another key"
    )]
    Duplicate {
        /// The table.
        table: String,
        /// The index; empty for the primary key.
        index: String,
    },
    /// What a program looked for is not there: for closures to end with.
    #[error("a row that was looked for is not there")]
    Missing,
    /// A key is too long.
    #[error(
        "a key of {len} bytes is longer than {limit}; use a shorter one, a hash of it for example"
    )]
    KeyTooLong {
        /// Its bytes.
        len: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A row is too long.
    #[error("a row of {len} bytes is longer than {limit}; keep the large part elsewhere")]
    RowTooLong {
        /// Its bytes.
        len: usize,
        /// The most there may be.
        limit: usize,
    },
    /// A table holds as many rows as it can number.
    #[error(
        "\"{table}\" has as many rows of different sizes as it can number; use several partitions"
    )]
    Full {
        /// The table.
        table: String,
    },
    /// There is no such index.
    #[error("\"{table}\" has no index \"{index}\"; name it when the table is made")]
    NoSuchIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// There is a table of this name.
    #[error("there is a table \"{0}\" already; use its handle, or another name")]
    TableExists(String),
    /// A handle of another store.
    #[error("the table belongs to another store")]
    OtherStore,
    /// The transaction did not name this partition.
    #[error("the transaction runs in other partitions than {0}; name it in Store::transact_in")]
    NoSuchPartition(usize),
    /// Bytes of a row that its type cannot be made of.
    #[error("a row of \"{table}\" cannot be decoded; its type reads otherwise than it writes")]
    Undecodable {
        /// The table.
        table: String,
    },
    /// A function of an index panicked while a transaction was taken back, so the partition is in no known state.
    #[error(
        "a function of an index panicked while changes were taken back; the partition cannot be used any more"
    )]
    Broken,
    /// Something has to be read from the disk first. The closure passes it on, and runs again afterwards.
    #[error(
        "a row is on the disk; pass this error on, and the transaction runs again when it was read"
    )]
    Cold,
    /// The database that holds what is on the disk.
    #[error("the rows on the disk: {0}")]
    Disk(String),
    /// Options that do not go together.
    #[error("{0}")]
    Options(String),
}

impl From<terrace::Error> for Error {
    fn from(error: terrace::Error) -> Error {
        Error::Disk(error.to_string())
    }
}
