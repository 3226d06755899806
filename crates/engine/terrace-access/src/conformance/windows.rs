//! Windows: they tile the key space, and the membership counter tells when one is out of date.

use terrace_base::Result;

use super::methods::Hand;
use super::{Check, Effort, Fixture, KeyKind, Random, Subject, ensure, position, settled};
use crate::{Attempt, Edge, Flags, NoRoom, Ordered, Plan, Sweep, Tier, Value, Window};

fn window<M: Tier>(subject: &Subject<M>, edge: Edge<'_>) -> Result<Window> {
    let mut window = Window::new();
    settled(&subject.store, || {
        subject.method.try_reach(edge)?;
        subject.method.try_window(edge, &mut window)
    })?;
    Ok(window)
}

/// What is stored under a key.
fn value_of(key: &[u8]) -> &[u8] {
    &key[..key.len().min(100)]
}

/// Windows upwards and downwards cover every position exactly once, and hold every record.
///
/// # Errors
/// Where they do not.
pub fn windows_tile<F: Fixture>(fixture: &F, page_bytes: usize, effort: Effort) -> Check {
    for kind in [KeyKind::Random, KeyKind::PrefixHeavy, KeyKind::Long] {
        let subject =
            fixture.create(page_bytes, super::memory_pages(fixture, page_bytes, effort))?;
        let hand = Hand { subject: &subject };
        let count = if kind == KeyKind::Long {
            effort.records / 8
        } else {
            effort.records
        };
        let mut keys = Vec::new();
        let empty = window(&subject, Edge::End)?;
        ensure!(
            empty.is_empty() && empty.low.is_empty() && empty.high.is_none(),
            "{empty:?}"
        );
        for i in kind.order(count, &mut Random::new(effort.seed)) {
            let key = kind.key(i, count);
            hand.put(
                &key,
                value_of(&key),
                if i % 4 < 2 { Flags::NONE } else { Flags::DIRTY },
            )?;
            keys.push(position(&subject, &key)?);
        }
        keys.sort();
        keys.dedup();
        up(&subject, &keys)?;
        down(&subject, &keys)?;
        inside(&subject, &keys)?;
    }
    Ok(())
}

fn sound<M: Tier>(window: &Window) -> Check {
    for i in 0..window.len() {
        let (key, record) = (window.key(i), M::key_at(window.key(i)));
        let inside = *key >= *window.low && window.high.as_ref().is_none_or(|high| key < high);
        let rising = i == 0 || window.key(i - 1) < key;
        ensure!(
            inside && rising,
            "record {i} of a window is out of place: {key:?}"
        );
        ensure!(
            window.value(i) == value_of(record),
            "record {i} of a window has another's value"
        );
    }
    Ok(())
}

fn up<M: Tier>(subject: &Subject<M>, keys: &[Vec<u8>]) -> Check {
    let mut expected = keys.iter();
    let mut at = Vec::new();
    loop {
        let window = window(subject, Edge::From(&at))?;
        ensure!(
            window.low == at,
            "the window from {at:?} begins at {:?}",
            window.low
        );
        sound::<M>(&window)?;
        for i in 0..window.len() {
            let next = expected.next();
            ensure!(
                next.is_some_and(|k| k == window.key(i)),
                "{:?} came, not {next:?}",
                window.key(i)
            );
        }
        match window.high {
            None => break,
            Some(high) => {
                ensure!(high > at, "the window from {at:?} ends at {high:?}");
                at = high;
            }
        }
    }
    ensure!(
        expected.next().is_none(),
        "upwards records are missing at the end"
    );
    Ok(())
}

fn down<M: Tier>(subject: &Subject<M>, keys: &[Vec<u8>]) -> Check {
    let mut expected = keys.iter().rev();
    let mut below: Option<Vec<u8>> = None;
    loop {
        let edge = below.as_ref().map_or(Edge::End, |key| Edge::Below(key));
        let window = window(subject, edge)?;
        ensure!(
            window.high == below,
            "the window below {below:?} ends at {:?}",
            window.high
        );
        sound::<M>(&window)?;
        for i in (0..window.len()).rev() {
            let next = expected.next();
            ensure!(
                next.is_some_and(|k| k == window.key(i)),
                "{:?} came, not {next:?}",
                window.key(i)
            );
        }
        if window.low.is_empty() {
            break;
        }
        below = Some(window.low);
    }
    ensure!(
        expected.next().is_none(),
        "downwards records are missing at the end"
    );
    Ok(())
}

