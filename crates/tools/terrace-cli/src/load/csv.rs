//! Comma- and tab-separated values.

use anyhow::{Context, Result, anyhow, bail};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::io::{self, Chain, Read};
use std::time::SystemTime;

use super::source::{Numbered, Source, parse_expires};
use crate::engine::Entry;

/// A file whose first line names the fields.
pub struct Csv<R> {
    reader: Reader<Watched<R>>,
    names: Vec<String>,
    key: usize,
    /// The field of the value; none for the whole record.
    value: Option<usize>,
    /// The field that says until when a record is there, and what it said last.
    expires: Option<usize>,
    until: Option<SystemTime>,
    record: ByteRecord,
}

/// What the reader of records reads from. It takes an open quote at the end of the file for a closed
/// one, and a record for as long as it is; this knows better.
struct Watched<R> {
    /// With a line end behind it: whoever wants to read on after that is inside of quotes.
    inner: Chain<R, &'static [u8]>,
    longest: u64,
    /// How much may be read until the record being read has to end. What was read ahead with the one
    /// before does not count, so it may be longer by a buffer.
    left: u64,
    is_over: bool,
    /// What was read last, and where in the file it ends.
    part: Vec<u8>,
    end: u64,
}

impl<R> Watched<R> {
    /// The byte of the file before this place, if it was read last.
    fn byte_before(&self, place: u64) -> Option<u8> {
        let behind = usize::try_from(self.end.checked_sub(place)?).ok()?;
        let at = self.part.len().checked_sub(behind + 1)?;
        self.part.get(at).copied()
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let problem = format!(
                "it has more than {} MiB; is a quote in it not closed?",
                self.longest >> 20
            );
            return Err(io::Error::other(problem));
        }
        let read = self.inner.read(buffer)?;
        self.is_over = read == 0;
        self.left = self.left.saturating_sub(read as u64);
        if read > 0 {
            self.part.clear();
            self.part.extend_from_slice(&buffer[..read]);
            self.end += read as u64;
        }
        Ok(read)
    }
}

impl<R: Read> Csv<R> {
    /// Reads the names of the fields. A record of more than about `longest` bytes is an error.
    pub fn new(
        reader: R,
        (delimiter, quoting): (u8, bool),
        key: &str,
        value: Option<&str>,
        longest: u64,
    ) -> Result<Self> {
        let watched = Watched {
            inner: reader.chain(b"\n"),
            longest,
            left: longest,
            is_over: false,
            part: Vec::new(),
            end: 0,
        };
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            // Tab-separated files have no quotes: a quote in them is a character like others.
            .quoting(quoting)
            .from_reader(watched);
        let header = reader
            .byte_headers()
            .context("cannot read the first line")?
            .clone();
        let names: Vec<String> = header
            .iter()
            .map(|name| Ok(std::str::from_utf8(name)?.to_owned()))
            .collect::<Result<_>>()
            .context("the first line, which names the fields, is not UTF-8")?;
        if names.is_empty() {
            bail!("the input is empty: its first line must name the fields");
        }
        if reader.get_ref().is_over {
            return Err(open_quote(1));
        }
        let mut places = HashMap::new();
        for (place, name) in names.iter().enumerate() {
            // Of two fields with one name a JSON object would keep one, and which is meant by --key or
            // --value is not known.
            if let Some(before) = places.insert(name, place) {
                bail!(
                    "the first line names the field {name:?} twice, as fields {} and {}: give each a \
                     name of its own",
                    before + 1,
                    place + 1
                );
            }
        }
        let find = |wanted: &str| {
            names.iter().position(|name| name == wanted).ok_or_else(|| {
                anyhow!(
                    "there is no field {wanted:?}; the first line names {}",
                    names.join(", ")
                )
            })
        };
        let (key, value) = (find(key)?, value.map(find).transpose()?);
        Ok(Csv {
            reader,
            names,
            key,
            value,
            expires: None,
            until: None,
            record: ByteRecord::new(),
        })
    }

    /// The same, with a field that says until when a record is there.
    pub fn expiring(mut self, field: Option<&str>) -> Result<Self> {
        let find = |wanted: &str| {
            let mut names = self.names.iter();
            names.position(|name| name == wanted).ok_or_else(|| {
                anyhow!(
                    "there is no field {wanted:?}; the first line names {}",
                    self.names.join(", ")
                )
            })
        };
        self.expires = field.map(find).transpose()?;
        Ok(self)
    }

