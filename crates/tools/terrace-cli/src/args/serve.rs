//! What is said to `terrace serve`.

use std::path::PathBuf;

use clap::Args;

use crate::size::{Size, parse_size};

#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP)]
pub struct ServeArgs {
    /// The folder of the database; made if it is not there
    #[arg(value_name = "DB")]
    pub db: PathBuf,

    /// The memory that it may use, for keys, values and everything else: Redis' maxmemory. Data may be larger
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub memory: Size,

    /// The log may grow to this size before a checkpoint
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub log_limit: Option<Size>,

    /// An address to listen on; may be given several times. Others than those of this machine need a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: Vec<String>,

    /// The port; 0 for any free one, or with --tls-port for none
    #[arg(long, default_value_t = 6379)]
    pub port: u16,

    /// A port within TLS, beside the other one
    #[arg(long, value_name = "PORT")]
    pub tls_port: Option<u16>,

    /// The certificate in PEM, with those between it and a root
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// The key of the certificate in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key_file: Option<PathBuf>,

    /// Roots of the certificates of clients in PEM; without, clients need none
    #[arg(long, value_name = "FILE")]
    pub tls_ca_cert_file: Option<PathBuf>,

    /// Whether clients need a certificate if there are roots: yes, no, optional
    #[arg(long, value_name = "WHETHER", default_value = "yes", value_parser = ["yes", "no", "optional"])]
    pub tls_auth_clients: String,

    /// When what is answered survives a power cut: no, everysec (within a second), always (before the answer).
    /// All of them survive a crash of the process
    #[arg(long, value_name = "WHEN", default_value = "everysec", value_parser = ["no", "everysec", "always"])]
    pub appendfsync: String,

    /// A file whose first line is the password
    #[arg(long, value_name = "FILE")]
    pub requirepass_file: Option<PathBuf>,

    /// Refuse writes when the data file has so many bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_data: Option<Size>,

    /// The longest value
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub max_value: Size,

    /// The most clients at a time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_clients: usize,

    /// Send clients away that have said nothing for so many seconds; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub timeout: u64,

    /// Event loops; 0 for half as many as there are processors, four at most
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub loops: usize,

    /// Threads for what has to wait for the disk
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub pool: usize,

    /// The backup set that BGSAVE adds a point to
    #[arg(long, value_name = "FOLDER")]
    pub backup_dir: Option<PathBuf>,

    /// Give a command another name, or none: FLUSHALL=, may be given several times
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_renamed)]
    pub rename_command: Vec<(String, String)>,

    /// Classes of keyspace events that are published, in Redis' letters
    #[arg(long, value_name = "LETTERS", default_value = "")]
    pub notify_keyspace_events: String,

    /// Take over all keys of a running Redis first: redis://[:PASSWORD@]HOST:PORT. What is written there
    /// meanwhile may be left out. Or of a file of Redis: its name (dump.rdb). Only into a database without data
    #[arg(long, value_name = "ADDRESS|FILE")]
    pub import: Option<String>,

    /// A file of lines `NAME VALUE`, with the names of these options without dashes; what is said here wins
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Write what is to be told to this file instead of the standard error; SIGHUP opens it anew
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
}

fn parse_renamed(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err(format!("{text} is not of the form OLD=NEW")),
    }
}

const SERVE_HELP: &str = "\
Any client of Redis works: it changes the address and nothing else. docs/server.md has the table of all \
commands, and what differs.

Durability in Redis' words: every write goes to a log, as with appendonly yes, and there is no other mode.
  --appendfsync no        survives a crash of the process, as Redis' everysec does
  --appendfsync everysec  and a power cut, but for the last second
  --appendfsync always    and a power cut, all that was answered; one sync serves all who wait
A transaction (MULTI .. EXEC) is there as a whole or not at all, after a crash too.

Memory in Redis' words: --memory is maxmemory, and the policy is noeviction; but past it nothing is refused \
or lost: records that are not used go to the disk, and come back when they are asked for. The process takes \
this much, and some tens of MiB for its code and for clients. --max-data bounds the data itself.

SIGTERM and Ctrl-C answer what was begun and close the database; SIGHUP opens the log file anew. As a unit of \
systemd it says when it is ready (Type=notify), and takes sockets that systemd listens on.

Examples:
  terrace serve people.db --memory 1GiB
  terrace serve people.db --bind 0.0.0.0 --requirepass-file pw --appendfsync always
  terrace serve people.db --rename-command FLUSHALL= --backup-dir /backups/people
  terrace serve people.db --import redis://127.0.0.1:6380
  terrace serve people.db --import /var/lib/redis/dump.rdb
  terrace serve people.db --port 0 --tls-port 6379 --tls-cert-file c.pem --tls-key-file k.pem
  redis-cli set greeting hello";
