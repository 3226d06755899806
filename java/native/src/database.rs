//! Opening, closing, and structures by name.

use jni_sys::{jboolean, jint, jlong};
use terrace_ffi::terrace::{Durability, Kind as Of, MapOptions, Options, Tiers};
use terrace_ffi::{Failure, Kind, Result, batch, changes, cursor, database, load, map, snapshot};

use crate::env::{Bytes, Class, Env};

/// The border as it is; `Library.VERSION` is the same number.
const VERSION: jint = 3;

/// Flags of `open`, as `Native` has them.
const CREATE: jint = 1;
const DIRECT: jint = 2;
const CONTROL: jint = 4;
const READ_ONLY: jint = 8;

/// What a number of Java says of durability; -1 is nothing.
pub fn durability(number: jint) -> Option<Durability> {
    match number {
        0 => Some(Durability::Buffered),
        1 => Some(Durability::Sync),
        _ => None,
    }
}

/// A number that is there if it is not negative.
pub fn said(number: jlong) -> Option<u64> {
    u64::try_from(number).ok()
}

/// Texts, one a line.
pub fn lines(texts: impl IntoIterator<Item = String>) -> String {
    texts
        .into_iter()
        .map(|text| text.replace('\n', " ") + "\n")
        .collect()
}

/// A report of the engine, to be read.
pub fn parsed(json: &str) -> Result<serde_json::Value> {
    serde_json::from_str(json).map_err(|e| Failure::invalid(e.to_string()))
}

pub extern "system" fn version(_: Env, _: Class) -> jint {
    VERSION
}

pub extern "system" fn kinds(env: Env, _: Class) -> Bytes {
    let words = Kind::ALL.iter().map(|kind| kind.word().to_owned());
    env.answer(|| env.new_bytes(lines(words).as_bytes()))
}

#[allow(clippy::too_many_arguments)]
pub extern "system" fn open(
    env: Env,
    _: Class,
    path: Bytes,
    memory: jlong,
    page: jint,
    log_limit: jlong,
    keep_changes: jlong,
    flags: jint,
    durable: jint,
) -> jlong {
    env.answer(|| {
        let path = env.text(path)?;
        let has = |flag| flags & flag != 0;
        let mut options = Options::new()
            .create(has(CREATE))
            .direct_io(has(DIRECT))
            .control(has(CONTROL));
        if let Some(bytes) = said(memory) {
            options = options.memory(bytes);
        }
        if page != 0 {
            options = options.page_size(usize::try_from(page).unwrap_or(usize::MAX));
        }
        if let Some(bytes) = said(log_limit) {
            options = options.log_limit(bytes);
        }
        if let Some(bytes) = said(keep_changes) {
            options = options.keep_changes(bytes);
        }
        if let Some(durability) = durability(durable) {
            options = options.durability(durability);
        }
        database::open(path, options, has(READ_ONLY)).map(|db| db as jlong)
    })
}

pub extern "system" fn close(env: Env, _: Class, db: jlong) {
    env.answer(|| database::close(db as u64));
}

/// Gives back what is said, as `Native` numbers it.
pub extern "system" fn release(env: Env, _: Class, handle: jlong, what: jint) {
    let handle = handle as u64;
    env.answer(|| match what {
        0 => cursor::close(handle),
        1 => snapshot::close(handle),
        2 => load::close(handle),
        3 => map::close(handle),
        4 => map::close_index(handle),
        5 => changes::close(handle),
        _ => batch::close(handle),
    });
}

#[allow(clippy::too_many_arguments)]
pub extern "system" fn structure(
    env: Env,
    _: Class,
    db: jlong,
    name: Bytes,
    kind: jint,
    tiers: jint,
    inclusive: jint,
    logged: jint,
    expiring: jboolean,
    indexes: Bytes,
) -> jlong {
    env.answer(|| {
        let name = env.text(name)?;
        let mut options = MapOptions::new();
        match tiers {
            1 => options = options.tiers(Tiers::One),
            2 => options = options.tiers(Tiers::Two),
            _ => {}
        }
        if inclusive >= 0 {
            options = options.inclusive(inclusive > 0);
        }
        if logged >= 0 {
            options = options.logged(logged > 0);
        }
        if expiring {
            options = options.expiring();
        }
        let db = db as u64;
        let found = match kind {
            0 => database::structure(db, Of::Tree, &name, options),
            1 => database::structure(db, Of::Hash, &name, options),
            2 if indexes.is_null() => database::structure(db, Of::Table, &name, options),
            2 => {
                let indexes = env.text(indexes)?;
                let indexes: Vec<&str> = indexes.lines().collect();
                database::table(db, &name, options, &indexes)
            }
            3 => database::structure(db, Of::Lsm, &name, options),
            _ => database::found(db, &name),
        };
        found.map(|map| map as jlong)
    })
}

fn number(kind: Of) -> Option<jint> {
    match kind {
        Of::Tree => Some(0),
        Of::Hash => Some(1),
        Of::Table => Some(2),
        Of::Lsm => Some(3),
        _ => None,
    }
}

pub extern "system" fn kind(env: Env, _: Class, map: jlong) -> jint {
    env.answer(|| Ok(number(map::kind(map as u64)?).unwrap_or(-1)))
}

pub extern "system" fn name(env: Env, _: Class, map: jlong) -> Bytes {
    env.answer(|| env.new_bytes(map::name(map as u64)?.as_bytes()))
}

/// A line each: the word of the kind, a space, the name.
pub extern "system" fn structures(env: Env, _: Class, of: jlong, is_snapshot: jboolean) -> Bytes {
    env.answer(|| {
        let json = match is_snapshot {
            true => snapshot::structures_json(of as u64)?,
            false => database::structures_json(of as u64)?,
        };
        let parsed = parsed(&json)?;
        let text =
            |of: &serde_json::Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
        let all = parsed.as_array().into_iter().flatten();
        let all = all.map(|one| format!("{} {}", text(one, "kind"), text(one, "name")));
        env.new_bytes(lines(all).as_bytes())
    })
}

pub extern "system" fn drop_structure(env: Env, _: Class, db: jlong, name: Bytes) {
    env.answer(|| database::drop_structure(db as u64, &env.text(name)?));
}

pub extern "system" fn rename(env: Env, _: Class, db: jlong, from: Bytes, to: Bytes) {
    env.answer(|| database::rename_structure(db as u64, &env.text(from)?, &env.text(to)?));
}

/// A line each: the name, `=`, where its keys come from.
pub extern "system" fn indexes(env: Env, _: Class, table: jlong) -> Bytes {
    env.answer(|| {
        let parsed = parsed(&map::indexes_json(table as u64)?)?;
        let all = parsed.as_array().into_iter().flatten().map(|index| {
            let text = |key: &str| index[key].as_str().unwrap_or_default();
            let unique = if index["unique"] == true {
                "unique:"
            } else {
                ""
            };
            format!("{}={unique}{}", text("name"), text("source"))
        });
        env.new_bytes(lines(all).as_bytes())
    })
}

pub extern "system" fn index(env: Env, _: Class, table: jlong, name: Bytes) -> jlong {
    env.answer(|| map::index(table as u64, &env.text(name)?).map(|index| index as jlong))
}

pub extern "system" fn create_index(env: Env, _: Class, table: jlong, index: Bytes) {
    env.answer(|| map::create_index(table as u64, &env.text(index)?));
}

pub extern "system" fn drop_index(env: Env, _: Class, table: jlong, name: Bytes) {
    env.answer(|| map::drop_index(table as u64, &env.text(name)?));
}
