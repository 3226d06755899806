//! `terrace place doctor`: which kinds of memory there are.

use crate::common::Folder;

#[test]
fn the_doctor_names_nodes_says_why_and_measures() {
    let dir = Folder::new();
    let ran = dir.run(&["place", "doctor"]);
    let text = ran.ok();
    assert!(text.contains("a read of heap takes "), "{text}");
    let json = dir.run(&["place", "doctor", "--json"]).json();
    let measured = json["measured"].as_array().unwrap();
    assert_eq!(measured[0]["memory"], "heap");
    // A read takes longer than a cycle, and less than one of a disk.
    let ns = measured[0]["ns"].as_f64().unwrap();
    assert!((0.1..100_000.0).contains(&ns), "{ns}");
    let nodes = json["nodes"].as_array().unwrap();
    for node in nodes {
        let number = node["node"].as_u64().unwrap();
        assert!(text.contains(&format!("node {number}: ")), "{text}");
        assert!(node["bytes"].as_u64() > Some(0), "{node}");
        // Each other node has its reason.
        if node["ours"] == false {
            let reason = node["reason"].as_str().unwrap();
            assert!(!reason.is_empty() && text.contains(reason), "{text}");
        }
    }
    match json["slow"].as_u64() {
        Some(slow) => assert!(
            nodes
                .iter()
                .any(|n| n["node"] == slow && n["taken"] == true)
        ),
        None => assert!(text.contains("one kind of memory: "), "{text}"),
    }
    for note in json["notes"].as_array().unwrap() {
        assert!(text.contains(note.as_str().unwrap()), "{text}");
    }
}

#[test]
fn the_doctor_takes_nothing_else() {
    let dir = Folder::new();
    for (args, word) in [
        (&["place"][..], "doctor"),
        (&["place", "nurse"], "nurse"),
        (&["place", "doctor", "db"], "db"),
    ] {
        let ran = dir.run(args);
        assert_ne!(ran.code, Some(0), "{args:?}");
        assert!(ran.error.contains(word), "{args:?}: {}", ran.error);
    }
}
