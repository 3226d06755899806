//! New keys put into the blocks that they belong to; everything else is copied as it is.
//!
//! To build a segment anew each key is put together, hashed and coded. But a new key changes only
//! what the next one shares with the one before it, and the table of hashes names blocks, in which
//! the other keys stay. So blocks grow, until one has too many keys or the table has no more room:
//! then the segment is built anew, or cut in two.

use super::block::{Block, Found, width_for};
use super::coded::FrontCoded;
use super::heads::{MOST_SHARED, append};
use super::table::At;
use crate::family::{ByteFamily, Family};
use crate::faults::{Fault, planted};
use crate::prefix::common_prefix;
use crate::stage::{ByteRun, KeyRun};
use alloc::vec::Vec;

/// Most keys of a block: a search goes over all of them.
const MOST_KEYS: usize = 64;

/// Where a new key comes.
struct Place {
    block: usize,
    found: Found,
}

impl FrontCoded {
    /// The segment with new keys in their places, and for each of them in `before` how many of the
    /// `n` live ones are less. Dead ones must be among the new ones, which then take their place. None
    /// and nothing done where they are not, where there is no room, or where not all keys begin
    /// with the segment's prefix. O(bytes), most of them copied.
    pub(super) fn patched(
        &self,
        n: usize,
        new: &ByteRun,
        before: &mut Vec<u32>,
    ) -> Option<FrontCoded> {
        let dead = self.len() - n;
        if n + new.len() > self.table.room() || dead > new.len() {
            return None;
        }
        let places = self.places(new)?;
        let equal = places.iter().filter(|place| place.found.equal).count();
        if equal != dead {
            return None;
        }
        let mut passed = 0;
        before.extend(places.iter().map(|place| {
            let less = self.rank(place.block) + place.found.i - passed;
            passed += usize::from(place.found.equal);
            less as u32
        }));

        let mut patch = Patch {
            stage: self,
            new,
            data: Vec::with_capacity(self.data.len() + new.key_bytes(0, new.len()) / 2),
            scratch: Scratch::default(),
            room: Vec::new(),
        };
        patch.data.extend_from_slice(self.prefix());
        let mut table = self.table.refill();
        let mut at = Vec::with_capacity(self.blocks() + 1);
        // Blocks that are copied as they are, from the first of them on.
        let (mut as_is, mut j, mut added) = (0, 0, 0);
        for b in 0..self.blocks() {
            let from = j;
            while j < places.len() && places[j].block == b {
                j += 1;
            }
            let fresh = from..j;
            let here = |data: &Vec<u8>, as_is: usize, added: usize| At {
                start: (data.len() + self.bytes_of(as_is, b)) as u32,
                rank: (self.rank(b) + added) as u32,
            };
            at.push(here(&patch.data, as_is, added));
            if places[fresh.clone()].iter().all(|place| place.found.equal) {
                continue;
            }
            patch.copy(as_is, b);
            as_is = b + 1;
            for k in fresh.clone() {
                if !places[k].found.equal {
                    table.add(ByteFamily::hash(new.get(k)), b as u8);
                    added += 1;
                }
            }
            patch.edit(b, fresh.start, &places[fresh]);
        }
        patch.copy(as_is, self.blocks());
        at.push(At {
            start: patch.data.len() as u32,
            rank: (self.len() + added) as u32,
        });
        let mut stage = FrontCoded {
            mean: (patch.data.len() / self.blocks()) as u32,
            near: self.near,
            data: patch.data.into(),
            index: self.index.to_vec().into(),
            table: table.finish(&at),
            prefix: self.prefix,
            n: (self.len() + added) as u32,
            blocks: self.blocks,
            symbols: self.symbols.clone(),
        };
        stage.regroup(new, &places);
        Some(stage)
    }

    /// Where all new keys come; none where they do not all begin with the prefix, or one block would
    /// have too many.
    fn places(&self, new: &ByteRun) -> Option<Vec<Place>> {
        let last = new.len().checked_sub(1)?;
        let (first, last) = (new.get(0), new.get(last));
        let prefix = self.prefix();
        if !first.starts_with(prefix) || !last.starts_with(prefix) {
            return None;
        }
        let mut places = Vec::with_capacity(new.len());
        let (mut j, mut room, mut next) = (0, Vec::new(), Vec::new());
        for b in 0..self.blocks() {
            let block = self.block(b);
            let bound = (b + 1 < self.blocks()).then(|| self.block(b + 1).first(&mut next));
            let (from, mut text): (_, &[u8]) = (j, &[]);
            while j < new.len() {
                let rest = &new.get(j)[prefix.len()..];
                if bound.is_some_and(|bound| rest >= bound) {
                    break;
                }
                if from == j {
                    text = block.spell(block.shared.len(), &mut room);
                }
                places.push(Place {
                    block: b,
                    found: block.search(text, rest),
                });
                j += 1;
                if block.shared.len() + j - from > MOST_KEYS {
                    return None;
                }
            }
        }
        Some(places)
    }

    /// Bytes of the blocks `from..to`.
    #[inline]
    fn bytes_of(&self, from: usize, to: usize) -> usize {
        (self.table.at(to).start - self.table.at(from).start) as usize
    }

