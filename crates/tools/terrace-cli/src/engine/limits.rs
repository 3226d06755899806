//! What keys and values may be, and what is refused because of them.

use terrace::MAX_VALUE_BYTES;

/// What is wrong with the length of a key, of which `longest` bytes are the most, or of a value, if
/// anything.
pub fn too_long(key: &[u8], value: &[u8], longest_key: usize) -> Option<String> {
    let problem = |what: &str, bytes: usize, most: usize| {
        (bytes > most).then(|| format!("the {what} has {bytes} bytes; {most} are the most"))
    };
    problem("key", key.len(), longest_key)
        .or_else(|| problem("value", value.len(), MAX_VALUE_BYTES))
}

/// Whether a write failed because of what was to be written, not because of disk or database.
pub fn is_refused(error: &anyhow::Error) -> bool {
    use terrace::Error::{Duplicate, Invalid, KeyTooLong, ValueTooLong};
    let error = error.downcast_ref::<terrace::Error>();
    error.is_some_and(|e| {
        matches!(
            e,
            Duplicate { .. } | Invalid { .. } | KeyTooLong { .. } | ValueTooLong { .. }
        )
    })
}
