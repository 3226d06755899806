//! One record at a time.

use jni_sys::{jboolean, jint, jlong};
use terrace_ffi::terrace::Merge;
use terrace_ffi::{Failure, Result, expiring, map};

use crate::database::{durability, said};
use crate::env::{Answer, Bytes, Class, Env};

#[inline]
pub extern "system" fn get(env: Env, _: Class, map: jlong, key: Bytes, len: jint) -> Bytes {
    env.answer(|| {
        env.with_one(key, len, |key| {
            let found = map::get_with(map as u64, key, |value| env.new_bytes(value))?;
            found.unwrap_or(Ok(Bytes::NOTHING))
        })
    })
}

pub extern "system" fn get_into(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    len: jint,
    into: Bytes,
    capacity: jint,
) -> jint {
    env.answer(|| {
        env.with_one(key, len, |key| {
            let found = map::get_with(map as u64, key, |value| {
                env.write_some(into, capacity, value);
                // Values are shorter than 2 GiB.
                value.len() as jint
            })?;
            Ok(found.unwrap_or(-1))
        })
    })
}

pub extern "system" fn contains(env: Env, _: Class, map: jlong, key: Bytes, len: jint) -> jboolean {
    env.answer(|| env.with_one(key, len, |key| map::contains(map as u64, key)))
}

pub extern "system" fn is_empty(env: Env, _: Class, map: jlong) -> jboolean {
    env.answer(|| map::is_empty(map as u64))
}

pub extern "system" fn estimate(env: Env, _: Class, map: jlong) -> jlong {
    env.answer(|| Ok(map::estimated_len(map as u64)? as jlong))
}

#[allow(clippy::too_many_arguments)]
pub extern "system" fn put(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    key_len: jint,
    value: Bytes,
    value_len: jint,
    durable: jint,
) {
    env.answer(|| {
        env.with([(key, key_len), (value, value_len)], |key, value| {
            map::put(map as u64, key, value, durability(durable))
        })
    });
}

pub extern "system" fn delete(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    len: jint,
    durable: jint,
) {
    env.answer(|| {
        env.with_one(key, len, |key| {
            map::delete(map as u64, key, durability(durable))
        })
    });
}

#[allow(clippy::too_many_arguments)]
pub extern "system" fn insert(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    key_len: jint,
    value: Bytes,
    value_len: jint,
    durable: jint,
) -> jboolean {
    env.answer(|| {
        env.with([(key, key_len), (value, value_len)], |key, value| {
            map::insert(map as u64, key, value, durability(durable))
        })
    })
}

pub extern "system" fn remove(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    len: jint,
    durable: jint,
) -> Bytes {
    env.answer(|| {
        let removed = env.with_one(key, len, |key| {
            map::remove(map as u64, key, durability(durable))
        })?;
        removed.map_or(Ok(Bytes::NOTHING), |value| env.new_bytes(&value))
    })
}

#[allow(clippy::too_many_arguments)]
pub extern "system" fn merge(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    len: jint,
    what: jint,
    number: jlong,
    one: Bytes,
    two: Bytes,
    durable: jint,
) -> jboolean {
    env.answer(|| {
        let (one, two) = (env.all(one), env.all(two));
        let bytes = one.clone().unwrap_or_default();
        let merge = match what {
            0 => Merge::Add(number),
            1 => Merge::AddUnsigned(number),
            2 => Merge::Min(bytes),
            3 => Merge::Max(bytes),
            4 => Merge::Append {
                bytes,
                limit: usize::try_from(number).unwrap_or(0),
            },
            5 => Merge::SetIfAbsent(bytes),
            6 => Merge::CompareAndSet {
                expected: one,
                new: two,
            },
            other => return Err(Failure::invalid(format!("there is no merge {other}"))),
        };
        env.with_one(key, len, |key| {
            map::merge(map as u64, key, merge, durability(durable))
        })
    })
}

fn bytes(env: Env, array: Bytes) -> Result<Vec<u8>> {
    env.all(array)
        .ok_or_else(|| Failure::invalid("an array is null"))
}

/// A time of Java's: a negative one is never.
fn millis(number: jlong) -> u64 {
    said(number).unwrap_or(expiring::NEVER)
}

pub extern "system" fn put_for(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    value: Bytes,
    ms: jlong,
) {
    env.answer(|| {
        let (key, value) = (bytes(env, key)?, bytes(env, value)?);
        expiring::put_for(map as u64, &key, &value, said(ms).unwrap_or(0))
    });
}

pub extern "system" fn put_until(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    value: Bytes,
    time: jlong,
    durable: jint,
) {
    env.answer(|| {
        let (key, value) = (bytes(env, key)?, bytes(env, value)?);
        expiring::put_until(map as u64, &key, &value, millis(time), durability(durable))
    });
}

pub extern "system" fn expire_in(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    ms: jlong,
) -> jboolean {
    env.answer(|| expiring::expire_in(map as u64, &bytes(env, key)?, millis(ms)))
}

pub extern "system" fn expire_at(
    env: Env,
    _: Class,
    map: jlong,
    key: Bytes,
    time: jlong,
) -> jboolean {
    env.answer(|| expiring::expire_at(map as u64, &bytes(env, key)?, millis(time)))
}

/// Milliseconds since 1970; -1 is never, -2 that it is not there.
pub extern "system" fn expires(env: Env, _: Class, map: jlong, key: Bytes) -> jlong {
    env.answer(|| {
        let found = expiring::expires(map as u64, &bytes(env, key)?)?;
        Ok(found.map_or(-2, |ms| jlong::try_from(ms).unwrap_or(-1)))
    })
}
