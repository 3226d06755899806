//! What an edit promises: flags, commits, room, limits, large references.

use terrace_base::{Error, max_key_bytes};

use super::{Check, Fixture, Random, Subject, ensure, settled};
use crate::{
    AccessMethod, Applied, Attempt, Flags, Found, LargeRef, NoRoom, Plan, RecordPage, Retry, Room,
    Touch, Value,
};

type Before = Option<(Flags, Option<LargeRef>)>;

/// A subject with the calls that tests make most.
pub(super) struct Hand<'s, M> {
    pub subject: &'s Subject<M>,
}

impl<M: AccessMethod> Hand<'_, M> {
    pub fn edit(
        &self,
        key: &[u8],
        plan: Plan<'_>,
        room: &mut dyn Room,
    ) -> terrace_base::Result<Applied> {
        let Subject { store, method, .. } = self.subject;
        settled(store, || {
            let door = store.enter()?;
            method.try_edit(&door, key, &mut |_| Ok(plan), room, &mut || Ok(()))
        })
    }

    pub fn put(&self, key: &[u8], value: &[u8], flags: Flags) -> terrace_base::Result<Applied> {
        self.edit(key, Plan::Put(Value::Inline(value), flags), &mut NoRoom)
    }

    pub fn erase(&self, key: &[u8]) -> terrace_base::Result<Applied> {
        self.edit(key, Plan::Erase, &mut NoRoom)
    }

    pub fn get(&self, key: &[u8], touch: Touch) -> terrace_base::Result<Option<(Found, Vec<u8>)>> {
        let Subject { store, method, .. } = self.subject;
        let mut value = vec![99; 3];
        let found = settled(store, || method.try_get(key, touch, &mut value))?;
        Ok(found.map(|found| (found, value)))
    }

    pub fn verify(&self) -> terrace_base::Result<u64> {
        let mut records = 0;
        self.subject.method.verify(
            &mut |_, _, _| {
                records += 1;
                Ok(())
            },
            &mut |_| Ok(()),
        )?;
        Ok(records)
    }
}

/// Flags are kept and changed as asked, use counts saturate, commits come exactly with changes, an
/// edit that answers with a retry changes nothing, room is asked for before a split, limits are errors.
///
/// # Errors
/// What was not so.
pub fn edits_keep_their_promises<F: Fixture>(fixture: &F, page_bytes: usize) -> Check {
    let subject = fixture.create(page_bytes, 600)?;
    let hand = Hand { subject: &subject };
    flags(&hand)?;
    commits(&hand)?;
    limits(fixture, &hand, page_bytes)?;
    room(fixture, page_bytes)?;
    hand.verify()?;
    clearing(&hand)
}

fn flags<M: AccessMethod>(hand: &Hand<'_, M>) -> Check {
    let all = [
        Flags::NONE,
        Flags::DIRTY,
        Flags::DELETED,
        Flags::DIRTY.with(Flags::DELETED),
        Flags::DIRTY.with_use_count(2),
        Flags::DELETED.with_use_count(3),
    ];
    // Lengths that replace in place, shrink, grow, and cross the short form of a length.
    let lengths = [40, 40, 10, 0, 60, 300, 300, 254, 252, 253, 40];
    for (i, flags) in all.into_iter().enumerate() {
        let key = [b"flags".as_slice(), &[i as u8; 2]].concat();
        for (j, len) in lengths.into_iter().enumerate() {
            let flags = all[(i + j) % all.len()];
            let value = vec![j as u8; len];
            let before = hand.get(&key, Touch::No)?;
            let applied = hand.put(&key, &value, flags)?;
            let expected: Before = before.map(|(found, _)| (found.flags, None));
            ensure!(
                applied.before == expected,
                "put says {applied:?} instead of {expected:?}"
            );
            let got = hand.get(&key, Touch::No)?;
            ensure!(
                got.as_ref()
                    .is_some_and(|(f, v)| f.flags == flags && *v == value),
                "after a put of {len} bytes with {flags:?} there is {got:?}"
            );
        }
        let set = hand.edit(&key, Plan::Flags(flags), &mut NoRoom)?;
        let again = hand.edit(&key, Plan::Flags(flags), &mut NoRoom)?;
        ensure!(
            !again.changed,
            "setting the same flags is no change: {set:?}, {again:?}"
        );
        let keep = hand.edit(&key, Plan::Keep, &mut NoRoom)?;
        ensure!(
            !keep.changed && keep.before == Some((flags, None)),
            "keep: {keep:?}"
        );
        for use_count in flags.use_count()..=Flags::MAX_USE + 3 {
            let expected = flags.with_use_count(use_count);
            let got = hand.get(&key, Touch::Raise)?.map(|(found, _)| found.flags);
            ensure!(
                got == Some(expected),
                "use {use_count}: {got:?} instead of {expected:?}"
            );
        }
        let erased = hand.erase(&key)?;
        let expected = Some((flags.with_use_count(Flags::MAX_USE), None));
        ensure!(
            erased.changed && erased.before == expected,
            "erase says {erased:?}"
        );
        ensure!(
            hand.get(&key, Touch::Raise)?.is_none(),
            "an erased key is there"
        );
        ensure!(!hand.erase(&key)?.changed, "erasing nothing is no change");
        let nothing = hand.edit(&key, Plan::Flags(flags), &mut NoRoom)?;
        ensure!(
            !nothing.changed && nothing.before.is_none(),
            "flags of nothing: {nothing:?}"
        );
    }
    Ok(())
}

