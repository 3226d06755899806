//! Following the log: what is written is copied to a backup set while it is written, so that a restore can go
//! back to any change between two checkpoints.
//!
//! Invariants: only what is durable in the log is copied, so a set never has what a crash took back; in a
//! chain no record is missing; who writes never waits for who follows: past [`crate::Options::archive_lag`],
//! or when the disk is full, the log is put aside, and a new chain begins with a point of its own.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

use terrace_base::disk::Disk;
use terrace_base::sync::{Condvar, Mutex};
use terrace_base::{Error, Result};
use terrace_wal::{Follower as Reader, HoldId, Place};

use super::archive::{FILE_BYTES, RecordsWriter};
use super::folder::SetFolder;
use super::follow_options::{FollowOptions, FollowStatus};
use super::manifest::{LogEnd, Manifest, MarkNote};
use super::write::remove_log_leftovers;
use super::{BackupOptions, BackupReport};
use crate::core::Core;
use crate::database::Database;
use crate::effects::{Effect, Effects};
use crate::gentle::Cancel;

/// A new point is made when the log since the last one is longer than the database and than this: replaying
/// it would take longer than copying pages.
const LEAST_LOG_BYTES: u64 = 64 << 20;

/// Who follows the logs of a database now.
#[derive(Default)]
pub struct All {
    workers: Mutex<Vec<Weak<Worker>>>,
    /// Of each set that is followed the chain.
    chains: Mutex<HashMap<u64, u64>>,
    /// Those that nobody else keeps.
    kept: Mutex<Vec<Follower>>,
}

impl All {
    /// The chain that is being written to a set.
    pub fn chain_of(&self, set: u64) -> Option<u64> {
        self.chains.lock().get(&set).copied()
    }

    /// Copies what there is, and ends all of them: the database is being closed.
    pub fn stop(&self) {
        let workers: Vec<_> = std::mem::take(&mut *self.workers.lock());
        for worker in workers.iter().filter_map(Weak::upgrade) {
            worker.end();
        }
        drop(std::mem::take(&mut *self.kept.lock()));
    }

    /// Keeps one until the database is closed, or it is [`All::end`]ed.
    fn keep(&self, follower: Follower) {
        self.kept.lock().push(follower);
    }

    /// Takes one that is kept for the set in this folder.
    #[cfg(feature = "control")]
    fn take(&self, set: &Path) -> Option<Follower> {
        let mut kept = self.kept.lock();
        let is_it = |follower: &Follower| follower.worker.folder.path() == Some(set);
        let at = kept.iter().position(is_it)?;
        Some(kept.remove(at))
    }

    fn add(&self, worker: &Arc<Worker>) {
        let mut workers = self.workers.lock();
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(worker));
    }

    fn remove(&self, worker: &Worker) {
        let is_it = |other: &Weak<Worker>| std::ptr::eq(other.as_ptr(), worker);
        self.workers.lock().retain(|other| !is_it(other));
    }

    /// How far all of them have come.
    pub fn statuses(&self) -> Vec<FollowStatus> {
        let workers = self.workers.lock();
        let workers = workers.iter().filter_map(Weak::upgrade);
        workers.map(|worker| worker.status.lock().clone()).collect()
    }
}

/// What one follower has come to.
#[derive(Default)]
struct State {
    hold: Option<HoldId>,
    reader: Option<Reader>,
    /// Number of the record behind the last time mark.
    marked: u64,
    set: Option<u64>,
    /// Whether the place where the set ends was tried and is of no use.
    is_gone: bool,
    last: Option<Instant>,
    ended: bool,
}

