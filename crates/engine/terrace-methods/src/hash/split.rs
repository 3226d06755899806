//! Moving partitions between buckets: a full one is split, or gives some to a neighbour with room.
//!
//! Buckets and directory change under latches that are all held until everything is done, so a
//! reader finds a record in the one bucket or in the other, or has to look again.

use terrace_access::{Attempt, Flags, Retry, Value, WriteGuard};
use terrace_base::{Error, PageId};

use super::HashTable;
use super::directory::HashPartitions;
use super::find::Held;
use super::image::{Item, build_bucket, bytes_of, install, pages_for, take_apart};
use super::layout::{NEXT, Shape, Span, capacity, record_bytes};
use super::put::{How, Put};
use super::split_point::{add_size, bytes_below, cut, finer, full, left_full, middle, sizes_of};
use crate::fault::{self, Fault, Point};

/// A split is uneven when less than this part of the bytes is on one side.
const UNEVEN: usize = 4;
/// The same where records come in order: a bucket is to be left full, but for this part.
const EXACT: usize = 8;
/// Partitions are added at once for more buckets: for one in this many of those that there are.
const AHEAD: u64 = 16;
/// Most overflow pages of one bucket; see `find`.
const MOST_OVERFLOW: usize = 1 << 16;

const NO_NEIGHBOUR: &str = "this bucket does not hold all hashes, and there is no other";

/// What is tried for a full bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    /// To divide partitions, where there are too few, and the bucket between two.
    HashPartitions,
    /// To divide the bucket between those partitions that there are.
    Split,
    /// To put an overflow page behind it.
    Overflow,
}

/// What came of making a bucket wider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Widened {
    /// It has fewer records or more room.
    Room,
    /// There are more partitions, and that is all.
    HashPartitions,
    /// It has fewer partitions: as many as may change hands under one write guard.
    Narrower,
}

/// Two neighbouring buckets, latched.
pub(crate) struct Pair<'d> {
    pub left: Held<'d>,
    pub right: Held<'d>,
}

impl<'d> Pair<'d> {
    /// Whether the right page stays when all come together: the one that has more partitions already.
    fn right_stays(&self) -> bool {
        self.left.span.width() < self.right.span.width()
    }

    /// The hashes that change hands then.
    pub fn merged_away(&self) -> Span {
        match self.right_stays() {
            true => self.left.span,
            false => self.right.span,
        }
    }

    /// The one that holds a hash, alone.
    pub fn one(self, hash: u64) -> Held<'d> {
        if self.left.span.covers(hash) {
            self.left
        } else {
            self.right
        }
    }
}

