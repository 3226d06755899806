//! What the files of a set are called.

/// Bytes of the header of a file of pages: the unit of direct I/O.
pub const HEADER_BYTES: u64 = 4096;

/// Name of the file with the pages of a point.
pub fn pages_name(point: u64) -> String {
    format!("point-{point}.pages")
}

/// Name of the file that says where a point's pages are.
pub fn map_name(point: u64) -> String {
    format!("point-{point}.map")
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

/// The point that a file belongs to by its name.
pub fn point_of(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("point-")?;
    let number = rest.strip_suffix(".pages").or(rest.strip_suffix(".map"))?;
    number.parse().ok()
}
