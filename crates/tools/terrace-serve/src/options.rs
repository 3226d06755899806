//! How a server is started.

use std::net::SocketAddr;
use std::path::PathBuf;

/// When an answer is as durable as it gets; Redis' words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum AppendFsync {
    /// When the operating system or a checkpoint writes it: survives a crash of the process.
    No = 0,
    /// Within a second.
    #[default]
    EverySec = 1,
    /// Before the answer.
    Always = 2,
}

impl AppendFsync {
    /// All of them, with their names.
    pub const ALL: [(AppendFsync, &str); 3] = [
        (AppendFsync::No, "no"),
        (AppendFsync::EverySec, "everysec"),
        (AppendFsync::Always, "always"),
    ];

    /// As it is named in a configuration.
    pub fn name(self) -> &'static str {
        AppendFsync::ALL[self as usize].1
    }

    /// The one with this name.
    pub fn parse(name: &str) -> Option<AppendFsync> {
        let mut all = AppendFsync::ALL.into_iter();
        all.find(|(_, n)| n.eq_ignore_ascii_case(name))
            .map(|(mode, _)| mode)
    }
}

/// How clients are met within TLS.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Where it listens; a port of 0 is any free one.
    pub addresses: Vec<SocketAddr>,
    /// Its certificate, and those between it and a root, in PEM.
    pub cert: PathBuf,
    /// The key of the certificate, in PEM.
    pub key: PathBuf,
    /// Roots of the certificates of clients, in PEM; none if they need none.
    pub ca: Option<PathBuf>,
    /// Whether a client may have no certificate although there are roots.
    pub clients_may_be_unknown: bool,
}

/// How a server is started.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a server is started with them"]
pub struct ServeOptions {
    /// Where it listens; a port of 0 is any free one.
    pub addresses: Vec<SocketAddr>,
    /// Where and how it listens within TLS, which needs the feature `tls`; none for not at all.
    pub tls: Option<TlsOptions>,
    /// The password of the user `default`; none for no password.
    pub password: Option<String>,
    /// When answers are durable.
    pub appendfsync: AppendFsync,
    /// Most bytes of the data file; 0 for no limit. Past it writes that add something are refused.
    pub max_data: u64,
    /// Most bytes of a value, and of an argument.
    pub max_value: usize,
    /// Most bytes of all buffers of all clients.
    pub max_buffers: usize,
    /// Most clients at a time.
    pub max_clients: usize,
    /// Seconds after which an idle client is sent away; 0 for never.
    pub timeout: u64,
    /// Event loops; 0 for half as many as there are processors, four at most.
    pub loops: usize,
    /// Threads for what has to wait for the disk.
    pub pool: usize,
    /// Where `BGSAVE` adds a point to a backup set; none for a checkpoint.
    pub backup_dir: Option<PathBuf>,
    /// Commands with another name; an empty one takes it away.
    pub renamed: Vec<(String, String)>,
    /// Classes of keyspace events that are told, in Redis' letters.
    pub notify: String,
    /// Whether `DEBUG SLEEP` is there: for tests.
    pub debug: bool,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], 6379))],
            tls: None,
            password: None,
            appendfsync: AppendFsync::EverySec,
            max_data: 0,
            max_value: 64 << 20,
            max_buffers: 64 << 20,
            max_clients: 10_000,
            timeout: 0,
            loops: 0,
            pool: 8,
            backup_dir: None,
            renamed: Vec::new(),
            notify: String::new(),
            debug: false,
        }
    }
}

impl ServeOptions {
    /// The defaults: 127.0.0.1:6379, no password, synced each second.
    pub fn new() -> ServeOptions {
        ServeOptions::default()
    }

    /// An address that others than those of this machine reach without showing anything.
    pub(crate) fn open(&self) -> Option<&SocketAddr> {
        let known = |tls: &&TlsOptions| tls.ca.is_none() || tls.clients_may_be_unknown;
        let within_tls = self.tls.iter().filter(known).flat_map(|tls| &tls.addresses);
        let mut all = self.addresses.iter().chain(within_tls);
        all.find(|address| !address.ip().is_loopback())
    }

    /// Refuses what is not safe or not possible.
    ///
    /// # Errors
    /// What is wrong, and the way out.
    pub fn check(&self) -> Result<(), String> {
        if self.password.is_none()
            && let Some(open) = self.open()
        {
            return Err(format!(
                "{} can be reached from other machines, and there is no password; name a file with one (--requirepass-file), or listen on 127.0.0.1 only",
                open.ip()
            ));
        }
        let within_tls = self.tls.as_ref();
        if self.addresses.is_empty() && within_tls.is_none_or(|tls| tls.addresses.is_empty()) {
            return Err("there is no address to listen on; name one (--bind)".to_owned());
        }
        Ok(())
    }
}
