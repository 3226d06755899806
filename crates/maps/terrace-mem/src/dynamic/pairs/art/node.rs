//! The four sizes of nodes (section 4.1), and the handles that name them.
//!
//! A handle has three bits of the kind, one that is left free (for the memory that a node is in), and
//! 28 of a number in the slab of that kind. No node has a pointer.

use super::super::slab::Slab;

/// Names a leaf or a node.
pub type Handle = u32;

/// No leaf and no node.
pub const NONE: Handle = u32::MAX;

pub const LEAF: u32 = 0;
const FOUR: u32 = 1;
const SIXTEEN: u32 = 2;
const FORTY_EIGHT: u32 = 3;
const ALL: u32 = 4;

/// Bytes of a prefix that a node has itself; a longer one is compared in the first leaf below.
pub const PREFIX: usize = 4;

/// Behind which child of a node something is: 0 for the key that ends in it, a byte and 1 else.
pub type Label = u16;

#[inline]
pub const fn handle(kind: u32, id: u32) -> Handle {
    kind << 29 | id
}

#[inline]
pub const fn kind(handle: Handle) -> u32 {
    handle >> 29
}

#[inline]
pub const fn id(handle: Handle) -> u32 {
    handle & ((1 << 28) - 1)
}

/// What all nodes begin with.
#[derive(Clone, Copy)]
pub struct Head {
    /// Children.
    pub n: u16,
    /// How many bytes all keys below share from here on.
    pub shared: u16,
    /// The first of them.
    pub prefix: [u8; PREFIX],
    /// The leaf of the key that ends behind those, or none.
    pub end: Handle,
}

impl Head {
    pub fn new(prefix: &[u8]) -> Self {
        let mut first = [0; PREFIX];
        let n = prefix.len().min(PREFIX);
        first[..n].copy_from_slice(&prefix[..n]);
        Head {
            n: 0,
            shared: prefix.len() as u16,
            prefix: first,
            end: NONE,
        }
    }
}

/// Few children: their bytes in order, and they themselves.
pub struct Few<const N: usize> {
    head: Head,
    bytes: [u8; N],
    kids: [Handle; N],
}

/// Up to 48 children in any order, by way of a table.
pub struct Some48 {
    head: Head,
    place: [u8; 256],
    kids: [Handle; 48],
}

/// A child for each byte.
pub struct Each {
    head: Head,
    kids: [Handle; 256],
}

/// No place in [`Some48`].
const NO_PLACE: u8 = 255;

impl<const N: usize> Few<N> {
    fn new(head: Head) -> Self {
        Few {
            head,
            bytes: [0; N],
            kids: [NONE; N],
        }
    }
    #[inline]
    fn rank(&self, byte: u8) -> usize {
        let n = usize::from(self.head.n);
        self.bytes.iter().take(n).take_while(|&&b| b < byte).count()
    }
    #[inline]
    fn find(&self, byte: u8) -> Option<usize> {
        // All of them are compared, so that no branch depends on where it is.
        let mut hits = 0u32;
        for i in 0..N {
            hits |= u32::from(self.bytes[i] == byte) << i;
        }
        hits &= (1 << self.head.n) - 1;
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }
    fn insert(&mut self, byte: u8, kid: Handle) {
        let (i, n) = (self.rank(byte), usize::from(self.head.n));
        self.bytes.copy_within(i..n, i + 1);
        self.kids.copy_within(i..n, i + 1);
        (self.bytes[i], self.kids[i]) = (byte, kid);
        self.head.n += 1;
    }
    fn remove(&mut self, byte: u8) {
        let n = usize::from(self.head.n);
        if let Some(i) = self.find(byte) {
            self.bytes.copy_within(i + 1..n, i);
            self.kids.copy_within(i + 1..n, i);
            self.head.n -= 1;
        }
    }
}

impl Some48 {
    fn new(head: Head) -> Self {
        Some48 {
            head,
            place: [NO_PLACE; 256],
            kids: [NONE; 48],
        }
    }
    fn insert(&mut self, byte: u8, kid: Handle) {
        // Most often nothing was taken out, and those that are there are the first.
        let mut i = usize::from(self.head.n);
        if self.kids[i] != NONE {
            i = self.kids.iter().position(|&kid| kid == NONE).unwrap_or(i);
        }
        self.place[usize::from(byte)] = i as u8;
        self.kids[i] = kid;
        self.head.n += 1;
    }
    fn remove(&mut self, byte: u8) {
        let i = core::mem::replace(&mut self.place[usize::from(byte)], NO_PLACE);
        self.kids[usize::from(i)] = NONE;
        self.head.n -= 1;
    }
}

/// All nodes of a tree.
#[derive(Default)]
pub struct Nodes {
    four: Slab<Few<4>>,
    sixteen: Slab<Few<16>>,
    forty_eight: Slab<Some48>,
    all: Slab<Each>,
}

impl Nodes {
    pub fn bytes(&self) -> usize {
        self.four.bytes() + self.sixteen.bytes() + self.forty_eight.bytes() + self.all.bytes()
    }

