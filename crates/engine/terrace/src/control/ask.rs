//! The side that asks.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use terrace_base::{Error, Result};

#[cfg(feature = "backup")]
use super::protocol::BackupRequest;
use super::protocol::{Answer, MAX_ANSWER_BYTES, Request, Version, rate_sent};
use super::socket::{SOCKET, reach};
use crate::changes::CommitLine;
use crate::gentle::Rate;
use crate::progress::Progress;
use crate::stats::{CheckpointInfo, Stats};
use crate::verify::VerifyReport;

/// How long nothing may be heard: what takes longer tells how far it is.
const SILENCE: Duration = Duration::from_secs(60);
/// The same of the first question, which takes no time: who hears nothing by then asks a process that has been
/// stopped.
const FIRST_SILENCE: Duration = Duration::from_secs(10);

/// A database that another process has open with [`crate::Options::control`], over its socket.
///
/// ```
/// use terrace::{Control, Database, Options};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let db = Database::open(path, Options::new().memory(16 << 20).control(true))?;
/// db.tree("users")?.put("alice", "Berlin")?;
///
/// // In another process of the same user:
/// let mut control = Control::connect(path)?;
/// assert_eq!(control.stats()?.memory.limit, 16 << 20);
/// println!("{}", control.survey()?);
/// control.checkpoint(|_| ())?;
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Debug)]
pub struct Control {
    stream: BufReader<UnixStream>,
}

