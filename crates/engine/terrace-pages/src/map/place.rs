//! One page's place in one 64-bit word: slot, check bits, layer tag, used or free.
//!
//! ```text
//! 63 62 | 61..59 | 58   | 57 56 | 55 .. 40 | 39 .. 0
//! owner | zero   | used | tag   | check    | slot (used) or link (free)
//! ```
//!
//! Bits 62 and 63 belong to whoever keeps the word (resident, locked, ...) and are zero in every
//! [`Place`]. All zero is a page that is free in the image.

use terrace_base::PageId;

/// Bits of a slot number: 2⁴⁰ slots of 4 KiB are 4 PiB, beyond any single file of today.
pub const SLOT_BITS: u32 = 40;
/// One past the largest slot number. The last value is kept as "no slot" in the file formats.
pub const SLOT_LIMIT: u64 = (1 << SLOT_BITS) - 1;

const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const CHECK_SHIFT: u32 = SLOT_BITS;
const TAG_SHIFT: u32 = CHECK_SHIFT + 16;
const TAG_MASK: u64 = 0b11 << TAG_SHIFT;
const USED: u64 = 1 << (TAG_SHIFT + 2);
const ALL: u64 = (USED << 1) - 1;

/// Which layer of the map a place belongs to.
///
/// The cut and the next layer take turns with [`Tag::A`] and [`Tag::B`]. When a cut has become
/// the image, its places are retagged to [`Tag::IMAGE`] before its tag is given out again, so two
/// bits suffice for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(u8);

impl Tag {
    /// The last durable checkpoint.
    pub const IMAGE: Tag = Tag(0);
    /// A layer since the image.
    pub const A: Tag = Tag(1);
    /// The other layer since the image.
    pub const B: Tag = Tag(2);

    /// A for B and B for A.
    pub(super) fn other(self) -> Tag {
        if self == Tag::A { Tag::B } else { Tag::A }
    }
}

/// Where the newest written version of a page is, and which layer of the map says so.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Place(u64);

impl Place {
    /// A page that is free in the image; also what a number never given out before has.
    pub const FREE: Place = Place(0);

    /// A page at `slot` (cut to 40 bits) whose checksum's 16 bits are `check`.
    pub fn used(slot: u64, check: u16, tag: Tag) -> Place {
        Place(
            USED | (u64::from(tag.0) << TAG_SHIFT)
                | (u64::from(check) << CHECK_SHIFT)
                | (slot & SLOT_MASK),
        )
    }

    /// A page that layer `tag` says is free.
    pub fn free(tag: Tag) -> Place {
        Place(u64::from(tag.0) << TAG_SHIFT)
    }

    /// Takes the place out of a word: the owner's bits are dropped.
    pub fn from_bits(word: u64) -> Place {
        Place(word & ALL)
    }

    /// The bits, those of the owner zero.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether there is no page here.
    pub fn is_free(self) -> bool {
        self.0 & USED == 0
    }

    /// The slot, unless the page is free.
    pub fn slot(self) -> Option<u64> {
        (!self.is_free()).then_some(self.0 & SLOT_MASK)
    }

    /// The 16 checksum bits that the page at the slot must have.
    pub fn check(self) -> u16 {
        (self.0 >> CHECK_SHIFT) as u16
    }

    /// The layer.
    pub fn tag(self) -> Tag {
        Tag(((self.0 & TAG_MASK) >> TAG_SHIFT) as u8)
    }

    /// The same place said by another layer; a free page keeps its link.
    pub fn with_tag(self, tag: Tag) -> Place {
        Place(self.0 & !TAG_MASK | (u64::from(tag.0) << TAG_SHIFT))
    }

    /// The place as it is written out: without layer and link.
    pub(super) fn recorded(self) -> Place {
        if self.is_free() {
            Place::FREE
        } else {
            self.with_tag(Tag::IMAGE)
        }
    }

    /// The page number that a free word carries for its owner (the chain of free pages); the map
    /// never looks at it.
    pub fn link(self) -> PageId {
        PageId(self.0 & SLOT_MASK)
    }

    /// A free word with another link; a used place is returned as it is.
    pub fn with_link(self, link: PageId) -> Place {
        if self.is_free() {
            Place(self.0 & !SLOT_MASK | (link.0 & SLOT_MASK))
        } else {
            self
        }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.slot() {
            Some(slot) => write!(
                f,
                "slot {slot} (check {:04x}, {:?})",
                self.check(),
                self.tag()
            ),
            None => write!(f, "free ({:?})", self.tag()),
        }
    }
}

/// The words that hold the newest place of every page, kept by the page store: in the page table,
/// or in the frame header while a page is resident.
///
/// A place changes only while the map's mutex is held (the result of
/// [`register`](super::PageMap::register) or [`free_page`](super::PageMap::free_page) is stored before the
/// mutex is let go), but it may move between table and frame header at any time; both functions follow it there.
pub trait Words {
    /// The newest place of a page; [`Place::FREE`] for a number never given out.
    fn place(&self, pid: PageId) -> Place;

    /// Puts `to` where `from` stands (they differ in the tag only). `false` if it is not there.
    fn retag(&self, pid: PageId, from: Place, to: Place) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_each_of_its_parts_and_leaves_the_owners_bits_alone() {
        for (slot, check) in [
            (0, 0),
            (1, 0xffff),
            (SLOT_LIMIT - 1, 0x8001),
            (SLOT_MASK, 1),
        ] {
            for tag in [Tag::IMAGE, Tag::A, Tag::B] {
                let place = Place::used(slot, check, tag);
                assert_eq!(
                    (place.slot(), place.check(), place.tag()),
                    (Some(slot), check, tag)
                );
                assert_eq!(place.bits() >> 59, 0);
                assert_eq!(Place::from_bits(place.bits() | 3 << 62), place);
                assert_eq!(place.with_tag(Tag::B).with_tag(tag), place);
                assert_eq!(place.with_link(PageId(7)), place);
                let free = Place::free(tag).with_link(PageId::NONE);
                assert!(free.is_free() && free.slot().is_none() && free.link().is_none());
                assert_eq!(
                    (free.tag(), free.with_tag(Tag::A).link()),
                    (tag, PageId::NONE)
                );
            }
        }
        assert_eq!(Place::free(Tag::IMAGE), Place::FREE);
    }
}
