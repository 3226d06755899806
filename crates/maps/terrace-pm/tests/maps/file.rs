//! Maps in real files: killed processes, power losses, copies, damage, full and small.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use terrace_pm::faults::{Planted, plant};
use terrace_pm::pm::{DeviceKind, Pm, Sim, open_device};
use terrace_pm::{Domain, Durability, Error, Options, PmMap};

type Map = PmMap<u64, u64>;

fn factor() -> u64 {
    std::env::var("TERRACE_TEST_FACTOR").map_or(1, |f| f.parse().unwrap_or(1))
}

fn options() -> Options {
    Options::new().memory(2 << 20).capacity(64 << 20)
}

fn value_of(key: u64, round: u64) -> u64 {
    key * 1_000_003 + round
}

fn apply(model: &mut BTreeMap<u64, u64>, key: u64, new: Option<u64>) {
    match new {
        Some(value) => model.insert(key, value),
        None => model.remove(&key),
    };
}

/// What step of the writer below does to which keys: puts, deletes, and groups that share a fence.
fn changes(step: u64) -> Vec<(u64, Option<u64>)> {
    let key = |n: u64| 1 + (step + n) * 7919 % 3000;
    match step % 15 {
        0 | 5 | 10 => vec![(key(0), None)],
        7 => (0..4)
            .map(|n| (key(n), Some(value_of(key(n), step))))
            .collect(),
        _ => vec![(key(0), Some(value_of(key(0), step)))],
    }
}

/// The command that runs a test of this file again, in a process of its own.
fn again(test: &str) -> Command {
    terrace_sim::again(module_path!(), test).unwrap()
}

