//! Changes of a slotted page under its exclusive latch.
//!
//! Each touches as few bytes as it can, because a checkpoint in progress keeps the old ones. The numbers are
//! written by the caller when all is done.

use terrace_access::{Attempt, Flags};
use terrace_pages::Exclusive;

use super::fit::Stretch;
use super::layout::{COUNT, COUNTS_BYTES, Counts, SLOT_BYTES, TOO_MUCH_GARBAGE};
use crate::fault::{self, Fault};

impl<const SLOTS: usize> Counts<SLOTS> {
    /// Takes `len` bytes for a record, once the `held` bytes of the one that it replaces are garbage. Returns
    /// where they are, and the bytes, to be written. See the module above for the rule.
    #[inline]
    pub fn take<'p>(
        &mut self,
        page: &'p mut Exclusive<'_>,
        stretch: Stretch,
        held: usize,
        len: usize,
    ) -> Attempt<(usize, &'p mut [u8])> {
        self.garbage += held;
        match stretch {
            Stretch::Free => {
                self.heap += len;
                let at = page.bytes().len() - self.heap;
                Ok((at, page.fill(at, len)?))
            }
            Stretch::Within(at) => {
                self.garbage = self.garbage.saturating_sub(len);
                if fault::planted(Fault::HoleUnsaved) {
                    return Ok((at, page.fill(at, len)?));
                }
                // A state that a checkpoint keeps may still need these bytes.
                Ok((at, page.change(at, len)?))
            }
        }
    }

    /// Puts a slot in front of slot `i`.
    #[inline]
    pub fn add_slot(
        &mut self,
        page: &mut Exclusive<'_>,
        i: usize,
        slot: [u8; SLOT_BYTES],
    ) -> Attempt<()> {
        let (at, end) = (Self::slot_at(i), Self::slot_at(self.count));
        let slots = page.change(at, end - at + SLOT_BYTES)?;
        slots.copy_within(..end - at, SLOT_BYTES);
        slots[..SLOT_BYTES].copy_from_slice(&slot);
        self.count += 1;
        Ok(())
    }

    /// Replaces slot `i`.
    #[inline]
    pub fn set_slot(page: &mut Exclusive<'_>, i: usize, slot: [u8; SLOT_BYTES]) -> Attempt<()> {
        page.change(Self::slot_at(i), SLOT_BYTES)?
            .copy_from_slice(&slot);
        Ok(())
    }

    /// Whether records of `bytes` bytes can go.
    #[inline]
    pub fn check_loss(&self, page: &Exclusive<'_>, bytes: usize) -> Attempt<()> {
        if self.heap.saturating_sub(self.garbage) < bytes {
            return Err(page.torn(TOO_MUCH_GARBAGE));
        }
        Ok(())
    }

    /// Takes slot `i` and the record behind it, of `bytes` bytes, out.
    pub fn remove(&mut self, page: &mut Exclusive<'_>, i: usize, bytes: usize) -> Attempt<()> {
        self.remove_all(page, &[i], bytes)
    }

    /// Takes these slots, whose numbers ascend, and the records behind them, of `bytes` bytes together, out: each
    /// slot behind the first moves once. O(slots).
    pub fn remove_all(
        &mut self,
        page: &mut Exclusive<'_>,
        which: &[usize],
        bytes: usize,
    ) -> Attempt<()> {
        let Some(&first) = which.first() else {
            return Ok(());
        };
        // All slots from here on, also those that only fall away: the free space that they become may be filled
        // later without being saved.
        let slots = page.change(Self::slot_at(first), (self.count - first) * SLOT_BYTES)?;
        let mut to = 0;
        let behind = which[1..].iter().copied().chain([self.count]);
        for (&gone, next) in which.iter().zip(behind) {
            let (from, until) = ((gone + 1 - first) * SLOT_BYTES, (next - first) * SLOT_BYTES);
            slots.copy_within(from..until, to);
            to += until - from;
        }
        self.count -= which.len();
        self.garbage += bytes;
        Ok(())
    }

    /// Writes the numbers.
    #[inline]
    pub fn write(self, page: &mut Exclusive<'_>) -> Attempt<()> {
        self.put(page.change(COUNT, COUNTS_BYTES)?);
        Ok(())
    }

    /// Sets the flags of slot `i`, which has had `before`; what is beside them stays. The use count is a hint:
    /// if nothing else changes, the page does not become dirty.
    pub fn set_flags(
        page: &mut Exclusive<'_>,
        i: usize,
        before: Flags,
        flags: Flags,
    ) -> Attempt<()> {
        let at = Self::slot_at(i) + 2;
        if before == flags {
            return Ok(());
        }
        if before.with_use_count(flags.use_count()) == flags {
            page.hint(at, |word| {
                Some(word & !u16::from(Flags::MASK) | u16::from(flags.0 & Flags::MASK))
            });
            return Ok(());
        }
        let byte = page.change(at, 1)?;
        byte[0] = byte[0] & !Flags::MASK | flags.0 & Flags::MASK;
        Ok(())
    }
}
