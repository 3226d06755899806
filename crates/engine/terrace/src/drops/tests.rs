//! Whatever is under way on a structure, who verifies then finds nothing wrong: in place, and in the image of a
//! checkpoint.

use terrace_sim::SimDisk;

use crate::planted::{Fault, plant};
use crate::{
    CompactOptions, Compression, Database, Error, Kind, MapOptions, Options, Rate, Result, Tiers,
};

/// Kinds and tiers, and whether an LSM-tree is compressed.
const SHAPES: [(Kind, Tiers, bool); 9] = [
    (Kind::Tree, Tiers::One, false),
    (Kind::Tree, Tiers::Two, false),
    (Kind::Hash, Tiers::One, false),
    (Kind::Hash, Tiers::Two, false),
    (Kind::Table, Tiers::One, false),
    (Kind::Table, Tiers::Two, false),
    (Kind::Lsm, Tiers::One, false),
    (Kind::Lsm, Tiers::Two, false),
    (Kind::Lsm, Tiers::Two, true),
];
const RECORDS: u32 = 8000;

fn options() -> Options {
    let options = Options::new().memory(4 << 20).page_size(4096);
    options.log_limit(4 << 20).foreground(true).seed(1)
}

/// Records of all sizes.
fn value(n: u32) -> Vec<u8> {
    let len = if n.is_multiple_of(100) { 20_000 } else { 200 };
    vec![n as u8; len]
}

/// Whether the hot tiers of a shape lie in memory alone: both where it has some.
fn forms(shape: (Kind, Tiers, bool)) -> impl Iterator<Item = bool> {
    [false, true]
        .into_iter()
        .filter(move |in_memory| shape.1 == Tiers::Two || !in_memory)
}

fn started(
    (kind, tiers, compressed): (Kind, Tiers, bool),
    in_memory: bool,
    loaded: bool,
) -> (SimDisk, Database) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options()).unwrap();
    db.tree("kept").unwrap().put("k", "v").unwrap();
    let made = MapOptions::new().tiers(tiers).hot_in_memory(in_memory);
    let map = db.create_map("map", kind, made).unwrap();
    if compressed {
        let core = db.core();
        let open = core.find("map").unwrap().unwrap();
        let compression = Compression::Lz4 { levels: 8 };
        core.compress(&open, compression).unwrap();
    }
    match loaded {
        true => {
            let mut loader = map.loader().unwrap();
            for n in 0..RECORDS {
                loader.put(n.to_be_bytes(), value(n)).unwrap();
                if n.is_multiple_of(RECORDS / 4) {
                    look(&disk, &db).unwrap();
                }
            }
            loader.finish().unwrap();
        }
        false => {
            for n in 0..RECORDS {
                let n = n.wrapping_mul(0x9E37_79B1);
                map.put(n.to_be_bytes(), value(n)).unwrap();
            }
        }
    }
    (disk, db)
}

/// Verifies in place, and the last checkpoint as a user restores it.
fn look(disk: &SimDisk, db: &Database) -> Result<()> {
    db.verify()?.into_result()?;
    db.checkpoint()?;
    match Database::open_read_only_on(disk.copy().shared(), options()) {
        Ok(image) => image.verify()?.into_result(),
        // There are changes behind it.
        Err(Error::NotClosed) => Ok(()),
        Err(e) => Err(e),
    }
}

/// What those see who look after each step of a drop.
fn dropped(shape: (Kind, Tiers, bool), in_memory: bool, loaded: bool) -> Result<()> {
    let (disk, db) = started(shape, in_memory, loaded);
    let core = db.core();
    let open = core.find("map")?.unwrap();
    core.log_drop(&open).map(drop)?;
    let mut steps = 0;
    loop {
        look(&disk, &db)?;
        if !core.step(open.id())? {
            break;
        }
        steps += 1;
    }
    assert!(steps > 10, "{shape:?}: {steps} steps");
    let report = db.verify()?;
    assert_eq!(report.structures.len(), 1);
    report.into_result()
}

#[test]
fn a_structure_that_is_being_dropped_is_whole_at_every_step() {
    for shape in SHAPES {
        for (in_memory, loaded) in forms(shape).flat_map(|form| [(form, false), (form, true)]) {
            let seen = dropped(shape, in_memory, loaded);
            let which = format!("{shape:?}, in memory {in_memory}, loaded {loaded}");
            assert!(seen.is_ok(), "{which}: {seen:?}");
        }
    }
    plant(Some(Fault::DroppedAsWhole));
    let seen = dropped((Kind::Lsm, Tiers::Two, false), false, true);
    plant(None);
    assert!(seen.is_err());
}

#[test]
fn a_structure_that_is_being_compacted_is_whole_at_every_step() {
    let all = SHAPES.into_iter();
    for (shape, in_memory) in all.flat_map(|shape| forms(shape).map(move |form| (shape, form))) {
        let (disk, db) = started(shape, in_memory, false);
        let map = db.map("map").unwrap();
        for n in (0..RECORDS).filter(|n| n % 8 > 0) {
            map.delete(n.wrapping_mul(0x9E37_79B1).to_be_bytes())
                .unwrap();
        }
        let (mut told, mut wrong) = (0, None);
        let mut progress = |_| {
            told += 1;
            if told % 4 == 1 {
                wrong = wrong.take().or(look(&disk, &db).err());
            }
        };
        let compacting = CompactOptions::new()
            .rate(Rate::Fast)
            .progress(&mut progress);
        db.compact(compacting).unwrap();
        let which = format!("{shape:?}, in memory {in_memory}");
        assert!(told > 2 && wrong.is_none(), "{which}, {told}: {wrong:?}");
    }
}
