//! Following the log: what is written is copied to a backup set while it is written, so that a restore can go
//! back to any change between two checkpoints. This is who does it: a thread, and what it is at.
//!
//! Invariants: only what is durable in the log is copied, so a set never has what a crash took back; in a
//! chain no record is missing; who writes never waits for who follows: past [`crate::Options::archive_lag`],
//! or when the disk is full, the log is put aside, and a new chain begins with a point of its own.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

use terrace_base::disk::Disk;
use terrace_base::sync::{Condvar, Mutex};
use terrace_base::{Error, Result};
use terrace_wal::{Follower as Reader, HoldId, Place};

use crate::backup_set::archive::{FILE_BYTES, RecordsWriter};
use crate::backup_set::folder::SetFolder;
use crate::backup_set::follow_options::{FollowOptions, FollowStatus};
use crate::backup_set::leftovers::remove_log_leftovers;
use crate::backup_set::manifest::{LogEnd, Manifest, MarkNote};
use crate::backup_set::options::BackupOptions;
use crate::core::Core;
use crate::effects::{Effect, Effects};
use crate::gentle::{Cancel, Rate};
use crate::planted::{Fault, planted};
use crate::state::following::{Follows, Running};

/// A new point is made when the log since the last one is longer than the database and than this: replaying
/// it would take longer than copying pages.
const LEAST_LOG_BYTES: u64 = 64 << 20;

/// What one follower has come to.
#[derive(Default)]
struct State {
    hold: Option<HoldId>,
    reader: Option<Reader>,
    set: Option<u64>,
    /// Whether the place where the set ends was tried and is of no use.
    is_gone: bool,
    /// Whether a point has led to the end of the log.
    was_led_to: bool,
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

impl Worker {
    /// Copies what is durable by now; the last change that a restore of the set can go to, which may be less
    /// until a point is made. The caller holds nothing.
    fn archive(&self) -> Result<u64> {
        let mut state = self.state.lock();
        if state.ended {
            return Err(Error::invalid(
                "nobody follows any more: it was stopped, or the database was closed",
            ));
        }
        // A set that is there already is not made anew where its device is missing.
        let folders = self.core.backups().folders();
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
        let _alone = core.backups().hold_manifests();
        let mut set = core.set(disk)?;
        set.check_same(state.set)?;
        if state.hold.is_some_and(|hold| !core.log().is_held(hold)) {
            state.hold = None;
            state.reader = None;
            self.status.lock().breaks += 1;
        }
        let mut is_new = false;
        if state.reader.is_none() {
            is_new = self.begin(state, &mut set)?;
            remove_log_leftovers(disk, &set)?;
        }
        let mark = || {
            let (_, durable_by_the_sync_below) = core.append_mark("")?;
            Ok(durable_by_the_sync_below.sequence)
        };
        core.backups()
            .mark_time(|| core.log().next_sequence(), mark)?;
        core.heard(core.log().sync())?;
        let (Some(hold), Some(reader), Some(mut end)) = (state.hold, &mut state.reader, set.end)
        else {
            return Err(Error::invalid("nothing is held of the log"));
        };
        let before = reader.next();
        match store(core, disk, &mut set, &end, reader) {
            Ok(stored) => {
                let mut status = self.status.lock();
                status.log_bytes += stored.bytes;
                status.clock_leaps += stored.leaps;
            }
            Err(e) => {
                // A chain that was begun before need not go on here: a new one is begun.
                if e.is_unreadable() {
                    state.is_gone = true;
                    self.status.lock().breaks += u64::from(core.log().is_held(hold));
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
        core.log().move_hold(hold, &place);
        state.set = Some(set.set);
        state.is_gone = false;
        core.backups().following().goes_on(set.set, end.chain);
        state.was_led_to |= set.is_led_to();
        Ok(self.has_reached(&set))
    }

    /// Notes and returns the last change that a restore of this set can go to.
    fn has_reached(&self, set: &Manifest) -> u64 {
        let mut reached = set.newest().map_or(0, |(_, last)| last);
        if planted(Fault::ArchivedIsRestorable) {
            reached = set.end.map_or(0, |end| end.next.saturating_sub(1));
        }
        let mut status = self.status.lock();
        status.sequence = reached;
        status.time = Some(SystemTime::now());
        reached
    }

    /// Takes up the chain that the set ends with, or begins one; whether it is a new one.
    fn begin(&self, state: &mut State, set: &mut Manifest) -> Result<bool> {
        let log = self.core.log();
        if state.set.is_none() && self.core.backups().following().chain_of(set.set).is_some() {
            return Err(Error::invalid(
                "somebody follows the log of this database to this set already",
            ));
        }
        let most = self.core.options().effective_archive_lag();
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

    fn is_point_due(&self) -> Result<bool> {
        let disk = self.folder.open(self.core.backups().folders(), false)?;
        let set = self.core.set(&disk)?;
        let Some(end) = set.end else {
            return Ok(false);
        };
        let Some(last) = set.points.last().filter(|_| set.is_led_to()) else {
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
        let bytes = behind.fold(0, u64::saturating_add);
        let live = self.core.store().live_pages() * self.core.store().page_bytes() as u64;
        let most = self.options.point_after;
        Ok(bytes > most.unwrap_or(live.max(LEAST_LOG_BYTES)))
    }

    /// Makes a point; the last change that a restore of the set can go to then.
    fn make_point(&self, rate: Rate, cancel: &Cancel) -> Result<u64> {
        let disk = self.folder.open(self.core.backups().folders(), false)?;
        let mut options = BackupOptions::new().rate(rate).cancel(cancel);
        options.only = self.state.lock().set;
        options.beside = Some(Box::new(|| {
            let last = self.state.lock().last;
            if last.is_none_or(|last| last.elapsed() >= self.options.every) {
                // If it cannot be done now, it is tried again and told then.
                let _ = self.archive();
            }
        }));
        let made = self.core.back_up(disk.clone(), options)?;
        self.status.lock().point = Some(made.point);
        // So that no other thread notes what a newer manifest says in between.
        let mut state = self.state.lock();
        let set = self.core.set(&disk)?;
        state.was_led_to |= set.is_led_to();
        Ok(self.has_reached(&set))
    }

    /// Copies what is left. If the log was given up meanwhile, the point is made that the rest needs, as fast
    /// as it goes: what was archived before can be restored, and what comes behind it is to be, too.
    fn copy_last(&self) -> Result<()> {
        self.archive_anew()?;
        let disk = self.folder.open(self.core.backups().folders(), false)?;
        if self.core.set(&disk)?.is_led_to() || planted(Fault::EndsWithoutPoint) {
            return Ok(());
        }
        if !self.state.lock().was_led_to {
            return Err(Error::invalid(
                "it was ended before its first point was made, and without that nothing behind the points that the set had before can be restored; follow the log again, or make a backup",
            ));
        }
        self.make_point(Rate::Fast, &Cancel::new())?;
        self.archive_anew().map(|_| ())
    }

    fn archive_anew(&self) -> Result<u64> {
        match self.archive() {
            // A place that is of no use any more: now it is known, and a new chain begins.
            Err(e) if e.is_unreadable() && self.state.lock().is_gone => self.archive(),
            done => done,
        }
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
}

impl Follows for Worker {
    fn step(&self) -> Result<u64> {
        let done = self.archive_anew();
        let done = done.and_then(|sequence| match self.is_point_due()? {
            true => self.make_point(self.options.rate, &self.cancel),
            false => Ok(sequence),
        });
        // What it came to when it was ended stays said.
        let state = self.state.lock();
        if !state.ended {
            self.status.lock().error = done.as_ref().err().map(ToString::to_string);
        }
        drop(state);
        done
    }

    fn end(&self) {
        self.cancel.cancel();
        *self.stop.lock() = true;
        self.stopped.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of it has been reported by the panic hook already.
            let _ = thread.join();
        }
        let done = self.copy_last();
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        self.core.backups().following().remove(self);
        self.status.lock().error = done.err().map(|e| e.to_string());
        if let Some(set) = state.set {
            self.core.backups().following().ended(set);
        }
        if let Some(hold) = state.hold.take() {
            self.core.log().let_go(hold);
        }
    }

    fn dropped(&self) {
        if self.core.passes().is_mine() {
            self.end();
        }
    }

    fn status(&self) -> FollowStatus {
        self.status.lock().clone()
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.path()
    }
}

/// What was stored.
struct Stored {
    bytes: u64,
    leaps: u64,
}

/// Stores what the reader gives out, in files of the set.
fn store(
    core: &Core,
    disk: &Arc<dyn Disk>,
    set: &mut Manifest,
    end: &LogEnd,
    reader: &mut Reader,
) -> Result<Stored> {
    let number = set.set;
    let mut stored = Stored { bytes: 0, leaps: 0 };
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
                        let of_chain = last.filter(|last| last.chain == end.chain);
                        let time_ms = of_chain.map_or(0, |last| last.last_ms);
                        let mut writer =
                            RecordsWriter::create(&**disk, number, file, end.chain, sequence)?;
                        writer.log.last_ms = time_ms;
                        writer
                    }
                })
            }
        };
        if let Some(Ok(Effect::Mark { time_ms, name })) = Effects::new(record).next() {
            let is_back = writer.log.note_time(sequence, time_ms);
            stored.leaps += u64::from(is_back);
            if !name.is_empty() {
                writer.log.marks.push(MarkNote {
                    name: name.to_owned(),
                    sequence,
                    time_ms,
                });
            }
        }
        stored.bytes += record.len() as u64;
        writer.push(record)
    };
    core.log().follow(reader, &mut take)?;
    if let Some(writer) = writer {
        name(set, writer.finish()?);
    }
    if is_new_name {
        disk.sync_directory()
            .map_err(|e| Error::io("syncing", "the folder of the backup set", e))?;
    }
    Ok(stored)
}

