//! Memory for what is saved for a cut: blocks of one size in mappings of their own.
//!
//! Thousands of small arrays that grow, come and go for the length of a checkpoint would leave the heap
//! in pieces: at a gigabyte of memory 35 MiB stayed resident when all of them were gone. Here a block
//! that is given back is used again, and when the last one is, all mappings go.

use memmap2::MmapMut;

/// Bytes of a block, its link included: a record of a hundred bytes and what says where it was.
const BLOCK: usize = 128;
/// Bytes of a block that name the next one.
const LINK: usize = 4;
/// What follows the last block.
const NONE: u32 = u32::MAX;

/// Where bytes lie that are mapped, or, if that was refused, taken from the heap.
enum Slab {
    Mapped(MmapMut),
    Taken(Box<[u8]>),
}

impl Slab {
    fn new(bytes: usize) -> Slab {
        match MmapMut::map_anon(bytes) {
            Ok(mapped) => Slab::Mapped(mapped),
            Err(_) => Slab::Taken(vec![0; bytes].into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Slab::Mapped(bytes) => bytes,
            Slab::Taken(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Slab::Mapped(bytes) => bytes,
            Slab::Taken(bytes) => bytes,
        }
    }
}

/// A string of bytes that grows at its end, in blocks.
#[derive(Clone, Copy)]
pub struct Chain {
    first: u32,
    last: u32,
    len: u32,
}

impl Chain {
    /// With nothing in it.
    pub const EMPTY: Chain = Chain {
        first: NONE,
        last: NONE,
        len: 0,
    };

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Memory that its blocks take.
    pub fn memory(&self) -> usize {
        self.len().div_ceil(BLOCK - LINK) * BLOCK
    }
}

/// The blocks for what is saved for a cut, and the mappings that they lie in.
pub struct Blocks {
    slabs: Vec<Slab>,
    slab_bytes: usize,
    /// Blocks that were given back, each with a link to the next.
    free: u32,
    /// The first block that was never given out.
    fresh: u32,
}

impl Blocks {
    /// Without any yet; it takes `slab_bytes` at a time.
    pub fn new(slab_bytes: usize) -> Blocks {
        Blocks {
            slabs: Vec::new(),
            slab_bytes: slab_bytes.max(BLOCK),
            free: NONE,
            fresh: 0,
        }
    }

    /// Memory taken.
    pub fn memory(&self) -> usize {
        self.slabs.len() * self.slab_bytes
    }

    /// Gives all memory back; the chains are gone.
    pub fn clear(&mut self) {
        *self = Blocks::new(self.slab_bytes);
    }

    fn per_slab(&self) -> usize {
        self.slab_bytes / BLOCK
    }

    fn block(&self, block: u32) -> &[u8] {
        let (slab, at) = (
            block as usize / self.per_slab(),
            block as usize % self.per_slab() * BLOCK,
        );
        &self.slabs[slab].bytes()[at..at + BLOCK]
    }

    fn block_mut(&mut self, block: u32) -> &mut [u8] {
        let (slab, at) = (
            block as usize / self.per_slab(),
            block as usize % self.per_slab() * BLOCK,
        );
        &mut self.slabs[slab].bytes_mut()[at..at + BLOCK]
    }

    fn next(&self, block: u32) -> u32 {
        let mut link = [0; LINK];
        link.copy_from_slice(&self.block(block)[..LINK]);
        u32::from_le_bytes(link)
    }

    fn set_next(&mut self, block: u32, next: u32) {
        self.block_mut(block)[..LINK].copy_from_slice(&next.to_le_bytes());
    }

    fn take(&mut self) -> u32 {
        let block = self.free;
        if block != NONE {
            self.free = self.next(block);
            return block;
        }
        if self.fresh as usize == self.slabs.len() * self.per_slab() {
            self.slabs.push(Slab::new(self.slab_bytes));
        }
        self.fresh += 1;
        self.fresh - 1
    }

    /// Appends to a chain. O(bytes).
    pub fn append(&mut self, chain: &mut Chain, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let at = chain.len() % (BLOCK - LINK);
            if at == 0 {
                let block = self.take();
                self.set_next(block, NONE);
                if chain.first == NONE {
                    chain.first = block;
                } else {
                    self.set_next(chain.last, block);
                }
                chain.last = block;
            }
            let len = bytes.len().min(BLOCK - LINK - at);
            let (now, later) = bytes.split_at(len);
            self.block_mut(chain.last)[LINK + at..LINK + at + len].copy_from_slice(now);
            chain.len += len as u32;
            bytes = later;
        }
    }

    /// Gives the blocks of a chain back. O(blocks).
    pub fn give(&mut self, chain: Chain) {
        let mut block = chain.first;
        while block != NONE {
            let next = self.next(block);
            self.set_next(block, self.free);
            self.free = block;
            block = next;
        }
    }

    /// Reads a chain from its beginning.
    pub fn read(&self, chain: &Chain) -> Reader<'_> {
        Reader {
            blocks: self,
            block: chain.first,
            at: 0,
            left: chain.len(),
        }
    }
}

