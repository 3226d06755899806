//! Which node should be the slow memory, and why not the others.

use super::machine::{Machine, Node};

/// Slow is what takes longer by this factor, in percent.
const SLOWER: u32 = 130;

/// A node that is not ours, and what speaks for or against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub node: u32,
    /// Whether it is taken without asking.
    pub taken: bool,
    /// How much slower it is, in percent of ours; 100: as fast.
    pub latency: Option<u32>,
    /// Why.
    pub reason: String,
}

/// What a machine offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The node on whose processors we run.
    pub fast: Option<u32>,
    /// The slow node that is taken.
    pub slow: Option<u32>,
    /// Bytes that can be had of the fast node, within the limits of the control groups.
    pub fast_available: Option<u64>,
    /// All other nodes with memory.
    pub candidates: Vec<Candidate>,
    /// Why there is one kind of memory, and what the kernel does beside.
    pub notes: Vec<String>,
}

/// Looks at all nodes. One is taken if it is slower, has no processors, may be used, and is the
/// only one of its kind or the nearest.
pub fn candidates(machine: &Machine) -> Found {
    let mut found = Found::default();
    let Some(ours) = machine.nodes.iter().find(|n| n.number == machine.ours) else {
        found.notes.push(
            "one kind of memory: the system does not say which memory nodes it has".to_string(),
        );
        return found;
    };
    found.fast = Some(ours.number);
    let allowed = machine.allowed_bytes.unwrap_or(u64::MAX);
    found.fast_available = Some(ours.available.min(allowed));
    for node in machine.nodes.iter().filter(|n| n.number != ours.number) {
        found.candidates.push(judge(node, ours));
    }
    let near = |c: &&Candidate| c.latency.unwrap_or(u32::MAX);
    let taken = found.candidates.iter().filter(|c| c.taken);
    found.slow = taken.min_by_key(near).map(|c| c.node);
    for candidate in &mut found.candidates {
        if candidate.taken && Some(candidate.node) != found.slow {
            candidate.taken = false;
            candidate.reason =
                "a slow node that is nearer is taken; more than two kinds are not used".into();
        }
    }
    if found.slow.is_none() {
        found.notes.push(match found.candidates.len() {
            0 => "one kind of memory: the machine has no other node with memory".into(),
            _ => format!(
                "one kind of memory: none of the {} other nodes is taken without asking; \
                 `terrace place doctor` says why, Placement::two names memories by hand",
                found.candidates.len()
            ),
        });
    }
    found.notes.extend(machine.kernel_moves.iter().cloned());
    found
}

/// How much slower than ours, in percent, and where this is known from.
fn latency(node: &Node, ours: &Node) -> Option<(u32, &'static str)> {
    let percent = |theirs: u32, ours: u32| theirs.checked_mul(100)?.checked_div(ours);
    if let (Some(theirs), Some(ours)) = (node.latency, ours.latency) {
        return Some((percent(theirs, ours)?, "as the firmware tells"));
    }
    // Tiers say which is slower, not by how much. One tier says nothing: nodes of which the kernel
    // knows no latency are in it together.
    match node
        .tier
        .zip(ours.tier)
        .map(|(theirs, ours)| theirs.cmp(&ours))
    {
        Some(std::cmp::Ordering::Greater) => return Some((200, "as its memory tier tells")),
        Some(std::cmp::Ordering::Less) => return Some((50, "as its memory tier tells")),
        Some(std::cmp::Ordering::Equal) | None => {}
    }
    // A distance is one from 10.
    Some((percent(node.distance?, 10)?, "as its distance tells"))
}

fn judge(node: &Node, ours: &Node) -> Candidate {
    let known = latency(node, ours);
    let candidate = |taken, reason: String| Candidate {
        node: node.number,
        taken,
        latency: known.map(|(percent, _)| percent),
        reason,
    };
    if !node.allowed {
        return candidate(
            false,
            "this process may not use it: add it to cpuset.mems".into(),
        );
    }
    let Some((percent, whence)) = known else {
        return candidate(false, "nothing tells how slow it is".into());
    };
    if !node.cpus.is_empty() {
        return candidate(
            false,
            format!(
                "it is another socket, {percent} % of our latency {whence}: Memory::Node({}) \
                 takes it",
                node.number
            ),
        );
    }
    if percent < SLOWER {
        let fast = match (node.bandwidth, ours.bandwidth) {
            (Some(theirs), Some(ours)) if theirs > ours => {
                ", and it has more bandwidth, as HBM has"
            }
            _ => "",
        };
        return candidate(
            false,
            format!("it is not slower, {percent} % of our latency {whence}{fast}"),
        );
    }
    if let (Some(theirs), Some(ours)) = (node.bandwidth, ours.bandwidth)
        && theirs > ours
    {
        return candidate(
            false,
            format!(
                "it has more bandwidth than ours though {percent} % of the latency {whence}: \
                 memory of a GPU, or HBM; Memory::Node({}) takes it",
                node.number
            ),
        );
    }
    candidate(
        true,
        format!("slower memory without processors, {percent} % of our latency {whence}"),
    )
}
