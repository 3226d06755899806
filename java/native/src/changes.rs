//! The changes of a database, and removing ranges.

use std::time::Duration;

use jni_sys::{jboolean, jint, jlong};
use terrace_ffi::changes::{self, Next};
use terrace_ffi::map::{Removed, remove_all};
use terrace_ffi::terrace::{ChangesOptions, Rate};
use terrace_ffi::{Failure, Result};

use crate::bulk::ends;
use crate::database::{durability, said};
use crate::env::{Answer, Bytes, Class, Env};

fn options(
    env: Env,
    from: Bytes,
    sync_every: jlong,
    until_now: jboolean,
) -> Result<ChangesOptions> {
    let mut options = ChangesOptions::new();
    if !from.is_null() {
        options = options.from(changes::place_of(&env.text(from)?)?);
    }
    if let Some(every) = said(sync_every) {
        let never = every == jlong::MAX as u64;
        options = options.sync_every((!never).then(|| Duration::from_millis(every)));
    }
    if until_now {
        options = options.until_now();
    }
    Ok(options)
}

pub extern "system" fn begin(
    env: Env,
    _: Class,
    db: jlong,
    from: Bytes,
    sync_every: jlong,
    until_now: jboolean,
) -> jlong {
    env.answer(|| {
        let options = options(env, from, sync_every, until_now)?;
        changes::begin(db as u64, options).map(|changes| changes as jlong)
    })
}

/// Two handles of eight bytes: that of the changes, that of the snapshot.
pub extern "system" fn begin_with_snapshot(
    env: Env,
    _: Class,
    db: jlong,
    sync_every: jlong,
    until_now: jboolean,
) -> Bytes {
    env.answer(|| {
        let options = options(env, Bytes::NOTHING, sync_every, until_now)?;
        let (changes, snapshot) = changes::begin_with_snapshot(db as u64, options)?;
        env.new_bytes(&[changes.to_le_bytes(), snapshot.to_le_bytes()].concat())
    })
}

/// A commit; nothing in it if there is none yet, null if there is none any more. The reader ends with a commit that
/// the JVM has no room for: the next one would follow a gap.
pub extern "system" fn next(env: Env, _: Class, changes: jlong, most_millis: jlong) -> Bytes {
    env.answer(|| {
        let most = Duration::from_millis(said(most_millis).unwrap_or(0));
        let mut commit = Vec::new();
        match changes::next(changes as u64, Some(most), &mut commit)? {
            Next::Commit => env.new_bytes(&commit).inspect_err(|_| {
                let _ = changes::close(changes as u64);
            }),
            Next::NotYet => env.new_bytes(&[]),
            Next::End => Ok(Bytes::NOTHING),
        }
    })
}

pub extern "system" fn place(env: Env, _: Class, changes: jlong) -> Bytes {
    env.answer(|| env.new_bytes(changes::place(changes as u64)?.as_bytes()))
}

pub extern "system" fn remove_range(
    env: Env,
    _: Class,
    map: jlong,
    from: Bytes,
    to: Bytes,
    flags: jint,
    durable: jint,
) -> jlong {
    env.answer(|| {
        let removed = ends(env, from, to, flags, |low, high, _| {
            let (which, durable) = (Removed::Range(low, high), durability(durable));
            remove_all(map as u64, which, durable, Rate::Fast, |_| true)
        })?;
        jlong::try_from(removed).map_err(|_| Failure::invalid("more records than can be said"))
    })
}
