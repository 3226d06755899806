//! Sweeping: collect, visit, pack, in order, without losing anything; and how full pages get.

use super::methods::Hand;
use super::{Check, Effort, Fixture, KeyKind, Random, Subject, ensure, settled};
use crate::{Attempt, Edge, Flags, Ordered, Retry, Sweep, Touch, Window};

/// Least fill of leaves after a load in order: a small record more would not have fitted.
const SORTED_FILL: f64 = 0.94;
/// Least fill after packing random leaves to 0.95, with page sizes at which a record is small.
const PACKED_FILL: f64 = 0.85;

/// Copies the page of records at `position`; the position of the next one, `None` after the last.
fn try_collect<M: Ordered>(
    method: &M,
    position: &[u8],
    window: &mut Window,
) -> Attempt<Option<Vec<u8>>> {
    method.try_window(Edge::From(position), window)?;
    Ok(window.high.clone())
}

/// A whole sweep; calls `each` with the position of every leaf.
fn positions<M: Sweep>(
    subject: &Subject<M>,
    window: &mut Window,
) -> terrace_base::Result<Vec<Vec<u8>>> {
    let mut all = vec![Vec::new()];
    while let Some(last) = all.last() {
        let next = settled(&subject.store, || {
            try_collect(&subject.method, last, window)
        })?;
        match next {
            Some(next) => all.push(next),
            None => break,
        }
    }
    Ok(all)
}

/// Mean fill of the leaves but the first and the last, and their number.
fn fill<M: Sweep>(subject: &Subject<M>) -> terrace_base::Result<(f64, usize)> {
    let positions = positions(subject, &mut Window::new())?;
    let (mut sum, mut pages) = (0.0, 0);
    for position in positions.iter().skip(1).rev().skip(1) {
        settled(&subject.store, || {
            subject.method.try_reach(Edge::From(position))?;
            let door = subject.store.enter()?;
            let mut fill = 0.0;
            subject.method.try_visit(&door, position, &mut |page| {
                fill = page.fill();
                Ok(())
            })?;
            sum += fill;
            pages += 1;
            Ok(())
        })?;
    }
    Ok((sum / f64::from(pages.max(1)), positions.len()))
}

/// Visiting erases exactly what it is told to, packing frees pages and loses nothing.
///
/// # Errors
/// What was not so.
pub fn sweeps_keep_every_record<F: Fixture>(
    fixture: &F,
    page_bytes: usize,
    effort: Effort,
) -> Check {
    // Enough records for a few dozen pages, all in memory: use counts do not leave it.
    let count = effort.records.max(page_bytes / 4);
    let effort = Effort {
        records: count,
        ..effort
    };
    let subject = fixture.create(page_bytes, super::plenty_of_pages(page_bytes, effort))?;
    let Subject { store, method, .. } = &subject;
    let hand = Hand { subject: &subject };
    let mut random = Random::new(effort.seed);
    let key = |i: usize| KeyKind::PrefixHeavy.key(i, count);
    for i in KeyKind::PrefixHeavy.order(count, &mut random) {
        let dirty = if i % 3 == 0 {
            Flags::DIRTY
        } else {
            Flags::NONE
        };
        hand.put(&key(i), &key(i), dirty.with_use_count((i % 4) as u8))?;
    }
    // One sweep that counts down and drops the clean ones that were not used.
    let mut window = Window::new();
    let mut dropped = 0;
    for position in positions(&subject, &mut window)? {
        let mut here = 0;
        settled(store, || {
            try_collect(method, &position, &mut window)?;
            let door = store.enter()?;
            here = 0;
            method.try_visit(&door, &position, &mut |page| {
                let (mut found, mut value) = (Vec::new(), Vec::new());
                for i in (0..page.count()).rev() {
                    page.key(i, &mut found)?;
                    let large = page.value(i, &mut value)?;
                    let flags = page.flags(i)?;
                    if large.is_some() || value != found || page.find(&found)? != Some(i) {
                        let what = format!("record {i} of a page is not itself");
                        return Err(Retry::Fail(terrace_base::Error::invalid(what)));
                    }
                    match flags.use_count() {
                        0 if !flags.is_dirty() => {
                            page.erase(i)?;
                            here += 1;
                        }
                        n => page.set_flags(i, flags.with_use_count(n.saturating_sub(1)))?,
                    }
                }
                if page.find(b"no such key in any of these pages")?.is_some() {
                    return Err(terrace_base::Error::invalid("an absent key was found").into());
                }
                Ok(())
            })
        })?;
        dropped += here;
    }
    let stays = |i: usize| i.is_multiple_of(3) || !i.is_multiple_of(4);
    let expected = (0..count).filter(|&i| !stays(i)).count();
    ensure!(
        dropped == expected,
        "{dropped} records were dropped, not {expected}"
    );
    // Thin it out, then pack.
    for i in (0..count).filter(|i| i % 5 < 3) {
        hand.erase(&key(i))?;
    }
    hand.verify()?;
    let (before, pages_before) = fill(&subject)?;
    let mut freed = 0;
    let mut position = Vec::new();
    loop {
        let next = settled(store, || try_collect(method, &position, &mut window))?;
        let was_freed = settled(store, || {
            let door = store.enter()?;
            method.try_pack(&door, &position, 0.95)
        })?;
        freed += usize::from(was_freed);
        match next {
            Some(next) => position = next,
            None => break,
        }
    }
    let (after, pages_after) = fill(&subject)?;
    ensure!(
        pages_before - freed == pages_after,
        "packing freed {freed} of {pages_before} pages, but {pages_after} are left"
    );
    let packed = after >= PACKED_FILL || page_bytes < 8192 || pages_after < 6;
    ensure!(
        packed && after >= before,
        "packing brought the fill from {before} to {after}"
    );
    hand.verify()?;
    for i in 0..count {
        let expected = (stays(i) && i % 5 >= 3).then(|| key(i));
        let got = hand.get(&key(i), Touch::No)?;
        ensure!(
            got.as_ref().map(|g| &g.1) == expected.as_ref(),
            "record {i} is {got:?} after the sweep"
        );
        if let (Some((found, _)), Some(_)) = (got, expected) {
            let flags = if i % 3 == 0 {
                Flags::DIRTY
            } else {
                Flags::NONE
            };
            let flags = flags.with_use_count(((i % 4) as u8).saturating_sub(1));
            ensure!(
                found.flags == flags,
                "record {i} has {:?}, not {flags:?}",
                found.flags
            );
        }
    }
    Ok(())
}

/// Loads in rising and in falling order fill pages.
///
/// # Errors
/// When the fill is too low.
pub fn sorted_loads_fill_pages<F: Fixture>(
    fixture: &F,
    page_bytes: usize,
    effort: Effort,
) -> Check {
    for kind in [KeyKind::Sorted, KeyKind::Reversed] {
        // Enough for a few leaves even where a leaf has no values.
        let count = effort.records.max(page_bytes / 3);
        let effort = Effort {
            records: count,
            ..effort
        };
        let subject =
            fixture.create(page_bytes, super::memory_pages(fixture, page_bytes, effort))?;
        let hand = Hand { subject: &subject };
        for i in 0..count {
            hand.put(&kind.key(i, count), &[7; 60], Flags::NONE)?;
        }
        let (fill, pages) = fill(&subject)?;
        ensure!(pages >= 4, "{count} records make only {pages} pages");
        ensure!(
            fill >= SORTED_FILL,
            "{kind:?} keys fill {pages} leaves to {fill:.3}"
        );
        hand.verify()?;
    }
    Ok(())
}
