//! JSON Lines: one object per line, of any kind or as `terrace dump` writes them.

use anyhow::{Context, Result, anyhow, bail};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::io::{BufRead, Read};
use std::time::SystemTime;

use super::parts;
use super::source::{Numbered, Source, parse_expires, time_of};
use crate::engine::Entry;
use crate::text::take_field;
use terrace::StructureInfo;

/// Lines that are not empty, with their numbers.
struct Lines<R> {
    reader: R,
    /// A longer line is malformed: only the line being read is in memory, and no more than this of it.
    longest: u64,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R, longest: u64) -> Self {
        Lines {
            reader,
            longest,
            number: 0,
            line: Vec::new(),
        }
    }

    /// What `parse` finds in the next line; the outer error is one of reading.
    fn next<T>(&mut self, parse: impl FnOnce(&[u8]) -> Result<T>) -> Result<Option<Numbered<T>>> {
        loop {
            self.line.clear();
            let read = self
                .reader
                .by_ref()
                .take(self.longest)
                .read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if read as u64 == self.longest && self.line.last() != Some(&b'\n') {
                self.skip_line()?;
                let error = anyhow!("the line is longer than {} MiB", self.longest >> 20);
                return Ok(Some((self.number, Err(error))));
            }
            if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            while self.line.last().is_some_and(u8::is_ascii_whitespace) {
                self.line.pop();
            }
            if !self.line.is_empty() {
                return Ok(Some((self.number, parse(&self.line))));
            }
        }
    }

    fn skip_line(&mut self) -> Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let end = buffer.iter().position(|&b| b == b'\n');
            let used = end.map_or(buffer.len(), |at| at + 1);
            let over = end.is_some() || used == 0;
            self.reader.consume(used);
            if over {
                return Ok(());
            }
        }
    }
}

/// Objects of any kind.
pub struct Jsonl<R> {
    lines: Lines<R>,
    key: String,
    value: Option<String>,
    /// The field that says until when a record is there, and what it said last.
    expires: Option<String>,
    until: Option<SystemTime>,
}

impl<R: BufRead> Jsonl<R> {
    /// The same, with a field that says until when a record is there.
    pub fn expiring(self, field: Option<&str>) -> Self {
        Jsonl {
            expires: field.map(Into::into),
            ..self
        }
    }

    /// The fields of key and value; without the latter the whole line is the value.
    /// Lines of more than `longest` bytes are malformed.
    pub fn new(reader: R, key: &str, value: Option<&str>, longest: u64) -> Self {
        Jsonl {
            lines: Lines::new(reader, longest),
            key: key.into(),
            value: value.map(Into::into),
            expires: None,
            until: None,
        }
    }
}

/// What is said of a line that holds something else.
fn no_object(error: serde_json::Error) -> anyhow::Error {
    if error.is_data() {
        return anyhow!("the line is JSON, but no object");
    }
    anyhow::Error::new(error).context("the line is no JSON object")
}

/// The fields of an object as they stand there, also those with the same name.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Object)
    }
}

/// The record that a line holds.
fn entry(
    line: &[u8],
    key: &str,
    value: Option<&str>,
    expires: Option<&str>,
) -> Result<(Entry, Option<SystemTime>)> {
    // Fields as the line has them: a number that was parsed would be rounded, and two keys be one.
    let Fields(object) = serde_json::from_slice(line).map_err(no_object)?;
    let may_have = |name: &str| {
        let mut named = object.iter().filter(|(field, _)| field == name);
        let field = named.next().map(|(_, field)| *field);
        if named.next().is_some() {
            bail!("there are two fields {name:?}, and nobody knows which is meant");
        }
        Ok(field)
    };
    let field = |name: &str| may_have(name)?.ok_or_else(|| anyhow!("there is no field {name:?}"));
    let found = field(key)?;
    match found.get().as_bytes().first() {
        Some(b'{' | b'[' | b'n') => {
            bail!("the field {key:?} is neither text nor number nor truth value")
        }
        _ if found.get() == "\"\"" => bail!("the field {key:?} is empty, so there is no key"),
        _ => {}
    }
    let value = match value {
        None => line.to_vec(),
        Some(name) => plain(name, field(name)?)?,
    };
    let until = match expires {
        Some(name) => match may_have(name)? {
            Some(field) => parse_expires(name, &plain(name, field)?)?,
            None => None,
        },
        None => None,
    };
    Ok(((plain(key, found)?, value), until))
}

