//! The superblock in the memory: written as one of its copies, read as the newest.

use terrace_base::Result;

use crate::pm::Pm;
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};

impl Superblock {
    /// Writes the copy that is not the newest, and waits.
    pub fn write(&self, pm: &dyn Pm) -> Result<()> {
        let (at, words) = self.next_copy();
        for (i, word) in words.into_iter().enumerate() {
            pm.store(at + i, word);
        }
        pm.flush(at, words.len());
        pm.fence()
    }

    /// The newest that can be read; `None` if the file holds nothing but zeros where they would be.
    pub fn read(pm: &dyn Pm) -> Result<Option<Superblock>> {
        let words = pm.words().iter().take((SUPERBLOCK_BYTES / 8) as usize);
        let words: Vec<u64> = words
            .map(|word| word.load(std::sync::atomic::Ordering::Acquire))
            .collect();
        Superblock::of_words(&words, pm.name())
    }
}
