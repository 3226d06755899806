//! Sorted input goes straight into segments.

use super::merge::STEP_BYTES;
use super::{Core, HybridMap, check, stored};
use crate::family::Family;
use crate::key::IndexKey;
use crate::stage::{KeyRun, StaticStage};

impl<F: Family, V> Core<F, V> {
    /// Whether `key` lies behind all entries, so that a run that starts with it can be appended.
    fn is_behind_all(&self, key: F::Ref<'_>) -> bool {
        let mut all = self.range(None, None);
        all.next_back()
            .is_none_or(|(last, _)| F::cmp(last, key).is_lt())
    }

    /// Whether all keys of segment `i`, dead ones among them, are less than `key`.
    fn ends_before(&self, i: usize, key: F::Ref<'_>) -> bool {
        let mut last = F::Buf::default();
        self.segments.segs()[i].keys.last_key(&mut last);
        F::cmp(F::load(&last), key).is_lt()
    }

    /// Puts sorted entries behind all others, as one segment unless their keys are long.
    fn append(&mut self, keys: &F::Run, vals: Vec<V>) {
        // Dead keys may lie behind the last live one. The new bound is told from the last key of
        // the segment before, dead or not, so that one has to be less.
        while let Some(last) = self.segments.segs().len().checked_sub(1)
            && self.segments.segs()[last].vals.gone() > 0
            && !self.ends_before(last, keys.get(0))
        {
            self.sweep(last);
        }
        let at = self.segments.segs().len();
        let pieces = self.pieces(keys.len(), keys.key_bytes(0, keys.len()));
        self.segments.insert(at, keys, vals, pieces, &self.plan);
    }
}

impl<K: IndexKey, V> HybridMap<K, V> {
    /// Inserts many entries. Where they come in order and behind what is there, whole segments
    /// are built, and only entries that are too few for one pass the dynamic stage.
    pub(super) fn extend_from(&mut self, entries: impl IntoIterator<Item = (K, V)>) {
        let len = self.core.options.segment_len;
        let (mut keys, mut vals) = (<K::Family as Family>::Run::default(), Vec::new());
        let mut rest = entries.into_iter();
        let (mut stray, mut flushed) = (None, false);
        for (key, val) in rest.by_ref() {
            // Whether the entry goes on with the run; a key that comes twice replaces.
            let fits = key.encode(|key| {
                stored(check::<K::Family>(key));
                let n = keys.len();
                if n == 0 {
                    self.core.is_behind_all(key)
                } else {
                    <K::Family as Family>::cmp(keys.get(n - 1), key).is_lt()
                }
            });
            if !fits {
                stray = Some((key, val));
                break;
            }
            key.encode(|key| keys.push(key));
            vals.push(val);
            // A full segment waits for one more entry, which may replace its last one; of long keys
            // several make as much as is kept.
            let n = vals.len() - 1;
            if n == len || keys.key_bytes(0, n) >= STEP_BYTES {
                self.flush(&mut keys, &mut vals, n);
                flushed = true;
            }
        }
        // Few entries become a segment only behind full ones of the same call: else many calls
        // with few entries each would leave as many short segments.
        let n = vals.len();
        if n >= len / 2 || (n > 0 && flushed) {
            self.flush(&mut keys, &mut vals, n);
        }
        for (i, val) in vals.into_iter().enumerate() {
            self.core.insert(keys.get(i), val);
        }
        for (key, val) in stray.into_iter().chain(rest) {
            self.insert(key, val);
        }
    }

    /// Appends the first `n` entries as a segment and leaves the others.
    fn flush(&mut self, keys: &mut <K::Family as Family>::Run, vals: &mut Vec<V>, n: usize) {
        let mut others = <K::Family as Family>::Run::default();
        others.append(keys, n, keys.len());
        let late = vals.split_off(n);
        keys.truncate(n);
        self.core.append(keys, std::mem::replace(vals, late));
        *keys = others;
    }
}
