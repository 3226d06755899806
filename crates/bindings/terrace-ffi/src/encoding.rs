//! The one encoding in which batches, keys, values and windows of records cross the border.
//!
//! Numbers are little-endian; a varint has seven bits a byte, the lowest first, and ten bytes at most.
//!
//! - batch: `u32 count`, then for each change `u8 op, u32 map` and what the op says. `map` is a place in the
//!   list of structures that comes with the batch.
//!   - 0, put: `varint len, key, varint len, value`
//!   - 1, delete: `varint len, key`
//!   - 2, put until: `varint len, key, varint len, value, u64 ms` since 1970, all bits set for ever
//!   - 3, merge: `varint len, key, u8 which`, then for
//!     0 add and 1 add unsigned: `i64`; 2 min, 3 max, 5 set if absent: `varint len, bytes`;
//!     4 append: `varint len, bytes, u64 limit`;
//!     6 compare and set: `u8 has` (bit 0 the expected value, bit 1 the new one), `varint len, bytes` for each
//! - keys: `u32 count`, then `varint len, key` for each
//! - values: `u32 count`, then `u32 len, value` for each, where a length of `0xffff_ffff` is no value
//! - window: `u32 count`, then `u32 key, u32 value, key, value` for each record
//! - commit: `u64 sequence`, the 64 digits of its place and a zero byte, `u32 count`, then for each change
//!   `u8 what, u8 kind, u32 structure, u64 ms, u32 name, u32 key, u32 value`, and the bytes of those three, where
//!   a length of `0xffff_ffff` is none. `what` is 1 put, 2 delete, 3 created, 4 dropped, 5 renamed, 6 marked,
//!   7 the removal of a range, from the key to before the value, or to the end if there is none, and
//!   0 what this version does not know; `kind` of the structure is 1 tree, 2 hash, 3 table, 4 lsm, 0 unknown;
//!   `ms` is a time since 1970, 0 for none
//!
//! Invariants: every length is checked before it is used, bytes after the last change are an error, and a
//! batch is decoded wholly before anything of it is written.

use std::time::{SystemTime, UNIX_EPOCH};

use terrace::{Change, ChangedStructure, Commit, Kind, Merge};

use crate::failure::{Failure, Result};
use crate::planted::{Fault, planted};

/// The length of no value.
pub const NO_VALUE: u32 = u32::MAX;
/// Digits of a place in the changes.
pub const PLACE_DIGITS: usize = 64;
/// Where the place of a commit begins.
pub const COMMIT_PLACE: usize = 8;
/// Where the first change of a commit begins.
pub const COMMIT_HEAD: usize = COMMIT_PLACE + PLACE_DIGITS + 1 + 4;
/// Bytes of a change before its name, key and value.
const CHANGE_HEAD: usize = 1 + 1 + 4 + 8 + 4 + 4 + 4;

/// A change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Op<'b> {
    /// The place of its structure in the list.
    pub map: u32,
    /// The key.
    pub key: &'b [u8],
    /// What becomes of it.
    pub to: To<'b>,
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum To<'b> {
    /// It has this value.
    Put(&'b [u8]),
    /// It has this value until then: milliseconds since 1970, or [`crate::expiring::NEVER`].
    PutUntil(&'b [u8], u64),
    /// It is not there.
    Delete,
    /// It is worked out of what is there.
    Merge(Merge),
}

/// Bytes that are taken apart.
struct Reader<'b> {
    left: &'b [u8],
}

#[cold]
fn cut_short() -> Failure {
    Failure::invalid("encoded bytes end too early, or say lengths that they do not have")
}

