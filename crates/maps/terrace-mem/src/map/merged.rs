//! The entries of both stages in order, from both ends.

use crate::dynamic::{Any, AnyPos};
use crate::family::Family;
use crate::segment::Segment;
use crate::segments::Segments;
use crate::slots::{Slots, Vals};
use crate::two_stage::{DynamicCursor, DynamicStage, KeyCursor, StaticStage};

type StageCursor<'a, F> = <<F as Family>::Stage as StaticStage<F>>::Cursor<'a>;

/// This many dead slots are passed one by one: a cursor anywhere else has to be searched for.
const STEPS: usize = 8;

/// The live entries of the static stage between two places.
struct StaticRange<'a, F: Family, S> {
    segs: &'a [Segment<F, S>],
    /// The segment of the front, and the cursor in it; without one the front is its first entry.
    front: (usize, Option<StageCursor<'a, F>>),
    /// The segment and rank behind the back, and a cursor at the rank before.
    back: (usize, usize, Option<StageCursor<'a, F>>),
    /// Whether the front stands at a live entry before the back.
    settled: bool,
}

impl<'a, F: Family, S: Vals> StaticRange<'a, F, S> {
    fn new(list: &'a Segments<F, S>, from: Option<F::Ref<'_>>, to: Option<F::Ref<'_>>) -> Self {
        let segs = list.segs();
        let front = match from {
            Some(key) if !segs.is_empty() => {
                let i = list.locate(key);
                match segs[i].keys.seek_cursor(key) {
                    Some(cursor) => {
                        // The lines of the next values, which no other load waits for.
                        let line = 64 / size_of::<S::Own>().clamp(1, 64);
                        (0..6).for_each(|n| segs[i].vals.prefetch(cursor.rank() + n * line));
                        (i, Some(cursor))
                    }
                    None => (i + 1, None),
                }
            }
            _ => (0, None),
        };
        let back = match to {
            Some(key) if !segs.is_empty() => {
                let i = list.locate(key);
                (i, segs[i].keys.seek(key), None)
            }
            _ => (segs.len(), 0, None),
        };
        StaticRange {
            segs,
            front,
            back,
            settled: false,
        }
    }

    /// Brings the front cursor to a live entry; false where none is left.
    #[inline]
    fn settle_front(&mut self) -> bool {
        self.settled || self.search_front()
    }

    fn search_front(&mut self) -> bool {
        loop {
            let (seg, cursor) = &mut self.front;
            let rank = cursor.as_ref().map_or(0, |c| c.rank());
            if (*seg, rank) >= (self.back.0, self.back.1) {
                return false;
            }
            let Segment { keys, vals } = &self.segs[*seg];
            let Some(live) = vals.next_live(rank) else {
                self.front = (*seg + 1, None);
                continue;
            };
            match cursor {
                Some(cursor) if live - rank <= STEPS => (rank..live).for_each(|_| {
                    cursor.next();
                }),
                _ => *cursor = Some(keys.cursor(live)),
            }
            if live == rank {
                self.settled = true;
                return true;
            }
        }
    }

    #[inline]
    fn bump_front(&mut self) {
        self.settled = false;
        let (seg, Some(cursor)) = &mut self.front else {
            return;
        };
        if cursor.next() {
            // The usual case: on in a segment that the back is not in.
            self.settled = *seg < self.back.0 && self.segs[*seg].vals.is_live(cursor.rank());
        } else {
            self.front = (*seg + 1, None);
        }
    }

    /// Brings the back cursor to a live entry; false where none is left.
    fn settle_back(&mut self) -> bool {
        loop {
            let rank = self.front.1.as_ref().map_or(0, |c| c.rank());
            let (seg, past, cursor) = &mut self.back;
            if (self.front.0, rank) >= (*seg, *past) {
                return false;
            }
            if *past == 0 {
                // The front is in a segment before this one, so there is one.
                self.settled = false;
                *seg -= 1;
                *past = self.segs[*seg].keys.len();
                *cursor = None;
                continue;
            }
            let Segment { keys, vals } = &self.segs[*seg];
            let Some(live) = vals.last_live(*past) else {
                *past = 0;
                continue;
            };
            let gap = *past - 1 - live;
            *past = live + 1;
            match cursor {
                Some(cursor) if gap <= STEPS => (0..gap).for_each(|_| {
                    cursor.prev();
                }),
                _ => *cursor = Some(keys.cursor(live)),
            }
            if gap == 0 {
                return true;
            }
        }
    }

    fn bump_back(&mut self) {
        self.settled = false;
        self.back.1 -= 1;
        if !self.back.2.as_mut().is_some_and(|c| c.prev()) {
            self.back.2 = None;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Dynamic,
    Static,
}

/// The last entry left of the dynamic stage.
#[allow(
    clippy::large_enum_variant,
    reason = "an allocation for each range would cost more than the room on the stack"
)]
enum Last<'a, F: Family, V> {
    /// The last of all, not looked for: most ranges without an end are left before they end.
    OfAll(&'a Any<F, V>),
    At(AnyPos<'a, F, V>),
}

impl<'a, F: Family, V> Last<'a, F, V> {
    fn pos(&mut self) -> Option<&mut AnyPos<'a, F, V>> {
        if let Last::OfAll(tree) = self {
            *self = Last::At(tree.seek_before(None)?);
        }
        match self {
            Last::At(pos) => Some(pos),
            Last::OfAll(_) => None,
        }
    }
}

/// The entries of both stages in one order. Lends each key until the next move.
pub struct Merged<'a, F: Family, V, S = Slots<V>> {
    /// The first entry left of the dynamic stage, and the last one.
    dynamic: Option<(AnyPos<'a, F, V>, Last<'a, F, V>)>,
    fixed: StaticRange<'a, F, S>,
    /// What was lent last, from the front or the back, and is still to be passed.
    lent: Option<(Side, bool)>,
}

