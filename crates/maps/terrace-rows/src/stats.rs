//! Where the memory is.

/// Figures of a table, of all partitions together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// Rows in memory.
    pub rows: u64,
    /// Bytes of rows, with what their slots have free.
    pub row_bytes: u64,
    /// Bytes of the primary index.
    pub primary_bytes: u64,
    /// Bytes of all other indexes.
    pub index_bytes: u64,
    /// Entries of all indexes, the primary one too.
    pub entries: u64,
}

impl TableStats {
    pub(crate) fn add(&mut self, other: TableStats) {
        self.rows += other.rows;
        self.row_bytes += other.row_bytes;
        self.primary_bytes += other.primary_bytes;
        self.index_bytes += other.index_bytes;
        self.entries += other.entries;
    }
}

/// Figures of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Of each table.
    pub tables: Vec<TableStats>,
    /// Bytes of what is kept to take changes back.
    pub undo_bytes: u64,
}

impl Stats {
    /// Bytes of all rows.
    pub fn row_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.row_bytes).sum()
    }

    /// Bytes of all indexes.
    pub fn index_bytes(&self) -> u64 {
        self.tables
            .iter()
            .map(|table| table.primary_bytes + table.index_bytes)
            .sum()
    }

    /// All bytes in memory.
    pub fn memory(&self) -> u64 {
        self.row_bytes() + self.index_bytes() + self.undo_bytes
    }
}
