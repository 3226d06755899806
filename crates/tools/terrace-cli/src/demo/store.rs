//! What a store must do to be in the demonstration.

use anyhow::Result;
use std::net::SocketAddr;
use std::path::Path;
use terrace_view::http::Server;

use super::people::People;

/// Bytes and requests between a store and its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Reads.
    pub reads: u64,
    pub bytes_read: u64,
    /// Of everything: pages, logs.
    pub bytes_written: u64,
}

impl Moved {
    /// What has come since.
    pub fn since(self, earlier: Moved) -> Moved {
        Moved {
            reads: self.reads.saturating_sub(earlier.reads),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
        }
    }
}

/// A store with the profiles of people.
pub trait Store: Sync + Sized {
    /// Takes all profiles, in the order of keys; `told` hears how many it has taken. They are durable, and in
    /// their place, when it returns.
    fn load(&self, people: &People, told: &dyn Fn(u64)) -> Result<()>;

    /// The visits of one group: each reads a profile, which is checked, and those that are to, count themselves.
    /// All counts of the group are durable when it returns. Many threads call this at once.
    fn visit(&self, people: &People, group: u64) -> Result<()>;

    /// Brings to its place what is not there yet.
    fn settle(&self) -> Result<()>;

    /// What it has read and written since it was opened.
    fn moved(&self) -> Moved;

    /// Every record, in the order of keys.
    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()>;

    /// The bytes of its files.
    fn disk_bytes(&self) -> u64;

    /// Those of them that are no log: a log is as long as it has grown, however much is in it.
    fn data_file_bytes(&self) -> u64;

    /// Serves a page that shows what goes on in it, if there is one.
    fn page(&self, path: &Path, address: SocketAddr) -> Result<Option<Server>>;

    /// Closes it.
    fn close(self) -> Result<()>;
}
