//! Short scripts, each for what it is named after, cut at every store, in every image.

use super::enumerate::{
    Model, Op, Random, Tried, empty, every_moment, times, with_buffers, with_bytes,
};
use super::lives::{STYLES, script};
use terrace_pm::Buffers;

/// Scripts that together do all there is: drains, splits, merges, cleaning, groups across segments.
pub fn scripts() -> Vec<(&'static str, Vec<Op>, u64)> {
    let put = |k: u64, v: u64| Op::Put(k, v << 8);
    let mut all: Vec<(&'static str, Vec<Op>, u64)> = vec![
        (
            "drains and a split",
            (0..12).map(|i| put(i * 5 % 12, i)).collect(),
            12,
        ),
        ("keys that rise", (0..14).map(|i| put(i, i)).collect(), 14),
        (
            "updates of few keys, and cleaning",
            (0..40).map(|i| put(i % 3, i)).collect(),
            3,
        ),
    ];
    let mut merges: Vec<Op> = (0..10).map(|i| put(i, i)).collect();
    merges.extend((0..10).map(|i| Op::Delete(i * 7 % 10)));
    merges.extend((0..6).map(|i| put(i, 100 + i)));
    all.push(("merges after deletes", merges, 10));
    let mut cold = vec![put(9, 1)];
    cold.extend((0..60).map(|i| put(i % 2, i)));
    all.push(("a cold pair is copied, then drained", cold, 10));
    // The log has let go of the residents when their leaves split.
    let long = (0..44).map(|i| put(i * 7 % 22, i)).collect();
    all.push(("splits of what the log has freed", long, 22));
    let groups = (0..8)
        .map(|i| Op::Group((0..4).map(|j| ((i * 3 + j) % 7, i << 8 | j)).collect()))
        .collect();
    all.push(("groups across segments", groups, 7));
    let mut mixed = Vec::new();
    for i in 0..8 {
        mixed.push(Op::Group(vec![(i % 4, i << 8), ((i + 1) % 4, i << 8 | 1)]));
        mixed.push(put(i % 3, 50 + i));
        mixed.push(Op::Delete((i + 2) % 4));
    }
    all.push(("groups, puts and deletes", mixed, 4));
    all
}

pub fn run(depth: u32, tried: &mut Tried) -> Result<(), String> {
    let start = empty();
    for (name, script, keys) in scripts() {
        let mut random = Random(77);
        every_moment(
            &start,
            &Model::new(),
            &script,
            keys,
            depth,
            &mut random,
            tried,
        )
        .map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

/// Images that are tried at least of each of the four kinds of maps: a quarter of a million of all. A factor raises it.
fn least() -> u64 {
    times(250_000)
}

/// All scripts, then scripts that are drawn, with maps of this kind, until this many images were tried.
fn all(seed: u64, depth: u32) {
    let mut tried = Tried::default();
    run(depth, &mut tried).unwrap();
    let start = empty();
    let mut seeds = seed..;
    while tried.images < least()
        && let Some(seed) = seeds.next()
    {
        let mut random = Random(seed * 31);
        let mut style = STYLES[(seed % 6) as usize];
        style.steps = 40;
        style.keys = style.keys.min(12);
        let mut value = 0;
        let script = script(&mut random, style, &mut value);
        let done = every_moment(
            &start,
            &Model::new(),
            &script,
            style.keys,
            1,
            &mut random,
            &mut tried,
        );
        done.unwrap_or_else(|e| panic!("script {seed}: {e}"));
    }
    println!("{tried:?}, {} scripts were drawn", seeds.start - seed);
    assert!(tried.recoveries > least().min(250_000) / 500, "{tried:?}");
}

#[test]
fn every_image_of_every_moment_is_right() {
    all(1, 2);
}

#[test]
fn every_image_of_every_moment_in_the_papers_mode_is_right() {
    with_buffers(Buffers::Paper);
    all(1000, 1);
}

#[test]
fn every_image_of_every_moment_in_the_literal_mode_is_right() {
    with_buffers(Buffers::Literal);
    all(2000, 1);
}

#[test]
fn every_image_of_every_moment_of_byte_strings_is_right() {
    with_bytes(true);
    all(3000, 1);
}