/// Windows at keys inside leaves, the held variant, and the selecting one.
fn inside<M: Tier>(subject: &Subject<M>, keys: &[Vec<u8>]) -> Check {
    let Subject { store, method, .. } = subject;
    let mut held = Window::new();
    let mut selected = Window::new();
    for key in keys.iter().step_by(37) {
        let from = window(subject, Edge::From(key))?;
        let at = from.lower_bound(key);
        ensure!(
            at < from.len() && from.key(at) == key,
            "the window from {key:?} lacks it"
        );
        let below = window(subject, Edge::Below(key))?;
        let covers = below.low < *key && below.high.as_ref().is_none_or(|high| key <= high);
        ensure!(
            covers || key.is_empty(),
            "{:?} is not just below {key:?}",
            below.low
        );
        let mut called = false;
        settled(store, || {
            method.try_window_held(Edge::From(key), &mut held, &mut |_| -> Attempt<()> {
                called = true;
                Ok(())
            })
        })?;
        ensure!(called, "nothing was done inside of a held window");
        agree(key, &from, &held, &|_| true)?;
        // Not use counts: those are hints, and lost when a page leaves memory.
        let used = Flags::is_dirty;
        settled(store, || {
            method.try_window_if(Edge::From(key), &mut |f| used(f), &mut selected)
        })?;
        ensure!(
            (0..selected.len()).all(|i| used(selected.entry(i).flags)),
            "a selecting window has records that were not asked for"
        );
        agree(key, &from, &selected, &used)?;
        bounded(subject, key, &from)?;
    }
    Ok(())
}

/// The windows that end where the caller says, and those that are nothing but a range, at the position
/// of a record of the window `from`.
fn bounded<M: Tier>(subject: &Subject<M>, at: &[u8], from: &Window) -> Check {
    let Subject { store, method, .. } = subject;
    let mut part = Window::new();
    let first = from.lower_bound(at);
    let ends = [first, first + 1, first + 5, from.len() - 1, from.len()];
    for end in ends
        .into_iter()
        .filter(|&end| end >= first && end <= from.len())
    {
        let high = match end == from.len() {
            true => from.high.as_deref(),
            false => Some(from.key(end)),
        };
        // An empty range has no place.
        if high == Some(at) {
            continue;
        }
        settled(store, || {
            method.try_window_within(at, high, &mut |_| true, &mut part)
        })?;
        let beyond = match (high, part.high.as_deref()) {
            (Some(high), Some(end)) => end > high,
            (high, end) => high.is_some() && end.is_none(),
        };
        ensure!(
            part.low == at && !beyond,
            "a window within {at:?} and {high:?} covers {:?} to {:?}",
            part.low,
            part.high
        );
        agree(at, from, &part, &|_| true)?;
        sound::<M>(&part)?;
    }
    let mut span = Window::new();
    settled(store, || method.try_span(at, &mut span))?;
    settled(store, || method.try_near(at, &mut part))?;
    for window in [&span, &part] {
        let covers = *window.low <= *at && window.high.as_deref().is_none_or(|high| at < high);
        ensure!(
            covers && window.is_empty(),
            "the range around {at:?} is {:?} to {:?}, with {} records",
            window.low,
            window.high,
            window.len()
        );
    }
    let wider = match (&span.high, &part.high) {
        (Some(span), Some(near)) => near > span,
        (span, near) => span.is_some() && near.is_none(),
    };
    ensure!(
        span.low <= part.low && !wider,
        "what is near {at:?} is more than its leaf"
    );
    Ok(())
}

/// Two windows at a position have the same records, of those that are wanted, where both cover; and
/// that position is covered by both.
fn agree(at: &[u8], a: &Window, b: &Window, wanted: &dyn Fn(Flags) -> bool) -> Check {
    for window in [a, b] {
        let covers = *window.low <= *at && window.high.as_ref().is_none_or(|high| at < &**high);
        ensure!(covers, "a window does not cover {at:?}");
    }
    let inside = |window: &Window| {
        let end = |high: &Option<Vec<u8>>| {
            let end = high.as_ref().map(|high| window.lower_bound(high));
            end.unwrap_or(window.len())
        };
        let start = window.lower_bound(a.low.as_slice().max(&b.low));
        let end = end(&a.high).min(end(&b.high));
        let indexes = (start..end).filter(|&i| wanted(window.entry(i).flags));
        let record = |i| (window.key(i).to_vec(), window.value(i).to_vec());
        indexes.map(record).collect::<Vec<_>>()
    };
    let (left, right) = (inside(a), inside(b));
    ensure!(
        left == right,
        "of {} records of a window another has {}",
        left.len(),
        right.len()
    );
    Ok(())
}

