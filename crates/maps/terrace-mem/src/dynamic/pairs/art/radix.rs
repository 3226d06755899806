//! The tree: how a key is found, and how nodes come and go.

use super::super::slab::Slab;
use super::node::{Handle, Head, LEAF, Label, NONE, Nodes, PREFIX, handle, id, kind};
use crate::family::{Family, WholeKeys};
use crate::prefix::common_prefix;
use core::cmp::Ordering;
use core::num::NonZeroU8;
use core::sync::atomic::AtomicBool;

/// An entry. The last field is what tells a place without an entry, so that none needs more room.
pub(super) struct Leaf<H, V> {
    pub(super) val: V,
    pub(super) key: H,
    pub(super) hot: AtomicBool,
    _there: NonZeroU8,
}

pub(super) type HandleOf<F> = <<F as Family>::Whole as WholeKeys<F>>::Handle;

/// An ordered map from encoded keys to values. Every operation on a key is O(key).
pub struct Art<F: Family, V> {
    pub(super) root: Handle,
    pub(super) nodes: Nodes,
    pub(super) leaves: Slab<Leaf<HandleOf<F>, V>>,
    pub(super) keys: F::Whole,
    pub(super) len: usize,
}

impl<F: Family, V> Default for Art<F, V> {
    fn default() -> Self {
        Art {
            root: NONE,
            nodes: Nodes::default(),
            leaves: Slab::default(),
            keys: F::Whole::default(),
            len: 0,
        }
    }
}

/// A link: that of a node behind a label, or the root.
pub(super) type Link = Option<(Handle, Label)>;

