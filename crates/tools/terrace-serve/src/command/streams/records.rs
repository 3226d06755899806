//! The records of a stream: what it has come to, its entries, its groups, their consumers, and what these have not
//! acknowledged.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use terrace::encode;

use super::id::Id;
use crate::proto::reply::Reply;
use crate::stop::Run;
use crate::store::codec::{Head, stream_key};
use crate::store::work::Work;

/// Records that are removed in one step.
pub const STEP: usize = 1024;

/// What a stream has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The number of the last entry that came.
    pub last: Id,
    /// The highest number of an entry that was deleted.
    pub deleted: Id,
    /// Entries that came, ever.
    pub added: u64,
}

/// A group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The number of the last entry that it was given.
    pub last: Id,
    /// Entries that it was given; none if that is not known.
    pub read: Option<u64>,
}

/// An entry that a consumer has not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The entry.
    pub id: Id,
    /// Who has it.
    pub consumer: Vec<u8>,
    /// When it was given to it.
    pub since: u64,
    /// How often it was given to a consumer.
    pub times: u64,
}

/// Fields and values of an entry.
pub type Fields = Vec<Vec<u8>>;

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(encode::to_u64).unwrap_or(0)
}

impl State {
    /// How many entries had come, ever, when the one with this number did, if that can be known; the first one that
    /// is there now is `first`. As in Redis.
    fn come_until(&self, head: &Head, first: Id, id: Id) -> Option<u64> {
        match id.cmp(&self.last) {
            _ if self.added == 0 => Some(0),
            Ordering::Equal => Some(self.added),
            Ordering::Less if head.count == 0 => Some(self.added),
            Ordering::Greater => None,
            // Behind the first one some may be missing.
            Ordering::Less if self.deleted != Id::MIN && self.deleted >= first => None,
            Ordering::Less => match id.cmp(&first) {
                Ordering::Less => Some(self.added - head.count.min(self.added)),
                Ordering::Equal => Some((self.added + 1).saturating_sub(head.count)),
                Ordering::Greater => None,
            },
        }
    }

    /// Whether an entry from this number on may have been deleted behind the first one that is there now.
    fn misses_from(&self, head: &Head, first: Id, id: Id) -> bool {
        head.count > 0 && self.deleted != Id::MIN && self.deleted >= first.max(id)
    }

    /// Of a stream.
    pub fn load(work: &Work, head: &Head) -> Run<State> {
        let bytes = work
            .element(&stream_key(head.number, b'M', b""))?
            .unwrap_or_default();
        Ok(State {
            last: Id::of(&bytes),
            deleted: Id::of(bytes.get(16..).unwrap_or_default()),
            added: number(&bytes, 32),
        })
    }

    /// Stores it.
    pub fn save(&self, work: &mut Work, head: &Head) -> Run {
        let mut bytes = self.last.bytes().to_vec();
        bytes.extend_from_slice(&self.deleted.bytes());
        bytes.extend_from_slice(&self.added.to_be_bytes());
        work.put_element(stream_key(head.number, b'M', b""), &bytes)
    }
}

/// The key of an entry.
pub fn entry_key(head: &Head, id: Id) -> Vec<u8> {
    stream_key(head.number, b'x', &id.bytes())
}

/// The bytes of an entry.
pub fn encode_fields<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        bytes.extend_from_slice(&(field.len() as u32).to_be_bytes());
        bytes.extend_from_slice(field);
    }
    bytes
}

/// Fields and values in these bytes.
pub fn decode_fields(mut bytes: &[u8]) -> Fields {
    let mut fields = Vec::new();
    while let Some((length, rest)) = bytes.split_at_checked(4) {
        let length = encode::to_u32(length).unwrap_or(0) as usize;
        let Some((field, rest)) = rest.split_at_checked(length) else {
            break;
        };
        fields.push(field.to_vec());
        bytes = rest;
    }
    fields
}

/// The entries from one number to another, at most `most`.
pub fn entries(
    work: &Work,
    head: &Head,
    from: Id,
    to: Id,
    reverse: bool,
    most: usize,
) -> Run<Vec<(Id, Fields)>> {
    let (low, mut high) = (entry_key(head, from), entry_key(head, to));
    high.push(0);
    let found = work.gathered(&low, &high, reverse, most)?;
    let entry = |(key, value): (Vec<u8>, Vec<u8>)| (Id::of(&key[9..]), decode_fields(&value));
    Ok(found.into_iter().map(entry).collect())
}

