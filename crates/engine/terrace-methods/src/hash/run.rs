//! A run of records, in the order of their hashes, put into one bucket: one way there, and one latch.
//!
//! What a sweep demotes are such runs. Whatever is not simple (no room, a large value) ends the run, and
//! is done as any single record is.

use terrace_access::{Flags, NoRoom, Plan, Retry, Value, Window, WriteGuard};
use terrace_base::max_key_bytes;
use terrace_base::sync::spin_loop;

use super::HashTable;
use super::edit::{Outcome, Target};
use super::find::{Held, PATIENCE};
use super::position::{HASH_BYTES, hash_at};

impl HashTable {
    /// See [`terrace_access::Ordered::put_run`]. O(records of the run), beside what each does to the slots.
    pub(crate) fn put_records(
        &self,
        door: &WriteGuard<'_>,
        window: &Window,
        which: &[usize],
    ) -> usize {
        let (Some(&first), Ok(secret)) = (which.first(), self.try_secret()) else {
            return 0;
        };
        let hash = hash_at(window.key(first));
        let Some(mut held) = self.latch_first(door, hash) else {
            return 0;
        };
        let (mut done, mut thin) = (0, false);
        let most = max_key_bytes(self.store.page_bytes());
        for &i in which {
            let (position, entry) = (window.key(i), window.entry(i));
            let Some(key) = position.get(HASH_BYTES..) else {
                break;
            };
            let target = Target {
                secret: &secret,
                hash: hash_at(position),
                key,
            };
            let is_simple = entry.large.is_none() && key.len() <= most;
            if !is_simple || !held.span.covers(target.hash) {
                break;
            }
            let mut plan = |before: Option<(Flags, Value<'_>)>| match before {
                Some((_, Value::Large(_))) => Err(Retry::Conflict),
                _ if entry.flags.is_deleted() => Ok(Plan::Erase),
                _ => Ok(Plan::Put(Value::Inline(window.value(i)), Flags::NONE)),
            };
            // What is torn is told by whoever meets it alone.
            let edited =
                self.edit_bucket(&mut held, &target, &mut plan, &mut NoRoom, &mut || Ok(()));
            match edited {
                Ok(Outcome::Done(_)) => {}
                Ok(Outcome::Thin(_)) => thin = true,
                Ok(Outcome::Full(_)) | Err(_) => break,
            }
            done += 1;
        }
        drop(held);
        if thin {
            self.tidy(door, hash);
        }
        done
    }

    /// The bucket of a hash under its latches; `None` where there is none, or it cannot be had at once.
    fn latch_first<'d>(&'d self, door: &'d WriteGuard<'_>, hash: u64) -> Option<Held<'d>> {
        for _ in 0..PATIENCE {
            match self.latch(door, hash, false) {
                Err(Retry::Conflict) => spin_loop(),
                other => return other.ok().flatten(),
            }
        }
        None
    }
}
