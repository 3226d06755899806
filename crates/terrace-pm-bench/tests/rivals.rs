//! Rivals hold what a `BTreeMap` holds, and the counts are what the documents say.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_pm::pm::Heap;
use terrace_pm_bench::rivals::Name;
use terrace_pm_bench::workload::{Plan, Random, Work, run};

#[test]
fn every_rival_holds_what_a_btreemap_holds() {
    for name in Name::ALL {
        for keys in [50, 3000] {
            let heap = Arc::new(Heap::new(128 << 20));
            let mut rival = name.make(heap, 8 << 20).unwrap();
            let mut model = BTreeMap::new();
            let mut random = Random(7 + keys);
            for i in 0..12_000 {
                let key = random.draw() % keys;
                rival.put(key, i).unwrap();
                model.insert(key, i);
                let probe = random.draw() % keys;
                let found = rival.get(probe).unwrap();
                assert_eq!(found, model.get(&probe).copied(), "{name:?}");
                if i.is_multiple_of(500) {
                    let from = random.draw() % keys;
                    let found = rival.range(from, 20).unwrap();
                    let expected: Vec<(u64, u64)> = model
                        .range(from..)
                        .take(20)
                        .map(|(k, v)| (*k, *v))
                        .collect();
                    assert_eq!(found, expected, "{name:?} from {from}");
                }
            }
        }
    }
}

fn plan(bytes_per_key: f64) -> Plan {
    Plan {
        records: 100_000,
        bytes_per_key,
        fences: None,
    }
}

#[test]
fn the_elastic_map_keeps_its_bars() {
    let o = run(&plan(3.5), Name::Elastic, Work::Insert).unwrap();
    println!("{}", o.json());
    assert!(o.pairs_per_leaf_write >= 4.0, "{o:?}");
    assert!(o.dram_bytes_per_key <= 3.5, "{o:?}");
    assert!(
        o.fences() <= 1.25 && o.lines() <= 2.0 && o.units() <= 0.70,
        "{o:?}"
    );
    assert!(o.p9999_fences <= 7 && o.p9999_lines <= 32, "{o:?}");
}

#[test]
fn updates_by_zipf_keep_their_bars() {
    let o = run(&plan(3.5), Name::Elastic, Work::Update).unwrap();
    println!("{}", o.json());
    assert!(
        o.fences() <= 1.08 && o.lines() <= 1.6 && o.units() <= 0.40,
        "{o:?}"
    );
}

#[test]
fn the_papers_mode_keeps_its_bar() {
    let o = run(&plan(8.0), Name::Paper, Work::Insert).unwrap();
    println!("{}", o.json());
    assert!(
        o.pairs_per_leaf_write >= 2.3 && o.dram_bytes_per_key <= 2.7,
        "{o:?}"
    );
}
