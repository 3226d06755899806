//! What needs one another in a graph: its strongly connected components of more than one node.

use std::collections::{BTreeMap, BTreeSet};

/// What each node needs, and by which names.
pub type Needs = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The groups of nodes that need one another, the largest first, each in the order of its names.
pub fn components(needs: &Needs) -> Vec<Vec<String>> {
    let reached: BTreeMap<_, _> = needs
        .keys()
        .map(|node| (node.as_str(), reached(needs, node)))
        .collect();
    let mut groups = BTreeSet::new();
    for (node, seen) in &reached {
        let needs_back = |other: &&&str| reached.get(**other).is_some_and(|s| s.contains(node));
        let group: Vec<String> = seen
            .iter()
            .filter(needs_back)
            .map(|node| node.to_string())
            .collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

/// Every node that this one needs, directly or through others.
fn reached<'a>(needs: &'a Needs, node: &str) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![node]);
    while let Some(node) = next.pop() {
        for needed in needs.get(node).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(needed.as_str()) {
                next.push(needed);
            }
        }
    }
    seen
}
