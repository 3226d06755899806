//! Checking a two-tier structure: each tier by itself, then what must hold between them.

use terrace_access::{AccessMethod, Edge, Flags, Ordered, Rooted, Touch, Value, Window};
use terrace_base::{Error, PageId, Result};

use super::save::Saved;
use super::tiers::{Pair, Tiers};

/// See [`Structure::verify`](crate::Structure::verify).
#[allow(clippy::type_complexity)]
pub(super) fn verify<P: Pair>(
    tiers: &Tiers<P>,
    saved: &Saved<P>,
    each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
    page: &mut dyn FnMut(PageId) -> Result<()>,
) -> Result<()> {
    let mut cold_value = Vec::new();
    let damaged = |key: &[u8], what: &str| {
        Error::corrupt(
            "data",
            None,
            format!("{}, key {key:02x?}: {what}", tiers.id()),
        )
    };
    if let Some(hot) = tiers.hot() {
        let same = loop {
            match (hot.try_order(), tiers.cold().try_order()) {
                (Ok(a), Ok(b)) => break a == b,
                (Err(interrupt), _) | (_, Err(interrupt)) => {
                    tiers.store().settle(interrupt)?;
                }
            }
        };
        if !same {
            let what = format!(
                "{}: its tiers have their records in different orders",
                tiers.id()
            );
            return Err(Error::corrupt("data", None, what));
        }
        let mut check = |key: &[u8], flags: Flags, value: Value<'_>| {
            if flags.is_deleted() && !flags.is_dirty() {
                return Err(damaged(key, "a tombstone that is not dirty"));
            }
            if !P::Cold::CAPABILITIES.scans && !flags.is_deleted() {
                each(key, flags, value)?;
            }
            if flags.is_dirty() {
                return Ok(());
            }
            // A clean hot record is a copy of the cold one.
            let found = loop {
                match tiers.cold().try_get(key, Touch::No, &mut cold_value) {
                    Ok(found) => break found,
                    Err(interrupt) => tiers.store().settle(interrupt)?,
                }
            };
            let Some(found) = found else {
                // A merge drops what has expired without a look at the tier above.
                if tiers.expires().may_be_dropped(value) {
                    return Ok(());
                }
                return Err(damaged(
                    key,
                    "clean in the hot tier, but not in the cold one",
                ));
            };
            let same = match (value, found.large) {
                (Value::Inline(bytes), None) => bytes == cold_value,
                (Value::Large(a), Some(b)) => a == b,
                _ => false,
            };
            if same {
                Ok(())
            } else {
                Err(damaged(key, "clean, but not what the cold tier has"))
            }
        };
        // The chain of a clean large record is the cold one's, and is counted there.
        hot.verify(&mut check, page)?;
    }
    if let Some(tree) = saved.tree() {
        tree.verify(&mut |_, _, _| Ok(()), page)?;
    }
    if !P::Cold::CAPABILITIES.scans {
        // Those above have been told already, and are right.
        let mut only_cold = |key: &[u8], flags: Flags, value: Value<'_>| match is_hot(tiers, key)? {
            true => Ok(()),
            false => each(key, flags, value),
        };
        return tiers.cold().verify(&mut only_cold, page);
    }
    tiers.cold().verify(&mut |_, _, _| Ok(()), page)?;
    let mut window = Window::new();
    let mut from = Vec::new();
    loop {
        tiers.scan(Edge::From(&from), &mut window)?;
        for i in 0..window.len() {
            let entry = window.entry(i);
            let value = match entry.large {
                Some(large) => Value::Large(large),
                None => Value::Inline(window.value(i)),
            };
            each(P::Cold::key_at(window.key(i)), entry.flags, value)?;
        }
        match window.high.take() {
            Some(high) => from = high,
            None => return Ok(()),
        }
    }
}

fn is_hot<P: Pair>(tiers: &Tiers<P>, key: &[u8]) -> Result<bool> {
    let Some(hot) = tiers.hot() else {
        return Ok(false);
    };
    loop {
        match hot.try_get(key, Touch::No, &mut Vec::new()) {
            Ok(found) => return Ok(found.is_some()),
            Err(interrupt) => tiers.store().settle(interrupt)?,
        }
    }
}
