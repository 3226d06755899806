//! What looks after the server.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use terrace::BackupOptions;

use super::call::Call;
use crate::host::{locked, seconds};
use crate::stop::{Run, SYNTAX, refuse};

/// Longest sleep that a test may ask for, in seconds.
const LONGEST_SLEEP: f64 = 60.0;

/// `TIME`.
pub fn time(c: &mut Call) -> Run {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    c.out.array(2);
    c.out.bulk(now.as_secs().to_string());
    c.out.bulk(now.subsec_micros().to_string());
    Ok(())
}

/// `LASTSAVE`.
pub fn lastsave(c: &mut Call) -> Run {
    c.out
        .number(c.host.last_save.load(Ordering::Relaxed) as i64);
    Ok(())
}

fn checkpoint(c: &mut Call) -> Run {
    c.work.outside(|store| store.db.checkpoint())?;
    c.host.last_save.store(seconds(), Ordering::Relaxed);
    Ok(())
}

/// `SAVE`.
pub fn save(c: &mut Call) -> Run {
    checkpoint(c)?;
    c.out.ok();
    Ok(())
}

/// `BGREWRITEAOF`.
pub fn bgrewriteaof(c: &mut Call) -> Run {
    checkpoint(c)?;
    c.out
        .simple("Background append only file rewriting started");
    Ok(())
}

/// `BGSAVE`, which answers when it is done.
pub fn bgsave(c: &mut Call) -> Run {
    match &c.host.options.backup_dir {
        Some(set) => {
            c.work
                .outside(|store| store.db.backup(set, BackupOptions::new()))?;
            c.host.last_save.store(seconds(), Ordering::Relaxed);
        }
        None => checkpoint(c)?,
    }
    c.out.simple("Background saving started");
    Ok(())
}

/// `SHUTDOWN`.
pub fn shutdown(c: &mut Call) -> Run {
    if c.args.is(1, "ABORT") {
        return refuse("ERR No shutdown in progress.");
    }
    let known = ["NOSAVE", "SAVE", "NOW", "FORCE"];
    if (1..c.args.len()).any(|i| !known.into_iter().any(|k| c.args.is(i, k))) {
        return refuse(SYNTAX);
    }
    c.session.closing = true;
    c.host.stop();
    Ok(())
}

/// `SLOWLOG`.
pub fn slowlog(c: &mut Call) -> Run {
    match () {
        () if c.args.is(1, "GET") && c.args.len() <= 3 => {
            let most = match c.args.len() {
                3 => match c.args.integer(2)? {
                    -1 => usize::MAX,
                    most if most >= 0 => most as usize,
                    _ => return refuse("ERR count should be greater than or equal to -1"),
                },
                _ => 10,
            };
            let slow = locked(&c.host.slow);
            c.out.array(slow.len().min(most));
            for one in slow.iter().take(most) {
                c.out.array(6);
                c.out.number(one.id as i64);
                c.out.number(one.at as i64);
                c.out.number(one.micros as i64);
                c.out.array(1);
                c.out.bulk(&one.command);
                c.out.bulk(&one.client);
                c.out.bulk(&one.name);
            }
        }
        () if c.args.is(1, "LEN") && c.args.len() == 2 => c.out.count(locked(&c.host.slow).len()),
        () if c.args.is(1, "RESET") && c.args.len() == 2 => {
            locked(&c.host.slow).clear();
            c.out.ok();
        }
        () => return unknown(c, "SLOWLOG"),
    }
    Ok(())
}

/// `LATENCY`: nothing is monitored.
pub fn latency(c: &mut Call) -> Run {
    match () {
        () if c.args.is(1, "LATEST") || c.args.is(1, "HISTORY") => c.out.array(0),
        () if c.args.is(1, "RESET") => c.out.number(0),
        () if c.args.is(1, "HISTOGRAM") => c.out.map(0),
        () if c.args.is(1, "DOCTOR") => c
            .out
            .verbatim("Latency is not monitored; see INFO terrace."),
        () => return unknown(c, "LATENCY"),
    }
    Ok(())
}

/// `MEMORY`.
pub fn memory(c: &mut Call) -> Run {
    match () {
        () if c.args.is(1, "USAGE") && c.args.len() >= 3 => return super::keys::memory_usage(c),
        () if c.args.is(1, "DOCTOR") => c.out.verbatim("The memory stays within its limit."),
        () if c.args.is(1, "PURGE") => c.out.ok(),
        () => return unknown(c, "MEMORY"),
    }
    Ok(())
}

/// `DEBUG`.
pub fn debug(c: &mut Call) -> Run {
    if c.host.options.debug && c.args.is(1, "SLEEP") && c.args.len() == 3 {
        let seconds = c.args.float(2)?;
        std::thread::sleep(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_SLEEP)));
        c.out.ok();
        return Ok(());
    }
    refuse("ERR DEBUG command not allowed")
}

fn unknown(c: &Call, command: &str) -> Run {
    let name = String::from_utf8_lossy(c.args.at(1));
    refuse(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {command} HELP."
    ))
}

/// `REPLICAOF`, `SLAVEOF`.
pub fn replicaof(c: &mut Call) -> Run {
    if c.args.is(1, "NO") && c.args.is(2, "ONE") {
        c.out.ok();
        return Ok(());
    }
    refuse("ERR a server of Terrace follows no other; copy its database by a backup set")
}

/// `ROLE`.
pub fn role(c: &mut Call) -> Run {
    c.out.array(3);
    c.out.bulk("master");
    c.out.number(0);
    c.out.array(0);
    Ok(())
}

/// `CLUSTER`.
pub fn cluster(_: &mut Call) -> Run {
    refuse("ERR This instance has cluster support disabled")
}

/// `MODULE`.
pub fn module(c: &mut Call) -> Run {
    if c.args.is(1, "LIST") {
        c.out.array(0);
        return Ok(());
    }
    refuse("ERR modules of Redis cannot be loaded")
}

/// `WAIT`: there is no replica to wait for.
pub fn wait(c: &mut Call) -> Run {
    c.args.integer(1)?;
    match c.args.integer(2)? {
        timeout if timeout < 0 => return refuse("ERR timeout is negative"),
        _ => c.out.number(0),
    }
    Ok(())
}

/// `POST` and `Host:`, which browsers say: a web page has sent them here.
pub fn not_redis(c: &mut Call) -> Run {
    c.session.closing = true;
    Ok(())
}

/// `TERRACE.STATS`, `TERRACE.BACKUP`.
pub fn stats(c: &mut Call) -> Run {
    let text = c.work.store.db.stats().to_string();
    c.out.verbatim(&text);
    Ok(())
}

/// `TERRACE.BACKUP`.
pub fn backup(c: &mut Call) -> Run {
    let Some(set) = &c.host.options.backup_dir else {
        return refuse("ERR no backup set is named; start the server with --backup-dir");
    };
    let report = c
        .work
        .outside(|store| store.db.backup(set, BackupOptions::new()))?;
    c.out.number(report.point as i64);
    Ok(())
}
