//! Single rules of the map, one scenario each: phases, slots by use, moving and shrinking.

use crate::map::*;
use std::cell::RefCell;
use terrace_base::PageId;

/// Places of a few pages, none resident.
struct Table(RefCell<Vec<Place>>);

impl Table {
    fn new(pages: usize) -> Table {
        Table(RefCell::new(vec![Place::FREE; pages]))
    }

    fn set(&self, pid: u64, place: Place) {
        self.0.borrow_mut()[pid as usize] = place;
    }

    /// Writes a page whose content is of `epoch`.
    fn write(&self, map: &mut PageMap, pid: u64, epoch: u64) -> (u64, Registered) {
        let slot = map.allocate(1).expect("a free slot").first;
        let done = map.register(
            PageId(pid),
            self.place(PageId(pid)),
            slot,
            slot as u16,
            epoch,
        );
        if let Registered::Newest(place) = done {
            self.set(pid, place);
        }
        (slot, done)
    }

    fn free(&self, map: &mut PageMap, pid: u64) {
        self.set(pid, map.free_page(PageId(pid), self.place(PageId(pid))));
    }
}

impl Words for Table {
    fn place(&self, pid: PageId) -> Place {
        self.0.borrow()[pid.0 as usize]
    }

    fn retag(&self, pid: PageId, from: Place, to: Place) -> bool {
        let same = self.place(pid) == from;
        if same {
            self.set(pid.0, to);
        }
        same
    }
}

/// All changes of the sealed cut.
fn delta(map: &PageMap, table: &Table) -> Vec<(u64, Option<u64>)> {
    let mut out = Vec::new();
    assert!(
        map.cut_delta(table, &mut DeltaCursor::default(), &mut out, 1000)
            .expect("sealed")
    );
    let mut out: Vec<_> = out
        .into_iter()
        .map(|(pid, place)| (pid.0, place.slot()))
        .collect();
    out.sort_unstable();
    out
}

fn seal(map: &mut PageMap) {
    assert!(map.seal_step(1000).expect("open"));
}

fn complete(map: &mut PageMap, table: &Table) {
    map.commit().expect("sealed");
    assert!(map.complete_step(table, 1000).expect("committed"));
}

#[test]
fn steps_out_of_turn_are_refused_and_change_nothing() {
    let (mut map, table) = (PageMap::new(8), Table::new(2));
    let refuse_all_but = |map: &mut PageMap, allowed: &[&str]| {
        let phase = map.phase();
        let refused = |name: &str, refused: bool| {
            assert!(refused || allowed.contains(&name), "{name} in {phase:?}")
        };
        refused(
            "delta",
            map.cut_delta(&table, &mut DeltaCursor::default(), &mut Vec::new(), 9)
                .is_err(),
        );
        refused(
            "fold",
            map.fold_base(&table, &mut FoldCursor::default(), 2, &mut Vec::new(), 9)
                .is_err(),
        );
        refused(
            "overrides",
            map.fold_overrides(&mut FoldCursor::default(), 2, &mut Vec::new(), 9)
                .is_err(),
        );
        if !allowed.contains(&"begin") {
            assert!(map.begin_cut(99).is_err());
            assert!(map.pin(SlotSet::default()).is_err(), "pinned in {phase:?}");
        }
        if !allowed.contains(&"seal") {
            assert!(map.seal_step(9).is_err());
        }
        if !allowed.contains(&"commit") {
            assert!(map.commit().is_err());
        }
        if !allowed.contains(&"complete") {
            assert!(map.complete_step(&table, 9).is_err());
        }
        if !allowed.contains(&"abort") {
            assert!(map.abort_step(&table, 9).is_err());
        }
        assert_eq!(map.phase(), phase);
    };
    refuse_all_but(&mut map, &["begin", "fold", "overrides"]);
    assert!(map.begin_cut(0).is_err(), "epochs begin with 1");
    map.begin_cut(1).expect("idle");
    refuse_all_but(&mut map, &["seal", "abort"]);
    seal(&mut map);
    refuse_all_but(
        &mut map,
        &["seal", "abort", "commit", "delta", "fold", "overrides"],
    );
    map.commit().expect("sealed");
    refuse_all_but(&mut map, &["complete"]);
    assert!(map.complete_step(&table, 9).expect("committed"));
    assert!(map.begin_cut(1).is_err(), "an epoch ends once");
    refuse_all_but(&mut map, &["begin", "fold", "overrides"]);
    assert!(map.health().is_ok());
}

