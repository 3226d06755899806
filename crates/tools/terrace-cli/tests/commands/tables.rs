//! Tables and their indexes: `load --kind table --index`, `index`, and reading by an index.

use crate::common::Folder;

const PEOPLE: &str = "id,name,city,email\n\
    1,Ada,London,ada@x\n\
    2,Bob,Lima,bob@x\n\
    3,Cyd,London,cyd@x\n\
    4,Dan,,dan@x\n";

fn loaded() -> Folder {
    let dir = Folder::new();
    dir.file("p.csv", PEOPLE);
    let load = [
        "load", "db", "-s", "people", "--kind", "table", "-f", "csv", "-k", "id",
    ];
    let indexes = [
        "--index",
        "city=json:/city",
        "--index",
        "email=unique:json:/email",
    ];
    let out = dir.run(&[&load[..], &indexes, &["p.csv"]].concat());
    assert!(out.ok().starts_with("4 records"), "{}", out.ok());
    dir
}

#[test]
fn rows_that_swap_unique_keys_stay_together_though_another_is_refused() {
    let dir = loaded();
    // Ada and Bob give their addresses to each other; the last one has that of Cyd.
    dir.file(
        "q.csv",
        "id,name,city,email\n\
         1,Ada,London,bob@x\n\
         2,Bob,Lima,ada@x\n\
         5,Eve,Rome,eve@x\n\
         6,Fay,Rome,cyd@x\n",
    );
    let load = [
        "load",
        "db",
        "-s",
        "people",
        "-f",
        "csv",
        "-k",
        "id",
        "--skip-bad",
        "--json",
        "q.csv",
    ];
    let counts = dir.run(&load).json();
    assert_eq!(
        (&counts["records"], &counts["malformed"]),
        (&3.into(), &1.into())
    );
    let ada = dir.run(&["get", "db", "--index", "email", "bob@x", "--json"]);
    assert_eq!(ada.json()["key"], "1");
}

#[test]
fn rows_are_found_by_an_index() {
    let dir = loaded();
    let ada = "1\t{\"id\":\"1\",\"name\":\"Ada\",\"city\":\"London\",\"email\":\"ada@x\"}\n";
    assert_eq!(
        dir.run(&["get", "db", "--index", "email", "ada@x"]).ok(),
        ada
    );
    let london = dir.run(&["get", "db", "--index", "city", "London"]);
    assert_eq!(london.ok().lines().count(), 2);
    let json = dir.run(&["get", "db", "--index", "email", "bob@x", "--json"]);
    assert_eq!(json.json()["key"], "2");
    dir.run(&["get", "db", "--index", "city", "Rome"])
        .fails(&["no row", "\"Rome\"", "\"city\""]);
    dir.run(&["get", "db", "--index", "town", "Rome"]).fails(&[
        "\"people\"",
        "\"town\"",
        "\"city\", \"email\"",
    ]);
    let scan = |more: &[&str]| {
        let args = [&["scan", "db", "--index", "city"], more].concat();
        dir.run(&args).ok().to_owned()
    };
    // Dan has an empty city, which is none.
    assert_eq!(scan(&["--keys-only"]), "Lima\t2\nLondon\t1\nLondon\t3\n");
    assert_eq!(
        scan(&["--keys-only", "--reverse", "--limit", "1"]),
        "London\t3\n"
    );
    assert_eq!(
        scan(&["--keys-only", "--prefix", "Lo"]),
        "London\t1\nLondon\t3\n"
    );
    assert_eq!(scan(&["--count", "--from", "Li", "--to", "Lo"]), "1\n");
    assert_eq!(scan(&["--from", "Lin"]).lines().count(), 2);
    let json = dir.run(&[
        "scan",
        "db",
        "--index",
        "city",
        "--prefix",
        "Li",
        "--keys-only",
        "--json",
    ]);
    assert_eq!(json.json()["index_key"], "Lima");
    dir.run(&["scan", "db", "--index", "city", "--from", "b", "--to", "a"])
        .fails(&["swap"]);
    let by_primary = |more: &[&str]| {
        dir.run(&[&["scan", "db", "--keys-only"], more].concat())
            .ok()
            .to_owned()
    };
    assert_eq!(by_primary(&["--from", "2", "--to", "4"]), "2\n3\n");
    assert_eq!(by_primary(&["--prefix", "4", "-r"]), "4\n");
    assert_eq!(dir.run(&["dump", "db"]).ok().lines().count(), 4);
    dir.run(&["put", "tree", "k", "v"]).ok();
    dir.run(&["scan", "tree", "--index", "city"])
        .fails(&["is a tree", "only tables"]);
}

