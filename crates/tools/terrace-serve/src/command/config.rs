//! Settings.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::call::Call;
use crate::channels;
use crate::glob;
use crate::host::{Host, locked};
use crate::options::AppendFsync;
use crate::stop::{Run, refuse};
use crate::text::parse_i64;

/// The settings that clients ask for, and what they are.
fn all(host: &Host) -> Vec<(&'static str, String)> {
    let settings = &host.settings;
    let memory = host.store.db.stats().memory.limit;
    vec![
        ("maxmemory", memory.to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("save", String::new()),
        ("appendonly", "yes".to_owned()),
        ("appendfsync", host.appendfsync().name().to_owned()),
        (
            "timeout",
            settings.timeout.load(Ordering::Relaxed).to_string(),
        ),
        (
            "maxclients",
            settings.max_clients.load(Ordering::Relaxed).to_string(),
        ),
        ("databases", crate::store::keyspace::DATABASES.to_string()),
        ("port", host.port.load(Ordering::Relaxed).to_string()),
        ("proto-max-bulk-len", host.options.max_value.to_string()),
        (
            "slowlog-log-slower-than",
            settings.slow.load(Ordering::Relaxed).to_string(),
        ),
        (
            "slowlog-max-len",
            settings.slow_kept.load(Ordering::Relaxed).to_string(),
        ),
        (
            "lua-time-limit",
            settings.script_limit.load(Ordering::Relaxed).to_string(),
        ),
        (
            "busy-reply-threshold",
            settings.script_limit.load(Ordering::Relaxed).to_string(),
        ),
        (
            "notify-keyspace-events",
            channels::letters(settings.notify.load(Ordering::Relaxed)),
        ),
        ("requirepass", String::new()),
        ("tcp-keepalive", "300".to_owned()),
        ("hz", "10".to_owned()),
        ("dir", String::new()),
        ("dbfilename", String::new()),
        ("cluster-enabled", "no".to_owned()),
    ]
}

/// What a setting is to be.
enum Change {
    AppendFsync(AppendFsync),
    Timeout(u64),
    MaxClients(usize),
    Slow(i64),
    SlowKept(usize),
    ScriptLimit(u64),
    Notify(u32),
    Password(Option<String>),
    Nothing,
}

fn change(host: &Host, name: &str, value: &str) -> Result<Change, String> {
    let number = |least: i64, most: i64| match parse_i64(value.as_bytes()) {
        Some(number) if (least..=most).contains(&number) => Ok(number),
        Some(_) => Err(format!(
            "argument must be between {least} and {most} inclusive"
        )),
        None => Err("argument couldn't be parsed into an integer".to_owned()),
    };
    Ok(match name {
        "appendfsync" => match AppendFsync::parse(value) {
            Some(mode) => Change::AppendFsync(mode),
            None => {
                return Err(
                    "argument(s) must be one of the following: everysec, always, no".into(),
                );
            }
        },
        // As Redis: seconds in 31 bits.
        "timeout" => Change::Timeout(number(0, i32::MAX.into())? as u64),
        "maxclients" => Change::MaxClients(number(1, u32::MAX.into())? as usize),
        "slowlog-log-slower-than" => Change::Slow(number(-1, i64::MAX)?),
        "slowlog-max-len" => Change::SlowKept(number(0, i64::MAX)? as usize),
        "lua-time-limit" | "busy-reply-threshold" => {
            Change::ScriptLimit(number(0, i64::MAX)? as u64)
        }
        "notify-keyspace-events" => match channels::classes(value) {
            Some(classes) => Change::Notify(classes),
            None => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
        },
        "requirepass" => {
            if value.is_empty() && host.options.open().is_some() {
                return Err("the server can be reached from other machines".into());
            }
            Change::Password((!value.is_empty()).then(|| value.to_owned()))
        }
        // There are no such files: everything is durable anyway.
        "save" if value.is_empty() => Change::Nothing,
        _ => return Err("can't set immutable config".into()),
    })
}

fn apply(host: &Host, change: Change) {
    let settings = &host.settings;
    let relaxed = Ordering::Relaxed;
    match change {
        Change::AppendFsync(mode) => settings.appendfsync.store(mode as u8, relaxed),
        Change::Timeout(seconds) => settings.timeout.store(seconds, relaxed),
        Change::MaxClients(most) => settings.max_clients.store(most, relaxed),
        Change::Slow(micros) => settings.slow.store(micros, relaxed),
        Change::SlowKept(most) => settings.slow_kept.store(most, relaxed),
        Change::ScriptLimit(millis) => settings.script_limit.store(millis, relaxed),
        Change::Notify(classes) => settings.notify.store(classes, relaxed),
        Change::Password(password) => *locked(&settings.password) = password,
        Change::Nothing => {}
    }
}

/// `CONFIG`.
pub fn config(c: &mut Call) -> Run {
    let arguments = c.args.len();
    match String::from_utf8_lossy(c.args.at(1))
        .to_ascii_uppercase()
        .as_str()
    {
        "GET" if arguments >= 3 => {
            let wanted: Vec<Vec<u8>> = c.args.from(2).map(<[u8]>::to_ascii_lowercase).collect();
            let mut found = all(c.host);
            found.retain(|(name, _)| wanted.iter().any(|w| glob::fits(w, name.as_bytes())));
            c.out.map(found.len());
            for (name, value) in found {
                c.out.bulk(name);
                c.out.bulk(value);
            }
        }
        "SET" if arguments >= 4 && arguments.is_multiple_of(2) => {
            // All of it, or nothing.
            let mut changes = BTreeMap::new();
            for i in (2..arguments).step_by(2) {
                let name = String::from_utf8_lossy(c.args.at(i)).to_ascii_lowercase();
                if !all(c.host).iter().any(|(known, _)| *known == name) {
                    return refuse(format!(
                        "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                    ));
                }
                let value = String::from_utf8_lossy(c.args.at(i + 1)).into_owned();
                let change = match changes.contains_key(&name) {
                    true => Err("duplicate parameter".to_owned()),
                    false => change(c.host, &name, &value),
                };
                match change {
                    Ok(change) => _ = changes.insert(name, change),
                    Err(why) => {
                        return refuse(format!(
                            "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
                        ));
                    }
                }
            }
            changes
                .into_values()
                .for_each(|change| apply(c.host, change));
            c.out.ok();
        }
        "RESETSTAT" if arguments == 2 => {
            let counts = &c.host.counts;
            for count in [
                &counts.connections,
                &counts.rejected,
                &counts.commands,
                &counts.read,
                &counts.written,
                &counts.hits,
                &counts.misses,
                &counts.expired,
                &counts.errors,
            ] {
                count.store(0, Ordering::Relaxed);
            }
            for counted in &c.host.counted {
                counted.calls.store(0, Ordering::Relaxed);
                counted.micros.store(0, Ordering::Relaxed);
                counted.failed.store(0, Ordering::Relaxed);
            }
            c.out.ok();
        }
        "REWRITE" => return refuse("ERR The server is running without a config file"),
        _ => {
            let name = String::from_utf8_lossy(c.args.at(1));
            return refuse(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try CONFIG HELP."
            ));
        }
    }
    Ok(())
}