    /// The line in which the record begins. Where the reader says that it does, empty lines, and of the
    /// line end before it the second half, may come first; so it is counted from where the record ends.
    fn line(&self) -> u64 {
        let (end, watched) = (self.reader.position(), self.reader.get_ref());
        let mut lines = self
            .record
            .as_slice()
            .iter()
            .filter(|&&b| b == b'\n')
            .count() as u64;
        if !watched.is_over && watched.byte_before(end.byte()) == Some(b'\n') {
            lines += 1;
        }
        end.line().saturating_sub(lines)
    }

    fn entry(&self) -> Result<Entry> {
        let key = self.record.get(self.key).unwrap_or_default();
        if key.is_empty() {
            bail!(
                "the field {:?} is empty, so there is no key",
                self.names[self.key]
            );
        }
        if let Some(value) = self.value {
            return Ok((
                key.to_vec(),
                self.record.get(value).unwrap_or_default().to_vec(),
            ));
        }
        let mut object = Map::new();
        for (name, field) in self.names.iter().zip(&self.record) {
            let text = std::str::from_utf8(field)
                .map_err(|_| anyhow!("the field {name:?} is not UTF-8"))?;
            object.insert(name.clone(), text.into());
        }
        Ok((key.to_vec(), Value::Object(object).to_string().into_bytes()))
    }
}

/// A quote that nothing closes is no malformed line like others: where the next record begins cannot
/// be known, so leaving out this one would leave out all that follow.
fn open_quote(line: u64) -> anyhow::Error {
    anyhow!(
        "a quote of the record that begins in line {line} is not closed, so everything up to the end \
         of the file is part of it: close it, or double a quote that is to be a character"
    )
}

impl<R: Read> Source for Csv<R> {
    fn next(&mut self) -> Result<Option<Numbered<Entry>>> {
        let watched = self.reader.get_mut();
        watched.left = watched.longest;
        let read = self.reader.read_byte_record(&mut self.record);
        let bad = match read {
            Ok(false) => return Ok(None),
            Ok(true) => None,
            Err(error) => match error.kind() {
                ErrorKind::UnequalLengths {
                    expected_len, len, ..
                } => Some(anyhow!("{len} fields instead of {expected_len}")),
                _ => {
                    let line = self.record.position().map_or(0, csv::Position::line);
                    let context = || format!("in the record that begins in line {line}");
                    return Err(error).with_context(context);
                }
            },
        };
        let line = self.line();
        if self.reader.get_ref().is_over {
            return Err(open_quote(line));
        }
        self.until = None;
        let entry = bad.map_or_else(|| self.entry(), Err).and_then(|entry| {
            if let Some(at) = self.expires {
                let text = self.record.get(at).unwrap_or_default();
                self.until = parse_expires(&self.names[at], text)?;
            }
            Ok(entry)
        });
        Ok(Some((line, entry)))
    }

