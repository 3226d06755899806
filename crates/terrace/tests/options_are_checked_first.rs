//! Options that cannot be are refused before anything is made on the disk.

use terrace::{Database, Error, Options};

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
