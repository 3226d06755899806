//! What was learnt of the use of memory is not forgotten when a database is closed.

use terrace::{Database, Options, Tiers, TreeOptions};
use terrace_sim::SimDisk;

const RECORDS: u64 = 20_000;

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

#[test]
fn memory_is_divided_as_before_closing() {
    let disk = SimDisk::new(1);
    let options = || Options::new().memory(3 << 20).page_size(4096);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    let two = db.create_tree("two", TreeOptions::new()).unwrap();
    let one = db
        .create_tree("one", TreeOptions::new().tiers(Tiers::One))
        .unwrap();
    for i in 0..RECORDS {
        two.put(key(i), [1; 120]).unwrap();
        one.put(key(i), [1; 120]).unwrap();
    }
    let whole = db.stats().pages.hot_cap;
    // A structure with one tier wants pages, and no structure wants hot records.
    let mut n = 0;
    while db.stats().pages.hot_cap > whole / 2 {
        assert!(n < 3_000_000, "hot records keep the memory, used or not");
        for _ in 0..100 {
            one.get(key(n * 7919 % (RECORDS / 2))).unwrap();
            n += 1;
        }
    }
    db.close().unwrap();

    let db = Database::open_on(disk.shared(), options()).unwrap();
    let now = db.stats().pages.hot_cap;
    assert!(
        now < whole * 3 / 4,
        "{now} of {whole} for hot records again"
    );
}
