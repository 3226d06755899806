//! Settings.

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

fn change(host: &Host, name: &str, value: &str) -> Result<(), String> {
    let settings = &host.settings;
    let number = |least: i64| match parse_i64(value.as_bytes()) {
        Some(number) if number >= least => Ok(number),
        _ => Err("argument couldn't be parsed into an integer".to_owned()),
    };
    match name {
        "appendfsync" => match AppendFsync::parse(value) {
            Some(mode) => settings.appendfsync.store(mode as u8, Ordering::Relaxed),
            None => {
                return Err(
                    "argument(s) must be one of the following: everysec, always, no".into(),
                );
            }
        },
        "timeout" => settings.timeout.store(number(0)? as u64, Ordering::Relaxed),
        "maxclients" => settings
            .max_clients
            .store(number(1)? as usize, Ordering::Relaxed),
        "slowlog-log-slower-than" => settings.slow.store(number(-1)?, Ordering::Relaxed),
        "slowlog-max-len" => settings
            .slow_kept
            .store(number(0)? as usize, Ordering::Relaxed),
        "lua-time-limit" | "busy-reply-threshold" => settings
            .script_limit
            .store(number(0)? as u64, Ordering::Relaxed),
        "notify-keyspace-events" => match channels::classes(value) {
            Some(classes) => settings.notify.store(classes, Ordering::Relaxed),
            None => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
        },
        "requirepass" => {
            if value.is_empty() && host.options.open().is_some() {
                return Err("the server can be reached from other machines".into());
            }
            let password = (!value.is_empty()).then(|| value.to_owned());
            *locked(&settings.password) = password;
        }
        // There are no such files: everything is durable anyway.
        "save" if value.is_empty() => {}
        _ => return Err("can't set immutable config".into()),
    }
    Ok(())
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
            for i in (2..arguments).step_by(2) {
                let name = String::from_utf8_lossy(c.args.at(i)).to_ascii_lowercase();
                if !all(c.host).iter().any(|(known, _)| *known == name) {
                    return refuse(format!(
                        "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                    ));
                }
                let value = String::from_utf8_lossy(c.args.at(i + 1)).into_owned();
                if let Err(why) = change(c.host, &name, &value) {
                    return refuse(format!(
                        "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
                    ));
                }
            }
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
