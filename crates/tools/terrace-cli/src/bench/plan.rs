//! What is to be measured, from the arguments.

use anyhow::{Result, bail};
use std::time::{Duration, SystemTime};
use terrace_bench::device::Device;
use terrace_bench::{Distribution, KeyLayout, Load, Plan, StoreLabels, Warmup, Workload};

use super::paper;
use crate::args::{
    BenchArgs, CacheName, DistributionName, HashesName, KeyLayoutName, LoadOrder, PolicyName,
    SweepName, WorkloadName,
};
use crate::engine::{Policy, SweepOrder};

/// The structure that benchmarks use.
pub(super) const STRUCTURE: &str = "bench";

/// What is to be measured.
pub(super) fn plan(args: &BenchArgs) -> Result<Plan> {
    let workload = match args.workload {
        WorkloadName::A => Workload::A,
        WorkloadName::B => Workload::B,
        WorkloadName::C => Workload::C,
        WorkloadName::D => Workload::D,
        WorkloadName::E => Workload::E,
        WorkloadName::F => Workload::F,
        WorkloadName::Load | WorkloadName::Replay => Workload::Load,
        WorkloadName::Scan => Workload::Scan,
        WorkloadName::Hotspot => Workload::Hotspot,
        WorkloadName::Shift => Workload::Shift,
        WorkloadName::Transfer => Workload::Transfer,
        WorkloadName::Multiget => Workload::MultiGet,
    };
    let mut plan = Plan::new(workload, args.records, args.open.memory.0);
    if workload != Workload::Hotspot {
        plan.distribution = match args.distribution {
            DistributionName::Zipf => Distribution::Zipf { theta: args.zipf },
            DistributionName::Ycsb => Distribution::Ycsb { theta: args.zipf },
            DistributionName::Uniform => Distribution::Uniform,
        };
    }
    plan.value_bytes = args.value_bytes;
    plan.value_random = args.value_random;
    plan.layout = match args.keys {
        KeyLayoutName::Spaced => KeyLayout::Spaced,
        KeyLayoutName::Hashed => KeyLayout::Hashed,
    };
    plan.threads = args.threads;
    plan.together = args.together;
    plan.duration = seconds("--seconds", args.seconds)?;
    plan.moves = args.moves;
    plan.warmup = match args.warmup {
        Some(time) => Warmup::Fixed(seconds("--warmup", time)?),
        None => Warmup::Steady {
            at_most: seconds("--longest-warmup", args.longest_warmup)?,
        },
    };
    plan.load = match (args.skip_load, args.load_order) {
        (true, _) => Load::Skip,
        (false, LoadOrder::Random) => Load::Random,
        (false, LoadOrder::Sorted) => Load::Sorted,
        (false, LoadOrder::Together) => Load::Together,
    };
    plan.settle = !args.unclean;
    plan.checked_updates = args.checked_updates;
    plan.audit = args.audit;
    plan.seed = args.seed;
    plan.draws = args.draws.unwrap_or_else(|| {
        if args.skip_load {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            // Below 2^53, so that every reader of the JSON object reads the same number.
            now.map_or(0, |now| now.as_millis() as u64)
        } else {
            0
        }
    });
    plan.store = StoreLabels {
        structure: args.structure.name().into(),
        tiers: tiers(args),
        policy: policy_label(args),
        compression: args.compress.map(crate::args::compression_name),
        durability: args.log.name().into(),
        device: device(args)?,
    };
    Ok(plan)
}

/// The device that the disk is to be as fast as.
pub(super) fn device(args: &BenchArgs) -> Result<Option<Device>> {
    let Some(rate) = args.device_iops else {
        return Ok(None);
    };
    let latency = Duration::from_micros(args.device_latency);
    match Device::new(rate, latency) {
        Ok(device) => Ok(Some(device)),
        Err(problem) => bail!("--device-iops, --device-latency: {problem}"),
    }
}

/// Behind a record cache is the plain structure.
pub(super) fn tiers(args: &BenchArgs) -> u8 {
    if args.record_cache.is_some() {
        1
    } else {
        args.tiers
    }
}

/// The policy of this name.
pub(super) fn policy(name: PolicyName) -> Policy {
    match name {
        PolicyName::Default => Policy::Default,
        PolicyName::Paper => Policy::Paper,
    }
}

/// The order of the sweep of this name.
pub(super) fn sweep(name: SweepName) -> SweepOrder {
    match name {
        SweepName::Index => SweepOrder::Index,
        SweepName::Heap => SweepOrder::Heap,
    }
}

/// What decides on the place of a record, in a report.
pub(super) fn policy_label(args: &BenchArgs) -> String {
    if let Some(label) = paper::label(args) {
        label
    } else if let Some(name) = args.record_cache {
        match name {
            CacheName::Lru => "record cache".into(),
            CacheName::Treeline => "record cache as in TreeLine".into(),
        }
    } else if args.sweep == SweepName::Heap {
        format!("{}, a heap above, swept in heap order", args.policy.name())
    } else if args.exclusive {
        format!("{}, exclusive tiers", args.policy.name())
    } else if args.hot_heap {
        format!("{}, a heap above", args.policy.name())
    } else if args.hashes == HashesName::Own {
        format!("{}, a hash function for each tier", args.policy.name())
    } else {
        args.policy.name().into()
    }
}

fn seconds(name: &str, value: f64) -> Result<Duration> {
    // A year is longer than any user waits; it also keeps arithmetic on moments safe.
    if !(0.0..=31_536_000.0).contains(&value) {
        bail!("{name} takes a number of seconds from 0 to a year, not {value}");
    }
    Ok(Duration::from_secs_f64(value))
}
