//! Finding a key in nodes with many records, however their heads are spread.

use std::collections::BTreeSet;

use terrace_access::AccessMethod;
use terrace_access::conformance::{Fixture, Random, settled};
use terrace_access::{Edge, Flags, NoRoom, Ordered, Plan, Touch, Value, Window};
use terrace_pages::Class;

use super::fixture::trees;

/// Records in one leaf: far more than are searched without a guess.
const RECORDS: usize = 900;

/// Keys of four bytes, of which `spread` says what the random number becomes.
fn keys(spread: &dyn Fn(u32) -> u32) -> BTreeSet<Vec<u8>> {
    let mut random = Random::new(5);
    let mut keys = BTreeSet::new();
    while keys.len() < RECORDS {
        let number = u32::from_le_bytes(random.bytes(4).try_into().unwrap());
        keys.insert(spread(number).to_be_bytes().to_vec());
    }
    keys
}

fn found(name: &str, spread: &dyn Fn(u32) -> u32) {
    let keys = keys(spread);
    let subject = trees(Class::Cold).create(16384, 400).unwrap();
    let (store, tree) = (&subject.store, &subject.method);
    for key in &keys {
        settled(store, || {
            let door = store.enter()?;
            let plan = Plan::Put(Value::Inline(key), Flags::NONE);
            tree.try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
        })
        .unwrap();
    }
    let mut value = Vec::new();
    let mut get = |key: &[u8]| {
        let found = settled(store, || tree.try_get(key, Touch::No, &mut value)).unwrap();
        found.map(|_| value.clone())
    };
    let mut window = Window::new();
    for key in &keys {
        assert_eq!(get(key).as_ref(), Some(key), "{name}: {key:?}");
        let number = u32::from_be_bytes(key.as_slice().try_into().unwrap());
        for other in [number.wrapping_add(1), number.wrapping_sub(1)] {
            let other = other.to_be_bytes().to_vec();
            let there = keys.get(&other);
            assert_eq!(get(&other).as_ref(), there, "{name}: beside {key:?}");
            // Where it would be, too.
            let range =
                |window: &mut Window| tree.try_window_within(&other, None, &mut |_| true, window);
            settled(store, || range(&mut window)).unwrap();
            let next = keys.range(other.clone()..).next();
            let covered = next.filter(|next| window.high.as_ref().is_none_or(|high| *next < high));
            let first = (!window.is_empty()).then(|| window.key(0).to_vec());
            assert_eq!(first.as_ref(), covered, "{name}: from {other:?}");
        }
    }
    settled(store, || tree.try_window(Edge::From(b""), &mut window)).unwrap();
    assert!(
        window.len() > 400,
        "{name}: only {} in a leaf",
        window.len()
    );
}

#[test]
fn keys_are_found_however_their_heads_are_spread() {
    found("evenly", &|n| n);
    found("most are low", &|n| n >> (n % 24));
    found("most are high", &|n| !(n >> (n % 24)));
    found("at both ends", &|n| {
        if n % 2 == 0 { n >> 22 } else { !(n >> 22) }
    });
    found("one far away", &|n| {
        if n % 1000 == 0 { !n } else { n % 4096 }
    });
    found("one after the other", &|n| n % 1024);
    found("equal heads", &|n| 0x8000_0000 | (n % 0x2000));
}
