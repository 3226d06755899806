//! Every experiment of the papers behind Terrace by its name: `terrace-papers list`, `run NAME..`, `page`.
#![forbid(unsafe_code)]

mod experiment;
mod held;
mod others;
mod page;
mod plan;
mod tiered;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};

use experiment::{Experiment, How, Verdict};
use plan::Plan;
use terrace_papers::results::{Progress, Results, write_whole};

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
        /// The programs that are measured were built with --release: they lie beside this one
        #[arg(long)]
        built: bool,
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
    /// A fiftieth of the size, a second and a half, and of what is varied the ends: everything within half an hour
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
            quick: self.quick,
            results: Results::new(self.out.clone()),
            scratch: self.scratch.clone(),
            programs: programs.into(),
        })
    }
}

/// All experiments, in the order of the papers.
fn experiments() -> Vec<Experiment> {
    [tiered::experiments(), others::experiments()].concat()
}

fn verdict(plan: &Plan, of: &Experiment) -> String {
    let (all, whole) = plan.measured(of);
    Verdict::of(of, whole, &all).text()
}

fn list(plan: &Plan) {
    for of in experiments() {
        let verdict = verdict(plan, &of);
        println!("{:24} {}\n{:24} {verdict}", of.name, of.shows, "");
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
    let args = "build --release -p terrace-cli -p terrace-mem-bench -p terrace-place-bench -p terrace-oltp";
    let status = cargo
        .args(args.split(' '))
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the programs that are measured could not be built: cargo {args}");
    }
    Ok(())
}

fn run_all(plan: &Plan, names: &[String], built: bool) -> Result<bool> {
    let chosen = chosen(names)?;
    if !built {
        build()?;
    }
    let mut steps = Vec::new();
    for of in &chosen {
        if let How::Missing(why) = &of.how {
            eprintln!("{}: not there, because {why}", of.name);
        }
        steps.extend(plan.steps(of).into_iter().map(|step| (of, step)));
    }
    let (mut progress, mut failed) = (Progress::new(steps.len()), 0);
    for (of, step) in steps {
        // Other experiments may have run the same.
        let ran = plan.stored(&step).is_none();
        let name = format!("{}: {}", of.name, step.label);
        if ran && let Err(error) = plan.run(&step) {
            // The others are run all the same.
            eprintln!("{name}: {error:#}");
            failed += 1;
        }
        progress.step(&name, ran);
    }
    for of in &chosen {
        println!("{:24} {}", of.name, verdict(plan, of));
    }
    eprintln!(
        "{:.0} s; {failed} runs failed; results are in {}",
        progress.seconds(),
        plan.results.folder().display()
    );
    Ok(failed == 0)
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        What::List(size) => size.plan().map(|plan| {
            list(&plan);
            true
        }),
        What::Run { names, built, size } => {
            size.plan().and_then(|plan| run_all(&plan, &names, built))
        }
        What::Page { size, to } => size.plan().and_then(|plan| {
            let html = page::page(&plan, &experiments());
            write_whole(&to, &html)?;
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

    fn plan(quick: bool) -> Plan {
        Plan {
            scale: 0.1,
            seconds: 1.0,
            quick,
            results: Results::new("papers.out".into()),
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
        for (of, quick) in all.iter().flat_map(|of| [(of, false), (of, true)]) {
            let steps = plan(quick).steps(of);
            let labels: BTreeSet<_> = steps.iter().map(|step| step.label.clone()).collect();
            assert_eq!(labels.len(), steps.len(), "{}: labels twice", of.name);
            let commands: BTreeSet<_> = steps.iter().map(|step| step.command()).collect();
            assert_eq!(commands.len(), steps.len(), "{}: commands twice", of.name);
            if matches!(of.how, How::Engine(_)) {
                for claim in &of.holds {
                    let named = std::iter::once(&claim.of).chain(&claim.over);
                    for label in named {
                        assert!(labels.contains(label), "{}: {claim:?}", of.name);
                    }
                }
            }
            let missing = matches!(of.how, How::Missing(_));
            assert_eq!(steps.is_empty(), missing, "{}", of.name);
        }
    }

    #[test]
    fn whatever_is_run_is_held_to_something() {
        let shown = ["sinlk/fig1", "sinlk/fig16", "hybrid/table2"];
        for of in experiments() {
            let free = matches!(of.how, How::Missing(_)) || shown.contains(&of.name);
            assert_eq!(of.holds.is_empty(), free, "{}", of.name);
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
