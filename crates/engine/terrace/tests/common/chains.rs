//! A database that is followed, in every order of writing, giving the log up, making points, stopping, closing,
//! and power cuts; a model says what was so after each change. Whatever is reported to be in the set must be
//! restored, and must be all that was written before the report.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use terrace::{
    BackupOptions, Database, FollowOptions, Follower, Options, Rate, RestoreOptions, RestoreTo,
    Tree, backup_contents_on, restore_on,
};
use terrace_sim::{Call, HookedDisk, Rng, SimDisk};

use super::tiny;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// What is done while a point is made, when its pages are stored and before the manifest has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meanwhile {
    Nothing,
    /// The log is copied.
    Copied,
    /// The log is given up.
    GivenUp,
    /// It is given up, and copied anew.
    GivenUpAndCopied,
}

const MEANWHILE: [Meanwhile; 4] = [
    Meanwhile::Nothing,
    Meanwhile::Copied,
    Meanwhile::GivenUp,
    Meanwhile::GivenUpAndCopied,
];

/// The database, and what was written.
struct Open {
    db: Database,
    tree: Tree,
    model: Records,
    states: BTreeMap<u64, Records>,
    written: u64,
}

impl Open {
    fn new(db: Database, states: BTreeMap<u64, Records>, written: u64) -> Open {
        let tree = db.tree("t").unwrap();
        let model: Records = tree.iter().unwrap().map(Result::unwrap).collect();
        let mut open = Open {
            db,
            tree,
            model,
            states,
            written,
        };
        // What a power cut took back never was.
        let last = open.db.sequence().unwrap();
        open.states.retain(|sequence, _| *sequence <= last);
        open.note();
        open
    }

    fn note(&mut self) {
        let last = self.db.sequence().unwrap();
        self.states.insert(last, self.model.clone());
    }

    fn write(&mut self, bytes: usize) {
        self.written += 1;
        let key = vec![b'a' + (self.written % 4) as u8];
        let mut value = self.written.to_be_bytes().to_vec();
        value.resize(bytes, b'x');
        self.tree.put(&key, &value).unwrap();
        self.model.insert(key, value);
        self.note();
    }

    /// Writes more than is kept for who follows, and lets a checkpoint give it up.
    fn give_up(&mut self) {
        (0..14).for_each(|_| self.write(3500));
        self.db.checkpoint().unwrap();
    }
}

/// Who asked for a copy while a point was made.
type Threads = Mutex<Vec<std::thread::JoinHandle<()>>>;
/// Whoever follows, where a hook finds it, too.
type Follows = Arc<Mutex<Option<Arc<Follower>>>>;

struct Run {
    disk: SimDisk,
    set: SimDisk,
    hooked: HookedDisk,
    open: Arc<Mutex<Option<Open>>>,
    follows: Follows,
    meanwhile: Arc<Mutex<Meanwhile>>,
    /// The last change that was reported to be in the set.
    reported: u64,
    threads: Arc<Threads>,
    seed: u64,
    openings: u64,
}

fn options(seed: u64) -> Options {
    tiny(seed).archive_lag(20 << 10)
}

fn fast() -> FollowOptions {
    FollowOptions::new().rate(Rate::Fast)
}

/// How many files and chains of log a set has, and up to where.
fn archived(set: &SimDisk) -> Option<(usize, u64)> {
    let all = backup_contents_on(set.shared()).ok()?;
    Some((all.logs.len(), all.logs.last().map_or(0, |log| log.last)))
}

