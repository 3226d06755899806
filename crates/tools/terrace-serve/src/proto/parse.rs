//! Requests: arrays of strings, and commands on a line.
//!
//! Invariants: whatever comes, nothing is allocated before its bytes are there, beyond eight bytes for an
//! argument; what is read is not read again when more bytes come; no bytes make it panic.

/// Most bytes of a line: a command on a line, or a length.
const LONGEST_LINE: usize = 64 << 10;
/// Most arguments of a command.
pub const MOST_ARGUMENTS: i64 = 1 << 20;

/// What may come.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most arguments of a command.
    pub arguments: i64,
    /// Most bytes of an argument.
    pub longest: usize,
    /// What errors say of who has not said a password yet.
    pub who: &'static str,
}

impl Limits {
    /// Of a client that may do everything, with arguments of this many bytes.
    pub fn new(longest: usize) -> Limits {
        Limits {
            arguments: MOST_ARGUMENTS,
            longest,
            who: "",
        }
    }

    /// Of a client that has not said the password: Redis' numbers.
    pub fn unauthenticated() -> Limits {
        Limits {
            arguments: 10,
            longest: 16 << 10,
            who: "unauthenticated ",
        }
    }

    fn refused(&self, what: &str) -> String {
        match self.who {
            "" => format!("Protocol error: invalid {what}"),
            who => format!("Protocol error: {who}{what}"),
        }
    }
}

/// Where an argument lies, counted from the beginning of its command.
pub type Span = (u32, u32);

/// What the next bytes are.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A command of this many bytes, whose arguments are known now; none of them for an empty line.
    Command(usize),
    /// More bytes are needed.
    More,
}

/// Where the parser stands in a command that is not whole yet.
#[derive(Debug, Default)]
pub struct Parser {
    /// The arguments so far.
    pub spans: Vec<Span>,
    /// Bytes of the command that are read.
    at: usize,
    /// Arguments that are still to come; none before the header.
    left: Option<i64>,
    /// Length of the argument that comes next, if it was read.
    bulk: Option<usize>,
}

impl Parser {
    /// Reads on in `bytes`, which begin with the command. A command on a line is decoded in its place.
    ///
    /// # Errors
    /// What is wrong, in Redis' words, without `ERR `. The connection has to be closed.
    pub fn parse(&mut self, bytes: &mut [u8], limits: &Limits) -> Result<Parsed, String> {
        if self.left.is_none() {
            self.spans.clear();
            self.at = 0;
            match bytes.first() {
                None => return Ok(Parsed::More),
                Some(b'*') => {}
                Some(_) => return self.inline(bytes),
            }
            let Some((count, next)) = number(bytes, 1, "invalid multibulk length")? else {
                return Ok(Parsed::More);
            };
            if count > limits.arguments {
                return Err(match count > MOST_ARGUMENTS {
                    true => "Protocol error: invalid multibulk length".into(),
                    false => limits.refused("multibulk length"),
                });
            }
            self.at = next;
            self.left = Some(count.max(0));
        }
        while self.left.unwrap_or(0) > 0 {
            let length = match self.bulk {
                Some(length) => length,
                None => {
                    match bytes.get(self.at) {
                        None => return Ok(Parsed::More),
                        Some(b'$') => {}
                        Some(&other) => {
                            let other = char::from(other).escape_default();
                            return Err(format!("Protocol error: expected '$', got '{other}'"));
                        }
                    }
                    let Some((length, next)) = number(bytes, self.at + 1, "invalid bulk length")?
                    else {
                        return Ok(Parsed::More);
                    };
                    let Ok(length) = usize::try_from(length) else {
                        return Err("Protocol error: invalid bulk length".into());
                    };
                    if length > limits.longest {
                        return Err(limits.refused("bulk length"));
                    }
                    self.at = next;
                    self.bulk = Some(length);
                    length
                }
            };
            let end = self.at + length;
            if bytes.len() < end + 2 {
                return Ok(Parsed::More);
            }
            let (Ok(from), Ok(to)) = (u32::try_from(self.at), u32::try_from(end)) else {
                return Err("Protocol error: too big command".into());
            };
            self.spans.push((from, to));
            self.at = end + 2;
            self.bulk = None;
            self.left = self.left.map(|left| left - 1);
        }
        self.left = None;
        Ok(Parsed::Command(self.at))
    }

    /// Whether a part of a command was read.
    pub fn is_inside(&self) -> bool {
        self.left.is_some()
    }

    /// How many bytes from the beginning of the command are certainly needed, if that is known.
    pub fn needed(&self) -> usize {
        self.bulk.map_or(0, |length| self.at + length + 2)
    }

