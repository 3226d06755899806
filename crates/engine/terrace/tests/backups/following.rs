//! Following the log: a restore can go back to every change, time and mark, and to nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use terrace::{
    Database, Error, FollowOptions, Follower, Kind, Map, MapOptions, Options, RestoreOptions,
    RestoreReport, RestoreTo, Result, backup_contents_on, prune_backup_on, restore_on,
    verify_backup_on,
};
use terrace_sim::{Fault as DiskFault, HookedDisk, Injection, Rng, SimDisk};

use super::{Contents, Records, back_up, contents, whole};
use crate::common::{all_shapes, factor, seeds, tiny};

pub fn fast() -> FollowOptions {
    FollowOptions::new().rate(terrace::Rate::Fast)
}

pub fn follow(db: &Database, set: &SimDisk) -> Result<Follower> {
    db.follow_on(set.shared(), fast())
}

/// What a database was after each change.
#[derive(Default)]
pub struct Written {
    model: BTreeMap<String, Records>,
    states: BTreeMap<u64, BTreeMap<String, Records>>,
}

impl Written {
    pub fn of(db: &Database) -> Written {
        let mut written = Written {
            model: contents(db).into_iter().collect(),
            ..Written::default()
        };
        written.note(db);
        written
    }

    /// Notes what is so after the last change.
    pub fn note(&mut self, db: &Database) {
        self.states
            .insert(db.sequence().unwrap(), self.model.clone());
    }

    /// Forgets what a crash took back.
    pub fn cut_to(&mut self, db: &Database) {
        let last = db.sequence().unwrap();
        self.states.retain(|sequence, _| *sequence <= last);
        self.model = contents(db).into_iter().collect();
        assert_eq!(
            self.at(last),
            self.model.clone().into_iter().collect::<Vec<_>>()
        );
        self.note(db);
    }

    /// What was so after this change: marks change nothing.
    pub fn at(&self, sequence: u64) -> Contents {
        let (_, state) = self.states.range(..=sequence).next_back().unwrap();
        state.clone().into_iter().collect()
    }

    /// Makes a change: of one record, of several, or of the catalog.
    pub fn change(&mut self, db: &Database, maps: &[Map], rng: &mut Rng) -> Result<()> {
        let map = &maps[rng.below(maps.len() as u64) as usize];
        let key = format!("{:02}", rng.below(25)).into_bytes();
        let mut value = vec![b'a' + rng.below(3) as u8; 1 + rng.below(60) as usize];
        value.extend_from_slice(&rng.next_u64().to_be_bytes());
        match rng.below(40) {
            0 => {
                let name = "comes and goes";
                match self.model.remove(name) {
                    Some(_) => db.drop_structure(name)?,
                    None => {
                        let map = db.create_map(name, Kind::Tree, MapOptions::new())?;
                        self.model.insert(name.into(), Records::new());
                        self.note(db);
                        map.put(&key, &value)?;
                        self.records(name).insert(key, value);
                    }
                }
            }
            1..8 => {
                map.delete(&key)?;
                self.records(&map.name()).remove(&key);
            }
            8..14 => {
                let other = &maps[rng.below(maps.len() as u64) as usize];
                let mut batch = db.batch();
                batch.put(map, &key, &value).delete(other, b"01");
                batch.put(other, b"02", &value);
                db.write(batch, terrace::Durability::Buffered)?;
                self.records(&map.name()).insert(key, value.clone());
                let records = self.records(&other.name());
                records.remove(&b"01"[..]);
                records.insert(b"02".to_vec(), value);
            }
            14 => {
                value.resize(9000, b'l');
                map.put(&key, &value)?;
                self.records(&map.name()).insert(key, value);
            }
            _ => {
                map.put(&key, &value)?;
                self.records(&map.name()).insert(key, value);
            }
        }
        self.note(db);
        Ok(())
    }

    fn records(&mut self, name: &str) -> &mut Records {
        self.model.get_mut(name).unwrap()
    }
}

/// What a restore comes to, without looking into everything.
pub fn restored(set: &SimDisk, to: RestoreTo) -> Result<(Contents, RestoreReport)> {
    let disk = SimDisk::new(78);
    let options = RestoreOptions::new()
        .to(to)
        .verify(false)
        .options(tiny(773));
    let report = restore_on(set.shared(), disk.shared(), options)?;
    let db = Database::open_on(disk.shared(), tiny(774)).unwrap();
    Ok((contents(&db), report))
}