/// The number of the first entry; 0-0 if there is none.
pub fn first_id(work: &Work, head: &Head) -> Run<Id> {
    let first = entries(work, head, Id::MIN, Id::MAX, false, 1)?;
    Ok(first.first().map_or(Id::MIN, |(id, _)| *id))
}

/// Writes an entry.
pub fn write_entry(out: &mut Reply, id: Id, fields: &Fields) {
    out.array(2);
    out.bulk(id.to_string());
    out.array(fields.len());
    fields.iter().for_each(|field| out.bulk(field));
}

fn named(head: &Head, kind: u8, group: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut key = (group.len() as u16).to_be_bytes().to_vec();
    key.extend_from_slice(group);
    key.extend_from_slice(rest);
    stream_key(head.number, kind, &key)
}

/// The range of keys of a group's records of a kind.
fn range_of(head: &Head, kind: u8, group: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let low = named(head, kind, group, b"");
    let mut high = low.clone();
    // No name is followed by as many of these.
    high.extend_from_slice(&[0xFF; 64]);
    (low, high)
}

impl Group {
    /// A group of a stream, if it is there.
    pub fn load(work: &Work, head: &Head, name: &[u8]) -> Run<Option<Group>> {
        let bytes = work.element(&stream_key(head.number, b'G', name))?;
        Ok(bytes.map(|bytes| Group::of(&bytes)))
    }

    fn of(bytes: &[u8]) -> Group {
        let read = number(bytes, 16);
        Group {
            last: Id::of(bytes),
            read: (read != u64::MAX).then_some(read),
        }
    }

    /// Stores it.
    pub fn save(&self, work: &mut Work, head: &Head, name: &[u8]) -> Run {
        let mut bytes = self.last.bytes().to_vec();
        bytes.extend_from_slice(&self.read.unwrap_or(u64::MAX).to_be_bytes());
        work.put_element(stream_key(head.number, b'G', name), &bytes)
    }

    /// It is given an entry; `first` is the first one that is there now.
    pub fn give(&mut self, head: &Head, state: &State, first: Id, id: Id) {
        match self.read {
            Some(read) if !state.misses_from(head, first, id) => self.read = Some(read + 1),
            _ if state.added > 0 => self.read = state.come_until(head, first, id),
            _ => {}
        }
        self.last = id;
    }

    /// How many entries it has not been given yet, if that can be known.
    pub fn lag(&self, head: &Head, state: &State, first: Id) -> Option<u64> {
        let read = match self.read {
            _ if state.added == 0 => return Some(0),
            Some(read) if !state.misses_from(head, first, self.last) => Some(read),
            _ => state.come_until(head, first, self.last),
        };
        read.map(|read| state.added.saturating_sub(read))
    }

    /// All groups of a stream.
    pub fn all(work: &Work, head: &Head) -> Run<Vec<(Vec<u8>, Group)>> {
        let (low, high) = (
            stream_key(head.number, b'G', b""),
            stream_key(head.number, b'G' + 1, b""),
        );
        let all = work.range(&low, &high, false, usize::MAX)?.into_iter();
        Ok(all
            .map(|(key, value)| (key[9..].to_vec(), Group::of(&value)))
            .collect())
    }

    /// Removes a group with its consumers and what they have.
    pub fn remove(work: &mut Work, head: &Head, name: &[u8]) -> Run {
        for kind in [b'P', b'C'] {
            let (mut low, high) = range_of(head, kind, name);
            loop {
                let (some, more) = work.step(&low, &high, STEP)?;
                let Some(last) = some.last() else { break };
                low = last.clone();
                some.into_iter().for_each(|key| work.delete_element(key));
                if !more {
                    break;
                }
                work.relieve()?;
            }
        }
        // As long as there is anything of it, it is there: another one with its name would take that over.
        work.delete_element(stream_key(head.number, b'G', name));
        Ok(())
    }
}

impl Pending {
    fn key(head: &Head, group: &[u8], id: Id) -> Vec<u8> {
        named(head, b'P', group, &id.bytes())
    }

    fn of(id: Id, bytes: &[u8]) -> Pending {
        Pending {
            id,
            since: number(bytes, 0),
            times: number(bytes, 8),
            consumer: bytes.get(16..).unwrap_or_default().to_vec(),
        }
    }

    /// What a group has of an entry.
    pub fn load(work: &Work, head: &Head, group: &[u8], id: Id) -> Run<Option<Pending>> {
        let bytes = work.element(&Pending::key(head, group, id))?;
        Ok(bytes.map(|bytes| Pending::of(id, &bytes)))
    }

