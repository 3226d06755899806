//! The disk that tells of calls does what the one below does.

use terrace_base::disk::Disk;
use terrace_sim::{HookedDisk, SimDisk};

#[test]
fn writes_that_take_no_call_are_those_of_the_disk_below() {
    let (disk, same) = (SimDisk::new(1), SimDisk::new(1));
    let hooked = HookedDisk::new(disk.shared(), |_| ());
    let (file, below) = (
        hooked.create_buffered("f").unwrap(),
        same.create_buffered("f").unwrap(),
    );
    let wrote = |offset: u64| {
        let wrote = file.write_now(b"x", offset);
        assert_eq!(wrote, below.write_now(b"x", offset), "{offset}");
        wrote
    };
    let wrote = (0..100).filter(|&offset| wrote(offset)).count();
    assert!((10..90).contains(&wrote), "{wrote}");
    assert_eq!(disk.contents("f"), same.contents("f"));
}
