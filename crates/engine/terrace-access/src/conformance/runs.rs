//! Many records at once: runs that are put, and records of one page that are erased together.

use std::collections::BTreeMap;

use super::methods::Hand;
use super::{Check, Effort, Failure, Fixture, KeyKind, Random, Subject, ensure, position, settled};
use crate::{Edge, Flags, NoRoom, Plan, Sweep, Tier, Touch, Value, Window};

/// Longest run.
const LONGEST: usize = 120;
/// Records that have large values, which no run touches.
const LARGE: usize = 5;

/// The records by position; `None` for those with a large value.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<Vec<u8>>)>;

/// What is put as a run, or erased together, is what would be there one by one; no run goes past what it
/// may not touch; and windows notice.
///
/// # Errors
/// What was not so.
pub fn runs_are_as_one_by_one<F: Fixture>(fixture: &F, page_bytes: usize, effort: Effort) -> Check {
    for kind in KeyKind::ALL {
        let run = || one_kind(fixture, page_bytes, effort, kind);
        run().map_err(|Failure(why)| Failure(format!("{kind:?} keys: {why}")))?;
    }
    Ok(())
}

fn one_kind<F: Fixture>(fixture: &F, page_bytes: usize, effort: Effort, kind: KeyKind) -> Check {
    let subject = fixture.create(page_bytes, super::plenty_of_pages(page_bytes, effort))?;
    let Subject { store, .. } = &subject;
    let hand = Hand { subject: &subject };
    let mut random = Random::new(effort.seed);
    // Long keys take a thousand bytes each, and what stays in memory has to fit.
    let count = match kind {
        KeyKind::Long => effort.records / 16,
        _ => effort.records / 2,
    };
    let mut keys = BTreeMap::new();
    for i in 0..count {
        let key = kind.key(i, count);
        keys.insert(position(&subject, &key)?, key);
    }
    let keys: Vec<(Vec<u8>, Vec<u8>)> = keys.into_iter().collect();
    let mut model = Model::new();
    let mut large = Vec::new();
    for i in 1..=LARGE {
        let (at, key) = &keys[i * (keys.len() - 1) / LARGE];
        let chain = {
            let _guard = store.large_guard();
            let chain = fixture.write_large(store, &vec![3; page_bytes])?;
            hand.edit(
                key,
                Plan::Put(Value::Large(chain), Flags::NONE),
                &mut NoRoom,
            )?;
            chain
        };
        model.insert(at.clone(), (key.clone(), None));
        large.push((key.clone(), chain));
    }
    let rounds = effort.operations / 40;
    for round in 0..rounds {
        put_some(&hand, &keys, &mut model, &mut random)?;
        if random.percent(30) {
            erase_some(&hand, &keys, &mut model, &mut random)?;
        }
        if round % 32 == 0 || round + 1 == rounds {
            agree(&hand, &model)?;
        }
    }
    for (key, chain) in large {
        hand.erase(&key)?;
        fixture.free_large(store, chain)?;
    }
    Ok(())
}

