//! The next command: what who has just begun may have meant, or can do about an error.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, error::ErrorKind};

use crate::args::Cli;
use crate::engine::Error;
use crate::other::Other;

/// What `terrace` alone prints.
const START: &str = "\
terrace keeps keys and values in a folder, in the memory that you give it.

  terrace put people.db alice Berlin      the first record; the folder is made
  terrace get people.db alice             read it
  terrace load people.db --format csv --key email people.csv
  terrace stat people.db                  where the records live, where the memory goes
  terrace serve people.db                 for any client of Redis
  terrace demo                            what it is for, in half a minute
  terrace doctor people.db                what of this machine would bite it
  terrace help                            all commands
";

/// Words of other tools, and the command that does it here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("add", "put"),
    ("check", "verify"),
    ("compress", "compact"),
    ("copy", "backup create"),
    ("count", "stat"),
    ("create", "put"),
    ("del", "delete"),
    ("export", "dump"),
    ("find", "scan"),
    ("fsck", "verify"),
    ("info", "stat"),
    ("insert", "put"),
    ("keys", "scan"),
    ("list-keys", "scan"),
    ("ls", "list"),
    ("monitor", "top"),
    ("mv", "rename"),
    ("open", "view"),
    ("query", "scan"),
    ("read", "get"),
    ("remove", "delete"),
    ("repair", "verify"),
    ("rm", "delete"),
    ("save", "checkpoint"),
    ("server", "serve"),
    ("set", "put"),
    ("show", "get"),
    ("size", "plan"),
    ("start", "serve"),
    ("stats", "stat"),
    ("status", "stat"),
    ("tail", "changes"),
    ("vacuum", "compact"),
    ("watch", "changes"),
    ("web", "view"),
    ("write", "put"),
];

/// Databases that are named where the one that was asked for is not there.
const NAMED: usize = 3;

/// What is said instead of clap's words, if there is something better.
pub fn of_arguments(error: &clap::Error) -> Option<String> {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        && std::env::args_os().len() == 1
    {
        return Some(START.into());
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    // Of a command of commands clap knows better.
    let first = std::env::args_os().nth(1);
    if first.is_none_or(|first| first.to_string_lossy() != *word) {
        return None;
    }
    let meant = match command_for(word) {
        Some(command) => format!("did you mean `terrace {command}`?"),
        None if Path::new(word).exists() || word.contains(['.', '/']) => format!(
            "a command comes first: `terrace stat {word}` shows what is there, `terrace get {word} KEY` reads a record"
        ),
        None => "`terrace help` lists the commands".into(),
    };
    Some(format!("terrace: there is no command {word}: {meant}\n"))
}

/// The command that a word stands for.
fn command_for(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    if let Some((_, command)) = ELSEWHERE.iter().find(|(known, _)| *known == word) {
        return Some((*command).into());
    }
    let commands = Cli::command();
    let near = commands
        .get_subcommands()
        .flat_map(|command| std::iter::once(command.get_name()).chain(command.get_all_aliases()))
        .map(|name| (distance(&word, name), name))
        .min()?;
    // Two slips in a word of three letters are another word.
    let most = if word.chars().count() <= 4 { 1 } else { 2 };
    (near.0 <= most).then(|| near.1.into())
}

/// Letters that are too many, missing, wrong, or changed with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let other = usize::from(a[i - 1] != b[j - 1]);
                    let mut least = (rows[i - 1][j - 1] + other)
                        .min(rows[i - 1][j] + 1)
                        .min(rows[i][j - 1] + 1);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        least = least.min(rows[i - 2][j - 2] + 1);
                    }
                    least
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

/// What to do about an error of a command on the database in a folder.
pub fn of_error(error: &anyhow::Error, folder: &Path) -> Option<String> {
    let shown = folder.display();
    match error.downcast_ref::<Error>() {
        Some(Error::Locked { .. }) => {
            let who = holder(folder).map_or(String::new(), |who| format!("{who} has it; "));
            Some(match Other::find(folder) {
                Ok(Some(_)) => {
                    format!("{who}it answers `terrace stat {shown}`, `top`, `view` and `backup`")
                }
                _ => format!("{who}`fuser {shown}/LOCK` says which process it is"),
            })
        }
        Some(Error::Corrupt { .. }) => Some(format!(
            "`terrace verify {shown}` lists all damage; `terrace restore SET NEW` makes a new one of a backup"
        )),
        Some(Error::DiskFull { .. }) => Some(format!(
            "`df {shown}` says how much is free; `terrace compact {shown}` gives back what was deleted"
        )),
        Some(_) => None,
        None if !folder.exists() => {
            let beside = databases_beside(folder);
            (!beside.is_empty()).then(|| format!("there are databases beside it: {beside}"))
        }
        None => None,
    }
}

/// The process that has locked a folder, as the kernel tells it.
fn holder(folder: &Path) -> Option<String> {
    let file = fs::metadata(folder.join("LOCK")).ok()?;
    let device = file.dev();
    let (major, minor) = (
        (device >> 8) & 0xFFF | (device >> 32) & !0xFFF,
        device & 0xFF | (device >> 12) & !0xFF,
    );
    let locked = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| {
        // 1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF
        let parts: Vec<&str> = line.split_whitespace().collect();
        (*parts.get(5)? == locked).then(|| parts[4].to_owned())
    })?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("process {pid} ({})", name.trim()))
}

/// Folders beside one that is not there that are databases.
fn databases_beside(folder: &Path) -> String {
    let parent = match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return String::new(),
    };
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("data").is_file() && entry.path().join("LOCK").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.truncate(NAMED);
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_near_or_from_elsewhere_are_understood() {
        for (word, command) in [
            ("gte", "get"),
            ("lod", "load"),
            ("verfy", "verify"),
            ("chekpoint", "checkpoint"),
            ("ls", "list"),
            ("SET", "put"),
            ("vacuum", "compact"),
            ("improt", "import"),
        ] {
            assert_eq!(command_for(word).as_deref(), Some(command), "{word}");
        }
        for word in ["", "people", "xyz"] {
            assert_eq!(command_for(word), None, "{word}");
        }
    }

    #[test]
    fn every_word_from_elsewhere_leads_to_a_command_and_is_none() {
        let commands = Cli::command();
        for (word, command) in ELSEWHERE {
            let first = command.split(' ').next().unwrap();
            assert!(commands.find_subcommand(first).is_some(), "{command}");
            assert!(commands.find_subcommand(word).is_none(), "{word}");
        }
    }

    #[test]
    fn slips_are_counted() {
        for (a, b, slips) in [
            ("get", "get", 0),
            ("gte", "get", 1),
            ("", "get", 3),
            ("stat", "scan", 2),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (slips, slips), "{a} {b}");
        }
    }
}
