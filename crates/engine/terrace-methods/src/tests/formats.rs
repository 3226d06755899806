//! What pages of records hold, byte for byte, after the same changes as ever; and what a cut has of them while
//! they go on being changed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_access::conformance::{Fixture, Random, settled};
use terrace_access::{Attempt, Flags, NoRoom, Plan, RecordPage, Room, Value};
use terrace_base::checksum::seeded;
use terrace_pages::{Class, Pace, PageStore};
use terrace_sim::SimDisk;

use super::faults::Planted;
use super::fixture::{Made, Method, heaps, info, options, tables, trees};
use crate::fault::{Fault, plant};

const PAGE: usize = 4096;

/// Lets the first record go that is not to be kept and is as long as what is needed.
struct Victims;

impl Room for Victims {
    fn make(&mut self, page: &mut dyn RecordPage, needed: usize, keep: &[u8]) -> Attempt<bool> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for i in 0..page.count() {
            page.key(i, &mut key)?;
            page.value(i, &mut value)?;
            if key != keep && key.len() + value.len() >= needed.min(40) {
                page.erase(i)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn key(i: usize) -> Vec<u8> {
    format!("{:03}", i * 37 % 1000).into_bytes()
}

fn edit<M: Method>(store: &PageStore, method: &M, key: &[u8], plan: Plan<'_>, room: &mut dyn Room) {
    settled(store, || {
        let door = store.enter()?;
        method.try_edit(&door, key, &mut |_| Ok(plan), room, &mut || Ok(()))
    })
    .unwrap();
}

/// The changes of each phase: every way in which a record comes to a page, or leaves it.
fn phase<M: Method>(store: &PageStore, method: &M, phase: usize) {
    let value = |i: usize, len: usize| vec![(i * 31 + phase) as u8; len];
    let put = |i: usize, len: usize, flags: Flags, room: &mut dyn Room| {
        let value = value(i, len);
        edit(
            store,
            method,
            &key(i),
            Plan::Put(Value::Inline(&value), flags),
            room,
        );
    };
    match phase {
        // Into free space.
        0 => (0..30).for_each(|i| put(i, 20 + i, Flags::NONE, &mut NoRoom)),
        // Over a value of the same length, a longer one, and as a longer one.
        1 => (0..10).for_each(|i| put(i, 20 + i, Flags::DIRTY, &mut NoRoom)),
        2 => (5..15).for_each(|i| put(i, 3 + i, Flags::NONE, &mut NoRoom)),
        3 => (12..20).for_each(|i| put(i, 40 + i, Flags::DIRTY, &mut NoRoom)),
        4 => {
            let flags = Flags::DIRTY.with_use_count(3);
            (20..25).for_each(|i| edit(store, method, &key(i), Plan::Flags(flags), &mut NoRoom));
            (0..30)
                .step_by(4)
                .for_each(|i| edit(store, method, &key(i), Plan::Erase, &mut NoRoom));
        }
        // Until it is full, and then where another was.
        5 => (30..75).for_each(|i| put(i, 25 + i % 7, Flags::NONE, &mut Victims)),
        // With the page laid out anew.
        _ => (40..60).for_each(|i| put(i, 60 + i % 5, Flags::NONE, &mut Victims)),
    }
}

/// A checksum of the pages of records after each phase.
fn sums<M: Method>(made: &Made<M>, tag: u8) -> Vec<u64> {
    let subject = made.create(PAGE, 400).unwrap();
    let sum = |n| {
        phase(&subject.store, &subject.method, n);
        let mut pages = Vec::new();
        let mut page = |page| {
            pages.push(page);
            Ok(())
        };
        subject
            .method
            .verify(&mut |_, _, _| Ok(()), &mut page)
            .unwrap();
        let (mut all, mut of_tag) = (Vec::new(), 0);
        for page in pages {
            let page = subject.store.shared(page);
            let page = page.unwrap_or_else(|_| panic!("all is in memory"));
            let mut bytes = Vec::new();
            page.view().append_to(16, PAGE - 16, &mut bytes).unwrap();
            if bytes[0] == tag {
                of_tag += 1;
                all.extend(bytes);
            }
        }
        assert!(of_tag > 0, "no page of the kind");
        seeded(1, &all)
    };
    (0..7).map(sum).collect()
}

/// If one of these has to be changed, so has the format's version: files of before would be misread.
#[test]
fn pages_of_records_are_byte_for_byte_what_they_ever_were() {
    let leaf = sums(&trees(Class::Hot), 0xB1);
    let bucket = sums(&tables(Class::Hot), 0xB3);
    let rows = sums(&heaps(Class::Hot), 0xB6);
    assert_eq!([&leaf[..], &bucket, &rows], [&LEAF[..], &BUCKET, &ROWS]);
}

const LEAF: [u64; 7] = [
    0x445c6cfb5c835ece,
    0xd5c7e2e75b0ee8d0,
    0xdfc27dd0fbfc0283,
    0x78da9343b9f82068,
    0x5ee6cf5da984b1b3,
    0x441f4ae97e85b9fa,
    0x65ba28af61966cf8,
];
const BUCKET: [u64; 7] = [
    0xdae2657c6fe3bb46,
    0xc81270b85242e0fd,
    0xb48f320871460132,
    0xd4f0d664b261e51e,
    0x21d05f5fd4bcde8d,
    0xcaa70cf50a5a9e35,
    0xe75c747059df7857,
];
const ROWS: [u64; 7] = [
    0x773693329af7f069,
    0xcf32a4e16e2b151a,
    0x12af448dbf948bd5,
    0xdf8eaa4c23486a44,
    0x5daa9f222b3433cc,
    0x2a97679c9d586c89,
    0x013e3eb6499bb640,
];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Changes a record at random; in the model, too.
fn change<M: Method>(store: &PageStore, method: &M, random: &mut Random, model: &mut Model) {
    let key = format!("{:05}", random.below(4000)).into_bytes();
    if random.below(3) == 0 {
        edit(store, method, &key, Plan::Erase, &mut NoRoom);
        model.remove(&key);
    } else {
        let value = vec![random.bits() as u8; random.below(120)];
        let plan = Plan::Put(Value::Inline(&value), Flags::NONE);
        edit(store, method, &key, plan, &mut NoRoom);
        model.insert(key, value);
    }
}

/// A checkpoint writes some pages at a time; in between records are changed in all the ways that there are. What
/// is on disk afterwards is what was there at the cut.
fn keeps_the_cut<M: Method>(made: &Made<M>, seed: u64) -> Result<(), String> {
    let disk = SimDisk::new(seed);
    let store = PageStore::create(disk.shared(), options(PAGE, 4000), 1, &info());
    let store = &Arc::new(store.map_err(|e| e.to_string())?);
    let method = &made.make(store).map_err(|e| e.to_string())?;
    let random = RefCell::new(Random::new(seed));
    let mut model = Model::new();
    for _ in 0..6000 {
        change(store, method, &mut random.borrow_mut(), &mut model);
    }
    for _ in 0..3 {
        let at_cut = model.clone();
        let now = RefCell::new(std::mem::take(&mut model));
        let times = Cell::new(0);
        let known = || {
            times.set(times.get() + 1);
            for _ in 0..300 {
                change(
                    store,
                    method,
                    &mut random.borrow_mut(),
                    &mut now.borrow_mut(),
                );
            }
            // Nothing presses, and no caller waits.
            0.5
        };
        store.checkpoint(Pace::Gentle(&known), &mut info).unwrap();
        assert!(times.get() > 3, "it was one write");
        model = now.into_inner();
        let then = PageStore::open(disk.copy().shared(), options(PAGE, 4000));
        let then = Arc::new(then.map_err(|e| e.to_string())?);
        let then = made.again(&then, method.root());
        let mut found = Model::new();
        let verified = then.verify(
            &mut |key, _, value| {
                if let Value::Inline(value) = value {
                    found.insert(key.to_vec(), value.to_vec());
                }
                Ok(())
            },
            &mut |_| Ok(()),
        );
        verified.map_err(|e| e.to_string())?;
        if found != at_cut {
            return Err("it is not what was there at the cut".into());
        }
    }
    Ok(())
}

#[test]
fn a_cut_has_the_records_of_every_kind_of_page_as_they_were() {
    for seed in 1..4 {
        keeps_the_cut(&trees(Class::Cold), seed).unwrap();
        keeps_the_cut(&tables(Class::Cold), seed).unwrap();
        keeps_the_cut(&heaps(Class::Cold), seed).unwrap();
    }
}

/// What is put over a record that has gone, without keeping its bytes, is found.
#[test]
fn a_cut_that_lacks_what_a_hole_had_is_found() {
    plant(Some(Fault::HoleUnsaved));
    let _planted = Planted;
    let found = [
        keeps_the_cut(&trees(Class::Cold), 1),
        keeps_the_cut(&tables(Class::Cold), 1),
        keeps_the_cut(&heaps(Class::Cold), 1),
    ];
    assert!(found.iter().all(Result::is_err), "{found:?}");
}
