//! The memory of the frames and of the page table: two anonymous mappings, taken once.
//!
//! What is given back are whole pages of the system, which may be larger than a frame: then its frames
//! wait for each other, because their neighbours would go with them. And where huge pages are advised, a
//! huge page of which something was given back has no such advice until all of it is here again: the
//! kernel would bring the rest back as resident. Each of them is a mapping of its own then, of which the kernel
//! has a limit: where it refuses one more, nothing has the advice any more.

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result, system_page_bytes};

/// A huge page of the processors that there are: larger ones are not made of small ones.
const HUGE_BYTES: usize = 2 << 20;

/// A zeroed anonymous mapping, addressed in equal pieces.
pub struct Region {
    map: MmapRaw,
    piece: usize,
    /// Bytes of a page of the system.
    page: usize,
    away: Mutex<Away>,
    /// Whether the kernel divides the mapping no further, as far as a test says.
    #[cfg(test)]
    undivided: std::sync::atomic::AtomicBool,
}

/// What was given back.
#[derive(Default)]
struct Away {
    /// Whether huge pages are advised.
    huge: bool,
    /// By piece; as long as the highest one that was ever given back.
    pieces: Vec<bool>,
    /// How many pieces of each huge page, by number from the first one that the mapping touches.
    of_huge: Vec<u32>,
}

impl Region {
    /// Maps `pieces` × `piece` bytes. Pages of it become resident when first touched.
    pub fn new(pieces: usize, piece: usize, huge: bool) -> Result<Region> {
        Region::on_pages_of(system_page_bytes(), pieces, piece, huge)
    }

    /// The same where pages of the system are of `page` bytes: as they are, or larger.
    fn on_pages_of(page: usize, pieces: usize, piece: usize, huge: bool) -> Result<Region> {
        let bytes = pieces.saturating_mul(piece).max(4096);
        let map = MmapOptions::new()
            .len(bytes)
            .no_reserve_swap()
            .map_anon()
            .map_err(|e| Error::io("reserving memory for", "the frame pool", e))?;
        // Only advice: without huge pages everything works, a little slower.
        let huge = huge && map.advise(Advice::HugePage).is_ok();
        Ok(Region {
            map: MmapRaw::from(map),
            piece,
            page,
            away: Mutex::new(Away {
                huge,
                ..Away::default()
            }),
            #[cfg(test)]
            undivided: Default::default(),
        })
    }

    /// Address of piece `index`.
    #[inline]
    pub fn piece(&self, index: usize) -> *mut u8 {
        assert!((index + 1) * self.piece <= self.map.len());
        // SAFETY: the offset is inside the mapping, as just checked.
        unsafe { self.map.as_mut_ptr().add(index * self.piece) }
    }

    /// Start of the mapping, and its length in bytes.
    pub fn start(&self) -> (*mut u8, usize) {
        (self.map.as_mut_ptr(), self.map.len())
    }

    /// Gives the memory of piece `index` back to the system, now or once the other pieces of the same page
    /// of the system are given back too. Until [`Region::take_back`] no thread may touch it; it reads as
    /// anything then. The caller owns the piece exclusively.
    pub fn give_back(&self, index: usize) {
        let mut away = self.away.lock();
        if away.pieces.len() <= index {
            away.pieces.resize(index + 1, false);
        }
        if std::mem::replace(&mut away.pieces[index], true) {
            return;
        }
        self.count_in_huge(&mut away, index, true);
        let (from, to) = self.whole_pages(index);
        let pieces = from / self.piece..to.div_ceil(self.piece);
        let is_away = |piece| away.pieces.get(piece).is_some_and(|away| *away);
        if from >= to || to > self.map.len() || !pieces.into_iter().all(is_away) {
            return;
        }
        // SAFETY: the range is of this private anonymous mapping and consists of pieces that are given
        // back, so that no thread relies on its content; it is whole pages of the system, so that nothing
        // beside it goes with it.
        let _ = unsafe {
            self.map
                .unchecked_advise_range(UncheckedAdvice::DontNeed, from, to - from)
        };
    }

    /// Piece `index` is to be used again.
    pub fn take_back(&self, index: usize) {
        let mut away = self.away.lock();
        let was_away = away.pieces.get_mut(index).map(std::mem::take);
        if was_away == Some(true) {
            self.count_in_huge(&mut away, index, false);
        }
    }

    /// Where the pages of the system begin and end that piece `index` is made of, or that it is part of.
    fn whole_pages(&self, index: usize) -> (usize, usize) {
        let (from, to) = (index * self.piece, (index + 1) * self.piece);
        match self.piece >= self.page {
            true => (from.next_multiple_of(self.page), to / self.page * self.page),
            false => {
                let from = from / self.page * self.page;
                (from, from + self.page)
            }
        }
    }

