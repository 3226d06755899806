//! Every experiment of the papers behind Terrace by its name: `terrace-papers list`, `run NAME..`, `page`.
#![forbid(unsafe_code)]

mod experiment;
mod others;
mod page;
mod run;
mod tiered;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use experiment::{Experiment, How};
use run::{Plan, Stored};

/// The experiments of the papers behind Terrace, by their names.
#[derive(Parser)]
#[command(name = "terrace-papers", version)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// All names, what they show, and what has come of them so far
    List(Size),
    /// Runs experiments, by their names or what these begin with; goes on where it was cut off
    Run {
        /// Names, such as tiered/fig13a, or tiered, or all
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        size: Size,
    },
    /// Writes the page of everything that was run
    Page {
        #[command(flatten)]
        size: Size,
        /// Where to
        #[arg(long, default_value = "papers.html")]
        to: PathBuf,
    },
}

#[derive(Args, Clone)]
struct Size {
    /// Over ten million records of 128 bytes
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    /// Seconds of warming up, and of measuring, of each run
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// A fiftieth of the size and three seconds: everything within half an hour
    #[arg(long)]
    quick: bool,
    /// Where results are kept
    #[arg(long, default_value = "papers.out")]
    out: PathBuf,
    /// Where databases are made: memory (/dev/shm) is best, as the device is paced anyway
    #[arg(long, default_value = "papers.out/scratch")]
    scratch: PathBuf,
}

impl Size {
    fn plan(&self) -> Result<Plan> {
        if !(self.scale > 0.0 && self.scale <= 10.0 && self.seconds > 0.0) {
            bail!("--scale takes a number above 0, up to 10, and --seconds one above 0");
        }
        let programs = std::env::current_exe()?;
        let programs = programs
            .parent()
            .context("this program lies in no folder")?;
        Ok(Plan {
            scale: if self.quick { 0.02 } else { self.scale },
            seconds: if self.quick { 1.5 } else { self.seconds },
            out: self.out.clone(),
            scratch: self.scratch.clone(),
            programs: programs.into(),
        })
    }
}

/// All experiments, in the order of the papers.
fn experiments() -> Vec<Experiment> {
    [tiered::experiments(), others::experiments()].concat()
}

fn stored(plan: &Plan, of: &Experiment) -> Vec<Stored> {
    let steps = plan.steps(of);
    steps
        .iter()
        .filter_map(|step| plan.stored(of, step))
        .collect()
}

fn list(plan: &Plan) {
    for of in experiments() {
        println!(
            "{:24} {}\n{:24} {}",
            of.name,
            of.shows,
            "",
            page::verdict(&of, &stored(plan, &of))
        );
    }
}

/// Those that are meant; an error for a name that means none.
fn chosen(names: &[String]) -> Result<Vec<Experiment>> {
    let all = experiments();
    for name in names {
        let means = |of: &Experiment| name == "all" || of.name.starts_with(name.as_str());
        if !all.iter().any(means) {
            bail!("there is no experiment {name:?}: `terrace-papers list` says which there are");
        }
    }
    let is_meant = |of: &Experiment| {
        names
            .iter()
            .any(|name| name == "all" || of.name.starts_with(name.as_str()))
    };
    Ok(all.into_iter().filter(is_meant).collect())
}

/// The programs that experiments run; built once.
fn build() -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let args = "build --release -p terrace-cli -p terrace-mem-bench -p terrace-place-bench";
    let status = cargo
        .args(args.split(' '))
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the programs that are measured could not be built: cargo {args}");
    }
    Ok(())
}

fn run_all(plan: &Plan, names: &[String]) -> Result<bool> {
    let chosen = chosen(names)?;
    build()?;
    let mut steps = Vec::new();
    for of in &chosen {
        if let How::Missing(why) = &of.how {
            eprintln!("{}: not there, because {why}", of.name);
        }
        steps.extend(plan.steps(of).into_iter().map(|step| (of, step)));
    }
    let bar = ProgressBar::new(steps.len() as u64);
    let style = ProgressStyle::with_template("{pos}/{len} {wide_bar} {elapsed}, {eta} left  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (began, mut failed) = (Instant::now(), 0);
    for (of, step) in steps {
        bar.set_message(format!("{}: {}", of.name, step.label));
        if plan.stored(of, &step).is_none()
            && let Err(error) = plan.run(of, &step)
        {
            // The others are run all the same.
            bar.suspend(|| eprintln!("{}: {error:#}", of.name));
            failed += 1;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    for of in &chosen {
        println!("{:24} {}", of.name, page::verdict(of, &stored(plan, of)));
    }
    eprintln!(
        "{:.0} s; {failed} runs failed; results are in {}",
        began.elapsed().as_secs_f64(),
        plan.out.display()
    );
    Ok(failed == 0)
}

/// What machine this is, as far as the system says.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("a processor without a name", |name| {
        name.trim_start_matches([' ', '\t', ':'])
    });
    let many = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{many} processors, {model}")
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        What::List(size) => size.plan().map(|plan| {
            list(&plan);
            true
        }),
        What::Run { names, size } => size.plan().and_then(|plan| run_all(&plan, &names)),
        What::Page { size, to } => size.plan().and_then(|plan| {
            let html = page::page(&plan, &experiments(), &machine());
            run::write_whole(&to, &html)?;
            println!("the page is {}", to.display());
            Ok(true)
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("terrace-papers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn plan() -> Plan {
        Plan {
            scale: 0.1,
            seconds: 1.0,
            out: "papers.out".into(),
            scratch: "scratch".into(),
            programs: "programs".into(),
        }
    }

    #[test]
    fn names_are_unique_and_claims_are_of_parts_that_are_run() {
        let all = experiments();
        let names: BTreeSet<_> = all.iter().map(|of| of.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.len() >= 60, "{}", all.len());
        for of in &all {
            let steps = plan().steps(of);
            let labels: BTreeSet<_> = steps.iter().map(|step| step.label.clone()).collect();
            assert_eq!(
                labels.len(),
                steps.len(),
                "{}: labels that come twice",
                of.name
            );
            for claim in &of.holds {
                assert!(
                    labels.contains(&claim.of) && labels.contains(&claim.over),
                    "{}: {claim:?}",
                    of.name
                );
            }
            assert_eq!(
                steps.is_empty(),
                matches!(of.how, How::Missing(_)),
                "{}",
                of.name
            );
        }
    }

    #[test]
    fn a_part_of_a_name_means_all_that_begin_so() {
        let chosen = |name: &str| chosen(&[name.to_owned()]);
        assert_eq!(chosen("tiered/fig13a").unwrap().len(), 1);
        assert!(chosen("hybrid").unwrap().len() > 10);
        assert_eq!(chosen("all").unwrap().len(), experiments().len());
        assert!(chosen("tiered/fig99").is_err());
    }
}