impl<'b> Reader<'b> {
    fn bytes(&mut self, len: usize) -> Result<&'b [u8]> {
        let (taken, left) = self.left.split_at_checked(len).ok_or_else(cut_short)?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, left) = self.left.split_first_chunk().ok_or_else(cut_short)?;
        self.left = left;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for place in 0..10 {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if place == 9 && bits > 1 {
                break;
            }
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Failure::invalid("an encoded length has too many bytes"))
    }

    /// Bytes that begin with their length.
    fn sized(&mut self) -> Result<&'b [u8]> {
        let len = self.varint()?;
        self.bytes(usize::try_from(len).map_err(|_| cut_short())?)
    }

    fn merge(&mut self) -> Result<Merge> {
        Ok(match self.u8()? {
            0 => Merge::Add(i64::from_le_bytes(self.array()?)),
            1 => Merge::AddUnsigned(i64::from_le_bytes(self.array()?)),
            2 => Merge::Min(self.sized()?.to_vec()),
            3 => Merge::Max(self.sized()?.to_vec()),
            4 => {
                let bytes = self.sized()?.to_vec();
                let limit = u64::from_le_bytes(self.array()?);
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                Merge::Append { bytes, limit }
            }
            5 => Merge::SetIfAbsent(self.sized()?.to_vec()),
            6 => {
                let has = self.u8()?;
                if has > 3 {
                    return Err(Failure::invalid(format!(
                        "an encoded compare-and-set has the unknown flags {has:#x}"
                    )));
                }
                let mut value = |bit: u8| -> Result<Option<Vec<u8>>> {
                    (has & bit != 0)
                        .then(|| self.sized().map(<[u8]>::to_vec))
                        .transpose()
                };
                let (expected, new) = (value(1)?, value(2)?);
                Merge::CompareAndSet { expected, new }
            }
            other => {
                return Err(Failure::invalid(format!(
                    "an encoded batch has the unknown merge {other}"
                )));
            }
        })
    }

    fn op(&mut self) -> Result<Op<'b>> {
        let (op, map) = (self.u8()?, self.u32()?);
        let key = self.sized()?;
        let to = match op {
            0 => To::Put(self.sized()?),
            1 => To::Delete,
            2 => To::PutUntil(self.sized()?, u64::from_le_bytes(self.array()?)),
            3 => To::Merge(self.merge()?),
            other => {
                return Err(Failure::invalid(format!(
                    "an encoded batch has the unknown change {other}"
                )));
            }
        };
        Ok(Op { map, key, to })
    }

    fn all<T>(bytes: &'b [u8], mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut reader = Reader { left: bytes };
        let count = reader.u32()?;
        // Each takes a byte at least, so a count that lies makes no room for more than there is.
        if count as usize > reader.left.len() {
            return Err(cut_short());
        }
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(&mut reader)?);
        }
        match reader.left {
            [] => Ok(all),
            left => Err(Failure::invalid(format!(
                "{} bytes lie behind what was encoded",
                left.len()
            ))),
        }
    }
}

/// All changes of a batch.
///
/// # Errors
/// [`crate::Kind::Invalid`] for bytes that are no batch.
pub fn batch(bytes: &[u8]) -> Result<Vec<Op<'_>>> {
    let mut ops = Reader::all(bytes, Reader::op)?;
    if planted(Fault::BatchCutShort) {
        ops.pop();
    }
    Ok(ops)
}

/// All keys.
///
/// # Errors
/// [`crate::Kind::Invalid`] for bytes that are no keys.
pub fn keys(bytes: &[u8]) -> Result<Vec<&[u8]>> {
    Reader::all(bytes, Reader::sized)
}