#[test]
fn a_late_write_is_what_the_cut_has_and_what_next_replaces() {
    let (mut map, table) = (PageMap::new(8), Table::new(2));
    let (first, _) = table.write(&mut map, 0, 1);
    map.begin_cut(1).expect("idle");
    let (newer, _) = table.write(&mut map, 0, 2);
    table.free(&mut map, 1);
    let (late, done) = table.write(&mut map, 0, 1);
    assert_eq!(
        (done, table.place(PageId(0)).slot()),
        (Registered::Late, Some(newer))
    );
    let (late_of_freed, done) = table.write(&mut map, 1, 1);
    assert_eq!(done, Registered::Late);
    seal(&mut map);
    assert_eq!(
        delta(&map, &table),
        [(0, Some(late)), (1, Some(late_of_freed))]
    );
    assert!(
        map.slots.is_free(first),
        "the late write replaced it within the cut"
    );
    complete(&mut map, &table);
    assert!(!map.slots.is_free(late) && !map.slots.is_free(late_of_freed));
    map.begin_cut(2).expect("idle");
    seal(&mut map);
    assert_eq!(delta(&map, &table), [(0, Some(newer)), (1, None)]);
    complete(&mut map, &table);
    assert_eq!((map.counts().free, map.counts().image), (7, 1));
}

#[test]
fn a_second_late_write_replaces_the_first() {
    let (mut map, table) = (PageMap::new(8), Table::new(1));
    map.begin_cut(1).expect("idle");
    table.write(&mut map, 0, 2);
    let (first, _) = table.write(&mut map, 0, 1);
    let (second, _) = table.write(&mut map, 0, 1);
    seal(&mut map);
    assert_eq!(delta(&map, &table), [(0, Some(second))]);
    assert!(map.slots.is_free(first) && map.health().is_ok());
}

#[test]
fn a_cut_write_after_the_seal_is_refused_and_its_slot_stays_in_flight() {
    let (mut map, table) = (PageMap::new(8), Table::new(1));
    map.begin_cut(1).expect("idle");
    seal(&mut map);
    let (slot, done) = table.write(&mut map, 0, 1);
    assert_eq!((done, map.counts().in_flight), (Registered::Refused, 1));
    map.release(slot);
    assert_eq!((map.counts().in_flight, map.counts().free), (0, 8));
}

#[test]
fn a_page_that_came_and_went_between_checkpoints_leaves_no_trace() {
    let (mut map, table) = (PageMap::new(8), Table::new(1));
    table.free(&mut map, 0);
    assert_eq!((table.place(PageId(0)), map.next.len()), (Place::FREE, 0));
    table.write(&mut map, 0, 1);
    table.free(&mut map, 0);
    assert_eq!((map.counts().free, map.next.len()), (8, 1));
}

#[test]
fn a_fold_gives_the_cut_even_of_pages_changed_while_it_runs() {
    let (mut map, table) = (PageMap::new(32), Table::new(6));
    let slots: Vec<u64> = (0..5).map(|pid| table.write(&mut map, pid, 1).0).collect();
    map.begin_cut(1).expect("idle");
    table.write(&mut map, 3, 2);
    seal(&mut map);
    let (mut cursor, mut base) = (FoldCursor::default(), Vec::new());
    assert!(
        !map.fold_base(&table, &mut cursor, 5, &mut base, 2)
            .expect("sealed")
    );
    // One already passed, one not yet, and one that the cut does not have.
    table.write(&mut map, 0, 2);
    table.free(&mut map, 4);
    table.write(&mut map, 5, 2);
    assert!(
        map.fold_base(&table, &mut cursor, 5, &mut base, 9)
            .expect("sealed")
    );
    let mut overrides = Vec::new();
    while !map
        .fold_overrides(&mut cursor, 5, &mut overrides, 1)
        .expect("sealed")
    {}
    for (pid, place) in overrides {
        base[pid.0 as usize] = place;
    }
    assert!(base.iter().all(|place| place.tag() == Tag::IMAGE));
    assert!(
        base.iter()
            .map(|place| place.slot())
            .eq(slots.into_iter().map(Some))
    );
}