fn commits<M: AccessMethod>(hand: &Hand<'_, M>) -> Check {
    let Subject { store, method, .. } = hand.subject;
    hand.put(b"commit", b"first", Flags::DIRTY)?;
    let plans = [
        Plan::Put(Value::Inline(b"other"), Flags::NONE),
        Plan::Put(Value::Inline(b"much longer than it was"), Flags::NONE),
        Plan::Put(Value::Inline(b""), Flags::NONE),
        Plan::Erase,
        Plan::Flags(Flags::DELETED),
    ];
    for plan in plans {
        // Refused at the commit, then by the plan itself: nothing may change.
        for at_commit in [true, false] {
            let door = store.enter()?;
            let mut asked = 0;
            let refused: Attempt<Applied> = method.try_edit(
                &door,
                b"commit",
                &mut |before| {
                    let sound = before == Some((Flags::DIRTY, Value::Inline(b"first")));
                    if !sound {
                        return Err(Error::invalid(format!("the plan saw {before:?}")).into());
                    }
                    if at_commit {
                        Ok(plan)
                    } else {
                        Err(Retry::Conflict)
                    }
                },
                &mut NoRoom,
                &mut || {
                    asked += 1;
                    Err(Retry::Conflict)
                },
            );
            drop(door);
            ensure!(
                refused.is_err() && asked == u32::from(at_commit),
                "{plan:?}: {refused:?}"
            );
            if let Err(failure @ Retry::Fail(_)) = refused {
                return Err(super::Failure(format!("{plan:?}: {failure:?}")));
            }
            let got = hand.get(b"commit", Touch::No)?;
            ensure!(
                got.as_ref()
                    .is_some_and(|(f, v)| f.flags == Flags::DIRTY && v == b"first"),
                "{plan:?} was refused and left {got:?}"
            );
        }
    }
    hand.erase(b"commit")?;
    Ok(())
}

fn limits<F: Fixture>(fixture: &F, hand: &Hand<'_, F::Method>, page_bytes: usize) -> Check {
    let limit = max_key_bytes(page_bytes);
    let longest = vec![7; limit];
    let most = vec![8; fixture.max_inline(page_bytes)];
    for last in 0..12u8 {
        let key = [&longest[..limit - 1], &[last]].concat();
        hand.put(&key, &most, Flags::NONE)?;
    }
    for last in 0..12u8 {
        let key = [&longest[..limit - 1], &[last]].concat();
        let got = hand.get(&key, Touch::No)?;
        ensure!(
            got.is_some_and(|(_, v)| v == most),
            "the longest record {last} is not there"
        );
    }
    let long = hand.put(&[longest.as_slice(), &[0]].concat(), b"", Flags::NONE);
    ensure!(
        matches!(long, Err(Error::KeyTooLong { .. })),
        "too long a key: {long:?}"
    );
    let large = hand.put(b"k", &[most.as_slice(), &[0]].concat(), Flags::NONE);
    ensure!(
        matches!(large, Err(Error::ValueTooLong { .. })),
        "too long a value: {large:?}"
    );
    let absent = hand.get(&[longest.as_slice(), &[0, 1]].concat(), Touch::No)?;
    ensure!(
        absent.is_none(),
        "a key that is too long to be there was found"
    );
    Ok(())
}

/// Drops one record after another, never the one that must stay.
struct Victims {
    asked: usize,
    dropped: Vec<Vec<u8>>,
}

