//! `terrace demo`: what Terrace is for. Many profiles, of which few are used at a time, in little memory: with two
//! tiers, with one, and, if it is built with it, in another store. What they read and write is counted.

mod check;
mod compare;
mod folder;
mod ours;
mod people;
#[cfg(feature = "peers-demo")]
mod redb;
mod stop;
mod store;
mod visits;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terrace_bench::Distribution;
use terrace_bench::numbers::{bytes, count as number};
use terrace_bench::resident;

use crate::args::{DemoArgs, Spread};
use crate::output::{print, tell};
use crate::watch;
use check::Counts;
use folder::Folder;
use ours::Ours;
use people::{GROUP, MOST_PEOPLE, People, Person};
use store::Store;
use visits::{Outcome, Visits};

/// The engine cannot work with less.
const LEAST_MEMORY: u64 = 5 << 19;
/// Fewer people would have nothing to show.
const LEAST_PEOPLE: u64 = 1000;

impl Spread {
    fn distribution(self) -> Distribution {
        match self {
            Spread::Hot => Distribution::Hotspot {
                records: 0.03,
                accesses: 0.95,
            },
            Spread::Zipf => Distribution::Zipf { theta: 0.99 },
            Spread::Even => Distribution::Uniform,
        }
    }

    fn story(self) -> &'static str {
        match self {
            Spread::Hot => "3 of 100 people are here today, and make 95 of 100 visits.",
            Spread::Zipf => {
                "Who comes second comes half as often as the first, who comes third a third, and so on (Zipf, .99)."
            }
            Spread::Even => {
                "Everybody comes equally often: there is nothing to gain from two tiers."
            }
        }
    }
}