#[test]
fn the_tail_is_given_up_only_when_neither_superblock_names_it() {
    let (mut map, table) = (PageMap::new(10), Table::new(2));
    let low = map.allocate(9).expect("free slots");
    table.write(&mut map, 0, 1);
    for slot in low.first..low.first + low.len {
        map.release(slot);
    }
    let checkpoint = |map: &mut PageMap, epoch| {
        map.begin_cut(epoch).expect("idle");
        seal(map);
        complete(map, &table);
    };
    checkpoint(&mut map, 1);
    assert_eq!(
        (map.shrinkable_to(), map.tail_start(0), map.tail_start(1)),
        (10, 10, 0)
    );
    let to = map.allocate_below(1, 9).expect("a low slot").first;
    let Registered::Newest(place) = map.register(PageId(0), table.place(PageId(0)), to, 0, 2)
    else {
        panic!("a page only moved is its newest place")
    };
    table.set(0, place);
    checkpoint(&mut map, 2);
    assert_eq!(
        (map.used_end(), map.shrinkable_to()),
        (1, 10),
        "the older superblock still names slot 9"
    );
    assert!(!map.shrink(1));
    checkpoint(&mut map, 3);
    assert_eq!(map.shrinkable_to(), 1);
    assert!(map.shrink(1));
    assert_eq!(
        (map.counts().total, map.counts().image, map.allocate(1)),
        (1, 1, None)
    );
    map.grow(3);
    assert_eq!(map.allocate(9), Some(Run { first: 1, len: 2 }));
}

#[test]
fn a_slot_given_back_twice_stops_checkpoints() {
    let mut map = PageMap::new(4);
    let slot = map.allocate(1).expect("a slot").first;
    map.release(slot);
    assert!(map.health().is_ok());
    map.release(slot);
    assert!(map.health().is_err() && map.begin_cut(1).is_err());
    assert_eq!(map.counts().free, 4);
}

#[test]
fn long_lists_go_in_steps_of_the_budget() {
    let pages = 10_000;
    let (mut map, table) = (PageMap::new(3 * pages), Table::new(pages as usize));
    let write_all = |map: &mut PageMap, epoch| {
        for pid in 0..pages {
            table.write(map, pid, epoch);
        }
    };
    write_all(&mut map, 1);
    let empty = PageMap::new(3 * pages).memory_bytes();
    assert!(map.memory_bytes() >= empty + 16 * pages as usize);
    map.begin_cut(1).expect("idle");
    seal(&mut map);
    map.commit().expect("sealed");
    let mut steps = 1;
    while !map.complete_step(&table, 100).expect("committed") {
        steps += 1;
        assert!(map.counts().free >= pages);
    }
    assert!(steps >= pages / 100);
    assert_eq!((map.counts().image, map.memory_bytes()), (pages, empty));
    write_all(&mut map, 2);
    assert_eq!(map.counts().image_only, pages);
    map.begin_cut(2).expect("idle");
    write_all(&mut map, 3);
    let mut steps = 1;
    while !map.abort_step(&table, 100).expect("open") {
        steps += 1;
    }
    assert!(steps >= 2 * pages / 100);
    let SlotCounts {
        image,
        image_only,
        cut,
        next,
        free,
        ..
    } = map.counts();
    assert_eq!(
        (image, image_only, cut, next, free),
        (pages, pages, 0, pages, pages)
    );
}