/// Puts what was written into the manifest.
fn name(set: &mut Manifest, log: crate::backup_set::manifest::LogFile) {
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

/// Begins to follow the log; `begin` makes the first copy.
pub fn start(
    core: Arc<Core>,
    folder: SetFolder,
    options: FollowOptions,
    begin: impl FnOnce(&Worker) -> Result<u64>,
) -> Result<Running> {
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
    let running = Running::new(worker.clone());
    begin(&worker)?;
    let all = worker.core.backups().following();
    all.add(&(worker.clone() as Arc<dyn Follows>));
    if !worker.core.options().foreground {
        let its = worker.clone();
        let thread = std::thread::Builder::new()
            .name("terrace-follow".into())
            .spawn(move || {
                let _watch = its.core.store().watch("the thread that follows the log");
                let _told = Told(&its);
                its.run();
            })
            .map_err(|e| Error::io("starting", "the thread that follows the log", e))?;
        *worker.thread.lock() = Some(thread);
    }
    Ok(running)
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
    let running = start(core.clone(), folder, options, begin)?;
    let status = running.status();
    core.backups().following().keep(running);
    Ok(status)
}

/// Ends what [`follow_until_closed`] has begun.
#[cfg(feature = "control")]
pub fn stop_following(core: &Core, set: &Path) -> Result<FollowStatus> {
    match core.backups().following().take(set) {
        Some(running) => running.stop(),
        None => Err(Error::invalid(format!(
            "nobody was told from outside to follow the log to {}; what the program itself began it ends itself",
            set.display()
        ))),
    }
}
