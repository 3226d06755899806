//! Clients as others see them.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::call::Call;
use crate::host::{Host, locked};
use crate::mailbox::Mail;
use crate::session::{Answers, ClientInfo};
use crate::stop::{NOT_INTEGER, Run, SYNTAX, Stop, refuse};

/// A name without spaces and line ends.
pub fn valid_name(name: &[u8]) -> Run<String> {
    match name.iter().all(|b| (b'!'..=b'~').contains(b)) {
        true => Ok(String::from_utf8_lossy(name).into_owned()),
        false => refuse("ERR Client names cannot contain spaces, newlines or special characters."),
    }
}

/// A client as a line of `CLIENT LIST`.
fn line(host: &Host, info: &ClientInfo) -> String {
    let age = info.since.elapsed().as_millis() as u64;
    let idle = age.saturating_sub(info.active.load(Ordering::Relaxed));
    let subscribed = info.channels.load(Ordering::Relaxed);
    let queued = info.queued.load(Ordering::Relaxed) as i64 - 1;
    let mut flags = String::new();
    if info.blocked.load(Ordering::Relaxed) {
        flags.push('b');
    }
    if queued >= 0 {
        flags.push('x');
    }
    if subscribed > 0 {
        flags.push('P');
    }
    if flags.is_empty() {
        flags.push('N');
    }
    let command = info.command.load(Ordering::Relaxed).checked_sub(1);
    let command = command.and_then(|i| host.names.get(i)).unwrap_or(&"NULL");
    let library = locked(&info.library).clone();
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = write!(
        text,
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={subscribed} psub=0 ssub=0 multi={queued} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
        info.id,
        info.address,
        info.local,
        locked(&info.name),
        age / 1000,
        idle / 1000,
        info.db.load(Ordering::Relaxed),
        command,
        info.protocol.load(Ordering::Relaxed),
        library.0,
        library.1,
    );
    text
}

/// A type of clients, by its name. There are none that follow, or are followed.
fn kind(name: &[u8]) -> Run<&'static str> {
    let known = ["normal", "pubsub", "master", "replica", "slave"];
    let found = known
        .into_iter()
        .find(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    let unknown = || {
        let name = String::from_utf8_lossy(name);
        Stop::Reply(format!("ERR Unknown client type '{name}'").into())
    };
    found.ok_or_else(unknown)
}

fn kind_of(info: &ClientInfo) -> &'static str {
    match info.channels.load(Ordering::Relaxed) {
        0 => "normal",
        _ => "pubsub",
    }
}

