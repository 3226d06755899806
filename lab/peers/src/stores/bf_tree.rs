//! The Bf-Tree: pages on disk, and small pages of hot records in a ring buffer.

use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend};
use terrace_bench::TargetResult;

use crate::store::{Opening, Store};

/// The longest record with its key: what a page of 4 KiB takes.
const LONGEST: usize = 2048;
/// Bytes of a key.
const KEY_BYTES: usize = 8;

struct Bf {
    tree: BfTree,
}

pub fn open(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    let memory = usize::try_from(opening.memory)?;
    let ring = match memory.is_power_of_two() {
        true => memory,
        false => memory.next_power_of_two() / 2,
    };
    let mut config = Config::new(opening.folder.join("bf-tree"), ring);
    config.storage_backend(StorageBackend::StdDirect);
    let tree = BfTree::with_config(config, None).map_err(|error| format!("{error:?}"))?;
    Ok(Box::new(Bf { tree }))
}

impl Store for Bf {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        out.resize(LONGEST, 0);
        match self.tree.read(key, out) {
            LeafReadResult::Found(bytes) => {
                out.truncate(bytes as usize);
                Ok(true)
            }
            LeafReadResult::Deleted | LeafReadResult::NotFound => {
                out.clear();
                Ok(false)
            }
            LeafReadResult::InvalidKey => Err("the Bf-Tree does not take this key".into()),
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        match self.tree.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(why) => Err(why.into()),
        }
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        let fields = ScanReturnField::KeyAndValue;
        let scan = self.tree.scan_with_count(from, limit, fields);
        let mut scan = scan.map_err(|error| format!("{error:?}"))?;
        let mut buffer = [0; KEY_BYTES + LONGEST];
        while let Some((key, value)) = scan.next(&mut buffer) {
            visit(&buffer[..key], &buffer[key..key + value]);
        }
        Ok(())
    }
}
