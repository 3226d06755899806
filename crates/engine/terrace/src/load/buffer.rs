//! Records in memory, to be brought in order.
//!
//! Invariant: of records with the same key, the one that came last is the only one that comes out.

use super::record::{HEADER_BYTES, Lens, Record};

/// Where a record begins, and the first bytes of its key: most are told apart by them.
#[derive(Clone, Copy)]
struct Place {
    prefix: u64,
    at: u32,
}

/// Records in memory that are to be sorted.
#[derive(Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Where [`Buffer::next`] goes on.
    next: usize,
}

impl Buffer {
    /// Records that came in.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is room for a record without taking more memory. One that is empty has room for any.
    pub fn has_room(&self, record: Record<'_>) -> bool {
        let bytes = self.bytes.len() + HEADER_BYTES + record.bytes();
        self.places.is_empty()
            || (bytes <= self.bytes.capacity() && self.places.len() < self.places.capacity())
    }

    /// Takes the memory for records of about `record_bytes`, in place of what an empty buffer has.
    pub fn reserve(&mut self, limit: usize, record_bytes: usize) {
        let records = limit / (HEADER_BYTES + record_bytes + size_of::<Place>());
        let bytes = limit - records * size_of::<Place>();
        let is_about = |has: usize, wanted: usize| has.abs_diff(wanted) <= wanted / 8;
        if !is_about(self.places.capacity(), records) || !is_about(self.bytes.capacity(), bytes) {
            // The old memory first, so that both are never there together.
            *self = Buffer::default();
            self.places.reserve_exact(records);
            self.bytes.reserve_exact(bytes);
        }
    }

    /// Adds a record.
    pub fn push(&mut self, record: Record<'_>) {
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&record.header());
        self.bytes.extend_from_slice(record.key);
        self.bytes
            .extend_from_slice(record.value.unwrap_or_default());
        self.places.push(Place {
            prefix: record.prefix(),
            at,
        });
    }

    /// Forgets all records, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.next = 0;
    }

    /// Brings the records in order, to be taken out by [`Buffer::next`]. O(n log n).
    pub fn sort(&mut self) {
        let Buffer { bytes, places, .. } = self;
        places.sort_unstable_by(|a, b| {
            let rest = || record_at(bytes, a.at).key.cmp(record_at(bytes, b.at).key);
            a.prefix
                .cmp(&b.prefix)
                .then_with(rest)
                .then(a.at.cmp(&b.at))
        });
        self.next = 0;
    }

    /// The next record.
    pub fn next(&mut self) -> Option<Record<'_>> {
        while self.next < self.places.len() {
            let i = self.next;
            self.next += 1;
            let record = record_at(&self.bytes, self.places[i].at);
            let overruled = self.places.get(i + 1).is_some_and(|behind| {
                behind.prefix == self.places[i].prefix
                    && record_at(&self.bytes, behind.at).key == record.key
            });
            if !overruled {
                return Some(record);
            }
        }
        None
    }
}

/// The record that begins there.
fn record_at(bytes: &[u8], at: u32) -> Record<'_> {
    let at = at as usize;
    Record::at(bytes, at + HEADER_BYTES, Lens::read(&bytes[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_key_comes_out_in_its_place() {
        let mut buffer = Buffer::default();
        let keys: [&[u8]; 6] = [b"b", b"a", b"same prefix 2", b"b", b"same prefix 1", b""];
        for (i, key) in keys.iter().enumerate() {
            let value = [i as u8; 3];
            let value = (i != 4).then_some(&value[..]);
            buffer.push(Record { key, value });
        }
        buffer.sort();
        let mut seen = Vec::new();
        while let Some(record) = buffer.next() {
            seen.push((record.key.to_vec(), record.value.map(|value| value[0])));
        }
        let want: [(&[u8], _); 5] = [
            (b"", Some(5)),
            (b"a", Some(1)),
            (b"b", Some(3)),
            (b"same prefix 1", None),
            (b"same prefix 2", Some(2)),
        ];
        assert!(seen.iter().map(|(k, v)| (&k[..], *v)).eq(want));
    }

    #[test]
    fn what_it_takes_is_bounded() {
        let mut buffer = Buffer::default();
        let taken = |buffer: &Buffer| {
            buffer.bytes.capacity() + buffer.places.capacity() * size_of::<Place>()
        };
        // As long as expected, longer, shorter.
        for (len, expected) in [(100, 100), (1000, 100), (10, 1000)] {
            buffer.clear();
            buffer.reserve(10_000, 8 + expected);
            let value = vec![1; len];
            let mut count = 0u64;
            loop {
                let key = count.to_be_bytes();
                let record = Record {
                    key: &key,
                    value: Some(&value),
                };
                if !buffer.has_room(record) {
                    break;
                }
                buffer.push(record);
                count += 1;
            }
            assert!(count > 1 && taken(&buffer) <= 10_000, "{len}: {count}");
            if len == expected {
                assert_eq!(count, 10_000 / (6 + 108 + 16));
            }
        }
    }
}
