//! Options that cannot be are refused before anything is made on the disk.

use terrace::{Database, Error, Options};

#[test]
fn no_memory_at_all_is_told_how_much_would_do() {
    let dir = tempfile::tempdir().unwrap();
    for memory in [0, 1] {
        let path = dir.path().join(memory.to_string());
        let open = |memory| Database::open(&path, Options::new().memory(memory));
        let Some(Error::MemoryTooSmall { needed, .. }) = open(memory).err() else {
            panic!("{memory}");
        };
        open(needed).unwrap().close().unwrap();
    }
}

#[test]
fn options_that_cannot_be_leave_no_folder_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    for options in [
        Options::new().memory(1 << 47),
        Options::new().page_size(5000),
        Options::new().log_limit(1024),
        Options::new().log_segment(5000),
        Options::new().log_segment(4096),
    ] {
        let error = Database::open(&path, options).err().unwrap();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        assert!(!path.exists(), "{error}");
    }
}
