//! Sorted runs of keys: what a merge reads from one stage and builds the next one from.

use crate::family::{ByteFamily, IntFamily, KeyRun};
use crate::prefix::common_prefix;
use alloc::vec::Vec;

impl KeyRun<IntFamily> for Vec<u64> {
    #[inline]
    fn len(&self) -> usize {
        Vec::len(self)
    }
    #[inline]
    fn get(&self, i: usize) -> u64 {
        self[i]
    }
    #[inline]
    fn push(&mut self, key: u64) {
        Vec::push(self, key);
    }
    fn append(&mut self, other: &Self, from: usize, to: usize) {
        self.extend_from_slice(&other[from..to]);
    }
    fn insert_at(&mut self, i: usize, key: u64, (keys, _): (usize, usize)) {
        if self.len() == self.capacity() {
            self.reserve_exact(keys);
        }
        self.insert(i, key);
    }
    fn remove_at(&mut self, i: usize) {
        Vec::remove(self, i);
    }
    fn truncate(&mut self, n: usize) {
        Vec::truncate(self, n);
    }
    fn reserve(&mut self, keys: usize, _: usize) {
        Vec::reserve_exact(self, keys);
    }
    fn key_bytes(&self, from: usize, to: usize) -> usize {
        (to - from) * 8
    }
    fn heap(&self) -> usize {
        self.capacity() * 8
    }
    fn shrink(&mut self) {
        self.shrink_to_fit();
    }
    fn write(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        out.extend(self[from..to].iter().flat_map(|k| k.to_be_bytes()));
    }
    fn read(raw: &[u8]) -> Self {
        raw.as_chunks::<8>()
            .0
            .iter()
            .map(|k| u64::from_be_bytes(*k))
            .collect()
    }
    #[cfg(feature = "pairs")]
    fn plain(&self) -> crate::plain::PlainKeys<'_> {
        crate::plain::PlainKeys::Ints(self.iter().map(|key| key.to_be_bytes()).collect())
    }
}

/// Byte strings end to end, and where each ends: less than 4 GiB of them, which who fills a run sees
/// to. Keys have 64 KiB and segments 8192 at most, so that one with its neighbour has far less.
#[derive(Default)]
pub struct ByteRun {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// How much each key shares with the one before, where all were appended with it.
    shares: Vec<u16>,
}

impl ByteRun {
    #[inline]
    fn start(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.ends[i - 1] as usize }
    }

    /// Appends a key that is the first `keep` bytes of the last key and then `suffix`.
    #[inline]
    pub fn push_after(&mut self, keep: usize, suffix: &[u8]) {
        let from = self.start(self.ends.len().saturating_sub(1));
        self.bytes.extend_from_within(from..from + keep);
        self.bytes.extend_from_slice(suffix);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Makes room for keys that are appended by [`ByteRun::push_sharing`].
    pub fn reserve_sharing(&mut self, keys: usize, bytes: usize) {
        self.reserve(keys, bytes);
        self.shares.reserve_exact(keys);
    }

    /// Appends a key that shares this many bytes with the last one.
    #[inline]
    pub fn push_sharing(&mut self, shared: usize, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
        self.shares.push(shared as u16);
    }

    /// How much key `i` shares with the one before; there must be one.
    #[inline]
    pub fn share(&self, i: usize) -> usize {
        if self.shares.len() == self.ends.len() {
            usize::from(self.shares[i])
        } else {
            common_prefix(self.get(i - 1), self.get(i))
        }
    }

    /// The bytes from the beginning of key `i` on, and how many are the key's.
    #[inline]
    pub fn tail(&self, i: usize) -> (&[u8], usize) {
        let from = self.start(i);
        (&self.bytes[from..], self.ends[i] as usize - from)
    }

    /// Appends a key in two pieces.
    #[inline]
    pub fn push_pieces(&mut self, prefix: &[u8], suffix: &[u8]) {
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(suffix);
        self.ends.push(self.bytes.len() as u32);
    }

    /// The bytes of the keys `from..to`, and where each of them ends there.
    pub fn part(&self, from: usize, to: usize) -> (&[u8], impl Iterator<Item = u32>) {
        let (a, b) = (self.start(from), self.start(to));
        let ends = self.ends[from..to].iter().map(move |&end| end - a as u32);
        (&self.bytes[a..b], ends)
    }

    /// Appends keys end to end, each of which ends there.
    pub fn append_part(&mut self, bytes: &[u8], ends: impl Iterator<Item = u32>) {
        let base = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        self.ends.extend(ends.map(|end| base + end));
    }

    /// Appends keys end to end; `put` appends where each of them ends, when it is told where they begin.
    pub fn append_whole(&mut self, bytes: &[u8], put: impl FnOnce(u32, &mut Vec<u32>)) {
        let base = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        put(base, &mut self.ends);
    }

    /// The keys end to end, and where each ends.
    pub fn into_parts(self) -> (Vec<u8>, Vec<u32>) {
        (self.bytes, self.ends)
    }

    /// Puts a key in at `i`. O(bytes).
    pub fn insert(&mut self, i: usize, key: &[u8]) {
        let at = self.start(i);
        self.shares.clear();
        self.bytes.splice(at..at, key.iter().copied());
        self.ends.insert(i, at as u32);
        for end in &mut self.ends[i..] {
            *end += key.len() as u32;
        }
    }

    /// Takes out the keys `from..to`. O(bytes).
    pub fn remove(&mut self, from: usize, to: usize) {
        let (a, b) = (self.start(from), self.start(to));
        self.shares.clear();
        self.bytes.drain(a..b);
        self.ends.drain(from..to);
        for end in &mut self.ends[from..] {
            *end -= (b - a) as u32;
        }
    }
}