impl<'a, F: Family, V, S: Vals<Own = V>> Merged<'a, F, V, S> {
    pub fn new(
        tree: &'a Any<F, V>,
        list: &'a Segments<F, S>,
        from: Option<F::Ref<'_>>,
        to: Option<F::Ref<'_>>,
    ) -> Self {
        // Both stages ask for their first lines before either waits for them.
        let near = from.and_then(|from| Some((list.segs().get(list.locate(from))?, from)));
        if let Some((seg, from)) = near {
            seg.keys.prefetch_place(from);
        }
        let first = tree.seek(from, || {
            if let Some((seg, from)) = near {
                seg.keys.approach_place(from);
            }
        });
        let mut fixed = StaticRange::new(list, from, to);
        let mut dynamic = None;
        if let (Some(from), Some(to)) = (from, to)
            && F::cmp(from, to).is_ge()
        {
            fixed.back = (0, 0, None);
        } else if let Some(first) = first {
            if to.is_none() {
                dynamic = Some((first, Last::OfAll(tree)));
            } else if let Some(last) = tree.seek_before(to)
                && F::cmp(first.key(), last.key()).is_le()
            {
                dynamic = Some((first, Last::At(last)));
            }
        }
        Merged {
            dynamic,
            fixed,
            lent: None,
        }
    }

    #[inline]
    fn pass(&mut self) {
        match self.lent.take() {
            None => {}
            Some((Side::Static, true)) => self.fixed.bump_front(),
            Some((Side::Static, false)) => self.fixed.bump_back(),
            Some((Side::Dynamic, front)) => self.pass_dynamic(front),
        }
    }

    fn pass_dynamic(&mut self, front: bool) {
        let Some((first, last)) = &mut self.dynamic else {
            return;
        };
        let more = match last {
            Last::OfAll(_) if front => first.next(),
            last => last.pos().is_some_and(|last| {
                let more = !first.same(last);
                match (more, front) {
                    (true, true) => first.next(),
                    (true, false) => last.prev(),
                    (false, _) => false,
                }
            }),
        };
        if !more {
            self.dynamic = None;
        }
    }

    #[inline]
    pub fn next(&mut self) -> Option<(F::Ref<'_>, S::Ref<'a>)> {
        self.pass();
        let fixed = self.fixed.settle_front();
        let side = match &self.dynamic {
            None if !fixed => return None,
            None => Side::Static,
            Some(_) if !fixed => Side::Dynamic,
            Some((first, _)) => {
                let key = self.fixed.front.1.as_ref()?.key();
                if F::cmp(first.key(), key).is_lt() {
                    Side::Dynamic
                } else {
                    Side::Static
                }
            }
        };
        self.lent = Some((side, true));
        if side == Side::Dynamic {
            let first = &self.dynamic.as_ref()?.0;
            return Some((first.key(), S::lend(first.val())));
        }
        let (seg, cursor) = &self.fixed.front;
        let cursor = cursor.as_ref()?;
        Some((cursor.key(), self.fixed.segs[*seg].vals.get(cursor.rank())?))
    }

    pub fn next_back(&mut self) -> Option<(F::Ref<'_>, S::Ref<'a>)> {
        self.pass();
        let fixed = self.fixed.settle_back();
        let side = match &mut self.dynamic {
            None if !fixed => return None,
            None => Side::Static,
            Some(_) if !fixed => Side::Dynamic,
            Some((_, last)) => {
                let key = self.fixed.back.2.as_ref()?.key();
                if F::cmp(last.pos()?.key(), key).is_gt() {
                    Side::Dynamic
                } else {
                    Side::Static
                }
            }
        };
        self.lent = Some((side, false));
        if side == Side::Dynamic {
            let last = self.dynamic.as_mut()?.1.pos()?;
            return Some((last.key(), S::lend(last.val())));
        }
        let (seg, past, cursor) = &self.fixed.back;
        Some((
            cursor.as_ref()?.key(),
            self.fixed.segs[*seg].vals.get(*past - 1)?,
        ))
    }
}
