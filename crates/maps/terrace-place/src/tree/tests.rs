//! What a part refuses.

use super::kind::{Inserted, Making, Nodes as _};
use super::nodes::BTreeNodes as Nodes;
use super::part::Tree;
use super::seat::{Held, Shown};
use crate::budget::{Budget, Limit};
use crate::id::Tier;
use crate::memory::Source;
use crate::model::Plain;
use crate::placed::{Outcome, Placed, Seen};
use crate::policy::Births;

type Part = (Nodes<u64, u64, Plain>, Tree);

fn part(entries: u64) -> Part {
    let budget = Budget::new(Limit::Bytes(1 << 20));
    let births = Births::Always(Tier::Slow);
    let nodes = Nodes::new(Making {
        slots: 1 << 12,
        sources: [Source::Heap, Source::Heap],
        budget,
        births,
        heat: true,
        model: Plain,
    })
    .unwrap();
    let mut tree = Tree::new(&nodes).unwrap();
    for i in 0..entries {
        let inserted = tree.insert(&nodes, i, i, None).unwrap();
        assert!(matches!(inserted, Inserted::New));
    }
    (nodes, tree)
}

#[test]
fn a_node_that_is_not_at_its_place_is_not_moved() {
    let (nodes, mut tree) = part(200);
    let before = list_of(&nodes, &tree);
    let leaf = before.iter().filter(|s| s.leaf).nth(2).copied().unwrap();
    for i in 0..20 {
        tree.remove(&nodes, &i);
    }
    let version = tree.version;
    assert!(version > 0);
    let moved = Held(&mut tree, &nodes).relocate(leaf.id, leaf.path, Tier::Fast, u64::MAX);
    assert_eq!(moved, Outcome::Gone);
    assert!(
        list_of(&nodes, &tree)
            .iter()
            .all(|s| s.id.tier() == Tier::Slow)
    );
    if let Some(root) = tree.root.take() {
        nodes.free_all(vec![root]);
    }
}

fn list_of(nodes: &Nodes<u64, u64, Plain>, tree: &Tree) -> Vec<Seen> {
    let mut all = vec![];
    Shown(tree, nodes).list(&mut |seen| all.push(*seen));
    all
}

#[test]
fn a_promotion_takes_the_nodes_above_first_and_stops_at_the_bound() {
    let (nodes, mut tree) = part(200);
    let leaf = list_of(&nodes, &tree)
        .into_iter()
        .rfind(|s| s.leaf)
        .unwrap();
    let inner = Nodes::<u64, u64, Plain>::INNER_BYTES as u64;
    // Room for the root alone.
    let moved = Held(&mut tree, &nodes).relocate(leaf.id, leaf.path, Tier::Fast, inner);
    assert_eq!(moved, Outcome::NoRoom(1));
    let fast: Vec<bool> = list_of(&nodes, &tree)
        .iter()
        .map(|s| s.id.tier() == Tier::Fast)
        .collect();
    assert!(fast[0] && !fast[1..].contains(&true), "{fast:?}");
    let moved = Held(&mut tree, &nodes).relocate(leaf.id, leaf.path, Tier::Fast, 1 << 20);
    assert_eq!(moved, Outcome::Moved(1));
    // A demotion of the root waits for its fast child.
    let root = list_of(&nodes, &tree)[0];
    let moved = Held(&mut tree, &nodes).relocate(root.id, root.path, Tier::Slow, 0);
    assert_eq!(moved, Outcome::Bound);
    if let Some(root) = tree.root.take() {
        nodes.free_all(vec![root]);
    }
}
