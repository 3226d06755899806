//! Several threads on one structure.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use terrace_base::Result;

use super::methods::Hand;
use super::{Check, Effort, Failure, Fixture, Random, Subject, ensure, settled};
use crate::{Edge, Flags, Ordered, Touch, Window};

const WRITERS: usize = 2;

/// A value that says whose it is, in any of several lengths, and can be checked.
fn value(key: &[u8], version: u64) -> Vec<u8> {
    let mut out = version.to_le_bytes().to_vec();
    out.extend_from_slice(key);
    let mut random = Random::new(version);
    let len = 16 + random.below(120);
    out.extend_from_slice(&random.bytes(len));
    out
}

fn is_sound(key: &[u8], bytes: &[u8]) -> bool {
    let version = bytes.first_chunk().map(|v| u64::from_le_bytes(*v));
    version.is_some_and(|version| value(key, version) == bytes)
}

/// Keys that are there all the time, and keys that come and go.
fn stable(i: usize) -> Vec<u8> {
    format!("{:06}/stable", i * 7919 % 100_000).into_bytes()
}

fn moving(writer: usize, i: usize) -> Vec<u8> {
    format!("{:06}/moving/{writer}", i * 104_729 % 100_000).into_bytes()
}

/// Writers on keys of their own, readers that never miss a key that stays and never see a value
/// that no writer wrote, scanners in both directions that see each stable key once. In the end all is
/// as each writer's model says.
///
/// # Errors
/// What a thread saw.
pub fn threads_agree<F: Fixture>(fixture: &F, page_bytes: usize, effort: Effort) -> Check {
    let pages = super::memory_pages(fixture, page_bytes, effort);
    let subject = fixture.create(page_bytes, pages)?;
    let hand = Hand { subject: &subject };
    let stables = effort.records / 4;
    for i in 0..stables {
        hand.put(&stable(i), &value(&stable(i), 1), Flags::NONE)?;
    }
    let done = AtomicBool::new(false);
    // All begin together: on a busy machine the writers may else be done before a reader is there.
    let start = Barrier::new(WRITERS + 2);
    let mut models = Vec::new();
    let seen: Vec<Check> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                let (subject, start) = (&subject, &start);
                scope.spawn(move || {
                    start.wait();
                    write(subject, w, effort)
                })
            })
            .collect();
        let others = [
            scope.spawn(|| {
                start.wait();
                read(&subject, stables, &done)
            }),
            scope.spawn(|| {
                start.wait();
                scan(&subject, stables, &done)
            }),
        ];
        let mut seen = Vec::new();
        for writer in writers {
            match writer.join() {
                Ok(Ok(model)) => models.push(model),
                Ok(Err(failure)) => seen.push(Err(failure)),
                Err(_) => seen.push(Err(Failure("a writer panicked".into()))),
            }
        }
        done.store(true, Ordering::Release);
        for other in others {
            seen.push(
                other
                    .join()
                    .unwrap_or_else(|_| Err(Failure("a reader panicked".into()))),
            );
        }
        seen
    });
    seen.into_iter().collect::<Check>()?;
    let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = models.into_iter().flatten().collect();
    for i in 0..stables {
        let got = hand.get(&stable(i), Touch::No)?;
        ensure!(
            got.as_ref().is_some_and(|g| is_sound(&stable(i), &g.1)),
            "stable {i}: {got:?}"
        );
        expected.insert(stable(i), got.map(|g| g.1).unwrap_or_default());
    }
    let records = hand.verify()?;
    ensure!(
        records == expected.len() as u64,
        "{records} records, not {}",
        expected.len()
    );
    for (key, value) in &expected {
        let got = hand.get(key, Touch::No)?;
        ensure!(
            got.is_some_and(|g| g.1 == *value),
            "{key:?} is not as it was last written"
        );
    }
    Ok(())
}

