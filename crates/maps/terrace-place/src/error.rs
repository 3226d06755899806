//! What can go wrong with memories: what happened, where, and the way out.

use std::fmt;
use std::io;

/// A memory could not be had, or not as it was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlacementError {
    /// The kernel refused to bind memory to a node, as it does in containers by default.
    BindRefused {
        /// The node.
        node: u32,
        /// What the kernel said.
        error: io::Error,
    },
    /// The cpuset of the process does not allow the node, or there is no such node.
    NodeNotAllowed {
        /// The node.
        node: u32,
    },
    /// The node has no room: pages that were meant for it came to lie elsewhere.
    NodeFull {
        /// The node.
        node: u32,
        /// The node on which a page was found instead, if the kernel said so.
        found_on: Option<u32>,
    },
    /// A device or file could not be opened, sized or mapped.
    Device {
        /// Its path.
        path: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// A device or file has no bytes left.
    DeviceFull {
        /// Its path.
        path: String,
        /// Its size in bytes.
        bytes: u64,
    },
    /// A file lies on a file system that writes each page to a new block, of which a full disk has none.
    NotInPlace {
        /// Its path.
        path: String,
        /// The file system.
        system: &'static str,
    },
    /// No address space could be reserved, not even a little.
    NoAddressSpace {
        /// The bytes that were asked for last.
        bytes: usize,
        /// What the kernel said.
        error: io::Error,
    },
    /// All slots of a class of nodes are taken in this memory.
    ArenaFull {
        /// The slots that there are.
        slots: u64,
    },
    /// The kernel gave no memory.
    NoMemory {
        /// The bytes that were asked for.
        bytes: usize,
        /// What the kernel said.
        error: io::Error,
    },
    /// This system has no such memory.
    NotHere {
        /// What was asked for.
        what: &'static str,
    },
    /// Both memories are the same node, so nothing could be gained.
    SameMemory,
    /// A node of the map would have more bytes than nodes can have: its keys and values lie in it.
    NodeTooLarge {
        /// The bytes that it would have.
        bytes: usize,
        /// The most that there can be.
        most: usize,
    },
    /// The bytes of a key are more than a radix tree takes; nothing has changed.
    KeyTooLong {
        /// The bytes of the encoded key.
        bytes: usize,
        /// The most that there can be.
        most: usize,
    },
    /// The bytes of two keys that differ do not, or one begins the other: the key's type does not
    /// keep what [`ArtKey`](crate::ArtKey) asks for. Nothing has changed.
    BadKeyBytes,
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementError::BindRefused { node, error } => write!(
                f,
                "the kernel refused to place memory on node {node} ({error}): containers allow \
                 mbind only with CAP_SYS_NICE or a seccomp profile that names it; start the \
                 container with --cap-add SYS_NICE, or leave the map in one kind of memory"
            ),
            PlacementError::NodeNotAllowed { node } => write!(
                f,
                "memory node {node} is not among those that this process may use: add it to \
                 cpuset.mems, or choose one that `terrace place doctor` lists as allowed"
            ),
            PlacementError::NodeFull { node, found_on } => {
                write!(f, "memory node {node} has no room")?;
                if let Some(other) = found_on {
                    write!(f, " (a page meant for it came to lie on node {other})")?;
                }
                f.write_str(": free memory there, or give the map fewer bytes of it")
            }
            PlacementError::Device { path, error } => write!(
                f,
                "{path} cannot be used as memory ({error}): check that it is a DAX device or a \
                 file, that it is writable, and that no one else has it"
            ),
            PlacementError::DeviceFull { path, bytes } => write!(
                f,
                "all {bytes} bytes of {path} are in use: use a larger one, or store less"
            ),
            PlacementError::NotInPlace { path, system } => write!(
                f,
                "{path} lies on {system}, which writes each page to a new block, so that a full disk would \
                 end the process: use a file on ext4, XFS or tmpfs, or Memory::Memfd"
            ),
            PlacementError::NoAddressSpace { bytes, error } => write!(
                f,
                "{bytes} bytes of address space could not be reserved ({error}): raise \
                 `ulimit -v`, or set vm.overcommit_memory to 0 or 1"
            ),
            PlacementError::ArenaFull { slots } => write!(
                f,
                "all {slots} slots for nodes of this kind are taken in this memory: reserve more \
                 with Placement::slots"
            ),
            PlacementError::NoMemory { bytes, error } => write!(
                f,
                "the kernel gave no memory for {bytes} bytes ({error}): free some, or store less"
            ),
            PlacementError::NotHere { what } => {
                write!(f, "this system has no {what}: use Memory::Heap")
            }
            PlacementError::NodeTooLarge { bytes, most } => write!(
                f,
                "a node with such keys and values would have {bytes} bytes, and can have {most}: \
                 keep large values in a `Box` or a `Vec`, or take PlacedTree::art, whose leaves \
                 have one entry"
            ),
            PlacementError::KeyTooLong { bytes, most } => write!(
                f,
                "a key of {bytes} encoded bytes is longer than the {most} that a radix tree takes: \
                 use a B+tree, or a digest of the key"
            ),
            PlacementError::BadKeyBytes => f.write_str(
                "the bytes of two keys that differ are the same, or one begins the other: mend \
                 `ArtKey::bytes` of the key's type",
            ),
            PlacementError::SameMemory => f.write_str(
                "fast and slow memory are the same node: choose two, or Placement::uniform",
            ),
        }
    }
}

impl std::error::Error for PlacementError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlacementError::BindRefused { error, .. }
            | PlacementError::Device { error, .. }
            | PlacementError::NoAddressSpace { error, .. }
            | PlacementError::NoMemory { error, .. } => Some(error),
            _ => None,
        }
    }
}
