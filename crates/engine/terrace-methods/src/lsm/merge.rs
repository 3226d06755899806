//! Merging sorted inputs, the newest first, into one: pure, without I/O.

use terrace_access::{LargeRef, Value, Window};

use super::page::Record;
use crate::fault::{self, Fault};

/// What a merge comes to.
pub(crate) struct Merged<'w> {
    /// In ascending order of their keys, each key once: its newest version.
    pub records: Vec<Record<'w>>,
    /// Large values of older versions, which no record names any more once the merge is installed.
    pub dropped: Vec<LargeRef>,
    /// Records that had expired.
    pub expired: u64,
}

/// Merges inputs of which each is in order and has a key once; of two with the same key the one in the
/// earlier input counts. `ends` says that nothing older is below, so tombstones have done their work. A record
/// that has expired, as `is_over` says of its value, counts as a tombstone: what is older must not come back.
/// O(records x inputs).
pub(crate) fn merge<'w>(
    inputs: &'w [Window],
    ends: bool,
    is_over: &dyn Fn(Value<'_>) -> bool,
) -> Merged<'w> {
    let mut at = vec![0; inputs.len()];
    let mut merged = Merged {
        records: Vec::with_capacity(inputs.iter().map(Window::len).sum()),
        dropped: Vec::new(),
        expired: 0,
    };
    loop {
        let mut newest: Option<(usize, &[u8])> = None;
        for (n, input) in inputs.iter().enumerate() {
            if at[n] < input.len() {
                let key = input.key(at[n]);
                if newest.is_none_or(|(_, least)| key < least) {
                    newest = Some((n, key));
                }
            }
        }
        let Some((n, key)) = newest else {
            return merged;
        };
        let mut record = Record::of(&inputs[n], at[n]);
        at[n] += 1;
        for (older, input) in inputs.iter().enumerate().skip(n + 1) {
            if at[older] < input.len() && input.key(at[older]) == key {
                merged.dropped.extend(input.entry(at[older]).large);
                at[older] += 1;
            }
        }
        if !record.is_deleted && is_over(record.value) {
            merged.expired += 1;
            merged.dropped.extend(match record.value {
                Value::Large(large) => Some(large),
                Value::Inline(_) => None,
            });
            if fault::planted(Fault::ExpiredMergedAway) {
                continue;
            }
            record.is_deleted = true;
            record.value = Value::Inline(b"");
        }
        if !(record.is_deleted && ends) {
            merged.records.push(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use terrace_access::Flags;
    use terrace_base::PageId;
    use terrace_base::checksum::mix;

    use super::*;

    /// Versions of keys: a value, a large one, or a tombstone.
    fn input(seed: u64) -> (Window, BTreeMap<Vec<u8>, Option<u64>>) {
        let (mut window, mut model) = (Window::new(), BTreeMap::new());
        for n in 0..40u64 {
            let draw = mix(seed, n);
            if !draw.is_multiple_of(3) {
                let value = (!draw.is_multiple_of(5)).then_some(draw);
                model.insert(n.to_be_bytes()[7..].to_vec(), value);
            }
        }
        for (key, value) in &model {
            let large = value.filter(|v| v.is_multiple_of(7)).map(|v| LargeRef {
                head: PageId(v % 1000),
                len: 1,
                gone: 0,
            });
            let flags = match value {
                Some(_) => Flags::NONE,
                None => Flags::DELETED,
            };
            let bytes = value.filter(|_| large.is_none());
            window
                .push(
                    flags,
                    large,
                    |out| {
                        out.extend_from_slice(key);
                        Ok::<_, ()>(())
                    },
                    |out| {
                        out.extend(bytes.iter().flat_map(|v| v.to_le_bytes()));
                        Ok(())
                    },
                )
                .unwrap();
        }
        (window, model)
    }

    /// `count` of them, the newest first, and what there is of each key.
    fn inputs(seed: u64, count: u64) -> (Vec<Window>, BTreeMap<Vec<u8>, Option<u64>>) {
        let all = (0..count).map(|n| input(seed * 8 + n));
        let (windows, models): (Vec<_>, Vec<_>) = all.unzip();
        (windows, models.into_iter().rev().flatten().collect())
    }

    /// Large values in a window.
    fn large(window: &Window) -> usize {
        let entries = (0..window.len()).map(|i| window.entry(i));
        entries.filter(|entry| entry.large.is_some()).count()
    }

    /// One that has expired takes older ones along, and stays as a tombstone as long as there may be one below.
    #[test]
    fn what_has_expired_counts_as_a_tombstone() {
        let over = |value: Value<'_>| match value {
            Value::Inline(bytes) => bytes.first().is_some_and(|b| b % 2 == 0),
            Value::Large(large) => large.head.0 % 2 == 0,
        };
        for seed in 0..200 {
            let (windows, model) = inputs(seed, 1 + seed % 4);
            let is_over = |v: u64| match v.is_multiple_of(7) {
                true => (v % 1000).is_multiple_of(2),
                false => (v as u8).is_multiple_of(2),
            };
            for ends in [false, true] {
                let merged = merge(&windows, ends, &over);
                let of = |value: &Option<u64>| value.filter(|v| !is_over(*v));
                let expected: Vec<_> = model
                    .iter()
                    .filter(|(_, value)| of(value).is_some() || !ends)
                    .map(|(key, value)| (key.as_slice(), of(value).is_none()))
                    .collect();
                let found: Vec<_> = merged
                    .records
                    .iter()
                    .map(|r| (r.key, r.is_deleted))
                    .collect();
                assert_eq!(found, expected, "seed {seed}");
                let kept = merged.records.iter();
                let kept = kept.filter(|r| matches!(r.value, Value::Large(_))).count();
                let all = windows.iter().map(large).sum::<usize>();
                assert_eq!(kept + merged.dropped.len(), all, "seed {seed}");
                let gone = model.values().filter(|value| value.is_some_and(is_over));
                assert_eq!(merged.expired, gone.count() as u64);
            }
        }
    }

    #[test]
    fn a_merge_is_what_a_sorted_map_makes_of_it() {
        for seed in 0..200 {
            let (windows, model) = inputs(seed, 1 + seed % 5);
            for ends in [false, true] {
                let merged = merge(&windows, ends, &|_| false);
                let expected: Vec<_> = model
                    .iter()
                    .filter(|(_, value)| value.is_some() || !ends)
                    .map(|(key, value)| (key.as_slice(), value.is_none()))
                    .collect();
                let found: Vec<_> = merged
                    .records
                    .iter()
                    .map(|r| (r.key, r.is_deleted))
                    .collect();
                assert_eq!(found, expected, "seed {seed}");
                for record in &merged.records {
                    if let (Value::Inline(bytes), Some(Some(v))) =
                        (record.value, model.get(record.key))
                    {
                        assert_eq!(bytes, v.to_le_bytes(), "seed {seed}");
                    }
                }
                // Each chain is in the result or among those that go, once.
                let kept = merged
                    .records
                    .iter()
                    .filter(|r| matches!(r.value, Value::Large(_)))
                    .count();
                assert_eq!(
                    kept + merged.dropped.len(),
                    windows.iter().map(large).sum::<usize>(),
                    "seed {seed}"
                );
            }
        }
    }
}
