//! `terrace serve`: a database for any client of Redis.

use std::ffi::OsString;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{CommandFactory, FromArgMatches};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use terrace_serve::{AppendFsync, Imported, ServeOptions, Server, TlsOptions};

use crate::args::{Cli, Command, LoadArgs, ServeArgs};
use crate::output::{self, print};
use crate::progress;

/// Longest configuration: it is a page or two.
const MOST_CONFIG_BYTES: u64 = 1 << 20;
/// Buffers of clients may take one part in this many of the memory, beside it.
const BUFFERS_PART: u64 = 10;
/// And not less than this.
const LEAST_BUFFERS: u64 = 16 << 20;

/// Where what happens is told.
struct Journal {
    path: Option<PathBuf>,
    file: Mutex<Option<std::fs::File>>,
}

impl Journal {
    fn open(path: Option<&Path>) -> Result<Journal> {
        let journal = Journal {
            path: path.map(Path::to_owned),
            file: Mutex::new(None),
        };
        journal.reopen()?;
        Ok(journal)
    }

    /// Opens the file anew: another process may have moved the old one away.
    fn reopen(&self) -> Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        let file =
            file.with_context(|| format!("the log file {} cannot be opened", path.display()))?;
        *self.file.lock().unwrap_or_else(|e| e.into_inner()) = Some(file);
        Ok(())
    }

    fn tell(&self, text: &str) {
        let mut file = self.file.lock().unwrap_or_else(|e| e.into_inner());
        match &mut *file {
            // A full disk of the journal stops nothing.
            // In one piece, for who reads it meanwhile.
            Some(file) => _ = file.write_all(format!("terrace: {text}\n").as_bytes()),
            None => output::tell(&format!("terrace: {text}")),
        }
    }
}

/// What a file of settings says, as arguments.
fn configured(path: &Path) -> Result<Vec<String>> {
    let bytes = std::fs::metadata(path).map(|m| m.len());
    let bytes =
        bytes.with_context(|| format!("the configuration {} cannot be read", path.display()))?;
    if bytes > MOST_CONFIG_BYTES {
        bail!(
            "the configuration {} has {bytes} bytes; that is none",
            path.display()
        );
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("the configuration {} cannot be read", path.display()))?;
    let mut arguments = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let value = value.trim().trim_matches('"');
        arguments.push(format!("--{}={value}", name.to_ascii_lowercase()));
    }
    Ok(arguments)
}

/// Options that may be said several times.
const SEVERAL_TIMES: [&str; 2] = ["--bind", "--rename-command"];

/// The arguments with those of the configuration before them; what is said twice is as it was said last.
fn with_config(args: &ServeArgs) -> Result<Option<ServeArgs>> {
    let Some(config) = &args.config else {
        return Ok(None);
    };
    let mut said = std::env::args_os();
    let (program, serve) = (
        said.next().unwrap_or_default(),
        said.next().unwrap_or_default(),
    );
    let said: Vec<OsString> = said.collect();
    let name_of = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    let names: Vec<_> = said
        .iter()
        .filter_map(|a| a.to_str())
        .map(name_of)
        .collect();
    let mut configured = configured(config)?;
    // What may be said several times is added up else.
    configured.retain(|argument| {
        let name = name_of(argument);
        !SEVERAL_TIMES.contains(&name.as_str()) || !names.contains(&name)
    });
    let configured = configured.into_iter().map(Into::into);
    let all = [program, serve].into_iter().chain(configured).chain(said);
    let command = Cli::command().mut_subcommand("serve", |serve| serve.args_override_self(true));
    let matches = command.try_get_matches_from(all)?;
    match Cli::from_arg_matches(&matches)?.command {
        Command::Serve(args) => Ok(Some(*args)),
        _ => Ok(None),
    }
}