/// One follower: its thread and its handle share it.
pub struct Worker {
    core: Arc<Core>,
    folder: SetFolder,
    options: FollowOptions,
    state: Mutex<State>,
    status: Mutex<FollowStatus>,
    stop: Mutex<bool>,
    stopped: Condvar,
    cancel: Cancel,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Copies the log of a database to a backup set until it is dropped; see [`Database::follow`].
pub struct Follower {
    worker: Arc<Worker>,
    // So that the database stays open.
    _db: Option<Database>,
}

impl Worker {
    /// Copies what is durable by now; the last change that the set has. The caller holds nothing.
    fn archive(&self) -> Result<u64> {
        let mut state = self.state.lock();
        if state.ended {
            return Err(Error::invalid(
                "nobody follows any more: it was stopped, or the database was closed",
            ));
        }
        // A set that is there already is not made anew where its device is missing.
        let folders = &self.core.backups.folders;
        let disk = self.folder.open(folders, state.set.is_none());
        let done = disk.and_then(|disk| self.copy(&mut state, &disk));
        state.last = Some(Instant::now());
        if done.is_err() {
            // What was read and not stored is read again.
            state.reader = None;
        }
        done
    }

    fn copy(&self, state: &mut State, disk: &Arc<dyn Disk>) -> Result<u64> {
        let core = &self.core;
        let _alone = core.backups.changing.lock();
        let mut set = core.set(disk)?;
        set.check_same(state.set)?;
        if state.hold.is_some_and(|hold| !core.log.is_held(hold)) {
            state.hold = None;
            state.reader = None;
            self.status.lock().breaks += 1;
        }
        let mut is_new = false;
        if state.reader.is_none() {
            is_new = self.begin(state, &mut set)?;
            remove_log_leftovers(disk, &set)?;
        }
        if core.log.next_sequence() != state.marked {
            let (_, durable_by_the_sync_below) = core.append_mark("")?;
            // Not the next one by now: that may be behind a write that no mark has seen.
            state.marked = durable_by_the_sync_below.sequence + 1;
        }
        core.log.sync().map_err(|e| core.failed(e))?;
        let (Some(hold), Some(reader), Some(mut end)) = (state.hold, &mut state.reader, set.end)
        else {
            return Err(Error::invalid("nothing is held of the log"));
        };
        let before = reader.next();
        match store(core, disk, &mut set, &end, reader) {
            Ok(bytes) => self.status.lock().log_bytes += bytes,
            Err(e) => {
                // A chain that was begun before need not go on here: a new one is begun.
                if e.is_unreadable() {
                    state.is_gone = true;
                    self.status.lock().breaks += u64::from(core.log.is_held(hold));
                }
                return Err(e);
            }
        }
        let place = reader.place();
        if is_new || reader.next() != before {
            end = LogEnd {
                chain: end.chain,
                next: reader.next(),
                segment: place.segment,
                incarnation: place.incarnation,
                offset: place.offset,
                sequence: place.sequence,
            };
            set.end = Some(end);
            set.write(disk)?;
        }
        core.log.move_hold(hold, &place);
        state.set = Some(set.set);
        state.is_gone = false;
        core.backups
            .following
            .chains
            .lock()
            .insert(set.set, end.chain);
        let mut status = self.status.lock();
        status.sequence = end.next.saturating_sub(1);
        status.time = Some(SystemTime::now());
        Ok(status.sequence)
    }

    /// Takes up the chain that the set ends with, or begins one; whether it is a new one.
    fn begin(&self, state: &mut State, set: &mut Manifest) -> Result<bool> {
        let log = &self.core.log;
        if state.set.is_none() && self.core.backups.following.chain_of(set.set).is_some() {
            return Err(Error::invalid(
                "somebody follows the log of this database to this set already",
            ));
        }
        let most = self.core.options.effective_archive_lag();
        let last = set.logs.last().map_or(0, |log| log.last_ms);
        self.core.marked_until(last);
        if let Some(end) = set.end.filter(|_| !state.is_gone) {
            let place = Place {
                segment: end.segment,
                incarnation: end.incarnation,
                offset: end.offset,
                sequence: end.sequence,
            };
            if let Some(hold) = log.hold_from(place, most)? {
                // The one before may have kept the same until now.
                if let Some(before) = state.hold.replace(hold) {
                    log.let_go(before);
                }
                state.reader = Some(Reader::new(place, end.next));
                return Ok(false);
            }
        }
        let (hold, place) = log.hold(most);
        if let Some(before) = state.hold.replace(hold) {
            log.let_go(before);
        }
        state.reader = Some(Reader::new(place, place.sequence));
        set.end = Some(LogEnd {
            chain: set.new_chain(),
            next: place.sequence,
            segment: place.segment,
            incarnation: place.incarnation,
            offset: place.offset,
            sequence: place.sequence,
        });
        Ok(true)
    }

