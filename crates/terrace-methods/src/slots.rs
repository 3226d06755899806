//! The slots of a page of records, which trees and hash tables change alike: 4 bytes each, flags in the
//! lower bits of the third.
//!
//! Every change here touches as few bytes as it can, because a checkpoint in progress keeps the old
//! ones.

use terrace_access::{Attempt, Flags};
use terrace_pages::Exclusive;

/// Length of a slot.
pub(crate) const SLOT_BYTES: usize = 4;
/// Bytes of a record that are fetched together, as soon as its slot is known: where in it the value is
/// says only its first line.
pub(crate) const RECORD_PREFETCHED: usize = 192;
/// Bits of a slot that are neither offset nor flags: the first bits of a key, or of its hash.
pub(crate) const HEAD_BITS: u32 = 16 - Flags::BITS;

/// Puts a slot in at `at`, in front of those up to `end`, which is where the last one ends.
pub(crate) fn add(
    page: &mut Exclusive<'_>,
    at: usize,
    end: usize,
    slot: [u8; SLOT_BYTES],
) -> Attempt<()> {
    let slots = page.change(at, end - at + SLOT_BYTES)?;
    slots.copy_within(..end - at, SLOT_BYTES);
    slots[..SLOT_BYTES].copy_from_slice(&slot);
    Ok(())
}

/// Takes the slot at `at` out; the last one ends at `end`.
pub(crate) fn remove(page: &mut Exclusive<'_>, at: usize, end: usize) -> Attempt<()> {
    // All slots from here on, the last included although it only falls away: the free space that it
    // becomes may be filled later without being saved.
    page.change(at, end - at)?.copy_within(SLOT_BYTES.., 0);
    Ok(())
}

/// Sets the flags of the slot at `at`, which has had `before`; what is beside them stays. The use count
/// is a hint: if nothing else changes, the page does not become dirty.
pub(crate) fn set_flags(
    page: &mut Exclusive<'_>,
    at: usize,
    before: Flags,
    flags: Flags,
) -> Attempt<()> {
    if before == flags {
        return Ok(());
    }
    if before.with_use_count(flags.use_count()) == flags {
        page.hint(at + 2, |word| {
            Some(word & !u16::from(Flags::MASK) | u16::from(flags.0 & Flags::MASK))
        });
        return Ok(());
    }
    let byte = page.change(at + 2, 1)?;
    byte[0] = byte[0] & !Flags::MASK | flags.0 & Flags::MASK;
    Ok(())
}
