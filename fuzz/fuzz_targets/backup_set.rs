//! A file of a backup set in place of the good one, checksums sealed anew: it is listed, verified, shortened and
//! asked for states.
#![no_main]

use std::sync::OnceLock;

use terrace::{
    BackupOptions, Database, Options, Rate, RestoreOptions, RestoreTo, Tiers, TreeOptions,
};
use terrace_base::checksum::{mix, seeded};
use terrace_sim::SimDisk;

const FILES: [&str; 4] = ["manifest.json", "point-1.map", "point-1.pages", "log-1.records"];

/// A small set: two points, and a log between them.
fn good() -> &'static SimDisk {
    static GOOD: OnceLock<SimDisk> = OnceLock::new();
    GOOD.get_or_init(|| {
        let set = SimDisk::new(2);
        let options = Options::new()
            .memory(1 << 20)
            .page_size(4096)
            .log_segment(16 << 10)
            .foreground(true)
            .seed(1);
        let db = Database::open_on(SimDisk::new(1).shared(), options).unwrap();
        let tree = db.tree_with("t", TreeOptions::new().tiers(Tiers::One)).unwrap();
        let fast = || BackupOptions::new().rate(Rate::Fast);
        tree.put("a", "1").unwrap();
        db.backup_on(set.shared(), fast()).unwrap();
        let follower = db.follow_on(set.shared(), Default::default()).unwrap();
        tree.put("b", "2").unwrap();
        db.mark("m").unwrap();
        db.backup_on(set.shared(), fast()).unwrap();
        follower.stop().unwrap();
        set
    })
}

/// The body of a manifest with the checksum that it has to have.
fn sealed(body: &str) -> Vec<u8> {
    let sum = seeded(0x5E70_FBAC_0FF5, body.as_bytes());
    format!("{{\"checksum\":\"{sum:016x}\",\"manifest\":{body}}}\n").into_bytes()
}

/// Has the manifest say what a map or a file of records is now.
fn named(set: &SimDisk, file: &str, bytes: &[u8]) {
    let manifest = set.contents("manifest.json").unwrap();
    let outer: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let mut body = outer["manifest"].clone();
    let number = body["set"].as_u64().unwrap();
    match file {
        "point-1.map" => {
            let sum = seeded(mix(number, mix(1, 1)), bytes);
            body["points"][0]["map"]["bytes"] = bytes.len().into();
            body["points"][0]["map"]["checksum"] = sum.into();
            body["points"][0]["live_pages"] = (bytes.len() / 36).into();
        }
        "point-1.pages" => body["points"][0]["pages"]["bytes"] = bytes.len().into(),
        _ => body["logs"][0]["bytes"] = bytes.len().into(),
    }
    set.place("manifest.json", sealed(&body.to_string()));
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let set = good().copy();
    let file = FILES[usize::from(how / 2) % FILES.len()];
    let is_sealed = how % 2 == 0;
    match (file, is_sealed) {
        ("manifest.json", true) => {
            let Ok(body) = std::str::from_utf8(bytes) else {
                return;
            };
            set.place(file, sealed(body));
        }
        (_, true) => {
            set.place(file, bytes.to_vec());
            named(&set, file, bytes);
        }
        (_, false) => set.place(file, bytes.to_vec()),
    }
    let _ = terrace::backup_contents_on(set.shared());
    let _ = terrace::verify_backup_on(set.shared(), |_| ());
    // Of a state that is not there nothing is written.
    let options = RestoreOptions::new().to(RestoreTo::Mark("nowhere".into()));
    let _ = terrace::restore_on(set.shared(), SimDisk::new(3).shared(), options);
    let _ = terrace::prune_backup_on(set.shared(), 1);
});