    /// Counts a piece in the huge pages that it is part of, and takes the advice from those of which
    /// something is away.
    fn count_in_huge(&self, away: &mut Away, index: usize, goes: bool) {
        if !away.huge {
            return;
        }
        let start = self.map.as_mut_ptr().addr();
        let first = start / HUGE_BYTES;
        let at = start + index * self.piece;
        for number in at / HUGE_BYTES..=(at + self.piece - 1) / HUGE_BYTES {
            let slot = number - first;
            if away.of_huge.len() <= slot {
                away.of_huge.resize(slot + 1, 0);
            }
            let count = &mut away.of_huge[slot];
            let changes = match goes {
                true => {
                    *count += 1;
                    *count == 1
                }
                false => {
                    *count = count.saturating_sub(1);
                    *count == 0
                }
            };
            if changes {
                let from = (number * HUGE_BYTES).max(start) - start;
                let to = ((number + 1) * HUGE_BYTES - start).min(self.map.len());
                let advice = match goes {
                    true => Advice::NoHugePage,
                    false => Advice::HugePage,
                };
                if !self.divides(advice, from, to) && goes {
                    // In one piece it needs no division.
                    let _ = self.map.advise(Advice::NoHugePage);
                    away.huge = false;
                    return;
                }
            }
        }
    }

    /// Gives advice for a part of the mapping; whether the kernel takes it.
    fn divides(&self, advice: Advice, from: usize, to: usize) -> bool {
        #[cfg(test)]
        if self.undivided.load(std::sync::atomic::Ordering::Relaxed) {
            return false;
        }
        self.map.advise_range(advice, from, to - from).is_ok()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn fill(region: &Region, index: usize, byte: u8) {
        // SAFETY: the piece is inside the mapping, and this test's alone.
        unsafe { region.piece(index).write_bytes(byte, region.piece) }
    }

    fn first(region: &Region, index: usize) -> u8 {
        // SAFETY: the piece is inside the mapping, and this test's alone.
        unsafe { region.piece(index).read() }
    }

    #[test]
    fn pieces_smaller_than_a_page_of_the_system_go_together_or_not_at_all() {
        let region = Region::on_pages_of(65536, 12, 16384, false).unwrap();
        (0..12).for_each(|i| fill(&region, i, i as u8 + 1));
        // One page of the system is pieces 4 to 7.
        for i in [3, 4, 5, 7, 8] {
            region.give_back(i);
        }
        assert!((0..12).all(|i| first(&region, i) == i as u8 + 1));
        region.take_back(5);
        region.give_back(6);
        assert!((0..12).all(|i| first(&region, i) == i as u8 + 1));
        region.give_back(5);
        let away = |i: usize| (4..8).contains(&i);
        assert!((0..12).all(|i| first(&region, i) == if away(i) { 0 } else { i as u8 + 1 }));
    }

    #[test]
    fn larger_pieces_go_at_once() {
        let region = Region::on_pages_of(4096, 3, 16384, false).unwrap();
        (0..3).for_each(|i| fill(&region, i, 7));
        region.give_back(1);
        assert_eq!([0, 1, 2].map(|i| first(&region, i)), [7, 0, 7]);
    }

    /// The flags of the mapping that this address lies in, as the kernel tells them.
    fn flags(address: usize) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut inside = false;
        for line in maps.lines() {
            let range = line
                .split_once(' ')
                .and_then(|(range, _)| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            if let Some((from, to)) = range
                && let (Some(from), Some(to)) = (number(from), number(to))
            {
                inside = (from..to).contains(&address);
            } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return Some(flags.to_owned());
            }
        }
        None
    }

    #[test]
    fn what_is_given_back_is_in_no_huge_page() {
        let pieces = 5 * HUGE_BYTES / 16384;
        let region = Region::new(pieces, 16384, true).unwrap();
        let middle = pieces / 2;
        let address = |index| region.piece(index).addr();
        let advised = |index| {
            let flags = flags(address(index))?;
            Some(flags.split(' ').any(|flag| flag == "hg"))
        };
        if advised(middle) != Some(true) {
            // The kernel has none, or does not tell.
            return;
        }
        region.give_back(middle);
        region.give_back(middle + 1);
        assert_eq!(advised(middle), Some(false));
        // Others keep the advice.
        assert_eq!(advised(middle - HUGE_BYTES / 16384), Some(true));
        region.take_back(middle);
        assert_eq!(advised(middle), Some(false));
        region.take_back(middle + 1);
        assert_eq!(advised(middle), Some(true));
        // Where the kernel divides no further there are none at all.
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        region.undivided.store(true, relaxed);
        region.give_back(middle);
        for index in [0, middle, pieces - 1] {
            assert_eq!(advised(index), Some(false));
        }
        region.undivided.store(false, relaxed);
        region.take_back(middle);
        assert_eq!(advised(middle), Some(false));
    }
}
