//! By the size of keys and of values: what a larger node does to the same share of fast memory.

use super::plans::{number, plan};
use crate::Setting;
use crate::model::{Count, State};
use crate::random::Random;
use crate::row::Row;
use crate::run::{Plan, WhichTree};
use crate::workload::{Operation, Stream, ZIPF};
use anyhow::{Result, ensure};
use terrace_place::{
    Art, ArtKey, BTree, Births, Fixed, HeatPolicy, Kind, Masstree, Memory, PlacedTree, Placement,
    Sampling, Sought, Steps,
};

/// A key of this many bytes: a number, and nothing behind it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key<const N: usize>([u8; N]);

impl<const N: usize> Key<N> {
    fn of(n: u64) -> Self {
        let mut bytes = [0; N];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        Key(bytes)
    }
}

impl<const N: usize> ArtKey for Key<N> {
    fn bytes(&self, into: &mut Vec<u8>) {
        // All have the same length: none begins another.
        into.extend(self.0);
    }
}

/// Keys of 8 to 128 bytes, and values of 8 to 256.
pub fn fig18(setting: &Setting) -> Result<Vec<Row>> {
    let plan = plan(setting, ZIPF, 0.2);
    match plan.tree {
        WhichTree::BTree => sizes::<BTree>(&plan),
        WhichTree::Art => sizes::<Art>(&plan),
        WhichTree::Masstree => sizes::<Masstree>(&plan),
    }
}

/// A kind that takes all these sizes.
trait Sizes: Any<8, 8> + Any<8, 64> + Any<8, 256> + Any<32, 8> + Any<128, 8> {}

impl<T: Any<8, 8> + Any<8, 64> + Any<8, 256> + Any<32, 8> + Any<128, 8>> Sizes for T {}

trait Any<const K: usize, const V: usize>: Sized {
    fn measure(plan: &Plan, heat: bool) -> Result<Row>;
}

impl<const K: usize, const V: usize> Any<K, V> for BTree {
    fn measure(plan: &Plan, heat: bool) -> Result<Row> {
        of_size::<K, V, BTree>(plan, heat)
    }
}

impl<const K: usize, const V: usize> Any<K, V> for Art {
    fn measure(plan: &Plan, heat: bool) -> Result<Row> {
        of_size::<K, V, Art>(plan, heat)
    }
}

impl<const K: usize, const V: usize> Any<K, V> for Masstree {
    fn measure(plan: &Plan, heat: bool) -> Result<Row> {
        of_size::<K, V, Masstree>(plan, heat)
    }
}

fn sizes<T: Sizes>(plan: &Plan) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for heat in [true, false] {
        rows.push(<T as Any<8, 8>>::measure(plan, heat)?);
        rows.push(<T as Any<32, 8>>::measure(plan, heat)?);
        rows.push(<T as Any<128, 8>>::measure(plan, heat)?);
        rows.push(<T as Any<8, 64>>::measure(plan, heat)?);
        rows.push(<T as Any<8, 256>>::measure(plan, heat)?);
    }
    Ok(rows)
}

fn of_size<const K: usize, const V: usize, T>(plan: &Plan, heat: bool) -> Result<Row>
where
    T: Kind<Key<K>, [u8; V], Count>,
    Key<K>: Sought<T>,
{
    Sampling::restart();
    let two = Placement::two(Memory::Heap, Memory::Heap).fast_share(plan.fast_share);
    let placement = if heat {
        two.policy(HeatPolicy::default())
    } else {
        two.policy(Fixed(Births::Weighted(plan.fast_share)))
    };
    let count = Count::with(State::default());
    let tree =
        PlacedTree::<Key<K>, [u8; V], Count, T>::with_model(placement.manual(), count.clone())?;
    let entries = plan.entries / 2;
    let mut random = Random::new(99);
    let mut order: Vec<u64> = (0..entries).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    for key in order {
        tree.insert(Key::of(key), [1; V])?;
    }
    let nodes: u64 = tree.nodes().iter().flatten().sum();
    count.begin((nodes as f64 * plan.cache) as u64, None);
    let mut stream = Stream::new(plan.workload, entries, 123);
    let operations = plan.operations / 2;
    let mut before = crate::model::Touches::default();
    let moves = || tree.placement().promoted + tree.placement().demoted;
    let mut moved = 0;
    for i in 0..operations {
        if i == operations / 2 {
            (before, moved) = (count.state().touches, moves());
        }
        if let Operation::Get(key) = stream.next() {
            ensure!(tree.get(&Key::of(key)).is_some(), "key {key} is lost");
        }
        if i.is_multiple_of(64) {
            tree.place_step(Steps::nodes(256));
        }
    }
    let after = count.state().touches;
    let [fast, slow] = [0, 1].map(|i| after.missing[i] - before.missing[i]);
    let measured = (operations / 2).max(1) as f64;
    let stats = tree.placement();
    let bytes = (stats.fast_bytes + stats.slow_bytes) as f64 / entries as f64;
    Ok(Row {
        figure: "fig18",
        tree: plan.tree.name(),
        policy: if heat { "heat" } else { "interleave" }.into(),
        workload: format!("{K}+{V} bytes"),
        fast_share: plan.fast_share,
        missing_fast_share: fast as f64 / (fast + slow).max(1) as f64,
        over_optimum: None,
        moves_per_1000: (moves() - moved) as f64 / measured * 1000.0,
        more: vec![
            ("key_bytes".into(), K.into()),
            ("value_bytes".into(), V.into()),
            ("bytes_an_entry".into(), number(bytes)),
            ("slow_per_op".into(), number(slow as f64 / measured)),
        ],
        series: vec![],
    })
}
