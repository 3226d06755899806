//! Any one call of the disk fails, or all from then on. An error that does not say that writing has
//! stopped means that nothing was changed; what was acknowledged is there after the next opening,
//! which no earlier failure keeps from working.

use crate::common::run::{Progress, run, survive};
use crate::common::script::{Step, script, short};
use crate::common::{factor, stride, tiny};
use terrace::Database;
use terrace_sim::{Fault, Injection, Op, SimDisk};

const STEPS: usize = 250;

fn fail_at(seed: u64, injection: Injection, script: &[Step]) -> (SimDisk, Progress, bool) {
    let disk = SimDisk::new(seed);
    let before = disk.calls();
    let nth = injection.nth;
    disk.inject(injection);
    let progress = run(&disk, &|n| tiny(seed * 1000 + n), script);
    let struck = disk.calls() - before >= nth;
    disk.heal();
    (disk, progress, struck)
}

fn check(seed: u64, disk: &SimDisk, progress: &Progress, script: &[Step], what: &str) {
    eprintln!("seed {seed}, {what}: {:?}", progress.error);
    // A failed sync may have lost what was written, so only what was synced counts then.
    let sync_failed = matches!(&progress.error, Some(e) if e.to_string().contains("syncing"));
    let least = if sync_failed {
        progress.synced
    } else {
        progress.acknowledged
    };
    survive(disk, tiny(seed * 1000 + 900), script, progress, least);
}

/// Lets calls of a script fail that lie so far apart, others for each seed, one in each run; returns how many it makes.
fn fail_each(seed: u64, fault: Fault, script: &[Step], stride: u64) -> u64 {
    let mut n = 1 + seed % stride;
    loop {
        let (disk, progress, struck) = fail_at(seed, Injection::any(n, fault), script);
        if !struck {
            return n;
        }
        let what = format!("{fault:?} at call {n}");
        check(seed, &disk, &progress, script, &what);
        n += stride;
    }
}

#[test]
fn a_failing_call_loses_nothing() {
    for seed in 1..=factor() {
        for (seed, fault) in [(2 * seed - 1, Fault::Eio), (2 * seed, Fault::NoSpace)] {
            assert!(fail_each(seed, fault, &script(seed + 20, STEPS), stride(5)) > 200);
        }
    }
}

#[test]
fn any_call_of_a_script_that_does_everything_may_fail() {
    for (seed, fault) in [(1, Fault::Eio), (2, Fault::NoSpace)] {
        assert!(fail_each(seed, fault, &short(seed), stride(3)) > 200);
    }
}

#[test]
fn a_disk_that_fails_from_then_on_loses_nothing() {
    for (seed, op, fault) in [
        (1, None, Fault::Eio),
        (2, Some(Op::Write), Fault::Eio),
        (3, Some(Op::Allocate), Fault::NoSpace),
        (4, Some(Op::Read), Fault::Eio),
        (5, Some(Op::Sync), Fault::Eio),
    ] {
        let mut n = 3;
        loop {
            let injection = Injection {
                op,
                file: None,
                nth: n,
                fault,
                forever: true,
            };
            let disk = SimDisk::new(seed);
            disk.inject(injection);
            let script = script(seed + 20, STEPS);
            let progress = run(&disk, &|n| tiny(seed * 1000 + n), &script);
            disk.heal();
            if progress.error.is_none() {
                break;
            }
            check(
                seed,
                &disk,
                &progress,
                &script,
                &format!("{fault:?} from {op:?} {n} on"),
            );
            n += 1 + n / 3;
        }
        assert!(n > 3, "{op:?} never failed");
    }
}

#[test]
fn an_opening_that_fails_can_be_tried_again() {
    for (seed, fault) in [(1, Fault::Eio), (2, Fault::NoSpace)] {
        let script = script(seed + 20, STEPS);
        let disk = SimDisk::new(seed);
        disk.inject(Injection::at(Op::Write, 150, Fault::PowerCut));
        let progress = run(&disk, &|n| tiny(seed * 1000 + n), &script);
        assert!(!disk.is_powered());
        let found = disk.crash(seed);
        let mut n = 1;
        loop {
            let disk = found.copy();
            disk.inject(Injection::any(n, fault));
            let opened = Database::open_on(disk.shared(), tiny(seed * 1000 + 901));
            disk.heal();
            eprintln!("seed {seed}, {fault:?} at call {n} of the opening");
            let failed = opened.is_err();
            drop(opened);
            survive(
                &disk,
                tiny(seed * 1000 + 902),
                &script,
                &progress,
                progress.synced,
            );
            if !failed && n > 60 {
                break;
            }
            n += 1;
        }
    }
}
