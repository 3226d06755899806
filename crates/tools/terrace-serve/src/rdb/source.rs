//! Bytes of a file or a dump as they are read: lengths, numbers, strings, some of them packed.
//!
//! Invariants: nothing is allocated for bytes that are not there; a length beyond what is allowed is an error.

use std::io::Read;

use super::crc::crc64;

/// What is wrong with the bytes, or with reading them.
pub type Got<T = ()> = Result<T, String>;

/// An error in the bytes.
pub fn broken<T>(what: impl Into<String>) -> Got<T> {
    Err(what.into())
}

/// A length, or the kind of a string that is not its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This many.
    Of(u64),
    /// A whole number of this many bytes, or 3 for packed.
    Special(u8),
}

/// Bytes that are read.
pub struct Source<'a> {
    from: &'a mut dyn Read,
    /// The checksum of what was read.
    pub sum: u64,
    /// Longest string.
    pub longest: u64,
}

impl<'a> Source<'a> {
    /// What `from` reads, with strings of at most `longest` bytes.
    pub fn new(from: &'a mut dyn Read, longest: u64) -> Source<'a> {
        Source {
            from,
            sum: 0,
            longest,
        }
    }

    /// This many bytes of a small number.
    pub fn some<const N: usize>(&mut self) -> Got<[u8; N]> {
        let mut bytes = [0; N];
        self.from
            .read_exact(&mut bytes)
            .map_err(|e| format!("it breaks off: {e}"))?;
        self.sum = crc64(self.sum, &bytes);
        Ok(bytes)
    }

    /// One byte.
    pub fn byte(&mut self) -> Got<u8> {
        Ok(self.some::<1>()?[0])
    }

    /// Eight bytes, the lowest first.
    pub fn long(&mut self) -> Got<u64> {
        Ok(u64::from_le_bytes(self.some()?))
    }

    /// A length, or what stands for a string.
    pub fn length_or_special(&mut self) -> Got<Length> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Of(u64::from(first)),
            1 => Length::Of(u64::from(first & 0x3F) << 8 | u64::from(self.byte()?)),
            2 => match first {
                0x80 => Length::Of(u64::from(u32::from_be_bytes(self.some()?))),
                0x81 => Length::Of(u64::from_be_bytes(self.some()?)),
                _ => return broken("a length of no known form"),
            },
            _ => Length::Special(first & 0x3F),
        })
    }

    /// A length.
    pub fn length(&mut self) -> Got<u64> {
        match self.length_or_special()? {
            Length::Of(length) => Ok(length),
            Length::Special(_) => broken("a string where a length has to be"),
        }
    }

    fn raw(&mut self, length: u64) -> Got<Vec<u8>> {
        if length > self.longest {
            return broken(format!("a string of {length} bytes is too long"));
        }
        let mut bytes = Vec::new();
        let read = self.from.take(length).read_to_end(&mut bytes);
        read.map_err(|e| format!("it breaks off: {e}"))?;
        if bytes.len() as u64 != length {
            return broken("it breaks off");
        }
        self.sum = crc64(self.sum, &bytes);
        Ok(bytes)
    }

    /// A string.
    pub fn text(&mut self) -> Got<Vec<u8>> {
        let number = |number: i64| number.to_string().into_bytes();
        match self.length_or_special()? {
            Length::Of(length) => self.raw(length),
            Length::Special(0) => Ok(number(i64::from(self.byte()? as i8))),
            Length::Special(1) => Ok(number(i16::from_le_bytes(self.some()?).into())),
            Length::Special(2) => Ok(number(i32::from_le_bytes(self.some()?).into())),
            Length::Special(3) => {
                let (packed, plain) = (self.length()?, self.length()?);
                if plain > self.longest {
                    return broken(format!("a string of {plain} bytes is too long"));
                }
                let packed = self.raw(packed)?;
                unpack(&packed, plain as usize)
            }
            Length::Special(_) => broken("a string of no known form"),
        }
    }
}

/// The bytes that were packed by LZF into these.
fn unpack(packed: &[u8], length: usize) -> Got<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    let next = |at: &mut usize| match packed.get(*at) {
        Some(byte) => {
            *at += 1;
            Ok(usize::from(*byte))
        }
        None => broken("packed bytes break off"),
    };
    while at < packed.len() {
        let first = next(&mut at)?;
        if first < 32 {
            let Some(plain) = packed.get(at..at + first + 1) else {
                return broken("packed bytes break off");
            };
            out.extend_from_slice(plain);
            at += first + 1;
        } else {
            let mut many = first >> 5;
            if many == 7 {
                many += next(&mut at)?;
            }
            let back = ((first & 31) << 8 | next(&mut at)?) + 1;
            let Some(from) = out.len().checked_sub(back) else {
                return broken("packed bytes refer to what is before them");
            };
            // What is repeated may overlap with what it becomes.
            for i in from..from + many + 2 {
                out.push(out[i]);
            }
        }
        if out.len() > length {
            return broken("packed bytes are more than they say");
        }
    }
    match out.len() == length {
        true => Ok(out),
        false => broken("packed bytes are fewer than they say"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_all_forms_are_read() {
        let text = |mut bytes: &[u8]| Source::new(&mut bytes, 1000).text();
        assert_eq!(text(b"\x03abc").unwrap(), b"abc");
        assert_eq!(text(b"\x40\x03abc").unwrap(), b"abc");
        assert_eq!(text(b"\x80\0\0\0\x03abc").unwrap(), b"abc");
        assert_eq!(text(b"\xC0\xFF").unwrap(), b"-1");
        assert_eq!(text(b"\xC1\x00\x01").unwrap(), b"256");
        assert_eq!(text(b"\xC2\x00\x00\x01\x00").unwrap(), b"65536");
        // One byte as it is, and then the same nine times.
        assert_eq!(
            text(b"\xC3\x05\x0A\x00a\xE0\x00\x00").unwrap(),
            b"aaaaaaaaaa"
        );
        assert!(text(b"\x81\0\0\0\xFF\0\0\0\0abc").is_err());
        assert!(text(b"\x05abc").is_err());
    }
}