/// Every state that the set has, or some of them, is what was written.
pub fn check_states(set: &SimDisk, written: &Written, rng: &mut Rng, some: u64) {
    let all = backup_contents_on(set.shared()).unwrap();
    let (_, latest) = restored(set, RestoreTo::Latest).unwrap();
    let newest = all.points.last().unwrap();
    let first = match newest.chain {
        Some(chain) => {
            let mut points = all.points.iter();
            points.find(|point| point.chain == Some(chain)).unwrap()
        }
        None => newest,
    };
    let stretch = latest.sequence - first.sequence + 1;
    for _ in 0..some {
        let sequence = first.sequence + rng.below(stretch);
        let (found, report) = restored(set, RestoreTo::Sequence(sequence)).unwrap();
        assert_eq!(report.sequence, sequence);
        assert_eq!(found, written.at(sequence), "after change {sequence}");
    }
}

#[test]
fn every_change_point_time_and_mark_is_restored() {
    for seed in seeds(2) {
        let mut rng = Rng::new(seed);
        let (disk, set) = (SimDisk::new(seed), SimDisk::new(seed + 1));
        let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
        let maps = all_shapes(&db).unwrap();
        let mut written = Written::of(&db);
        for _ in 0..60 {
            written.change(&db, &maps, &mut rng).unwrap();
        }
        let follower = follow(&db, &set).unwrap();
        let (mut points, mut marks, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..500 {
            written.change(&db, &maps, &mut rng).unwrap();
            match rng.below(40) {
                0 => {
                    db.checkpoint().unwrap();
                }
                1..4 => {
                    let sequence = follower.archive().unwrap();
                    assert_eq!(sequence, db.sequence().unwrap());
                    times.push((SystemTime::now(), sequence));
                    // The next mark says another time.
                    std::thread::sleep(Duration::from_millis(2));
                }
                4 => {
                    let mark = db.mark(&format!("m{}", i % 7)).unwrap();
                    assert_eq!(mark.sequence, db.sequence().unwrap());
                    marks.retain(|(name, _)| *name != mark.name);
                    marks.push((mark.name, mark.sequence));
                }
                5 if i > 100 => points.push(back_up(&db, &set).unwrap()),
                _ => {}
            }
        }
        let status = follower.stop().unwrap();
        assert_eq!(status.sequence, db.sequence().unwrap());
        assert_eq!(status.breaks, 0);
        let report = verify_backup_on(set.shared(), |_| ()).unwrap();
        assert!(report.is_clean() && report.records > 500, "{report:?}");
        assert!(report.leftovers.is_empty());
        check_states(&set, &written, &mut rng, 50 * factor());
        for point in &points {
            let to = RestoreTo::Point(point.point);
            let (found, report) = restored(&set, to).unwrap();
            assert_eq!((report.sequence, report.replayed), (point.sequence, 0));
            assert_eq!(found, written.at(point.sequence));
        }
        for (name, sequence) in &marks {
            let to = RestoreTo::Mark(name.clone());
            let (found, report) = restored(&set, to).unwrap();
            assert_eq!(report.sequence, *sequence);
            assert_eq!(found, written.at(*sequence), "mark {name}");
        }
        for (i, (time, sequence)) in times.iter().enumerate().step_by(3) {
            let (found, report) = restored(&set, RestoreTo::Time(*time)).unwrap_or_else(|e| {
                // Behind the last mark it is not known what was so.
                assert_eq!(i + 1, times.len(), "{e}");
                restored(&set, RestoreTo::Sequence(*sequence)).unwrap()
            });
            assert!(report.sequence >= *sequence, "{report:?}");
            assert_eq!(found, written.at(report.sequence));
            assert!(report.time <= *time);
        }
        // All of it is whole, and goes on as a database of its own.
        let (latest, report) = super::restored(&set, RestoreTo::Latest).unwrap();
        assert_eq!((latest, report.sequence), (contents(&db), status.sequence));
        assert!(report.replayed > 0);
    }
}

#[test]
fn what_a_set_does_not_have_is_told_with_what_it_has() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    let before = SystemTime::now() - Duration::from_secs(5);
    tree.put("a", "1").unwrap();
    let told = |to: RestoreTo| restored(&set, to).unwrap_err().to_string();
    back_up(&db, &set).unwrap();
    let first = db.sequence().unwrap();
    // Without a log there is nothing between points.
    tree.put("a", "2").unwrap();
    tree.put("a", "3").unwrap();
    back_up(&db, &set).unwrap();
    let second = db.sequence().unwrap();
    for to in [
        RestoreTo::Time(before),
        RestoreTo::Time(SystemTime::now() + Duration::from_secs(60)),
        RestoreTo::Sequence(second - 1),
        RestoreTo::Sequence(second + 1),
        RestoreTo::Sequence(0),
        RestoreTo::Sequence(u64::MAX),
    ] {
        let text = told(to.clone());
        let has = [
            format!("point 1 (change {first}, 2"),
            format!("point 2 (change {second}, 2"),
        ];
        assert!(has.iter().all(|has| text.contains(has)), "{to:?}: {text}");
    }
    let text = told(RestoreTo::Mark("m".into()));
    assert!(text.contains("\"m\"") && text.contains("none"), "{text}");
    for last in [first, second] {
        let (_, report) = restored(&set, RestoreTo::Sequence(last)).unwrap();
        assert_eq!(report.sequence, last);
    }
    // A name for a point.
    let options = super::fast().mark("named");
    let named = db.backup_on(set.shared(), options).unwrap();
    let (_, report) = restored(&set, RestoreTo::Mark("named".into())).unwrap();
    assert_eq!(report.point.point, named.point);
    let follower = follow(&db, &set).unwrap();
    tree.put("a", "4").unwrap();
    db.mark("four").unwrap();
    let (end, _) = (follower.archive().unwrap(), follower.stop().unwrap());
    let text = told(RestoreTo::Mark("for".into()));
    assert!(text.contains("\"four\", \"named\""), "{text}");
    let text = told(RestoreTo::Sequence(end + 9));
    assert!(text.contains("and all changes behind it up to"), "{text}");
    for wrong in ["", " x", "a\nb"] {
        let told = db.mark(wrong).unwrap_err().to_string();
        assert!(told.contains("name of a mark"), "{told}");
    }
    // One set, one that follows.
    let follower = follow(&db, &set).unwrap();
    let told = follow(&db, &set).unwrap_err().to_string();
    assert!(told.contains("already"), "{told}");
    drop(follower);
    follow(&db, &set).unwrap().stop().unwrap();
    let other = Database::open_on(SimDisk::new(1).shared(), tiny(2)).unwrap();
    let told = follow(&other, &set).unwrap_err().to_string();
    assert!(told.contains("another database"), "{told}");
}

