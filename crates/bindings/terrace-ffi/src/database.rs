//! Databases: opening, closing, structures by name, figures, long work.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use terrace::{
    Cancel, CompactOptions, Database, Kind as Of, Map, MapOptions, Options, Progress, TableOptions,
};

use crate::enter::{database, database_clone, database_long};
use crate::failure::{Failure, Result};
use crate::handles;
use crate::object::Object;
use crate::shared::{Shared, dropped_by_a_panic, guarded};

pub(crate) fn json(of: &impl Serialize) -> Result<String> {
    serde_json::to_string(of).map_err(|e| Failure::invalid(e.to_string()))
}

/// How long work tells how far it has come; the answer is whether it goes on. It must not panic.
pub type Tell<'t> = &'t mut dyn FnMut(Progress) -> bool;

/// A listener that cancels when it is told to.
pub(crate) fn cancelling<'t>(tell: Tell<'t>, cancel: &Cancel) -> impl FnMut(Progress) + 't {
    let cancel = cancel.clone();
    move |progress| {
        if !tell(progress) {
            cancel.cancel();
        }
    }
}

/// Opens a database, and makes it if the options allow it; `read_only` writes nothing.
///
/// # Errors
/// Those of [`Database::open`].
pub fn open(path: impl AsRef<Path>, options: Options, read_only: bool) -> Result<u64> {
    let path = path.as_ref();
    if path.as_os_str() == OsStr::new("") {
        return Err(Failure::invalid(
            "the path of the database is empty; name a directory",
        ));
    }
    let shared = Shared::new();
    let db = shared.home.guarded(|| {
        Ok(match read_only {
            true => Database::open_read_only(path, options)?,
            false => Database::open(path, options)?,
        })
    })?;
    handles::add(&shared.part(), Object::Database(db, shared))
}

/// Closes a database and all that was opened through it: waits for calls that are under way, makes a last
/// checkpoint. The directory is free when it returns, but for calls with callbacks that are under way: they
/// hold it until they end. Closing twice is nothing. After a panic no checkpoint is made: what was acknowledged
/// is in the log.
///
/// # Errors
/// When the last checkpoint could not be made; it is closed all the same, and nothing is lost.
pub fn close(db: u64) -> Result<()> {
    let is_database = |object: &Object| matches!(object, Object::Database(..));
    let Some(entry) = handles::remove(db, "database", is_database)? else {
        return Ok(());
    };
    let Object::Database(db, shared) = entry.object else {
        return Ok(());
    };
    handles::empty(&shared);
    if shared.home.is_broken() {
        dropped_by_a_panic(db);
        return Ok(());
    }
    guarded(|| {
        // From now on calls that go on are refused, and that is because it is closed.
        shared.home.closes();
        Ok(db.close()?)
    })
}

/// Whether a handle is an open database.
pub fn is_open(db: u64) -> bool {
    database(db, |_| Ok::<_, Failure>(())).is_ok()
}

fn made(db: u64, find: impl FnOnce(&Database) -> terrace::Result<Map>) -> Result<u64> {
    let (db, shared) = database_clone(db)?;
    let map = shared.home.guarded(|| Ok(find(&db)?))?;
    handles::add(&shared, Object::Map(map))
}

/// The structure of this name and kind, made if there is none. A table is made without indexes, and one that
/// is there keeps what it has; see [`table`].
///
/// # Errors
/// Those of [`Database::tree_with`].
pub fn structure(db: u64, kind: Of, name: &str, options: MapOptions) -> Result<u64> {
    made(db, |db| {
        Ok(match kind {
            Of::Tree => (*db.tree_with(name, options)?).clone(),
            Of::Hash => (*db.hash_with(name, options)?).clone(),
            Of::Lsm => (*db.lsm_with(name, options)?).clone(),
            Of::Table => match db.map(name).ok().and_then(|map| map.as_table()) {
                Some(found) => (*found).clone(),
                None => (*db.table_with(name, options.into())?).clone(),
            },
            other => {
                return Err(terrace::Error::invalid(format!(
                    "a {other} cannot be made here"
                )));
            }
        })
    })
}

/// The table of this name with exactly these indexes, made if there is none. An index is written as
/// `city=json:/city`, `mail=unique:csv:2` or `part=bytes:0..4`.
///
/// # Errors
/// Those of [`Database::table_with`].
pub fn table(db: u64, name: &str, options: MapOptions, indexes: &[&str]) -> Result<u64> {
    made(db, |db| {
        let mut options = TableOptions::from(options);
        for index in indexes {
            options = options.index(index.parse()?);
        }
        Ok((*db.table_with(name, options)?).clone())
    })
}