    /// Copies the log, and makes a point if one is due. The caller holds nothing.
    fn step(&self) -> Result<u64> {
        let first = self.archive();
        let done = match first {
            // A place that is of no use any more: now it is known, and a new chain begins.
            Err(e) if e.is_unreadable() && self.state.lock().is_gone => self.archive(),
            done => done,
        };
        let done = done.and_then(|sequence| match self.is_point_due()? {
            true => self.make_point().map(|_| sequence),
            false => Ok(sequence),
        });
        self.status.lock().error = done.as_ref().err().map(ToString::to_string);
        done
    }

    fn is_point_due(&self) -> Result<bool> {
        let disk = self.folder.open(&self.core.backups.folders, false)?;
        let set = self.core.set(&disk)?;
        let Some(end) = set.end else {
            return Ok(false);
        };
        let of_chain = |point: &&super::manifest::Point| point.chain == Some(end.chain);
        let Some(last) = set.points.iter().rev().find(of_chain) else {
            return Ok(true);
        };
        // Of a file that goes on behind the point, the part that its records are of all.
        let from = last.log.sequence;
        let logs = set.logs.iter().filter(|log| log.chain == end.chain);
        let behind = logs.map(|log| {
            let records = (log.next - log.first).max(1);
            let part = log.next.saturating_sub(from.max(log.first));
            (u128::from(log.bytes) * u128::from(part) / u128::from(records)) as u64
        });
        let bytes: u64 = behind.sum();
        let live = self.core.store.live_pages() * self.core.store.page_bytes() as u64;
        let most = self.options.point_after;
        Ok(bytes > most.unwrap_or(live.max(LEAST_LOG_BYTES)))
    }

    fn make_point(&self) -> Result<BackupReport> {
        let disk = self.folder.open(&self.core.backups.folders, false)?;
        let mut options = BackupOptions::new()
            .rate(self.options.rate)
            .cancel(&self.cancel);
        options.only = self.state.lock().set;
        options.beside = Some(Box::new(|| {
            let last = self.state.lock().last;
            if last.is_none_or(|last| last.elapsed() >= self.options.every) {
                // If it cannot be done now, it is tried again and told then.
                let _ = self.archive();
            }
        }));
        let made = self.core.back_up(disk, options)?;
        self.status.lock().point = Some(made.point);
        Ok(made)
    }

    fn run(&self) {
        loop {
            // What went wrong is in the status, and is tried again.
            let _ = self.step();
            let mut stop = self.stop.lock();
            if !*stop {
                self.stopped.wait_for(&mut stop, self.options.every);
            }
            if *stop {
                return;
            }
        }
    }

    /// Ends the thread, copies what is left, and lets go of the log.
    fn end(&self) {
        self.cancel.cancel();
        *self.stop.lock() = true;
        self.stopped.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of it has been reported by the panic hook already.
            let _ = thread.join();
        }
        let done = self.archive();
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        self.core.backups.following.remove(self);
        self.status.lock().error = done.err().map(|e| e.to_string());
        if let Some(set) = state.set {
            self.core.backups.following.chains.lock().remove(&set);
        }
        if let Some(hold) = state.hold.take() {
            self.core.log.let_go(hold);
        }
    }
}

