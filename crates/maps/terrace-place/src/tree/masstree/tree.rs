//! The tree of a part, and the words of keys in its layers.

use crate::tree::common::OwnedNode;
use crate::tree::kind::Rooted;

/// Entries of a part at most: two levels of inner nodes, where keys have one layer.
pub(super) const MOST_ENTRIES: usize = if cfg!(feature = "shuttle") {
    6
} else {
    6 << 10
};

/// The tree of a part.
#[derive(Debug, Default)]
pub struct MassTree {
    pub(super) root: Option<OwnedNode>,
    /// The part has left the directory.
    pub(super) retired: bool,
    pub(super) len: usize,
    pub(super) version: u64,
}

impl Rooted for MassTree {
    fn root(&self) -> Option<&OwnedNode> {
        self.root.as_ref()
    }
    fn root_mut(&mut self) -> Option<&mut OwnedNode> {
        self.root.as_mut()
    }
    fn retire(&mut self) -> Option<OwnedNode> {
        self.retired = true;
        self.root.take()
    }
    fn len(&self) -> usize {
        self.len
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn changed(&mut self) {
        self.version += 1;
    }
}

/// The word of a key in a layer; zeros where it has ended.
#[inline]
pub(super) fn word(bytes: &[u8], layer: usize) -> u64 {
    let rest = bytes.get(layer * 8..).unwrap_or(&[]);
    if let Some(whole) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*whole);
    }
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(word)
}
