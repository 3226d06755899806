//! What the files of a set are called.

/// Bytes of the header of a file of pages: the unit of direct I/O.
pub const HEADER_BYTES: u64 = 4096;

/// Numbers from here on are of files that were written anew, those below of points: five bytes hold both.
pub const ANEW: u64 = 1 << 39;

/// What files with this number begin with.
fn stem(number: u64) -> String {
    match number.checked_sub(ANEW) {
        None => format!("point-{number}"),
        Some(number) => format!("anew-{number}"),
    }
}

/// Name of the file with the pages of a point, or with those that were written anew.
pub fn pages_name(number: u64) -> String {
    stem(number) + ".pages"
}

/// Name of the file that says where a point's pages are.
pub fn map_name(number: u64) -> String {
    stem(number) + ".map"
}

/// Name of a file with records of the log.
pub fn log_name(file: u64) -> String {
    format!("log-{file}.records")
}

/// The number of a file of records by its name.
pub fn log_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("log-")?.strip_suffix(".records")?;
    number.parse().ok()
}

/// The number of a file of pages, or of a map, by its name.
pub fn point_of(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(".pages").or(name.strip_suffix(".map"))?;
    let (base, number) = match stem.strip_prefix("point-") {
        Some(number) => (0, number),
        None => (ANEW, stem.strip_prefix("anew-")?),
    };
    number.parse::<u64>().ok()?.checked_add(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_belong_together() {
        for number in [1, 77, ANEW - 1, ANEW, ANEW + 5] {
            for name in [pages_name(number), map_name(number)] {
                assert_eq!(point_of(&name), Some(number), "{name}");
            }
        }
        assert_eq!(map_name(ANEW + 5), "anew-5.map");
        assert_eq!(point_of("anew-18446744073709551615.map"), None);
        assert_eq!(point_of("letter.txt"), None);
    }
}
