//! The checksum of files and dumps: CRC-64 by Jones, as Redis has it.

/// Its polynomial, its bits from the last to the first.
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

const TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut sum, mut bit) = (at as u64, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 {
                sum >> 1 ^ POLYNOMIAL
            } else {
                sum >> 1
            };
            bit += 1;
        }
        table[at] = sum;
        at += 1;
    }
    table
}

/// The checksum of what had the checksum `sum`, and these bytes behind it.
pub fn crc64(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| {
        TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(super::crc64(0, b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }
}
