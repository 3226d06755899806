//! The tree is a map, whatever policy moves its nodes: against `BTreeMap`, with steps between.
#![cfg(not(feature = "shuttle"))]

#[path = "../support/drive.rs"]
mod drive;
#[path = "../support/hostile.rs"]
mod hostile;
#[path = "../support/toy.rs"]
mod toy;

mod art;
mod key_bytes;
mod learns;
mod manners;
mod masstree;
mod owned;
mod panics;
#[cfg(feature = "planted-faults")]
mod planted;
mod refused;
mod reports;
mod sizes;
mod small;

use drive::{Mix, drive};
use hostile::{Hostile, Want};
use terrace_place::{Births, Fixed, HeatPolicy, Memory, Placement, SinlkPolicy, Techniques, Tier};

fn seeds() -> std::ops::Range<u64> {
    let factor = std::env::var("TERRACE_TEST_FACTOR").ok();
    0..factor.and_then(|f| f.parse().ok()).unwrap_or(1)
}

fn two() -> Placement {
    Placement::two(Memory::Heap, Memory::Heap)
        .slots(1 << 12)
        .manual()
}

#[test]
fn one_kind_of_memory_answers_as_a_map_and_has_nothing_to_place() {
    for seed in seeds() {
        let tree = drive(Placement::uniform(), Mix::EVEN, 8000, seed);
        let stats = tree.placement();
        assert_eq!(
            (stats.heat_bytes, stats.slow_bytes, stats.samples),
            (0, 0, [0; 2])
        );
        assert_eq!(tree.nodes().map(|[_, slow]| slow), [0, 0]);
    }
}

#[test]
fn the_default_policy_changes_no_answer() {
    for seed in seeds() {
        for share in [0.0, 0.1, 0.5, 1.0] {
            let placement = two().policy(HeatPolicy::default()).fast_share(share);
            drive(placement, Mix::EVEN, 5000, seed);
        }
        drive(two().fast_bytes(200 << 10), Mix::GROW, 8000, seed);
    }
}

#[test]
fn the_policy_of_the_paper_changes_no_answer_whichever_techniques_it_has() {
    for seed in seeds() {
        for without in 0..6 {
            let techniques = Techniques {
                layering: without != 1,
                leaf_tracking: without != 2,
                migration: without != 3,
                histogram: without != 4,
                watermark: without != 5,
            };
            let policy = SinlkPolicy::new(techniques);
            drive(two().policy(policy).fast_share(0.2), Mix::EVEN, 3000, seed);
        }
    }
}

#[test]
fn hostile_policies_change_no_answer_and_break_no_rule() {
    let wants = [
        Want::AllUp,
        Want::AllDown,
        Want::FlipFlop,
        Want::Random(0x1234_5678),
    ];
    let births = [
        Births::Origin,
        Births::Layers(1),
        Births::InnerFirst,
        Births::Weighted(0.3),
        Births::Always(Tier::Fast),
        Births::Always(Tier::Slow),
    ];
    for seed in seeds() {
        for (i, want) in wants.into_iter().enumerate() {
            for (j, births) in births.iter().enumerate() {
                let policy = Hostile {
                    want,
                    swap: (i + j) % 2 == 0,
                    births: births.clone(),
                };
                let mix = [Mix::EVEN, Mix::GROW, Mix::SHRINK][(i + j) % 3];
                drive(two().policy(policy).fast_share(0.4), mix, 1500, seed);
            }
        }
    }
}

#[test]
fn placements_at_birth_alone_change_no_answer() {
    for births in [
        Births::InnerFirst,
        Births::Weighted(0.25),
        Births::Layers(2),
    ] {
        drive(
            two().policy(Fixed(births)).fast_share(0.2),
            Mix::GROW,
            4000,
            1,
        );
    }
}

#[test]
fn slow_memory_of_a_memfd_and_of_a_file_holds_a_map() {
    let path = std::env::temp_dir().join(format!("terrace-place-tree-{}", std::process::id()));
    for slow in [Memory::Memfd { huge: false }, Memory::File(path)] {
        let placement = Placement::two(Memory::Heap, slow).fast_share(0.3).manual();
        drive(placement, Mix::GROW, 4000, 2);
    }
}
