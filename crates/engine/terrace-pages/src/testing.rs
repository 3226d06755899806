//! A small store for tests.

use terrace_base::PageId;
use terrace_sim::SimDisk;

use crate::map::superblock::LEARNT_BYTES;
use crate::{CheckpointMeta, PageStore, StoreOptions};

pub fn info() -> CheckpointMeta {
    CheckpointMeta {
        log_position: [0; 24],
        learnt: [0; LEARNT_BYTES],
        next_structure: 1,
        next_sequence: 1,
        unlogged_from: 1,
        catalog_root: PageId::NONE,
        clean: false,
    }
}

pub fn options() -> StoreOptions {
    StoreOptions {
        page_bytes: 4096,
        memory: 1 << 20,
    }
}

pub fn store() -> PageStore {
    PageStore::create(SimDisk::new(1).shared(), options(), 1, &info()).unwrap()
}