/// The other process of the test below: writes, and says what was acknowledged.
fn write_until_killed(path: &Path) {
    let map = Map::open(path, options()).unwrap();
    let mut out = std::io::stdout().lock();
    let first = map.get(0u64).unwrap().unwrap_or(0);
    for step in first + 1.. {
        match &changes(step)[..] {
            [(key, Some(value))] => map.put(*key, *value).unwrap(),
            [(key, None)] => map.delete(*key).unwrap(),
            many => {
                let pairs = many.iter().filter_map(|(key, new)| Some((*key, (*new)?)));
                map.put_all(pairs).unwrap();
            }
        }
        map.put(0u64, step).unwrap();
        if writeln!(out, "{step}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// Whether a map has all that a killed writer said, and nothing else but the step in flight. `model` is what
/// it had after step `done`; afterwards what it has now. Returns the last step.
fn check_left(map: &Map, done: u64, acknowledged: u64, model: &mut BTreeMap<u64, u64>) -> u64 {
    let reached = map.get(0u64).unwrap().unwrap();
    assert!(reached >= acknowledged, "{reached} < {acknowledged}");
    for step in done + 1..=reached + 1 {
        for (key, new) in changes(step) {
            // The last one was in flight: either way.
            if step <= reached || map.get(key).unwrap() == new {
                apply(model, key, new);
            }
        }
    }
    for key in 1..=3000 {
        assert_eq!(map.get(key).unwrap(), model.get(&key).copied(), "key {key}");
    }
    assert!(map.verify().unwrap().is_clean());
    reached
}

/// Run by `scripts/pm-qemu` alone, in the second life of a machine.
#[test]
fn what_a_killed_machine_has_left_holds_what_was_acknowledged() {
    let Some(path) = std::env::var_os("TERRACE_PM_LEFT") else {
        return;
    };
    let steps = std::env::var("TERRACE_PM_STEPS").unwrap();
    let steps: u64 = steps.trim().parse().unwrap();
    let map = Map::open(&path, options()).unwrap();
    let reached = check_left(&map, 0, steps, &mut BTreeMap::new());
    println!("acknowledged up to {steps}, found up to {reached}");
}

/// Looks at persistent memory where there is some: `TERRACE_PM_DAX` is a folder on it.
#[test]
fn on_persistent_memory_a_write_is_durable_when_it_returns() {
    let Some(folder) = std::env::var_os("TERRACE_PM_DAX") else {
        return;
    };
    let path = Path::new(&folder).join("dax.pm");
    let (device, _) = open_device(&path, 32 << 20, None, true).unwrap();
    println!("on persistent memory: {:?}", device.kind());
    assert!(matches!(device.kind(), DeviceKind::Dax(_)));
    drop(device);
    let map = Map::open(&path, options().boot(1)).unwrap();
    assert_eq!(map.durability(), Durability::Sync);
    for key in 0..5000 {
        map.put(key * 7919 % 5003, key).unwrap();
    }
    map.crash();
    // Another boot: believed, as nothing waits in caches.
    let map = Map::open(&path, options().boot(2)).unwrap();
    assert!(map.verify().unwrap().is_clean());
    assert_eq!(map.iter().count(), 5000);
    map.crash();
    // A life that wants less, and is not believed after a power loss.
    let less = || options().durability(Durability::Buffered);
    let map = Map::open(&path, less().boot(2)).unwrap();
    assert_eq!(map.durability(), Durability::Buffered);
    map.put(1, 1).unwrap();
    map.crash();
    assert!(matches!(
        Map::open(&path, less().boot(3)),
        Err(Error::PowerLost { .. })
    ));
    let map = Map::open(&path, options().boot(2)).unwrap();
    assert_eq!(map.get(1).unwrap(), Some(1));
    map.close().unwrap();
}

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    if let Some(path) = std::env::var_os("TERRACE_PM_CHILD") {
        return write_until_killed(Path::new(&path));
    }
    let shared = PathBuf::from("/dev/shm");
    for (folder, kills) in [(None, 15), (shared.is_dir().then_some(shared), 35)] {
        // A fifth where no factor is given.
        let kills = if factor() > 1 {
            kills * factor()
        } else {
            kills / 5
        };
        let folder = match folder {
            Some(shared) => tempfile::tempdir_in(shared).unwrap(),
            None => tempfile::tempdir().unwrap(),
        };
        let path = folder.path().join("map.pm");
        let mut model = BTreeMap::new();
        let mut done = 0;
        for kill in 0..kills {
            let mut child = again("a_killed_process_loses_nothing_that_was_acknowledged")
                .args(["--test-threads", "1"])
                .env("TERRACE_PM_CHILD", &path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut acknowledged = done;
            let wanted = 50 + kill * 517 % 700;
            let mut seen = 0;
            while let Some(Ok(line)) = lines.next() {
                // The harness writes lines of its own.
                let number = line.rsplit(' ').next().unwrap_or_default();
                if let Ok(step) = number.parse::<u64>() {
                    acknowledged = step;
                    seen += 1;
                }
                if seen == wanted {
                    child.kill().unwrap();
                }
            }
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(9), "{status}");
            let map = Map::open(&path, options()).unwrap();
            done = check_left(&map, done, acknowledged, &mut model);
            // As if it had been killed here, too.
            map.crash();
        }
        println!("{kills} kills, nothing lost");
    }
}

#[test]
fn after_a_power_loss_a_buffered_map_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache.pm");
    // Which is what a file that is not on persistent memory has if nothing is said.
    let options = || options().durability(Durability::Buffered);
    let map = Map::open(&path, options().boot(1)).unwrap();
    assert_eq!(map.durability(), Durability::Buffered);
    map.put(1, 10).unwrap();
    map.crash();
    // The same boot: the process has died, and that is all.
    let map = Map::open(&path, options().boot(1)).unwrap();
    assert_eq!(map.get(1).unwrap(), Some(10));
    map.crash();
    let error = Map::open(&path, options().boot(2)).unwrap_err();
    assert!(matches!(error, Error::PowerLost { .. }), "{error}");
    assert!(error.to_string().contains("discard_after_power_loss"));
    plant(Some(Planted::BootForgotten));
    assert!(
        Map::open(&path, options().boot(2)).is_ok(),
        "the fault is planted"
    );
    plant(None);
    // Opened by the fault and closed since: believed. Once more without closing:
    let map = Map::open(&path, options().boot(2)).unwrap();
    map.crash();
    let map = Map::open(&path, options().boot(3).discard_after_power_loss(true)).unwrap();
    assert_eq!(map.get(1).unwrap(), None, "it begins empty");
    map.put(2, 20).unwrap();
    map.close().unwrap();
    drop(map);
    // A map that was closed is believed after any number of boots.
    let map = Map::open(&path, options().boot(4)).unwrap();
    assert_eq!(map.get(2).unwrap(), Some(20));
}

#[test]
fn a_synced_map_is_believed_after_a_power_loss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.pm");
    let sync = || options().durability(Durability::Sync);
    let map = Map::open(&path, sync().boot(1)).unwrap();
    assert_eq!(map.stats().domain, Domain::Power);
    for key in 0..20 {
        map.put(key, key + 1).unwrap();
    }
    map.put_all((20..60).map(|key| (key, key + 1))).unwrap();
    map.crash();
    let map = Map::open(&path, sync().boot(2)).unwrap();
    assert_eq!(map.iter().count(), 60);
}

