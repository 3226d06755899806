//! Removing all records of a range, in bounded steps.
//!
//! Invariants: each step is one batch, so whatever ends it early, what lies before a place is gone and the rest
//! is as it was; a record that is put behind that place meanwhile stays.

use std::ops::RangeBounds;

use terrace_access::Window;
use terrace_base::{Error, Result};
use terrace_wal::Durability;

use crate::gentle::{Cancel, Pace, Rate};
use crate::handle::map::Map;
use crate::kinds::spec::Tiers;
use crate::structures::ordered::bounds;
use crate::structures::range::past_prefix;
use crate::structures::table::Table;
use crate::structures::tree::Tree;

/// Records that one step removes at most: its batch holds their locks, and others wait for no more.
const STEP_RECORDS: usize = 1024;

/// How a range is removed.
#[must_use = "options do nothing until a range is removed with them"]
pub struct RemoveOptions<'p> {
    durability: Option<Durability>,
    rate: Rate,
    cancel: Option<Cancel>,
    progress: Option<Box<dyn FnMut(u64) + 'p>>,
}

impl Default for RemoveOptions<'_> {
    fn default() -> Self {
        RemoveOptions {
            durability: None,
            rate: Rate::Fast,
            cancel: None,
            progress: None,
        }
    }
}

impl<'p> RemoveOptions<'p> {
    /// The defaults: as fast as it goes.
    pub fn new() -> RemoveOptions<'p> {
        RemoveOptions::default()
    }

    /// How durable each step is when the next one begins; as [`crate::Options::durability`] says, if nothing
    /// is said.
    pub fn durability(mut self, durability: Durability) -> RemoveOptions<'p> {
        self.durability = Some(durability);
        self
    }

    /// How fast it goes through the bytes of the records.
    pub fn rate(self, rate: Rate) -> RemoveOptions<'p> {
        RemoveOptions { rate, ..self }
    }

    /// What ends it early, with [`Error::Cancelled`]; what was removed by then is removed.
    pub fn cancel(mut self, cancel: &Cancel) -> RemoveOptions<'p> {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Who hears after each step how many records are removed, on the calling thread.
    pub fn progress(mut self, progress: impl FnMut(u64) + 'p) -> RemoveOptions<'p> {
        self.progress = Some(Box::new(progress));
        self
    }
}

/// Removes what lies from `low` to before `high`; how many records that were.
fn remove(
    map: &Map,
    mut low: Vec<u8>,
    high: Option<Vec<u8>>,
    mut options: RemoveOptions<'_>,
) -> Result<u64> {
    options.rate.check()?;
    let core = map.core();
    let mut pace = Pace::new(options.rate, 0, options.cancel.as_ref());
    let (mut window, mut again) = (Window::default(), Window::default());
    window.set_limit(STEP_RECORDS);
    again.set_limit(STEP_RECORDS);
    let mut removed = 0u64;
    let expiring = map.open.spec.expiring;
    let is_within = |key: &[u8]| high.as_deref().is_none_or(|high| key < high);
    while is_within(&low) {
        if options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(Error::Cancelled {
                what: format!(
                    "removing a range; {removed} records are removed, the others are there"
                ),
            });
        }
        {
            let _pass = core.enter(&map.open)?;
            core.heard(map.open.structure.scan_up(&low, &mut window))?;
        }
        let mut batch = map.db.batch();
        let (mut bytes, mut there) = (0, 0);
        for i in window.lower_bound(&low)..window.len() {
            let key = window.key(i);
            if !is_within(key) {
                break;
            }
            bytes += key.len() + window.value(i).len();
            batch.delete(map, key);
            there += u64::from(!expiring || !core.is_over(&window, i));
        }
        if !batch.is_empty() {
            map.db.write(batch, options.durability)?;
            removed += there;
            if map.open.spec.tiers == Tiers::Two {
                // Who walks over marks of deletions takes them down: now, as the pages below are in memory.
                let _pass = core.enter(&map.open)?;
                core.heard(map.open.structure.scan_up(&low, &mut again))?;
            }
            if let Some(progress) = &mut options.progress {
                progress(removed);
            }
            pace.after(bytes as u64, &mut || ());
        }
        match window.high.take() {
            Some(next) => low = next,
            None => break,
        }
    }
    Ok(removed)
}

macro_rules! removes {
    ($($handle:ident)*) => {$(
        impl $handle {
            /// Removes all records with keys in a range, in steps of some hundred: it takes long where the
            /// range is long, and others go on meanwhile. Not atomic: who looks in between finds a part gone,
            /// from the front; what is put behind that place meanwhile stays. Returns how many were removed.
            /// O(records of the range); reads and writes its pages.
            ///
            /// # Errors
            /// Those of a read and of a write; [`Error::Cancelled`].
            pub fn remove_range<K: AsRef<[u8]>>(
                &self,
                range: impl RangeBounds<K>,
                options: RemoveOptions<'_>,
            ) -> Result<u64> {
                let (low, high) = bounds(&range);
                remove(self, low, high, options)
            }

            #[doc = concat!("[`", stringify!($handle), "::remove_range`] of all keys that begin with `prefix`.")]
            ///
            /// # Errors
            /// As there.
            pub fn remove_prefix(
                &self,
                prefix: impl AsRef<[u8]>,
                options: RemoveOptions<'_>,
            ) -> Result<u64> {
                let prefix = prefix.as_ref();
                remove(self, prefix.to_vec(), past_prefix(prefix), options)
            }
        }
    )*};
}

removes! { Tree Table }
