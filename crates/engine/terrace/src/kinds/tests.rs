//! A fifth kind of structure is an access method and a row.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use terrace_base::{PageId, StructureId};
use terrace_methods::BTree;
use terrace_pages::{CheckpointMeta, Pace, PageStore, StoreOptions};
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierContext, TierOptions};

use super::card::Card;
use super::*;

/// The row; it stands for no number of its own, because only the product's kinds have one.
static CARD: Row = Row {
    kind: Kind::Tree,
    byte: 255,
    word: "card",
    name: "card",
    view: View::Tree,
    may_be_apart: false,
    may_have_hot_heap: false,
    may_be_compressed: false,
    inclusive_only: None,
    methods: |_| &Pair::<BTree, Card>(PhantomData),
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn cut() -> CheckpointMeta {
    CheckpointMeta {
        log_position: [0; 24],
        learnt: [0; 40],
        next_structure: 1,
        next_sequence: 1,
        unlogged_from: 1,
        catalog_root: PageId::NONE,
        clean: true,
    }
}

fn options() -> StoreOptions {
    StoreOptions {
        page_bytes: 4096,
        ..StoreOptions::new(4 << 20)
    }
}

fn context(store: PageStore) -> Arc<TierContext> {
    TierContext::new(Arc::new(store), 1 << 14)
}

fn agrees(structure: &dyn Structure, model: &Model) {
    let mut value = Vec::new();
    for (key, should) in model {
        assert!(structure.get(key, &mut value).unwrap(), "{key:?}");
        assert_eq!(&value, should);
    }
    assert!(!structure.get(b"none", &mut value).unwrap());
    let (mut from, mut found) = (Vec::new(), Vec::new());
    let mut window = terrace_access::Window::new();
    loop {
        structure.scan_up(&from, &mut window).unwrap();
        found.extend((0..window.len()).map(|i| window.key(i).to_vec()));
        match window.high.take() {
            Some(high) => from = high,
            None => break,
        }
    }
    assert!(found.iter().eq(model.keys()));
}

#[test]
fn a_fifth_kind_is_a_method_and_a_row() {
    for two in [false, true] {
        let two = || two.then(TierOptions::default);
        let methods = (CARD.methods)(Variant::default());
        let disk = SimDisk::new(11);
        let store = PageStore::create(disk.shared(), options(), 1, &cut()).unwrap();
        let tiers = context(store);
        let empty = tiers.store.live_pages();
        let door = tiers.store.enter().unwrap();
        let card = methods.create(&tiers, StructureId(1), two(), &door);
        drop(door);
        let card = card.unwrap_or_else(|_| panic!("there are frames enough"));
        let mut model = Model::new();
        for round in 0..200u32 {
            let key = format!("{}", round * 7 % 40).into_bytes();
            let value =
                vec![round as u8; (round % 31) as usize * if round % 20 == 0 { 9 } else { 1 }];
            let change = match round % 5 {
                0 => Change::Delete,
                _ => Change::Put(&value),
            };
            card.write(&key, change, None, &mut || ()).unwrap();
            match change {
                Change::Delete => drop(model.remove(&key)),
                Change::Put(_) => drop(model.insert(key, value)),
            }
            if round % 50 == 0 {
                tiers.tend().unwrap();
            }
        }
        agrees(&*card, &model);
        let mut records = 0;
        let mut each = |_: &[u8], _, _: terrace_access::Value<'_>| {
            records += 1;
            Ok(())
        };
        card.verify(&mut each, &mut |_| Ok(())).unwrap();
        assert_eq!(records, model.len());
        // Again, as after an opening.
        tiers.store.checkpoint(Pace::Fast, &mut cut).unwrap();
        let roots = card.roots();
        drop((card, tiers));
        let tiers = context(PageStore::open(disk.shared(), options()).unwrap());
        let card = methods.open(&tiers, StructureId(1), two(), roots);
        agrees(&*card, &model);
        // Dropped.
        let roots = card.roots();
        card.retire();
        drop(card);
        while methods.clear_step(&tiers.store, roots).unwrap() {}
        let pages = methods.pages_when_empty(&tiers.store, roots);
        let pages = pages.unwrap_or_else(|_| panic!("they were read just now"));
        let door = tiers.store.enter().unwrap();
        for page in pages {
            let page = tiers.store.exclusive(page, &door);
            page.unwrap_or_else(|_| panic!("nobody has it")).free();
        }
        drop(door);
        assert_eq!(tiers.store.live_pages(), empty);
    }
}

#[test]
fn no_two_kinds_have_the_same_number_or_word() {
    for (i, row) in KINDS.iter().enumerate() {
        assert_eq!(row.kind as usize, i);
        assert_eq!(kind_of_byte(row.byte), Some(row.kind));
        let others = KINDS[..i].iter();
        assert!(
            others
                .clone()
                .all(|other| other.word != row.word && other.name != row.name)
        );
        // What a program saves of a kind is the word.
        assert_eq!(serde_json::to_value(row.kind).unwrap(), row.word);
    }
    assert_eq!(kind_of_byte(CARD.byte), None);
}
