//! What bindings rely on: commits that cross whole and go on from their place, ranges that are removed.

use std::borrow::Cow;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::time::Duration;

use terrace::{ChangesOptions, MapOptions, Rate};
use terrace_ffi::changes::{self, Next};
use terrace_ffi::encoding::{BatchWriter, COMMIT_HEAD, change_at, commit_sequence};
use terrace_ffi::fault::Fault;
use terrace_ffi::{Kind, Result, batch, cursor, database, map, snapshot, terrace};

use crate::{catches, home, kind, structure, windows};

/// What a commit says, a line for each change.
fn lines(commit: &[u8]) -> Vec<String> {
    fn text(part: Option<&[u8]>) -> Cow<'_, str> {
        part.map_or("-".into(), String::from_utf8_lossy)
    }
    let (mut all, mut at) = (Vec::new(), COMMIT_HEAD);
    while let Some((change, next)) = change_at(commit, at) {
        assert_eq!(change.time_ms > 0, change.what == 6);
        let [name, key, value] = [change.name, change.key, change.value].map(text);
        all.push(format!(
            "{} {} {name} {key} {value}",
            change.what, change.kind
        ));
        at = next;
    }
    assert_eq!(at, commit.len());
    all
}

/// All that a reader has up to its end.
fn commits(reader: u64) -> Result<Vec<Vec<String>>> {
    let (mut all, mut commit, mut last) = (Vec::new(), Vec::new(), None);
    while changes::next(reader, None, &mut commit)? == Next::Commit {
        assert!(commit_sequence(&commit) > last);
        last = commit_sequence(&commit);
        all.push(lines(&commit));
    }
    Ok(all)
}

#[test]
fn commits_cross_whole_and_go_on_from_their_place() {
    let all = || {
        let home = home();
        let (reader, seen) = changes::begin_with_snapshot(home.db, ChangesOptions::new()).unwrap();
        let mut commit = Vec::new();
        let soon = Some(Duration::ZERO);
        assert_eq!(
            changes::next(reader, soon, &mut commit).unwrap(),
            Next::NotYet
        );
        let begun = changes::place(reader).unwrap();

        map::put(home.tree, b"a", b"1", None).unwrap();
        let mut batch = BatchWriter::default();
        batch.put(0, b"b", b"");
        batch.delete(0, b"a");
        batch::write_encoded(home.db, &[home.tree], &batch.finish(), None).unwrap();
        structure(home.db, "second");
        database::rename_structure(home.db, "second", "third").unwrap();
        database::drop_structure(home.db, "third").unwrap();
        database::mark(home.db, "here").unwrap();
        let expected = vec![
            vec!["1 1 tree a 1".to_owned()],
            vec!["1 1 tree b ".into(), "2 1 tree a -".into()],
            vec!["3 1 second - -".into()],
            vec!["5 1 third - -".into()],
            vec!["4 1 third - -".into()],
            vec!["6 0 here - -".into()],
        ];
        for commit_of in &expected {
            assert_eq!(
                changes::next(reader, None, &mut commit).unwrap(),
                Next::Commit
            );
            assert_eq!(&lines(&commit), commit_of);
        }
        // From the beginning, and from a place on.
        let until_now = |place: &str| {
            let from = changes::place_of(place).unwrap();
            let options = ChangesOptions::new().from(from).until_now();
            let reader = changes::begin(home.db, options).unwrap();
            let all = commits(reader);
            changes::close(reader).unwrap();
            all.unwrap()
        };
        assert_eq!(until_now(&begun), expected);
        assert_eq!(until_now(&changes::place(reader).unwrap()).len(), 0);
        // The snapshot has what was before, and only reads.
        let then = snapshot::structure(seen, "tree").unwrap();
        assert_eq!(map::get(then, b"a").unwrap(), None);
        assert!(changes::place_of("0123").is_err());
        assert_eq!(
            kind(changes::next(home.tree, soon, &mut commit)),
            Some(Kind::Closed)
        );
        assert_eq!(kind(changes::close(home.tree)), Some(Kind::Closed));
        changes::close(reader).unwrap();
        changes::close(reader).unwrap();
        assert_eq!(kind(changes::place(reader)), Some(Kind::Closed));
    };
    assert!(catches(Fault::ChangeLost, all));
}

#[test]
fn closing_ends_the_wait_for_changes() {
    let home = home();
    let reader = changes::begin(home.db, ChangesOptions::new()).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| changes::next(reader, None, &mut Vec::new()));
        database::close(home.db).unwrap();
        assert_eq!(kind(waits.join().unwrap()), Some(Kind::Closed));
    });
}

#[test]
fn ranges_are_removed_where_there_is_an_order() {
    use terrace_ffi::map::Removed;
    let home = home();
    let kinds = [
        terrace::Kind::Tree,
        terrace::Kind::Lsm,
        terrace::Kind::Table,
    ];
    for of in kinds {
        let name = format!("{of}s");
        let of = database::structure(home.db, of, &name, MapOptions::new()).unwrap();
        for i in 0..3_000u32 {
            map::put(of, &i.to_be_bytes(), b"v", None).unwrap();
        }
        let left = || {
            let all = cursor::range(of, Unbounded, Unbounded, false).unwrap();
            windows(all, 1 << 20).unwrap().len()
        };
        let remove = |which, goes_on: &mut dyn FnMut(u64) -> bool| {
            map::remove_all(of, which, None, Rate::Fast, goes_on)
        };
        let (low, high) = (10u32.to_be_bytes(), 20u32.to_be_bytes());
        let some = Removed::Range(Included(&low), Excluded(&high));
        assert_eq!(remove(some, &mut |_| true).unwrap(), 10);
        assert_eq!(left(), 2_990);
        assert_eq!(
            remove(Removed::Prefix(&[0, 0, 1]), &mut |_| true).unwrap(),
            256
        );
        assert_eq!(left(), 2_734);
        // Who is told so ends behind a step.
        let all = Removed::Range(Unbounded, Unbounded);
        let mut told = 0;
        let ended = remove(all, &mut |removed| {
            told = removed;
            false
        });
        assert_eq!(kind(ended), Some(Kind::Cancelled));
        assert!(told > 0 && told < 2_734, "{told}");
        assert_eq!(left() as u64, 2_734 - told);
        assert_eq!(remove(all, &mut |_| true).unwrap(), 2_734 - told);
    }
    let hash = database::structure(home.db, terrace::Kind::Hash, "h", MapOptions::new()).unwrap();
    let refused = map::remove_all(hash, Removed::Prefix(b"a"), None, Rate::Fast, |_| true);
    assert_eq!(kind(refused), Some(Kind::Invalid));
}
