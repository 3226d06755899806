//! Connections: who a client is, and what is spoken.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

use super::call::Call;
use super::keys::database;
use crate::host::locked;
use crate::proto::VERSION;
use crate::session::{Answers, Watched};
use crate::stop::{Run, SYNTAX, refuse};

/// How long no client may try another password after a wrong one.
const AFTER_WRONG: Duration = Duration::from_millis(100);
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// `PING`.
pub fn ping(c: &mut Call) -> Run {
    if c.args.len() > 2 {
        return refuse("ERR wrong number of arguments for 'ping' command");
    }
    let text = (c.args.len() == 2).then(|| c.args.at(1));
    if c.session.subscriptions() > 0 && !c.out.third {
        c.out.array(2);
        c.out.bulk("pong");
        c.out.bulk(text.unwrap_or_default());
        return Ok(());
    }
    match text {
        Some(text) => c.out.bulk(text),
        None => c.out.simple("PONG"),
    }
    Ok(())
}

/// `ECHO`.
pub fn echo(c: &mut Call) -> Run {
    c.out.bulk(c.args.at(1));
    Ok(())
}

/// `SELECT`.
pub fn select(c: &mut Call) -> Run {
    let db = database(c.args.at(1))?;
    c.session.select(db);
    c.work.db = db;
    c.out.ok();
    Ok(())
}

/// `QUIT`.
pub fn quit(c: &mut Call) -> Run {
    c.session.closing = true;
    c.out.ok();
    Ok(())
}

/// `RESET`.
pub fn reset(c: &mut Call) -> Run {
    c.session.multi = None;
    unwatch_all(c);
    super::pubsub::leave_all(c.session, c.host);
    c.session.select(0);
    c.work.db = 0;
    c.session.answers = Answers::Sent;
    c.session.trusted = locked(&c.host.settings.password).is_none();
    c.out.third = false;
    c.session.info.protocol.store(2, Ordering::Relaxed);
    locked(&c.session.info.name).clear();
    c.out.simple("RESET");
    Ok(())
}

/// Watches nothing any more.
pub fn unwatch_all(c: &mut Call) {
    let watched = std::mem::take(&mut c.session.watched);
    forget_watched(&c.work.signals, watched);
}

/// Watches nothing any more.
pub fn forget_watched(signals: &crate::signals::Signals, watched: Watched) {
    let places: Vec<_> = watched.places.into_iter().map(|(place, _)| place).collect();
    signals.unwatch(&places, &watched.watch);
}

fn log_in(c: &mut Call, user: &[u8], password: &[u8]) -> Run {
    let wanted = locked(&c.host.settings.password).clone();
    let slowed = c.session.slowed.is_some_and(|until| Instant::now() < until);
    let right = match &wanted {
        // All are compared in full, whatever they are.
        Some(wanted) => bool::from(wanted.as_bytes().ct_eq(password)),
        None => true,
    };
    if user != b"default" || !right || slowed {
        c.session.slowed = Some(Instant::now() + AFTER_WRONG);
        c.host.counts.refused.fetch_add(1, Ordering::Relaxed);
        return refuse(WRONG_PASSWORD);
    }
    c.session.trusted = true;
    Ok(())
}

/// `AUTH`.
pub fn auth(c: &mut Call) -> Run {
    match c.args.len() {
        2 if locked(&c.host.settings.password).is_none() => {
            return refuse(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            );
        }
        2 => log_in(c, b"default", c.args.at(1))?,
        3 => log_in(c, c.args.at(1), c.args.at(2))?,
        _ => return refuse(SYNTAX),
    }
    c.out.ok();
    Ok(())
}

/// `HELLO`.
pub fn hello(c: &mut Call) -> Run {
    let mut third = c.out.third;
    let mut i = 1;
    if c.args.len() > 1 {
        third = match crate::text::parse_i64(c.args.at(1)) {
            Some(2) => false,
            Some(3) => true,
            Some(_) => return refuse("NOPROTO unsupported protocol version"),
            None => return refuse("ERR Protocol version is not an integer or out of range"),
        };
        i = 2;
    }
    let mut name = None;
    while i < c.args.len() {
        if c.args.is(i, "AUTH") && i + 2 < c.args.len() {
            log_in(c, c.args.at(i + 1), c.args.at(i + 2))?;
            i += 3;
        } else if c.args.is(i, "SETNAME") && i + 1 < c.args.len() {
            name = Some(super::client::valid_name(c.args.at(i + 1))?);
            i += 2;
        } else {
            let option = String::from_utf8_lossy(c.args.at(i));
            return refuse(format!("ERR Syntax error in HELLO option '{option}'"));
        }
    }
    if !c.session.trusted {
        return refuse(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        );
    }
    if let Some(name) = name {
        *locked(&c.session.info.name) = name;
    }
    c.out.third = third;
    let version = if third { 3 } else { 2 };
    c.session.info.protocol.store(version, Ordering::Relaxed);
    c.out.map(7);
    c.out.bulk("server");
    c.out.bulk("redis");
    c.out.bulk("version");
    c.out.bulk(VERSION);
    c.out.bulk("proto");
    c.out.number(version.into());
    c.out.bulk("id");
    c.out.number(c.session.id as i64);
    c.out.bulk("mode");
    c.out.bulk("standalone");
    c.out.bulk("role");
    c.out.bulk("master");
    c.out.bulk("modules");
    c.out.array(0);
    Ok(())
}

/// `ACL`.
pub fn acl(c: &mut Call) -> Run {
    match () {
        () if c.args.is(1, "WHOAMI") && c.args.len() == 2 => c.out.bulk("default"),
        () if c.args.is(1, "USERS") && c.args.len() == 2 => {
            c.out.array(1);
            c.out.bulk("default");
        }
        () => {
            let name = String::from_utf8_lossy(c.args.at(1)).into_owned();
            return refuse(format!(
                "ERR ACL {name} is not there: there is one user, default, who may do everything"
            ));
        }
    }
    Ok(())
}