    fn inline(&mut self, bytes: &mut [u8]) -> Result<Parsed, String> {
        let searched = bytes.len().min(LONGEST_LINE);
        let Some(end) = bytes[..searched].iter().position(|b| *b == b'\n') else {
            return match bytes.len() >= LONGEST_LINE {
                true => Err("Protocol error: too big inline request".into()),
                false => Ok(Parsed::More),
            };
        };
        let line = match end.checked_sub(1) {
            Some(before) if bytes[before] == b'\r' => before,
            _ => end,
        };
        let unbalanced = || "Protocol error: unbalanced quotes in request".to_owned();
        // What is decoded is never longer than what it is decoded from.
        let (mut from, mut to) = (0, 0);
        loop {
            while from < line && bytes[from].is_ascii_whitespace() {
                from += 1;
            }
            if from == line {
                break;
            }
            let start = to;
            while from < line && !bytes[from].is_ascii_whitespace() {
                let quote = bytes[from];
                if quote != b'"' && quote != b'\'' {
                    bytes[to] = quote;
                    (from, to) = (from + 1, to + 1);
                    continue;
                }
                from += 1;
                loop {
                    let byte = *bytes[..line].get(from).ok_or_else(unbalanced)?;
                    let (decoded, length) = match byte {
                        b'\\' if quote == b'"' => escaped(&bytes[from..line]),
                        b'\\' if bytes[..line].get(from + 1) == Some(&b'\'') => (b'\'', 2),
                        _ if byte == quote => break,
                        _ => (byte, 1),
                    };
                    bytes[to] = decoded;
                    (from, to) = (from + length, to + 1);
                }
                from += 1;
                if from < line && !bytes[from].is_ascii_whitespace() {
                    return Err(unbalanced());
                }
            }
            // Lines are short.
            self.spans.push((start as u32, to as u32));
        }
        Ok(Parsed::Command(end + 1))
    }
}

/// What stands behind a backslash in double quotes, and how long it is with it.
fn escaped(bytes: &[u8]) -> (u8, usize) {
    let hex = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    match bytes {
        [_, b'x', high, low, ..] if hex(*high).is_some() && hex(*low).is_some() => {
            (hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0), 4)
        }
        [_, b'n', ..] => (b'\n', 2),
        [_, b'r', ..] => (b'\r', 2),
        [_, b't', ..] => (b'\t', 2),
        [_, b'b', ..] => (8, 2),
        [_, b'a', ..] => (7, 2),
        [_, other, ..] => (*other, 2),
        _ => (b'\\', 1),
    }
}

/// The number that a line from `from` on says, and where the next line begins.
fn number(bytes: &[u8], from: usize, wrong: &str) -> Result<Option<(i64, usize)>, String> {
    let rest = bytes.get(from..).unwrap_or_default();
    // Most are short.
    let short = match rest {
        [a @ b'1'..=b'9', b'\r', b'\n', ..] => Some((i64::from(a - b'0'), 3)),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some((i64::from(a - b'0') * 10 + i64::from(b - b'0'), 4))
        }
        _ => None,
    };
    if let Some((number, length)) = short {
        return Ok(Some((number, from + length)));
    }
    // No number is longer; what is, is none.
    let searched = rest.len().min(32);
    let Some(end) = rest[..searched].iter().position(|b| *b == b'\n') else {
        return match rest.len() >= 32 {
            true => Err(format!("Protocol error: {wrong}")),
            false => Ok(None),
        };
    };
    let digits = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
    match crate::text::parse_i64(digits) {
        Some(number) => Ok(Some((number, from + end + 1))),
        None => Err(format!("Protocol error: {wrong}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, String> {
        let mut bytes = bytes.to_vec();
        let mut parser = Parser::default();
        Ok(match parser.parse(&mut bytes, &Limits::new(1 << 20))? {
            Parsed::More => None,
            Parsed::Command(_) => {
                let argument = |(a, b): &Span| bytes[*a as usize..*b as usize].to_vec();
                Some(parser.spans.iter().map(argument).collect())
            }
        })
    }

    #[test]
    fn a_command_is_the_same_however_its_bytes_come() {
        let whole = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\nb\0\r\nPING\r\n";
        for cut in 0..whole.len() {
            let mut parser = Parser::default();
            let mut first = whole[..cut].to_vec();
            let early = parser.parse(&mut first, &Limits::new(100)).unwrap();
            let mut all = whole.to_vec();
            let length = match early {
                Parsed::Command(length) => length,
                Parsed::More => match parser.parse(&mut all, &Limits::new(100)).unwrap() {
                    Parsed::Command(length) => length,
                    Parsed::More => panic!("it is whole"),
                },
            };
            assert_eq!(length, whole.len() - 6);
            let last = parser.spans[2];
            assert_eq!(&all[last.0 as usize..last.1 as usize], b"a\r\nb\0");
        }
    }

    #[test]
    fn lines_have_quotes() {
        let words = |line: &str| arguments(line.as_bytes()).map(|a| a.unwrap());
        assert_eq!(words("PING\r\n").unwrap(), [b"PING"]);
        assert_eq!(words("\n").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(
            words("  set \"a b\\x41\\n\" 'it\\'s'\n").unwrap(),
            [&b"set"[..], b"a bA\n", b"it's"]
        );
        assert!(words("set \"a\n").is_err());
        assert!(words("set \"a\"b\n").is_err());
    }

    #[test]
    fn promises_are_not_believed() {
        assert!(arguments(b"*1048577\r\n").is_err());
        assert!(arguments(b"*1\r\n$1073741824\r\n").is_err());
        assert!(arguments(b"*1\r\n$-1\r\n").is_err());
        assert!(
            arguments(b"*1\r\nx")
                .unwrap_err()
                .contains("expected '$', got 'x'")
        );
        assert!(arguments(&[b'a'; LONGEST_LINE]).is_err());
        assert!(arguments(&[b'*'; 64]).is_err());
        assert_eq!(arguments(b"*1000000\r\n$3\r\nGET"), Ok(None));
        assert_eq!(arguments(b"*-1\r\n"), Ok(Some(Vec::new())));
    }
}