/// What happens while the manifest of a point is about to be written. Who follows is asked from another
/// thread: if it wants a point of its own, it waits for this one.
fn happens(
    what: Meanwhile,
    open: &Mutex<Option<Open>>,
    follows: &Mutex<Option<Arc<Follower>>>,
    set: &SimDisk,
    threads: &Threads,
) {
    if [Meanwhile::GivenUp, Meanwhile::GivenUpAndCopied].contains(&what)
        && let Some(open) = &mut *open.lock().unwrap()
    {
        open.give_up();
    }
    let copies = [Meanwhile::Copied, Meanwhile::GivenUpAndCopied].contains(&what);
    let follower = follows.lock().unwrap().clone();
    if let Some(follower) = follower.filter(|_| copies) {
        // So that there is something new to copy.
        if let Some(open) = &mut *open.lock().unwrap() {
            open.write(40);
        }
        let before = archived(set);
        let thread = std::thread::spawn(move || {
            // An error shows in the set, and in what is reported next.
            let _ = follower.archive();
        });
        while archived(set) == before && !thread.is_finished() {
            std::thread::yield_now();
        }
        threads.lock().unwrap().push(thread);
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let (disk, set) = (SimDisk::new(seed), SimDisk::new(seed + 1));
        let open: Arc<Mutex<Option<Open>>> = Arc::default();
        let follows: Follows = Arc::default();
        let meanwhile = Arc::new(Mutex::new(Meanwhile::Nothing));
        let threads: Arc<Threads> = Arc::default();
        let hook = {
            let (open, follows): (_, Weak<_>) = (Arc::downgrade(&open), Arc::downgrade(&follows));
            let (set, meanwhile) = (set.clone(), meanwhile.clone());
            let threads = threads.clone();
            move |call: Call<'_>| {
                let Call::Create(name) = call else { return };
                if !name.ends_with(".map") {
                    return;
                }
                let what = std::mem::replace(&mut *meanwhile.lock().unwrap(), Meanwhile::Nothing);
                if let (Some(open), Some(follows)) = (open.upgrade(), follows.upgrade()) {
                    happens(what, &open, &follows, &set, &threads);
                }
            }
        };
        let hooked = HookedDisk::new(set.shared(), hook);
        let mut run = Run {
            disk,
            set,
            hooked,
            open,
            follows,
            meanwhile,
            reported: 0,
            threads,
            seed,
            openings: 0,
        };
        run.reopen(BTreeMap::new(), 0);
        run
    }

    fn reopen(&mut self, states: BTreeMap<u64, Records>, written: u64) {
        self.openings += 1;
        let seed = self.seed * 100 + self.openings;
        let db = Database::open_on(self.disk.shared(), options(seed)).unwrap();
        *self.open.lock().unwrap() = Some(Open::new(db, states, written));
    }

    fn with<T>(&self, call: impl FnOnce(&mut Open) -> T) -> T {
        call(self.open.lock().unwrap().as_mut().unwrap())
    }

    fn db(&self) -> Database {
        self.with(|open| open.db.clone())
    }

    fn follower(&self) -> Option<Arc<Follower>> {
        self.follows.lock().unwrap().clone()
    }

    fn during(&self, rng: &mut Rng) {
        let what = MEANWHILE[rng.below(4) as usize];
        *self.meanwhile.lock().unwrap() = what;
    }

    fn follow(&mut self) {
        if self.follower().is_none() {
            let set = Arc::new(self.hooked.clone());
            let follower = self.db().follow_on(set, fast()).unwrap();
            *self.follows.lock().unwrap() = Some(Arc::new(follower));
        }
    }

    /// Takes the follower; whoever waited for a point has it by then.
    fn take(&mut self) -> Option<Follower> {
        let mut follower = self.follows.lock().unwrap().take()?;
        loop {
            match Arc::try_unwrap(follower) {
                Ok(follower) => return Some(follower),
                Err(still) => follower = still,
            }
            std::thread::yield_now();
        }
    }

    fn restored(&self, to: RestoreTo) -> (Records, u64) {
        let disk = SimDisk::new(78);
        let options = RestoreOptions::new().to(to).verify(false).up_to_break(true);
        let options = options.options(tiny(773));
        let report = restore_on(self.set.shared(), disk.shared(), options).unwrap();
        let db = Database::open_on(disk.shared(), tiny(774)).unwrap();
        let tree = db.tree("t").unwrap();
        let found = tree.iter().unwrap().map(Result::unwrap).collect();
        (found, report.sequence)
    }

    /// Waits for whoever waited for a point.
    fn settle(&self) {
        for thread in std::mem::take(&mut *self.threads.lock().unwrap()) {
            thread.join().unwrap();
        }
    }

    /// This change was reported, and it is the newest that there was, if `all`.
    fn is_reported(&mut self, sequence: u64, least: u64, context: &str) {
        self.settle();
        assert!(sequence >= least, "{context}: {sequence}, and {least} was");
        self.reported = sequence;
        self.check(context);
    }

    /// What was reported is there, and what is there is what was written.
    fn check(&self, context: &str) {
        if self.reported == 0 {
            return;
        }
        let at = |sequence: u64| {
            self.with(|open| {
                let mut until = open.states.range(..=sequence);
                until.next_back().map(|(_, state)| state.clone()).unwrap()
            })
        };
        let (found, _) = self.restored(RestoreTo::Sequence(self.reported));
        assert!(found == at(self.reported), "{context}: another state");
        let (found, newest) = self.restored(RestoreTo::Latest);
        assert!(
            newest >= self.reported,
            "{context}: {newest} is the newest, {} was reported",
            self.reported
        );
        assert!(found == at(newest), "{context}: another newest state");
    }

    fn step(&mut self, rng: &mut Rng, context: &str) {
        let last = self.db().sequence().unwrap();
        let what = rng.below(16);
        let context = &format!("{context}: {what}");
        match what {
            0..3 => self.with(|open| open.write(40)),
            3 => {
                self.db().checkpoint().unwrap();
            }
            4..6 => self.with(Open::give_up),
            6..9 => {
                self.during(rng);
                if let Some(follower) = self.follower() {
                    let reported = follower.archive().unwrap();
                    self.is_reported(reported, last, context);
                }
            }
            9..11 => {
                self.during(rng);
                let options = BackupOptions::new().rate(Rate::Fast);
                let made = self.db().backup_on(Arc::new(self.hooked.clone()), options);
                let made = made.unwrap();
                self.is_reported(made.sequence, last, context);
            }
            11..13 => {
                self.during(rng);
                // Who follows already need not have copied all of it.
                let least = if self.follower().is_some() { 0 } else { last };
                self.follow();
                let reported = self.follower().unwrap().status().sequence;
                self.is_reported(reported, least, context);
            }
            13 => {
                self.during(rng);
                if let Some(follower) = self.take() {
                    let status = follower.stop().unwrap();
                    self.is_reported(status.sequence, last, context);
                }
            }
            14 => {
                self.during(rng);
                let is_followed = self.follower().is_some();
                self.db().close().unwrap();
                let status = self.take().map(|follower| follower.status());
                let open = self.open.lock().unwrap().take().unwrap();
                let (states, written) = (open.states, open.written);
                drop((open.tree, open.db));
                self.reopen(states, written);
                if is_followed {
                    let status = status.unwrap();
                    assert_eq!(status.error, None, "{context}");
                    self.is_reported(status.sequence, last, context);
                }
            }
            _ => {
                let left = self.disk.crash(rng.next_u64());
                // The process is gone: it must not archive any more.
                self.disk
                    .inject(terrace_sim::Injection::any(1, terrace_sim::Fault::PowerCut));
                let follower = self.take();
                let open = self.open.lock().unwrap().take().unwrap();
                let (states, written) = (open.states, open.written);
                drop((follower, open.tree, open.db));
                self.disk = left;
                self.reopen(states, written);
                self.check(context);
            }
        }
        self.settle();
        *self.meanwhile.lock().unwrap() = Meanwhile::Nothing;
    }
}

/// One order of `steps` steps.
pub fn chains(seed: u64, steps: u64) {
    let mut rng = Rng::new(seed);
    let mut run = Run::new(seed);
    run.with(|open| open.write(40));
    for step in 0..steps {
        run.step(&mut rng, &format!("seed {seed}, step {step}"));
    }
    drop(run.take());
}
