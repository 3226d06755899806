//! Indexes over numbers: their keys as people write them.

use anyhow::{Result, anyhow, bail};
use terrace::encode;

use super::key_range::KeyRange;

/// Records, or why there are no more.
type Entries = Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>>;

/// Whether the keys of an index with this source are numbers.
pub fn are_keys(source: &str) -> bool {
    source.starts_with("number:")
}

/// The key of such an index that this text means.
pub fn key(text: &[u8]) -> Result<Vec<u8>> {
    let number = std::str::from_utf8(text).ok().and_then(encode::number);
    number.ok_or_else(|| {
        let shown = String::from_utf8_lossy(text);
        anyhow!(
            "the keys of this index are numbers, and {shown:?} is none: give one as 7, -2.5 or 1e3"
        )
    })
}

/// The keys that a range of numbers means.
pub fn range(keys: &KeyRange) -> Result<KeyRange> {
    if keys.prefix.is_some() {
        bail!("the keys of this index are numbers, which have no prefix: give --from and --to");
    }
    let key = |text: &Option<Vec<u8>>| text.as_deref().map(key).transpose();
    Ok(KeyRange {
        prefix: None,
        from: key(&keys.from)?,
        to: key(&keys.to)?,
        reverse: keys.reverse,
    })
}

/// Entries whose keys are shown as numbers.
pub fn shown(entries: Entries) -> Entries {
    Box::new(entries.map(|entry| {
        let (key, value) = entry?;
        let text = encode::to_number(&key).map(String::into_bytes);
        Ok((text.unwrap_or(key), value))
    }))
}
