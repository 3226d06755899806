//! Leases: what stands in front of each value of a structure whose records expire. `docs/format-data.md` has
//! the same.
//!
//! Invariants: one lease has one encoding; decoding takes any bytes, and answers nothing for what was never
//! encoded.

/// Until when a record is there: for ever, or up to an instant, in milliseconds since 1970.
///
/// An earlier end is less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease(u64);

/// The first byte of a lease that never ends.
const ENDLESS: u8 = 0;
/// The first byte of one that ends; the instant follows.
const ENDS: u8 = 1;
/// Bytes of the longest lease.
pub const LEASE_BYTES: usize = 7;
/// The last instant at which a lease can end: 48 bits, past the year 10000.
pub const LAST_INSTANT: u64 = (1 << 48) - 1;

/// A lease as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct LeaseBytes {
    bytes: [u8; LEASE_BYTES],
    len: usize,
}

impl AsRef<[u8]> for LeaseBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Lease {
    /// The record stays.
    pub const ENDLESS: Lease = Lease(u64::MAX);

    /// The record is gone from this instant on. What is past [`LAST_INSTANT`] ends there.
    pub fn until(instant: u64) -> Lease {
        Lease(instant.min(LAST_INSTANT))
    }

    /// When it ends; `None` for never.
    pub fn end(self) -> Option<u64> {
        (self != Lease::ENDLESS).then_some(self.0)
    }

    /// Whether the record is gone at this time.
    #[inline]
    pub fn is_over(self, now: u64) -> bool {
        now >= self.0
    }

    /// As it is stored.
    #[inline]
    pub fn encode(self) -> LeaseBytes {
        let mut bytes = [ENDLESS; LEASE_BYTES];
        if self == Lease::ENDLESS {
            return LeaseBytes { bytes, len: 1 };
        }
        bytes[0] = ENDS;
        bytes[1..].copy_from_slice(&self.0.to_be_bytes()[2..]);
        LeaseBytes {
            bytes,
            len: LEASE_BYTES,
        }
    }

    /// The lease in front of what is stored, and what is behind it. Of a longer value the first
    /// [`LEASE_BYTES`] will do.
    #[inline]
    pub fn split(stored: &[u8]) -> Option<(Lease, &[u8])> {
        let (&first, rest) = stored.split_first()?;
        match first {
            ENDLESS => Some((Lease::ENDLESS, rest)),
            ENDS => {
                let (end, value) = rest.split_first_chunk::<{ LEASE_BYTES - 1 }>()?;
                let [a, b, c, d, e, f] = *end;
                Some((Lease(u64::from_be_bytes([0, 0, a, b, c, d, e, f])), value))
            }
            _ => None,
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.end() {
            None => f.write_str("Lease::ENDLESS"),
            Some(end) => write!(f, "Lease::until({end})"),
        }
    }
}

/// The coarse unit: 256 s.
const COARSE_MS: u64 = 256_000;
/// The coarse time begins with 2020.
const COARSE_BEGIN_MS: u64 = 1_577_836_800_000;
/// Most coarse units: they have 24 bits.
const COARSE_LAST: u64 = (1 << 24) - 1;

/// A lease in 24 bits: the first of the units of 256 s since 2020 with which it is over for certain; 0 for
/// never, and for what ends later than can be told.
pub fn coarse(lease: Lease) -> u32 {
    let Some(end) = lease.end() else { return 0 };
    let units = end.saturating_sub(COARSE_BEGIN_MS).div_ceil(COARSE_MS);
    match units.max(1) {
        units @ 1..=COARSE_LAST => units as u32,
        _ => 0,
    }
}

/// Whether a record with these 24 bits is gone for certain at this time.
pub fn coarse_is_over(units: u32, now: u64) -> bool {
    units > 0 && now >= COARSE_BEGIN_MS + u64::from(units) * COARSE_MS
}

/// Tries the decoder with any bytes: for fuzzing. Whether they begin with a lease.
///
/// # Panics
/// If it does not come back.
pub fn try_decoding(bytes: &[u8]) -> bool {
    let Some((lease, value)) = Lease::split(bytes) else {
        return false;
    };
    let encoded = lease.encode();
    assert_eq!([encoded.as_ref(), value].concat(), bytes);
    let units = coarse(lease);
    if let Some(end) = lease.end() {
        assert!(units == 0 || !coarse_is_over(units, end.saturating_sub(1)));
    } else {
        assert_eq!(units, 0);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lease_comes_back_and_nothing_else_does() {
        let ends = [0, 1, 255, 256, 1_700_000_000_000, LAST_INSTANT];
        let leases = ends.map(Lease::until).into_iter().chain([Lease::ENDLESS]);
        for lease in leases {
            for value in [&b""[..], b"v", &[0; 300]] {
                let stored = [lease.encode().as_ref(), value].concat();
                assert_eq!(Lease::split(&stored), Some((lease, value)));
                assert!(try_decoding(&stored));
            }
        }
        assert_eq!(Lease::until(u64::MAX).end(), Some(LAST_INSTANT));
        assert_eq!(Lease::split(b""), None);
        for first in 2..=255 {
            assert_eq!(Lease::split(&[first, 0, 0, 0, 0, 0, 0, 0]), None);
        }
        for len in 1..LEASE_BYTES {
            assert_eq!(Lease::split(&[1; LEASE_BYTES][..len]), None);
        }
    }

    #[test]
    fn a_record_is_gone_from_the_instant_on() {
        let lease = Lease::until(1000);
        assert!(!lease.is_over(999) && lease.is_over(1000) && lease.is_over(1001));
        assert!(!Lease::ENDLESS.is_over(u64::MAX - 1));
        assert!(Lease::until(5) < Lease::until(6) && Lease::until(LAST_INSTANT) < Lease::ENDLESS);
    }

    #[test]
    fn the_coarse_time_is_never_early() {
        for end in [
            0,
            COARSE_BEGIN_MS,
            COARSE_BEGIN_MS + 1,
            COARSE_BEGIN_MS + COARSE_MS,
            1_700_000_000_123,
            COARSE_BEGIN_MS + COARSE_LAST * COARSE_MS,
        ] {
            let units = coarse(Lease::until(end));
            assert!(units > 0);
            assert!(!coarse_is_over(units, end.saturating_sub(1)), "{end}");
            assert!(coarse_is_over(units, end.max(COARSE_BEGIN_MS) + COARSE_MS));
        }
        assert_eq!(coarse(Lease::ENDLESS), 0);
        assert_eq!(coarse(Lease::until(LAST_INSTANT)), 0);
        assert!(!coarse_is_over(0, u64::MAX));
    }
}