impl<F: Family, V> Art<F, V> {
    /// The key of a leaf.
    #[inline]
    pub(super) fn key(&self, leaf: Handle) -> F::Ref<'_> {
        self.keys.get(&self.leaves.get(id(leaf)).key)
    }

    /// The first leaf below.
    pub(super) fn first_leaf(&self, mut at: Handle) -> Handle {
        while kind(at) != LEAF {
            match self.nodes.first(at, 0) {
                Some((_, next)) => at = next,
                None => return NONE,
            }
        }
        at
    }

    /// How much of the prefix of a node the bytes share, how long it is, and how the two compare
    /// where they part; `depth` is how much of the key is on the way to the node.
    #[inline]
    pub(super) fn share(
        &self,
        node: Handle,
        bytes: &[u8],
        depth: usize,
    ) -> (usize, usize, Ordering) {
        let head = self.nodes.head(node);
        let (len, rest) = (usize::from(head.shared), &bytes[depth..]);
        let mut room = [0; 8];
        let prefix = if len <= PREFIX {
            &head.prefix[..len]
        } else {
            let whole = F::as_bytes(self.key(self.first_leaf(node)), &mut room);
            &whole[depth..depth + len]
        };
        let same = common_prefix(prefix, rest);
        let order = if same == len {
            Ordering::Equal
        } else {
            prefix[same].cmp(rest.get(same).unwrap_or(&0))
        };
        // Where the bytes end inside of the prefix, the keys below are greater.
        let order = if same < len && same == rest.len() {
            Ordering::Greater
        } else {
            order
        };
        (same, len, order)
    }

    /// The leaf of a key.
    #[inline]
    pub(super) fn find(&self, key: F::Ref<'_>) -> Option<Handle> {
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        let (mut at, mut depth) = (self.root, 0);
        loop {
            if at == NONE {
                return None;
            }
            if kind(at) == LEAF {
                return F::cmp(self.key(at), key).is_eq().then_some(at);
            }
            // Prefixes are passed by: the leaf has the whole key.
            let head = self.nodes.head(at);
            depth += usize::from(head.shared);
            at = match bytes.get(depth) {
                Some(&byte) => self.nodes.kid(at, byte),
                None if depth == bytes.len() => head.end,
                None => return None,
            };
            depth += 1;
        }
    }

    pub(super) fn new_leaf(&mut self, key: F::Ref<'_>, val: V) -> Handle {
        self.len += 1;
        let leaf = Leaf {
            val,
            key: self.keys.put(key),
            hot: AtomicBool::new(false),
            _there: NonZeroU8::MIN,
        };
        handle(LEAF, self.leaves.put(leaf))
    }

    pub(super) fn set(&mut self, link: Link, to: Handle) {
        match link {
            None => self.root = to,
            Some((node, label)) => self.nodes.set_child(node, label, to),
        }
    }

    /// Hangs a leaf or a node into a new node, behind the byte that its keys go on with.
    fn hang(&mut self, node: Handle, byte: Option<u8>, what: Handle) {
        match byte {
            Some(byte) => {
                self.nodes.add(node, byte, what);
            }
            None => self.nodes.set_child(node, 0, what),
        }
    }

    /// Puts a new leaf beside what a link leads to, below a new node with the prefix
    /// `bytes[depth..depth + same]`; behind that the old keys go on with `old`.
    pub(super) fn part(
        &mut self,
        (link, at): (Link, Handle),
        (key, val): (F::Ref<'_>, V),
        (depth, same): (usize, usize),
        old: Option<u8>,
    ) {
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        let node = self.nodes.put(Head::new(&bytes[depth..depth + same]));
        let leaf = self.new_leaf(key, val);
        self.hang(node, old, at);
        self.hang(node, bytes.get(depth + same).copied(), leaf);
        self.set(link, node);
    }

    /// Leaves a node out that has one entry below it: its only child or end comes into its place.
    pub(super) fn collapse(&mut self, link: Link, node: Handle, depth: usize) {
        let head = *self.nodes.head(node);
        let only = match (head.n, head.end) {
            (0, end) => end,
            (1, NONE) => match self.nodes.first(node, 1) {
                Some((_, kid)) => kid,
                None => return,
            },
            _ => return,
        };
        if kind(only) != LEAF {
            // Its prefix is that of the node, the byte between them, and its own.
            let mut room = [0; 8];
            let below = *self.nodes.head(only);
            let len = usize::from(head.shared) + 1 + usize::from(below.shared);
            let first = self.first_leaf(only);
            let whole = F::as_bytes(self.key(first), &mut room);
            let prefix = Head::new(&whole[depth..depth + len]);
            let (n, end) = (below.n, below.end);
            *self.nodes.head_mut(only) = Head { n, end, ..prefix };
        }
        self.nodes.free(node);
        self.set(link, only);
    }
}

impl<F: Family, V> Art<F, V> {
    /// Gives the node this many steps below the root on the way of a key the size that its children
    /// need, or leaves it out; true where the one above has a child less for that. All below it must
    /// have been set right.
    pub(super) fn tidy(&mut self, key: F::Ref<'_>, steps: usize) -> bool {
        let mut room = [0; 8];
        let bytes = F::as_bytes(key, &mut room);
        let (mut link, mut at, mut depth) = (None, self.root, 0);
        for step in 0..=steps {
            if at == NONE || kind(at) == LEAF {
                return false;
            }
            if step == steps {
                break;
            }
            depth += usize::from(self.nodes.head(at).shared);
            let Some(&byte) = bytes.get(depth) else {
                return false;
            };
            link = Some((at, u16::from(byte) + 1));
            (at, depth) = (self.nodes.kid(at, byte), depth + 1);
        }
        let head = self.nodes.head(at);
        match (head.n, head.end) {
            (0, NONE) => {
                self.nodes.free(at);
                match link {
                    None => self.root = NONE,
                    Some((node, label)) => self.nodes.unlink(node, label),
                }
                return link.is_some();
            }
            (0, _) | (1, NONE) => self.collapse(link, at, depth),
            _ => {
                let shrunk = self.nodes.shrink(at);
                if shrunk != at {
                    self.set(link, shrunk);
                }
            }
        }
        false
    }
}
