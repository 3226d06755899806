//! What comes over one connection, and what is answered.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SendFlags;
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

#[cfg(feature = "backup")]
use super::protocol::BackupRequest;
use super::protocol::{
    Answer, MAX_ANSWER_BYTES, MAX_LINE_BYTES, PATIENCE, Request, Version, rate_of,
};
use super::refusal::Refusal;
use crate::changes::{ChangesOptions, Commit, CommitLine, WrittenCommit};
use crate::core::Core;
use crate::gentle::Cancel;
use crate::progress::Progress;

/// How often a client hears of long work.
const TELL: Duration = Duration::from_millis(200);

/// All commands, for who names another.
const COMMANDS: &str = "version, stat, survey, checkpoint, backup, follow, stop_following, mark, compact, verify, changes";

/// Answers requests until there are no more. What takes long ends with `cancel`.
pub fn serve(stream: &mut UnixStream, core: &Arc<Core>, cancel: &Cancel) -> io::Result<()> {
    let mut pending = Vec::new();
    loop {
        let line = match next_line(stream, &mut pending)? {
            Line::Whole(line) => line,
            Line::End => return Ok(()),
            Line::TooLong => {
                let text =
                    format!("a request has {MAX_LINE_BYTES} bytes at most, with its line end");
                return stream.write_all(&refuse("invalid", text));
            }
        };
        let answer = match serde_json::from_slice::<Request>(&line) {
            Err(e) => refuse(
                "invalid",
                format!("not a request: {e}; one is {{\"command\":\"stat\"}} on a line"),
            ),
            Ok(request) => answer(stream, core, &request, cancel),
        };
        stream.write_all(&answer)?;
    }
}

/// What came.
enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// Nothing more, for now or at all.
    End,
    TooLong,
}