impl KeyRun<ByteFamily> for ByteRun {
    #[inline]
    fn len(&self) -> usize {
        self.ends.len()
    }
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        &self.bytes[self.start(i)..self.ends[i] as usize]
    }
    fn push(&mut self, key: &[u8]) {
        self.push_pieces(key, &[]);
    }
    fn append(&mut self, other: &Self, from: usize, to: usize) {
        let (bytes, ends) = other.part(from, to);
        self.append_part(bytes, ends);
        debug_assert!(u32::try_from(self.bytes.len()).is_ok());
    }
    fn insert_at(&mut self, i: usize, key: &[u8], (keys, bytes): (usize, usize)) {
        if self.ends.len() == self.ends.capacity() {
            self.ends.reserve_exact(keys);
        }
        if self.bytes.capacity() - self.bytes.len() < key.len() {
            self.bytes.reserve_exact(key.len().next_multiple_of(bytes));
        }
        self.insert(i, key);
    }
    fn remove_at(&mut self, i: usize) {
        self.remove(i, i + 1);
    }
    fn truncate(&mut self, n: usize) {
        self.ends.truncate(n);
        self.shares.truncate(n);
        self.bytes.truncate(self.start(n));
    }
    fn reserve(&mut self, keys: usize, bytes: usize) {
        self.ends.reserve_exact(keys);
        self.bytes.reserve_exact(bytes);
    }
    fn key_bytes(&self, from: usize, to: usize) -> usize {
        self.start(to) - self.start(from)
    }
    fn heap(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 4 + self.shares.capacity() * 2
    }
    fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
    fn write(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        out.extend(((to - from) as u32).to_le_bytes());
        for i in from..to {
            out.extend((self.get(i).len() as u16).to_le_bytes());
        }
        out.extend_from_slice(&self.bytes[self.start(from)..self.start(to)]);
    }
    fn read(raw: &[u8]) -> Self {
        let (count, rest) = raw.split_at(4);
        let n = u32::from_le_bytes(count.try_into().unwrap_or_default()) as usize;
        let (lens, bytes) = rest.split_at(n * 2);
        let mut end = 0;
        let ends = lens.as_chunks::<2>().0.iter().map(|len| {
            end += u32::from(u16::from_le_bytes(*len));
            end
        });
        ByteRun {
            ends: ends.collect(),
            bytes: bytes.to_vec(),
            shares: Vec::new(),
        }
    }
    #[cfg(feature = "pairs")]
    fn plain(&self) -> crate::plain::PlainKeys<'_> {
        crate::plain::PlainKeys::Bytes(&self.bytes, &self.ends)
    }
}
