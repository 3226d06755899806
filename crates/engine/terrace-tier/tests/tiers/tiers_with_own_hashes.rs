//! A hash table whose tiers have hash functions of their own, for comparison: point operations and
//! verification are those of any other, and there is no order to go through it by.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use terrace_access::{Rooted, Window};
use terrace_base::{Error, StructureId};
use terrace_methods::Apart;
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierContext, TierOptions, Tiered};

type Table = Tiered<HashTable, Apart>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 6000;

fn agree(table: &Table, context: &TierContext, model: &Model) {
    let mut value = Vec::new();
    for i in 0..KEYS {
        let key = format!("{i:06}").into_bytes();
        let found = table.get(&key, &mut value).unwrap();
        assert_eq!(found.then_some(&value), model.get(&key), "{i}");
    }
    let (mut records, mut pages) = (Model::new(), 0);
    let verified = table.verify(
        &mut |key, _, value| {
            if let terrace_access::Value::Inline(value) = value {
                let twice = records.insert(key.to_vec(), value.to_vec());
                assert_eq!(twice, None, "{key:?} was told twice");
            }
            Ok(())
        },
        &mut |_| {
            pages += 1;
            Ok(())
        },
    );
    verified.unwrap();
    assert_eq!(&records, model);
    assert_eq!(context.store.live_pages(), pages);
}

fn change(table: &Table, random: &mut Rng, model: &mut Model) {
    let key = format!("{:06}", random.below(KEYS)).into_bytes();
    if random.below(5) == 0 {
        table.write(&key, Change::Delete, None, &mut || ()).unwrap();
        model.remove(&key);
    } else {
        let value = vec![random.below(256) as u8; random.below(300) as usize];
        table
            .write(&key, Change::Put(&value), None, &mut || ())
            .unwrap();
        model.insert(key, value);
    }
}

#[test]
fn they_agree_with_a_map_and_have_no_order() {
    for inclusive in [true, false] {
        let disk = SimDisk::new(3);
        let context = new_context(&disk, 1 << 20, 4096);
        let options = TierOptions {
            inclusive,
            ..TierOptions::default()
        };
        let (mut random, mut model) = (Rng(7), Model::new());
        let roots = {
            let table: Arc<Table> = through(&context.store, |door| {
                Tiered::create(&context, StructureId(1), door, options.clone())
            });
            for round in 0..4 {
                for _ in 0..5000 {
                    change(&table, &mut random, &mut model);
                }
                for _ in 0..100 * round {
                    table.sweep_once().unwrap();
                }
                agree(&table, &context, &model);
            }
            assert!(table.stats().cleaned > 1000, "{:?}", table.stats());
            let (above, below) = (table.hot().unwrap().try_order(), table.cold().try_order());
            assert!(above.unwrap() == below.unwrap());
            let scanned = table.scan_up(b"", &mut Window::new());
            assert!(matches!(scanned, Err(Error::Invalid { .. })));
            let scanned = table.scan_down(None, &mut Window::new());
            assert!(matches!(scanned, Err(Error::Invalid { .. })));
            table.roots()
        };
        checkpoint(&context.store);
        drop(context);
        let context = reopened(&disk, 1 << 20);
        let table: Arc<Table> = Tiered::open(&context, StructureId(1), roots, options);
        agree(&table, &context, &model);
        while table.clear_step().unwrap() {}
        assert_eq!(context.store.live_pages(), 0);
    }
}