/// Private copies of the pages of buckets.
pub(crate) fn copies(buckets: &[&Held<'_>]) -> Vec<Vec<u8>> {
    let pages = buckets.iter().flat_map(|held| &held.pages);
    pages.map(|page| page.bytes().to_vec()).collect()
}

impl HashTable {
    /// The records of the pages of some buckets, in order.
    pub(crate) fn records<'p>(
        &self,
        buckets: &[&Held<'_>],
        copies: &'p [Vec<u8>],
    ) -> Attempt<Vec<Item<'p>>> {
        let secret = self.try_secret()?;
        let pages = buckets
            .iter()
            .flat_map(|held| held.pages.iter().map(|page| (held.span, page)));
        let mut items = Vec::new();
        for ((span, page), copy) in pages.zip(copies) {
            let from = items.len();
            let taken = take_apart(copy, &secret, &mut items);
            if taken.is_err() || items[from..].iter().any(|item| !span.covers(item.hash)) {
                return Err(page.torn(super::find::BAD_RECORD));
            }
        }
        // Nothing to do unless there are overflow pages.
        if !items.is_sorted_by_key(Item::order) {
            items.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        }
        Ok(items)
    }

    /// Latches a neighbour of a bucket: the one on its left, or the one on its right. Never waits;
    /// the bucket is given back when there is none or it cannot be had at once.
    pub(crate) fn neighbour<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        held: Held<'d>,
        on_the_left: bool,
    ) -> Attempt<Result<Pair<'d>, Held<'d>>> {
        self.neighbour_or_miss(door, held, on_the_left, &mut None)
    }

    /// The same; says which page would have to be read for it.
    pub(super) fn neighbour_or_miss<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        held: Held<'d>,
        on_the_left: bool,
        missing: &mut Option<PageId>,
    ) -> Attempt<Result<Pair<'d>, Held<'d>>> {
        let other = if on_the_left {
            held.span.low.checked_sub(1)
        } else {
            held.span.last.checked_add(1)
        };
        let Some(other) = other else {
            return Ok(Err(held));
        };
        let other = match self.latch_beside(door, other, false, &held.pages) {
            Ok(Some(other)) => other,
            // There are more partitions than those of this bucket.
            Ok(None) => return Err(held.pages[0].torn(NO_NEIGHBOUR)),
            Err(Retry::Fail(e)) => return Err(Retry::Fail(e)),
            Err(Retry::Miss(pid)) => {
                *missing = Some(pid);
                return Ok(Err(held));
            }
            _ => return Ok(Err(held)),
        };
        let (left, right) = if on_the_left {
            (other, held)
        } else {
            (held, other)
        };
        if left.span.last.checked_add(1) != Some(right.span.low) {
            return Err(right.pages[0].torn("this bucket does not begin where another ends"));
        }
        Ok(Ok(Pair { left, right }))
    }

    /// Splits the bucket that holds `hash`, or makes a split possible, so that a record with this
    /// value fits sooner. The caller looks again whether it fits now.
    /// `rises`: what is below the record will hardly grow, and gets a full page.
    /// O(records).
    pub(crate) fn split(
        &self,
        door: &WriteGuard<'_>,
        hash: u64,
        key: &[u8],
        value: Value<'_>,
        patient: bool,
        rises: bool,
    ) -> Attempt<Widened> {
        for tried in [Try::HashPartitions, Try::Split] {
            let done = self.split_by(door, (hash, key, value), patient, rises, tried);
            if let Some(done) = self.unless_unreadable(done)? {
                return Ok(done);
            }
        }
        // It is read with the bucket, no directory has to change for it.
        self.split_by(door, (hash, key, value), patient, rises, Try::Overflow)
    }

    /// What came of a split; nothing if it needs a page that is known to be unreadable. That is one of the
    /// directory, of other records than the one that comes.
    fn unless_unreadable<T>(&self, done: Attempt<T>) -> Attempt<Option<T>> {
        if let Err(Retry::Miss(pid)) = done {
            let mut spared = self.spared.lock();
            if spared.has(pid) {
                return Ok(None);
            }
            // Without the root there is nothing.
            if pid != self.root {
                spared.miss(pid);
            }
        }
        done.map(Some)
    }

    fn split_by(
        &self,
        door: &WriteGuard<'_>,
        (hash, key, value): (u64, &[u8], Value<'_>),
        patient: bool,
        rises: bool,
        tried: Try,
    ) -> Attempt<Widened> {
        let secret = self.try_secret()?;
        let Some(held) = self.latch(door, hash, patient)? else {
            return Ok(Widened::Room);
        };
        let put = Put {
            secret: &secret,
            hash,
            key,
            value,
            flags: Flags::NONE,
            old: held.find(&secret, hash, key)?,
            hole: None,
        };
        // Since the bucket was found full, others may have taken records away.
        if !matches!(put.plan(&held)?, How::NoRoom(_)) {
            return Ok(Widened::Room);
        }
        if tried == Try::Overflow {
            self.add_overflow(door, held)?;
            return Ok(Widened::Room);
        }
        let (grains, buckets) = self.size()?;
        let grows = tried == Try::HashPartitions;
        if grows && grains.count() < self.grains_for(buckets + 1) {
            drop(held);
            self.grow(door, self.grains_for(buckets + 1 + buckets / AHEAD))?;
            return Ok(Widened::HashPartitions);
        }
        let copies = copies(&[&held]);
        let items = self.records(&[&held], &copies)?;
        let mut sizes = sizes_of(&items);
        add_size(&mut sizes, hash, record_bytes(key, value));
        let total: usize = sizes.iter().map(|size| size.1).sum();
        let (boundary, wanted, near) = if rises {
            let most = full(self.store.page_bytes());
            let wanted = left_full(&sizes, hash, most);
            let boundary = cut(&grains, &sizes, wanted, |below| below <= most);
            (boundary, wanted, total / EXACT)
        } else {
            (middle(&grains, &sizes, |_| true), total / 2, total / UNEVEN)
        };
        let off = |boundary| bytes_below(&sizes, boundary).abs_diff(wanted);
        // A table that is filled in the order of hashes, as a cold tier is by the sweep, has all its
        // records in few partitions at first.
        if grows && boundary.is_none_or(|boundary| off(boundary) > near) {
            let parts = if rises { EXACT } else { UNEVEN / 2 };
            if let Some(finer) = finer(&grains, &sizes, parts, self.most_grains(buckets)) {
                drop(held);
                self.grow(door, finer)?;
                return Ok(Widened::HashPartitions);
            }
        }
        // Where no cut leaves the lower part with room to spare, any is better than none.
        let boundary = boundary.or_else(|| middle(&grains, &sizes, |_| true));
        let Some(boundary) = boundary else {
            self.add_overflow(door, held)?;
            return Ok(Widened::Room);
        };
        // Where the half that would go has too many partitions for one write guard, its outer end goes first, with
        // hardly a record: the bucket is narrower then, and what goes in the end is not too much.
        let (lower, upper) = held.span.cut_at(boundary);
        let upper_goes = upper.width() <= lower.width();
        let gone = if upper_goes { upper } else { lower };
        if grains.count_in(gone) <= self.most_moved() {
            self.split_at(door, held, &items, boundary)?;
            return Ok(Widened::Room);
        }
        let nearer = grains.part(gone, self.most_moved(), !upper_goes);
        self.split_at(door, held, &items, nearer)?;
        Ok(Widened::Narrower)
    }

    /// Splits two full neighbours in three, which leaves less room unused than splitting one in two.
    /// Gives the pair back, unchanged, if they cannot be divided so.
    pub(super) fn split_pair<'d>(
        &self,
        door: &'d WriteGuard<'_>,
        mut pair: Pair<'d>,
        grains: &HashPartitions,
        hash: u64,
        bytes: usize,
    ) -> Attempt<Option<Pair<'d>>> {
        let page_bytes = self.store.page_bytes();
        let room = capacity(page_bytes);
        let copies = copies(&[&pair.left, &pair.right]);
        let items = self.records(&[&pair.left, &pair.right], &copies)?;
        let mut sizes = sizes_of(&items);
        add_size(&mut sizes, hash, bytes);
        let total: usize = sizes.iter().map(|size| size.1).sum();
        let third = |below: usize| below <= room && total - below <= 2 * room;
        let Some(first) = cut(grains, &sizes, total / 3, third) else {
            return Ok(Some(pair));
        };
        let rest = sizes.split_off(sizes.partition_point(|size| size.0 < first));
        let total: usize = rest.iter().map(|size| size.1).sum();
        let half = |below: usize| below <= room && total - below <= room;
        let Some(second) = cut(grains, &rest, total / 2, half) else {
            return Ok(Some(pair));
        };
        let old = pair.right.span.low;
        let spans = [
            (pair.left.span.low, first - 1),
            (first, second - 1),
            (second, pair.right.span.last),
        ]
        .map(|(low, last)| Span { low, last });
        let members = [
            pair.left.next_members(),
            self.birth(),
            pair.right.next_members(),
        ];
        let mut images = Vec::with_capacity(3);
        for (span, members) in spans.into_iter().zip(members) {
            let from = items.partition_point(|item| item.hash < span.low);
            let to = items.partition_point(|item| item.hash <= span.last);
            let shape = Shape {
                table: self.table(),
                overflow: false,
                span,
                members,
                next: PageId::NONE,
            };
            match build_bucket(&items[from..to], &shape, &[], page_bytes) {
                Some(mut image) => images.append(&mut image),
                None => return Ok(Some(pair)),
            }
        }
        fault::reached(Point::Dividing);
        // All that may change hands: what lies between the first boundary and the last.
        let moved = Span {
            low: first.min(old),
            last: second.max(old) - 1,
        };
        let mut claim = match self.claim(door, moved, &[&pair.left, &pair.right]) {
            Err(Retry::Conflict | Retry::Miss(_)) => return Ok(Some(pair)),
            other => other?,
        };
        // Partitions inside a bucket may have been united since the boundaries were chosen, and a claim
        // looks at the ends of what it claims only.
        if !claim.grains.begins_at(first) || !claim.grains.begins_at(second) {
            return Ok(Some(pair));
        }
        let mut fresh = self.allocate(door, 1)?;
        // From here on nothing can fail.
        let spare = [&mut pair.left, &mut pair.right].map(|held| held.pages.split_off(1));
        spare.into_iter().flatten().for_each(|page| page.free());
        install(&mut pair.left.pages[0], &images[0])?;
        install(&mut fresh[0], &images[1])?;
        install(&mut pair.right.pages[0], &images[2])?;
        if first > old {
            let below = Span {
                low: old,
                last: first - 1,
            };
            claim.assign(below, pair.left.pages[0].pid())?;
        }
        claim.assign(spans[1], fresh[0].pid())?;
        if second < old {
            let above = Span {
                low: second,
                last: old - 1,
            };
            claim.assign(above, pair.right.pages[0].pid())?;
        }
        claim.count(1)?;
        Ok(None)
    }

    /// Divides a bucket at `boundary`. The half with the narrower range of hashes becomes the new
    /// bucket, because its partitions change hands one by one: to a table that is filled in the order of
    /// hashes nearly all partitions belong to the bucket that is split, and nearly all of them stay.
    fn split_at<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        mut held: Held<'d>,
        items: &[Item<'_>],
        boundary: u64,
    ) -> Attempt<()> {
        let page_bytes = self.store.page_bytes();
        let at = items.partition_point(|item| item.hash < boundary);
        let (left, mut right) = items.split_at(at);
        if fault::planted(Fault::SplitLosesRecord) && right.len() > 1 {
            right = &right[1..];
        }
        let (lower, upper) = held.span.cut_at(boundary);
        let upper_goes = upper.width() <= lower.width();
        let gone = if upper_goes { upper } else { lower };
        // Overflow pages that the halves still need, those that there are, and new ones.
        let need = [left, right].map(|half| pages_for(half, page_bytes).len() - 1);
        let have = held.pages.len() - 1;
        let mut claim = self.claim(door, gone, &[&held])?;
        let mut fresh = self.allocate(door, 1 + (need[0] + need[1]).saturating_sub(have))?;
        let mut pool = held.pages.split_off(1);
        pool.extend(fresh.drain(1..));
        let pids: Vec<PageId> = pool.iter().map(|page| page.pid()).collect();
        let shape = |span: Span| Shape {
            table: self.table(),
            overflow: false,
            span,
            members: if span == gone {
                self.birth()
            } else {
                held.next_members()
            },
            next: PageId::NONE,
        };
        let (mine, others) = pids.split_at(need[0].min(pids.len()));
        let left = build_bucket(left, &shape(lower), mine, page_bytes);
        let right = build_bucket(
            right,
            &shape(upper),
            &others[..need[1].min(others.len())],
            page_bytes,
        );
        let (Some(left), Some(right)) = (left, right) else {
            let why = held.pages[0].torn("the halves of a split do not fit");
            // What was allocated is at the end of the pool, but for the first page.
            let fresh = fresh.into_iter().chain(pool.drain(have..));
            fresh.for_each(|page| page.free());
            return Err(why);
        };
        let (old, new) = (&mut held.pages[0], &mut fresh[0]);
        let (left_page, right_page) = if upper_goes { (old, new) } else { (new, old) };
        install(left_page, &left[0])?;
        install(right_page, &right[0])?;
        let mut pool = pool.into_iter();
        for (image, mut page) in left[1..].iter().chain(&right[1..]).zip(&mut pool) {
            install(&mut page, image)?;
        }
        pool.for_each(|page| page.free());
        claim.assign(gone, fresh[0].pid())?;
        claim.count(1)
    }

    /// Appends an overflow page to a bucket that cannot be split.
    fn add_overflow(&self, door: &WriteGuard<'_>, mut held: Held<'_>) -> Attempt<()> {
        if held.pages.len() > MOST_OVERFLOW {
            return Err(Error::invalid("too many keys with one hash").into());
        }
        let shape = Shape {
            table: self.table(),
            overflow: true,
            span: held.span,
            members: 0,
            next: PageId::NONE,
        };
        let mut image = vec![0; self.store.page_bytes()];
        super::image::build(&mut image, &shape, &[]);
        for mut page in self.allocate(door, 1)? {
            install(&mut page, &image)?;
            if let Some(last) = held.pages.last_mut() {
                last.change(NEXT, 8)?
                    .copy_from_slice(&page.pid().0.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Gives the left bucket what is below `boundary`, and the right one the rest; without a boundary
    /// one of them gets everything and the other one goes. Gives them back, unchanged, if either
    /// would need more than one page.
    pub(crate) fn divide<'d>(
        &self,
        door: &'d WriteGuard<'_>,
        mut pair: Pair<'d>,
        items: &[Item<'_>],
        boundary: Option<u64>,
    ) -> Attempt<Option<Pair<'d>>> {
        let page_bytes = self.store.page_bytes();
        let (whole, old) = (
            Span {
                low: pair.left.span.low,
                last: pair.right.span.last,
            },
            pair.right.span.low,
        );
        let at = match boundary {
            Some(boundary) => items.partition_point(|item| item.hash < boundary),
            None => items.len(),
        };
        let shape = |span, members| Shape {
            table: self.table(),
            overflow: false,
            span,
            members,
            next: PageId::NONE,
        };
        let lower = Span {
            last: boundary.map_or(whole.last, |boundary| boundary - 1),
            ..whole
        };
        let right_stays = boundary.is_none() && pair.right_stays();
        let first = if right_stays { &pair.right } else { &pair.left };
        let left = build_bucket(
            &items[..at],
            &shape(lower, first.next_members()),
            &[],
            page_bytes,
        );
        let upper = Span {
            low: boundary.unwrap_or(old),
            ..whole
        };
        let right = build_bucket(
            &items[at..],
            &shape(upper, pair.right.next_members()),
            &[],
            page_bytes,
        );
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(Some(pair));
        };
        let (moved, to) = match boundary {
            Some(boundary) if boundary < old => (
                Span {
                    low: boundary,
                    last: old - 1,
                },
                pair.right.pages[0].pid(),
            ),
            None if right_stays => (pair.left.span, pair.right.pages[0].pid()),
            _ => (
                Span {
                    low: old,
                    last: boundary.map_or(whole.last, |boundary| boundary - 1),
                },
                pair.left.pages[0].pid(),
            ),
        };
        let mut claim = match self.claim(door, moved, &[&pair.left, &pair.right]) {
            Err(Retry::Conflict | Retry::Miss(_)) => return Ok(Some(pair)),
            other => other?,
        };
        claim.assign(moved, to)?;
        if right_stays {
            std::mem::swap(&mut pair.left, &mut pair.right);
        }
        let mut spare = pair.left.pages.split_off(1);
        spare.append(&mut pair.right.pages.split_off(1));
        if fault::planted(Fault::ForgottenOverflow) {
            spare.clear();
        }
        install(&mut pair.left.pages[0], &left[0])?;
        if boundary.is_some() {
            install(&mut pair.right.pages[0], &right[0])?;
        } else {
            claim.count(-1)?;
            spare.extend(pair.right.pages.drain(..1));
        }
        spare.into_iter().for_each(|page| page.free());
        Ok(None)
    }

    /// Brings a bucket with overflow pages back into one page if it fits there by now. Gives it back
    /// if not.
    pub(crate) fn shorten<'d>(&self, mut held: Held<'d>) -> Attempt<Option<Held<'d>>> {
        let copies = copies(&[&held]);
        let items = self.records(&[&held], &copies)?;
        let shape = Shape {
            table: self.table(),
            overflow: false,
            span: held.span,
            members: held.next_members(),
            next: PageId::NONE,
        };
        if bytes_of(&items) > capacity(self.store.page_bytes()) {
            return Ok(Some(held));
        }
        let Some(images) = build_bucket(&items, &shape, &[], self.store.page_bytes()) else {
            return Ok(Some(held));
        };
        install(&mut held.pages[0], &images[0])?;
        held.pages.drain(1..).for_each(|page| page.free());
        Ok(None)
    }
}
