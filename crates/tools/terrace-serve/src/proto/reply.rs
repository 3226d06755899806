//! Answers, in the second and the third version of the protocol.

use crate::text::format_f64;

/// Answers that were written and not sent.
#[derive(Debug, Default)]
pub struct Reply {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// Whether the client speaks the third version.
    pub third: bool,
    /// Where what is written now has to end, if it is long; 0 for nowhere.
    until: usize,
    /// Whether something of it was left out for that.
    over: bool,
}

/// From this many bytes on memory grows by an eighth at a time: twice as much would be more than an answer may take.
const LARGE: usize = 1 << 20;
/// What is as short as this is always written: a number, or that all is well.
const SHORT: usize = 64;

/// A text without line ends, as it goes within one line.
fn clean(text: &str) -> Vec<u8> {
    let clean = text.bytes().map(|b| if b < b' ' { b' ' } else { b });
    clean.collect()
}

impl Reply {
    /// Nothing yet, in this version of the protocol.
    pub fn new(third: bool) -> Reply {
        Reply {
            third,
            ..Reply::default()
        }
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        let needed = self.bytes.len() + bytes.len();
        if self.until > 0 && needed > self.until {
            self.over = true;
            return;
        }
        if needed > self.bytes.capacity() && needed > LARGE {
            let more = needed - self.bytes.len() + needed / 8;
            self.bytes.reserve_exact(more);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// An answer begins which may end `most` bytes further on, or where the one that it is a part of has to end; what
    /// it is to be given back to at its end ([`Reply::end`]).
    pub fn begin(&mut self, most: usize) -> usize {
        let at = self.bytes.len();
        let outer = self.until;
        let most = at.saturating_add(most);
        self.until = match outer {
            0 => most,
            outer => outer.min(most),
        };
        self.until = self.until.max(at + SHORT);
        // Of the one before, which has its error.
        self.over = false;
        outer
    }

    /// It has ended; whether nothing of it was left out.
    pub fn end(&mut self, outer: usize) -> bool {
        self.until = outer;
        !std::mem::take(&mut self.over)
    }

    fn head(&mut self, kind: u8, number: i64) {
        if (0..10).contains(&number) {
            self.raw(&[kind, b'0' + number as u8, b'\r', b'\n']);
        } else {
            self.raw(&[kind]);
            self.raw(itoa::Buffer::new().format(number).as_bytes());
            self.raw(b"\r\n");
        }
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// A short text; line ends in it become spaces.
    pub fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.raw(&clean(text));
        self.raw(b"\r\n");
    }

    /// An error; line ends in it become spaces.
    pub fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        self.bytes.extend(clean(text));
        self.bytes.extend_from_slice(b"\r\n");
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
        if self.bytes.len() + bytes.len() < LARGE {
            self.bytes.reserve(bytes.len() + 16);
        }
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

    /// No value. As short as it is, it is written wherever the answer has to end.
    pub fn null(&mut self) {
        let none: &[u8] = if self.third { b"_\r\n" } else { b"$-1\r\n" };
        self.bytes.extend_from_slice(none);
    }

    /// No array.
    pub fn null_array(&mut self) {
        let none: &[u8] = if self.third { b"_\r\n" } else { b"*-1\r\n" };
        self.bytes.extend_from_slice(none);
    }

    /// An array of this many answers follows.
    pub fn array(&mut self, length: usize) {
        self.head(b'*', length as i64);
    }

    /// A map of this many pairs follows; in the second version an array of both.
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

    /// A set of this many answers follows.
    pub fn set(&mut self, length: usize) {
        self.head(if self.third { b'~' } else { b'*' }, length as i64);
    }

    /// What no client has asked for, of this many parts.
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
        self.verbatim_as(b"txt", text.as_bytes());
    }

    /// A text that is shown as it is, in a format that three letters name.
    pub fn verbatim_as(&mut self, format: &[u8], text: &[u8]) {
        match self.third {
            true => {
                let mut letters = [b' '; 3];
                letters
                    .iter_mut()
                    .zip(format)
                    .for_each(|(to, from)| *to = *from);
                self.head(b'=', text.len() as i64 + 4);
                self.raw(&letters);
                self.raw(b":");
                self.raw(text);
                self.raw(b"\r\n");
            }
            false => self.bulk(text),
        }
    }

    /// A whole number of any length; line ends in it become spaces.
    pub fn big_number(&mut self, digits: &str) {
        match self.third {
            true => {
                self.bytes.push(b'(');
                self.raw(&clean(digits));
                self.raw(b"\r\n");
            }
            false => self.bulk(clean(digits)),
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
