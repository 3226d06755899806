//! Power cuts at every call, in recovery too, and again after it: what was acknowledged is there.

use terrace_sim::{Fault as DiskFault, Injection};

use super::harness::{Failure, Run};
use crate::fault::Fault;

/// A run that loses its power at call `at`, then recovers and works on, with `further` cuts.
pub(crate) fn run_with_cuts(
    seed: u64,
    fault: Fault,
    at: u64,
    further: &[u64],
) -> Result<bool, Failure> {
    let mut run = Run::new(seed, fault);
    run.disk.inject(Injection::any(at, DiskFault::PowerCut));
    let finished = run.create().and_then(|()| run.work(40)).is_ok();
    let mut survivor = seed;
    for (i, &cut) in further.iter().enumerate() {
        survivor = survivor.wrapping_add(1);
        run.cut_power(survivor);
        // The cut comes in the recovery or in the work after it, as it happens.
        run.disk.inject(Injection::any(cut, DiskFault::PowerCut));
        if run
            .recover()
            .map_err(|f| format!("opening {i}: {f}"))?
            .is_ok()
        {
            let _ = run.work(20);
        }
    }
    run.cut_power(survivor.wrapping_add(1));
    let opened = run.recover().map_err(|f| format!("last opening: {f}"))?;
    opened.map_err(|e| format!("last opening: {e}"))?;
    run.work(10)
        .map_err(|e| format!("after the last opening: {e}"))?;
    Ok(finished)
}

/// As many calls as the run of `seed` makes without a fault.
pub(crate) fn calls_of(seed: u64) -> u64 {
    let mut run = Run::new(seed, Fault::None);
    run.create()
        .and_then(|()| run.work(40))
        .expect("a run without faults");
    run.disk.calls()
}

fn hold(seed: u64, at: u64, further: &[u64]) {
    if let Err(failure) = run_with_cuts(seed, Fault::None, at, further) {
        panic!("seed {seed}, power cut at call {at}, then at {further:?}: {failure}");
    }
}

#[test]
fn a_power_cut_at_every_call() {
    for seed in 0..12 {
        for at in 1..=calls_of(seed) + 1 {
            hold(seed, at, &[]);
        }
    }
}

#[test]
fn a_power_cut_at_every_call_of_the_recovery_and_twice() {
    for seed in 0..6 {
        for at in (1..=calls_of(seed)).step_by(7) {
            for second in 1..30 {
                hold(seed, at, &[second, 1 + (second * 7) % 23]);
            }
        }
    }
}

#[test]
fn random_power_cuts_in_random_runs() {
    let mut rng = terrace_sim::Rng::new(99);
    for seed in 1000..2500 {
        let cuts: Vec<u64> = (0..rng.below(4)).map(|_| 1 + rng.below(120)).collect();
        hold(seed, 1 + rng.below(200), &cuts);
    }
}

#[test]
fn the_same_seed_runs_the_same_way_twice() {
    let trace = |seed| {
        let mut run = Run::new(seed, Fault::None);
        run.disk.inject(Injection::any(50, DiskFault::PowerCut));
        let _ = run.create().and_then(|()| run.work(40));
        let first = run.disk.trace();
        run.cut_power(seed);
        run.recover().unwrap().unwrap();
        (first, run.disk.trace(), run.disk.calls())
    };
    for seed in 0..20 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
}

#[test]
fn a_crash_of_the_process_loses_nothing_written_and_a_power_cut_after_it_is_no_damage() {
    for seed in 0..300 {
        let mut run = Run::new(seed, Fault::None);
        run.create().unwrap();
        for round in 0..4 {
            run.work(15).unwrap();
            run.kill();
            run.recover()
                .unwrap_or_else(|f| panic!("seed {seed}, round {round}: {f}"))
                .unwrap();
            if round == 2 {
                run.cut_power(seed);
                run.recover()
                    .unwrap_or_else(|f| panic!("seed {seed}, after the cut: {f}"))
                    .unwrap();
            }
        }
    }
}

#[test]
fn half_of_the_runs_use_segments_again() {
    let reused = |seed| {
        let mut run = Run::new(seed, Fault::None);
        run.create().and_then(|()| run.work(40)).unwrap();
        run.disk.calls_of(terrace_sim::Op::Reuse)
    };
    let of = |seeds: std::ops::Range<u64>| seeds.map(reused).sum::<u64>();
    assert!(of(0..12) > 10, "{}", of(0..12));
    assert!(of(1000..2500) > 1000, "{}", of(1000..2500));
}
