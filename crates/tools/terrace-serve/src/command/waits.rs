//! What commands have in common that wait for an element.

use std::sync::atomic::Ordering;

use super::call::Call;
use crate::stop::{Run, refuse};
use crate::store::codec::{Head, Kind};

/// How long a command waits, in milliseconds; none for ever.
pub fn timeout(c: &Call, i: usize) -> Run<Option<u64>> {
    let seconds = match crate::text::parse_f64(c.args.at(i)) {
        Some(seconds) if seconds.is_finite() && seconds < 9e15 => seconds,
        _ => return refuse("ERR timeout is not a float or out of range"),
    };
    if seconds < 0.0 {
        return refuse("ERR timeout is negative");
    }
    let milliseconds = (seconds * 1000.0).ceil() as u64;
    Ok((milliseconds > 0).then_some(milliseconds))
}

/// Whether others wait for a value of this kind at this key, and have come before.
pub fn others_wait(c: &Call, key: &[u8], kind: Kind) -> bool {
    let place = (c.work.db as u8, key.to_vec());
    c.work.signals.others_wait(&place, c.session.id, kind)
}

/// The head of a key of this kind. One of another kind is nothing to who waits already, as in Redis.
pub fn waited_for(c: &mut Call, key: &[u8], kind: Kind) -> Run<Option<Head>> {
    match c.session.info.blocked.load(Ordering::SeqCst) {
        true => Ok(c.work.head(key)?.filter(|head| head.kind == kind)),
        false => c.work.typed(key, kind),
    }
}
