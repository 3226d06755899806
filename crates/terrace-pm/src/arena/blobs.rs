//! Byte strings: keys and values that do not fit a word, one behind the other in a place of their class.
//!
//! A blob is written once. Its check covers what it holds and where it lies, so a record that refers to a
//! blob that was not written whole, or to a place that has another one by now, is known as such (rule 12).

use terrace_base::checksum::{mix, seeded};
use terrace_base::{Error, Result};

use super::{Arena, ChunkKind};

/// Bytes of the places of each class, header included.
pub const CLASSES: [u32; 31] = [
    32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
    16384, 24576, 32768, 49152, 65536, 98304, 131072, 196608, 262144, 393216, 524288, 786432,
    1048576,
];
/// Bytes before key and value: lengths and check.
const HEADER: u64 = 16;
/// Key and value together have this many bytes at most.
pub const LONGEST_BLOB: usize = 1048576 - HEADER as usize;

/// The class for so many bytes of key and value.
pub fn class_of(bytes: usize) -> Option<u8> {
    let whole = bytes as u64 + HEADER;
    CLASSES
        .iter()
        .position(|size| u64::from(*size) >= whole)
        .map(|class| class as u8)
}

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
    /// Whether the check is right.
    pub is_whole: bool,
}

impl Arena {
    /// Writes a blob and begins to flush it; a fence makes it durable.
    pub fn write_blob(&self, hash: u64, key: &[u8], value: &[u8]) -> Result<BlobRef> {
        let bytes = key.len() + value.len();
        let class = class_of(bytes)
            .filter(|class| u64::from(CLASSES[*class as usize]) <= self.layout().shape.chunk)
            .ok_or(Error::ValueTooLong {
                len: value.len(),
                limit: LONGEST_BLOB.saturating_sub(key.len()),
            })?;
        let place = {
            let mut free = self.free.lock();
            loop {
                if let Some(place) = free.blobs[class as usize].pop() {
                    break place;
                }
                self.take_chunk(&mut free, ChunkKind::Blobs(class))?;
            }
        };
        let blob = BlobRef::new(place, hash);
        let at = (place / 8) as usize;
        let lens = key.len() as u64 | (value.len() as u64) << 32;
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
            next += 1;
        }
        pm.store(at, lens);
        pm.store(at + 1, self.blob_check(blob, key, value));
        pm.flush(at, next - at);
        Ok(blob)
    }

    fn blob_check(&self, blob: BlobRef, key: &[u8], value: &[u8]) -> u64 {
        let place = mix(self.layout().map_id ^ key.len() as u64, blob.0);
        mix(seeded(place, key), seeded(!place, value)) | 1
    }

    fn lens(&self, blob: BlobRef) -> Option<(usize, usize)> {
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
        let (key, value) = ((lens & 0xffff_ffff) as usize, (lens >> 32) as usize);
        ((key + value) as u64 + HEADER <= size).then_some((key, value))
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
        let (key, value) = self.lens(blob)?;
        let at = blob.byte() + HEADER;
        let (key, value) = (self.bytes(at, key), self.bytes(at + key as u64, value));
        let check = self.load((blob.byte() / 8) as usize + 1);
        let is_whole = check == self.blob_check(blob, &key, &value);
        Some(Blob {
            key,
            value,
            is_whole,
        })
    }

    /// The key of a blob; empty where no blob can be.
    pub fn blob_key(&self, blob: BlobRef) -> Vec<u8> {
        self.lens(blob)
            .map_or_else(Vec::new, |(key, _)| self.bytes(blob.byte() + HEADER, key))
    }

    /// The value of a blob; empty where no blob can be.
    pub fn blob_value(&self, blob: BlobRef) -> Vec<u8> {
        self.lens(blob).map_or_else(Vec::new, |(key, value)| {
            self.bytes(blob.byte() + HEADER + key as u64, value)
        })
    }

    /// A blob to which nothing durable refers any more.
    pub fn release_blob(&self, blob: BlobRef) {
        let byte = blob.byte();
        if let Some(chunk) = self.layout().chunk_of(byte)
            && let ChunkKind::Blobs(class) = self.kind(chunk)
        {
            self.free.lock().blobs[class as usize].push(byte);
        }
    }

    /// After recovery: every place that is not among these (sorted by place) is free.
    pub fn release_blobs_but(&self, used: &[u64]) {
        for (class, size) in CLASSES.iter().enumerate() {
            let kind = ChunkKind::Blobs(class as u8);
            let places = self.places(kind, u64::from(*size));
            let free = places
                .into_iter()
                .rev()
                .filter(|place| used.binary_search(place).is_err());
            let free: Vec<u64> = free.collect();
            // In the place of what replay has left of new chunks, which is among these.
            self.free.lock().blobs[class] = free;
        }
    }
}
