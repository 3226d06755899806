//! What the server counts, for who watches the database: under the names that exporters of Redis have.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use terrace::ProgramFigure;

use crate::command::info::resident_bytes;
use crate::command::table::COMMANDS;
use crate::host::{Host, locked};
use crate::store::keyspace::DATABASES;

fn figure(name: &str, help: &str, value: u64) -> ProgramFigure {
    ProgramFigure {
        name: format!("redis_{name}"),
        help: help.to_owned(),
        value: value as f64,
        ..ProgramFigure::default()
    }
}

fn count(name: &str, help: &str, value: u64) -> ProgramFigure {
    ProgramFigure {
        counts: true,
        ..figure(name, help, value)
    }
}

fn shown(word: &str, figure: ProgramFigure) -> ProgramFigure {
    ProgramFigure {
        word: Some(word.to_owned()),
        ..figure
    }
}

/// The figures of a server; none of one that is gone.
pub fn figures(host: &Weak<Host>) -> Vec<ProgramFigure> {
    let Some(host) = host.upgrade() else {
        return Vec::new();
    };
    let counts = &host.counts;
    let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let (clients, blocked) = {
        let clients = locked(&host.clients);
        let blocked = clients
            .values()
            .filter(|c| c.blocked.load(Ordering::Relaxed));
        (clients.len() as u64, blocked.count() as u64)
    };
    let mut all = vec![
        shown(
            "commands",
            count(
                "commands_processed",
                "Commands that were answered.",
                of(&counts.commands),
            ),
        ),
        shown(
            "clients",
            figure("connected_clients", "Clients that are connected.", clients),
        ),
        shown(
            "hits",
            count(
                "keyspace_hits",
                "Lookups that found something.",
                of(&counts.hits),
            ),
        ),
        shown(
            "misses",
            count(
                "keyspace_misses",
                "Lookups that found nothing.",
                of(&counts.misses),
            ),
        ),
        shown(
            "expired",
            count(
                "expired_keys",
                "Keys that have expired and were removed.",
                of(&counts.expired),
            ),
        ),
        figure("up", "Whether the server answers.", 1),
        figure(
            "blocked_clients",
            "Clients that wait for an element.",
            blocked,
        ),
        count(
            "connections_received",
            "Clients that came.",
            of(&counts.connections),
        ),
        count(
            "rejected_connections",
            "Clients that were sent away because there were too many.",
            of(&counts.rejected),
        ),
        count(
            "evicted_keys",
            "Keys that were dropped for want of memory: never any.",
            0,
        ),
        count("net_input_bytes", "Bytes that came.", of(&counts.read)),
        count("net_output_bytes", "Bytes that went.", of(&counts.written)),
        count(
            "total_error_replies",
            "Errors that were answered.",
            of(&counts.errors),
        ),
        figure(
            "uptime_in_seconds",
            "Seconds since the start.",
            host.started.elapsed().as_secs(),
        ),
        figure(
            "memory_used_bytes",
            "Memory of the process.",
            resident_bytes(),
        ),
        figure(
            "memory_max_bytes",
            "The memory that the database may use.",
            host.store.memory,
        ),
        count(
            "commands_parked",
            "Commands that had to wait for the disk.",
            of(&counts.parked),
        ),
    ];
    let micros = |i: usize| of(&host.counted[i].micros) as f64 / 1e6;
    let called = || (0..COMMANDS.len()).filter(|i| of(&host.counted[*i].calls) > 0);
    let labelled = |figure: ProgramFigure, label: &str, value: &str| ProgramFigure {
        labels: vec![(label.to_owned(), value.to_owned())],
        ..figure
    };
    for i in called() {
        let calls = of(&host.counted[i].calls);
        all.push(labelled(
            count("commands", "How often each command ran.", calls),
            "cmd",
            COMMANDS[i].name,
        ));
    }
    for i in called() {
        let mut figure = count(
            "commands_duration_seconds",
            "For how long each command ran.",
            0,
        );
        figure.value = micros(i);
        all.push(labelled(figure, "cmd", COMMANDS[i].name));
    }
    for db in 0..DATABASES {
        // No client waits for the disk in order to be watched.
        if let Some(keys) = host.store.keys_at_hand(db) {
            all.push(labelled(
                figure("db_keys", "Keys of each database, about.", keys),
                "db",
                &format!("db{db}"),
            ));
        }
    }
    all
}