fn options(args: &ServeArgs) -> Result<ServeOptions> {
    let at = |port: u16| -> Result<Vec<SocketAddr>> {
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for name in &args.bind {
            let found = (name.as_str(), port).to_socket_addrs();
            let found = found.with_context(|| format!("{name} is no address to listen on"))?;
            addresses.extend(found);
        }
        Ok(addresses)
    };
    let addresses = match args.tls_port {
        Some(_) if args.port == 0 => Vec::new(),
        _ => at(args.port)?,
    };
    let tls = match (args.tls_port, &args.tls_cert_file, &args.tls_key_file) {
        (Some(port), Some(cert), Some(key)) => Some(TlsOptions {
            addresses: at(port)?,
            cert: cert.clone(),
            key: key.clone(),
            ca: args
                .tls_ca_cert_file
                .clone()
                .filter(|_| args.tls_auth_clients != "no"),
            clients_may_be_unknown: args.tls_auth_clients == "optional",
        }),
        (None, None, None) if args.tls_ca_cert_file.is_none() => None,
        // One of them may stand in the configuration, so that the arguments alone do not say it.
        _ => bail!("TLS needs all of --tls-port, --tls-cert-file and --tls-key-file"),
    };
    let password = match &args.requirepass_file {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("the password in {} cannot be read", path.display()))?;
            let line = text.lines().next().unwrap_or_default().to_owned();
            if line.is_empty() {
                bail!(
                    "the first line of {} is empty, and has to be the password",
                    path.display()
                );
            }
            Some(line)
        }
        None => None,
    };
    Ok(ServeOptions {
        addresses,
        tls,
        password,
        appendfsync: AppendFsync::parse(&args.appendfsync).unwrap_or_default(),
        max_data: args.max_data.map_or(0, |size| size.0),
        max_value: usize::try_from(args.max_value.0)?,
        max_buffers: usize::try_from((args.memory.0 / BUFFERS_PART).max(LEAST_BUFFERS))?,
        max_clients: args.max_clients,
        timeout: args.timeout,
        loops: args.loops,
        pool: args.pool,
        backup_dir: args.backup_dir.clone(),
        renamed: args.rename_command.clone(),
        notify: args.notify_keyspace_events.clone(),
        ..ServeOptions::new()
    })
}

/// Tells systemd, if it has started us, how far we are.
fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    // Who does not listen does not need to know.
    if let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() {
        match path.to_str().and_then(|path| path.strip_prefix('@')) {
            Some(name) => {
                use std::os::linux::net::SocketAddrExt;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(name);
                let _ = address.and_then(|a| socket.send_to_addr(state.as_bytes(), &a));
            }
            None => _ = socket.send_to(state.as_bytes(), &path),
        }
    }
}

/// Sockets that systemd listens on for us.
fn handed_over() -> Result<Vec<std::net::TcpListener>> {
    let mut handed = listenfd::ListenFd::from_env();
    let mut sockets = Vec::new();
    for i in 0..handed.len() {
        sockets.extend(handed.take_tcp_listener(i)?);
    }
    Ok(sockets)
}

/// Which databases keys are taken over into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Those without data: a server is started again and again.
    Empty,
    /// Any.
    Any,
}

/// Takes over all keys of a running Redis: served to ourselves alone meanwhile.
fn take_over(
    from: &str,
    (db, memory, max_value): (&Path, u64, u64),
    into: Target,
    mut tell: impl FnMut(u64),
) -> Result<Imported> {
    let rest = from
        .strip_prefix("redis://")
        .unwrap_or(from)
        .trim_end_matches('/');
    let (password, place) = match rest.rsplit_once('@') {
        Some((said, place)) => (
            Some(said.rsplit_once(':').map_or(said, |(_, word)| word)),
            place,
        ),
        None => (None, rest),
    };
    let file = Path::new(from).is_file();
    let address = place.to_socket_addrs().ok().and_then(|mut all| all.next());
    if address.is_none() && !file {
        bail!(
            "{place} is neither a file nor the address of a Redis, which has the form redis://127.0.0.1:6380"
        );
    }
    let place_of_db = db.display();
    let db = terrace::Database::open(db, terrace::Options::new().memory(memory))?;
    if into == Target::Empty && !db.structures().is_empty() {
        bail!(
            "{place_of_db} has data already, and keys that are taken over would replace what is newer: leave --import out, or say `terrace import --from redis` once"
        );
    }
    let options = ServeOptions {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        appendfsync: AppendFsync::No,
        max_value: usize::try_from(max_value)?,
        ..ServeOptions::new()
    };
    let server = Server::start(db, options)?;
    let to = server.addresses()[0];
    let imported = match address.filter(|_| !file) {
        Some(address) => terrace_serve::import((address, password), (to, None), &mut tell),
        None => terrace_serve::import_file(Path::new(from), (to, None), &mut tell),
    };
    // Whatever came of it, what is there is closed well.
    server.stop()?;
    imported.with_context(|| format!("the keys of {place} cannot be taken over"))
}

