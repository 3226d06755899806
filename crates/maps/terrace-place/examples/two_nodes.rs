//! Checks placement on a machine that has a memory node without processors, one line a check.
//! `scripts/place-qemu` runs it in a virtual machine.

use std::process::ExitCode;
use terrace_place::detect::{Machine, candidates};
use terrace_place::{Memory, PlacedTree, Placement, PlacementError, Steps};

fn main() -> ExitCode {
    let mut failed = 0;
    let mut check = |what: &str, result: Result<String, String>| match result {
        Ok(more) => println!("ok {what} {more}"),
        Err(why) => {
            println!("FAILED {what}: {why}");
            failed += 1;
        }
    };
    let machine = Machine::here();
    let found = candidates(&machine);
    let slow = found.slow.unwrap_or(1);
    check(
        "the slow node is found",
        found
            .slow
            .map(|n| format!("node {n}"))
            .ok_or_else(|| found.notes.join("; ")),
    );
    check("pages lie where they should, 100,000 moves", moves(slow));
    check("a full node is an error and no kill", full(&machine, slow));
    println!("done, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn moves(slow: u32) -> Result<String, String> {
    let say = |error: PlacementError| error.to_string();
    let placement = Placement::two(Memory::Node(0), Memory::Node(slow))
        .fast_share(0.2)
        .manual();
    let tree = PlacedTree::<u64, u64>::new(placement).map_err(say)?;
    const KEYS: u64 = 200_000;
    for i in 0..KEYS {
        tree.insert(i * 7919 % KEYS, i).map_err(say)?;
    }
    // What is hot goes round, so that nodes move all the time.
    let mut operations = 0u64;
    while tree.placement().promoted + tree.placement().demoted < 100_000 {
        for _ in 0..1000 {
            let first = operations / 100_000 * 20_011;
            let key = (first + operations * 7919 % 8_000) % KEYS;
            if tree.get(&key).is_none() {
                return Err(format!("key {key} is lost"));
            }
            operations += 1;
            if operations.is_multiple_of(16) {
                tree.place_step(Steps::nodes(256));
            }
        }
        if operations > 60_000_000 {
            return Err(format!("too few moves: {}", tree.placement()));
        }
    }
    tree.check()?;
    let stats = tree.placement();
    match stats.residence {
        (0, _) => Err("the kernel does not say where pages lie".into()),
        (asked, 0) => Ok(format!("({asked} pages asked, {operations} lookups)")),
        (asked, wrong) => Err(format!("{wrong} of {asked} pages lie elsewhere")),
    }
}

fn full(machine: &Machine, slow: u32) -> Result<String, String> {
    let node = machine.nodes.iter().find(|n| n.number == slow);
    let bytes = node.map_or(0, |n| n.bytes);
    let placement = Placement::two(Memory::Heap, Memory::Node(slow))
        .fast_bytes(1 << 20)
        .manual();
    let tree = PlacedTree::<u64, [u64; 32]>::new(placement).map_err(|e| e.to_string())?;
    for i in 0..bytes / 128 {
        if let Err(error) = tree.insert(i, [i; 32]) {
            let held = tree.placement().slow_bytes >> 20;
            return match error {
                PlacementError::NodeFull { .. } | PlacementError::NoMemory { .. } => {
                    tree.check()?;
                    Ok(format!("({held} MiB held: {error})"))
                }
                other => Err(other.to_string()),
            };
        }
    }
    Err("there was no end".into())
}