/// `CLIENT`.
pub fn client(c: &mut Call) -> Run {
    let arguments = c.args.len();
    match String::from_utf8_lossy(c.args.at(1))
        .to_ascii_uppercase()
        .as_str()
    {
        "ID" if arguments == 2 => c.out.number(c.session.id as i64),
        "GETNAME" if arguments == 2 => {
            let name = locked(&c.session.info.name).clone();
            c.out.bulk_or_null((!name.is_empty()).then_some(name));
        }
        "SETNAME" if arguments == 3 => {
            let name = valid_name(c.args.at(2))?;
            *locked(&c.session.info.name) = name;
            c.out.ok();
        }
        "SETINFO" if arguments == 4 => {
            let text = valid_name(c.args.at(3))?;
            let mut library = locked(&c.session.info.library);
            match () {
                () if c.args.is(2, "LIB-NAME") => library.0 = text,
                () if c.args.is(2, "LIB-VER") => library.1 = text,
                () => {
                    let option = String::from_utf8_lossy(c.args.at(2));
                    return refuse(format!("ERR Unrecognized option '{option}'"));
                }
            }
            c.out.ok();
        }
        "INFO" if arguments == 2 => c
            .out
            .verbatim(&format!("{}\n", line(c.host, &c.session.info))),
        "LIST" => {
            let all: Vec<Arc<ClientInfo>> = locked(&c.host.clients).values().cloned().collect();
            let ids: Option<Vec<i64>> = match arguments {
                2 => None,
                4.. if c.args.is(2, "ID") => {
                    let ids = c.args.from(3).map(crate::text::parse_i64);
                    let ids: Option<Vec<i64>> = ids.collect();
                    Some(ids.ok_or(Stop::Reply("ERR Invalid client ID".into()))?)
                }
                4 if c.args.is(2, "TYPE") => None,
                _ => return refuse(SYNTAX),
            };
            let kind = match arguments == 4 && c.args.is(2, "TYPE") {
                true => Some(kind(c.args.at(3))?),
                false => None,
            };
            let mut text = String::new();
            for info in all {
                if ids
                    .as_ref()
                    .is_none_or(|ids| ids.contains(&(info.id as i64)))
                    && kind.is_none_or(|kind| kind == kind_of(&info))
                {
                    text += &line(c.host, &info);
                    text.push('\n');
                }
            }
            c.out.verbatim(&text);
        }
        "KILL" if arguments >= 3 => return kill(c),
        "REPLY" if arguments == 3 => {
            c.session.answers = match () {
                () if c.args.is(2, "ON") => Answers::Sent,
                () if c.args.is(2, "OFF") => Answers::Dropped,
                () if c.args.is(2, "SKIP") && c.session.answers == Answers::Dropped => {
                    Answers::Dropped
                }
                () if c.args.is(2, "SKIP") => Answers::SkipNext,
                () => return refuse(SYNTAX),
            };
            if c.session.answers == Answers::Sent {
                c.out.ok();
            }
        }
        "NO-EVICT" | "NO-TOUCH" if arguments == 3 => {
            match c.args.is(2, "ON") || c.args.is(2, "OFF") {
                true => c.out.ok(),
                false => return refuse(SYNTAX),
            }
        }
        "UNBLOCK" if arguments == 3 || arguments == 4 => {
            let Some(id) = crate::text::parse_i64(c.args.at(2)) else {
                return refuse(NOT_INTEGER);
            };
            let how = match () {
                () if arguments == 3 || c.args.is(3, "TIMEOUT") => 1,
                () if c.args.is(3, "ERROR") => 2,
                () => return refuse("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
            };
            let info = locked(&c.host.clients).get(&(id as u64)).cloned();
            let blocked = info.filter(|info| info.blocked.load(Ordering::SeqCst));
            if let Some(info) = &blocked {
                info.unblocked.store(how, Ordering::SeqCst);
                c.host.tell(info.on, Mail::Look(info.id));
            }
            c.out.number(i64::from(blocked.is_some()));
        }
        "GETREDIR" if arguments == 2 => c.out.number(-1),
        "TRACKING" => {
            return refuse(
                "ERR CLIENT TRACKING is not there: clients are not told what they have cached",
            );
        }
        "PAUSE" | "UNPAUSE" => return refuse("ERR CLIENT PAUSE is not there"),
        _ => {
            let name = String::from_utf8_lossy(c.args.at(1));
            return refuse(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT HELP."
            ));
        }
    }
    Ok(())
}

fn kill(c: &mut Call) -> Run {
    let old = c.args.len() == 3;
    let mut skip_me = true;
    let mut wanted: Vec<(&str, &[u8])> = Vec::new();
    if old {
        (skip_me, wanted) = (false, vec![("ADDR", c.args.at(2))]);
    } else {
        for i in (2..c.args.len()).step_by(2) {
            let known = ["ID", "ADDR", "LADDR", "USER", "TYPE", "SKIPME"];
            let Some(filter) = known.into_iter().find(|f| c.args.is(i, f)) else {
                return refuse(SYNTAX);
            };
            if i + 1 == c.args.len() {
                return refuse(SYNTAX);
            }
            match filter {
                "SKIPME" => skip_me = c.args.is(i + 1, "yes"),
                "ID" if crate::text::parse_i64(c.args.at(i + 1)).is_none_or(|id| id <= 0) => {
                    return refuse("ERR client-id should be greater than 0");
                }
                "TYPE" => {
                    kind(c.args.at(i + 1))?;
                    wanted.push((filter, c.args.at(i + 1)));
                }
                _ => wanted.push((filter, c.args.at(i + 1))),
            }
        }
    }
    let fits = |info: &ClientInfo| {
        wanted.iter().all(|(filter, value)| match *filter {
            "ID" => crate::text::parse_i64(value) == Some(info.id as i64),
            "ADDR" => info.address.as_bytes() == *value,
            "LADDR" => info.local.as_bytes() == *value,
            "USER" => *value == b"default",
            _ => kind(value).is_ok_and(|kind| kind == kind_of(info)),
        })
    };
    let all: Vec<Arc<ClientInfo>> = locked(&c.host.clients).values().cloned().collect();
    let mut killed = 0;
    for info in all {
        if !fits(&info) || (skip_me && info.id == c.session.id) {
            continue;
        }
        killed += 1;
        if info.id == c.session.id {
            c.session.closing = true;
        } else {
            info.killed.store(true, Ordering::SeqCst);
            c.host.tell(info.on, Mail::Look(info.id));
        }
    }
    match (old, killed) {
        (true, 0) => return refuse("ERR No such client"),
        (true, _) => c.out.ok(),
        (false, killed) => c.out.number(killed),
    }
    Ok(())
}
