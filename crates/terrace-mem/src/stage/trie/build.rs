//! Building a trie from a sorted run: nodes below come before those above.

use super::nums::Nums;
use super::{Child, ENDS, LEAVES, LONG, STARTS, Step, Trie};
use crate::family::{Family, common_prefix};
use crate::stage::KeyRun;
use std::marker::PhantomData;

/// A node that is being built: of the keys `from..to`, of which all before `at` are done.
struct Frame {
    from: usize,
    to: usize,
    at: usize,
    /// Where the prefix begins and where it ends.
    depth: usize,
    behind: usize,
    /// What of the labels and children that are done is of this node.
    labels: usize,
    children: usize,
}

/// What a reference of two bytes can name: ranks, and even places.
const NARROW: usize = 1 << 15;

impl<S: Step> Trie<S> {
    pub fn build<F: Family>(run: &F::Run, from: usize, to: usize) -> Self {
        let narrow = to - from < NARROW;
        narrow
            .then(|| Self::of_width::<F>(run, from, to, false))
            .flatten()
            .or_else(|| Self::of_width::<F>(run, from, to, true))
            .unwrap_or_else(|| unreachable!("references of four bytes name all places"))
    }

    /// None where the nodes take more room than references of two bytes can name.
    fn of_width<F: Family>(run: &F::Run, first: usize, last: usize, wide: bool) -> Option<Self> {
        let n = last - first;
        let (mut nodes, mut tails, mut lens) = (Vec::new(), Vec::new(), Vec::with_capacity(n));
        let (mut labels, mut children): (Vec<S::Label>, Vec<Child>) = (Vec::new(), Vec::new());
        let mut stack: Vec<Frame> = Vec::new();
        let mut starts = Vec::with_capacity(n.div_ceil(STARTS));
        let mut leaf = |rank: usize, tail: &[u8], children: &mut Vec<Child>| {
            if rank.is_multiple_of(STARTS) {
                starts.push(tails.len() as u32);
            }
            lens.push(tail.len() as u32);
            tails.extend_from_slice(tail);
            children.push(Child::Key(rank));
        };
        let (mut room, mut other) = ([0; 8], [0; 8]);
        let open = |from: usize, to: usize, depth: usize, labels: usize, children: usize| {
            let (mut room, mut other) = ([0; 8], [0; 8]);
            let a = F::as_bytes(run.get(from), &mut room);
            let b = F::as_bytes(run.get(to - 1), &mut other);
            let behind = depth + common_prefix(&a[depth..], &b[depth..]);
            let at = from;
            Frame {
                from,
                to,
                at,
                depth,
                behind,
                labels,
                children,
            }
        };
        match n {
            0 => {}
            1 => leaf(0, F::as_bytes(run.get(first), &mut room), &mut children),
            _ => stack.push(open(first, last, 0, 0, 0)),
        }
        while let Some(frame) = stack.last_mut() {
            if frame.at == frame.to {
                let frame = stack.pop()?;
                let key = F::as_bytes(run.get(frame.from), &mut room);
                let prefix = &key[frame.depth..frame.behind];
                let own = (&labels[frame.labels..], &children[frame.children..]);
                let place = write::<S>(prefix, own, wide, &mut nodes)?;
                labels.truncate(frame.labels);
                children.truncate(frame.children);
                children.push(Child::Node(place));
                continue;
            }
            let key = F::as_bytes(run.get(frame.at), &mut room);
            let depth = frame.behind;
            let Some((label, len)) = S::label(&key[depth..]) else {
                leaf(frame.at - first, &[], &mut children);
                frame.at += 1;
                continue;
            };
            labels.push(label);
            let group = frame.at;
            // Where the keys with this label end.
            let (mut lo, mut hi) = (group + 1, frame.to);
            while S::goes_on(label) && lo < hi {
                let mid = (lo + hi) / 2;
                let bytes = F::as_bytes(run.get(mid), &mut other);
                match S::label(&bytes[depth..]) {
                    Some((l, _)) if l == label => lo = mid + 1,
                    _ => hi = mid,
                }
            }
            frame.at = lo;
            if lo == group + 1 {
                leaf(group - first, &key[depth + len..], &mut children);
            } else {
                let below = open(group, lo, depth + len, labels.len(), children.len());
                stack.push(below);
            }
        }
        let root = children.pop().unwrap_or(Child::Key(0));
        Some(Trie {
            nodes: nodes.into(),
            tails: tails.into(),
            lens: Nums::new(&lens),
            starts: Nums::new(&starts),
            root,
            n,
            key_bytes: run.key_bytes(first, last),
            wide,
            step: PhantomData,
        })
    }
}

/// Writes a node; returns its place, or none where no reference can name it.
fn write<S: Step>(
    prefix: &[u8],
    (labels, children): (&[S::Label], &[Child]),
    wide: bool,
    out: &mut Vec<u8>,
) -> Option<usize> {
    if !wide && out.len() % 2 == 1 {
        out.push(0);
    }
    let place = out.len();
    if !wide && place / 2 >= NARROW {
        return None;
    }
    let leaves = children.iter().all(|child| matches!(child, Child::Key(_)));
    let mut flags = 0;
    for (bit, set) in [
        (ENDS, children.len() > labels.len()),
        (LONG, prefix.len() > 0xFF),
        (LEAVES, leaves),
    ] {
        flags |= bit * u8::from(set);
    }
    out.push(flags);
    S::write_children(labels.len(), out);
    let len = (prefix.len() as u16).to_le_bytes();
    out.extend_from_slice(&len[..if prefix.len() > 0xFF { 2 } else { 1 }]);
    out.extend_from_slice(prefix);
    S::write(labels, out);
    for child in &children[..if leaves { 1 } else { children.len() }] {
        if wide {
            let number = match child {
                Child::Key(rank) => *rank | 1 << 31,
                Child::Node(place) => *place,
            };
            out.extend((number as u32).to_le_bytes());
        } else {
            let number = match child {
                Child::Key(rank) => *rank | 1 << 15,
                Child::Node(place) => *place / 2,
            };
            out.extend((number as u16).to_le_bytes());
        }
    }
    Some(place)
}