#[test]
fn a_chain_goes_on_when_the_database_is_opened_again() {
    let (mut disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let mut rng = Rng::new(5);
    let mut written: Option<Written> = None;
    for round in 0..6 {
        let db = Database::open_on(disk.shared(), tiny(10 + round)).unwrap();
        let maps = all_shapes(&db).unwrap();
        match &mut written {
            Some(written) => written.cut_to(&db),
            None => written = Some(Written::of(&db)),
        }
        let written = written.as_mut().unwrap();
        let follower = follow(&db, &set).unwrap();
        for _ in 0..50 {
            written.change(&db, &maps, &mut rng).unwrap();
            if rng.percent(10) {
                follower.archive().unwrap();
            }
        }
        match round % 3 {
            0 => db.close().unwrap(),
            1 => {
                follower.stop().unwrap();
                db.close().unwrap();
            }
            _ => {
                // What was archived is durable, whatever else is lost.
                follower.archive().unwrap();
                for _ in 0..20 {
                    written.change(&db, &maps, &mut rng).unwrap();
                }
                let left = disk.crash(round);
                // The process is gone: it must not archive any more.
                disk.inject(Injection::any(1, DiskFault::PowerCut));
                drop((follower, db));
                disk = left;
            }
        }
    }
    let all = backup_contents_on(set.shared()).unwrap();
    assert_eq!(all.logs.len(), 1, "one chain: {:?}", all.logs);
    assert_eq!(all.points.len(), 1);
    check_states(&set, written.as_ref().unwrap(), &mut rng, 40);
}

#[test]
fn who_follows_too_slowly_is_told_and_nobody_waits() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let options = tiny(1).archive_lag(32 << 10);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let maps = all_shapes(&db).unwrap();
    let (mut rng, mut written) = (Rng::new(1), Written::of(&db));
    let follower = follow(&db, &set).unwrap();
    for _ in 0..40 {
        written.change(&db, &maps, &mut rng).unwrap();
    }
    let reached = follower.archive().unwrap();
    for _ in 0..15 {
        for _ in 0..100 {
            written.change(&db, &maps, &mut rng).unwrap();
        }
        db.checkpoint().unwrap();
        // What is kept for who follows has a bound.
        let log = db.stats().log.file_bytes;
        assert!(log < 200 << 10, "the log has {log} bytes");
    }
    assert_eq!(follower.status().breaks, 0, "not noticed yet");
    follower.archive().unwrap();
    assert_eq!(follower.status().breaks, 1);
    for _ in 0..30 {
        written.change(&db, &maps, &mut rng).unwrap();
    }
    let status = follower.stop().unwrap();
    assert_eq!((status.breaks, status.point), (1, Some(2)));
    let all = backup_contents_on(set.shared()).unwrap();
    assert_eq!((all.logs.len(), all.points.len()), (2, 2));
    check_states(&set, &written, &mut rng, 10);
    let (found, _) = restored(&set, RestoreTo::Sequence(reached)).unwrap();
    assert_eq!(found, written.at(reached));
    let gap = all.logs[0].last + 1;
    let told = restored(&set, RestoreTo::Sequence(gap)).unwrap_err();
    assert!(matches!(told, Error::Invalid { .. }), "{told}");
    whole(&set, &[1, 2]);
}