#[test]
fn an_index_tells_numbers_of_many_digits_apart() {
    let dir = Folder::new();
    let rows = "{\"id\":1,\"n\":100000000000000000001}\n{\"id\":2,\"n\":100000000000000000002}\n";
    let load = ["load", "db", "--kind", "table", "-f", "jsonl", "-k", "id"];
    let index = ["--index", "n=unique:json:/n", "-"];
    dir.run_with(&[&load[..], &index].concat(), rows.as_bytes())
        .ok();
    assert_eq!(
        dir.run(&["scan", "db", "--index", "n", "--keys-only"]).ok(),
        "100000000000000000001\t1\n100000000000000000002\t2\n"
    );
    dir.run(&["verify", "db"]).ok();
}

#[test]
fn an_index_refuses_rows_by_their_lines() {
    let dir = loaded();
    let more = "id,email\n5,eve@x\n6,ada@x\n7,gus@x\n";
    dir.file("more.csv", more);
    let load = [
        "load", "db", "-s", "people", "-f", "csv", "-k", "id", "more.csv",
    ];
    dir.run(&load)
        .fails(&["more.csv:3", "\"email\"", "\"ada@x\"", "\"1\"", "\"6\""]);
    assert_eq!(dir.run(&["scan", "db", "--count"]).ok(), "5\n");
    let skipping = dir
        .run(&[&load[..], &["--skip-bad", "--json"]].concat())
        .json();
    assert_eq!(
        (&skipping["records"], &skipping["malformed"]),
        (&2.into(), &1.into())
    );
    assert_eq!(
        dir.run(&["get", "db", "--index", "email", "gus@x"])
            .ok()
            .lines()
            .count(),
        1
    );
    dir.run(&["put", "db", "8", "no JSON"])
        .fails(&["\"people\"", "JSON"]);
    dir.run(&["delete", "db", "1"]).ok();
    dir.run(&["put", "db", "8", "{\"email\":\"ada@x\"}"]).ok();
    assert!(
        dir.run(&["verify", "db"])
            .ok()
            .contains("people, index email")
    );
}

#[test]
fn a_table_that_only_its_program_can_write_to_is_refused_as_a_whole() {
    let dir = Folder::new();
    let options = terrace::Options::new().memory(32 << 20);
    let db = terrace::Database::open(dir.0.join("db"), options).unwrap();
    let index = terrace::Index::by("own", |row: &[u8]| Ok(Some(row.to_vec())));
    let options = terrace::TableOptions::new().index(index);
    db.create_table("main", options).unwrap();
    db.close().unwrap();
    dir.file("p.csv", PEOPLE);
    let load = ["load", "db", "-f", "csv", "-k", "id", "--skip-bad", "p.csv"];
    let ran = dir.run(&load);
    let words = ["\"own\"", "\"main\"", "function", "terrace index drop"];
    let error = ran.fails(&words);
    assert!(!error.contains("skipped"), "{error}");
    dir.run(&["index", "drop", "db", "main", "own"]).ok();
    assert!(dir.run(&load).ok().starts_with("4 records"));
}

