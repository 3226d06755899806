//! Point reads of a tree, a hash table and a table with everything in memory, by one thread: what a
//! lookup costs without anything around it.
//!
//! `point_reads DIRECTORY RECORDS READS [tree|hash|table]`: one kind, for counting instructions, or all of
//! them by turns. Records are 8 bytes of key and 120 of value, in random order.

use std::time::Instant;

use terrace::{Database, HashOptions, Map, Options, TableOptions, Tiers, TreeOptions};

const KINDS: [&str; 3] = ["tree", "hash", "table"];
const ROUNDS: u32 = 5;

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn made(db: &Database, kind: &str) -> terrace::Result<Map> {
    let tiers = Tiers::One;
    Ok(match kind {
        "hash" => (*db.hash_with(kind, HashOptions::new().tiers(tiers).logged(false))?).clone(),
        "table" => (*db.table_with(kind, TableOptions::new().tiers(tiers).logged(false))?).clone(),
        _ => (*db.tree_with(kind, TreeOptions::new().tiers(tiers).logged(false))?).clone(),
    })
}

fn main() -> terrace::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).and_then(|n| n.parse::<u64>().ok());
    let (Some(directory), Some(records), Some(reads)) = (args.first(), number(1), number(2)) else {
        eprintln!("point_reads DIRECTORY RECORDS READS [tree|hash|table]");
        std::process::exit(2);
    };
    let memory = records * 500 + (64 << 20);
    let db = Database::open(directory, Options::new().memory(memory))?;
    let wanted = |kind: &&&str| args.get(3).is_none_or(|only| only == **kind);
    let kinds: Vec<(&str, Map)> = KINDS
        .iter()
        .filter(wanted)
        .map(|kind| Ok((*kind, made(&db, kind)?)))
        .collect::<terrace::Result<_>>()?;
    for (_, map) in &kinds {
        for i in 0..records {
            map.put(key(i), [i as u8; 120])?;
        }
    }
    let (mut value, mut found) = (Vec::new(), 0);
    for _ in 0..ROUNDS {
        for (kind, map) in &kinds {
            let (begun, mut random) = (Instant::now(), 1u64);
            for _ in 0..reads {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let i = ((u128::from(random) * u128::from(records)) >> 64) as u64;
                found += u64::from(map.get_into(key(i), &mut value)?);
            }
            let spent = begun.elapsed().as_secs_f64();
            print!("{kind} {:.0} ns  ", spent * 1e9 / reads as f64);
        }
        println!();
    }
    assert_eq!(found, reads * u64::from(ROUNDS) * kinds.len() as u64);
    Ok(())
}