/// Stores what the reader gives out, in files of the set; the bytes of them.
fn store(
    core: &Core,
    disk: &Arc<dyn Disk>,
    set: &mut Manifest,
    end: &LogEnd,
    reader: &mut Reader,
) -> Result<u64> {
    let number = set.set;
    let mut bytes = 0;
    let mut is_new_name = false;
    let mut writer: Option<RecordsWriter> = None;
    let mut take = |sequence: u64, record: &[u8]| {
        let full = |writer: &RecordsWriter| writer.log.bytes >= FILE_BYTES;
        if writer.as_ref().is_some_and(full)
            && let Some(writer) = writer.take()
        {
            name(set, writer.finish()?);
        }
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let last = set.logs.last();
                let goes_on = last.filter(|last| {
                    last.chain == end.chain && last.next == sequence && last.bytes < FILE_BYTES
                });
                none.insert(match goes_on {
                    Some(last) => RecordsWriter::go_on(&**disk, number, last)?,
                    None => {
                        let file = last.map_or(0, |last| last.file) + 1;
                        is_new_name = true;
                        RecordsWriter::create(&**disk, number, (file, end.chain, sequence))?
                    }
                })
            }
        };
        if let Some(Ok(Effect::Mark { time_ms, name })) = Effects::new(record).next() {
            writer.log.last_ms = time_ms;
            if !name.is_empty() {
                writer.log.marks.push(MarkNote {
                    name: name.to_owned(),
                    sequence,
                    time_ms,
                });
            }
        }
        bytes += record.len() as u64;
        writer.push(record)
    };
    core.log.follow(reader, &mut take)?;
    if let Some(writer) = writer {
        name(set, writer.finish()?);
    }
    if is_new_name {
        disk.sync_directory()
            .map_err(|e| Error::io("syncing", "the folder of the backup set", e))?;
    }
    Ok(bytes)
}

/// Puts what was written into the manifest.
fn name(set: &mut Manifest, log: super::manifest::LogFile) {
    match set.logs.last_mut().filter(|last| last.file == log.file) {
        Some(last) => *last = log,
        None => set.logs.push(log),
    }
}

/// Says in the status that the thread is gone, if a panic ends it.
struct Told<'w>(&'w Worker);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.status.lock().error = Some(
                "the thread that follows the log has panicked: nothing is copied any more; close the database and open it again".into(),
            );
        }
    }
}

impl Follower {
    /// `begin` makes the first copy.
    fn start(
        core: Arc<Core>,
        folder: SetFolder,
        options: FollowOptions,
        begin: impl FnOnce(&Worker) -> Result<u64>,
    ) -> Result<Follower> {
        let worker = Arc::new(Worker {
            folder,
            options,
            state: Mutex::default(),
            status: Mutex::default(),
            stop: Mutex::new(false),
            stopped: Condvar::new(),
            cancel: Cancel::new(),
            thread: Mutex::new(None),
            core,
        });
        worker.status.lock().set = worker.folder.path().map(Path::to_owned);
        let follower = Follower {
            worker: worker.clone(),
            _db: None,
        };
        begin(&worker)?;
        worker.core.backups.following.add(&worker);
        if !worker.core.options.foreground {
            let its = worker.clone();
            let thread = std::thread::Builder::new()
                .name("terrace-follow".into())
                .spawn(move || {
                    let _watch = its.core.store.watch("the thread that follows the log");
                    let _told = Told(&its);
                    its.run();
                })
                .map_err(|e| Error::io("starting", "the thread that follows the log", e))?;
            *worker.thread.lock() = Some(thread);
        }
        Ok(follower)
    }

    /// Copies all that was written so far, now; the number of the last change that the set has.
    ///
    /// # Errors
    /// Those of the set's disk and of the log.
    pub fn archive(&self) -> Result<u64> {
        self.worker.step()
    }

    /// How far it has come.
    pub fn status(&self) -> FollowStatus {
        self.worker.status.lock().clone()
    }

