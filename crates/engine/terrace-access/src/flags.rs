//! The five bits of a record that live in spare bits of its slot.

/// Three bits of use count, dirty, deleted. No byte of overhead per record.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// Nothing set: a clean record that was not used.
    pub const NONE: Flags = Flags(0);
    /// The cold tier lacks exactly this record (or this deletion).
    pub const DIRTY: Flags = Flags(8);
    /// A tombstone: the key is deleted, whatever a lower tier says.
    pub const DELETED: Flags = Flags(16);
    /// Highest use count: with two bits, most records that are worth keeping have the highest, and
    /// what comes in cannot be told from what is there (simulated: 12 % more page reads).
    pub const MAX_USE: u8 = 7;
    /// Bits that flags take.
    pub const BITS: u32 = 5;
    /// All of them.
    pub const MASK: u8 = (1 << Flags::BITS) - 1;

    /// The use count: a hint, raised by readers, lowered by the sweep.
    #[inline]
    pub fn use_count(self) -> u8 {
        self.0 & Flags::MAX_USE
    }

    /// The same flags with this use count (at most [`Flags::MAX_USE`]).
    #[inline]
    pub fn with_use_count(self, count: u8) -> Flags {
        Flags(self.0 & !Flags::MAX_USE | count.min(Flags::MAX_USE))
    }

    /// Whether the cold tier lacks this.
    #[inline]
    pub fn is_dirty(self) -> bool {
        self.0 & Flags::DIRTY.0 != 0
    }

    /// Whether this is a tombstone.
    #[inline]
    pub fn is_deleted(self) -> bool {
        self.0 & Flags::DELETED.0 != 0
    }

    /// Both sets of bits.
    #[inline]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These bits without those.
    #[inline]
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}{}{}",
            self.use_count(),
            if self.is_dirty() { "D" } else { "" },
            if self.is_deleted() { "X" } else { "" }
        )
    }
}
