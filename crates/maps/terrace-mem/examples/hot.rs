//! Inserts into a map, lookups in it, updates and scans, for `valgrind --tool=callgrind`, which counts their
//! instructions.
//!
//! `cargo build --release -p terrace-mem --features pairs --example hot`, then
//! `valgrind --tool=callgrind --callgrind-out-file=out target/release/examples/hot ints auto 200000 200000`
//! and `callgrind_annotate --inclusive=yes --threshold=100 out | grep 'hot::.*ing'`. Behind the name of a pair
//! `-alone` may stand: its dynamic structure without a compact form.

use std::hint::black_box;
use std::ops::Bound;
use terrace_mem::{HybridMap, IndexKey, Options, Pair, Probe};

fn options(name: &str) -> Option<Options> {
    let (name, alone) = match name.strip_suffix("-alone") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let pair = Pair::ALL
        .iter()
        .copied()
        .find(|pair| format!("{pair:?}").eq_ignore_ascii_case(name))?;
    let usual = match alone {
        true => Options::dynamic_only(),
        false => Options::default(),
    };
    Some(Options { pair, ..usual })
}

/// Numbers in no order, each once.
fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// What some addresses look like, host first.
fn address(i: u64) -> Vec<u8> {
    let x = key(i) ^ key(i) >> 29;
    let of = |at: u32, all: &'static [&str]| all[(x >> at) as usize % all.len()];
    let host = of(
        7,
        &[
            "com.gmail",
            "com.gmail",
            "com.yahoo",
            "com.hotmail",
            "de.web",
            "org.example",
        ],
    );
    let first = of(
        17,
        &[
            "john", "mary", "peter", "susan", "linda", "robert", "maria", "james",
        ],
    );
    let last = of(
        23,
        &[
            "smith", "miller", "garcia", "wilson", "taylor", "johnson", "brown", "lee",
        ],
    );
    format!(
        "{host}@{first}.{last}{:x}",
        i.wrapping_mul(2_654_435_761) & 0xFFF_FFFF
    )
    .into_bytes()
}

#[inline(never)]
fn inserting<K: IndexKey>(map: &mut HybridMap<K, u64>, keys: &[impl Probe<K>]) {
    for (i, key) in keys.iter().enumerate() {
        map.insert_ref(key, i as u64);
    }
}

#[inline(never)]
fn reading<K: IndexKey>(map: &HybridMap<K, u64>, keys: &[&impl Probe<K>]) -> usize {
    keys.iter().filter(|key| map.get(**key).is_some()).count()
}

#[inline(never)]
fn updating<K: IndexKey>(map: &mut HybridMap<K, u64>, keys: &[&impl Probe<K>]) {
    for (i, key) in keys.iter().enumerate() {
        map.insert_ref(*key, i as u64);
    }
}

#[inline(never)]
fn scanning<K: IndexKey, Q: Probe<K>>(map: &HybridMap<K, u64>, keys: &[&Q]) {
    for key in keys {
        let mut cursor = map.cursor::<Q, _>((Bound::Included(*key), Bound::Unbounded));
        for _ in 0..50 {
            black_box(cursor.next());
        }
    }
}

fn run<K: IndexKey + Probe<K>>(
    options: Options,
    n: usize,
    lookups: usize,
    key: impl Fn(u64) -> K,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut map = HybridMap::<K, u64>::with_options(options)?;
    let keys: Vec<K> = (0..n as u64).map(key).collect();
    // Some come much more often than others.
    let asked =
        |i: usize| &keys[(self::key(i as u64 % 1009 * (i as u64 % 997)) as usize) % n.max(1)];
    let asked: Vec<&K> = (0..if n == 0 { 0 } else { lookups }).map(asked).collect();
    inserting(&mut map, &keys);
    let found = reading(&map, &asked);
    scanning(&map, &asked[..asked.len() / 10]);
    updating(&mut map, &asked);
    println!("{found} of {lookups} found among {n}");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, name, entries, lookups] = &args[..] else {
        return Err("usage: hot ints|ordered|strings PAIR ENTRIES LOOKUPS".into());
    };
    let options = options(name).ok_or("no such pair")?;
    let (n, lookups) = (entries.parse()?, lookups.parse()?);
    match kind.as_str() {
        "ints" => run::<u64>(options, n, lookups, key),
        "ordered" => run::<u64>(options, n, lookups, |i| i),
        _ => run::<Vec<u8>>(options, n, lookups, address),
    }
}
