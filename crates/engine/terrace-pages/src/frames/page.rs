//! The first 16 bytes of every page, and its checksum.
//!
//! ```text
//! 0  8  checksum: XXH3 of the rest of the page, seeded with the page number
//! 8  5  page number
//! 13 1  class: 0 cold, 1 hot, 2 inner
//! 14 2  low 16 bits of the epoch in which the content was last changed
//! ```
//!
//! In memory the checksum means nothing; it is computed on the private copy that is written.

use terrace_base::checksum;
use terrace_base::{Error, PageId, Result};

use crate::frames::frame::Class;
use crate::parts::data_file::DATA_FILE;

/// Bytes at the start of every page that belong to the store.
pub const PAGE_HEADER_BYTES: usize = 16;

/// Where the class is.
pub const CLASS_AT: usize = 13;

/// Writes the header of a new page.
pub fn begin(page: &mut [u8], pid: PageId, class: Class) {
    page[8..13].copy_from_slice(&pid.0.to_le_bytes()[..5]);
    page[CLASS_AT] = class as u8;
}

/// The class in a page's header.
pub fn class(page: &[u8]) -> Class {
    // No page that was written lies in memory alone.
    Class::from_bits(page[CLASS_AT] & 3)
}

/// Completes a private copy that is about to be written; returns the 16 bits that the page's place
/// keeps.
pub fn seal(page: &mut [u8], pid: PageId, epoch: u32) -> u16 {
    page[14..16].copy_from_slice(&(epoch as u16).to_le_bytes());
    let sum = checksum::seeded(pid.0, &page[8..]);
    page[..8].copy_from_slice(&sum.to_le_bytes());
    sum as u16
}

/// Checks that these are the bytes of a page as it was written, whichever version of it; returns the 16 bits
/// of its checksum that a place keeps.
///
/// # Errors
/// `Corrupt`.
pub fn check_page(page: &[u8], pid: PageId) -> Result<u16> {
    verify(page, pid, 0)
}

/// The same, of bytes that were read from there.
pub(crate) fn verify(page: &[u8], pid: PageId, offset: u64) -> Result<u16> {
    let sum = page.get(..8).and_then(|sum| sum.try_into().ok());
    let check = u64::from_le_bytes(sum.unwrap_or_default()) as u16;
    if page.len() < PAGE_HEADER_BYTES {
        return Err(Error::corrupt(
            DATA_FILE,
            offset,
            format!("{pid} is cut off"),
        ));
    }
    open(page, pid, check, offset)?;
    Ok(check)
}

/// Checks a page that was read: that its checksum is right, that it is this page, and that it is
/// the version that the place names.
pub fn open(page: &[u8], pid: PageId, check: u16, offset: u64) -> Result<()> {
    let mut number = [0; 8];
    number[..5].copy_from_slice(&page[8..13]);
    let number = u64::from_le_bytes(number);
    let stored = u64::from_le_bytes(page[..8].try_into().unwrap_or_default());
    let damaged = |what: String| Err(Error::corrupt(DATA_FILE, offset, what));
    if stored != checksum::seeded(pid.0, &page[8..]) {
        return damaged(format!(
            "{pid} should be here, but its checksum does not fit"
        ));
    }
    if number != pid.0 {
        return damaged(format!("{pid} should be here, but it is page {number}"));
    }
    if stored as u16 != check {
        return damaged(format!(
            "an old version of {pid} is here: a write was lost or misdirected"
        ));
    }
    Ok(())
}

/// What it means that a page could not be read from there.
pub fn read_error(pid: PageId, offset: u64, e: std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            let what = format!("{pid} should be here, but the file ends");
            Error::corrupt(DATA_FILE, offset, what)
        }
        _ => Error::io("reading", DATA_FILE, e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_opens_only_as_itself_whole_and_current() {
        let mut page = vec![7u8; 4096];
        begin(&mut page, PageId(12), Class::Hot);
        let check = seal(&mut page, PageId(12), 70000);
        open(&page, PageId(12), check, 0).unwrap();
        assert_eq!(class(&page), Class::Hot);
        assert!(open(&page, PageId(13), check, 0).is_err());
        assert!(open(&page, PageId(12), check ^ 1, 0).is_err());
        for at in [0, 7, 8, 13, 15, 16, 4095] {
            let mut bad = page.clone();
            bad[at] ^= 0x10;
            assert!(open(&bad, PageId(12), check, 0).is_err(), "byte {at}");
        }
    }
}
