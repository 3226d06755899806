//! Comma- and tab-separated values.

use anyhow::{Context, Result, anyhow, bail};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use serde_json::{Map, Value};
use std::io::Read;

use super::{Numbered, Source};
use crate::engine::Entry;

/// A file whose first line names the fields.
pub struct Csv<R> {
    reader: Reader<R>,
    names: Vec<String>,
    key: usize,
    /// The field of the value; none for the whole record.
    value: Option<usize>,
    record: ByteRecord,
}

impl<R: Read> Csv<R> {
    /// Reads the names of the fields.
    pub fn new(reader: R, delimiter: u8, key: &str, value: Option<&str>) -> Result<Self> {
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            // Tab-separated files have no quotes: a quote in them is a character like others.
            .quoting(delimiter == b',')
            .from_reader(reader);
        let header = reader
            .byte_headers()
            .context("cannot read the first line")?;
        let names: Vec<String> = header
            .iter()
            .map(|name| Ok(std::str::from_utf8(name)?.to_owned()))
            .collect::<Result<_>>()
            .context("the first line, which names the fields, is not UTF-8")?;
        if names.is_empty() {
            bail!("the input is empty: its first line must name the fields");
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
            record: ByteRecord::new(),
        })
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

impl<R: Read> Source for Csv<R> {
    fn next(&mut self) -> Result<Option<Numbered<Entry>>> {
        match self.reader.read_byte_record(&mut self.record) {
            Ok(false) => Ok(None),
            Ok(true) => {
                let line = self.record.position().map_or(0, csv::Position::line);
                Ok(Some((line, self.entry())))
            }
            Err(error) => match error.kind() {
                ErrorKind::UnequalLengths {
                    pos,
                    expected_len,
                    len,
                } => {
                    let line = pos.as_ref().map_or(0, csv::Position::line);
                    Ok(Some((
                        line,
                        Err(anyhow!("{len} fields instead of {expected_len}")),
                    )))
                }
                _ => Err(error.into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], delimiter: u8, value: Option<&str>) -> Vec<(u64, Result<Entry, String>)> {
        let mut csv = Csv::new(text, delimiter, "id", value).unwrap();
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
    fn single_fields_may_be_any_bytes() {
        let all = read(b"id\tv\n\"1\t\xff\n", b'\t', Some("v"));
        assert_eq!(all, [(2, Ok((b"\"1".to_vec(), b"\xff".to_vec())))]);
    }

    #[test]
    fn a_wrong_field_is_answered_with_the_right_ones() {
        let error = |text: &[u8]| Csv::new(text, b',', "no", None).err().unwrap().to_string();
        assert!(error(b"a,b\n1,2\n").contains("a, b"));
        assert!(error(b"").contains("empty"));
        assert!(error(b"\xff,b\n").contains("UTF-8"));
    }
}
