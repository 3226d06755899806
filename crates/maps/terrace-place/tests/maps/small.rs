//! The engine on all small trees with all heats and all first placements, stopped at every point.

use crate::hostile::{Hostile, Want};
use crate::toy::{BYTES, Toy};
use terrace_place::{
    Births, Engine, HeatPolicy, NodeId, Policy, SinlkPolicy, Stepped, Steps, Techniques, Tier, bin,
};

/// Shapes of up to seven nodes: parents come before their children.
const SHAPES: [&[Option<usize>]; 4] = [
    &[None, Some(0), Some(0)],
    &[None, Some(0), Some(1), Some(1), Some(0)],
    &[None, Some(0), Some(1), Some(2)],
    &[None, Some(0), Some(0), Some(1), Some(1), Some(2)],
];

fn each_heat(nodes: usize, heats: &[u8], mut f: impl FnMut(&[u8])) {
    let mut heat = vec![heats[0]; nodes];
    let mut at = vec![0; nodes];
    loop {
        f(&heat);
        let Some(i) = at.iter().position(|i| i + 1 < heats.len()) else {
            return;
        };
        at[i] += 1;
        heat[i] = heats[at[i]];
        for j in 0..i {
            at[j] = 0;
            heat[j] = heats[0];
        }
    }
}

/// All placements without a fast node below a slow one, of at most `room` fast nodes.
fn placements(parents: &[Option<usize>], room: u64) -> Vec<Vec<bool>> {
    let all = 0..1u32 << parents.len();
    all.map(|bits| (0..parents.len()).map(|i| bits >> i & 1 == 1).collect())
        .filter(|fast: &Vec<bool>| {
            let below = |i: &usize| fast[*i] && parents[*i].is_some_and(|p| !fast[p]);
            let count = fast.iter().filter(|f| **f).count() as u64;
            count <= room && !(0..parents.len()).any(|i| below(&i))
        })
        .collect()
}

/// Runs periods in steps of one node, checking after each; `samples` are noted before.
fn run(toy: &Toy, policy: Box<dyn Policy>, periods: usize) {
    let mut engine = Engine::<Toy>::new(policy);
    for _ in 0..periods {
        let leaf = (0..64).map(|i| NodeId::new(Tier::Slow, 7, i));
        // Notes of a class that has no nodes begin a period without making one hot.
        for id in leaf.take(20) {
            toy.heat.note_leaf(id);
        }
        for steps in 0.. {
            let stepped = engine.step(&toy.world(), Steps::nodes(1));
            toy.check();
            if stepped == Stepped::Idle {
                break;
            }
            assert!(steps < 20_000, "a period must end");
        }
    }
}

#[test]
fn the_default_policy_ends_with_the_hottest_nodes_fast_and_breaks_no_rule_on_the_way() {
    for parents in SHAPES {
        for room in [1, 2, 4] {
            each_heat(parents.len(), &[0, 1, 4, 16], |heat| {
                // Paths are at least as hot as what is below them, as they are in a tree.
                let sane = |i: usize| parents[i].is_none_or(|p| heat[p] >= heat[i]);
                if !(0..parents.len()).all(sane) {
                    return;
                }
                for first in placements(parents, room) {
                    let toy = Toy::new(parents, heat, &first, room);
                    run(&toy, Box::new(HeatPolicy::default()), 1);
                    settled(&toy, heat, &first, room);
                }
            });
        }
    }
}

/// No slow node is two octaves hotter than a fast one that it could have taken the place of, and
/// room that hot nodes want is used.
fn settled(toy: &Toy, heat: &[u8], first: &[bool], room: u64) {
    let fast = toy.fast();
    let used = fast.iter().filter(|f| **f).count() as u64;
    assert!(used <= room, "{used} of {room}");
    let coldest = (0..heat.len()).filter(|i| fast[*i]).map(|i| bin(heat[i]));
    let coldest = coldest.min().unwrap_or(u8::MAX);
    // What comes in needs all slow nodes above it: only those with a fast parent are compared.
    let hottest = (0..heat.len()).filter(|i| !fast[*i]).map(|i| bin(heat[i]));
    let hottest = hottest.max().unwrap_or(0);
    assert!(
        hottest < coldest.saturating_add(2) || used < room,
        "heat {heat:?}, from {first:?} to {fast:?}"
    );
    let sum = |fast: &[bool]| -> u64 {
        let hot = heat.iter().zip(fast).filter(|(_, fast)| **fast);
        hot.map(|(heat, _)| u64::from(*heat)).sum()
    };
    assert!(
        sum(&fast) >= sum(first),
        "it got worse: {heat:?} {first:?} {fast:?}"
    );
    // The best that there is, by trying all: at most two octaves better in each node.
    let parents: Vec<Option<usize>> = SHAPES
        .into_iter()
        .find(|s| s.len() == heat.len())
        .map(<[_]>::to_vec)
        .unwrap_or_default();
    let best = placements(&parents, room).iter().map(|p| sum(p)).max();
    assert!(sum(&fast) * 8 >= best.unwrap_or(0), "{heat:?} {fast:?}");
}

#[test]
fn every_stop_of_every_policy_keeps_the_boundary() {
    for parents in SHAPES {
        each_heat(parents.len(), &[0, 4], |heat| {
            for first in placements(parents, 3) {
                let policies: [Box<dyn Policy>; 5] = [
                    Box::new(SinlkPolicy::new(Techniques::default())),
                    hostile(Want::AllUp, false),
                    hostile(Want::AllDown, false),
                    hostile(Want::FlipFlop, false),
                    hostile(Want::FlipFlop, true),
                ];
                for policy in policies {
                    let toy = Toy::new(parents, heat, &first, 3);
                    run(&toy, policy, 2);
                    let fast = toy.fast().iter().filter(|f| **f).count();
                    assert!(fast <= 3, "within the budget");
                }
            }
        });
    }
}

fn hostile(want: Want, swap: bool) -> Box<dyn Policy> {
    Box::new(Hostile {
        want,
        swap,
        births: Births::Origin,
    })
}

#[test]
fn all_down_empties_fast_memory_from_below() {
    let parents = SHAPES[1];
    let toy = Toy::new(parents, &[9; 5], &[true; 5], 5);
    run(&toy, hostile(Want::AllDown, false), 1);
    // The leaves have gone, and their parents after them.
    assert!(toy.fast().iter().all(|fast| !fast), "{:?}", toy.fast());
}

#[test]
fn a_busy_part_is_left_alone_and_served_later() {
    let parents = SHAPES[0];
    let toy = Toy::new(parents, &[8, 8, 0], &[false; 3], 2);
    *toy.busy.borrow_mut() = 100;
    run(&toy, Box::new(HeatPolicy::default()), 1);
    assert_eq!(toy.fast(), [false; 3]);
    assert!(toy.counters.busy.load(std::sync::atomic::Ordering::Relaxed) > 0);
    *toy.busy.borrow_mut() = 0;
    run(&toy, Box::new(HeatPolicy::default()), 1);
    assert_eq!(toy.fast(), [true, true, false]);
}

#[test]
fn a_strain_is_ended_without_samples() {
    let parents = SHAPES[0];
    let toy = Toy::new(parents, &[9, 9, 1], &[true; 3], 2);
    assert!(toy.budget.strained());
    let mut engine = Engine::<Toy>::new(Box::new(HeatPolicy::default()));
    while engine.step(&toy.world(), Steps::nodes(4)) == Stepped::Busy {}
    assert!(toy.budget.bytes(Tier::Fast) <= 2 * BYTES);
    assert_eq!(toy.fast(), [true, true, false]);
}
