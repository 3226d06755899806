//! When a dynamic stage is to be merged (section 5.2).

use crate::options::Trigger;

/// Whether a dynamic stage of `len` entries is due beside a static one of `fixed`; a ratio counts from
/// `least` entries on.
#[inline]
pub fn is_due(trigger: Trigger, len: usize, fixed: usize, least: usize) -> bool {
    match trigger {
        Trigger::Constant(n) => len >= n,
        Trigger::Ratio(ratio) => len >= least && len.saturating_mul(ratio) > fixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_due_from_its_number_or_from_its_share_on() {
        let due = |trigger, fixed, least| (0..1000).find(|&len| is_due(trigger, len, fixed, least));
        assert_eq!(due(Trigger::Constant(7), 1 << 40, 100), Some(7));
        assert_eq!(due(Trigger::Ratio(10), 4000, 0), Some(401));
        assert_eq!(due(Trigger::Ratio(10), 4000, 500), Some(500));
        assert_eq!(due(Trigger::Ratio(1), 5000, 0), None);
    }
}