    /// A node without children.
    pub fn put(&mut self, head: Head) -> Handle {
        handle(FOUR, self.four.put(Few::new(head)))
    }

    #[inline]
    pub fn head(&self, node: Handle) -> &Head {
        let id = id(node);
        match kind(node) {
            FOUR => &self.four.get(id).head,
            SIXTEEN => &self.sixteen.get(id).head,
            FORTY_EIGHT => &self.forty_eight.get(id).head,
            _ => &self.all.get(id).head,
        }
    }

    pub fn head_mut(&mut self, node: Handle) -> &mut Head {
        let id = id(node);
        match kind(node) {
            FOUR => &mut self.four.get_mut(id).head,
            SIXTEEN => &mut self.sixteen.get_mut(id).head,
            FORTY_EIGHT => &mut self.forty_eight.get_mut(id).head,
            _ => &mut self.all.get_mut(id).head,
        }
    }

    pub fn free(&mut self, node: Handle) {
        let id = id(node);
        match kind(node) {
            FOUR => drop(self.four.take(id)),
            SIXTEEN => drop(self.sixteen.take(id)),
            FORTY_EIGHT => drop(self.forty_eight.take(id)),
            _ => drop(self.all.take(id)),
        }
    }

    /// The child behind a byte, or none.
    #[inline]
    pub fn kid(&self, node: Handle, byte: u8) -> Handle {
        let id = id(node);
        match kind(node) {
            FOUR => {
                let node = self.four.get(id);
                node.find(byte).map_or(NONE, |i| node.kids[i])
            }
            SIXTEEN => {
                let node = self.sixteen.get(id);
                node.find(byte).map_or(NONE, |i| node.kids[i])
            }
            FORTY_EIGHT => {
                let node = self.forty_eight.get(id);
                match node.place[usize::from(byte)] {
                    NO_PLACE => NONE,
                    i => node.kids[usize::from(i)],
                }
            }
            _ => self.all.get(id).kids[usize::from(byte)],
        }
    }

    /// The only way in which a link is changed: what is behind a label that there is.
    pub fn set_child(&mut self, node: Handle, label: Label, to: Handle) {
        let Some(byte) = label.checked_sub(1).map(|byte| byte as u8) else {
            self.head_mut(node).end = to;
            return;
        };
        let id = id(node);
        match kind(node) {
            FOUR => {
                let node = self.four.get_mut(id);
                if let Some(i) = node.find(byte) {
                    node.kids[i] = to;
                }
            }
            SIXTEEN => {
                let node = self.sixteen.get_mut(id);
                if let Some(i) = node.find(byte) {
                    node.kids[i] = to;
                }
            }
            FORTY_EIGHT => {
                let node = self.forty_eight.get_mut(id);
                node.kids[usize::from(node.place[usize::from(byte)])] = to;
            }
            _ => self.all.get_mut(id).kids[usize::from(byte)] = to,
        }
    }

    /// Adds a child behind a byte that has none; returns the node, which may be another one now.
    pub fn add(&mut self, node: Handle, byte: u8, kid: Handle) -> Handle {
        let i = id(node);
        match kind(node) {
            FOUR => {
                let old = self.four.get_mut(i);
                if old.head.n < 4 {
                    old.insert(byte, kid);
                    return node;
                }
                let mut new = Few::<16>::new(old.head);
                new.bytes[..4].copy_from_slice(&old.bytes);
                new.kids[..4].copy_from_slice(&old.kids);
                new.insert(byte, kid);
                self.four.take(i);
                handle(SIXTEEN, self.sixteen.put(new))
            }
            SIXTEEN => {
                let old = self.sixteen.get_mut(i);
                if old.head.n < 16 {
                    old.insert(byte, kid);
                    return node;
                }
                let mut new = Some48::new(Head { n: 0, ..old.head });
                for (&byte, &kid) in old.bytes.iter().zip(&old.kids) {
                    new.insert(byte, kid);
                }
                new.insert(byte, kid);
                self.sixteen.take(i);
                handle(FORTY_EIGHT, self.forty_eight.put(new))
            }
            FORTY_EIGHT => {
                let old = self.forty_eight.get_mut(i);
                if old.head.n < 48 {
                    old.insert(byte, kid);
                    return node;
                }
                let mut new = Each {
                    head: old.head,
                    kids: [NONE; 256],
                };
                for (kid, &place) in new.kids.iter_mut().zip(&old.place) {
                    if place != NO_PLACE {
                        *kid = old.kids[usize::from(place)];
                    }
                }
                new.kids[usize::from(byte)] = kid;
                new.head.n += 1;
                self.forty_eight.take(i);
                handle(ALL, self.all.put(new))
            }
            _ => {
                let old = self.all.get_mut(i);
                old.kids[usize::from(byte)] = kid;
                old.head.n += 1;
                node
            }
        }
    }

    /// Takes the child behind a byte out; returns the node, which may be another, smaller one now.
    pub fn cut(&mut self, node: Handle, byte: u8) -> Handle {
        self.unlink(node, u16::from(byte) + 1);
        self.shrink(node)
    }

