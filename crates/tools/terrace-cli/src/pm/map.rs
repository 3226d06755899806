//! A map of any of the types that the command can show.

use anyhow::{Context, Result, bail};
use std::io::Read;
use std::ops::Bound;
use std::path::Path;
use terrace_pm::{Error, Options, PmMap, Report, Stats};

use crate::args::PmMakeArgs;
use crate::engine::{Entries, KeyRange};

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

/// How much of a file is looked at to know what it is.
const LOOKED_AT: u64 = 4096;

/// An error for a file of text: no map, not even a damaged one, begins so.
fn check_is_no_text(path: &Path) -> Result<()> {
    let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    let mut begins = Vec::new();
    if is_file {
        let file = std::fs::File::open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        let read = file.take(LOOKED_AT).read_to_end(&mut begins);
        read.with_context(|| format!("cannot read {}", path.display()))?;
    }
    let text = begins
        .utf8_chunks()
        .next()
        .map_or("", |chunk| chunk.valid());
    let is_text = text.len() + 4 > begins.len() && !text.contains('\0');
    if !begins.is_empty() && is_text {
        bail!(
            "{} is a file of text: a database is a folder, and a map in persistent memory a file that terrace \
             has made; `terrace load` reads text into one",
            path.display()
        );
    }
    Ok(())
}

/// Adds how the command gets out of it.
fn with_way_out(error: Error) -> anyhow::Error {
    let is_lost = matches!(error, Error::PowerLost { .. });
    let error = anyhow::Error::from(error);
    if is_lost {
        let way = "`terrace put` and `terrace load` with --discard-after-power-loss begin with an empty map";
        return error.context(way);
    }
    error
}

/// Whether a pair was refused for what it is, and others may be taken.
pub fn is_malformed(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<Error>() {
        Some(error) => matches!(error, Error::KeyTooLong { .. } | Error::ValueTooLong { .. }),
        // It is no number, or no text.
        None => true,
    }
}

fn words(text: &[u8]) -> Result<&str> {
    std::str::from_utf8(text).context("this map has text")
}

/// Bounds of keys as they are ordered: the first key that counts, and the first one that does not.
type Bounds<T> = (Bound<T>, Bound<T>);

fn between<T: Ord>(from: Option<T>, to: Option<T>) -> Result<Bounds<T>> {
    if let (Some(from), Some(to)) = (&from, &to)
        && from > to
    {
        bail!("the range ends before it begins: swap --from and --to");
    }
    Ok((
        from.map_or(Bound::Unbounded, Bound::Included),
        to.map_or(Bound::Unbounded, Bound::Excluded),
    ))
}

/// The least byte string above all that begin so.
fn behind_bytes(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < 0xff)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

/// The least text above all that begin so.
fn behind_text(prefix: &str) -> Option<String> {
    let mut behind = prefix.to_owned();
    while let Some(last) = behind.pop() {
        // Surrogates are no characters: the next one lies behind them.
        let next = (last as u32 + 1..=char::MAX as u32).find_map(char::from_u32);
        if let Some(next) = next {
            behind.push(next);
            return Some(behind);
        }
    }
    None
}

fn bytes_of(keys: &KeyRange) -> Result<Bounds<Vec<u8>>> {
    match &keys.prefix {
        Some(prefix) => between(Some(prefix.clone()), behind_bytes(prefix)),
        None => between(keys.from.clone(), keys.to.clone()),
    }
}

fn text_of(keys: &KeyRange) -> Result<Bounds<String>> {
    let text = |key: &Option<Vec<u8>>| -> Result<Option<String>> {
        let words = key.as_deref().map(words).transpose()?;
        Ok(words.map(str::to_owned))
    };
    match text(&keys.prefix)? {
        Some(prefix) => {
            let behind = behind_text(&prefix);
            between(Some(prefix), behind)
        }
        None => between(text(&keys.from)?, text(&keys.to)?),
    }
}

fn numbers_of(keys: &KeyRange) -> Result<Bounds<u64>> {
    if keys.prefix.is_some() {
        bail!("this map has numbers, which have no prefix: give --from and --to");
    }
    let numbers = |key: &Option<Vec<u8>>| key.as_deref().map(number).transpose();
    between(numbers(&keys.from)?, numbers(&keys.to)?)
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
        Map::open_as(path, Options::new().memory(memory).create(false))
    }

    fn open_as(path: &Path, options: Options) -> Result<Map> {
        check_is_no_text(path)?;
        let (key, value) = terrace_pm::kinds(path)?;
        let opened = match (&*key, &*value) {
            ("byte strings", "byte strings") => PmMap::open(path, options).map(Map::Bytes),
            ("text", "text") => PmMap::open(path, options).map(Map::Text),
            ("unsigned numbers of 64 bits", "unsigned numbers of 64 bits") => {
                PmMap::open(path, options).map(Map::Numbers)
            }
            _ => bail!(
                "{} maps {key} to {value}; the command shows maps of byte strings, of text, and of \
                 unsigned numbers of 64 bits",
                path.display()
            ),
        };
        opened.map_err(with_way_out)
    }

    /// Opens a map, or makes one of byte strings.
    pub fn open_or_make(path: &Path, memory: u64, make: &PmMakeArgs) -> Result<Map> {
        let mut options = Options::new()
            .memory(memory)
            .discard_after_power_loss(make.discard_after_power_loss);
        if std::fs::metadata(path).is_ok_and(|about| !about.is_file() || about.len() > 0) {
            return Map::open_as(path, options.create(false));
        }
        if let Some(capacity) = &make.capacity {
            options = options.capacity(capacity.0);
        }
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

    /// The pairs of these keys, in order.
    pub fn range(&self, keys: &KeyRange) -> Result<Entries> {
        let shown = |n: u64| n.to_string().into_bytes();
        Ok(match self {
            Map::Bytes(map) => {
                let range = map.range::<Vec<u8>>(bytes_of(keys)?)?;
                turned(range.map(|pair| Ok(pair?)), keys.reverse)
            }
            Map::Text(map) => {
                let range = map.range::<String>(text_of(keys)?)?;
                let pairs = range.map(|pair| {
                    let (key, value) = pair?;
                    Ok((key.into_bytes(), value.into_bytes()))
                });
                turned(pairs, keys.reverse)
            }
            Map::Numbers(map) => {
                let range = map.range::<u64>(numbers_of(keys)?)?;
                let pairs = range.map(move |pair| {
                    let (key, value) = pair?;
                    Ok((shown(key), shown(value)))
                });
                turned(pairs, keys.reverse)
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