/// Text as it is, everything else as the JSON that it is.
fn plain(name: &str, field: &RawValue) -> Result<Vec<u8>> {
    let json = field.get();
    if !json.starts_with('"') {
        return Ok(json.as_bytes().to_vec());
    }
    let text: String =
        serde_json::from_str(json).with_context(|| format!("the field {name:?} is no text"))?;
    Ok(text.into_bytes())
}

impl<R: BufRead> Source for Jsonl<R> {
    fn next(&mut self) -> Result<Option<Numbered<Entry>>> {
        let (key, value) = (&self.key, self.value.as_deref());
        let expires = self.expires.as_deref();
        let next = self.lines.next(|line| entry(line, key, value, expires))?;
        self.until = None;
        Ok(next.map(|(number, record)| {
            let entry = record.map(|(entry, until)| {
                self.until = until;
                entry
            });
            (number, entry)
        }))
    }

    fn expires(&self) -> Option<SystemTime> {
        self.until
    }
}

/// What `terrace dump` writes.
pub struct Dump<R> {
    lines: Lines<R>,
    /// What was read ahead.
    next: Option<Option<Numbered<Line>>>,
    /// Until when the record is there that came last.
    until: Option<SystemTime>,
}

/// A line of a dump.
enum Line {
    Record(Entry, Option<SystemTime>),
    /// The records behind it are of this structure.
    Part(Box<StructureInfo>),
}

impl<R: BufRead> Dump<R> {
    /// Reads a dump; lines of more than `longest` bytes are malformed.
    pub fn new(reader: R, longest: u64) -> Self {
        Dump {
            lines: Lines::new(reader, longest),
            next: None,
            until: None,
        }
    }

    fn line(&mut self) -> Result<Option<Numbered<Line>>> {
        if let Some(next) = self.next.take() {
            return Ok(next);
        }
        self.lines.next(|line| {
            let object: Map<String, Value> = serde_json::from_slice(line).map_err(no_object)?;
            if let Some(info) = parts::parse(&object) {
                return Ok(Line::Part(Box::new(info?)));
            }
            let (key, value) = (take_field(&object, "key")?, take_field(&object, "value")?);
            let until = match object.get("expires") {
                None => None,
                Some(millis) => {
                    let millis = millis.as_u64();
                    let millis = millis
                        .ok_or_else(|| anyhow!("\"expires\" must be milliseconds since 1970"))?;
                    Some(time_of(millis)?)
                }
            };
            Ok(Line::Record((key, value), until))
        })
    }
}

impl<R: BufRead> Source for Dump<R> {
    fn next(&mut self) -> Result<Option<Numbered<Entry>>> {
        Ok(match self.line()? {
            Some((number, Ok(Line::Record(entry, until)))) => {
                self.until = until;
                Some((number, Ok(entry)))
            }
            Some((number, Err(error))) => Some((number, Err(error))),
            part_or_end => {
                self.next = Some(part_or_end);
                None
            }
        })
    }

    fn expires(&self) -> Option<SystemTime> {
        self.until
    }

