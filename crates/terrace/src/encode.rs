//! Numbers as keys: bytes that compare as the numbers do.

/// The bytes of an unsigned number.
pub fn u64(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The number of which [`u64`] made these bytes; none if they are not eight.
pub fn to_u64(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

/// The bytes of an unsigned number.
pub fn u32(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// The number of which [`u32`] made these bytes; none if they are not four.
pub fn to_u32(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// The bytes of a signed number: negative ones below.
pub fn i64(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ 1 << 63).to_be_bytes()
}

/// The number of which [`i64`] made these bytes; none if they are not eight.
pub fn to_i64(bytes: &[u8]) -> Option<i64> {
    let bytes = bytes.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ 1 << 63).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_compare_as_numbers_and_come_back() {
        let signed = [i64::MIN, -300, -1, 0, 1, 255, 256, i64::MAX];
        for pair in signed.windows(2) {
            assert!(i64(pair[0]) < i64(pair[1]));
        }
        assert!(signed.iter().all(|n| to_i64(&i64(*n)) == Some(*n)));
        let unsigned = [0, 1, 255, 256, u64::MAX];
        for pair in unsigned.windows(2) {
            assert!(u64(pair[0]) < u64(pair[1]));
        }
        assert!(unsigned.iter().all(|n| to_u64(&u64(*n)) == Some(*n)));
        assert!(u32(255) < u32(256) && to_u32(&u32(7)) == Some(7));
        assert_eq!(
            (to_u64(b"x"), to_i64(b"x"), to_u32(b"x")),
            (None, None, None)
        );
    }
}