#[test]
fn a_full_disk_is_not_kept_full_for_who_follows() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1).archive_lag(1 << 40)).unwrap();
    let tree = db.tree("t").unwrap();
    let follower = follow(&db, &set).unwrap();
    let used = disk.used_bytes();
    disk.set_capacity(Some(used + (600 << 10)));
    // Many times what the disk has room for goes through the log.
    for i in 0..6000u32 {
        tree.put((i % 50).to_be_bytes(), vec![i as u8; 500])
            .unwrap();
        if i % 100 == 0 {
            db.checkpoint().unwrap();
        }
    }
    disk.set_capacity(None);
    follower.archive().unwrap();
    let status = follower.stop().unwrap();
    assert_eq!(status.breaks, 1);
    let (found, _) = restored(&set, RestoreTo::Latest).unwrap();
    assert_eq!(found, contents(&db));
}

#[test]
fn a_full_disk_of_the_set_is_told_and_made_up_for() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1).archive_lag(1 << 30)).unwrap();
    let maps = all_shapes(&db).unwrap();
    let (mut rng, mut written) = (Rng::new(1), Written::of(&db));
    let follower = follow(&db, &set).unwrap();
    let used = set.used_bytes();
    for room in [0, 700, 5000] {
        for _ in 0..150 {
            written.change(&db, &maps, &mut rng).unwrap();
        }
        set.set_capacity(Some(used + room));
        let told = follower.archive().unwrap_err();
        assert!(told.is_disk_full(), "{told}");
        assert!(follower.status().error.is_some());
        db.checkpoint().unwrap();
        let report = verify_backup_on(set.shared(), |_| ()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        set.set_capacity(None);
        follower.archive().unwrap();
        assert_eq!(follower.status().error, None);
    }
    assert_eq!(follower.stop().unwrap().breaks, 0);
    check_states(&set, &written, &mut rng, 30);
    assert_eq!(backup_contents_on(set.shared()).unwrap().points.len(), 1);
}

#[test]
fn a_log_is_followed_through_a_thousand_checkpoints() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    let maps = [(*tree).clone()];
    let (mut rng, mut written) = (Rng::new(1), Written::of(&db));
    let follower = db
        .follow_on(set.shared(), fast().point_after(32 << 10))
        .unwrap();
    for i in 0..1000 {
        written.change(&db, &maps, &mut rng).unwrap();
        db.checkpoint().unwrap();
        if i % 4 == 0 {
            follower.archive().unwrap();
        }
    }
    follower.stop().unwrap();
    let all = backup_contents_on(set.shared()).unwrap();
    assert!(all.points.len() > 2 && all.logs.len() == 1, "{all:?}");
    check_states(&set, &written, &mut rng, 30);
    // What is forgotten takes its log along, and the rest stays.
    let kept = prune_backup_on(set.shared(), 2).unwrap().kept;
    whole(&set, &kept);
    check_states(&set, &written, &mut rng, 10);
    let follower = follow(&db, &set).unwrap();
    written.change(&db, &maps, &mut rng).unwrap();
    follower.stop().unwrap();
    check_states(&set, &written, &mut rng, 5);
}