    /// Takes out what is behind a label that there is; the node may have more room than it needs then.
    pub fn unlink(&mut self, node: Handle, label: Label) {
        let Some(byte) = label.checked_sub(1).map(|byte| byte as u8) else {
            self.head_mut(node).end = NONE;
            return;
        };
        let id = id(node);
        match kind(node) {
            FOUR => self.four.get_mut(id).remove(byte),
            SIXTEEN => self.sixteen.get_mut(id).remove(byte),
            FORTY_EIGHT => self.forty_eight.get_mut(id).remove(byte),
            _ => {
                let node = self.all.get_mut(id);
                node.kids[usize::from(byte)] = NONE;
                node.head.n -= 1;
            }
        }
    }

    /// The node, or a smaller one with the same children.
    pub fn shrink(&mut self, mut node: Handle) -> Handle {
        loop {
            let (i, n) = (id(node), self.head(node).n);
            node = match kind(node) {
                ALL if n <= 40 => {
                    let old = self.all.get(i);
                    let mut new = Some48::new(Head { n: 0, ..old.head });
                    for (byte, &kid) in (0..=255).zip(&old.kids) {
                        if kid != NONE {
                            new.insert(byte, kid);
                        }
                    }
                    self.all.take(i);
                    handle(FORTY_EIGHT, self.forty_eight.put(new))
                }
                FORTY_EIGHT if n <= 12 => {
                    let old = self.forty_eight.get(i);
                    let mut new = Few::<16>::new(Head { n: 0, ..old.head });
                    for (byte, &place) in (0..=255).zip(&old.place) {
                        if place != NO_PLACE {
                            new.insert(byte, old.kids[usize::from(place)]);
                        }
                    }
                    self.forty_eight.take(i);
                    handle(SIXTEEN, self.sixteen.put(new))
                }
                SIXTEEN if n <= 3 => {
                    let old = self.sixteen.get(i);
                    let mut new = Few::<4>::new(old.head);
                    new.bytes.copy_from_slice(&old.bytes[..4]);
                    new.kids.copy_from_slice(&old.kids[..4]);
                    self.sixteen.take(i);
                    handle(FOUR, self.four.put(new))
                }
                _ => return node,
            };
        }
    }

    /// The first child, or the key that ends here, whose label is `from` or greater.
    pub fn first(&self, node: Handle, from: Label) -> Option<(Label, Handle)> {
        let head = self.head(node);
        if from == 0 && head.end != NONE {
            return Some((0, head.end));
        }
        let byte = from.max(1) - 1;
        if byte > 255 {
            return None;
        }
        let few = |bytes: &[u8], kids: &[Handle]| {
            let n = usize::from(head.n);
            let i = bytes[..n].iter().position(|&b| u16::from(b) >= byte)?;
            Some((u16::from(bytes[i]) + 1, kids[i]))
        };
        let id = id(node);
        match kind(node) {
            FOUR => few(&self.four.get(id).bytes, &self.four.get(id).kids),
            SIXTEEN => few(&self.sixteen.get(id).bytes, &self.sixteen.get(id).kids),
            FORTY_EIGHT => {
                let node = self.forty_eight.get(id);
                let b = (byte..256).find(|&b| node.place[usize::from(b)] != NO_PLACE)?;
                Some((b + 1, node.kids[usize::from(node.place[usize::from(b)])]))
            }
            _ => {
                let node = self.all.get(id);
                let b = (byte..256).find(|&b| node.kids[usize::from(b)] != NONE)?;
                Some((b + 1, node.kids[usize::from(b)]))
            }
        }
    }

    /// The last child, or the key that ends here, whose label is less than `to`.
    pub fn last(&self, node: Handle, to: Label) -> Option<(Label, Handle)> {
        let head = self.head(node);
        let past = (to.max(1) - 1).min(256);
        let few = |bytes: &[u8], kids: &[Handle]| {
            let n = usize::from(head.n);
            let i = bytes[..n].iter().rposition(|&b| u16::from(b) < past)?;
            Some((u16::from(bytes[i]) + 1, kids[i]))
        };
        let id = id(node);
        let kid = match kind(node) {
            FOUR => few(&self.four.get(id).bytes, &self.four.get(id).kids),
            SIXTEEN => few(&self.sixteen.get(id).bytes, &self.sixteen.get(id).kids),
            FORTY_EIGHT => {
                let node = self.forty_eight.get(id);
                let b = (0..past).rfind(|&b| node.place[usize::from(b)] != NO_PLACE);
                b.map(|b| (b + 1, node.kids[usize::from(node.place[usize::from(b)])]))
            }
            _ => {
                let node = self.all.get(id);
                let b = (0..past).rfind(|&b| node.kids[usize::from(b)] != NONE);
                b.map(|b| (b + 1, node.kids[usize::from(b)]))
            }
        };
        kid.or_else(|| (to > 0 && head.end != NONE).then_some((0, head.end)))
    }
}
