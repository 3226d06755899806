//! A map of any of the types that the command can show.

use anyhow::{Context, Result, bail};
use std::ops::Bound;
use std::path::Path;
use terrace_pm::{Options, PmMap, Report, Stats};

use crate::engine::Entries;

/// A map whose keys and values are shown as text.
pub enum Map {
    /// Byte strings, as they are.
    Bytes(PmMap<[u8], [u8]>),
    /// Text.
    Text(PmMap<str, str>),
    /// Numbers, in decimal.
    Numbers(PmMap<u64, u64>),
}

fn number(text: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(text).context("this map has numbers")?;
    text.trim()
        .parse()
        .with_context(|| format!("this map has numbers, and {text:?} is none"))
}

fn words(text: &[u8]) -> Result<&str> {
    std::str::from_utf8(text).context("this map has text")
}

fn in_numbers(bound: Bound<Vec<u8>>) -> Result<Bound<u64>> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(number(&key)?),
        Bound::Excluded(key) => Bound::Excluded(number(&key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

fn in_text(bound: Bound<Vec<u8>>) -> Result<Bound<String>> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(words(&key)?.to_owned()),
        Bound::Excluded(key) => Bound::Excluded(words(&key)?.to_owned()),
        Bound::Unbounded => Bound::Unbounded,
    })
}

fn turned<I>(range: I, reverse: bool) -> Entries
where
    I: DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>)>> + 'static,
{
    if reverse {
        Box::new(range.rev())
    } else {
        Box::new(range)
    }
}

impl Map {
    /// Opens a map that is there.
    pub fn open(path: &Path, memory: u64) -> Result<Map> {
        let options = Options::new().memory(memory).create(false);
        let (key, value) = terrace_pm::kinds(path)?;
        Ok(match (&*key, &*value) {
            ("byte strings", "byte strings") => Map::Bytes(PmMap::open(path, options)?),
            ("text", "text") => Map::Text(PmMap::open(path, options)?),
            ("unsigned numbers of 64 bits", "unsigned numbers of 64 bits") => {
                Map::Numbers(PmMap::open(path, options)?)
            }
            _ => bail!(
                "{} maps {key} to {value}; the command shows maps of byte strings, of text, and of \
                 unsigned numbers of 64 bits",
                path.display()
            ),
        })
    }

    /// Opens a map, or makes one of byte strings.
    pub fn open_or_make(path: &Path, memory: u64) -> Result<Map> {
        if std::fs::metadata(path).is_ok_and(|about| !about.is_file() || about.len() > 0) {
            return Map::open(path, memory);
        }
        let options = Options::new().memory(memory);
        Ok(Map::Bytes(PmMap::open(path, options)?))
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(match self {
            Map::Bytes(map) => map.get(key)?,
            Map::Text(map) => map.get(words(key)?)?.map(String::into_bytes),
            Map::Numbers(map) => map.get(number(key)?)?.map(|n| n.to_string().into_bytes()),
        })
    }

    /// Puts a pair.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Map::Bytes(map) => map.put(key, value)?,
            Map::Text(map) => map.put(words(key)?, words(value)?)?,
            Map::Numbers(map) => map.put(number(key)?, number(value)?)?,
        }
        Ok(())
    }

    /// Takes a key out; whether it was there.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(match self {
            Map::Bytes(map) => map.remove(key)?,
            Map::Text(map) => map.remove(words(key)?)?,
            Map::Numbers(map) => map.remove(number(key)?)?,
        })
    }

    /// The pairs between these bounds.
    pub fn range(
        &self,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        reverse: bool,
    ) -> Result<Entries> {
        let shown = |n: u64| n.to_string().into_bytes();
        Ok(match self {
            Map::Bytes(map) => {
                let range = map.range::<Vec<u8>>(bounds)?;
                turned(range.map(|pair| Ok(pair?)), reverse)
            }
            Map::Text(map) => {
                let range = map.range::<String>((in_text(bounds.0)?, in_text(bounds.1)?))?;
                let pairs = range.map(|pair| {
                    let (key, value) = pair?;
                    Ok((key.into_bytes(), value.into_bytes()))
                });
                turned(pairs, reverse)
            }
            Map::Numbers(map) => {
                let range = map.range::<u64>((in_numbers(bounds.0)?, in_numbers(bounds.1)?))?;
                let pairs = range.map(move |pair| {
                    let (key, value) = pair?;
                    Ok((shown(key), shown(value)))
                });
                turned(pairs, reverse)
            }
        })
    }

    /// What it has.
    pub fn stats(&self) -> Stats {
        match self {
            Map::Bytes(map) => map.stats(),
            Map::Text(map) => map.stats(),
            Map::Numbers(map) => map.stats(),
        }
    }

    /// Checks everything.
    pub fn verify(&self) -> Result<Report> {
        Ok(match self {
            Map::Bytes(map) => map.verify()?,
            Map::Text(map) => map.verify()?,
            Map::Numbers(map) => map.verify()?,
        })
    }

    /// Closes it.
    pub fn close(self) -> Result<()> {
        match self {
            Map::Bytes(map) => map.close()?,
            Map::Text(map) => map.close()?,
            Map::Numbers(map) => map.close()?,
        }
        Ok(())
    }
}
