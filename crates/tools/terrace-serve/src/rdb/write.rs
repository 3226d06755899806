//! Values in Redis' own form.

use super::crc::crc64;
use super::packed::length_bytes;

/// Writes a length.
pub fn length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..=0x3F => out.push(length as u8),
        0x40..=0x3FFF => out.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes()),
        0x4000..=0xFFFF_FFFF => {
            out.push(0x80);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// Writes a string.
pub fn text(out: &mut Vec<u8>, text: &[u8]) {
    length(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Bytes of version and checksum behind a dump.
pub const FOOT: usize = 10;

/// Writes version and checksum behind a dump.
pub fn foot(out: &mut Vec<u8>, version: u16) {
    out.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(0, out);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// What a dump holds, if its version is known and its checksum right.
pub fn without_foot(bytes: &[u8]) -> Option<&[u8]> {
    let (rest, foot) = bytes.split_at_checked(bytes.len().checked_sub(FOOT)?)?;
    let (version, sum) = foot.split_at_checked(2)?;
    let version = u16::from_le_bytes(version.try_into().ok()?);
    let sum = u64::from_le_bytes(sum.try_into().ok()?);
    let right = sum == crc64(0, &bytes[..bytes.len() - 8]);
    (right && version <= super::NEWEST).then_some(rest)
}

/// A listpack that is written.
pub struct Listpack {
    bytes: Vec<u8>,
    elements: usize,
}

impl Default for Listpack {
    /// Without elements.
    fn default() -> Listpack {
        Listpack {
            bytes: vec![0; 6],
            elements: 0,
        }
    }
}

impl Listpack {
    fn end_element(&mut self, from: usize) {
        let length = self.bytes.len() - from;
        // Seven bits a byte, the highest first; all behind the first say that they are not the last ones read.
        let many = length_bytes(length);
        for nth in (0..many).rev() {
            let more = if nth + 1 < many { 0x80 } else { 0 };
            self.bytes.push((length >> (7 * nth) & 0x7F) as u8 | more);
        }
        self.elements += 1;
    }

    /// Adds a whole number.
    pub fn number(&mut self, number: i64) {
        let from = self.bytes.len();
        match u8::try_from(number) {
            Ok(small) if small < 0x80 => self.bytes.push(small),
            _ => {
                self.bytes.push(0xF4);
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        self.end_element(from);
    }

    /// Adds a string.
    pub fn text(&mut self, text: &[u8]) {
        let from = self.bytes.len();
        match text.len() {
            short @ 0..=63 => self.bytes.push(0x80 | short as u8),
            middle @ 64..=4095 => {
                self.bytes
                    .extend_from_slice(&(middle as u16 | 0xE000).to_be_bytes());
            }
            long => {
                self.bytes.push(0xF0);
                self.bytes.extend_from_slice(&(long as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end_element(from);
    }

    /// Its bytes.
    pub fn end(mut self) -> Vec<u8> {
        self.bytes.push(0xFF);
        let (length, elements) = (self.bytes.len() as u32, self.elements.min(0xFFFF) as u16);
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..6].copy_from_slice(&elements.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::packed::listpack;
    use crate::rdb::source::Source;

    #[test]
    fn what_is_written_is_read() {
        let mut pack = Listpack::default();
        let mut all = Vec::new();
        for length in [0, 5, 63, 64, 120, 127, 128, 4095, 4096, 20_000] {
            let text = vec![b'x'; length];
            pack.text(&text);
            all.push(text);
        }
        for number in [0, 127, 128, -1, i64::MAX, i64::MIN] {
            pack.number(number);
            all.push(number.to_string().into_bytes());
        }
        assert_eq!(listpack(&pack.end()).unwrap(), all);
        for number in [0, 63, 64, 16_383, 16_384, 1 << 32, u64::MAX] {
            let mut bytes = Vec::new();
            length(&mut bytes, number);
            assert_eq!(
                Source::new(&mut bytes.as_slice(), 9).length().unwrap(),
                number
            );
        }
        let mut dump = b"\0\x01v".to_vec();
        foot(&mut dump, 10);
        assert_eq!(without_foot(&dump), Some(&b"\0\x01v"[..]));
        dump[2] = b'w';
        assert_eq!(without_foot(&dump), None);
    }
}
