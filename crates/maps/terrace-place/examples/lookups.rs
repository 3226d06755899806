//! Lookups in a tree with one kind of memory, with two of which all is fast and tracked, or with half of
//! the nodes fast: for `valgrind --tool=callgrind`, which counts their instructions.
//!
//! `cargo build --release -p terrace-place --example lookups`, then
//! `valgrind --tool=callgrind target/release/examples/lookups uniform 200000 100000`; the difference to a
//! run with no lookups is what they take.

use terrace_place::{Memory, PlacedTree, Placement};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize| args.get(at).and_then(|n| n.parse::<u64>().ok());
    let (entries, lookups) = (number(2).unwrap_or(200_000), number(3).unwrap_or(100_000));
    let placement = match args.get(1).map(String::as_str) {
        Some("tracked") => Placement::two(Memory::Heap, Memory::Heap).fast_bytes(1 << 40),
        Some("half") => Placement::two(Memory::Heap, Memory::Heap).fast_share(0.5),
        _ => Placement::uniform(),
    };
    let tree = PlacedTree::<u64, u64>::new(placement.manual())?;
    let mut key = 1u64;
    let mut next = move || {
        key = key
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (key >> 33) % entries
    };
    for _ in 0..entries {
        tree.insert(next(), 1)?;
    }
    let mut found = 0;
    for _ in 0..lookups {
        found += u64::from(tree.get(&next()).is_some());
    }
    println!("{found} of {lookups} found among {}", tree.len());
    let stats = tree.placement();
    println!("{} slow bytes", stats.slow_bytes);
    println!("{:.1} bytes an entry", {
        (stats.fast_bytes + stats.slow_bytes + stats.heat_bytes) as f64 / tree.len() as f64
    });
    Ok(())
}