    fn part(&mut self) -> Result<Option<StructureInfo>> {
        match self.line()? {
            Some((_, Ok(Line::Part(info)))) => Ok(Some(*info)),
            other => {
                self.next = Some(other);
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LONGEST;
    use super::*;

    fn read(mut source: impl Source) -> Vec<(u64, Result<Entry, String>)> {
        let mut all = Vec::new();
        while let Some((line, entry)) = source.next().unwrap() {
            all.push((line, entry.map_err(|e| format!("{e:#}"))));
        }
        all
    }

    #[test]
    fn keys_may_be_numbers_and_lines_stay_as_they_are() {
        let text = b"\xef\xbb\xbf{\"id\": 7, \"v\": [1]}\r\n\n{\"id\":\"x\",\"v\":\"y\"}";
        let whole = read(Jsonl::new(&text[..], "id", None, LONGEST));
        assert_eq!(
            whole[0],
            (1, Ok((b"7".to_vec(), b"{\"id\": 7, \"v\": [1]}".to_vec())))
        );
        assert_eq!(whole[1].0, 3);
        let field = read(Jsonl::new(&text[..], "id", Some("v"), LONGEST));
        assert_eq!(field[0].1, Ok((b"7".to_vec(), b"[1]".to_vec())));
        assert_eq!(field[1].1, Ok((b"x".to_vec(), b"y".to_vec())));
    }

    #[test]
    fn bad_lines_are_named_and_do_not_stop_the_next() {
        let text = b"{\"id\":\n[1]\n{}\n{\"id\":null}\n{\"id\":\"\"}\n\xff\xfe\n{\"id\":\"ok\"}\n";
        let all = read(Jsonl::new(&text[..], "id", None, LONGEST));
        assert_eq!(all.len(), 7);
        for (at, word) in ["JSON", "no object", "no field", "neither", "empty", "JSON"]
            .iter()
            .enumerate()
        {
            let error = all[at].1.as_ref().unwrap_err();
            assert!(
                all[at].0 == at as u64 + 1 && error.contains(word),
                "{word}: {error}"
            );
        }
        assert!(all[6].1.is_ok());
    }

    #[test]
    fn numbers_stay_as_they_are_written() {
        let text = b"{\"id\":100000000000000000001,\"v\":1.10}\n\
            {\"id\":100000000000000000002,\"v\":[1E400, 0.10]}\n";
        let field = read(Jsonl::new(&text[..], "id", Some("v"), LONGEST));
        let entry = |key: &str, value: &str| Ok((key.into(), value.into()));
        assert_eq!(field[0].1, entry("100000000000000000001", "1.10"));
        assert_eq!(field[1].1, entry("100000000000000000002", "[1E400, 0.10]"));
        let keys = read(Jsonl::new(&text[..23], "id", None, LONGEST));
        assert!(keys[0].1.is_err());
        let price = read(Jsonl::new(&text[..], "v", None, LONGEST));
        assert_eq!(price[0].1.as_ref().unwrap().0, b"1.10");
    }

    #[test]
    fn dumps_hold_any_bytes() {
        let text = b"{\"key\":\"a\",\"value_hex\":\"ff00\"}\n{\"key\":\"a\"}\n{\"key_hex\":\"zz\",\"value\":\"\"}";
        let all = read(Dump::new(&text[..], LONGEST));
        assert_eq!(all[0].1, Ok((b"a".to_vec(), b"\xff\0".to_vec())));
        assert!(all[1].1.as_ref().unwrap_err().contains("value_hex"));
        assert!(all[2].1.as_ref().unwrap_err().contains("hexadecimal"));
    }

    #[test]
    fn a_line_that_is_too_long_does_not_stop_the_next() {
        let long = "x".repeat(1 << 20);
        let text =
            format!("{{\"key\":\"{long}\",\"value\":\"\"}}\n{{\"key\":\"a\",\"value\":\"b\"}}\n");
        let all = read(Dump::new(text.as_bytes(), 1 << 20));
        assert!(all[0].1.as_ref().unwrap_err().contains("longer than 1 MiB"));
        assert_eq!(all[1], (2, Ok((b"a".to_vec(), b"b".to_vec()))));
        assert_eq!(all.len(), 2);
    }
}