/// The next line, all of which must come within [`PATIENCE`].
fn next_line(stream: &mut UnixStream, pending: &mut Vec<u8>) -> io::Result<Line> {
    let deadline = Instant::now() + PATIENCE;
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line = pending.drain(..=end).take(end).collect();
            return Ok(Line::Whole(line));
        }
        if pending.len() >= MAX_LINE_BYTES {
            return Ok(Line::TooLong);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Line::End);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Line::End),
            Ok(read) => pending.extend_from_slice(&buffer[..read]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Does what is asked.
fn answer(
    stream: &mut UnixStream,
    core: &Arc<Core>,
    request: &Request,
    cancel: &Cancel,
) -> Vec<u8> {
    match request.command.as_str() {
        "version" => line(&Answer::Ok(Version::own())),
        "stat" => line(&Answer::Ok(core.stats())),
        "survey" => told(core.survey()),
        "checkpoint" => told(checkpoint(stream, core)),
        #[cfg(feature = "backup")]
        "backup" => told(backup(stream, core, request, cancel)),
        #[cfg(feature = "backup")]
        "follow" => told(heard(stream, || follow(core, request))),
        #[cfg(feature = "backup")]
        "stop_following" => {
            // It may have to make a point yet.
            let stop = |r: &BackupRequest| crate::backup::stop_following(core, &r.set);
            told(heard(stream, || wanted(request).and_then(stop)))
        }
        "mark" => told(match &request.name {
            Some(name) => core.mark(name),
            None => Err(Error::invalid(
                "a mark needs a name: \"name\":\"before-migration\" beside the command",
            )),
        }),
        "changes" => told(changes(stream, core, request, cancel)),
        "compact" => told(compact(stream, core, request, cancel)),
        "verify" => told(watched(stream, cancel, |tell| core.verify(tell, cancel))),
        _ => refuse(
            "invalid",
            format!("there is no command of this name; there are {COMMANDS}"),
        ),
    }
}

/// What a request says of a backup.
#[cfg(feature = "backup")]
fn wanted(request: &Request) -> Result<&BackupRequest> {
    let Some(wanted) = &request.backup else {
        return Err(Error::invalid(
            "this needs the folder of the backup set: \"backup\":{\"set\":\"/path\"} beside the command",
        ));
    };
    match wanted.set.is_absolute() {
        true => Ok(wanted),
        false => Err(Error::invalid(format!(
            "{} is no whole path, and this process may be in another folder",
            wanted.set.display()
        ))),
    }
}

/// Follows the log until the database is closed, or this is stopped.
#[cfg(feature = "backup")]
fn follow(core: &Arc<Core>, request: &Request) -> Result<crate::FollowStatus> {
    let wanted = wanted(request)?;
    let mut options = crate::FollowOptions::new().rate(rate_of(wanted.rate, wanted.gentle));
    if let Some(every) = wanted.every_ms {
        options = options.every(Duration::from_millis(every));
    }
    if let Some(bytes) = wanted.point_after {
        options = options.point_after(bytes);
    }
    crate::backup::follow_until_closed(core, &wanted.set, options)
}

/// Sends every commit from a place on, and now and then that it is still there.
fn changes(
    stream: &mut UnixStream,
    core: &Arc<Core>,
    request: &Request,
    cancel: &Cancel,
) -> Result<()> {
    let mut options = ChangesOptions::new().cancel(cancel);
    if let Some(place) = &request.from {
        options = options.from(place.parse()?);
    }
    if request.until_now {
        options = options.until_now();
    }
    let mut changes = crate::changes::read(core, options)?;
    let unheard = |_| Error::Cancelled {
        what: "who has asked for the changes does not hear them any more".into(),
    };
    let begin = line(&Answer::<()>::Commit(CommitLine::from(changes.place())));
    stream.write_all(&begin).map_err(unheard)?;
    while !changes.is_at_end() {
        match changes.next_within(TELL)? {
            Some(commit) => {
                let line = line_of(&commit, MAX_ANSWER_BYTES).ok_or_else(|| {
                    Error::invalid(format!(
                        "the line of commit {} has more bytes than the {MAX_ANSWER_BYTES} that are sent at most; go on behind it, from {}, or read it within the program (Database::changes)",
                        commit.sequence(),
                        commit.place()
                    ))
                })?;
                stream.write_all(&line).map_err(unheard)?;
            }
            None => tell(stream, None).map_err(unheard)?,
        }
    }
    Ok(())
}

/// Makes pages full and the file short.
fn compact(
    stream: &mut UnixStream,
    core: &Core,
    request: &Request,
    cancel: &Cancel,
) -> Result<crate::CompactReport> {
    let mut options = crate::CompactOptions::new()
        .rate(rate_of(request.rate, request.gentle))
        .cancel(cancel);
    if let Some(fill) = request.fill {
        options = options.fill(fill);
    }
    watched(stream, cancel, |tell| core.compact(options.progress(tell)))
}

/// Adds a point to a backup set.
#[cfg(feature = "backup")]
fn backup(
    stream: &mut UnixStream,
    core: &Core,
    request: &Request,
    cancel: &Cancel,
) -> Result<crate::BackupReport> {
    let wanted = wanted(request)?;
    let mut options = crate::BackupOptions::new()
        .full(wanted.full)
        .rate(rate_of(wanted.rate, wanted.gentle))
        .cancel(cancel);
    if let Some(name) = &request.name {
        options = options.mark(name);
    }
    watched(stream, cancel, |tell| {
        core.back_up_to(&wanted.set, options.progress(tell))
    })
}

/// Does what takes long, while another thread tells how far it is, also where that does not change for a
/// while: so each side hears that the other is there. Where the client does not listen any more the work is cancelled.
fn watched<T>(
    stream: &mut UnixStream,
    cancel: &Cancel,
    work: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T>,
) -> Result<T> {
    let last: Mutex<Option<Progress>> = Mutex::new(None);
    let (working, worked) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let last = &last;
        // Without the thread there is nothing to be seen, and that is all.
        let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
            while let Err(RecvTimeoutError::Timeout) = worked.recv_timeout(TELL) {
                let at = *last.lock();
                if tell(stream, at).is_err() {
                    return cancel.cancel();
                }
            }
        });
        let done = work(&mut |progress| *last.lock() = Some(progress));
        drop(working);
        done
    })
}

/// Does what takes long and cannot be ended, while who has asked hears that it goes on.
#[cfg(feature = "backup")]
fn heard<T>(stream: &mut UnixStream, work: impl FnOnce() -> Result<T>) -> Result<T> {
    watched(stream, &Cancel::new(), |_| work())
}

/// Makes a checkpoint and tells from another thread how far it is.
fn checkpoint(stream: &mut UnixStream, core: &Core) -> Result<crate::CheckpointInfo> {
    let (making, made) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Without the thread there is nothing to be seen, and that is all.
        let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
            while let Err(RecvTimeoutError::Timeout) = made.recv_timeout(TELL) {
                if tell(stream, core.stats().checkpoints.running).is_err() {
                    return;
                }
            }
        });
        let done = core.asked_checkpoint();
        drop(making);
        done.map(crate::CheckpointInfo::from)
    })
}

