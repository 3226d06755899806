//! Into how many nodes a full one splits: the paper's hotness-aware multiple split.
//!
//! A node that filled up sooner after its own split than that had come after the one before is in a burst,
//! and splits into one more than the last time; one that took longer cools down. In a burst only as many
//! come into being as the paper's formula (1) lets its parent take.

/// A node splits into this many at most.
const MOST: u8 = 6;
/// How much sooner, or later.
const THRESHOLD: u64 = 2;

/// When a node was split. Counts are insertions into the whole map.
#[derive(Clone, Copy, Debug)]
pub struct Heat {
    previous: u32,
    last: u32,
    parts: u8,
}

impl Default for Heat {
    fn default() -> Self {
        Heat {
            previous: 0,
            last: 0,
            parts: 2,
        }
    }
}

impl Heat {
    /// Into how many nodes to split now, and what each of them is to remember. `now` counts insertions,
    /// wrapping; `room` is how many entries the parent can take.
    pub fn split(self, now: u32, room: usize) -> (usize, Heat) {
        let before = u64::from(self.last.wrapping_sub(self.previous));
        let since = u64::from(now.wrapping_sub(self.last));
        let mut parts = if self.last == 0 {
            2
        } else if before > THRESHOLD * since {
            (self.parts + 1).min(MOST)
        } else if before * THRESHOLD < since {
            (self.parts - 1).max(2)
        } else {
            self.parts
        };
        if usize::from(parts) > 2 && usize::from(parts) >= room {
            parts = (room as u8).clamp(2, MOST);
        }
        let next = Heat {
            previous: self.last,
            last: now,
            parts,
        };
        (usize::from(parts), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_splits_in_more_parts_and_cooling_in_fewer() {
        let (two, heat) = Heat::default().split(10_000, 100);
        assert_eq!(two, 2);
        let (three, heat) = heat.split(11_000, 100);
        assert_eq!(three, 3);
        let (four, heat) = heat.split(11_100, 100);
        assert_eq!(four, 4);
        assert_eq!(heat.split(11_110, 3).0, 3, "the parent takes no more");
        let (three, heat) = heat.split(50_000, 100);
        assert_eq!(three, 3);
        assert_eq!(heat.split(90_000, 100).0, 3, "neither sooner nor later");
    }
}
