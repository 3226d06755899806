//! Byte strings: keys and values that do not fit a word, one behind the other in a place of their class.
//!
//! A blob is written once. Its check covers what it holds, where it lies, and by which record it came, so a
//! record that refers to a blob that was not written whole, or to a place that has another one by now, or one
//! of before yet, is known as such (rule 12). Without the record an older value of the same key that lay in
//! the same place would be taken for the new one.

use terrace_base::checksum::{mix, seeded};
use terrace_base::{Error, Result};

use super::layout::ChunkKind;
use super::sizes::{CLASSES, HEADER, LONGEST_BLOB, class_of};
use super::space::Arena;
use crate::faults::{Planted, planted};

/// Bits of the length of a key in the first word, and of a value behind them; the rest is the birth.
const KEY_BITS: u32 = 11;
const VALUE_BITS: u32 = 21;

/// A blob: its place / 16 in 40 bits, and 24 bits of the hash of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobRef(pub u64);

impl BlobRef {
    fn new(byte: u64, hash: u64) -> BlobRef {
        BlobRef((byte / 16) | (hash >> 40 << 40))
    }

    /// First byte.
    pub fn byte(self) -> u64 {
        (self.0 & ((1 << 40) - 1)) * 16
    }

    /// The upper bits of the hash of the key.
    pub fn hash(self) -> u64 {
        self.0 >> 40 << 40
    }
}

/// Lengths and content of a blob.
pub struct Blob {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The lower bits of the sequence number of the record by which it came.
    pub birth: u32,
    /// Whether the check is right.
    pub is_whole: bool,
}

impl Arena {
    /// Writes a blob; [`Arena::flush_blob`] and a fence make it durable. `sequence` is that of the record that
    /// is about to refer to it; `may_reserve` says whether the last chunks may be taken for it.
    pub fn write_blob(
        &self,
        hash: u64,
        sequence: u64,
        key: &[u8],
        value: &[u8],
        may_reserve: bool,
    ) -> Result<BlobRef> {
        let bytes = key.len() + value.len();
        let class = class_of(bytes)
            .filter(|class| u64::from(CLASSES[*class as usize]) <= self.layout().shape.chunk)
            .ok_or(Error::ValueTooLong {
                len: value.len(),
                limit: LONGEST_BLOB.saturating_sub(key.len()),
            })?;
        let place = {
            let mut free = self.free.lock();
            let (chunk, i, class) = loop {
                if let Some((chunk, i)) = free.places.take(class) {
                    break (chunk, i, class);
                }
                let mut taken = self.take_chunk(&mut free, ChunkKind::Blobs(class), false);
                if matches!(&taken, Err(error) if error.is_disk_full()) {
                    // A place that is too large is better than none, and than the reserve.
                    let larger = (class + 1..CLASSES.len() as u8)
                        .find_map(|class| Some((class, free.places.take(class)?)));
                    if let Some((class, (chunk, i))) = larger {
                        break (chunk, i, class);
                    }
                    if may_reserve {
                        taken = self.take_chunk(&mut free, ChunkKind::Blobs(class), true);
                    }
                }
                taken?;
            };
            self.layout().chunk_at(chunk) + i as u64 * u64::from(CLASSES[class as usize])
        };
        let blob = BlobRef::new(place, hash);
        let at = (place / 8) as usize;
        let birth = sequence as u32;
        let lens = key.len() as u64
            | (value.len() as u64) << KEY_BITS
            | u64::from(birth) << (KEY_BITS + VALUE_BITS);
        let pm = self.pm();
        let mut word = 0u64;
        let mut count = 0;
        let mut next = at + 2;
        for byte in key.iter().chain(value) {
            word |= u64::from(*byte) << (8 * (count % 8));
            count += 1;
            if count % 8 == 0 {
                pm.store(next, word);
                next += 1;
                word = 0;
            }
        }
        if count % 8 != 0 {
            pm.store(next, word);
        }
        pm.store(at, lens);
        pm.store(at + 1, self.blob_check(blob, birth, key, value));
        Ok(blob)
    }

    /// Begins to flush a blob. Whoever fences its record does it, as a fence is worth what its own thread has
    /// flushed.
    pub fn flush_blob(&self, blob: BlobRef) {
        if let Some((key, value, _)) = self.lens(blob) {
            let words = (HEADER as usize + key + value).div_ceil(8);
            self.pm().flush((blob.byte() / 8) as usize, words);
        }
    }

    fn blob_check(&self, blob: BlobRef, birth: u32, key: &[u8], value: &[u8]) -> u64 {
        let birth = if planted(Planted::BlobOfBefore) {
            0
        } else {
            birth
        };
        let lens = key.len() as u64 | u64::from(birth) << 32;
        let place = mix(self.layout().map_id ^ lens, blob.0);
        mix(seeded(place, key), seeded(!place, value)) | 1
    }

    fn lens(&self, blob: BlobRef) -> Option<(usize, usize, u32)> {
        let byte = blob.byte();
        let chunk = self.layout().chunk_of(byte)?;
        let ChunkKind::Blobs(class) = self.kind(chunk) else {
            return None;
        };
        let size = u64::from(CLASSES[class as usize]);
        if !self.is_place(byte, ChunkKind::Blobs(class), size) {
            return None;
        }
        let lens = self.load((byte / 8) as usize);
        let key = (lens & ((1 << KEY_BITS) - 1)) as usize;
        let value = (lens >> KEY_BITS & ((1 << VALUE_BITS) - 1)) as usize;
        let birth = (lens >> (KEY_BITS + VALUE_BITS)) as u32;
        ((key + value) as u64 + HEADER <= size).then_some((key, value, birth))
    }

    fn bytes(&self, from: u64, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count);
        let mut at = from;
        while bytes.len() < count {
            let word = self.load((at / 8) as usize).to_le_bytes();
            let within = (at % 8) as usize;
            let take = (8 - within).min(count - bytes.len());
            bytes.extend_from_slice(&word[within..within + take]);
            at += take as u64;
        }
        bytes
    }

    /// What a blob holds; `None` where no blob can be.
    pub fn blob(&self, blob: BlobRef) -> Option<Blob> {
        let (key, value, birth) = self.lens(blob)?;
        let at = blob.byte() + HEADER;
        let (key, value) = (self.bytes(at, key), self.bytes(at + key as u64, value));
        let check = self.load((blob.byte() / 8) as usize + 1);
        let is_whole = check == self.blob_check(blob, birth, &key, &value);
        Some(Blob {
            key,
            value,
            birth,
            is_whole,
        })
    }

    /// What a pair refers to, if it is what was written.
    pub fn whole_blob(&self, blob: BlobRef) -> Result<Blob> {
        match self.blob(blob) {
            Some(found) if found.is_whole => Ok(found),
            _ => Err(Error::corrupt(
                self.pm().name(),
                blob.byte(),
                "the blob of a pair is not what was written",
            )),
        }
    }

    /// The key of a blob; empty where no blob can be.
    pub fn blob_key(&self, blob: BlobRef) -> Vec<u8> {
        self.lens(blob)
            .map_or_else(Vec::new, |(key, ..)| self.bytes(blob.byte() + HEADER, key))
    }

    /// A blob to which nothing durable refers any more.
    pub fn release_blob(&self, blob: BlobRef) {
        let chunk = self.layout().chunk_of(blob.byte());
        if chunk.is_some_and(|chunk| matches!(self.kind(chunk), ChunkKind::Blobs(_))) {
            self.release_place(blob.byte());
        }
    }
}

const _: () = assert!(LONGEST_BLOB < 1 << VALUE_BITS && KEY_BITS + VALUE_BITS == 32);
