//! Going through a hash table in steps that need no state: a number says where to go on, after a restart too.
//!
//! Invariant: a step ends between two steps of 65,536 hashes, never within one, so no record is left out at the
//! border, and 48 bits hold the number.

use terrace_access::Window;
use terrace_base::Result;

use crate::read::leased::Sight;
use crate::structures::hash::Hash;
use crate::structures::range::value_of;

/// Hashes that come out together: 2 to the power of this.
const TOGETHER_BITS: u32 = 16;
/// Bytes of the hash in front of the key in a position.
const HASH_BYTES: usize = 8;
/// Records that a window takes at most.
const MOST_RECORDS: usize = 1024;

/// A step through a hash table; see [`Hash::scan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashStep {
    /// The records, in the order of their hashes. The value of one that has pages of its own is left out.
    pub records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Where to go on, a multiple of 65,536; `None` at the end.
    pub next: Option<u64>,
}

impl Hash {
    /// The records whose hashes are at least `from`, at least `least` of them unless it is the end: a step
    /// through all records from 0 on, of which nothing has to be kept but the number to go on with. Each record
    /// that is there all the while comes out once, over restarts too; what comes or goes meanwhile may or may
    /// not be seen. The numbers mean something for this table only. O(records that come out);
    /// where records expire also those that have, and values with pages of their own are read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let users = db.hash("users")?;
    /// users.put("ada", "1815")?;
    /// let step = users.scan(0, 10)?;
    /// assert_eq!(step.records.len(), 1);
    /// assert_eq!(step.next, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`crate::Map::get`].
    pub fn scan(&self, from: u64, least: usize) -> Result<HashStep> {
        let mut step = HashStep::default();
        let mut window = Window::new();
        window.set_limit(least.clamp(1, MOST_RECORDS));
        let core = self.core();
        let expiring = self.open.spec.expiring;
        let mut low = from.to_be_bytes().to_vec();
        let mut last = 0;
        loop {
            // What had expired by then had done so long before it was read.
            let long_ago = if expiring { core.clock().long_ago() } else { 0 };
            {
                let _pass = core.enter(&self.open)?;
                core.heard(self.open.structure.scan_up(&low, &mut window))?;
            }
            for i in window.lower_bound(&low)..window.len() {
                let (hash, key) = divided(window.key(i));
                if step.records.len() >= least.max(1) && hash >> TOGETHER_BITS != last {
                    step.next = Some((hash >> TOGETHER_BITS) << TOGETHER_BITS);
                    return Ok(step);
                }
                last = hash >> TOGETHER_BITS;
                let is_large = window.entry(i).large.is_some();
                if is_large && !expiring {
                    step.records.push((key.to_vec(), None));
                    continue;
                }
                let stored = (window.value(i), is_large);
                if let Some(value) = value_of(self, Sight::Now, long_ago, stored, || key)? {
                    let value = (!is_large).then_some(value.bytes);
                    step.records.push((key.to_vec(), value));
                }
            }
            match window.high.take() {
                Some(high) if high > low => low = high,
                _ => return Ok(step),
            }
        }
    }
}

/// Hash and key of a position.
fn divided(position: &[u8]) -> (u64, &[u8]) {
    let (hash, key) = position.split_at(HASH_BYTES.min(position.len()));
    let mut bytes = [0; HASH_BYTES];
    bytes[..hash.len()].copy_from_slice(hash);
    (u64::from_be_bytes(bytes), key)
}