    fn expires(&self) -> Option<SystemTime> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], delimiter: u8, value: Option<&str>) -> Vec<(u64, Result<Entry, String>)> {
        let mut csv = Csv::new(text, (delimiter, delimiter == b','), "id", value, 1 << 20).unwrap();
        let mut all = Vec::new();
        while let Some((line, entry)) = csv.next().unwrap() {
            all.push((line, entry.map_err(|e| e.to_string())));
        }
        all
    }

    fn entry(key: &str, value: &str) -> Entry {
        (key.into(), value.into())
    }

    #[test]
    fn whole_records_become_objects_in_the_order_of_the_fields() {
        let all = read(b"name,id\n\"Love, \"\"lace\"\"\",1\nb,2\n", b',', None);
        assert_eq!(
            all[0],
            (2, Ok(entry("1", r#"{"name":"Love, \"lace\"","id":"1"}"#)))
        );
        assert_eq!(all[1], (3, Ok(entry("2", r#"{"name":"b","id":"2"}"#))));
    }

    #[test]
    fn bad_lines_are_named_and_do_not_stop_the_next() {
        let all = read(
            b"id,v\n1,a\n2\n,b\n3,\xff\n4,\"two\nlines\"\n5,c\n",
            b',',
            None,
        );
        let lines: Vec<u64> = all.iter().map(|x| x.0).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 8]);
        assert!(
            all[1]
                .1
                .as_ref()
                .unwrap_err()
                .contains("1 fields instead of 2")
        );
        assert!(all[2].1.as_ref().unwrap_err().contains("empty"));
        assert!(all[3].1.as_ref().unwrap_err().contains("UTF-8"));
        assert!(all[5].1.is_ok());
    }

    #[test]
    fn lines_are_counted_with_any_line_ends() {
        let lines = |text: &str| -> Vec<u64> {
            let all = read(text.as_bytes(), b',', None);
            all.iter().map(|x| x.0).collect()
        };
        let text = "id,v\n1,a\n2\n\n\n3,\"b\nc\"\n4\n5,d";
        assert_eq!(lines(text), [2, 3, 6, 8, 9]);
        let text = text.replace('\n', "\r\n");
        assert_eq!(lines(&text), [2, 3, 6, 8, 9]);
        assert_eq!(lines("id,v\r\n1"), [2]);
        // More than is read at once.
        let many = format!("id,v\r\n{}", "1,a\r\n".repeat(20_000));
        assert!(lines(&many).into_iter().eq(2..20_002));
        let open = format!("{many}\r\n1,\"\r\n2,b\r\n");
        assert!(fails(open.as_bytes(), 1 << 20).1.contains("line 20003 "));
    }

    #[test]
    fn single_fields_may_be_any_bytes() {
        let all = read(b"id\tv\n\"1\t\xff\n", b'\t', Some("v"));
        assert_eq!(all, [(2, Ok((b"\"1".to_vec(), b"\xff".to_vec())))]);
    }

    #[test]
    fn a_wrong_field_is_answered_with_the_right_ones() {
        let error = |text: &[u8]| {
            Csv::new(text, (b',', true), "no", None, 1 << 20)
                .err()
                .unwrap()
                .to_string()
        };
        assert!(error(b"a,b\n1,2\n").contains("a, b"));
        assert!(error(b"").contains("empty"));
        assert!(error(b"\xff,b\n").contains("UTF-8"));
    }

    fn fails(text: &[u8], longest: u64) -> (usize, String) {
        let mut csv = Csv::new(text, (b',', true), "id", None, longest).unwrap();
        let mut records = 0;
        loop {
            match csv.next() {
                Ok(Some(_)) => records += 1,
                Ok(None) => panic!("{records} records and no error"),
                Err(error) => return (records, format!("{error:#}")),
            }
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_takes_nothing_along_in_silence() {
        for (text, records, line) in [
            ("id,v\n1,\"abc\n2,def\n3,ghi\n", 0, 2),
            ("id,v\n1,a\n\"2,b\n3,c", 1, 3),
            ("id,v\n1,\"a\nb\"\n2,\"", 1, 4),
            ("id,v\n1,\"a\"\"\n", 0, 2),
        ] {
            let (before, error) = fails(text.as_bytes(), 1 << 20);
            assert_eq!(before, records, "{text}");
            assert!(
                error.contains(&format!("line {line} is not closed")),
                "{error}"
            );
        }
        let header = Csv::new(&b"id,\"v\n1,2\n"[..], (b',', true), "id", None, 1 << 20);
        assert!(header.err().unwrap().to_string().contains("line 1"));
        for text in [
            "1,a\"b",
            "1,\"a\"",
            "1,\"a\"\r\n",
            "1,\"a\nb\"\n\n",
            "1,\"\"\"\"",
        ] {
            assert_eq!(
                read(format!("id,v\n{text}").as_bytes(), b',', None).len(),
                1
            );
        }
    }

    #[test]
    fn a_record_has_a_longest_length() {
        let long = "x".repeat(100_000);
        let (records, error) = fails(format!("id,v\n1,a\n2,\"{long}").as_bytes(), 50_000);
        assert_eq!(records, 1);
        assert!(
            error.contains("line 3") && error.contains("more than"),
            "{error}"
        );
        // Many short ones together may be longer.
        let many = format!("id,v\n{}", "1,a\n".repeat(100_000));
        let mut csv = Csv::new(many.as_bytes(), (b',', true), "id", None, 50_000).unwrap();
        let mut records = 0;
        while csv.next().unwrap().is_some() {
            records += 1;
        }
        assert_eq!(records, 100_000);
    }
}
