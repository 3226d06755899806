//! Checking a two-tier structure: each tier by itself, then what must hold between them.

use terrace_access::{Edge, Flags, Sweep, Tier, Touch, Value, Window};
use terrace_base::{Error, PageId, Result};

use super::Tiered;
use crate::structure::Structure;

/// See [`Structure::verify`].
#[allow(clippy::type_complexity)]
pub(crate) fn verify<H: Sweep + Tier, C: Tier<Order = H::Order>>(
    tiered: &Tiered<H, C>,
    each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
    page: &mut dyn FnMut(PageId) -> Result<()>,
) -> Result<()> {
    let mut cold_value = Vec::new();
    let damaged = |key: &[u8], what: &str| {
        Error::corrupt(
            "data",
            None,
            format!("{}, key {key:02x?}: {what}", tiered.id()),
        )
    };
    if let Some(hot) = tiered.hot() {
        let same = loop {
            match (hot.try_order(), tiered.cold.try_order()) {
                (Ok(a), Ok(b)) => break a == b,
                (Err(interrupt), _) | (_, Err(interrupt)) => {
                    tiered.context.store.settle(interrupt)?;
                }
            }
        };
        if !same {
            let what = format!(
                "{}: its tiers have their records in different orders",
                tiered.id()
            );
            return Err(Error::corrupt("data", None, what));
        }
        let mut check = |key: &[u8], flags: Flags, value: Value<'_>| {
            if flags.is_deleted() && !flags.is_dirty() {
                return Err(damaged(key, "a tombstone that is not dirty"));
            }
            if !C::SCANS && !flags.is_deleted() {
                each(key, flags, value)?;
            }
            if flags.is_dirty() {
                return Ok(());
            }
            // A clean hot record is a copy of the cold one.
            let found = loop {
                match tiered.cold.try_get(key, Touch::No, &mut cold_value) {
                    Ok(found) => break found,
                    Err(interrupt) => tiered.context.store.settle(interrupt)?,
                }
            };
            let Some(found) = found else {
                // A merge drops what has expired without a look at the tier above.
                if tiered.expires.may_be_dropped(value) {
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
    if !C::SCANS {
        // Those above have been told already, and are right.
        let mut only_cold = |key: &[u8], flags: Flags, value: Value<'_>| match is_hot(tiered, key)?
        {
            true => Ok(()),
            false => each(key, flags, value),
        };
        return tiered.cold.verify(&mut only_cold, page);
    }
    tiered.cold.verify(&mut |_, _, _| Ok(()), page)?;
    let mut window = Window::new();
    let mut from = Vec::new();
    loop {
        tiered.scan_only(Edge::From(&from), &mut window)?;
        for i in 0..window.len() {
            let entry = window.entry(i);
            let value = match entry.large {
                Some(large) => Value::Large(large),
                None => Value::Inline(window.value(i)),
            };
            each(C::key_at(window.key(i)), entry.flags, value)?;
        }
        match window.high.take() {
            Some(high) => from = high,
            None => return Ok(()),
        }
    }
}

fn is_hot<H: Sweep + Tier, C: Tier<Order = H::Order>>(
    tiered: &Tiered<H, C>,
    key: &[u8],
) -> Result<bool> {
    let Some(hot) = tiered.hot() else {
        return Ok(false);
    };
    loop {
        match hot.try_get(key, Touch::No, &mut Vec::new()) {
            Ok(found) => return Ok(found.is_some()),
            Err(interrupt) => tiered.context.store.settle(interrupt)?,
        }
    }
}