/// Values on their way out, to the end of `out`.
///
/// # Errors
/// When there are more than 2^32 of them.
pub fn values(values: &[Option<Vec<u8>>], out: &mut Vec<u8>) -> Result<()> {
    let count = u32::try_from(values.len());
    let count = count.map_err(|_| Failure::invalid("too many values at once"))?;
    out.extend_from_slice(&count.to_le_bytes());
    for value in values {
        // Values are shorter than the length of none: `terrace::MAX_VALUE_BYTES`.
        let len = value.as_ref().map_or(NO_VALUE, |value| value.len() as u32);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    Ok(())
}

/// A record at the end of a window. The caller counts.
pub(crate) fn push_record(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(key.len() as u32).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The record that begins at a place of a window, and where the next one does. None at its end.
pub fn record_at(window: &[u8], at: usize) -> Option<(&[u8], &[u8], usize)> {
    let mut reader = Reader {
        left: window.get(at..)?,
    };
    let (key, value) = (reader.u32().ok()?, reader.u32().ok()?);
    let key = reader.bytes(key as usize).ok()?;
    let value = reader.bytes(value as usize).ok()?;
    Some((key, value, at + 8 + key.len() + value.len()))
}

/// A change of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChangeAt<'b> {
    /// What happened, by its number.
    pub what: u8,
    /// The kind of the structure, by its number.
    pub kind: u8,
    /// The number of the structure.
    pub structure: u32,
    /// Milliseconds since 1970, 0 for none.
    pub time_ms: u64,
    /// The name of the structure, or of the mark.
    pub name: Option<&'b [u8]>,
    /// The key.
    pub key: Option<&'b [u8]>,
    /// The value.
    pub value: Option<&'b [u8]>,
}

/// The number that bindings have for a kind; 0 for one that this version does not know.
fn kind_number(kind: Option<Kind>) -> u8 {
    match kind {
        Some(Kind::Tree) => 1,
        Some(Kind::Hash) => 2,
        Some(Kind::Table) => 3,
        Some(Kind::Lsm) => 4,
        _ => 0,
    }
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl<'c> ChangeAt<'c> {
    fn of_structure(what: u8, structure: &'c ChangedStructure) -> ChangeAt<'c> {
        ChangeAt {
            what,
            kind: kind_number(structure.kind),
            structure: structure.id,
            name: structure.name.as_deref().map(str::as_bytes),
            ..ChangeAt::default()
        }
    }

    fn of(change: Change<'c>) -> ChangeAt<'c> {
        let of = ChangeAt::of_structure;
        match change {
            Change::Put {
                structure,
                key,
                value,
                expires,
            } => ChangeAt {
                key: Some(key),
                value: Some(value),
                time_ms: expires.map_or(0, millis),
                ..of(1, structure)
            },
            Change::Delete { structure, key } => ChangeAt {
                key: Some(key),
                ..of(2, structure)
            },
            Change::Created { structure } => of(3, structure),
            Change::Dropped { structure } => of(4, structure),
            Change::Renamed { structure } => of(5, structure),
            Change::DeleteRange {
                structure,
                low,
                high,
            } => ChangeAt {
                key: Some(low),
                value: high,
                ..of(7, structure)
            },
            Change::Marked { name, time } => ChangeAt {
                what: 6,
                time_ms: millis(time),
                name: Some(name.as_bytes()),
                ..ChangeAt::default()
            },
            // Of a kind that a later engine has.
            _ => ChangeAt::default(),
        }
    }
}

/// Replaces `out` by a commit.
pub fn commit(commit: &Commit, out: &mut Vec<u8>) {
    let changes = commit.changes();
    let count = changes.len() - usize::from(planted(Fault::ChangeLost));
    out.clear();
    out.extend_from_slice(&commit.sequence().to_le_bytes());
    out.extend_from_slice(commit.place().to_string().as_bytes());
    out.push(0);
    // A commit has fewer bytes than 2^32: it is one record of the log.
    out.extend_from_slice(&(count as u32).to_le_bytes());
    for change in changes.take(count).map(ChangeAt::of) {
        out.extend_from_slice(&[change.what, change.kind]);
        out.extend_from_slice(&change.structure.to_le_bytes());
        out.extend_from_slice(&change.time_ms.to_le_bytes());
        let parts = [change.name, change.key, change.value];
        for part in parts {
            let len = part.map_or(NO_VALUE, |part| part.len() as u32);
            out.extend_from_slice(&len.to_le_bytes());
        }
        for part in parts.into_iter().flatten() {
            out.extend_from_slice(part);
        }
    }
}

/// The number of a commit in the order of changes; none of bytes that are none.
pub fn commit_sequence(commit: &[u8]) -> Option<u64> {
    let (first, _) = commit.get(..COMMIT_HEAD)?.split_first_chunk()?;
    Some(u64::from_le_bytes(*first))
}

/// The change that begins at a place of a commit, and where the next one does. None at its end.
pub fn change_at(commit: &[u8], at: usize) -> Option<(ChangeAt<'_>, usize)> {
    let mut reader = Reader {
        left: commit.get(at..)?,
    };
    let (what, kind) = (reader.u8().ok()?, reader.u8().ok()?);
    let structure = reader.u32().ok()?;
    let time_ms = u64::from_le_bytes(reader.array().ok()?);
    let lens: [u32; 3] = [reader.u32().ok()?, reader.u32().ok()?, reader.u32().ok()?];
    let mut next = at + CHANGE_HEAD;
    let mut parts = [None; 3];
    for (part, len) in parts.iter_mut().zip(lens) {
        if len != NO_VALUE {
            *part = Some(reader.bytes(len as usize).ok()?);
            next += len as usize;
        }
    }
    let [name, key, value] = parts;
    let change = ChangeAt {
        what,
        kind,
        structure,
        time_ms,
        name,
        key,
        value,
    };
    Some((change, next))
}

/// Writes what [`batch`] reads.
#[derive(Clone, Debug, Default)]
pub struct BatchWriter {
    count: u32,
    ops: Vec<u8>,
}

impl BatchWriter {
    fn begin(&mut self, op: u8, map: u32, key: &[u8]) {
        self.count = self.count.saturating_add(1);
        self.ops.push(op);
        self.ops.extend_from_slice(&map.to_le_bytes());
        sized(key, &mut self.ops);
    }

    /// Adds a put.
    pub fn put(&mut self, map: u32, key: &[u8], value: &[u8]) {
        self.begin(0, map, key);
        sized(value, &mut self.ops);
    }

    /// Adds a put that expires.
    pub fn put_until(&mut self, map: u32, key: &[u8], value: &[u8], time_ms: u64) {
        self.begin(2, map, key);
        sized(value, &mut self.ops);
        self.ops.extend_from_slice(&time_ms.to_le_bytes());
    }

    /// Adds a delete.
    pub fn delete(&mut self, map: u32, key: &[u8]) {
        self.begin(1, map, key);
    }

    /// Adds a merge of a kind that has a number here.
    ///
    /// # Errors
    /// [`crate::Kind::Invalid`] for one that has none; nothing is added then.
    pub fn merge(&mut self, map: u32, key: &[u8], merge: &Merge) -> Result<()> {
        let mut bytes = Vec::new();
        match merge {
            Merge::Add(n) => number(0, *n, &mut bytes),
            Merge::AddUnsigned(n) => number(1, *n, &mut bytes),
            Merge::Min(value) => one(2, value, &mut bytes),
            Merge::Max(value) => one(3, value, &mut bytes),
            Merge::Append {
                bytes: value,
                limit,
            } => {
                one(4, value, &mut bytes);
                bytes.extend_from_slice(&(*limit as u64).to_le_bytes());
            }
            Merge::SetIfAbsent(value) => one(5, value, &mut bytes),
            Merge::CompareAndSet { expected, new } => {
                let has = u8::from(expected.is_some()) | u8::from(new.is_some()) << 1;
                bytes.extend_from_slice(&[6, has]);
                let values = expected.iter().chain(new);
                values.for_each(|value| sized(value, &mut bytes));
            }
            other => return Err(Failure::invalid(format!("{other:?} cannot be encoded"))),
        }
        self.begin(3, map, key);
        self.ops.append(&mut bytes);
        Ok(())
    }

    /// All of it, encoded.
    pub fn finish(&self) -> Vec<u8> {
        let mut bytes = self.count.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.ops);
        bytes
    }
}

fn number(which: u8, number: i64, out: &mut Vec<u8>) {
    out.push(which);
    out.extend_from_slice(&number.to_le_bytes());
}

fn one(which: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(which);
    sized(value, out);
}

fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    let mut len = bytes.len() as u64;
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn some_bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..300)
    }

    fn some_merge() -> impl Strategy<Value = Merge> {
        let value = some_bytes;
        let set = (proptest::option::of(value()), proptest::option::of(value()));
        prop_oneof![
            any::<i64>().prop_map(Merge::Add),
            any::<i64>().prop_map(Merge::AddUnsigned),
            value().prop_map(Merge::Min),
            value().prop_map(Merge::Max),
            (value(), any::<u32>()).prop_map(|(bytes, limit)| Merge::Append {
                bytes,
                limit: limit as usize
            }),
            value().prop_map(Merge::SetIfAbsent),
            set.prop_map(|(expected, new)| Merge::CompareAndSet { expected, new }),
        ]
    }

    #[derive(Clone, Debug)]
    enum Change {
        Put(Vec<u8>),
        PutUntil(Vec<u8>, u64),
        Delete,
        Merge(Merge),
    }

    fn some_batch() -> impl Strategy<Value = Vec<(u32, Vec<u8>, Change)>> {
        let change = prop_oneof![
            some_bytes().prop_map(Change::Put),
            (some_bytes(), any::<u64>()).prop_map(|(value, ms)| Change::PutUntil(value, ms)),
            Just(Change::Delete),
            some_merge().prop_map(Change::Merge),
        ];
        vec((any::<u32>(), some_bytes(), change), 0..8)
    }

    fn encoded(changes: &[(u32, Vec<u8>, Change)]) -> Vec<u8> {
        let mut writer = BatchWriter::default();
        for (map, key, change) in changes {
            match change {
                Change::Put(value) => writer.put(*map, key, value),
                Change::PutUntil(value, ms) => writer.put_until(*map, key, value, *ms),
                Change::Delete => writer.delete(*map, key),
                Change::Merge(merge) => writer.merge(*map, key, merge).unwrap(),
            }
        }
        writer.finish()
    }

    proptest! {
        #[test]
        fn a_batch_is_read_as_it_was_written(changes in some_batch()) {
            let bytes = encoded(&changes);
            let read = batch(&bytes).unwrap();
            prop_assert_eq!(read.len(), changes.len());
            for (op, (map, key, change)) in read.iter().zip(&changes) {
                prop_assert_eq!((op.map, op.key), (*map, &key[..]));
                match (&op.to, change) {
                    (To::Put(read), Change::Put(value)) => prop_assert_eq!(*read, &value[..]),
                    (To::PutUntil(read, at), Change::PutUntil(value, ms)) => {
                        prop_assert_eq!((*read, at), (&value[..], ms));
                    }
                    (To::Delete, Change::Delete) => {}
                    (To::Merge(read), Change::Merge(merge)) => prop_assert_eq!(read, merge),
                    (read, change) => prop_assert!(false, "{:?} {:?}", read, change),
                }
            }
        }

        #[test]
        fn what_is_cut_short_or_too_long_is_no_batch(changes in some_batch(), cut in any::<u16>()) {
            let mut bytes = encoded(&changes);
            let at = usize::from(cut) % bytes.len();
            prop_assert!(batch(&bytes[..at]).is_err());
            bytes.push(0);
            prop_assert!(batch(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_taken_apart_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            let _ = (batch(&bytes), keys(&bytes), record_at(&bytes, 0));
            let _ = (commit_sequence(&bytes), change_at(&bytes, 0));
        }
    }

    #[test]
    fn lengths_that_lie_make_no_room() {
        let mut lies = vec![255, 255, 255, 255];
        assert!(batch(&lies).is_err());
        assert!(keys(&lies).is_err());
        lies = [&1u32.to_le_bytes()[..], &[0, 0, 0, 0, 0], &[255; 9], &[1]].concat();
        assert!(batch(&lies).is_err());
        lies = [&1u32.to_le_bytes()[..], &[255; 9], &[2]].concat();
        assert!(keys(&lies).unwrap_err().text.contains("too many bytes"));
        assert_eq!(record_at(&[255; 12], 0), None);
        assert_eq!(record_at(&[0; 12], usize::MAX), None);
        assert_eq!(change_at(&[254; 26], 0), None);
        assert_eq!(change_at(&[0; 26], usize::MAX), None);
        assert_eq!(commit_sequence(&[0; COMMIT_HEAD - 1]), None);
    }

    #[test]
    fn the_numbers_are_those_that_other_languages_know() {
        let mut writer = BatchWriter::default();
        writer.put(1, b"k", &[7; 200]);
        writer.delete(2, b"");
        let mut expected = vec![2, 0, 0, 0, 0, 1, 0, 0, 0, 1, b'k', 200, 1];
        expected.extend_from_slice(&[7; 200]);
        expected.extend_from_slice(&[1, 2, 0, 0, 0, 0]);
        assert_eq!(writer.finish(), expected);
        let mut out = Vec::new();
        values(&[Some(b"ab".to_vec()), None], &mut out).unwrap();
        assert_eq!(
            out,
            [2, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', 255, 255, 255, 255]
        );
    }
}
