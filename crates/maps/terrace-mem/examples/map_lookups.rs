//! Lookups in a concurrent compact map, for `valgrind --tool=callgrind`, which counts their instructions:
//! built without the feature `place`, with it over one kind of memory, or over two of which all is fast.
//!
//! `cargo build --release -p terrace-mem --example map_lookups`, with `--features place` for the others, then
//! `valgrind --tool=callgrind target/release/examples/map_lookups uniform 200000 200000` (`tracked` for two
//! kinds); the difference to a run with no lookups is what they take.

use terrace_mem::{ConcurrentHybridMap, Merging, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize| args.get(at).and_then(|n| n.parse::<u64>().ok());
    let (entries, lookups) = (number(2).unwrap_or(200_000), number(3).unwrap_or(100_000));
    let options = Options {
        merging: Merging::Blocking,
        ..Options::default()
    };
    #[cfg(feature = "place")]
    let options = match args.get(1).map(String::as_str) {
        Some("tracked") => {
            use terrace_mem::place::{Memory, Placement};
            let two = Placement::two(Memory::Heap, Memory::Heap);
            options.placement(two.fast_bytes(entries * 64).manual())?
        }
        _ => options,
    };
    let mut map = ConcurrentHybridMap::<u64, u64>::with_options(options)?;
    map.extend((0..entries).map(|i| (i * 1_000_003, i)));
    let mut key = 1u64;
    let mut next = move || {
        key = key
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (key >> 33) % entries
    };
    // All segments have come to fast memory before it is counted.
    #[cfg(feature = "place")]
    for _ in 0..50 {
        (0..entries).step_by(3).for_each(|i| {
            std::hint::black_box(map.get(&(i * 1_000_003)));
        });
        while map.place_step(terrace_mem::place::Steps::nodes(256)) {}
        if map.placement().slow_segments == 0 {
            break;
        }
    }
    let mut found = 0;
    for _ in 0..lookups {
        found += u64::from(map.get(&(next() * 1_000_003)).is_some());
    }
    println!("{found} of {lookups} found among {}", map.len());
    let bytes = map.memory_usage().total() as f64 / map.len() as f64;
    println!("{bytes:.2} bytes an entry");
    #[cfg(feature = "place")]
    println!("{}", map.placement());
    Ok(())
}