fn write<M: Ordered>(
    subject: &Subject<M>,
    writer: usize,
    effort: Effort,
) -> std::result::Result<BTreeMap<Vec<u8>, Vec<u8>>, Failure> {
    let hand = Hand { subject };
    let mut random = Random::new(effort.seed + writer as u64);
    let mut model = BTreeMap::new();
    let stables = effort.records / 4;
    for version in 2..effort.operations as u64 {
        let key = moving(writer, random.below(effort.records / 2));
        match random.below(10) {
            0..5 => {
                let value = value(&key, version);
                hand.put(&key, &value, Flags::NONE)?;
                model.insert(key, value);
            }
            5..9 => {
                let erased = hand.erase(&key)?;
                let had = model.remove(&key).is_some();
                ensure!(
                    erased.changed == had,
                    "writer {writer}: {key:?} was there: {had}"
                );
            }
            _ => {
                let key = stable(random.below(stables));
                hand.put(&key, &value(&key, version), Flags::NONE)?;
            }
        }
    }
    Ok(model)
}

fn read<M: Ordered>(subject: &Subject<M>, stables: usize, done: &AtomicBool) -> Check {
    let hand = Hand { subject };
    let mut random = Random::new(77);
    loop {
        let key = stable(random.below(stables));
        let got = hand.get(&key, Touch::Raise)?;
        let Some((_, bytes)) = got else {
            return Err(Failure(format!("a reader missed {key:?}")));
        };
        ensure!(is_sound(&key, &bytes), "a reader saw {bytes:?} as {key:?}");
        if done.load(Ordering::Acquire) {
            return Ok(());
        }
    }
}

fn scan<M: Ordered>(subject: &Subject<M>, stables: usize, done: &AtomicBool) -> Check {
    let mut window = Window::new();
    let mut passes = 0;
    while passes < 2 || !done.load(Ordering::Acquire) {
        let up = passes % 2 == 0;
        let found = pass(subject, up, &mut window)?;
        let distinct = (0..stables)
            .map(stable)
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        ensure!(
            found == distinct,
            "a scan found {found} of {distinct} stable keys, up: {up}"
        );
        passes += 1;
    }
    Ok(())
}

/// One pass over everything; the number of stable keys. A scan's cursor is a key, so a record comes
/// out once even when leaves are split and merged under way.
fn pass<M: Ordered>(
    subject: &Subject<M>,
    up: bool,
    window: &mut Window,
) -> std::result::Result<usize, Failure> {
    let (mut found, mut cursor, mut last) = (0, Some(Vec::new()), None::<Vec<u8>>);
    if !up {
        cursor = None;
    }
    loop {
        let edge = match &cursor {
            Some(key) if up => Edge::From(key),
            Some(key) => Edge::Below(key),
            None => Edge::End,
        };
        let copied: Result<()> =
            settled(&subject.store, || subject.method.try_window(edge, window));
        copied?;
        let from = cursor.take();
        let mut indexes: Vec<usize> = match &from {
            Some(key) if up => (window.lower_bound(key)..window.len()).collect(),
            Some(key) => (0..window.lower_bound(key)).collect(),
            None => (0..window.len()).collect(),
        };
        if !up {
            indexes.reverse();
        }
        for i in indexes {
            let key = window.key(i);
            let in_order = last
                .as_deref()
                .is_none_or(|l| if up { l < key } else { l > key });
            ensure!(in_order, "a scan came to {key:?} after {last:?}, up: {up}");
            ensure!(
                is_sound(M::key_at(key), window.value(i)),
                "a scan saw a torn value of {key:?}"
            );
            found += usize::from(key.ends_with(b"/stable"));
            last = Some(key.to_vec());
        }
        cursor = match &window.high {
            Some(high) if up => Some(high.clone()),
            None if up => return Ok(found),
            _ if window.low.is_empty() => return Ok(found),
            _ => Some(window.low.clone()),
        };
    }
}