/// `still_same` after changes in place; not after anything that changes who is in the leaf.
///
/// # Errors
/// When it says the wrong thing.
pub fn membership_tells<F: Fixture>(fixture: &F, page_bytes: usize, effort: Effort) -> Check {
    let subject = fixture.create(page_bytes, super::memory_pages(fixture, page_bytes, effort))?;
    let Subject { store, method, .. } = &subject;
    let hand = Hand { subject: &subject };
    let key = |i: usize| KeyKind::Random.key(i, 0);
    for i in 0..effort.records {
        hand.put(&key(i), &[1; 60], Flags::NONE)?;
    }
    for i in 0..effort.records.min(200) {
        let key = key(i * 7 % effort.records);
        let at = position(&subject, &key)?;
        let same = |window: &Window, what: &str, expected: bool| -> Check {
            let same = method.still_same(window);
            ensure!(
                same == expected,
                "after {what} a window is {}",
                if same { "the same" } else { "stale" }
            );
            Ok(())
        };
        // Everything is in memory while nothing else is asked for.
        let seen = window(&subject, Edge::From(&at))?;
        same(&seen, "nothing", true)?;
        hand.edit(&key, Plan::Flags(Flags::DIRTY), &mut NoRoom)?;
        same(&seen, "setting flags", true)?;
        hand.put(&key, &[2; 60], Flags::NONE)?;
        same(&seen, "a change in place", true)?;
        hand.put(&key, &[2; 50], Flags::NONE)?;
        same(&seen, "a shrinking change", true)?;
        hand.erase(&key)?;
        same(&seen, "an erase", false)?;
        let seen = window(&subject, Edge::From(&at))?;
        hand.put(&key, &[3; 60], Flags::NONE)?;
        same(&seen, "an insert", false)?;
        // Until the leaf has been split: both halves.
        let seen = window(&subject, Edge::From(&at))?;
        let mut more = key.clone();
        if i % 20 == 0 {
            let mut n = 0u32;
            while window(&subject, Edge::From(&at))?.high == seen.high
                && window(&subject, Edge::From(&at))?.low == seen.low
            {
                more.truncate(key.len());
                more.extend_from_slice(&n.to_be_bytes());
                n += 1;
                // Only what belongs to this leaf, wherever the others would go.
                let at = position(&subject, &more)?;
                if at >= seen.low && seen.high.as_ref().is_none_or(|high| at < *high) {
                    hand.put(&more, &[4; 90], Flags::NONE)?;
                }
            }
            same(&seen, "a split", false)?;
        }
    }
    packing(&subject)?;
    let _ = store;
    Ok(())
}

/// Packing changes both leaves.
fn packing<M: Sweep + Tier>(subject: &Subject<M>) -> Check {
    let Subject { store, method, .. } = subject;
    let mut position: Vec<u8> = Vec::new();
    let mut before: Option<Window> = None;
    let mut packed = 0;
    loop {
        let now = window(subject, Edge::From(&position))?;
        if let Some(left) = before.take() {
            // The predecessor once more, so that both are in memory.
            let left = window(subject, Edge::From(&left.low))?;
            settled(store, || {
                let door = store.enter()?;
                method.try_pack(&door, &position, 0.95)
            })?;
            let after = window(subject, Edge::From(&left.low))?;
            if after.len() != left.len() {
                packed += 1;
                ensure!(
                    !method.still_same(&left),
                    "packing left its target's window valid"
                );
                ensure!(
                    !method.still_same(&now),
                    "packing left its source's window valid"
                );
            }
        }
        before = Some(window(subject, Edge::From(&position))?);
        match before.as_ref().and_then(|w| w.high.clone()) {
            Some(high) => position = high,
            None => break,
        }
    }
    ensure!(packed > 0, "nothing was packed");
    for i in 0..3 {
        // What is there still works after all that.
        let key = KeyKind::Random.key(i, 0);
        let plan = Plan::Put(Value::Inline(b"x"), Flags::NONE);
        Hand { subject }.edit(&key, plan, &mut NoRoom)?;
    }
    Hand { subject }.verify()?;
    Ok(())
}