/// A run of records, some of which are there, and some of which are to be erased.
fn put_some<M: Sweep + Tier>(
    hand: &Hand<'_, M>,
    keys: &[(Vec<u8>, Vec<u8>)],
    model: &mut Model,
    random: &mut Random,
) -> Check {
    let Subject { store, method, .. } = hand.subject;
    let step = 1 + random.below(3);
    let (from, len) = (random.below(keys.len()), 1 + random.below(LONGEST));
    let erases = random.below(3) * 20;
    let usual = [0, 12, 40][random.below(3)];
    let mut window = Window::new();
    let mut which = Vec::new();
    let mut records = Vec::new();
    for (at, key) in keys.iter().skip(from).step_by(step).take(len) {
        let flags = match random.percent(erases) {
            true => Flags::DELETED.with(Flags::DIRTY),
            false => Flags::DIRTY.with_use_count(2),
        };
        let long = if random.percent(10) {
            random.below(300)
        } else {
            usual
        };
        let value = match flags.is_deleted() {
            true => Vec::new(),
            false => random.bytes(long),
        };
        let push = window.push(
            flags,
            None,
            |out| {
                out.extend_from_slice(at);
                Ok::<_, Failure>(())
            },
            |out| {
                out.extend_from_slice(&value);
                Ok(())
            },
        );
        push?;
        // Of some the lock could not be had.
        if random.percent(90) {
            which.push(records.len());
        }
        records.push((at, key, flags.is_deleted(), value));
    }
    let mut done = 0;
    while done < which.len() {
        let (at, ..) = records[which[done]];
        let mut before = Window::new();
        settled(store, || method.try_window(Edge::From(at), &mut before))?;
        let put = method.put_run(&store.enter()?, &window, &which[done..]);
        ensure!(
            put <= which.len() - done,
            "more were put than there are: {put}"
        );
        let mut members = false;
        for &i in &which[done..done + put] {
            let (at, key, erased, value) = &records[i];
            let old = model.get(*at);
            ensure!(
                old.is_none_or(|(_, value)| value.is_some()),
                "a run went past a large value"
            );
            members |= old.is_some() == *erased;
            match erased {
                true => drop(model.remove(*at)),
                false => drop(model.insert(at.to_vec(), (key.to_vec(), Some(value.clone())))),
            }
        }
        ensure!(
            !members || !method.still_same(&before),
            "members of a leaf came or went with a run, and a window does not notice"
        );
        done += put;
        // One by one, what the run may not touch or had no room for.
        if let Some(&i) = which.get(done) {
            let (at, key, erased, value) = &records[i];
            if model.get(*at).is_none_or(|(_, value)| value.is_some()) {
                if *erased {
                    hand.erase(key)?;
                    model.remove(*at);
                } else {
                    hand.put(key, value, Flags::NONE)?;
                    model.insert(at.to_vec(), (key.to_vec(), Some(value.clone())));
                }
            }
            done += 1;
        }
    }
    Ok(())
}

/// Some records of one page go together.
fn erase_some<M: Sweep + Tier>(
    hand: &Hand<'_, M>,
    keys: &[(Vec<u8>, Vec<u8>)],
    model: &mut Model,
    random: &mut Random,
) -> Check {
    let Subject { store, method, .. } = hand.subject;
    let (at, _) = &keys[random.below(keys.len())];
    let share = random.below(100);
    let mut gone: Vec<Vec<u8>> = Vec::new();
    let mut wrong = None;
    settled(store, || {
        method.try_reach(Edge::From(at))?;
        let door = store.enter()?;
        method.try_visit(&door, at, &mut |page| {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            let mut which = Vec::new();
            gone.clear();
            let mut near = 0;
            for i in 0..page.count() {
                page.key(i, &mut key)?;
                if page.find_behind(&key, near)? != Some(i) {
                    wrong = Some(format!("record {i} is not found behind {near}"));
                }
                near = i.saturating_sub(random.below(9)).max(near);
                if page.value(i, &mut value)?.is_none() && random.percent(share) {
                    which.push(i);
                    gone.push(key.clone());
                }
            }
            let (before, all) = (page.count(), which.clone());
            page.check_erasable(&which)?;
            // In any order: that of their positions is another one in a bucket of several pages.
            for i in (1..which.len()).rev() {
                which.swap(i, random.below(i + 1));
            }
            page.erase_all(&mut which)?;
            if which != all || page.count() != before - all.len() {
                wrong = Some(format!("{all:?} of {before} were to go, {which:?} did"));
            }
            Ok(())
        })
    })?;
    if let Some(wrong) = wrong {
        return Err(Failure(wrong));
    }
    for key in gone {
        let at = position(hand.subject, &key)?;
        ensure!(model.remove(&at).is_some(), "a record was there twice");
    }
    Ok(())
}

fn agree<M: Sweep + Tier>(hand: &Hand<'_, M>, model: &Model) -> Check {
    let records = hand.verify()?;
    ensure!(
        records == model.len() as u64,
        "{records} records instead of {}",
        model.len()
    );
    for (key, value) in model.values() {
        let got = hand.get(key, Touch::No)?;
        let same = got.as_ref().is_some_and(|(found, got)| match value {
            None => found.large.is_some(),
            Some(value) => found.large.is_none() && found.flags == Flags::NONE && got == value,
        });
        ensure!(same, "{key:?} is {got:?} instead of {value:?}");
    }
    Ok(())
}
