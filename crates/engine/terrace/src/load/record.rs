//! A record on its way through a loader, and how it lies in memory and in files: the length of its key (two
//! bytes), that of its value (four, all ones if the value is not here), key, value.

/// Bytes before key and value.
pub(crate) const HEADER_BYTES: usize = 6;
/// The length of a value that is not here.
const ELSEWHERE: u32 = u32::MAX;

/// A record that was put; without a value when that was written already, for it was long.
#[derive(Clone, Copy)]
pub(crate) struct Record<'r> {
    pub key: &'r [u8],
    pub value: Option<&'r [u8]>,
}

impl<'r> Record<'r> {
    /// Bytes of key and value.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// What lies before key and value.
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        let value = self.value.map_or(ELSEWHERE, |value| value.len() as u32);
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        header[2..].copy_from_slice(&value.to_le_bytes());
        header
    }

    /// The record of these lengths whose key begins there.
    pub fn at(bytes: &'r [u8], from: usize, lens: Lens) -> Record<'r> {
        let (key, rest) = bytes[from..].split_at(lens.key);
        Record {
            key,
            value: lens.value.map(|len| &rest[..len]),
        }
    }

    /// The first eight bytes of its key: they tell the order of keys, unless they are the same.
    #[inline]
    pub fn prefix(&self) -> u64 {
        let mut bytes = [0; 8];
        let len = self.key.len().min(8);
        bytes[..len].copy_from_slice(&self.key[..len]);
        u64::from_be_bytes(bytes)
    }
}

/// What a header says.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lens {
    key: usize,
    /// `None` where the value is not here.
    value: Option<usize>,
}

impl Lens {
    /// From the first bytes of a header or more.
    pub fn read(bytes: &[u8]) -> Lens {
        let value = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
        Lens {
            key: usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            value: (value != ELSEWHERE).then_some(value as usize),
        }
    }

    /// Bytes of key and value.
    pub fn bytes(&self) -> usize {
        self.key + self.value.unwrap_or(0)
    }
}
