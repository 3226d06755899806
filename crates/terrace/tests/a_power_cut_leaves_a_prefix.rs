//! The power goes at any call of a script, checkpoints and recoveries included. What is found
//! afterwards is a prefix of the commits with every one that was durable, batches whole, and every
//! invariant holds.

mod common;

use common::run::{Progress, run, survive};
use common::script::script;
use common::{factor, seeds, tiny};
use terrace::Database;
use terrace_sim::{Fault, Injection, Op, SimDisk, Survival};

/// Cuts the power at the n-th call of the script and returns the disk and how far it came; `None`
/// if the script ends before.
fn cut_at(seed: u64, n: u64, steps: usize) -> Option<(SimDisk, Progress)> {
    let disk = SimDisk::new(seed);
    disk.inject(Injection::any(n, Fault::PowerCut));
    let progress = run(&disk, &|n| tiny(seed * 1000 + n), &script(seed, steps));
    (!disk.is_powered()).then_some((disk, progress))
}

fn survivals(n: u64) -> [Survival; 2] {
    // The extremes now and then, any subset most of the time.
    let other = match n % 4 {
        0 => Survival::Nothing,
        1 => Survival::All,
        _ => Survival::Some(n ^ 0xFF00),
    };
    [Survival::Some(n), other]
}

#[test]
fn a_power_cut_at_any_call_leaves_a_prefix() {
    for seed in seeds(4) {
        let steps = 300;
        let script = script(seed, steps);
        // A different offset for each seed, so that a few seeds meet every phase of a checkpoint.
        let stride = if factor() > 1 { 1 } else { 5 };
        let mut n = 1 + seed % stride;
        while let Some((disk, progress)) = cut_at(seed, n, steps) {
            for survival in survivals(n) {
                eprintln!("seed {seed}, power cut at call {n}, {survival:?}");
                let found = disk.crash_keeping(survival);
                survive(
                    &found,
                    tiny(seed * 1000 + 900),
                    &script,
                    &progress,
                    progress.synced,
                );
            }
            n += stride;
        }
        assert!(n > 200, "the script of seed {seed} makes only {n} calls");
    }
}

#[test]
fn a_power_cut_during_recovery_changes_nothing() {
    for seed in seeds(2) {
        let steps = 120;
        let script = script(seed + 50, steps);
        let mut n = 30;
        loop {
            let disk = SimDisk::new(seed);
            disk.inject(Injection::any(n, Fault::PowerCut));
            let progress = run(&disk, &|n| tiny(seed * 1000 + n), &script);
            if disk.is_powered() {
                break;
            }
            let found = disk.crash(n);
            let mut m = 1;
            loop {
                let again = found.copy();
                again.inject(Injection::any(m, Fault::PowerCut));
                let opened = Database::open_on(again.shared(), tiny(seed * 1000 + 901 + m));
                let done = opened.is_ok();
                drop(opened);
                eprintln!("seed {seed}, power cuts at call {n} and at call {m} of the recovery");
                let again = again.crash(m);
                survive(
                    &again,
                    tiny(seed * 1000 + 951),
                    &script,
                    &progress,
                    progress.synced,
                );
                if done {
                    break;
                }
                m += 1 + m / 4;
            }
            n += 37 / factor().min(12) + 1;
        }
        assert!(n > 100);
    }
}

#[test]
fn a_crash_of_the_process_loses_nothing_acknowledged() {
    // Not during a sync: that a failed sync loses what was written is another matter.
    for (seed, op, stride) in [
        (1, Op::Write, 7),
        (2, Op::Write, 11),
        (3, Op::Read, 17),
        (4, Op::Allocate, 1),
    ] {
        let script = script(seed + 80, 400);
        let mut n = 2;
        loop {
            let disk = SimDisk::new(seed);
            disk.inject(Injection::at(op, n, Fault::PowerCut));
            let progress = run(&disk, &|n| tiny(seed * 1000 + n), &script);
            if disk.is_powered() {
                break;
            }
            eprintln!("seed {seed}, the process dies at {op:?} {n}");
            let found = disk.crash_keeping(Survival::All);
            let least = progress.acknowledged;
            survive(&found, tiny(seed * 1000 + 900), &script, &progress, least);
            n += stride;
        }
        assert!(n > 5, "the script makes only {n} calls of {op:?}");
    }
}
