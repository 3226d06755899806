//! Power cuts at every disk call, faults, and full disks: what is opened afterwards is the truth at
//! the last durable cut, and the accounts add up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::common::{State, TINY, World};
use terrace_base::Result;
use terrace_sim::{Fault, Injection, Op, Rng, SimDisk, Survival};

/// Says which seed failed before the panic goes on.
fn with_seed(what: &str, seed: u64, f: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
        eprintln!("{what}: failing seed {seed}");
        std::panic::resume_unwind(panic);
    }
}

/// How many random runs: more with TERRACE_SEEDS=1000.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let from = std::env::var("TERRACE_FIRST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0);
    let count = std::env::var("TERRACE_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok());
    from..from + count.unwrap_or(default)
}

/// A script with everything in it: checkpoints with work in them, cleaning, freeing, reuse, a map
/// file that is folded.
fn script(world: &Arc<World>) -> Result<()> {
    for round in 0..10 {
        for _ in 0..50 {
            world.operate(false)?;
        }
        world.store.settle(terrace_pages::Retry::NoFrame)?;
        world.checkpoint(round * 4)?;
    }
    for _ in 0..20 {
        world.operate(false)?;
    }
    Ok(())
}

fn run_script(disk: &SimDisk, seed: u64, state: &mut Option<State>) -> Result<()> {
    // What was begun is known even if making the store failed.
    *state = Some(State::new(seed));
    let world = World::start(disk.shared(), TINY, State::new(seed))?;
    let result = script(&world);
    *state = Some(world.end());
    result
}

/// Opens what a crash left, and goes on working on it for a while.
fn reopen(disk: &SimDisk, state: State) {
    let world = World::start(disk.shared(), TINY, state).expect("opening after a crash");
    for _ in 0..10 {
        world.operate(false).unwrap();
    }
    world.checkpoint(5).unwrap();
    world.store.check_accounts().unwrap();
    world.verify().unwrap();
}

#[test]
fn power_cut_at_every_call_of_a_script() {
    let whole = SimDisk::new(1);
    run_script(&whole, 1, &mut None).unwrap();
    let calls = whole.calls();
    assert!(calls > 100, "the script does too little: {calls} calls");
    for nth in 1..=calls {
        with_seed("power cut at call", nth, || {
            let disk = SimDisk::new(1);
            disk.inject(Injection::any(nth, Fault::PowerCut));
            let mut state = None;
            let result = run_script(&disk, 1, &mut state);
            // Calls whose failure does no harm (deleting, cutting the file) are not reported.
            assert!(result.is_err() || !disk.is_powered());
            let state = state.unwrap();
            for survival in [Survival::All, Survival::Nothing, Survival::Some(nth)] {
                reopen(&disk.crash_keeping(survival), state.fork());
            }
        });
    }
}

#[test]
fn power_cut_at_every_call_of_opening() {
    let disk = SimDisk::new(2);
    let mut state = None;
    run_script(&disk, 2, &mut state).unwrap();
    let state = state.unwrap();
    let left = disk.crash(3);
    let mut nth = 1;
    loop {
        let again = left.crash_keeping(Survival::All);
        again.inject(Injection::any(nth, Fault::PowerCut));
        let opened = World::start(again.shared(), TINY, state.fork());
        let cut = !again.is_powered();
        reopen(&again.crash(nth), state.fork());
        if !cut {
            opened.unwrap();
            break;
        }
        nth += 1;
    }
    assert!(nth > 10, "opening makes too few calls");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let disk = SimDisk::new(seed);
        run_script(&disk, seed, &mut None).unwrap();
        disk.trace()
    };
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
}

/// A random run over several lives of one store, with any fault at any call.
fn random_run(seed: u64) {
    let mut rng = Rng::new(seed ^ 0xDEAD);
    let mut disk = SimDisk::new(seed);
    let mut state = State::new(seed);
    for life in 0..4 {
        let kind = rng.below(6);
        match kind {
            0 | 1 => disk.inject(Injection::any(1 + rng.below(250), Fault::PowerCut)),
            2 => disk.inject(Injection::any(1 + rng.below(250), Fault::Eio)),
            3 => {
                let op = [Op::Write, Op::Allocate, Op::Sync, Op::Create][rng.below(4) as usize];
                disk.inject(Injection::at(op, 1 + rng.below(30), Fault::NoSpace));
            }
            4 => disk.set_capacity(Some(disk.used_bytes() + rng.below(1 << 20))),
            _ => {}
        }
        let kept = state.fork();
        match World::start(disk.shared(), TINY, state) {
            Err(_) if kind < 4 => state = kept,
            Err(e) if kind == 4 && e.is_disk_full() => state = kept,
            Err(e) => panic!("opening in life {life}: {e}"),
            Ok(world) => {
                let mut result = Ok(());
                for _ in 0..rng.below(400) {
                    result = world.step();
                    if result.is_err() {
                        break;
                    }
                }
                if let Err(e) = &result {
                    assert!(kind < 4, "an error without a fault in life {life}: {e}");
                } else if disk.is_powered() {
                    world.store.check_accounts().unwrap();
                    if world.store.check_poison().is_ok() {
                        disk.heal();
                        world.verify().unwrap();
                    }
                }
                state = world.end();
            }
        }
        disk = match rng.below(4) {
            0 => disk.crash_keeping(Survival::All),
            1 => disk.crash_keeping(Survival::Nothing),
            _ => disk.crash(rng.next_u64()),
        };
        disk.set_capacity(None);
    }
    reopen(&disk, state);
}

#[test]
fn random_runs_with_faults() {
    for seed in seeds(60) {
        with_seed("random run", seed, || random_run(seed));
    }
}