#[test]
fn structures_without_log_are_as_of_the_point() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let logged = db.tree("logged").unwrap();
    let options = MapOptions::new().logged(false);
    let not = db.tree_with("not", options).unwrap();
    not.put("a", "1").unwrap();
    let follower = follow(&db, &set).unwrap();
    not.put("a", "2").unwrap();
    logged.put("a", "2").unwrap();
    follower.stop().unwrap();
    let (found, report) = restored(&set, RestoreTo::Latest).unwrap();
    assert_eq!(report.as_of_point, ["not"]);
    let of = |i: usize| found[i].1.get(&b"a"[..]).map(|value| &value[..]);
    assert_eq!((of(0), of(1)), (Some(&b"2"[..]), Some(&b"1"[..])));
    let (_, report) = restored(&set, RestoreTo::Point(1)).unwrap();
    assert!(report.as_of_point.is_empty());
}

#[test]
fn a_log_is_followed_while_threads_write() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let options = |seed| -> Options { tiny(seed).memory(4 << 20).foreground(false) };
    // The thread must not come too late, however slow the machine is.
    let db = Database::open_on(disk.shared(), options(1).archive_lag(1 << 40)).unwrap();
    let (a, b) = (db.tree("a").unwrap(), db.hash("b").unwrap());
    let every = Duration::from_millis(1);
    let follower = db.follow_on(set.shared(), fast().every(every)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (db, a, b, stop) = (&db, &a, &b, &stop);
            scope.spawn(move || {
                let mut i = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("{thread}-{:03}", i % 300);
                    let mut batch = db.batch();
                    batch
                        .put(a, &key, i.to_be_bytes())
                        .put(b, &key, i.to_be_bytes());
                    db.write(batch, terrace::Durability::Buffered).unwrap();
                    i += 1;
                }
            });
        }
        for _ in 0..3 {
            back_up(&db, &set).unwrap();
            let (reached, now) = (follower.status().sequence, db.sequence().unwrap());
            assert!(reached <= now);
            while follower.status().sequence <= now {
                assert_eq!(follower.status().error, None);
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // Closing copies what is left.
    let last = contents(&db);
    db.close().unwrap();
    let status = follower.status();
    assert_eq!((status.breaks, &status.error), (0, &None), "{status:?}");
    let (latest, report) = restored(&set, RestoreTo::Latest).unwrap();
    assert_eq!(latest, last);
    let mut rng = Rng::new(3);
    let first = backup_contents_on(set.shared()).unwrap().points[0].sequence;
    for _ in 0..8 {
        let sequence = first + rng.below(report.sequence - first);
        let (found, _) = restored(&set, RestoreTo::Sequence(sequence)).unwrap();
        assert_eq!(
            found[0].1, found[1].1,
            "a batch is there whole or not at all"
        );
    }
    assert!(follower.archive().is_err());
}

#[test]
fn a_mark_is_restored_from_the_chain_that_it_was_made_in() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let mut rng = Rng::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let maps = all_shapes(&db).unwrap();
    let mut written = Written::of(&db);
    follow(&db, &set).unwrap().stop().unwrap();
    db.close().unwrap();
    let put_back = disk.copy();

    // The one that is marked.
    let db = Database::open_on(disk.shared(), tiny(2)).unwrap();
    let of_db = all_shapes(&db).unwrap();
    let follower = follow(&db, &set).unwrap();
    (0..20).for_each(|_| written.change(&db, &of_db, &mut rng).unwrap());
    let mark = db.mark("m").unwrap();
    (0..20).for_each(|_| written.change(&db, &of_db, &mut rng).unwrap());
    follower.stop().unwrap();
    db.close().unwrap();
    drop(maps);

    // The folder as it was before goes its own way, past the number of the mark.
    let db = Database::open_on(put_back.shared(), tiny(3)).unwrap();
    let of_db = all_shapes(&db).unwrap();
    let mut other = Written::of(&db);
    let follower = follow(&db, &set).unwrap();
    while db.sequence().unwrap() <= mark.sequence + 20 {
        other.change(&db, &of_db, &mut rng).unwrap();
    }
    follower.stop().unwrap();
    let all = backup_contents_on(set.shared()).unwrap();
    assert_eq!(all.logs.len(), 2, "{all:?}");

    let (found, report) = restored(&set, RestoreTo::Mark("m".into())).unwrap();
    assert_eq!(report.sequence, mark.sequence);
    assert_eq!(found, written.at(mark.sequence));
    // By its number the newest that leads there is meant.
    let (found, _) = restored(&set, RestoreTo::Sequence(mark.sequence)).unwrap();
    assert_eq!(found, other.at(mark.sequence));
    // When no point leads to it any more, that is said, and nothing else is restored.
    prune_backup_on(set.shared(), 1).unwrap();
    let told = restored(&set, RestoreTo::Mark("m".into())).unwrap_err();
    assert!(matches!(told, Error::Invalid { .. }), "{told}");
}

