//! `terrace demo`: the main job on real text, with two tiers and with one.

mod answers;
mod compare;
mod corpus;
mod count;
mod survey;
mod words;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terrace_bench::table::{bytes, count as number};

use crate::args::DemoArgs;
use crate::output::print;
use answers::Answers;
use corpus::Corpus;
use count::{Counting, Outcome};
use survey::Survey;

/// The store gets this part of the bytes of its data as memory,
const MEMORY_PART: u64 = 5;
/// but never less than this: below it is no room for a page of everything.
const LEAST_MEMORY: u64 = 4 << 20;

/// `terrace demo`
pub fn run(args: &DemoArgs) -> Result<ExitCode> {
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
    let say = |text: &str| {
        if args.json {
            Ok(())
        } else {
            print(&format!("{text}\n"))
        }
    };
    let began = Instant::now();
    let corpus = Corpus::find(&args.paths, args.text.0)?;
    say(&format!(
        "Text: {} in {}.",
        bytes(corpus.bytes()),
        corpus.description()
    ))?;

    let survey = Survey::of(&corpus, threads, args.json)?;
    if survey.words < 1000 {
        bail!(
            "there are only {} words in {}: give more text, or other files",
            survey.words,
            corpus.description()
        );
    }
    let data = survey.data_bytes();
    let memory = (data / MEMORY_PART).max(LEAST_MEMORY);
    say(&format!(
        "{} words, of which {} are different, and {} different pairs: counts of {} in all.",
        number(survey.words as f64),
        number(survey.distinct_words as f64),
        number(survey.distinct_pairs as f64),
        bytes(data),
    ))?;
    let share = memory as f64 / data as f64;
    say(&if share <= 1.0 {
        format!(
            "The store gets {} of memory, {:.0} % of that.\n",
            bytes(memory),
            share * 100.0
        )
    } else {
        format!(
            "The store gets {} of memory, the least it can work with. That is more than the data: \
             give more text to see what the memory is used for.\n",
            bytes(memory)
        )
    })?;

    let folder = Folder::create(&args.dir, args.keep)?;
    let left = Duration::from_secs(args.seconds).saturating_sub(began.elapsed());
    let least = Duration::from_secs(1);
    let two = Counting {
        db: folder.path.join("two-tiers"),
        name: "two tiers",
        tiers: 2,
        memory,
        threads,
        units: corpus.units().len(),
        // The other run is slower, and is to do the same: it gets more of the time.
        time: (left * 3 / 10).max(least),
        quiet: args.json,
    };
    let (two_outcome, answers) = counted(&two, &corpus)?;
    if !args.json {
        print(&format!("{answers}\n"))?;
    }
    let left = Duration::from_secs(args.seconds).saturating_sub(began.elapsed());
    let one = Counting {
        db: folder.path.join("one-tier"),
        name: "one tier",
        tiers: 1,
        units: two_outcome.units,
        time: (left * 9 / 10).max(least),
        ..two
    };
    let (one_outcome, other_answers) = counted(&one, &corpus)?;
    if one_outcome.units == two_outcome.units && answers.counts() != other_answers.counts() {
        bail!("two tiers and one tier have counted differently: this is a defect of the store");
    }
    if args.json {
        print(&format!(
            "{}\n",
            compare::json(&survey, memory, &two_outcome, &one_outcome, &answers)
        ))?;
    } else {
        print(&compare::table(&two_outcome, &one_outcome))?;
    }
    folder.remove(|text| say(text))?;
    Ok(ExitCode::SUCCESS)
}

/// Counts, checks that the counts add up, and asks a few questions.
fn counted(counting: &Counting, corpus: &Corpus) -> Result<(Outcome, Answers)> {
    let (store, outcome) = counting.run(corpus)?;
    let answers = Answers::of(&store, counting.quiet)?;
    answers.check(outcome.words, outcome.pairs)?;
    store.db.close()?;
    Ok((outcome, answers))
}

/// The folder of the databases.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn create(path: &Path, keep: bool) -> Result<Self> {
        if path.exists() {
            bail!(
                "{} is there already: delete it if an earlier demo has left it, or choose \
                 another folder with --dir",
                path.display()
            );
        }
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot create the folder {}", path.display()))?;
        Ok(Folder {
            path: path.into(),
            keep,
        })
    }

    fn remove(mut self, say: impl Fn(&str) -> Result<()>) -> Result<()> {
        if self.keep {
            let path = self.path.display();
            return say(&format!(
                "\nThe databases are in {path}. Look into them, for example:\n  \
                 terrace scan {path}/two-tiers -s words --prefix mem --limit 5\n  \
                 terrace stat {path}/two-tiers"
            ));
        }
        self.keep = true;
        std::fs::remove_dir_all(&self.path)
            .with_context(|| format!("cannot delete {}; delete it by hand", self.path.display()))
    }
}

impl Drop for Folder {
    /// Also when something went wrong on the way.
    fn drop(&mut self) {
        if !self.keep {
            // The error that brought us here matters more than one of cleaning up.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
