//! The example of order entry: its twelve conditions hold after its process was killed, and they find what is wrong.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use terrace_sim::again;

#[path = "../../../../crates/engine/terrace/examples/order_entry/main.rs"]
#[allow(dead_code)]
mod example;

use example::{Shop, Size, Stop, opened};

/// The folder of the process that is to be killed.
const CHILD: &str = "TERRACE_ORDER_ENTRY_DIRECTORY";

/// How many times three kills.
const FACTOR: &str = "TERRACE_TEST_FACTOR";

const SIZE: Size = Size {
    warehouses: 2,
    districts: 2,
    customers: 20,
    items: 100,
};

fn open(directory: &std::path::Path) -> Shop {
    opened(directory.to_str().unwrap(), 16 << 20, SIZE).unwrap()
}

#[test]
fn the_shop_keeps_its_conditions_after_kills() {
    if let Some(directory) = std::env::var_os(CHILD).map(std::path::PathBuf::from) {
        let shop = open(&directory);
        let mut last = shop.entered().unwrap();
        loop {
            shop.work(3, Duration::from_millis(100)).unwrap();
            let now = shop.entered().unwrap();
            if now > last {
                println!("entered");
            }
            last = now;
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let mut before = open(directory.path()).entered().unwrap();
    let factor: u64 = std::env::var(FACTOR).map_or(1, |n| n.parse().unwrap());
    for kill in 0..3 * factor {
        let mut child = again(module_path!(), "the_shop_keeps_its_conditions_after_kills")
            .unwrap()
            .args(["--test-threads", "1"])
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // However slow the machine is: not before it says that it has worked.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("entered") {}
        child.kill().unwrap();
        child.wait().unwrap();
        let shop = open(directory.path());
        shop.check().unwrap();
        let now = shop.entered().unwrap();
        assert!(
            now > before,
            "kill {kill}: {before} orders before, {now} after"
        );
        before = now;
    }
}

#[test]
fn the_conditions_of_the_shop_find_a_lost_row() {
    let directory = tempfile::tempdir().unwrap();
    let shop = open(directory.path());
    for table in ["history", "new_orders", "lines", "orders"] {
        shop.check().unwrap();
        let table_of = shop.db.map(table).unwrap().as_table().unwrap();
        let (key, row) = table_of.first().unwrap().unwrap();
        table_of.delete(&key).unwrap();
        let found = shop.check();
        assert!(
            matches!(&found, Err(Stop::Broken(what)) if what.contains("condition")),
            "{table}: {found:?}"
        );
        table_of.put(&key, &row).unwrap();
    }
}