#[test]
fn a_panic_of_the_thread_that_follows_is_in_the_status_and_stops_the_writes() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let panics = Arc::new(AtomicBool::new(false));
    let its = panics.clone();
    let hooked = HookedDisk::new(set.shared(), move |_| {
        let is_thread = std::thread::current().name() == Some("terrace-follow");
        assert!(!(is_thread && its.load(Ordering::SeqCst)), "as planned");
    });
    let options = tiny(1).memory(4 << 20).foreground(false);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree("t").unwrap();
    let often = fast().every(Duration::from_millis(1));
    let follower = db.follow_on(Arc::new(hooked), often).unwrap();
    tree.put("a", "1").unwrap();
    let before = db.sequence().unwrap();
    while follower.status().sequence < before {
        std::thread::yield_now();
    }
    panics.store(true, Ordering::SeqCst);
    let told = loop {
        // Until no thread may write any more.
        let _ = tree.put("b", "2");
        match follower.status().error {
            Some(told) => break told,
            None => std::thread::yield_now(),
        }
    };
    assert!(told.contains("panicked"), "{told}");
    let refused = loop {
        if let Err(e) = tree.put("b", "2") {
            break e;
        }
    };
    assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
    assert_eq!(db.stats().following[0].error.as_deref(), Some(&*told));
    panics.store(false, Ordering::SeqCst);
    assert!(follower.stop().is_err());
    assert!(db.close().is_err());
    // What was archived is there.
    let (found, report) = restored(&set, RestoreTo::Sequence(before)).unwrap();
    assert_eq!(report.sequence, before);
    assert_eq!(found[0].1[&b"a"[..]], b"1");
}

#[test]
fn who_follows_at_a_low_rate_is_stopped_at_once_and_copies_the_log_beside() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let options = tiny(1).memory(4 << 20).foreground(false);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree("t").unwrap();
    for i in 0..3000u32 {
        tree.put(i.to_be_bytes(), [1; 100]).unwrap();
    }
    let none = FollowOptions::new().rate(terrace::Rate::BytesPerSecond(0));
    let told = db.follow_on(set.shared(), none).unwrap_err();
    assert!(matches!(told, Error::Invalid { .. }), "{told}");
    // The first point is made by the call, as fast as it goes.
    follow(&db, &set).unwrap().stop().unwrap();
    let first = backup_contents_on(set.shared()).unwrap().points.len();
    let slow = FollowOptions::new()
        .rate(terrace::Rate::BytesPerSecond(1))
        .every(Duration::from_millis(1))
        .point_after(10_000);
    let follower = db.follow_on(set.shared(), slow).unwrap();
    // Now one is due, of which the first page alone takes an hour.
    for i in 0..200u32 {
        tree.put(i.to_be_bytes(), [2; 100]).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    tree.put("a", "1").unwrap();
    let now = db.sequence().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while follower.status().sequence < now {
        assert!(Instant::now() < end, "the log is not copied beside");
        std::thread::yield_now();
    }
    let began = Instant::now();
    follower.stop().unwrap();
    db.close().unwrap();
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(
        backup_contents_on(set.shared()).unwrap().points.len(),
        first
    );
}
