//! What stands around a transaction.

use std::sync::atomic::Ordering;

use super::call::Call;
use super::connection::unwatch_all;
use crate::planted::{Fault, planted};
use crate::session::Multi;
use crate::stop::{Run, refuse};

/// `MULTI`.
pub fn multi(c: &mut Call) -> Run {
    if c.session.multi.is_some() {
        return refuse("ERR MULTI calls can not be nested");
    }
    c.session.multi = Some(Multi::default());
    c.session.info.queued.store(1, Ordering::Relaxed);
    c.out.ok();
    Ok(())
}

/// `DISCARD`.
pub fn discard(c: &mut Call) -> Run {
    if c.session.multi.take().is_none() {
        return refuse("ERR DISCARD without MULTI");
    }
    c.session.info.queued.store(0, Ordering::Relaxed);
    unwatch_all(c);
    c.out.ok();
    Ok(())
}

/// Removes those of the keys that have expired and are still there: that is no change of what is watched from now on.
fn forget_past(c: &mut Call) -> Run {
    let (now, mut expired) = (c.work.now, 0);
    for key in c.args.from(1) {
        if c.work.expires(key)?.is_some_and(|at| at <= now) {
            c.work.remove_expired(key)?;
            c.work.event(b'x', "expired", key);
            expired += 1;
        }
    }
    if expired > 0 {
        c.work.commit()?;
        c.host.counts.expired.fetch_add(expired, Ordering::Relaxed);
        // Writing it has given the keys back.
        c.work.lock(c.args.from(1))?;
    }
    Ok(())
}

/// `WATCH`; the caller holds the keys.
pub fn watch(c: &mut Call) -> Run {
    if c.session.multi.is_some() {
        return refuse("ERR WATCH inside MULTI is not allowed");
    }
    forget_past(c)?;
    for key in c.args.from(1) {
        let head = c.work.head(key)?;
        let place = (c.work.db as u8, key.to_vec());
        let watched = &mut c.session.watched;
        if watched.places.iter().any(|(known, _)| *known == place) {
            continue;
        }
        c.work.signals.watch(place.clone(), &watched.watch);
        watched
            .places
            .push((place, head.and_then(|head| head.expires)));
        if planted(Fault::WatchByValue) {
            let text = head.map_or_else(Vec::new, |_| c.work.text().to_vec());
            watched.values.push(text);
        }
    }
    c.out.ok();
    Ok(())
}

/// `UNWATCH`.
pub fn unwatch(c: &mut Call) -> Run {
    unwatch_all(c);
    c.out.ok();
    Ok(())
}