#[test]
fn one_process_at_a_time_and_no_copies_of_open_maps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.pm");
    let copy = folder.path().join("copy.pm");
    let map = Map::open(&path, options()).unwrap();
    map.put(1, 1).unwrap();
    let error = Map::open(&path, options()).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    std::fs::copy(&path, &copy).unwrap();
    let error = Map::open(&copy, options()).unwrap_err();
    assert!(error.to_string().contains("copy"), "{error}");
    map.close().unwrap();
    drop(map);
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(
        Map::open(&copy, options()).unwrap().get(1).unwrap(),
        Some(1)
    );
}

/// A copy with holes where there are zeros, as tools make when they restore.
fn sparse_copy(from: &Path, to: &Path) {
    let bytes = std::fs::read(from).unwrap();
    let file = std::fs::File::create_new(to).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (i, page) in bytes.chunks(4096).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, i as u64 * 4096).unwrap();
        }
    }
}

#[test]
fn a_file_with_holes_has_no_more_when_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let (closed, copy) = (
        folder.path().join("closed.pm"),
        folder.path().join("copy.pm"),
    );
    let options = || Options::new().memory(4 << 20).capacity(64 << 20);
    let blocks = |path: &Path| {
        let about = std::fs::metadata(path).unwrap();
        (about.blocks() * 512, about.len())
    };
    let map = Map::open(&closed, options()).unwrap();
    (0..2000).for_each(|key| map.put(key, key).unwrap());
    map.close().unwrap();
    drop(map);
    sparse_copy(&closed, &copy);
    let (had, len) = blocks(&copy);
    assert!(had < len, "{had} bytes of {len}: the copy has holes");
    let map = Map::open(&copy, options()).unwrap();
    let (has, len) = blocks(&copy);
    assert!(has >= len, "{has} bytes of {len} that are mapped");
    assert_eq!(map.iter().count(), 2000);
    // One that was only made long, too.
    let long = folder.path().join("long.pm");
    std::fs::File::create_new(&long)
        .unwrap()
        .set_len(32 << 20)
        .unwrap();
    let map = Map::open(&long, options()).unwrap();
    let (has, len) = blocks(&long);
    assert!(has >= len, "{has} bytes of {len} that are mapped");
    map.put(1, 1).unwrap();
}

