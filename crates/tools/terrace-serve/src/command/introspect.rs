//! `COMMAND`: the commands as Redis describes them.

use super::args::Args;
use super::call::Call;
use super::table::{self, COMMANDS, Command, Keys, Table};
use crate::proto::reply::Reply;
use crate::stop::{Run, refuse};

/// The words of Redis for what is known of a command.
fn words(command: &Command) -> Vec<&'static str> {
    let known = [
        (table::W, "write"),
        (table::R, "readonly"),
        (table::ADDS, "denyoom"),
        (table::ADMIN, "admin"),
        (table::NO_SCRIPT, "noscript"),
        (table::OPEN, "no_auth"),
        (table::WAITS, "blocking"),
        (table::RECORD, "fast"),
    ];
    let has = |(flag, _): &&(u32, &str)| command.flags & flag != 0;
    let mut words: Vec<&str> = known.iter().filter(has).map(|(_, word)| *word).collect();
    if matches!(command.keys, Keys::Counted(_) | Keys::First | Keys::Streams) {
        words.push("movablekeys");
    }
    words
}

fn describe(out: &mut Reply, command: &Command) {
    let (first, last, step) = match command.keys {
        Keys::Range(first, last, step) => (first, last, step),
        Keys::First | Keys::Store(_) => (1, 1, 1),
        _ => (0, 0, 0),
    };
    out.array(10);
    out.bulk(command.name);
    out.number(command.arity.into());
    let words = words(command);
    out.set(words.len());
    words.iter().for_each(|word| out.simple(word));
    out.number(first.into());
    out.number(last.into());
    out.number(step.into());
    out.set(1);
    out.simple(&format!(
        "@{}",
        command.group.replace("sorted-set", "sortedset")
    ));
    // Tips, specifications of keys, subcommands.
    for _ in 0..3 {
        out.array(0);
    }
}

/// `COMMAND`.
pub fn command(c: &mut Call, table: &Table) -> Run {
    let find = |name: &[u8]| table.find(name).map(|i| &COMMANDS[i]);
    let arguments = c.args.len();
    if arguments == 1 {
        c.out.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(c.out, command));
        return Ok(());
    }
    match String::from_utf8_lossy(c.args.at(1))
        .to_ascii_uppercase()
        .as_str()
    {
        "COUNT" if arguments == 2 => c.out.count(COMMANDS.len()),
        "LIST" if arguments == 2 => {
            c.out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| c.out.bulk(command.name));
        }
        "INFO" if arguments == 2 => {
            c.out.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(c.out, command));
        }
        "INFO" => {
            c.out.array(arguments - 2);
            for name in c.args.from(2) {
                match find(name) {
                    Some(command) => describe(c.out, command),
                    None => c.out.null_array(),
                }
            }
        }
        "DOCS" => {
            let found: Vec<&Command> = match arguments {
                2 => COMMANDS.iter().collect(),
                _ => c.args.from(2).filter_map(find).collect(),
            };
            c.out.map(found.len());
            for command in found {
                c.out.bulk(command.name);
                c.out.map(4);
                let summary = match command.differs {
                    "" => "As in Redis.",
                    differs => differs,
                };
                for (what, text) in [
                    ("summary", summary),
                    ("since", command.since),
                    ("group", command.group),
                ] {
                    c.out.bulk(what);
                    c.out.bulk(text);
                }
                c.out.bulk("arguments");
                c.out.array(0);
            }
        }
        "GETKEYS" if arguments > 2 => {
            let Some(command) = find(c.args.at(2)) else {
                return refuse("ERR Invalid command specified");
            };

            let (mut bytes, mut all) = (Vec::new(), Vec::new());
            for part in c.args.from(2) {
                let from = bytes.len() as u32;
                bytes.extend_from_slice(part);
                all.push((from, bytes.len() as u32));
            }
            let spans: Vec<(u32, u32)> = all;
            let args = Args::new(&bytes, &spans);
            if !table::takes(command, args.len()) {
                return refuse("ERR Invalid number of arguments specified for command");
            }
            let places = table::key_places(command, &args);
            if places.is_empty() {
                return refuse("ERR The command has no key arguments");
            }
            c.out.array(places.len());
            places.iter().for_each(|i| c.out.bulk(args.at(*i)));
        }
        _ => {
            let name = String::from_utf8_lossy(c.args.at(1));
            return refuse(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try COMMAND HELP."
            ));
        }
    }
    Ok(())
}
