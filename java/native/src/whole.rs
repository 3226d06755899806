//! What concerns the whole database: transactions, snapshots, figures, backups.

use std::time::{Duration, UNIX_EPOCH};

use jni_sys::{jboolean, jint, jlong};
use terrace_ffi::terrace::{Options, Rate, RestoreTo, TransactionOptions};
use terrace_ffi::{Result, backup, database, snapshot, transaction};

use crate::bulk::ends;
use crate::database::{durability, lines, parsed, said};
use crate::env::{Answer, Attempt, Bytes, Class, Env};

fn rate(bytes_per_second: jlong) -> Rate {
    match said(bytes_per_second) {
        Some(0) | None => Rate::Gentle,
        Some(most) if most == jlong::MAX as u64 => Rate::Fast,
        Some(bytes) => Rate::BytesPerSecond(bytes),
    }
}

pub extern "system" fn transaction(
    env: Env,
    _: Class,
    db: jlong,
    durable: jint,
    attempts: jint,
    reads: jboolean,
    attempt: Attempt,
) {
    env.answer(|| {
        let attempts = u32::try_from(attempts).unwrap_or(1).max(1);
        let mut options = TransactionOptions::new().attempts(attempts);
        if let Some(durability) = durability(durable) {
            options = options.durability(durability);
        }
        let call = |transaction| env.run(attempt, transaction);
        match reads {
            true => transaction::read(db as u64, options, call),
            false => transaction::run(db as u64, options, call),
        }
    });
}

pub extern "system" fn transaction_get(
    env: Env,
    _: Class,
    transaction: jlong,
    map: jlong,
    key: Bytes,
    len: jint,
) -> Bytes {
    env.answer(|| {
        let found = env.with_one(key, len, |key| {
            transaction::get(transaction as u64, map as u64, key)
        })?;
        found.map_or(Ok(Bytes::NOTHING), |value| env.new_bytes(&value))
    })
}

#[allow(clippy::too_many_arguments)]
pub extern "system" fn transaction_put(
    env: Env,
    _: Class,
    transaction: jlong,
    map: jlong,
    key: Bytes,
    key_len: jint,
    value: Bytes,
    value_len: jint,
) {
    env.answer(|| {
        env.with([(key, key_len), (value, value_len)], |key, value| {
            transaction::put(transaction as u64, map as u64, key, value)
        })
    });
}

pub extern "system" fn transaction_delete(
    env: Env,
    _: Class,
    transaction: jlong,
    map: jlong,
    key: Bytes,
    len: jint,
) {
    env.answer(|| {
        env.with_one(key, len, |key| {
            transaction::delete(transaction as u64, map as u64, key)
        })
    });
}

pub extern "system" fn transaction_range(
    env: Env,
    _: Class,
    transaction: jlong,
    map: jlong,
    from: Bytes,
    to: Bytes,
    flags: jint,
) -> jlong {
    env.answer(|| {
        ends(env, from, to, flags, |low, high, down| {
            transaction::range(transaction as u64, map as u64, low, high, down)
        })
        .map(|cursor| cursor as jlong)
    })
}

#[allow(clippy::too_many_arguments)]
pub extern "system" fn transaction_index_range(
    env: Env,
    _: Class,
    transaction: jlong,
    table: jlong,
    index: Bytes,
    from: Bytes,
    to: Bytes,
    flags: jint,
) -> jlong {
    env.answer(|| {
        let index = env.text(index)?;
        ends(env, from, to, flags, |low, high, down| {
            transaction::index_range(transaction as u64, table as u64, &index, low, high, down)
        })
        .map(|cursor| cursor as jlong)
    })
}

pub extern "system" fn snapshot(env: Env, _: Class, db: jlong, most_millis: jlong) -> jlong {
    env.answer(|| {
        let most = said(most_millis).map(Duration::from_millis);
        database::snapshot(db as u64, most).map(|snapshot| snapshot as jlong)
    })
}

pub extern "system" fn snapshot_time(env: Env, _: Class, of: jlong) -> jlong {
    env.answer(|| {
        let since = snapshot::time(of as u64)?.duration_since(UNIX_EPOCH);
        Ok(since.map_or(0, |since| since.as_millis() as jlong))
    })
}

pub extern "system" fn snapshot_sequence(env: Env, _: Class, of: jlong) -> jlong {
    env.answer(|| snapshot::sequence(of as u64).map(|sequence| sequence as jlong))
}

pub extern "system" fn snapshot_structure(env: Env, _: Class, of: jlong, name: Bytes) -> jlong {
    env.answer(|| snapshot::structure(of as u64, &env.text(name)?).map(|map| map as jlong))
}

pub extern "system" fn sync(env: Env, _: Class, db: jlong) {
    env.answer(|| database::sync(db as u64));
}

pub extern "system" fn checkpoint(env: Env, _: Class, db: jlong) {
    env.answer(|| database::checkpoint(db as u64));
}

pub extern "system" fn mark(env: Env, _: Class, db: jlong, name: Bytes) -> jlong {
    env.answer(|| database::mark(db as u64, &env.text(name)?).map(|sequence| sequence as jlong))
}

fn told(env: Env, call: impl FnOnce() -> Result<String>) -> Bytes {
    env.answer(|| env.new_bytes(call()?.as_bytes()))
}

pub extern "system" fn compact(env: Env, _: Class, db: jlong, bytes_per_second: jlong) -> Bytes {
    told(env, || {
        database::compact_json(db as u64, rate(bytes_per_second), &mut |_| true)
    })
}

pub extern "system" fn verify(env: Env, _: Class, of: jlong, is_snapshot: jboolean) -> Bytes {
    told(env, || {
        let report = match is_snapshot {
            true => snapshot::verify_json(of as u64)?,
            false => database::verify_json(of as u64, |_| ())?,
        };
        let report = parsed(&report)?;
        let problems = report["problems"].as_array().into_iter().flatten();
        Ok(lines(problems.map(|problem| {
            problem.as_str().unwrap_or_default().to_owned()
        })))
    })
}

pub extern "system" fn stats(env: Env, _: Class, db: jlong, survey: jboolean) -> Bytes {
    told(env, || database::stats_json(db as u64, survey))
}

pub extern "system" fn metrics(env: Env, _: Class, db: jlong, openmetrics: jboolean) -> Bytes {
    told(env, || database::metrics(db as u64, openmetrics, false))
}

pub extern "system" fn backup(
    env: Env,
    _: Class,
    db: jlong,
    set: Bytes,
    full: jboolean,
    bytes_per_second: jlong,
) -> Bytes {
    told(env, || {
        let rate = rate(bytes_per_second);
        backup::backup_json(db as u64, env.text(set)?, full, None, rate, &mut |_| true)
    })
}

pub extern "system" fn restore(
    env: Env,
    _: Class,
    set: Bytes,
    to: Bytes,
    point: jlong,
    memory: jlong,
) -> Bytes {
    told(env, || {
        let mut options = Options::new();
        if let Some(bytes) = said(memory) {
            options = options.memory(bytes);
        }
        let point = said(point).map_or(RestoreTo::Latest, RestoreTo::Point);
        backup::restore_json(
            env.text(set)?,
            env.text(to)?,
            point,
            None,
            options,
            true,
            &mut |_| true,
        )
    })
}

pub extern "system" fn list_backup(env: Env, _: Class, set: Bytes) -> Bytes {
    told(env, || backup::list_json(env.text(set)?))
}

pub extern "system" fn verify_backup(env: Env, _: Class, set: Bytes) -> Bytes {
    told(env, || backup::verify_json(env.text(set)?, |_| ()))
}
