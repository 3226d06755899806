//! What the system says of itself: its boot, its files, its memory.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// The kernel's id of this boot; zero where it cannot be read, which then counts as another boot each time.
pub fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0)
}

/// File system and inode of a file: a copy has others. The number of the device is that of the file system
/// only where it tells no id of its own: overlays and Btrfs get another one with each mount.
pub fn file_identity(file: &File) -> (u64, u64) {
    let Ok(about) = file.metadata() else {
        return (0, 0);
    };
    let system = rustix::fs::fstatvfs(file).map_or(0, |system| system.f_fsid);
    let system = if system == 0 { about.dev() } else { system };
    (system, about.ino())
}

/// Whether the caches of the processor are written back when the power goes (eADR), by what the kernel
/// says of every region of persistent memory.
pub fn caches_are_durable() -> bool {
    let Ok(regions) = std::fs::read_dir("/sys/bus/nd/devices") else {
        return false;
    };
    let mut some = false;
    for region in regions.flatten() {
        let Ok(domain) = std::fs::read_to_string(region.path().join("persistence_domain")) else {
            continue;
        };
        if domain.trim() != "cpu_cache" {
            return false;
        }
        some = true;
    }
    some
}

/// The size of a character device that is persistent memory (device DAX), by its numbers.
pub fn device_size(file: &File) -> Option<u64> {
    let device = file.metadata().ok()?.rdev();
    let path = format!(
        "/sys/dev/char/{}:{}/size",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
