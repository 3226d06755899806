//! The socket's name, and paths to it.

/// Name of the socket in the folder of the database.
pub const SOCKET: &str = "control";

/// A path to the socket that fits in an address, which holds about a hundred bytes; what it leads through
/// must be kept until the path was used.
pub(super) fn reach(
    folder: &std::path::Path,
) -> std::io::Result<(std::path::PathBuf, Option<std::fs::File>)> {
    const FITS: usize = 100;
    let path = folder.join(SOCKET);
    if path.as_os_str().len() <= FITS {
        return Ok((path, None));
    }
    let folder = std::fs::File::open(folder)?;
    Ok((path_through(&folder), Some(folder)))
}

/// A path to the socket that leads through a handle of its folder, so that it is of that folder under whatever
/// name; `None` where the system has no such paths.
pub(super) fn through(folder: &std::fs::File) -> Option<std::path::PathBuf> {
    let path = path_through(folder);
    path.parent()?.is_dir().then_some(path)
}

fn path_through(folder: &std::fs::File) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()).into()
}
