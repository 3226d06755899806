//! The power goes at any call of a script, checkpoints and recoveries included. What is found
//! afterwards is a prefix of the commits with every one that was durable, batches whole, and every
//! invariant holds.

use crate::common::run::{Progress, run, run_watched, survive};
use crate::common::script::{Step, script, short};
use crate::common::{factor, seeds, stride, tiny};
use terrace::paper::{BiLsmOptions, Rates};
use terrace::{Database, Kind, Options, Tiers};
use terrace_sim::{Fault, Injection, Op, SimDisk, Survival};

/// Cuts the power at the n-th call of the script and returns the disk and how far it came; `None`
/// if the script ends before.
fn cut_at(
    seed: u64,
    n: u64,
    script: &[Step],
    options: fn(u64) -> Options,
) -> Option<(SimDisk, Progress)> {
    let disk = SimDisk::new(seed);
    disk.inject(Injection::any(n, Fault::PowerCut));
    let progress = run(&disk, &|n| options(seed * 1000 + n), script);
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

/// Cuts the power at the calls `first`, `first + stride`... of a script; returns how many calls it makes.
fn cut_each(seed: u64, script: &[Step], first: u64, stride: u64) -> u64 {
    cut_each_with(seed, script, (first, stride), tiny)
}

fn cut_each_with(
    seed: u64,
    script: &[Step],
    (first, stride): (u64, u64),
    options: fn(u64) -> Options,
) -> u64 {
    let mut n = first;
    while let Some((disk, progress)) = cut_at(seed, n, script, options) {
        for survival in survivals(n) {
            eprintln!("seed {seed}, power cut at call {n}, {survival:?}");
            let found = disk.crash_keeping(survival);
            let again = options(seed * 1000 + 900);
            survive(&found, again, script, &progress, progress.synced);
        }
        n += stride;
    }
    n
}

#[test]
fn a_power_cut_at_any_call_leaves_a_prefix() {
    for seed in seeds(4) {
        // A different offset for each seed, so that a few seeds meet every phase of a checkpoint.
        let stride = stride(13);
        let calls = cut_each(seed, &script(seed, 300), 1 + seed % stride, stride);
        assert!(calls > 200, "the script of seed {seed} makes {calls} calls");
    }
}

/// Small databases whose LSM-trees have the paper's own policy, which takes in whatever is read and writes
/// clean records down again.
fn papers(seed: u64) -> Options {
    tiny(seed).bilsm(BiLsmOptions {
        rates: Rates::All,
        ..BiLsmOptions::default()
    })
}

#[test]
fn a_power_cut_with_the_papers_policy_leaves_a_prefix() {
    for seed in seeds(2) {
        let mut script = script(seed, 300);
        for step in &mut script {
            if let Step::Create(_, shape) = step {
                *shape = (Kind::Lsm, Tiers::Two, false);
            }
        }
        let stride = stride(17);
        let calls = cut_each_with(seed, &script, (1 + seed % stride, stride), papers);
        assert!(calls > 200, "the script of seed {seed} makes {calls} calls");
    }
}

#[test]
fn a_power_cut_at_any_call_of_a_script_that_does_everything_leaves_a_prefix() {
    for seed in seeds(1) {
        let calls = cut_each(seed, &short(seed), 1, stride(3));
        assert!(calls > 200, "the script of seed {seed} makes {calls} calls");
    }
}

/// The first checkpoint that a script asks for finds no space at its `full`-th call, and the power goes at
/// its `cut`-th call or at one of those after it. Whether the first came to pass, and whether the second.
fn cut_after_full(script: &[Step], full: u64, cut: u64) -> (bool, Option<(SimDisk, Progress)>) {
    let is_checkpoint = |step: &Step| matches!(step, Step::Checkpoint);
    let checkpoint = script.iter().position(is_checkpoint).unwrap();
    let disk = SimDisk::new(1);
    let mut calls = [0; 2];
    let progress = run_watched(&disk, &|n| tiny(1000 + n), script, &mut |i| {
        if i == checkpoint {
            disk.inject(Injection::any(full, Fault::NoSpace));
            disk.inject(Injection::any(cut, Fault::PowerCut));
            calls[0] = disk.calls();
        } else if i == checkpoint + 1 {
            calls[1] = disk.calls();
        }
    });
    let within = calls[1] == 0 || calls[1] - calls[0] >= full;
    (within, (!disk.is_powered()).then_some((disk, progress)))
}

#[test]
fn a_power_cut_while_a_checkpoint_is_given_up_leaves_a_prefix() {
    // Up to the second checkpoint: the one that is given up, what is written after it, and the closing.
    let mut script = short(1);
    let second = |step: &Step| matches!(step, Step::Reopen);
    let end = script.iter().position(second).unwrap() + 3;
    script.truncate(end);
    let mut given_up = 0;
    for full in 1.. {
        let mut cut = full + 1;
        let (within, mut found) = cut_after_full(&script, full, cut);
        if !within {
            break;
        }
        // Where the fault stops all writing there is nothing left to cut.
        while let Some((disk, progress)) = found {
            given_up += u64::from(!progress.refused.is_empty());
            let left = disk.crash(full * 1000 + cut);
            survive(&left, tiny(1900), &script, &progress, progress.synced);
            // All calls of the checkpoint, then fewer.
            cut += 1 + cut.saturating_sub(full + 20) / 4;
            found = cut_after_full(&script, full, cut).1;
        }
    }
    assert!(
        given_up > 20,
        "only {given_up} cuts after a checkpoint was given up"
    );
}

/// Cuts the power at calls of a script from `first` on, each `stride` after the last, and then again at
/// calls of the opening: `next` says which follows which.
fn cut_recovery(seed: u64, script: &[Step], first: u64, stride: u64, next: fn(u64) -> u64) -> u64 {
    let mut n = first;
    while let Some((disk, progress)) = cut_at(seed, n, script, tiny) {
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
            let options = tiny(seed * 1000 + 951);
            survive(&again, options, script, &progress, progress.synced);
            if done {
                break;
            }
            m = next(m);
        }
        n += stride;
    }
    n
}

#[test]
fn a_power_cut_during_recovery_changes_nothing() {
    for seed in seeds(2) {
        let stride = 37 / factor().min(12) + 1;
        let script = script(seed + 50, 120);
        assert!(cut_recovery(seed, &script, 30, stride, |m| m + 1 + m / 4) > 100);
    }
}

#[test]
fn a_power_cut_at_any_call_of_the_recovery_changes_nothing() {
    let next = |m| m + self::stride(4);
    let stride = 61 / factor().min(12);
    assert!(cut_recovery(1, &short(1), 40, stride, next) > 100);
}

#[test]
fn a_crash_of_the_process_loses_nothing_acknowledged() {
    // Not during a sync: that a failed sync loses what was written is another matter.
    for (seed, op, stride) in [
        (1, Op::Write, stride(23)),
        (2, Op::Write, stride(37)),
        (3, Op::Read, stride(53)),
        (4, Op::Allocate, stride(3)),
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
