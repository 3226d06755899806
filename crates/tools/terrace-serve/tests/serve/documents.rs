//! docs/server.md has the table of commands as the dispatcher has it.

use std::fmt::Write;

use terrace_serve::{COMMANDS, NOT_THERE};

/// The table, between its two marks.
fn table() -> String {
    let mut text = String::new();
    let mut groups: Vec<&str> = Vec::new();
    for command in COMMANDS {
        if !groups.contains(&command.group) {
            groups.push(command.group);
        }
    }
    for group in groups {
        writeln!(text, "\n### {group}\n\n| command | |\n| --- | --- |").unwrap();
        for command in COMMANDS.iter().filter(|c| c.group == group) {
            let how = match command.differs {
                "" => "as Redis".to_owned(),
                differs if command.group == "terrace" => differs.to_owned(),
                differs => format!("differs in: {differs}"),
            };
            writeln!(text, "| {} | {how} |", command.name.to_uppercase()).unwrap();
        }
    }
    writeln!(text, "\n### Not there\n\n| command | |\n| --- | --- |").unwrap();
    for (names, why) in NOT_THERE {
        writeln!(text, "| {names} | {why} |").unwrap();
    }
    text
}

#[test]
fn the_table_of_commands_is_the_dispatchers() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/server.md");
    let text = std::fs::read_to_string(path).unwrap();
    let begin = "<!-- commands -->\n";
    let end = "<!-- end of commands -->";
    let (before, rest) = text.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    if found != table() && std::env::var_os("TERRACE_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{begin}{}{end}{after}", table())).unwrap();
        return;
    }
    assert!(
        found == table(),
        "run the test with TERRACE_WRITE_DOCS=1, which writes it"
    );
}
