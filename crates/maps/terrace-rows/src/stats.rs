//! Where the memory is.

/// Figures of a table, of all partitions together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// Rows in memory.
    pub rows: u64,
    /// Bytes of rows, with what their slots have free, and the slots that are free.
    pub row_bytes: u64,
    /// Bytes of the slots that have rows.
    pub used_row_bytes: u64,
    /// Bytes of the primary index.
    pub primary_bytes: u64,
    /// Bytes of all other indexes.
    pub index_bytes: u64,
    /// Entries of all indexes, the primary one too.
    pub entries: u64,
    /// Bytes in memory about what is on the disk.
    pub cold_bytes: u64,
}

impl TableStats {
    pub(crate) fn add(&mut self, other: TableStats) {
        self.rows += other.rows;
        self.row_bytes += other.row_bytes;
        self.used_row_bytes += other.used_row_bytes;
        self.primary_bytes += other.primary_bytes;
        self.index_bytes += other.index_bytes;
        self.entries += other.entries;
        self.cold_bytes += other.cold_bytes;
    }
}

/// Figures of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Of each table.
    pub tables: Vec<TableStats>,
    /// Bytes of what is kept to take changes back.
    pub undo_bytes: u64,
    /// Bytes of the database that holds what is on the disk.
    pub database_bytes: u64,
    /// Rows and ranges that were asked for and were not in memory.
    pub misses: u64,
    /// Rows that left memory, and that came back.
    pub evicted: u64,
    /// See `evicted`.
    pub admitted: u64,
    /// Closures that ran again because something had to be read.
    pub restarts: u64,
    /// Pages that were read, and written.
    pub pages_read: u64,
    /// See `pages_read`.
    pub pages_written: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
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

    /// Bytes in memory without slots that are free.
    pub fn used(&self) -> u64 {
        let used: u64 = self.tables.iter().map(|table| table.used_row_bytes).sum();
        self.memory() - self.row_bytes() + used
    }

    /// All bytes in memory: what is held to the limit.
    pub fn memory(&self) -> u64 {
        let cold: u64 = self.tables.iter().map(|table| table.cold_bytes).sum();
        self.row_bytes() + self.index_bytes() + self.undo_bytes + self.database_bytes + cold
    }
}