    /// Writes the heads of those groups anew that begin with another key, or the keys of which share
    /// less than before.
    fn regroup(&mut self, new: &ByteRun, places: &[Place]) {
        for g in 0..self.groups() {
            let (skip, blocks) = (self.skip(g), self.group(g));
            // Keys between those of the group share as much as these do; only one behind all of
            // them or, in the first group, before all of them may share less.
            let behind = places.partition_point(|place| place.block < blocks.end);
            let Some(last) = behind
                .checked_sub(1)
                .filter(|&j| places[j].block >= blocks.start)
            else {
                continue;
            };
            let prefix = self.prefix as usize;
            let mut room = Vec::new();
            let first = self.block(blocks.start).first(&mut room);
            let least = skip.min(common_prefix(first, &new.get(last)[prefix..]));
            let first_is_new = g == 0 && places[0].block == 0 && places[0].found.i == 0;
            let least = if first_is_new {
                // What was the first key shares with the new one what the block says.
                least.min(self.share_with_old_first(places))
            } else {
                least
            };
            if least != skip || first_is_new {
                self.set_group(g, least);
            }
        }
    }

    /// How many new keys come before what was the first key; what they and it share.
    fn share_with_old_first(&self, places: &[Place]) -> usize {
        let block = self.block(0);
        let ahead = places
            .iter()
            .take_while(|place| place.block == 0 && place.found.i == 0 && !place.found.equal)
            .count();
        let shares = block.shared.iter().skip(1).take(ahead);
        shares
            .map(|&share| usize::from(share))
            .min()
            .unwrap_or(usize::MAX)
    }

    /// How much all keys of group `g` share.
    fn skip(&self, g: usize) -> usize {
        self.index[2 * self.groups() + g] as usize
    }
}

/// One block, as it is put together.
#[derive(Default)]
struct Scratch {
    shared: Vec<u8>,
    lens: Vec<u16>,
    rests: Vec<u8>,
    /// The first key of the old block that was not copied yet, and where its rest begins there.
    at: (usize, usize),
}

impl Scratch {
    fn clear(&mut self) {
        self.shared.clear();
        self.lens.clear();
        self.rests.clear();
        self.at = (0, 0);
    }

    /// Appends a key that shares `shared` bytes with the one before, with its rest of `len` bytes,
    /// behind which others may be read.
    #[inline(always)]
    fn push(&mut self, block: &Block<'_>, shared: usize, rest: &[u8], len: usize) {
        self.shared.push(shared as u8);
        self.lens.push(len as u16);
        match block.symbols {
            None => append(&mut self.rests, rest, len),
            Some(symbols) => symbols.encode(&rest[..len], &mut self.rests),
        }
    }

    /// Appends the keys `from..to` of a block as they are.
    #[inline]
    fn copy(&mut self, block: &Block<'_>, from: usize, to: usize) {
        if from == to {
            return;
        }
        let (key, at) = self.at;
        let start = at + block.bytes_of(at, block.span(key, from));
        let end = start + block.bytes_of(start, block.span(from, to));
        self.at = (to, end);
        self.shared.extend_from_slice(&block.shared[from..to]);
        self.lens.extend((from..to).map(|i| block.len_of(i) as u16));
        self.rests.extend_from_slice(&block.rests[start..end]);
    }

    /// Appends the block.
    fn write(&self, data: &mut Vec<u8>) {
        let longest = self.lens.iter().max().map_or(0, |&len| usize::from(len));
        let width = width_for(longest);
        data.push(width);
        data.extend_from_slice(&self.shared);
        match width {
            1 => data.extend(self.lens.iter().map(|&len| len as u8)),
            _ => data.extend(self.lens.iter().flat_map(|len| len.to_le_bytes())),
        }
        data.extend_from_slice(&self.rests);
    }
}

/// A segment on its way from one to the next.
struct Patch<'a> {
    stage: &'a FrontCoded,
    new: &'a ByteRun,
    data: Vec<u8>,
    scratch: Scratch,
    /// The rests of a block, where they are codes there.
    room: Vec<u8>,
}

impl Patch<'_> {
    /// Copies the blocks `from..to`.
    fn copy(&mut self, from: usize, to: usize) {
        let start = self.stage.table.at(from).start as usize;
        let bytes = self.stage.bytes_of(from, to);
        self.data
            .extend_from_slice(&self.stage.data[start..start + bytes]);
    }

    /// Appends block `b` with the new keys from `j` on, whose places are these.
    fn edit(&mut self, b: usize, j: usize, places: &[Place]) {
        let prefix = self.stage.prefix as usize;
        let block = self.stage.block(b);
        let n = block.shared.len();
        let text = block.spell(n, &mut self.room);
        let out = &mut self.scratch;
        out.clear();
        // Old keys that are there so far, and what the next one shares with the one before it, if
        // that is a new one.
        let (mut i, mut behind) = (0, None);
        let old = |out: &mut Scratch, from: usize, to: usize, behind: Option<usize>| {
            let mut from = from;
            if let Some(share) = behind
                && from < to
            {
                let was = usize::from(block.shared[from]);
                let rest = block.rest(text, from, block.span(0, from));
                let share = share.min(MOST_SHARED).max(was);
                let rest = &rest[share - was..];
                out.push(&block, share, rest, rest.len());
                from += 1;
            }
            out.copy(&block, from, to);
        };
        for (j, place) in (j..).zip(places) {
            let Found { i: to, equal, .. } = place.found;
            if equal {
                continue;
            }
            let shared = if to > i {
                old(out, i, to, behind);
                place.found.before
            } else if behind.is_some() {
                self.new.share(j) - prefix
            } else {
                // The first key of the block says nothing of the one before.
                0
            };
            let (key, len) = self.new.tail(j);
            let from = prefix + shared.min(MOST_SHARED);
            out.push(&block, from - prefix, &key[from..], len - from);
            i = to;
            behind = (!planted(Fault::StaleShare)).then_some(place.found.behind);
        }
        old(out, i, n, behind);
        out.write(&mut self.data);
    }
}