impl Control {
    /// Connects to the process that has the database in this folder open.
    ///
    /// # Errors
    /// When nobody has it open, or not with [`crate::Options::control`], or its owner is another user.
    pub fn connect(folder: impl AsRef<Path>) -> Result<Control> {
        let folder = folder.as_ref();
        let connected = reach(folder).and_then(|(path, _kept)| UnixStream::connect(path));
        let stream = connected.map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::invalid(format!(
                "no process answers for the database in {}: have it opened there with Options::control(true)",
                folder.display()
            )),
            _ => failed("connecting to", e),
        })?;
        stream
            .set_read_timeout(Some(SILENCE))
            .and_then(|()| stream.set_write_timeout(Some(SILENCE)))
            .map_err(|e| failed("connecting to", e))?;
        Ok(Control {
            stream: BufReader::new(stream),
        })
    }

    /// Which Terrace answers.
    ///
    /// # Errors
    /// When the connection fails; as all that follow.
    pub fn version(&mut self) -> Result<Version> {
        let patience = |stream: &UnixStream, time| stream.set_read_timeout(Some(time));
        patience(self.stream.get_ref(), FIRST_SILENCE).map_err(|e| failed("reading from", e))?;
        let version = self.ask("version", |_| ());
        patience(self.stream.get_ref(), SILENCE).map_err(|e| failed("reading from", e))?;
        version
    }

    /// Why nothing could be read.
    fn unheard(&self, error: std::io::Error) -> Error {
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return failed("reading from", error);
        }
        let stream = self.stream.get_ref();
        let time = stream.read_timeout().ok().flatten().unwrap_or(SILENCE);
        let process = rustix::net::sockopt::socket_peercred(stream);
        let process = process.map_or(String::new(), |peer| {
            format!(" (number {})", peer.pid.as_raw_nonzero())
        });
        let what = format!(
            "the process that has the database open{process} has said nothing for {} seconds: it may have been stopped, or be very busy; let it go on, and ask again",
            time.as_secs()
        );
        failed(
            "reading from",
            std::io::Error::new(ErrorKind::TimedOut, what),
        )
    }

    /// [`crate::Database::stats`] there.
    ///
    /// # Errors
    /// As [`Control::version`].
    pub fn stats(&mut self) -> Result<Stats> {
        self.ask("stat", |_| ())
    }

    /// [`crate::Database::survey`] there.
    ///
    /// # Errors
    /// As there, and those of the connection.
    pub fn survey(&mut self) -> Result<Stats> {
        self.ask("survey", |_| ())
    }

    /// [`crate::Database::checkpoint`] there; `progress` hears how far it is, about.
    ///
    /// # Errors
    /// As there, and those of the connection. Once it has begun it goes on, whatever becomes of this
    /// side.
    pub fn checkpoint(&mut self, progress: impl FnMut(Progress)) -> Result<CheckpointInfo> {
        self.ask("checkpoint", progress)
    }

    /// [`crate::Database::verify_with`] there. All other calls of that process wait until it is done.
    ///
    /// # Errors
    /// As there, and those of the connection. It ends when this side goes away.
    pub fn verify(&mut self, progress: impl FnMut(Progress)) -> Result<VerifyReport> {
        self.ask("verify", progress)
    }

    /// [`crate::Database::backup`] there, to the set in this folder: its whole path. `mark` is what the point
    /// is called.
    ///
    /// # Errors
    /// As there, and those of the connection. It ends, and the set stays as it was, when this side goes away.
    #[cfg(feature = "backup")]
    pub fn backup(
        &mut self,
        set: impl AsRef<Path>,
        full: bool,
        rate: Rate,
        mark: Option<&str>,
        progress: impl FnMut(Progress),
    ) -> Result<crate::BackupReport> {
        let mut request = Request::of("backup");
        request.name = mark.map(str::to_owned);
        let (rate, gentle) = rate_sent(rate);
        request.backup = Some(BackupRequest {
            full,
            rate,
            gentle,
            ..BackupRequest::of(set.as_ref())
        });
        self.request(&request, progress)
    }

    /// [`crate::Database::follow`] there, to the set in this folder (its whole path), until the database is
    /// closed or this is stopped.
    ///
    /// # Errors
    /// As there, and those of the connection.
    #[cfg(feature = "backup")]
    pub fn follow(
        &mut self,
        set: impl AsRef<Path>,
        options: &crate::FollowOptions,
    ) -> Result<crate::FollowStatus> {
        let mut request = Request::of("follow");
        let (rate, gentle) = rate_sent(options.rate);
        let every = u64::try_from(options.every.as_millis()).unwrap_or(u64::MAX);
        request.backup = Some(BackupRequest {
            rate,
            gentle,
            every_ms: Some(every),
            point_after: options.point_after,
            ..BackupRequest::of(set.as_ref())
        });
        self.request(&request, |_| ())
    }

    /// Copies the rest of the log to the set in this folder and ends what [`Control::follow`] has begun. What
    /// the program there has begun itself goes on.
    ///
    /// # Errors
    /// When the last of the log could not be copied, or nobody was told to follow to this set; those of the
    /// connection.
    #[cfg(feature = "backup")]
    pub fn stop_following(&mut self, set: impl AsRef<Path>) -> Result<crate::FollowStatus> {
        let mut request = Request::of("stop_following");
        request.backup = Some(BackupRequest::of(set.as_ref()));
        self.request(&request, |_| ())
    }

    /// [`crate::Database::mark`] there.
    ///
    /// # Errors
    /// As there, and those of the connection.
    pub fn mark(&mut self, name: &str) -> Result<crate::Mark> {
        let mut request = Request::of("mark");
        request.name = Some(name.to_owned());
        self.request(&request, |_| ())
    }

    /// [`crate::Database::compact`] there, until pages are so full.
    ///
    /// # Errors
    /// As there, and those of the connection. It ends, with a part of it done, when this side goes away.
    pub fn compact(
        &mut self,
        fill: f64,
        rate: Rate,
        progress: impl FnMut(Progress),
    ) -> Result<crate::CompactReport> {
        let mut request = Request::of("compact");
        request.fill = Some(fill);
        (request.rate, request.gentle) = rate_sent(rate);
        self.request(&request, progress)
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        command: &str,
        progress: impl FnMut(Progress),
    ) -> Result<T> {
        self.request(&Request::of(command), progress)
    }

    /// [`crate::Database::changes`] there: each commit goes to `each`, which says whether there are to be more.
    /// From a place on ([`CommitLine::place`]) or from now on; the first
    /// line has no changes and says where that is. With `until_now` it ends with what there is. Once
    /// `each` has wanted no more this connection is of no use.
    ///
    /// # Errors
    /// As there, and those of the connection.
    pub fn changes(
        &mut self,
        from: Option<&str>,
        until_now: bool,
        each: impl FnMut(CommitLine) -> bool,
    ) -> Result<()> {
        let mut request = Request::of("changes");
        request.from = from.map(str::to_owned);
        request.until_now = until_now;
        let ended = self.exchange(&request, |_| (), each);
        ended.map(|_: Option<()>| ())
    }

    fn request<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        progress: impl FnMut(Progress),
    ) -> Result<T> {
        let unasked = || {
            Error::invalid(
                "the process that has the database open answers with changes that nobody asked for",
            )
        };
        self.exchange(request, progress, |_| false)?
            .ok_or_else(unasked)
    }

    /// Asks, and hears all of the answer; nothing if `commit` has wanted no more of it.
    fn exchange<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        mut progress: impl FnMut(Progress),
        mut commit: impl FnMut(CommitLine) -> bool,
    ) -> Result<Option<T>> {
        let mut line = serde_json::to_vec(request).map_err(not_understood)?;
        line.push(b'\n');
        let sent = self.stream.get_mut().write_all(&line);
        // Who refuses says why before the end comes.
        let unsent = sent.err();
        loop {
            line.clear();
            let mut bounded = (&mut self.stream).take(MAX_ANSWER_BYTES as u64);
            let read = bounded.read_until(b'\n', &mut line);
            read.map_err(|e| self.unheard(e))?;
            if line.last() != Some(&b'\n') {
                return Err(match unsent {
                    Some(e) => failed("writing to", e),
                    None => failed("reading from", ErrorKind::UnexpectedEof.into()),
                });
            }
            match decode(&line).map_err(not_understood)? {
                Answer::Progress(at) => at.into_iter().for_each(&mut progress),
                Answer::Commit(line) => {
                    if !commit(line) {
                        return Ok(None);
                    }
                }
                Answer::Ok(value) => return Ok(Some(value)),
                Answer::Error(refusal) => return Err(refusal.error()),
            }
        }
    }
}

