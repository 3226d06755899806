//! Holes that a sweep leaves in pages of rows, and who fills them.

use terrace_access::conformance::{Fixture, Subject, settled};
use terrace_access::{AccessMethod, Attempt, Flags, NoRoom, Plan, RecordPage, Room, Sweep, Value};
use terrace_base::PageId;
use terrace_pages::Class;

use super::fixture::heaps;
use crate::Heap;

type Rows = Subject<Heap>;

const PAGE: usize = 16384;
const VALUE: [u8; 120] = [5; 120];
/// What a row takes in its page, slot and header included.
const ROW: usize = 4 + 1 + 8 + VALUE.len();

fn key(i: usize) -> [u8; 8] {
    (i as u64).to_be_bytes()
}

fn put(heap: &Rows, i: usize, room: &mut dyn Room) -> PageId {
    let plan = Plan::Put(Value::Inline(&VALUE), Flags::NONE);
    settled(&heap.store, || {
        let door = heap.store.enter()?;
        let method = &heap.method;
        method.try_edit(&door, &key(i), &mut |_| Ok(plan), room, &mut || Ok(()))
    })
    .unwrap();
    page_of(heap, i)
}

fn page_of(heap: &Rows, i: usize) -> PageId {
    let page = settled(&heap.store, || heap.method.page_of(&key(i)));
    page.unwrap().expect("a row")
}

/// A sweep takes these rows out.
fn sweep(heap: &Rows, rows: &[usize]) {
    for &i in rows {
        settled(&heap.store, || {
            let door = heap.store.enter()?;
            heap.method.try_visit(&door, &key(i), &mut |page| {
                let mut which = vec![page.find(&key(i))?.expect("a record")];
                page.erase_all(&mut which)?;
                assert_eq!(which.len(), 1);
                Ok(())
            })
        })
        .unwrap();
    }
}

/// Three full pages of rows, by the numbers of their rows.
fn three_pages() -> (Rows, Vec<Vec<usize>>) {
    let heap = heaps(Class::Hot).create(PAGE, 600).unwrap();
    let each = (PAGE - 48) / ROW;
    let mut pages: Vec<(PageId, Vec<usize>)> = Vec::new();
    for i in 0..3 * each {
        let page = put(&heap, i, &mut NoRoom);
        match pages.last_mut() {
            Some((last, rows)) if *last == page => rows.push(i),
            _ => pages.push((page, vec![i])),
        }
    }
    assert_eq!(pages.len(), 3, "{each} rows to a page");
    (heap, pages.into_iter().map(|page| page.1).collect())
}

#[test]
fn newcomers_are_told_of_holes_that_a_sweep_leaves_when_there_are_several() {
    let (heap, pages) = three_pages();
    let page = page_of(&heap, pages[0][9]);
    sweep(&heap, &pages[0][..3]);
    assert_ne!(put(&heap, 10_000, &mut NoRoom), page, "three holes");
    // There is room behind that row, but what a sweep leaves is filled first.
    let current = page_of(&heap, 10_000);
    let mut next = 10_001;
    while put(&heap, next, &mut NoRoom) == current {
        next += 1;
    }
    sweep(&heap, &pages[0][3..4]);
    let left = (next..next + 1000).take_while(|i| put(&heap, *i + 1, &mut NoRoom) != page);
    let before = left.count();
    assert!(before <= (PAGE - 48) / ROW, "nobody came to four holes");
    for i in 1..4 {
        let filled = put(&heap, 20_000 + i, &mut NoRoom);
        assert_eq!(filled, page, "hole {i} of a page that newcomers go to");
    }
}

/// Lets one row go.
struct Victim(usize);

impl Room for Victim {
    fn make(&mut self, page: &mut dyn RecordPage, _: usize, _: &[u8]) -> Attempt<bool> {
        let Some(i) = page.find(&key(self.0))? else {
            return Ok(false);
        };
        page.erase(i)?;
        Ok(true)
    }
}

#[test]
fn single_holes_are_found_when_a_newcomer_takes_the_place_of_a_victim_beside_them() {
    let (heap, pages) = three_pages();
    let page = page_of(&heap, pages[1][9]);
    sweep(&heap, &pages[1][..3]);
    // All pages are full as far as newcomers know: a victim makes room.
    let came = put(&heap, 10_000, &mut Victim(pages[1][5]));
    assert_eq!(came, page, "where the victim was");
    for i in 1..4 {
        let filled = put(&heap, 10_000 + i, &mut NoRoom);
        assert_eq!(filled, page, "hole {i} beside the victim's place");
    }
    assert_ne!(put(&heap, 10_004, &mut NoRoom), page, "there was no fourth");
}

/// Seed 1859 of the damaged heaps: such a page says that it has room, and has none.
#[test]
fn a_page_that_counts_fewer_rows_than_it_has_is_damage_and_not_tried_for_ever() {
    let heap = heaps(Class::Hot).create(PAGE, 600).unwrap();
    let each = (PAGE - 48) / ROW;
    let page = put(&heap, 0, &mut NoRoom);
    (1..each).for_each(|i| assert_eq!(put(&heap, i, &mut NoRoom), page));
    // What is left is room for a row, but not for its slot; and one slot is said to be free.
    let left = PAGE - 48 - each * ROW;
    let value = vec![6; left - 1 - 8];
    settled(&heap.store, || {
        let door = heap.store.enter()?;
        let mut page = heap.store.exclusive(page, &door)?;
        let rows = page.change(44, 2)?;
        rows.copy_from_slice(&(each as u16 - 1).to_le_bytes());
        Ok(())
    })
    .unwrap();
    let plan = Plan::Put(Value::Inline(&value), Flags::NONE);
    let mut tries = 0;
    let refused = settled(&heap.store, || {
        tries += 1;
        assert!(tries < 100, "it is tried for ever");
        let door = heap.store.enter()?;
        let method = &heap.method;
        method.try_edit(
            &door,
            &key(each),
            &mut |_| Ok(plan),
            &mut NoRoom,
            &mut || Ok(()),
        )
    });
    assert!(refused.is_err(), "a row came to a page that is damaged");
}
