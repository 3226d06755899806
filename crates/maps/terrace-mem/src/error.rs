//! What can go wrong: the errors of the fallible methods.

use crate::key::MAX_KEY_LEN;
use crate::plan::Stage;
use core::fmt;

/// The encoded key is longer than [`MAX_KEY_LEN`]; the map is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTooLong {
    /// Length of the encoded key in bytes.
    pub len: usize,
}

impl fmt::Display for KeyTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the key takes {} bytes, {MAX_KEY_LEN} at most can be stored: ",
            self.len
        )?;
        f.write_str("store a digest of it as the key and the key itself in the value")
    }
}

impl core::error::Error for KeyTooLong {}

/// Options that do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// The stage does not take keys of this family.
    StageForKeys(Stage),
    /// The segment length is outside 16 to 8192, and one segment for all is not to be had with the other options.
    SegmentLen(usize),
    /// The ratio or the constant of the trigger is zero.
    ZeroTrigger,
    /// The concurrent map has nothing that this field of the options would change.
    NoEffect(&'static str),
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionsError::StageForKeys(stage) => {
                write!(
                    f,
                    "the stage {stage:?} does not take keys of this type: use Stage::Auto"
                )
            }
            OptionsError::SegmentLen(n) => {
                write!(f, "segments of {n} entries cannot be: choose 16 to 8192")
            }
            OptionsError::ZeroTrigger => f.write_str("a merge trigger must be at least 1"),
            OptionsError::NoEffect(field) => {
                write!(
                    f,
                    "the concurrent map does not have the option `{field}`: leave it at its default"
                )
            }
        }
    }
}

impl core::error::Error for OptionsError {}
