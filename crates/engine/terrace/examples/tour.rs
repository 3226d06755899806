//! The tour of the README, as a program.

use terrace::{Database, Durability, Index, KeySource, Options, TableOptions, encode};

fn main() -> terrace::Result<()> {
    // One number for everything that the database keeps in memory.
    let db = Database::open("tour.db", Options::new().memory(64 << 20))?;

    let users = db.tree("users")?;
    users.put("alice", "Berlin")?;
    users.put("bob", "Lima")?;
    assert_eq!(users.get("alice")?.as_deref(), Some(&b"Berlin"[..]));

    // Ranges are iterators with two ends.
    for entry in users.range("a".."c")?.rev() {
        let (key, value) = entry?;
        println!("{} {}", key.escape_ascii(), value.escape_ascii());
    }

    // Read and change in one step; numbers as keys and values. A hash table finds a record faster than
    // a tree, and has no order.
    let visits = db.hash("visits")?;
    visits.update("alice", |old| {
        let count = old.and_then(encode::to_u64).unwrap_or(0);
        Some(encode::u64(count + 1).to_vec())
    })?;

    // Rows with indexes: whatever changes a row changes the indexes with it.
    let people = db.table_with(
        "people",
        TableOptions::new()
            .index(Index::on("city", KeySource::json_pointer("/city")))
            .index(Index::on("badge", KeySource::json_pointer("/badge")).unique()),
    )?;
    people.put("alice", r#"{"city":"Berlin","badge":7}"#)?;
    for row in people.index("city")?.prefix("Ber")? {
        let (key, row) = row?;
        println!("{} {}", key.escape_ascii(), row.escape_ascii());
    }

    // Several changes over several structures, all or none, and on the disk when it returns.
    let mut batch = db.batch();
    batch
        .put(&users, "carol", "Oslo")
        .delete(&users, "bob")
        .delete(&visits, "bob");
    db.write(batch, Durability::Sync)?;

    // Where the records live, and where the memory goes.
    println!("{}", db.survey()?);
    db.close()
}