    /// Copies all that was written so far and ends it, as dropping does.
    ///
    /// # Errors
    /// Why the last of the log could not be copied.
    pub fn stop(self) -> Result<FollowStatus> {
        self.worker.end();
        let status = self.status();
        match &status.error {
            None => Ok(status),
            Some(text) => Err(Error::invalid(format!(
                "the last of the log was not copied: {text}"
            ))),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if self.worker.core.passes.is_mine() {
            self.worker.end();
        }
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// Follows the log to the set in this folder until the database is closed, or it is told to stop. The first
/// point is made afterwards, so that who asks need not wait for it.
#[cfg(feature = "control")]
pub fn follow_until_closed(
    core: &Arc<Core>,
    set: &Path,
    options: FollowOptions,
) -> Result<FollowStatus> {
    keep_following(core, set, options, Worker::archive)
}

/// The same from an opening on: it makes the first point, if the set needs one, before it returns.
pub fn follow_from_opening(core: &Arc<Core>, set: &Path, options: FollowOptions) -> Result<()> {
    keep_following(core, set, options, Worker::step).map(|_| ())
}

fn keep_following(
    core: &Arc<Core>,
    set: &Path,
    options: FollowOptions,
    begin: fn(&Worker) -> Result<u64>,
) -> Result<FollowStatus> {
    options.rate.check()?;
    let folder = SetFolder::at(set)?;
    let follower = Follower::start(core.clone(), folder, options, begin)?;
    let status = follower.status();
    core.backups.following.keep(follower);
    Ok(status)
}

/// Ends what [`follow_until_closed`] has begun.
#[cfg(feature = "control")]
pub fn stop_following(core: &Core, set: &Path) -> Result<FollowStatus> {
    match core.backups.following.take(set) {
        Some(follower) => follower.stop(),
        None => Err(Error::invalid(format!(
            "nobody was told from outside to follow the log to {}; what the program itself began it ends itself",
            set.display()
        ))),
    }
}

impl Database {
    /// Copies the log to the backup set in a folder while it is written, until the answer is dropped or the
    /// database is closed: so a restore can go back to any change, time or mark between two points. It makes
    /// a point first, if the log since the last one is not there any more, and another one whenever the log
    /// has become long.
    ///
    /// Once a second what was written is made durable and copied. Who writes does not wait: as long as the
    /// copy cannot be made, up to [`crate::Options::archive_lag`] bytes of log are kept for it; past that, or
    /// when the disk is full, the log is given up, and a new point is made
    /// ([`FollowStatus::breaks`] counts it).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// # let set = dir.path().join("set");
    /// use terrace::{Database, FollowOptions, Options, RestoreOptions, RestoreTo};
    /// let db = Database::open(&path, Options::new().memory(16 << 20))?;
    /// let users = db.tree("users")?;
    /// let follower = db.follow(&set, FollowOptions::new())?;
    /// users.put("alice", "1")?;
    /// db.mark("before-migration")?;
    /// users.delete("alice")?;
    /// follower.stop()?;
    ///
    /// let again = dir.path().join("again");
    /// let to = RestoreTo::Mark("before-migration".into());
    /// terrace::restore(&set, &again, RestoreOptions::new().to(to))?;
    /// let then = Database::open(&again, Options::new().memory(16 << 20))?;
    /// assert_eq!(then.tree("users")?.get("alice")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Database::backup`], for the first copy; later ones are in [`Follower::status`]. One set is
    /// followed once at a time.
    pub fn follow(&self, set: impl AsRef<Path>, options: FollowOptions) -> Result<Follower> {
        self.follow_to(SetFolder::at(set.as_ref())?, options)
    }

    /// The same on any disk.
    #[doc(hidden)]
    pub fn follow_on(&self, set: Arc<dyn Disk>, options: FollowOptions) -> Result<Follower> {
        self.follow_to(SetFolder::Disk(set), options)
    }

    fn follow_to(&self, set: SetFolder, options: FollowOptions) -> Result<Follower> {
        let core = self.handle.core.clone();
        core.store.check_writable()?;
        options.rate.check()?;
        let mut follower = Follower::start(core, set, options, Worker::step)?;
        follower._db = Some(self.clone());
        Ok(follower)
    }
}