/// A structure that is there, of whatever kind.
///
/// # Errors
/// [`crate::Kind::NoSuchStructure`].
pub fn found(db: u64, name: &str) -> Result<u64> {
    made(db, |db| db.map(name))
}

/// Drops a structure.
///
/// # Errors
/// Those of [`Database::drop_structure`].
pub fn drop_structure(db: u64, name: &str) -> Result<()> {
    database_long(db, |db| db.drop_structure(name))
}

/// Gives a structure another name.
///
/// # Errors
/// Those of [`Database::rename_structure`].
pub fn rename_structure(db: u64, from: &str, to: &str) -> Result<()> {
    database_long(db, |db| db.rename_structure(from, to))
}

/// What structures there are, as a JSON array of [`terrace::StructureInfo`].
///
/// # Errors
/// When it is closed.
pub fn structures_json(db: u64) -> Result<String> {
    database(db, |db| json(&db.structures()))
}

/// Makes everything durable that was written so far.
///
/// # Errors
/// Those of [`Database::sync`].
pub fn sync(db: u64) -> Result<()> {
    database_long(db, |db| db.sync())
}

/// The number of the last logged change.
///
/// # Errors
/// When it is closed.
pub fn sequence(db: u64) -> Result<u64> {
    database(db, Database::sequence)
}

/// Makes a checkpoint.
///
/// # Errors
/// Those of [`Database::checkpoint`].
pub fn checkpoint(db: u64) -> Result<()> {
    database_long(db, |db| db.checkpoint().map(drop))
}

/// Marks this place in the order of changes, durably; its number.
///
/// # Errors
/// Those of [`Database::mark`].
pub fn mark(db: u64, name: &str) -> Result<u64> {
    database_long(db, |db| db.mark(name).map(|mark| mark.sequence))
}

/// Walks everything and checks every invariant; what it found, as the JSON of [`terrace::VerifyReport`].
/// Other calls wait meanwhile.
///
/// # Errors
/// When it cannot begin.
pub fn verify_json(db: u64, mut tell: impl FnMut(Progress)) -> Result<String> {
    database_long(db, |db| json(&db.verify_with(&mut tell)?))
}

/// Makes pages full and the file short; what it came to, as the JSON of [`terrace::CompactReport`].
///
/// # Errors
/// Those of [`Database::compact`].
pub fn compact_json(db: u64, rate: terrace::Rate, tell: Tell<'_>) -> Result<String> {
    let cancel = Cancel::new();
    database_long(db, |db| {
        let options = CompactOptions::new().rate(rate).cancel(&cancel);
        json(&db.compact(options.progress(cancelling(tell, &cancel)))?)
    })
}

/// The figures as the JSON of [`terrace::Stats`]; a survey samples how many records live where, too.
///
/// # Errors
/// When it is closed; those of [`Database::survey`].
pub fn stats_json(db: u64, survey: bool) -> Result<String> {
    database_long(db, |db| json(&figures(&db, survey)?))
}

/// The figures as a table for people.
///
/// # Errors
/// As [`stats_json`].
pub fn stats_text(db: u64, survey: bool) -> Result<String> {
    database_long(db, |db| Ok::<_, Failure>(figures(&db, survey)?.to_string()))
}

/// The figures as metrics: the Prometheus text format, or OpenMetrics.
///
/// # Errors
/// As [`stats_json`].
pub fn metrics(db: u64, openmetrics: bool, survey: bool) -> Result<String> {
    let format = match openmetrics {
        true => terrace_metrics::Format::OpenMetrics,
        false => terrace_metrics::Format::Prometheus,
    };
    database_long(db, |db| {
        let stats = figures(&db, survey)?;
        Ok::<_, Failure>(terrace_metrics::render(&stats, format))
    })
}

fn figures(db: &Database, survey: bool) -> Result<terrace::Stats> {
    Ok(match survey {
        true => db.survey()?,
        false => db.stats(),
    })
}

/// Everything as it is now, or was at most so long ago.
///
/// # Errors
/// Those of [`Database::snapshot`].
pub fn snapshot(db: u64, at_most: Option<Duration>) -> Result<u64> {
    let (db, shared) = database_clone(db)?;
    let snapshot = shared.home.guarded(|| {
        Ok(match at_most {
            Some(age) => db.snapshot_at_most(age)?,
            None => db.snapshot()?,
        })
    })?;
    handles::add(&shared, Object::Snapshot(snapshot, shared.part()))
}