/// `terrace demo`
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    if let Some(path) = &args.janitor {
        return folder::janitor(path);
    }
    let demo = Demo::new(args)?;
    stop::watch();
    let folder = Folder::create(&args.dir, args.keep)?;
    let shown = demo.show(&folder);
    // Only now are all databases closed.
    let ended = folder.remove(|text| demo.say(text));
    match shown {
        Err(error) if error.is::<stop::Stopped>() => {
            ended?;
            tell(match args.keep {
                true => "terrace: stopped",
                false => "terrace: stopped; what was written is deleted",
            });
            Ok(ExitCode::from(stop::INTERRUPTED))
        }
        shown => {
            shown?;
            ended?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

struct Demo<'a> {
    args: &'a DemoArgs,
    threads: usize,
    began: Instant,
    people: People,
}

impl<'a> Demo<'a> {
    fn new(args: &'a DemoArgs) -> Result<Self> {
        let threads = match args.threads {
            Some(n @ 1..=256) => n,
            Some(n) => bail!("--threads takes a number from 1 to 256, not {n}"),
            None => std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(4),
        };
        if args.seconds == 0 {
            bail!("--seconds takes a number of seconds above 0");
        }
        if !(LEAST_PEOPLE..=MOST_PEOPLE).contains(&args.people) {
            bail!("--people takes a number from {LEAST_PEOPLE} to {MOST_PEOPLE}");
        }
        if args.memory.0 < LEAST_MEMORY {
            bail!("--memory takes {} or more", bytes(LEAST_MEMORY));
        }
        if args.visits < GROUP {
            bail!("--visits takes a number from {GROUP} on");
        }
        Ok(Demo {
            args,
            threads,
            began: Instant::now(),
            people: People::new(args.people, args.spread.distribution()),
        })
    }

    fn say(&self, text: &str) -> Result<()> {
        match self.args.json {
            true => Ok(()),
            false => print(&format!("{text}\n")),
        }
    }

    /// What is left of the time.
    fn left(&self) -> Duration {
        Duration::from_secs(self.args.seconds).saturating_sub(self.began.elapsed())
    }

    /// The time for the visits of the next of `stores` stores that are left, each of which takes `beside` for
    /// loading and checking.
    fn share(&self, beside: Duration, stores: u32) -> Duration {
        (self.left().saturating_sub(beside * stores) / stores).max(Duration::from_secs(1))
    }

    fn data_bytes(&self) -> u64 {
        let mut person = Person::default();
        let bytes = |number| {
            self.people.write(number, &mut person);
            (person.key.len() + people::encode(0, &person.text).len()) as u64
        };
        (0..self.people.count).map(bytes).sum()
    }

    /// Everything, while the folder is there.
    fn show(&self, folder: &Folder) -> Result<()> {
        let args = self.args;
        let (data, memory) = (self.data_bytes(), args.memory.0);
        let part = memory as f64 / data as f64 * 100.0;
        let little = if part > 50.0 {
            "\nThat is a lot for so little data: more people show what the memory is used for."
        } else {
            ""
        };
        self.say(&format!(
            "{} profiles of people, {}, in a store that has {} of memory for everything: {part:.0} % of \
             that.{little}\n{}\nA visit reads a profile; every second one counts itself there.",
            number(args.people as f64),
            bytes(data),
            bytes(memory),
            args.spread.story(),
        ))?;

        let path = folder.path.join(folder::TWO);
        let mut direct = false;
        let two = Visits {
            name: "two tiers",
            threads: self.threads,
            groups: args.visits / GROUP,
            // The other runs are slower, and are to do the same: they get more of the time.
            time: (self.left() / 4).max(Duration::from_secs(1)),
            quiet: args.json,
        };
        let two = self.measured(folder, folder::TWO, two, || {
            let ours = Ours::create(&path, 2, memory)?;
            direct = ours.goes_around_cache();
            Ok(ours)
        })?;
        let groups = two.groups;
        let beside = self
            .began
            .elapsed()
            .saturating_sub(Duration::from_secs_f64(two.seconds));
        let stores = if cfg!(feature = "peers-demo") { 2 } else { 1 };
        let one = Visits {
            name: "one tier",
            threads: self.threads,
            groups,
            time: self.share(beside, stores),
            quiet: args.json,
        };
        let path = folder.path.join(folder::ONE);
        let one = self.measured(folder, folder::ONE, one, || Ours::create(&path, 1, memory))?;
        let mut all = vec![two, one];
        self.peers(folder, (groups, beside), &mut all)?;

        let counts = Counts::of(&self.people, groups)?;
        let top = counts.top(&self.people);
        if args.json {
            return print(&format!("{}\n", self.json(&all, data, direct, &counts)));
        }
        print(&format!(
            "\n{}\n{}\n",
            self.head(direct),
            compare::table(&all)
        ))?;
        print(&format!("{}\n", compare::bars(&all, watch::is_unicode())))?;
        let top: Vec<_> = top.iter().map(|(name, n)| format!("{name} {n}")).collect();
        self.say(&format!(
            "Most often: {}.\n\
             Every profile was read again at the end, and has all its visits.{}",
            top.join(", "),
            if cfg!(feature = "peers-demo") {
                ""
            } else {
                "\nTo see redb beside them: cargo run --release -p terrace-cli --features peers-demo -- demo"
            }
        ))
    }

    /// What all have in common.
    fn head(&self, direct: bool) -> String {
        let cache = if direct {
            "Reads go around the cache of the operating system for all (direct I/O)"
        } else {
            "This file system has no direct I/O: the cache of the operating system answers reads, too, and what is \
             counted is what the stores asked for"
        };
        let redb = if cfg!(feature = "peers-demo") {
            "\nredb counts a thousand visits in one transaction; Terrace acknowledges each as it comes."
        } else {
            ""
        };
        format!(
            "{cache}.\nAll have {} of memory, {} threads, and make a thousand visits durable at a time. The first \
             visits find it cold.{redb}\n",
            bytes(self.args.memory.0),
            self.threads,
        )
    }

    /// Opens a store, loads it, makes the visits, checks all it has, closes it, and deletes it.
    fn measured<S: Store>(
        &self,
        folder: &Folder,
        part: &'static str,
        visits: Visits,
        open: impl FnOnce() -> Result<S>,
    ) -> Result<Outcome> {
        let name = visits.name;
        let peak_is_from_here = resident::reset_peak();
        let context = || format!("{name} failed");
        let store = open().with_context(context)?;
        let page = self
            .args
            .view
            .map(|address| store.page(&folder.path.join(part), address));
        let page = page.transpose()?;
        let outcome = visits.run(&store, &self.people, peak_is_from_here);
        let outcome = outcome.map_err(|error| failed(error, name))?;
        let counts = Counts::of(&self.people, outcome.groups)?;
        let checked = counts.check(&self.people, &store, self.args.json);
        checked.map_err(|error| failed(error, name))?;
        drop(page);
        store.close()?;
        if !self.args.keep {
            folder.remove_part(part)?;
        }
        self.say(&format!(
            "{name}: {} visits in {:.1} s, {:.3} reads of the device for each.",
            number(outcome.visits() as f64),
            outcome.seconds,
            outcome.each(outcome.moved.reads)
        ))?;
        Ok(outcome)
    }

    #[cfg(feature = "peers-demo")]
    fn peers(
        &self,
        folder: &Folder,
        (groups, beside): (u64, Duration),
        all: &mut Vec<Outcome>,
    ) -> Result<()> {
        let visits = Visits {
            name: redb::NAME,
            threads: self.threads,
            groups,
            time: self.share(beside, 1),
            quiet: self.args.json,
        };
        let path = folder.path.join(folder::OTHER);
        let open = || redb::Redb::create(&path, self.args.memory.0);
        all.push(self.measured(folder, folder::OTHER, visits, open)?);
        Ok(())
    }

    #[cfg(not(feature = "peers-demo"))]
    fn peers(&self, _: &Folder, _: (u64, Duration), _: &mut Vec<Outcome>) -> Result<()> {
        Ok(())
    }

    fn json(&self, all: &[Outcome], data: u64, direct: bool, counts: &Counts) -> Value {
        let top: Vec<_> = { counts.top(&self.people) }
            .into_iter()
            .map(|(name, n)| json!({ "name": name, "visits": n }))
            .collect();
        let mut value = json!({
            "people": self.people.count,
            "data_bytes": data,
            "memory_bytes": self.args.memory.0,
            "threads": self.threads,
            "direct_io": direct,
            "counted_visits": counts.sum(),
            "most_often": top,
        });
        if let Value::Object(object) = &mut value {
            object.extend(compare::json(all));
        }
        value
    }
}

/// The error with the name of the store; that of an interruption stays as it is.
fn failed(error: anyhow::Error, name: &str) -> anyhow::Error {
    match error.is::<stop::Stopped>() {
        true => error,
        false => error.context(format!("{name} failed")),
    }
}
