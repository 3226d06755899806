//! Records that expire, in structures that are made for it ([`terrace::MapOptions::expiring`]). Times cross the border
//! as milliseconds since 1970, and [`NEVER`].

use std::time::{Duration, UNIX_EPOCH};

use terrace::{Durability, Expires};

use crate::enter::{entered, map};
use crate::failure::{Failure, Result};
use crate::object::Object;

/// A record that stays until a caller removes it.
pub const NEVER: u64 = u64::MAX;

/// Until when, of what crossed the border. A time that no clock can say is never.
pub(crate) fn expires_at(ms: u64) -> Expires {
    let time = (ms != NEVER).then(|| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    time.flatten().map_or(Expires::Never, Expires::At)
}

/// What crosses the border of it.
pub(crate) fn millis(expires: Expires) -> u64 {
    expires.at().map_or(NEVER, |time| {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(NEVER)
    })
}

/// Stores a value that is there for this many milliseconds.
///
/// # Errors
/// Those of [`terrace::Map::put_for`].
pub fn put_for(handle: u64, key: &[u8], value: &[u8], ms: u64) -> Result<()> {
    map(handle, |map| {
        map.put_for(key, value, Duration::from_millis(ms))
    })
}

/// Stores a value that is there until a time.
///
/// # Errors
/// Those of [`terrace::Map::put_expiring`].
pub fn put_until(
    handle: u64,
    key: &[u8],
    value: &[u8],
    time_ms: u64,
    durability: Option<Durability>,
) -> Result<()> {
    let expires = expires_at(time_ms);
    map(handle, |map| match durability {
        None => map.put_expiring(key, value, expires),
        Some(durability) => map.put_expiring_with(key, value, expires, durability),
    })
}

/// Has a record expire in this many milliseconds, or [`NEVER`]; whether it is there.
///
/// # Errors
/// Those of [`terrace::Map::expire_in`].
pub fn expire_in(handle: u64, key: &[u8], ms: u64) -> Result<bool> {
    let duration = (ms != NEVER).then(|| Duration::from_millis(ms));
    map(handle, |map| map.expire_in(key, duration))
}

/// Has a record expire at a time, or [`NEVER`]; whether it is there.
///
/// # Errors
/// Those of [`terrace::Map::expire`].
pub fn expire_at(handle: u64, key: &[u8], time_ms: u64) -> Result<bool> {
    map(handle, |map| map.expire(key, expires_at(time_ms)))
}

/// Until when a record is there, or [`NEVER`]; none if it is not there.
///
/// # Errors
/// Those of [`terrace::Map::expires`].
pub fn expires(handle: u64, key: &[u8]) -> Result<Option<u64>> {
    let found = entered(handle, "structure", |entry| match &entry.object {
        Object::Map(map) => Some(map.expires(key).map_err(Failure::from)),
        Object::SnapshotMap(map) => Some(map.expires(key).map_err(Failure::from)),
        _ => None,
    })?;
    Ok(found.map(millis))
}
