//! A file of Redis (RDB), key by key, as the commands that make it anew.

use std::io::Read;

use super::source::{Got, Source, broken};
use super::{NEWEST, read};

/// Longest string of Redis.
const LONGEST: u64 = 512 << 20;

/// What stands between the values.
mod op {
    pub const FUNCTION: u8 = 245;
    pub const MODULE: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const NOTE: u8 = 250;
    pub const SIZES: u8 = 251;
    pub const EXPIRES_MS: u8 = 252;
    pub const EXPIRES: u8 = 253;
    pub const DATABASE: u8 = 254;
    pub const END: u8 = 255;
    pub const SLOT: u8 = 244;
}

/// A value of a module, which says itself how it goes on.
const MODULE_VALUE: u8 = 7;

/// What a file held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Keys that were told.
    pub keys: u64,
    /// Keys of modules, which are passed over.
    pub unknown: u64,
    /// Keys that had expired, which are passed over.
    pub expired: u64,
}

/// Reads a file, and tells the commands that make its keys anew; `now` in milliseconds since 1970.
///
/// # Errors
/// What is wrong with the file, and the errors of `tell`; what was told before stays.
pub fn file(from: &mut dyn Read, now: u64, tell: &mut read::Tell) -> Got<Held> {
    let mut from = Source::new(from, LONGEST);
    let mut held = Held::default();
    let head = from.some::<9>()?;
    let digits = head
        .strip_prefix(b"REDIS")
        .and_then(|d| std::str::from_utf8(d).ok());
    let Some(version) = digits.and_then(|digits| digits.parse::<u16>().ok()) else {
        return broken("it is no file of Redis");
    };
    if !(1..=NEWEST).contains(&version) {
        return broken(format!(
            "it has the version {version}; known are 1 to {NEWEST}"
        ));
    }
    let mut expires = None;
    loop {
        match from.byte()? {
            op::END => break,
            op::DATABASE => {
                let db = from.length()?.to_string();
                tell(&[b"SELECT".to_vec(), db.into_bytes()])?;
            }
            op::EXPIRES => expires = Some(u64::from(u32::from_le_bytes(from.some()?)) * 1000),
            op::EXPIRES_MS => expires = Some(from.long()?),
            op::IDLE => _ = from.length()?,
            op::FREQUENCY => _ = from.byte()?,
            op::NOTE => _ = (from.text()?, from.text()?),
            op::SIZES => _ = (from.length()?, from.length()?),
            op::SLOT => _ = (from.length()?, from.length()?, from.length()?),
            op::MODULE => {
                for _ in 0..3 {
                    from.length()?;
                }
                pass_module(&mut from)?;
            }
            op::FUNCTION => {
                let code = from.text()?;
                tell(&[
                    b"FUNCTION".to_vec(),
                    b"LOAD".to_vec(),
                    b"REPLACE".to_vec(),
                    code,
                ])?;
            }
            MODULE_VALUE => {
                from.text()?;
                from.length()?;
                pass_module(&mut from)?;
                expires = None;
                held.unknown += 1;
            }
            kind => {
                let key = from.text()?;
                let expires = expires.take();
                if expires.is_some_and(|at| at <= now) {
                    match read::value(kind, &key, &mut from, &mut |_| Ok(())) {
                        Err(why) if why == read::EMPTY => continue,
                        read => read?,
                    }
                    held.expired += 1;
                    continue;
                }
                tell(&[b"DEL".to_vec(), key.clone()])?;
                match read::value(kind, &key, &mut from, tell) {
                    // As Redis: it is passed over.
                    Err(why) if why == read::EMPTY => continue,
                    read => read?,
                }
                if let Some(at) = expires {
                    let at = at.to_string().into_bytes();
                    tell(&[b"PEXPIREAT".to_vec(), key, at])?;
                }
                held.keys += 1;
            }
        }
    }
    let sum = from.sum;
    // Before that there is none, and 0 says that it was left out.
    if version >= 5 {
        let said = from.long()?;
        if said != 0 && said != sum {
            return broken("its checksum is not that of its bytes");
        }
    }
    Ok(held)
}

fn pass_module(from: &mut Source) -> Got {
    loop {
        match from.length()? {
            0 => return Ok(()),
            1 | 2 => _ = from.length()?,
            3 => _ = from.some::<4>()?,
            4 => _ = from.some::<8>()?,
            5 => _ = from.text()?,
            _ => return broken("a value of a module of no known form"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> Got<Vec<String>> {
        let mut all = Vec::new();
        file(&mut { bytes }, 1000, &mut |words| {
            let words: Vec<_> = words.iter().map(|w| String::from_utf8_lossy(w)).collect();
            all.push(words.join(" "));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn a_file_is_told_as_commands() {
        let mut bytes = b"REDIS0010\xFA\x03foo\x03bar\xFE\x02\xFB\x02\x01".to_vec();
        bytes.extend_from_slice(b"\x00\x01k\x01v");
        bytes.extend_from_slice(b"\xFC\x88\x13\0\0\0\0\0\0\x01\x01l\x02\x01a\xC0\x05");
        bytes.extend_from_slice(b"\xFC\x01\0\0\0\0\0\0\0\0\x04gone\x01v");
        bytes.extend_from_slice(b"\xFC\x01\0\0\0\0\0\0\0\x01\x05empty\x00");
        bytes.extend_from_slice(b"\xFF\0\0\0\0\0\0\0\0");
        let all = [
            "SELECT 2",
            "DEL k",
            "SET k v",
            "DEL l",
            "RPUSH l a 5",
            "PEXPIREAT l 5000",
        ];
        assert_eq!(told(&bytes).unwrap(), all);
        let at = bytes.len() - 1;
        bytes[at] = 1;
        assert!(told(&bytes).unwrap_err().contains("checksum"));
        for cut in 0..bytes.len() - 1 {
            assert!(told(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(told(b"REDIS0099").unwrap_err().contains("version 99"));
    }
}
