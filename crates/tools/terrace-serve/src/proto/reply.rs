//! Answers, in the second and the third version of the protocol.

use crate::text::format_f64;

/// Answers that were written and not sent.
#[derive(Debug, Default)]
pub struct Reply {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// Whether the client speaks the third version.
    pub third: bool,
}

impl Reply {
    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn head(&mut self, kind: u8, number: i64) {
        self.bytes.push(kind);
        if (0..10).contains(&number) {
            self.bytes.push(b'0' + number as u8);
        } else {
            self.raw(itoa::Buffer::new().format(number).as_bytes());
        }
        self.raw(b"\r\n");
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A short text without line ends.
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.raw(text.as_bytes());
        self.raw(b"\r\n");
    }

    /// An error; line ends in it become spaces.
    pub fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let clean = text.bytes().map(|b| if b < b' ' { b' ' } else { b });
        self.bytes.extend(clean);
        self.raw(b"\r\n");
    }

    /// A whole number.
    pub fn number(&mut self, number: i64) {
        self.head(b':', number);
    }

    /// How many there are.
    pub fn count(&mut self, number: usize) {
        self.number(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// A string.
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.bytes.reserve(bytes.len() + 16);
        self.head(b'$', bytes.len() as i64);
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// A string, or that there is none.
    pub fn bulk_or_null(&mut self, bytes: Option<impl AsRef<[u8]>>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// No value.
    pub fn null(&mut self) {
        self.raw(if self.third { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No array.
    pub fn null_array(&mut self) {
        self.raw(if self.third { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array of so many answers follows.
    pub fn array(&mut self, length: usize) {
        self.head(b'*', length as i64);
    }

    /// A map of so many pairs follows; in the second version an array of both.
    pub fn map(&mut self, pairs: usize) {
        match self.third {
            true => self.head(b'%', pairs as i64),
            false => self.head(b'*', pairs as i64 * 2),
        }
    }

    /// Streams with their entries follow: a map, or an array of pairs that are arrays.
    pub fn map_of_streams(&mut self, streams: usize) {
        self.head(if self.third { b'%' } else { b'*' }, streams as i64);
    }

    /// A set of so many answers follows.
    pub fn set(&mut self, length: usize) {
        self.head(if self.third { b'~' } else { b'*' }, length as i64);
    }

    /// What nobody has asked for, of so many parts.
    pub fn push(&mut self, length: usize) {
        self.head(if self.third { b'>' } else { b'*' }, length as i64);
    }

    /// A floating-point number.
    pub fn double(&mut self, number: f64) {
        let text = format_f64(number);
        match self.third {
            true => {
                self.bytes.push(b',');
                self.raw(text.as_bytes());
                self.raw(b"\r\n");
            }
            false => self.bulk(text),
        }
    }

    /// A text that is shown as it is.
    pub fn verbatim(&mut self, text: &str) {
        match self.third {
            true => {
                self.head(b'=', text.len() as i64 + 4);
                self.raw(b"txt:");
                self.raw(text.as_bytes());
                self.raw(b"\r\n");
            }
            false => self.bulk(text),
        }
    }

    /// Yes or no.
    pub fn boolean(&mut self, yes: bool) {
        match self.third {
            true => self.raw(if yes { b"#t\r\n" } else { b"#f\r\n" }),
            false => self.number(i64::from(yes)),
        }
    }
}
