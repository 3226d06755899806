//! Inserts into a map and lookups in it, for `valgrind --tool=callgrind`, which counts their instructions.
//!
//! `cargo build --release -p terrace-mem --features pairs --example hot`, then
//! `valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/hot ints auto 200000 200000`:
//! the difference to a run with 0 lookups is what they take, and that to one with no entries the inserts.

use terrace_mem::{HybridMap, Options, Pair};

fn pair(name: &str) -> Option<Pair> {
    Pair::ALL
        .iter()
        .copied()
        .find(|pair| format!("{pair:?}").eq_ignore_ascii_case(name))
}

/// Numbers in no order, each once.
fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, name, entries, lookups] = &args[..] else {
        return Err("usage: hot ints|strings PAIR ENTRIES LOOKUPS".into());
    };
    let pair = pair(name).ok_or("no such pair")?;
    let (entries, lookups) = (entries.parse::<u64>()?, lookups.parse::<u64>()?);
    let options = Options {
        pair,
        ..Options::default()
    };
    // Most of what is asked for is there.
    let asked = |i: u64| key(i.wrapping_mul(7919) % (entries + entries / 8).max(1));
    let mut found = 0u64;
    if kind == "ints" {
        let mut map = HybridMap::<u64, u64>::with_options(options)?;
        for i in 0..entries {
            map.insert(key(i), i);
        }
        (0..lookups).for_each(|i| found += u64::from(map.get(&asked(i)).is_some()));
    } else {
        let mut map = HybridMap::<Vec<u8>, u64>::with_options(options)?;
        let text = |key: u64| key.to_string().into_bytes();
        for i in 0..entries {
            map.insert_ref(&text(key(i))[..], i);
        }
        (0..lookups).for_each(|i| found += u64::from(map.get(&text(asked(i))[..]).is_some()));
    }
    println!("{found} of {lookups} found among {entries}");
    Ok(())
}
