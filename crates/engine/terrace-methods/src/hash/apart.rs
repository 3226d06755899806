//! The cold tier of a hash table whose tiers have hash functions of their own: the paper's 2Hash-D, for
//! comparison.
//!
//! Positions are those of the upper tier, which the composition speaks of. Records that are neighbours there
//! lie anywhere here, so each key is a range by itself: what a demotion takes down is written record by
//! record, wherever that falls. There is no order in which both tiers could be gone through together.

use std::sync::Arc;

use terrace_access::{
    AccessMethod, Applied, Attempt, Capabilities, Edge, Flags, Found, InStorage, Neighbours,
    NoRoom, Ordered, Plan, RangeDeletes, Room, Rooted, Runs, Sampled, Touch, Value, Window,
    WriteGuard,
};
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Class, PageStore};

use super::{HashTable, Secret};

/// What the secrets of the two tiers differ by: a keyed pseudo-random function has nothing in common
/// under two keys, whatever these have.
const OTHER: [u64; 2] = [0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB];

/// A cold tier whose hash function is not that of the tier above.
pub struct Apart(HashTable);

/// The secret of one tier from that of the other, both ways.
fn other(secret: Secret) -> Secret {
    let Secret([a, b]) = secret;
    Secret([a ^ OTHER[0], b ^ OTHER[1]])
}

fn no_order<T>() -> Attempt<T> {
    let what = "a hash table whose tiers have hash functions of their own has no order to go through it by: it is \
                for comparison only; make one that shares its hash function";
    Err(Error::invalid(what).into())
}

impl AccessMethod for Apart {
    const CAPABILITIES: Capabilities = Capabilities {
        scans: false,
        ..HashTable::CAPABILITIES
    };

    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        self.0.try_get(key, touch, value)
    }

    /// Whatever order records are put in is none here.
    fn try_edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        _: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        self.0.try_edit(door, key, plan, &mut NoRoom, commit)
    }

    fn do_without(&self, page: PageId) -> bool {
        self.0.do_without(page)
    }

    fn try_clear_step(&self, door: &WriteGuard<'_>) -> Attempt<bool> {
        self.0.try_clear_step(door)
    }

    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        self.0.verify(each, page)
    }
}

impl Ordered for Apart {
    fn try_position<'a>(&self, key: &'a [u8], place: &'a mut Vec<u8>) -> Attempt<&'a [u8]> {
        place.clear();
        place.extend_from_slice(&self.try_order()?.hash(key).to_be_bytes());
        place.extend_from_slice(key);
        Ok(place)
    }

    fn try_window(&self, _: Edge<'_>, _: &mut Window) -> Attempt<()> {
        no_order()
    }

    /// The range of the position alone, and none of its records: which others go with it.
    fn try_window_if(
        &self,
        edge: Edge<'_>,
        _: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let Edge::From(position) = edge else {
            return no_order();
        };
        window.clear();
        window.low.extend_from_slice(position);
        window.high = Some([position, &[0]].concat());
        Ok(())
    }

    fn still_same(&self, _: &Window) -> bool {
        false
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        let Edge::From(position) = edge else {
            return no_order();
        };
        let mut place = Vec::new();
        let below = self.0.try_position(Apart::key_at(position), &mut place)?;
        self.0.try_reach(Edge::From(below))
    }

    fn try_window_held(
        &self,
        _: Edge<'_>,
        _: &mut Window,
        _: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        no_order()
    }
}

impl Sampled for Apart {
    /// A bucket of this tier, and a position of its own order: how many records there are needs no other.
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        self.0.try_random(random)
    }

    fn try_chosen(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.0.try_chosen(position, window)
    }
}

impl Runs for Apart {}

impl Neighbours for Apart {}

impl RangeDeletes for Apart {}

impl InStorage for Apart {}

/// Its order is the secret of the upper tier.
impl Rooted for Apart {
    type Order = Secret;

    fn new_order(random: &mut dyn FnMut() -> u64) -> Secret {
        HashTable::new_order(random)
    }

    fn create(
        store: &Arc<PageStore>,
        door: &WriteGuard<'_>,
        class: Class,
        above: Secret,
    ) -> Attempt<Self> {
        <HashTable as Rooted>::create(store, door, class, other(above)).map(Apart)
    }

    fn try_order(&self) -> Attempt<Secret> {
        self.0.try_order().map(other)
    }

    fn open(store: &Arc<PageStore>, root: PageId, class: Class) -> Self {
        Apart(<HashTable as Rooted>::open(store, root, class))
    }

    fn root(&self) -> PageId {
        Rooted::root(&self.0)
    }

    fn free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        self.0.free_root(door)
    }

    fn max_inline(page_bytes: usize) -> usize {
        <HashTable as Rooted>::max_inline(page_bytes)
    }
}
