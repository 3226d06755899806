//! Many records at a time: batches, cursors, keys, loaders.

use std::cell::Cell;
use std::ops::Bound;

use jni_sys::{jint, jlong};
use terrace_ffi::{Failure, Result, batch, cursor, encoding, load, map};

use crate::database::durability;
use crate::env::{Bytes, Class, Env, Longs, ManyBytes};

/// Longer room is not kept.
const KEPT_BYTES: usize = 2 << 20;

/// Flags of ranges, as `Native` has them.
const FROM: jint = 1;
const FROM_EXCLUDED: jint = 2;
const TO: jint = 4;
const TO_INCLUDED: jint = 8;
const DESCENDING: jint = 16;

thread_local! {
    /// Room for what crosses.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn lent<R>(call: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut room = ROOM.try_with(Cell::take).unwrap_or_default();
    let answer = call(&mut room);
    if room.capacity() <= KEPT_BYTES {
        // At the end of a thread there is nowhere to keep it.
        let _ = ROOM.try_with(|kept| kept.set(room));
    }
    answer
}

/// Calls with the ends of a range, and whether it goes down.
pub fn ends<R>(
    env: Env,
    from: Bytes,
    to: Bytes,
    flags: jint,
    call: impl FnOnce(Bound<&[u8]>, Bound<&[u8]>, bool) -> Result<R>,
) -> Result<R> {
    let has = |flag| flags & flag != 0;
    let (from, to) = (
        env.all(from).unwrap_or_default(),
        env.all(to).unwrap_or_default(),
    );
    let low = match (has(FROM), has(FROM_EXCLUDED)) {
        (false, _) => Bound::Unbounded,
        (true, false) => Bound::Included(&from[..]),
        (true, true) => Bound::Excluded(&from[..]),
    };
    let high = match (has(TO), has(TO_INCLUDED)) {
        (false, _) => Bound::Unbounded,
        (true, true) => Bound::Included(&to[..]),
        (true, false) => Bound::Excluded(&to[..]),
    };
    call(low, high, has(DESCENDING))
}

pub extern "system" fn get_all(
    env: Env,
    _: Class,
    map: jlong,
    keys: Bytes,
    len: jint,
) -> ManyBytes {
    env.answer(|| {
        let values = lent(|room| {
            env.fill(keys, len, room)?;
            map::get_many(map as u64, &encoding::keys(room)?)
        })?;
        env.many(&values)
    })
}

pub extern "system" fn range(
    env: Env,
    _: Class,
    of: jlong,
    from: Bytes,
    to: Bytes,
    flags: jint,
) -> jlong {
    env.answer(|| {
        ends(env, from, to, flags, |low, high, down| {
            cursor::range(of as u64, low, high, down)
        })
        .map(|c| c as jlong)
    })
}

pub extern "system" fn index_range(
    env: Env,
    _: Class,
    index: jlong,
    from: Bytes,
    to: Bytes,
    flags: jint,
) -> jlong {
    env.answer(|| {
        ends(env, from, to, flags, |low, high, down| {
            cursor::index_range(index as u64, low, high, down)
        })
        .map(|c| c as jlong)
    })
}

pub extern "system" fn window(
    env: Env,
    _: Class,
    cursor: jlong,
    into: Bytes,
    capacity: jint,
) -> Bytes {
    env.answer(|| {
        lent(|room| {
            let most = usize::try_from(capacity).unwrap_or(0);
            cursor::window(cursor as u64, most, room)?;
            if room.len() > most {
                // One record that is longer. The cursor ends with one that the JVM has no room for: the next one would
                // follow a gap.
                return env.new_bytes(room).inspect_err(|_| {
                    let _ = cursor::close(cursor as u64);
                });
            }
            env.write_some(into, capacity, room);
            Ok(into)
        })
    })
}

pub extern "system" fn write(
    env: Env,
    _: Class,
    db: jlong,
    maps: Longs,
    count: jint,
    bytes: Bytes,
    len: jint,
    durable: jint,
) {
    env.answer(|| {
        let maps: Vec<u64> = env
            .longs(maps, count)?
            .into_iter()
            .map(|map| map as u64)
            .collect();
        lent(|room| {
            env.fill(bytes, len, room)?;
            batch::write_encoded(db as u64, &maps, room, durability(durable))
        })
    });
}

pub extern "system" fn loader(env: Env, _: Class, map: jlong) -> jlong {
    env.answer(|| load::begin(map as u64).map(|loader| loader as jlong))
}

pub extern "system" fn load(env: Env, _: Class, loader: jlong, records: Bytes, len: jint) {
    env.answer(|| {
        lent(|room| {
            env.fill(records, len, room)?;
            let mut at = 4;
            while at < room.len() {
                let (key, value, next) = encoding::record_at(room, at)
                    .ok_or_else(|| Failure::invalid("a window of records ends too early"))?;
                load::put(loader as u64, key, value)?;
                at = next;
            }
            Ok(())
        })
    });
}

pub extern "system" fn finish(env: Env, _: Class, loader: jlong) -> jlong {
    use terrace_ffi::terrace::Durability;
    env.answer(|| Ok(load::finish(loader as u64, Durability::Buffered, |_| ())? as jlong))
}
