//! How to take back what a transaction has done: for each change the key, and the row as it was.

/// What a key had before a change.
#[derive(Clone, Copy, Debug)]
pub enum Before<'a> {
    /// No row.
    Absent,
    /// None, and that it was deleted has to be known: the disk may have an older image.
    Gone,
    /// This one, with its byte.
    Row(&'a [u8], u8),
}

struct Entry {
    table: u32,
    key: u32,
    /// Bytes of the row, and two more; 0 where there was none, 1 where it was gone.
    row: u32,
    state: u8,
}

/// Changes, the newest last.
#[derive(Default)]
pub struct Undo {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// Room that is kept for the next transaction.
const KEPT: usize = 1 << 20;

impl Undo {
    /// Notes a change.
    pub fn push(&mut self, table: u32, key: &[u8], before: Before<'_>) {
        self.bytes.extend_from_slice(key);
        let (row, state) = match before {
            Before::Absent => (0, 0),
            Before::Gone => (1, 0),
            Before::Row(row, state) => {
                self.bytes.extend_from_slice(row);
                (row.len() as u32 + 2, state)
            }
        };
        self.entries.push(Entry {
            table,
            key: key.len() as u32,
            row,
            state,
        });
    }

    /// Forgets the newest change: it was not made.
    pub fn drop_last(&mut self) {
        if let Some(last) = self.entries.pop() {
            let len = last.key as usize + last.row.saturating_sub(2) as usize;
            self.bytes.truncate(self.bytes.len() - len);
        }
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Hands out each change, the newest first, and forgets all.
    pub fn take_back(&mut self, mut change: impl FnMut(u32, &[u8], Before<'_>)) {
        let mut end = self.bytes.len();
        while let Some(entry) = self.entries.pop() {
            let row = entry.row.saturating_sub(2) as usize;
            let key_end = end - row;
            let from = key_end - entry.key as usize;
            let before = match entry.row {
                0 => Before::Absent,
                1 => Before::Gone,
                _ => Before::Row(&self.bytes[key_end..end], entry.state),
            };
            change(entry.table, &self.bytes[from..key_end], before);
            end = from;
        }
        self.clear();
    }

    /// The same from the oldest on: a mistake that tests plant.
    #[cfg(feature = "planted-faults")]
    pub fn take_back_forward(&mut self, mut change: impl FnMut(u32, &[u8], Before<'_>)) {
        let mut at = 0;
        for entry in &self.entries {
            let key_end = at + entry.key as usize;
            let end = key_end + entry.row.saturating_sub(2) as usize;
            let before = match entry.row {
                0 => Before::Absent,
                1 => Before::Gone,
                _ => Before::Row(&self.bytes[key_end..end], entry.state),
            };
            change(entry.table, &self.bytes[at..key_end], before);
            at = end;
        }
        self.clear();
    }

    /// Forgets all changes: they stay.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        if self.bytes.capacity() > KEPT {
            self.bytes.shrink_to(KEPT);
            self.entries.shrink_to(KEPT / size_of::<Entry>());
        }
    }

    /// Its bytes.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}
