//! Backup sets: making and following them, restoring, what is in them. Answers are JSON of the engine's reports.

use std::path::Path;

use terrace::{
    BackupOptions, Cancel, FollowOptions, Follower, Keep, Options, Progress, Rate, RestoreOptions,
    RestoreTo,
};
use terrace_base::sync::Mutex;

use crate::database::{Tell, cancelling, json};
use crate::enter::{database_clone, database_long, entered, taken};
use crate::failure::Result;
use crate::handles;
use crate::object::Object;
use crate::shared::guarded;

/// Adds a point to the backup set in a folder; the JSON of a [`terrace::BackupReport`]. `mark` names the point.
///
/// # Errors
/// Those of [`terrace::Database::backup`]; [`crate::Kind::Cancelled`] when `tell` says so.
pub fn backup_json(
    db: u64,
    set: impl AsRef<Path>,
    full: bool,
    mark: Option<&str>,
    rate: Rate,
    tell: Tell<'_>,
) -> Result<String> {
    let cancel = Cancel::new();
    database_long(db, |db| {
        let mut options = BackupOptions::new().full(full).rate(rate).cancel(&cancel);
        if let Some(mark) = mark {
            options = options.mark(mark);
        }
        let options = options.progress(cancelling(tell, &cancel));
        json(&db.backup(set, options)?)
    })
}

/// Copies the log to the backup set in a folder until it is stopped.
///
/// # Errors
/// Those of [`terrace::Database::follow`].
pub fn follow(db: u64, set: impl AsRef<Path>, options: FollowOptions) -> Result<u64> {
    let (db, shared) = database_clone(db)?;
    let follower = shared.home.guarded(|| Ok(db.follow(set, options)?))?;
    handles::add(&shared, Object::Follower(Mutex::new(Some(follower))))
}

fn following<R>(follower: u64, call: impl FnOnce(&mut Follower) -> Result<R>) -> Result<R> {
    const STOPPED: &str = "nobody follows any more; begin again";
    entered(follower, "follower", |entry| match &entry.object {
        Object::Follower(follower) => Some(taken(follower, STOPPED, call)),
        _ => None,
    })
}

/// Copies now what was written; up to which change.
///
/// # Errors
/// Those of [`Follower::archive`].
pub fn archive(follower: u64) -> Result<u64> {
    following(follower, |follower| Ok(follower.archive()?))
}

/// How far it is; the JSON of a [`terrace::FollowStatus`].
///
/// # Errors
/// When it is closed.
pub fn status_json(follower: u64) -> Result<String> {
    following(follower, |follower| json(&follower.status()))
}

/// Copies the rest and stops; how far it came, as [`status_json`] says it. None when it was stopped before.
///
/// # Errors
/// Those of [`Follower::stop`].
pub fn stop(follower: u64) -> Result<Option<String>> {
    let is_follower = |object: &Object| matches!(object, Object::Follower(_));
    let Some(entry) = handles::remove(follower, "follower", is_follower)? else {
        return Ok(None);
    };
    let home = entry.shared.home.clone();
    let Object::Follower(follower) = entry.object else {
        return Ok(None);
    };
    home.guarded(|| match follower.into_inner() {
        Some(follower) => json(&follower.stop()?).map(Some),
        None => Ok(None),
    })
}

/// Makes a new database of a backup set; the JSON of a [`terrace::RestoreReport`]. `structure` restores this one
/// alone; `options` are those that it is opened with to be verified.
///
/// # Errors
/// Those of [`terrace::restore`]; [`crate::Kind::Cancelled`] when `tell` says so.
pub fn restore_json(
    set: impl AsRef<Path>,
    path: impl AsRef<Path>,
    to: RestoreTo,
    structure: Option<&str>,
    options: Options,
    verify: bool,
    tell: Tell<'_>,
) -> Result<String> {
    let cancel = Cancel::new();
    guarded(|| {
        let mut restore = RestoreOptions::new().to(to).options(options).verify(verify);
        if let Some(name) = structure {
            restore = restore.structure(name);
        }
        let restore = restore.cancel(&cancel).progress(cancelling(tell, &cancel));
        json(&terrace::restore(set, path, restore)?)
    })
}

/// The points of a set; a JSON array of [`terrace::BackupPoint`].
///
/// # Errors
/// Those of [`terrace::list_backup`].
pub fn list_json(set: impl AsRef<Path>) -> Result<String> {
    guarded(|| json(&terrace::list_backup(set)?))
}

/// Reads all of a set and checks it; the JSON of a [`terrace::BackupVerifyReport`].
///
/// # Errors
/// Those of [`terrace::verify_backup`].
pub fn verify_json(set: impl AsRef<Path>, tell: impl FnMut(Progress)) -> Result<String> {
    guarded(|| json(&terrace::verify_backup(set, tell)?))
}

/// Forgets all points of a set but the newest ones; the JSON of a [`terrace::PruneReport`].
///
/// # Errors
/// Those of [`terrace::prune_backup`].
pub fn prune_json(set: impl AsRef<Path>, newest: usize) -> Result<String> {
    guarded(|| json(&terrace::prune_backup(set, Keep::newest(newest))?))
}
