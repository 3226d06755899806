//! Kinds of memory, and where slabs come from once one has been opened.

use super::numa;
use super::page::PAGE;
use super::shared::Shared;
use crate::error::PlacementError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A kind of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Memory {
    /// What the system gives: by default that of the node on which a thread runs.
    Heap,
    /// The memory of a NUMA node, by its number.
    Node(u32),
    /// A DAX device such as `/dev/dax0.0`: memory that no kernel manages.
    Dax(PathBuf),
    /// A file that is mapped and removed at once. Nothing durable is promised. Its file system must
    /// write pages in place: ext4, XFS or tmpfs, but not Btrfs or ZFS.
    File(PathBuf),
    /// An anonymous file in memory; with huge pages if told so.
    Memfd {
        /// Whether it is made of huge pages, which must be reserved beforehand.
        huge: bool,
    },
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Heap => f.write_str("heap"),
            Memory::Node(n) => write!(f, "node {n}"),
            Memory::Dax(path) | Memory::File(path) => write!(f, "{}", path.display()),
            Memory::Memfd { huge: false } => f.write_str("memfd"),
            Memory::Memfd { huge: true } => f.write_str("memfd with huge pages"),
        }
    }
}

/// A memory that has been opened: where slabs come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Heap,
    Node(u32),
    Shared(Arc<Shared>),
}

impl Source {
    /// Opens a memory. A file or device is opened once, and shared by all regions.
    pub(crate) fn open(memory: &Memory) -> Result<Source, PlacementError> {
        Ok(match memory {
            Memory::Heap => Source::Heap,
            Memory::Node(n) => {
                numa::allowed(*n)?;
                Source::Node(*n)
            }
            Memory::Dax(path) => Source::Shared(Arc::new(Shared::device(path)?)),
            Memory::File(path) => Source::Shared(Arc::new(Shared::file(path)?)),
            Memory::Memfd { huge } => Source::Shared(Arc::new(Shared::memfd(*huge)?)),
        })
    }

    /// What pieces of it must be multiples of, in bytes.
    pub(crate) fn grain(&self) -> usize {
        match self {
            Source::Heap | Source::Node(_) => PAGE,
            Source::Shared(shared) => shared.grain(),
        }
    }
}
