//! `terrace import`: records of other stores, whose files are made here by those stores themselves.

// To open an environment of LMDB is a promise that no other process changes its file below it.
#![allow(unsafe_code)]

use crate::common::Folder;

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;

    fn made(dir: &Folder, name: &str, sql: &str) {
        let to = rusqlite::Connection::open(dir.0.join(name)).unwrap();
        to.execute_batch(sql).unwrap();
    }

    const PEOPLE: &str =
        "create table people (email text primary key, name text, age integer, height real);
        insert into people values ('ada@x', 'Ada', 36, 1.5), ('alan@x', 'Al\"an', null, 2);";

    #[test]
    fn rows_become_objects_under_their_primary_key() {
        let dir = Folder::new();
        made(&dir, "p.sqlite", PEOPLE);
        let ran = dir.run(&["import", "db", "--from", "sqlite", "p.sqlite"]);
        assert!(ran.ok().starts_with("2 records"), "{}", ran.ok());
        assert_eq!(
            dir.run(&["get", "db", "ada@x"]).ok(),
            "{\"email\":\"ada@x\",\"name\":\"Ada\",\"age\":36,\"height\":1.5}\n"
        );
        assert_eq!(
            dir.run(&["get", "db", "alan@x"]).ok(),
            "{\"email\":\"alan@x\",\"name\":\"Al\\\"an\",\"age\":null,\"height\":2.0}\n"
        );
        // Another column as the key, into a table with an index, by the other name of the command.
        let indexed = ["--kind", "table", "--index", "name=json:/name"];
        let mut command = vec!["load", "t", "p.sqlite", "-f", "sqlite", "--table", "PEOPLE"];
        command.extend(["--key", "height", "--json"]);
        command.extend(indexed);
        assert_eq!(dir.run(&command).json()["records"], 2);
        let by_name = dir.run(&["get", "t", "Ada", "--index", "name"]);
        assert!(by_name.ok().starts_with("1.5\t"), "{}", by_name.ok());
    }

    #[test]
    fn one_column_becomes_the_value_and_another_says_until_when() {
        let dir = Folder::new();
        made(
            &dir,
            "f.sqlite",
            "create table files (id integer primary key, body blob, until text);
             insert into files values (7, x'00ff0a', null), (8, 'text', '2001-01-01T00:00:00Z'), (9, 12, '9999999999');
             create table \"odd \"\"name\" (k);",
        );
        let load = |more: &[&str]| {
            let mut all = vec!["import", "db", "--from", "sqlite", "f.sqlite"];
            all.extend(more);
            dir.run(&all)
        };
        load(&[]).fails(&["--table", "\"files\"", "odd"]);
        load(&["--table", "fils"]).fails(&["no table \"fils\"", "\"files\""]);
        load(&["--table", "odd \"name"]).fails(&["no primary key of one column", "--key", "k"]);
        load(&["--table", "files", "--key", "uid"]).fails(&["no column \"uid\"", "body"]);
        // Nothing of it has left a database behind.
        assert!(!dir.0.join("db").exists());
        load(&["--table", "files"]).fails(&[":1: malformed", "--value body", "hex(body)"]);
        let value = ["--table", "files", "--value", "body"];
        load(&[&value[..], &["--expires-field", "until", "-s", "f"]].concat()).ok();
        let get = |key| dir.run(&["get", "db", key, "-s", "f"]);
        assert_eq!(get("7").out, b"\x00\xff\n\n");
        assert_eq!(get("9").ok(), "12\n");
        get("8").fails(&["no key"]);
    }

    #[test]
    fn what_is_no_row_is_told_and_may_be_left_out() {
        let dir = Folder::new();
        let rows: String = (0..2000)
            .map(|n| format!("({n}, 'v{n}'),"))
            .collect::<String>();
        made(
            &dir,
            "n.sqlite",
            &format!(
                "create table n (k, v); insert into n values {rows} (null, 'x'), ('', 'x'), ('inf', 9e999);
                 create view good as select k, v from n where k < 5;"
            ),
        );
        let ran = dir.run(&["import", "db", "--from", "sqlite", "n.sqlite", "--key", "k"]);
        ran.fails(&["n.sqlite:2001: malformed", "NULL", "2000 records before it"]);
        let skipped = [
            "import",
            "db",
            "--from",
            "sqlite",
            "n.sqlite",
            "--key",
            "k",
            "--skip-bad",
        ];
        let ran = dir.run(&[&skipped[..], &["--json"]].concat());
        assert_eq!(
            (&ran.json()["records"], &ran.json()["malformed"]),
            (&2000.into(), &3.into())
        );
        let view = [
            "import", "v", "--from", "sqlite", "n.sqlite", "--table", "good", "-k", "k", "--value",
            "v",
        ];
        dir.run(&view).ok();
        assert_eq!(
            dir.run(&["scan", "v"]).ok(),
            "0\tv0\n1\tv1\n2\tv2\n3\tv3\n4\tv4\n"
        );

        dir.file("text", "this is no database of anybody's");
        let import = |file| dir.run(&["import", "x", "--from", "sqlite", file]);
        import("text").fails(&["cannot load text", "not a database"]);
        import("nothing").fails(&["cannot open nothing"]);
        import("-").fails(&["give the name"]);
        dir.run(&[
            "import", "x", "--from", "csv", "text", "-k", "k", "--table", "t",
        ])
        .fails(&["leave --table out"]);
        assert!(!dir.0.join("x").exists());
    }
}

