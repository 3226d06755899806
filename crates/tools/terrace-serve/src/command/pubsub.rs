//! Channels.

use std::sync::atomic::Ordering;

use super::call::Call;
use crate::host::Host;
use crate::planted::{Fault, planted};
use crate::proto::reply::Reply;
use crate::session::Session;
use crate::stop::{Run, refuse};

fn said(out: &mut Reply, what: &str, name: Option<&[u8]>, left: usize) {
    out.push(3);
    out.bulk(what);
    out.bulk_or_null(name);
    out.count(left);
}

fn note(session: &Session) {
    let many = session.subscriptions() as u64;
    session.info.channels.store(many, Ordering::Relaxed);
}

fn listen(c: &mut Call, is_pattern: bool) -> Run {
    let listener = (c.session.on, c.session.id);
    for name in c.args.from(1) {
        let own = match is_pattern {
            true => &mut c.session.patterns,
            false => &mut c.session.channels,
        };
        if own.insert(name.to_vec()) {
            c.host.channels.listen(name, is_pattern, listener);
        }
        let what = if is_pattern {
            "psubscribe"
        } else {
            "subscribe"
        };
        said(c.out, what, Some(name), c.session.subscriptions());
    }
    note(c.session);
    Ok(())
}

/// `SUBSCRIBE`.
pub fn subscribe(c: &mut Call) -> Run {
    listen(c, false)
}

/// `PSUBSCRIBE`.
pub fn psubscribe(c: &mut Call) -> Run {
    listen(c, true)
}

fn leave(c: &mut Call, is_pattern: bool) -> Run {
    let listener = (c.session.on, c.session.id);
    let what = if is_pattern {
        "punsubscribe"
    } else {
        "unsubscribe"
    };
    let mut names: Vec<Vec<u8>> = c.args.from(1).map(<[u8]>::to_vec).collect();
    if names.is_empty() {
        let own = match is_pattern {
            true => &c.session.patterns,
            false => &c.session.channels,
        };
        names.extend(own.iter().cloned());
        if names.is_empty() {
            said(c.out, what, None, c.session.subscriptions());
        }
    }
    for name in names {
        let own = match is_pattern {
            true => &mut c.session.patterns,
            false => &mut c.session.channels,
        };
        if own.remove(&name) {
            c.host.channels.leave(&name, is_pattern, listener);
        }
        said(c.out, what, Some(&name), c.session.subscriptions());
    }
    note(c.session);
    Ok(())
}

/// `UNSUBSCRIBE`.
pub fn unsubscribe(c: &mut Call) -> Run {
    leave(c, false)
}

/// `PUNSUBSCRIBE`.
pub fn punsubscribe(c: &mut Call) -> Run {
    leave(c, true)
}

/// Listens to nothing any more.
pub fn leave_all(session: &mut Session, host: &Host) {
    let listener = (session.on, session.id);
    for name in std::mem::take(&mut session.channels) {
        host.channels.leave(&name, false, listener);
    }
    for name in std::mem::take(&mut session.patterns) {
        host.channels.leave(&name, true, listener);
    }
    note(session);
}

/// Publishes a message; how many hear it.
pub fn tell(host: &Host, channel: &[u8], text: &[u8]) -> usize {
    host.channels.publish(channel, text, &|(on, client), said| {
        host.say(on, client, said);
    })
}

/// `PUBLISH`. Within a transaction or a script, which may run again, it waits for the end.
pub fn publish(c: &mut Call) -> Run {
    let (channel, text) = (c.args.at(1), c.args.at(2));
    let heard = match c.session.in_exec && !planted(Fault::SaidTwice) {
        true => {
            let heard = c.host.channels.would_hear(channel);
            if heard > 0 {
                c.work.publish(channel, text);
            }
            heard
        }
        false => tell(c.host, channel, text),
    };
    c.out.count(heard);
    Ok(())
}

/// `PUBSUB`.
pub fn pubsub(c: &mut Call) -> Run {
    match () {
        () if c.args.is(1, "CHANNELS") && c.args.len() <= 3 => {
            let pattern = (c.args.len() == 3).then(|| c.args.at(2));
            let names = c.host.channels.names(pattern);
            c.out.array(names.len());
            names.iter().for_each(|name| c.out.bulk(name));
        }
        () if c.args.is(1, "NUMSUB") => {
            c.out.array(2 * (c.args.len() - 2));
            for name in c.args.from(2) {
                c.out.bulk(name);
                c.out.count(c.host.channels.listeners(name));
            }
        }
        () if c.args.is(1, "NUMPAT") && c.args.len() == 2 => {
            c.out.count(c.host.channels.patterns())
        }
        () => {
            let name = String::from_utf8_lossy(c.args.at(1));
            return refuse(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
            ));
        }
    }
    Ok(())
}