impl Request {
    fn of(command: &str) -> Request {
        Request {
            command: command.to_owned(),
            #[cfg(feature = "backup")]
            backup: None,
            name: None,
            from: None,
            until_now: false,
            fill: None,
            rate: None,
            gentle: false,
        }
    }
}

/// What a line says. Texts in it may reach a terminal, and who answers may be another program than it should
/// be: so they have no control characters.
fn decode<T: DeserializeOwned>(line: &[u8]) -> serde_json::Result<Answer<T>> {
    // Records are data, and no caller prints them as they are.
    if line.starts_with(b"{\"commit\":") {
        return serde_json::from_slice(line);
    }
    let mut said: serde_json::Value = serde_json::from_slice(line)?;
    make_printable(&mut said);
    serde_json::from_value(said)
}

/// Puts a sign in the place of each control character.
fn make_printable(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::String(text) if text.contains(char::is_control) => {
            *text = text.replace(char::is_control, "\u{fffd}");
        }
        Value::Array(values) => values.iter_mut().for_each(make_printable),
        Value::Object(object) => object.values_mut().for_each(make_printable),
        _ => {}
    }
}

fn failed(op: &'static str, error: std::io::Error) -> Error {
    Error::io(op, SOCKET, error)
}

fn not_understood(error: serde_json::Error) -> Error {
    Error::invalid(format!(
        "the process that has the database open speaks otherwise ({error}): use the same version of Terrace on both sides"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_another_program_have_no_control_characters() {
        let line = br#"{"error":{"kind":"invalid","text":"a\u001b]0;title\u0007\nb"}}"#;
        let Answer::Error(refusal) = decode::<u32>(line).unwrap() else {
            panic!("it is an error");
        };
        let told = refusal.error().to_string();
        assert!(
            told.contains("title") && !told.contains(char::is_control),
            "{told}"
        );
        let line = br#"{"ok":[{"name":"\u001b[2J"},1.5,18446744073709551615]}"#;
        let Answer::Ok(said) = decode::<serde_json::Value>(line).unwrap() else {
            panic!("it is an answer");
        };
        assert_eq!(
            said.to_string(),
            "[{\"name\":\"\u{fffd}[2J\"},1.5,18446744073709551615]"
        );
    }
}