impl Room for Victims {
    fn make(&mut self, page: &mut dyn RecordPage, _: usize, keep: &[u8]) -> Attempt<bool> {
        self.asked += 1;
        let mut key = Vec::new();
        for i in 0..page.count() {
            page.key(i, &mut key)?;
            if key != keep {
                if page.find(&key)? != Some(i) {
                    return Err(Error::invalid("a record is not found under its key").into());
                }
                page.erase(i)?;
                self.dropped.push(key);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// With a caller that always makes room, a page of records is never split.
fn room<F: Fixture>(fixture: &F, page_bytes: usize) -> Check {
    let subject = fixture.create(page_bytes, 300)?;
    let hand = Hand { subject: &subject };
    let mut random = Random::new(5);
    let mut victims = Victims {
        asked: 0,
        dropped: Vec::new(),
    };
    let count = page_bytes / 32;
    let mut least = 0;
    for i in 0..count {
        let key = random.bits().to_be_bytes();
        let plan = Plan::Put(Value::Inline(&[1; 80]), Flags::NONE);
        hand.edit(&key, plan, &mut victims)?;
        let got = hand.get(&key, Touch::No)?;
        ensure!(
            got.is_some(),
            "record {i} was dropped to make room for itself"
        );
        if i == 0 {
            least = pages(&subject.method)?;
        }
    }
    let pages = pages(&subject.method)?;
    let mut records = 0;
    subject.method.verify(
        &mut |_, _, _| {
            records += 1;
            Ok(())
        },
        &mut |_| Ok(()),
    )?;
    ensure!(victims.asked > 0, "nobody was asked to make room");
    ensure!(
        records + victims.dropped.len() == count,
        "{records} of {count} records are left"
    );
    ensure!(
        pages == least,
        "{pages} pages although there was always room to be made"
    );
    for key in &victims.dropped {
        ensure!(
            hand.get(key, Touch::No)?.is_none(),
            "a dropped record is still there"
        );
    }
    Ok(())
}

/// Clearing in steps ends with nothing, and what is there can be used again.
fn clearing<M: AccessMethod>(hand: &Hand<'_, M>) -> Check {
    let Subject { store, method, .. } = hand.subject;
    let mut random = Random::new(9);
    for _ in 0..1500 {
        let len = 1 + random.below(40);
        hand.put(&random.bytes(len), &[5; 90], Flags::NONE)?;
    }
    let mut steps = 0;
    while settled(store, || {
        let door = store.enter()?;
        method.try_clear_step(&door)
    })? {
        steps += 1;
        ensure!(steps < 100_000, "clearing does not end");
        if steps % 4 == 0 {
            hand.verify()?;
        }
    }
    let left = hand.verify()?;
    ensure!(left == 0, "{left} records after clearing");
    hand.put(b"after", b"clearing", Flags::NONE)?;
    ensure!(
        hand.get(b"after", Touch::No)?.is_some(),
        "nothing can be put after clearing"
    );
    Ok(())
}

/// Large values come back as they were, from chains that verification accounts for, and clearing
/// frees them all.
///
/// # Errors
/// What was not so.
pub fn large_values_are_kept<F: Fixture>(fixture: &F, page_bytes: usize) -> Check {
    let subject = fixture.create(page_bytes, 2000)?;
    let Subject { store, method, .. } = &subject;
    let hand = Hand { subject: &subject };
    let made = pages(method)?;
    let mut random = Random::new(3);
    let mut values = Vec::new();
    for i in 0..30usize {
        let value = random.bytes(page_bytes / 3 + i * page_bytes / 4);
        let guard = store.large_guard();
        let large = fixture.write_large(store, &value)?;
        let flags = Flags::NONE.with_use_count((i % 4) as u8);
        hand.edit(
            &[i as u8],
            Plan::Put(Value::Large(large), flags),
            &mut NoRoom,
        )?;
        drop(guard);
        values.push((value, large, flags));
    }
    let mut read = Vec::new();
    for (i, (value, large, flags)) in values.iter().enumerate() {
        let Some((found, inline)) = hand.get(&[i as u8], Touch::No)? else {
            return Err(super::Failure(format!("large value {i} is not there")));
        };
        ensure!(
            found.large == Some(*large) && found.flags == *flags && inline.is_empty(),
            "large value {i} is {found:?}"
        );
        settled(store, || fixture.read_large(store, *large, &mut read))?;
        ensure!(
            read == *value,
            "large value {i} of {} bytes came back differently",
            value.len()
        );
    }
    let pages = pages(method)?;
    let replaced = hand.put(&[3], b"small", Flags::NONE)?;
    ensure!(
        replaced.before.is_some_and(|b| b.1 == Some(values[3].1)),
        "replaced: {replaced:?}"
    );
    fixture.free_large(store, values[3].1)?;
    let erased = hand.erase(&[4])?;
    ensure!(
        erased.before.is_some_and(|b| b.1 == Some(values[4].1)),
        "erased: {erased:?}"
    );
    fixture.free_large(store, values[4].1)?;
    let fewer = self::pages(method)?;
    ensure!(
        fewer < pages,
        "{pages} pages became {fewer} when two large values went"
    );
    // Longer than what one step frees, so that clearing ends in the middle of it.
    let guard = store.large_guard();
    let large = fixture.write_large(store, &random.bytes(page_bytes * 40))?;
    let plan = Plan::Put(Value::Large(large), Flags::NONE);
    hand.edit(&[5, 5], plan, &mut NoRoom)?;
    drop(guard);
    let others = store.live_pages() - self::pages(method)? as u64;
    while settled(store, || {
        let door = store.enter()?;
        method.try_clear_step(&door)
    })? {
        let (live, owned) = (store.live_pages() - others, self::pages(method)?);
        ensure!(
            live == owned as u64,
            "{live} pages are there while it is cleared, and {owned} are its own"
        );
    }
    let left = self::pages(method)?;
    ensure!(
        left == made,
        "{left} pages are left after clearing, there were {made} in the beginning"
    );
    Ok(())
}

fn pages<M: AccessMethod>(method: &M) -> terrace_base::Result<usize> {
    let mut seen = std::collections::HashSet::new();
    method.verify(&mut |_, _, _| Ok(()), &mut |page| {
        if seen.insert(page) {
            Ok(())
        } else {
            Err(Error::invalid(format!("{page} twice")))
        }
    })?;
    Ok(seen.len())
}