/// Reads a chain.
pub struct Reader<'b> {
    blocks: &'b Blocks,
    block: u32,
    /// Bytes of the block that were read.
    at: usize,
    left: usize,
}

impl Reader<'_> {
    /// Whether all of it was read.
    pub fn is_at_end(&self) -> bool {
        self.left == 0
    }

    /// Reads on, `len` bytes at most, handing them out in pieces.
    fn pieces(&mut self, len: usize, mut each: impl FnMut(&[u8])) {
        let mut wanted = len.min(self.left);
        self.left -= wanted;
        while wanted > 0 {
            let here = wanted.min(BLOCK - LINK - self.at);
            let from = LINK + self.at;
            each(&self.blocks.block(self.block)[from..from + here]);
            wanted -= here;
            self.at += here;
            if self.at == BLOCK - LINK {
                self.at = 0;
                self.block = self.blocks.next(self.block);
            }
        }
    }

    /// Passes by `len` bytes.
    pub fn skip(&mut self, len: usize) {
        self.pieces(len, |_| {});
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        let mut done = 0;
        self.pieces(out.len(), |piece| {
            out[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        });
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn content(blocks: &Blocks, chain: &Chain) -> Vec<u8> {
        let mut out = vec![0; chain.len()];
        let mut reader = blocks.read(chain);
        reader.fill(&mut out);
        assert!(reader.is_at_end());
        out
    }

    #[test]
    fn chains_keep_what_was_appended_and_share_what_is_given_back() {
        let mut blocks = Blocks::new(4096);
        let mut chains = vec![(Chain::EMPTY, Vec::new()); 40];
        for round in 0..2000usize {
            let (chain, truth) = &mut chains[round * 7 % 40];
            if round % 11 == 0 {
                blocks.give(std::mem::replace(chain, Chain::EMPTY));
                truth.clear();
            }
            let bytes = vec![round as u8; round * 13 % 300];
            blocks.append(chain, &bytes);
            truth.extend_from_slice(&bytes);
        }
        let live: usize = chains.iter().map(|(chain, _)| chain.memory()).sum();
        for (chain, truth) in &chains {
            assert_eq!(content(&blocks, chain), *truth);
        }
        assert!(live <= blocks.memory(), "{live}");
        let most = blocks.memory();
        for (chain, _) in &mut chains {
            blocks.give(std::mem::replace(chain, Chain::EMPTY));
        }
        // What was given back is used again.
        let mut chain = Chain::EMPTY;
        blocks.append(&mut chain, &vec![1; most / BLOCK * (BLOCK - LINK)]);
        assert_eq!((chain.memory(), blocks.memory()), (most, most));
        blocks.clear();
        assert_eq!(blocks.memory(), 0);
    }

    #[test]
    fn a_chain_is_read_in_parts() {
        let mut blocks = Blocks::new(4096);
        let mut chain = Chain::EMPTY;
        let bytes: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        blocks.append(&mut chain, &bytes);
        let mut reader = blocks.read(&chain);
        let mut out = [0; 7];
        reader.skip(120);
        reader.fill(&mut out);
        assert_eq!(out, bytes[120..127]);
        reader.skip(500);
        reader.fill(&mut out);
        assert_eq!(out, bytes[627..634]);
    }
}
