//! `terrace demo`: the main job on real text, with two tiers, with one, and with another store.

mod answers;
mod compare;
mod corpus;
mod count;
mod folder;
mod grams;
mod other;
mod survey;
mod words;

use anyhow::{Result, bail};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terrace_bench::numbers::{bytes, count as number};

use crate::args::DemoArgs;
use crate::output::print;
use answers::Answers;
use corpus::Corpus;
use count::{Counting, Outcome};
use folder::Folder;
use other::Other;
use survey::Survey;

/// The store gets this part of the bytes of its data as memory,
const MEMORY_PART: u64 = 5;
/// but never less than this: the engine cannot work with less.
const LEAST_MEMORY: u64 = 5 << 19;

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
    if let Some(path) = &args.janitor {
        return folder::janitor(path);
    }
    let began = Instant::now();
    let all = Duration::from_secs(args.seconds);
    let corpus = Corpus::find(&args.paths, args.text.0)?;
    say(&format!("Reading text from {}.", corpus.description()))?;
    let survey = Survey::of(&corpus, threads, args.data.0, all / 8, args.json)?;
    if survey.words < 1000 {
        bail!(
            "there are only {} words in {}: give more text, or other files",
            survey.words,
            corpus.description()
        );
    }
    let data = survey.data_bytes;
    let memory = (data / MEMORY_PART).max(LEAST_MEMORY);
    let [words, pairs, triples] = survey.distinct.map(|n| number(n as f64));
    say(&format!(
        "{} of it have {} words: {words} different ones, {pairs} different pairs, {triples} \
         different triples.\nFor each the store keeps how often it was seen, and where last: {} \
         of records.",
        bytes(survey.text_bytes),
        number(survey.words as f64),
        bytes(data),
    ))?;
    let share = memory as f64 / data as f64;
    say(&if share <= 0.5 {
        format!(
            "The store gets {} of memory, {:.0} % of that.\n",
            bytes(memory),
            share * 100.0
        )
    } else {
        format!(
            "The store gets {} of memory, the least it can work with. That is a lot for so little \
             data: give more text to see what the memory is used for.\n",
            bytes(memory)
        )
    })?;

    let folder = Folder::create(&args.dir, args.keep)?;
    let left = all.saturating_sub(began.elapsed());
    let least = Duration::from_secs(1);
    let two = Counting {
        db: folder.path.join(folder::TWO),
        name: "two tiers",
        tiers: 2,
        memory,
        threads,
        units: survey.units,
        // The other runs are slower, and are to do the same: they get more of the time.
        time: (left * 2 / 10).max(least),
        quiet: args.json,
        view: args.view,
    };
    say("Counting with two tiers ...")?;
    let (two_outcome, answers) = counted(&two, &corpus)?;
    if two_outcome.units < survey.units {
        say(&format!(
            "The time was over after {:.0} % of the text.",
            two_outcome.units as f64 / survey.units as f64 * 100.0
        ))?;
    }
    let left = all.saturating_sub(began.elapsed());
    let one = Counting {
        db: folder.path.join(folder::ONE),
        name: "one tier",
        tiers: 1,
        units: two_outcome.units,
        time: (left * 45 / 100).max(least),
        ..two
    };
    say("Counting with one tier, which keeps pages in memory as other stores do ...\n")?;
    let (one_outcome, other_answers) = counted(&one, &corpus)?;
    if one_outcome.units == two_outcome.units && answers.counts() != other_answers.counts() {
        bail!("two tiers and one tier have counted differently: this is a defect of the store");
    }
    let left = all.saturating_sub(began.elapsed());
    let other = Counting {
        db: folder.path.join(folder::OTHER),
        name: other::NAME,
        time: (left * 9 / 10).max(least),
        ..one
    };
    say("Counting with redb, one transaction for each piece of the text ...\n")?;
    let (store, other_outcome) = Other::run(&other, &corpus)?;
    let others = Answers::of(&store, args.json)?;
    others.check(other_outcome.counted)?;
    if other_outcome.units == two_outcome.units && answers.counts() != others.counts() {
        bail!("Terrace and redb have counted differently: this is a defect of one of them");
    }
    drop(store);
    if args.json {
        print(&format!(
            "{}\n",
            compare::json(
                &survey,
                memory,
                [&two_outcome, &one_outcome, &other_outcome],
                &answers
            )
        ))?;
    } else {
        print(&compare::table(&two_outcome, &one_outcome, &other_outcome))?;
        print(&format!("\n{answers}"))?;
    }
    folder.remove(|text| say(text))?;
    Ok(ExitCode::SUCCESS)
}

/// Counts, checks that the counts add up, and asks a few questions.
fn counted(counting: &Counting, corpus: &Corpus) -> Result<(Outcome, Answers)> {
    let (store, outcome) = counting.run(corpus)?;
    let answers = Answers::of(&store, counting.quiet)?;
    answers.check(outcome.counted)?;
    store.db.close()?;
    Ok((outcome, answers))
}