    /// Stores it.
    pub fn save(&self, work: &mut Work, head: &Head, group: &[u8]) -> Run {
        let mut bytes = self.since.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.times.to_be_bytes());
        bytes.extend_from_slice(&self.consumer);
        work.put_element(Pending::key(head, group, self.id), &bytes)
    }

    /// It was acknowledged.
    pub fn remove(work: &mut Work, head: &Head, group: &[u8], id: Id) {
        work.delete_element(Pending::key(head, group, id));
    }

    /// Removes what a consumer has not acknowledged, in steps; how many entries they were.
    pub fn remove_all(work: &mut Work, head: &Head, group: &[u8], consumer: &[u8]) -> Run<u64> {
        let (mut from, mut removed) = (Id::MIN, 0);
        loop {
            let (mut own, mut next, mut seen) = (Vec::new(), None, 0);
            Pending::each(work, head, group, (from, Id::MAX), &mut |pending| {
                seen += 1;
                if pending.consumer == consumer {
                    own.push(pending.id);
                }
                if seen < STEP {
                    return ControlFlow::Continue(());
                }
                next = pending.id.next();
                ControlFlow::Break(())
            })?;
            removed += own.len() as u64;
            own.iter()
                .for_each(|id| Pending::remove(work, head, group, *id));
            let Some(next) = next else {
                return Ok(removed);
            };
            from = next;
            work.relieve()?;
        }
    }

    /// Tells `f` what a group has not acknowledged, from one number to another, until it breaks.
    pub fn each(
        work: &Work,
        head: &Head,
        group: &[u8],
        (from, to): (Id, Id),
        f: &mut dyn FnMut(Pending) -> ControlFlow<()>,
    ) -> Run {
        let (low, mut high) = (
            Pending::key(head, group, from),
            Pending::key(head, group, to),
        );
        high.push(0);
        work.each(&low, &high, false, &mut |key, value| {
            let id = Id::of(&key[key.len().saturating_sub(16)..]);
            f(Pending::of(id, value))
        })
    }

    /// What a group has not acknowledged, all of it counted.
    pub fn summary(work: &Work, head: &Head, group: &[u8]) -> Run<Summary> {
        let mut summary = Summary::default();
        Pending::each(work, head, group, (Id::MIN, Id::MAX), &mut |pending| {
            let (_, last) = summary.ends.get_or_insert((pending.id, pending.id));
            *last = pending.id;
            summary.count += 1;
            *summary.of.entry(pending.consumer).or_default() += 1;
            on_while(work.may_go_through(summary.count).is_ok())
        })?;
        work.may_go_through(summary.count)?;
        Ok(summary)
    }
}

fn on_while(goes_on: bool) -> ControlFlow<()> {
    match goes_on {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}

/// What a group has not acknowledged.
#[derive(Debug, Default)]
pub struct Summary {
    /// The first and the last entry of it.
    pub ends: Option<(Id, Id)>,
    /// How many there are.
    pub count: u64,
    /// How many each consumer has, of those that have any.
    pub of: BTreeMap<Vec<u8>, u64>,
}

/// The key of a consumer, whose value is when it was last heard of.
pub fn consumer_key(head: &Head, group: &[u8], consumer: &[u8]) -> Vec<u8> {
    named(head, b'C', group, consumer)
}

/// Notes a consumer of a group of the stream at a key; whether it is new, which is told.
pub fn note_consumer(
    work: &mut Work,
    key: &[u8],
    head: &Head,
    group: &[u8],
    consumer: &[u8],
) -> Run<bool> {
    let place = consumer_key(head, group, consumer);
    let new = work.element(&place)?.is_none();
    let now = work.now.to_be_bytes();
    work.put_element(place, &now)?;
    if new {
        work.event(b't', "xgroup-createconsumer", key);
    }
    Ok(new)
}

/// How many consumers a group has.
pub fn count_consumers(work: &Work, head: &Head, group: &[u8]) -> Run<u64> {
    let (low, high) = range_of(head, b'C', group);
    let mut many = 0;
    work.each(&low, &high, false, &mut |_, _| {
        many += 1;
        on_while(work.may_go_through(many).is_ok())
    })?;
    work.may_go_through(many)?;
    Ok(many)
}

/// The consumers of a group, and when each was last heard of.
pub fn consumers(work: &Work, head: &Head, group: &[u8]) -> Run<Vec<(Vec<u8>, u64)>> {
    let (low, high) = range_of(head, b'C', group);
    let all = work.range(&low, &high, false, usize::MAX)?.into_iter();
    let from = 9 + 2 + group.len();
    Ok(all
        .map(|(key, value)| (key[from..].to_vec(), number(&value, 0)))
        .collect())
}