#[cfg(feature = "lmdb")]
mod lmdb {
    use super::*;
    use heed::types::Bytes;
    use heed::{CommitOrAbort, DatabaseFlags, EnvFlags, EnvOpenOptions};

    /// An environment with these records in a database of a name or none.
    fn made(dir: &Folder, path: &str, name: Option<&str>, records: &[(&[u8], &[u8])]) {
        let path = dir.0.join(path);
        let mut options = EnvOpenOptions::new();
        options.map_size(16 << 20).max_dbs(4);
        // SAFETY: a folder of this test's alone.
        let env = unsafe {
            if path.extension().is_some() {
                options.flags(EnvFlags::NO_SUB_DIR);
            } else {
                std::fs::create_dir_all(&path).unwrap();
            }
            options.open(&path).unwrap()
        };
        let several = records.windows(2).any(|two| two[0].0 == two[1].0);
        env.create_databases_and_commit(env.write_txn().unwrap(), |opener, writing| {
            let mut how = opener.database_options().types::<Bytes, Bytes>();
            if let Some(name) = name {
                how.name(name);
            }
            if several {
                how.flags(DatabaseFlags::DUP_SORT);
            }
            let to = how.create(writing)?;
            for (key, value) in records {
                to.put(writing, key, value)?;
            }
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(()))
        })
        .unwrap();
        env.prepare_for_closing().wait();
    }

    #[test]
    fn keys_and_values_come_as_they_are() {
        let dir = Folder::new();
        // One is as long as what describes a database.
        let long = [7u8; 48];
        let records: [(&[u8], &[u8]); 3] = [(b"a\xff", b"1"), (b"b", &long), (b"\0\0", b"")];
        made(&dir, "whole", None, &records);
        made(&dir, "one.mdb", None, &records[..1]);
        dir.run(&["import", "db", "--from", "lmdb", "whole"]).ok();
        dir.run(&["import", "db", "--from", "lmdb", "one.mdb", "-s", "one"])
            .ok();
        let scanned = dir.run(&["scan", "db", "--hex", "-s", "main"]);
        let b = format!("62\t{}\n", "07".repeat(48));
        assert_eq!(scanned.ok(), format!("0000\t\n61ff\t31\n{b}"));
        assert_eq!(dir.run(&["scan", "db", "--count", "-s", "one"]).ok(), "1\n");
    }

    #[test]
    fn databases_with_names_are_chosen() {
        let dir = Folder::new();
        made(&dir, "env", Some("users"), &[(b"ada", b"London")]);
        made(
            &dir,
            "env",
            Some("tags"),
            &[(b"k", b"1"), (b"k", b"2"), (b"l", b"3")],
        );
        let import =
            |more: &[&str]| dir.run(&[&["import", "db", "--from", "lmdb", "env"], more].concat());
        import(&[]).fails(&["--table", "\"users\"", "\"tags\""]);
        import(&["--table", "user"]).fails(&["no database \"user\"", "\"users\""]);
        import(&["--table", "users", "--key", "k"]).fails(&["leave --key"]);
        assert!(!dir.0.join("db").exists());
        import(&["--table", "users"]).ok();
        assert_eq!(dir.run(&["get", "db", "ada"]).ok(), "London\n");
        import(&["--table", "tags", "-s", "tags"]).fails(&["env:2: malformed", "several values"]);
        import(&["--table", "tags", "-s", "tags", "--skip-bad"]).ok();
        assert_eq!(dir.run(&["scan", "db", "-s", "tags"]).ok(), "k\t1\nl\t3\n");
        dir.run(&["import", "x", "--from", "lmdb", "nowhere"])
            .fails(&["cannot open nowhere"]);
        dir.file("text.mdb", "x".repeat(8192));
        dir.run(&["import", "x", "--from", "lmdb", "text.mdb"])
            .fails(&["cannot open text.mdb"]);
        assert!(!dir.0.join("x").exists());
    }
}