/// Signals interrupt what gives a file its blocks; on tmpfs that gives back what it had of the piece.
#[test]
fn signals_do_not_keep_a_file_from_growing() {
    let shared = Path::new("/dev/shm");
    if let Some(path) = std::env::var_os("TERRACE_PM_GROWS") {
        let (device, _) = open_device(Path::new(&path), 256 << 20, None, true).unwrap();
        for step in 1..=8 {
            device.grow(step * (32 << 20)).unwrap();
        }
        return;
    }
    if !shared.is_dir() {
        return;
    }
    let folder = tempfile::tempdir_in(shared).unwrap();
    let mut child = again("signals_do_not_keep_a_file_from_growing")
        .env("TERRACE_PM_GROWS", folder.path().join("map.pm"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let stops = "while kill -STOP $0 2>/dev/null; do kill -CONT $0; sleep 0.001; done";
    let mut signals = Command::new("sh")
        .args(["-c", stops, &child.id().to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = child.wait().unwrap();
    let _ = signals.kill();
    let _ = signals.wait();
    assert!(status.success(), "{status}");
}

/// Runs `child` in a process forked from this one; whether all went well there.
fn forked(child: impl FnOnce()) -> bool {
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            // The harness of the tests must not go on in two processes.
            let done = catch_unwind(AssertUnwindSafe(child));
            std::process::exit(i32::from(done.is_err()))
        }
        fork::Fork::Parent(pid) => fork::waitpid(pid).is_ok_and(|status| status == 0),
    }
}

fn is_told<T>(result: terrace_pm::Result<T>) -> bool {
    matches!(result, Err(Error::Invalid { what }) if what.contains("forked"))
}

#[test]
fn a_forked_process_is_told_and_touches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.pm");
    let map = Map::open(&path, options()).unwrap();
    for key in 0..100 {
        map.put(key, key).unwrap();
    }
    let mut range = map.iter();
    range.next();
    let before = std::fs::read(&path).unwrap();
    let theirs = map.clone();
    assert!(forked(move || {
        assert!(is_told(theirs.put(1, 2)) && is_told(theirs.delete(1)));
        assert!(is_told(theirs.get(1)) && is_told(theirs.contains_key(1)));
        assert!(is_told(theirs.put_all([(1, 2)])) && is_told(theirs.sync()));
        assert!(is_told(theirs.verify()) && is_told(theirs.close()));
        assert!(is_told(range.next().transpose()));
        assert!(range.next().is_none(), "once is enough");
        assert!(is_told(theirs.first()));
        drop(theirs);
    }));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    map.put(200, 1).unwrap();
    // A child that lives on keeps no process from the file.
    let (told, ended) = std::io::pipe().unwrap();
    let fork::Fork::Parent(pid) = fork::fork().unwrap() else {
        drop(ended);
        let _ = std::io::Read::read(&mut &told, &mut [0]);
        std::process::exit(0)
    };
    drop(map);
    let again = Map::open(&path, options()).unwrap();
    assert_eq!(again.iter().count(), 101);
    drop(ended);
    assert_eq!(fork::waitpid(pid).unwrap(), 0);
}

#[test]
fn a_map_keeps_the_capacity_that_it_was_made_with() {
    // Some tens of megabytes: rather not on a disk.
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() {
        tempfile::tempdir_in(shared).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let path = folder.path().join("map.pm");
    let open = |capacity: u64| {
        let options = options().capacity(capacity);
        PmMap::<u64, [u8]>::open(&path, options).unwrap()
    };
    let map = open(128 << 20);
    map.put(0, &b"small"[..]).unwrap();
    map.close().unwrap();
    drop(map);
    // Less is asked for the second time: less than the file grows by at once.
    let map = open(16 << 20);
    let value = vec![7; (1 << 19) - 64];
    for key in 1..150 {
        map.put(key, &value[..]).unwrap();
    }
    assert!(map.stats().file_bytes > 64 << 20);
}

#[test]
fn a_file_that_was_cut_short_or_has_lost_a_header_or_record_is_damaged() {
    let capacity = 96 << 10;
    let tiny = || Options::new().tiny().memory(1 << 20).boot(1);
    let sim = Arc::new(Sim::new(capacity).unprotected());
    let map = Map::open_on(sim.clone(), tiny()).unwrap();
    let model: BTreeMap<u64, u64> = (0..30).map(|key| (key * 7 % 31, key)).collect();
    map.put_all(model.iter()).unwrap();
    map.crash();
    let image = sim.image();
    // Nothing of it may be missing without a word: every word of the log, zero.
    let open = |image: &[u64]| {
        let sim = Arc::new(Sim::from_image(image, capacity).unprotected());
        Map::open_on(sim, tiny())
    };
    let all = |map: &Map| -> BTreeMap<u64, u64> { map.iter().map(Result::unwrap).collect() };
    assert_eq!(all(&open(&image).unwrap()), model);
    let is_segment = |at: usize| image[at] as u32 == 0x6765_5370;
    let (mut refused, mut lost) = (0, 0);
    for segment in (2048..image.len())
        .step_by(512)
        .filter(|at| is_segment(*at))
    {
        for word in segment..segment + 8 + 12 {
            let mut damaged = image.clone();
            damaged[word] = 0;
            match open(&damaged) {
                Err(Error::Corrupt { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
                // The last record of a partition may be one that was being written.
                Ok(map) if all(&map) != model => lost += 1,
                Ok(_) => {}
            }
        }
    }
    assert!(
        refused > 20 && lost <= 2 * 4,
        "{refused} refused, {lost} lost"
    );
    let mut cut = 0;
    for len in (0..image.len()).step_by(64) {
        match open(&image[..len]) {
            Err(_) => cut += 1,
            // Room at its end that was not used yet, or nothing at all.
            Ok(map) => assert!(
                len == 0 || all(&map) == model,
                "{len} words of it are a map"
            ),
        }
    }
    assert!(cut > 40, "{cut}");
}

#[test]
fn foreign_and_short_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for content in [
        b"not a map at all".repeat(4000),
        b"short".to_vec(),
        vec![0xff; 8192],
    ] {
        std::fs::write(&path, &content).unwrap();
        let error = Map::open(&path, options()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
        assert!(terrace_pm::kinds(&path).is_err());
    }
    std::fs::remove_file(&path).unwrap();
    assert!(Map::open(&path, options().create(false)).is_err());
    assert!(!path.exists());
    Map::open(&path, options()).unwrap().close().unwrap();
    let error = PmMap::<str, u64>::open(&path, options()).unwrap_err();
    assert!(error.to_string().contains("64 bits"), "{error}");
    assert_eq!(
        terrace_pm::kinds(&path).unwrap().0,
        "unsigned numbers of 64 bits"
    );
}

#[test]
fn a_full_map_is_an_error_and_deletes_and_gets_go_on() {
    let sim = Arc::new(Sim::new(96 << 10));
    let map = Map::open_on(sim, Options::new().tiny().memory(1 << 20)).unwrap();
    let mut model = BTreeMap::new();
    let mut key = 0u64;
    let error = loop {
        key += 1;
        match map.put(key * 977 % 5003, key) {
            Ok(()) => model.insert(key * 977 % 5003, key),
            Err(error) => break error,
        };
        assert!(key < 5000, "it is never full");
    };
    assert!(error.is_disk_full(), "{error}");
    for (key, value) in &model {
        assert_eq!(map.get(*key).unwrap(), Some(*value));
    }
    let gone: Vec<u64> = model.keys().copied().collect();
    for key in &gone[..gone.len() / 2] {
        map.delete(*key).unwrap();
        model.remove(key);
    }
    assert!(map.verify().unwrap().is_clean());
    assert_eq!(map.iter().count(), model.len());
    // There is room again.
    for key in 10_000..10_003u64 {
        map.put(key, 1).unwrap();
    }
}

#[test]
fn memory_that_is_too_small_says_what_is_needed() {
    let sim = Arc::new(Sim::new(64 << 20));
    let opened = Map::open_on(sim, Options::new().memory(1000));
    let Err(Error::MemoryTooSmall { given, needed, .. }) = opened else {
        panic!("{opened:?}");
    };
    assert!(given == 1000 && needed > 1000);
}

#[test]
fn more_capacity_than_a_map_can_have_is_an_error_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.pm");
    for capacity in [(128 << 30) + 1, 200 << 30, u64::MAX] {
        let error = Map::open(&path, options().capacity(capacity)).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains(&capacity.to_string()) && said.contains("capacity"),
            "{said}"
        );
        assert!(!path.exists());
    }
    // The more chunks there can be, the more is known of each.
    Map::open(&path, options().memory(8 << 20).capacity(128 << 30))
        .unwrap()
        .put(1, 1)
        .unwrap();
}

#[test]
fn the_memory_is_kept() {
    let sim = Arc::new(Sim::new(64 << 20));
    let memory = 600_000;
    let map = Map::open_on(sim, Options::new().memory(memory).capacity(64 << 20)).unwrap();
    for key in 0..100_000u64 {
        map.put(key.wrapping_mul(0x9E37_79B9_7F4A_7C15), key)
            .unwrap();
        if key.is_multiple_of(1000) {
            let used = map.stats().memory_bytes;
            assert!(used <= memory + memory / 50, "{used} at {key}");
        }
    }
}

#[test]
fn a_failed_fence_stops_all_writing_and_no_reading() {
    for fault in [None, Some(Planted::FailureForgotten)] {
        plant(fault);
        let sim = Arc::new(Sim::new(96 << 10));
        let map = Map::open_on(sim.clone(), Options::new().tiny().memory(1 << 20)).unwrap();
        map.put(1, 1).unwrap();
        sim.fail_after(0);
        assert!(map.put(2, 2).is_err());
        sim.fail_after(u64::MAX);
        let again = map.put(3, 3);
        if fault.is_none() {
            assert!(matches!(again, Err(Error::Poisoned { .. })), "{again:?}");
            assert_eq!(map.get(1).unwrap(), Some(1));
        } else {
            assert!(again.is_ok(), "the fault is planted");
        }
        plant(None);
        map.crash();
    }
}

#[test]
fn threads_agree_on_what_is_there() {
    let sim = Arc::new(Sim::new(32 << 20));
    let map = Map::open_on(
        sim.clone() as Arc<dyn Pm>,
        Options::new().memory(400_000).capacity(32 << 20),
    )
    .unwrap();
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let map = map.clone();
            scope.spawn(move || {
                for i in 0..4000u64 {
                    let key = (i * 4 + t).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    map.put(key, i).unwrap();
                    assert_eq!(map.get(key).unwrap(), Some(i));
                    if i.is_multiple_of(7) {
                        assert!(map.remove(key).unwrap());
                    }
                    // One key that all change.
                    map.update(5, |old: Option<u64>| Some(old.unwrap_or(0) + 1))
                        .unwrap();
                    if i.is_multiple_of(500) {
                        let keys: Vec<u64> = map.iter().map(|pair| pair.unwrap().0).collect();
                        assert!(keys.is_sorted());
                    }
                }
            });
        }
    });
    assert_eq!(map.get(5).unwrap(), Some(16_000));
    let report = map.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    map.crash();
    let sim = Arc::new(Sim::from_image(&sim.image(), 32 << 20));
    let again = Map::open_on(sim, Options::new().memory(600_000).capacity(32 << 20)).unwrap();
    assert_eq!(again.get(5).unwrap(), Some(16_000));
    assert_eq!(again.verify().unwrap().keys, report.keys);
}
