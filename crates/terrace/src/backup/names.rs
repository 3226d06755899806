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

/// The point that a file belongs to by its name.
pub fn point_of(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("point-")?;
    let number = rest.strip_suffix(".pages").or(rest.strip_suffix(".map"))?;
    number.parse().ok()
}