/// Tells how far it is, if that takes no waiting: others may wait for the work, and who asked may have been
/// stopped. Who does not listen hears the answer, later.
fn tell(stream: &mut UnixStream, progress: Option<Progress>) -> io::Result<()> {
    let line = line(&Answer::<()>::Progress(progress));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    match rustix::net::send(&*stream, &line, flags) {
        Ok(sent) if sent == line.len() => Ok(()),
        // Lines as short as this go as a whole; what would follow half a one could not be read.
        Ok(_) => stream.shutdown(Shutdown::Both),
        Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

fn told<T: serde::Serialize>(done: Result<T>) -> Vec<u8> {
    match done {
        Ok(value) => line(&Answer::Ok(value)),
        Err(e) => refused(&e),
    }
}

fn refused(error: &Error) -> Vec<u8> {
    line(&Answer::<()>::Error(Refusal::of(error)))
}

/// The line that says why there is no answer.
pub fn refuse(kind: &str, text: String) -> Vec<u8> {
    line(&Answer::<()>::Error(Refusal::new(kind, text)))
}

/// The line of a commit, unless it is longer than `most` bytes; no more than them are had at a time.
fn line_of(commit: &Commit, most: usize) -> Option<Vec<u8>> {
    struct Bounded(Vec<u8>, usize);
    impl Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.len() > self.1.saturating_sub(self.0.len()) {
                return Err(ErrorKind::FileTooLarge.into());
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    /// As [`Answer::Commit`].
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Written<'c> {
        Commit(WrittenCommit<'c>),
    }
    let mut line = Bounded(Vec::new(), most.saturating_sub(1));
    serde_json::to_writer(&mut line, &Written::Commit(commit.into())).ok()?;
    line.0.push(b'\n');
    Some(line.0)
}

fn line<T: serde::Serialize>(answer: &Answer<T>) -> Vec<u8> {
    // Numbers, names and texts alone, so it cannot fail; if it does, who asked sees the end.
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;
    use crate::{Database, Options};

    #[test]
    fn a_commit_is_written_as_it_is_read_and_never_longer_than_is_sent() {
        let options = Options::new().memory(4 << 20).page_size(4096);
        let options = options.foreground(true).seed(1);
        let disk = terrace_sim::SimDisk::new(1);
        let db = Database::open_on(disk.shared(), options).unwrap();
        let tree = db.tree("t").unwrap();
        let mut changes = db.changes(ChangesOptions::new().until_now()).unwrap();
        assert!(changes.next().is_none());
        let mut batch = db.batch();
        for n in 0..1000u32 {
            batch.put(&tree, n.to_be_bytes(), "v");
            batch.delete(&tree, format!("text {n}"));
        }
        db.write(batch, None).unwrap();
        let options = ChangesOptions::new().from(changes.place()).until_now();
        let commit = db.changes(options).unwrap().next().unwrap().unwrap();
        let whole = line(&Answer::<()>::Commit(CommitLine::from(&commit)));
        assert_eq!(line_of(&commit, whole.len()).unwrap(), whole);
        assert!(line_of(&commit, whole.len() - 1).is_none());
        assert!(line_of(&commit, 0).is_none());
    }

    #[test]
    fn who_does_not_listen_holds_nobody_up() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.set_write_timeout(Some(PATIENCE)).unwrap();
        let began = Instant::now();
        for done in 0..20_000 {
            let progress = Progress {
                work: crate::progress::Work::Pages,
                done,
                total: 20_000,
            };
            tell(&mut ours, Some(progress)).unwrap();
        }
        assert!(began.elapsed() < PATIENCE / 2);
        // What was told is whole, and the answer comes after it.
        let telling = std::thread::spawn(move || {
            ours.write_all(&line(&Answer::Ok(7))).unwrap();
        });
        let mut told = 0;
        let mut lines = BufReader::new(theirs).lines().map_while(io::Result::ok);
        let last = lines.by_ref().find(|line| {
            told += 1;
            !matches!(serde_json::from_str(line), Ok(Answer::<u32>::Progress(_)))
        });
        let last = serde_json::from_str(&last.unwrap()).unwrap();
        assert!(matches!(last, Answer::<u32>::Ok(7)));
        assert!(lines.next().is_none() && (2..20_000).contains(&told));
        telling.join().unwrap();
    }
}
