//! Little-endian numbers out of and into byte slices, never panicking on short input.

/// Reads numbers one after the other from a byte slice; `None` when it is too short.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    /// The next two bytes as a number.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(2)?.try_into().ok()?))
    }

    /// The next four bytes as a number.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// A length-prefixed (u32) byte string.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        self.bytes(len)
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Appends a length-prefixed (u32) byte string, as [`Reader::string`] reads it.
pub fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The number at `at`, or `None` past the end.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Reader::new(bytes.get(at..)?).u16()
}

/// The number at `at`, or `None` past the end.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Reader::new(bytes.get(at..)?).u32()
}

/// The number at `at`, or `None` past the end.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Reader::new(bytes.get(at..)?).u64()
}