#[test]
fn indexes_come_and_go() {
    let dir = loaded();
    let list = |dir: &Folder| dir.run(&["index", "list", "db", "people"]).ok().to_owned();
    assert_eq!(list(&dir), "city=json:/city\nemail=unique:json:/email\n");
    dir.run(&["index", "create", "db", "people", "c=unique:json:/city"])
        .fails(&["\"c\"", "\"London\"", "\"1\"", "\"3\""]);
    let made = dir.run(&[
        "index",
        "create",
        "db",
        "people",
        "name=json:/name",
        "--json",
    ]);
    assert_eq!(made.json()["rows"], 4);
    dir.run(&["index", "create", "db", "people", "name=json:/name"])
        .fails(&["already"]);
    assert_eq!(
        dir.run(&["get", "db", "--index", "name", "Cyd"])
            .ok()
            .lines()
            .count(),
        1
    );
    dir.run(&["index", "drop", "db", "people", "city"]).ok();
    dir.run(&["index", "drop", "db", "people", "city"])
        .fails(&["\"city\"", "\"email\", \"name\""]);
    let json = dir.run(&["index", "drop", "db", "people", "email", "--json"]);
    assert_eq!(json.json()["dropped"], "email");
    assert_eq!(list(&dir), "name=json:/name\n");
    let json = dir.run(&["index", "list", "db", "people", "--json"]).json();
    assert_eq!(
        (&json["name"], &json["unique"]),
        (&"name".into(), &false.into())
    );
    let stat = dir.run(&["stat", "db"]);
    assert!(stat.ok().contains("by name"), "{}", stat.ok());
    let stat = dir.run(&["stat", "db", "--json"]).json();
    let table = &stat["structures"][0];
    assert_eq!(table["indexes"][0]["source"], "json:/name");
    assert_eq!(table["by_index"][0]["name"], "name");
    assert!(table["by_index"][0]["hot_hits"].is_u64());
    let load = [
        "load",
        "db",
        "-s",
        "people",
        "-f",
        "csv",
        "-k",
        "id",
        "--index",
        "city=json:/name",
    ];
    dir.run(&[&load[..], &["p.csv"]].concat())
        .fails(&["\"people\"", "\"city\"", "\"name\""]);
    dir.run(&["index", "list", "db", "none"])
        .fails(&["\"none\"", "\"people\""]);
}

#[test]
fn what_is_no_index_is_said() {
    let dir = Folder::new();
    dir.file("p.csv", PEOPLE);
    let load = ["load", "db", "-f", "csv", "-k", "id", "p.csv", "--index"];
    for bad in [
        "city",
        "city=xml:3",
        "city=csv:0",
        "=csv:1",
        "city=json:city",
    ] {
        let ran = dir.run(&[&load[..], &[bad, "--kind", "table"]].concat());
        assert_eq!(ran.code, Some(2), "{bad}");
    }
    dir.run(&[&load[..], &["city=json:/city"]].concat())
        .fails(&["a tree has no indexes", "--kind table"]);
    // Rows of a table are JSON, though the file has columns.
    dir.run(&[&load[..], &["city=csv:3", "--kind", "table"]].concat())
        .fails(&["JSON objects", "csv:3", "json:/city"]);
    // A field of a row as it stands in the file.
    dir.file("t.tsv", "id\trow\n1\ta;b;\"c;d\"\n");
    let load = [
        "load", "db", "-s", "t", "--kind", "table", "-f", "tsv", "-k", "id", "--value", "row",
    ];
    dir.run(&[&load[..], &["--index", "third=csv:3:;", "t.tsv"]].concat())
        .ok();
    assert_eq!(
        dir.run(&["scan", "db", "-s", "t", "--index", "third", "--keys-only"])
            .ok(),
        "c;d\t1\n"
    );
}

#[test]
fn an_index_over_numbers_is_in_their_order() {
    let dir = Folder::new();
    dir.file("n.csv", "id,age\na,9\nb,10\nc,-2.5\nd,100\n");
    let load = [
        "load",
        "db",
        "--kind",
        "table",
        "-f",
        "csv",
        "-k",
        "id",
        "--index",
        "age=number:json:/age",
        "n.csv",
    ];
    dir.run(&load).ok();
    let scan = |args: &[&str]| {
        let out = dir.run(&[&["scan", "db", "--index", "age", "--keys-only"], args].concat());
        out.ok().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = scan(&[]);
    assert_eq!(all.len(), 4);
    assert!(
        all[0].contains("-2.5") && all[1].contains('9') && all[3].contains("100"),
        "{all:?}"
    );
    assert_eq!(scan(&["--from", "9.5", "--to", "1e2"]).len(), 1);
    assert!(
        dir.run(&["get", "db", "--index", "age", "10.0"])
            .ok()
            .contains('b')
    );
    dir.run(&["scan", "db", "--index", "age", "--from", "x"])
        .fails(&["numbers"]);
    dir.run(&["scan", "db", "--index", "age", "--prefix", "1"])
        .fails(&["--from and --to"]);
}