/// `terrace import --from redis`
pub fn import(args: &LoadArgs) -> Result<ExitCode> {
    let shapes = [&args.key, &args.value, &args.table, &args.expires_field];
    if shapes.iter().any(|said| said.is_some())
        || args.kind.is_some()
        || args.compress.is_some()
        || args.tiers.is_some()
        || !args.indexes.is_empty()
    {
        bail!(
            "keys of Redis are taken over as they are, for `terrace serve`: leave out --key, --value, --table, \
             --expires-field and what a structure is"
        );
    }
    let Some(from) = args.file.to_str() else {
        bail!(
            "{} is neither the name of a file in UTF-8 nor an address",
            args.file.display()
        );
    };
    let bar = progress::spinner(args.json);
    bar.set_message("0 keys");
    let began = Instant::now();
    let longest = ServeOptions::new().max_value as u64;
    let limits = (&*args.open.db, args.open.memory.0, longest);
    let imported = take_over(from, limits, Target::Any, |keys| {
        bar.set_message(format!("{keys} keys"));
    });
    bar.finish_and_clear();
    let Imported { keys, unknown } = imported?;
    let seconds = began.elapsed().as_secs_f64();
    print(&if args.json {
        let object = json!({ "records": keys, "unknown": unknown, "seconds": seconds });
        format!("{object}\n")
    } else {
        let db = args.open.db.display();
        let unknown = match unknown {
            0 => String::new(),
            n => format!("{n} keys of kinds that are not known were left out\n"),
        };
        format!("{keys} keys in {seconds:.1} s; `terrace serve {db}` serves them\n{unknown}")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `terrace serve`
pub fn run(args: &ServeArgs) -> Result<ExitCode> {
    let configured = with_config(args)?;
    let args = configured.as_ref().unwrap_or(args);
    let options = options(args)?;
    options.check().map_err(anyhow::Error::msg)?;
    let journal = Journal::open(args.log_file.as_deref())?;
    // Before there are other threads, which would end by the signals.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    if let Some(from) = &args.import {
        let limits = (&*args.db, args.memory.0, args.max_value.0);
        let tell = |keys| journal.tell(&format!("{keys} keys are taken over"));
        let imported = take_over(from, limits, Target::Empty, tell)?;
        journal.tell(&format!("{} keys were taken over", imported.keys));
        if imported.unknown > 0 {
            journal.tell(&format!(
                "{} keys are of kinds that are not known",
                imported.unknown
            ));
        }
    }
    let mut how = terrace::Options::new().memory(args.memory.0).control(true);
    if let Some(limit) = args.log_limit {
        how = how.log_limit(limit.0);
    }
    let db = terrace::Database::open(&args.db, how)?;
    let server = Server::start_with(db, options, terrace_serve::wall_clock(), handed_over()?)?;
    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    journal.tell(&format!(
        "serving {} on {} with {} bytes of memory, appendfsync {}",
        args.db.display(),
        addresses.join(", "),
        args.memory.0,
        args.appendfsync
    ));
    notify("READY=1");
    let mut stops = false;
    while !stops && !server.is_stopping() {
        for signal in signals.pending() {
            match signal {
                SIGHUP => match journal.reopen() {
                    Ok(()) => journal.tell("the log file was opened anew"),
                    Err(error) => journal.tell(&format!("{error:#}")),
                },
                _ => stops = true,
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    notify("STOPPING=1");
    journal.tell("stopping");
    server.stop()?;
    journal.tell("stopped; everything is kept");
    Ok(ExitCode::SUCCESS)
}
