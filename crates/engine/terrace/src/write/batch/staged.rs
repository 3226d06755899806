//! A change in a batch that depends on what is there, and is not worked out yet: a merge, or another lease.

use terrace_base::Result;
use terrace_base::lease::Lease;

use crate::catalog::opened::Open;
use crate::merge::{Merge, Merged};
use crate::planted::{Fault, planted};
use crate::read::leased::{check_value, parts, stored};

/// What is to become of a value.
pub(crate) enum What {
    /// What this makes of it.
    Merge(Merge),
    /// It gets this lease, if it is there.
    Expire(Lease),
}

impl What {
    /// Lengths of the bytes that it brings along: of the longest value that it may store by itself, and of all.
    pub(super) fn lengths(&self) -> (usize, usize) {
        match self {
            What::Merge(merge) => merge.lengths(),
            What::Expire(_) => (0, 0),
        }
    }

    /// What it makes of a value as it is stored, which has not expired by `now`.
    pub(crate) fn apply(&self, open: &Open, old: Option<&[u8]>, now: u64) -> Result<Merged> {
        let old = old.map(|old| parts(open, old)).transpose()?;
        match self {
            What::Merge(merge) => {
                let kept = match old {
                    Some((lease, _)) if !planted(Fault::LeaseLostByMerge) => lease,
                    _ => Lease::ENDLESS,
                };
                match merge.apply(old.map(|(_, value)| value))? {
                    Merged::Set(Some(new)) => {
                        check_value(open, &new)?;
                        Ok(Merged::Set(Some(match open.spec.expiring {
                            true => stored(open, kept, &new).into_owned(),
                            false => new,
                        })))
                    }
                    other => Ok(other),
                }
            }
            What::Expire(lease) => match old {
                Some((kept, _)) if kept == *lease => Ok(Merged::Keep),
                Some(_) if lease.is_over(now) => Ok(Merged::Set(None)),
                Some((_, value)) => {
                    let new = stored(open, *lease, value);
                    Ok(Merged::Set(Some(new.into_owned())))
                }
                None => Ok(Merged::Keep),
            },
        }
    }
}

/// A change in a batch that is not worked out yet.
pub(super) struct Staged {
    pub(super) structure: u32,
    pub(super) key: Vec<u8>,
    pub(super) what: What,
    /// Changes of the batch that come before it.
    pub(super) after: usize,
    /// The merge of the same key before it, if who added it said so.
    pub(super) before: Option<usize>,
}

impl Staged {
    /// Length of its key.
    pub(super) fn key_len(&self) -> u32 {
        self.key.len() as u32
    }

    /// The number of its structure in the batch, and its key.
    pub(super) fn place(&self) -> (u32, &[u8]) {
        (self.structure, &self.key)
    }
}
