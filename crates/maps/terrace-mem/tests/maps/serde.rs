//! Maps and sets through serde, by JSON: there and back, and what cannot be read.

use terrace_mem::{HybridMap, HybridSet, MAX_KEY_LEN};

const N: u64 = if cfg!(miri) { 300 } else { 20_000 };

#[test]
fn maps_and_sets_come_back_as_they_were() {
    let ints: HybridMap<u64, String> = (0..N).map(|i| (i * 7, format!("v{i}"))).collect();
    let text = serde_json::to_string(&ints).unwrap();
    let back: HybridMap<u64, String> = serde_json::from_str(&text).unwrap();
    assert_eq!(back, ints);
    // What comes in order goes straight into segments.
    assert_eq!(back.stage_lens(), (0, ints.len()));

    let strings: HybridMap<String, Option<u8>> = (0..N)
        .map(|i| (format!("{i:x}"), (i % 3 > 0).then_some(i as u8)))
        .collect();
    let text = serde_json::to_string(&strings).unwrap();
    assert_eq!(
        serde_json::from_str::<HybridMap<String, Option<u8>>>(&text).unwrap(),
        strings
    );

    let set: HybridSet<(u16, String)> = (0..N).map(|i| ((i % 50) as u16, format!("{i}"))).collect();
    let text = serde_json::to_string(&set).unwrap();
    let back: HybridSet<(u16, String)> = serde_json::from_str(&text).unwrap();
    assert!(back.iter().eq(set.iter()) && back.len() == set.len());

    let none: HybridMap<u64, u64> = serde_json::from_str("{}").unwrap();
    assert!(none.is_empty());
    assert_eq!(serde_json::to_string(&none).unwrap(), "{}");
    assert_eq!(
        serde_json::to_string(&HybridSet::<u64>::new()).unwrap(),
        "[]"
    );
}

#[test]
fn entries_in_any_order_are_read_and_the_last_of_a_key_stays() {
    let map: HybridMap<String, u64> =
        serde_json::from_str(r#"{"b": 1, "a": 2, "c": 3, "a": 4}"#).unwrap();
    let entries: Vec<(String, u64)> = map.into_iter().collect();
    assert_eq!(
        entries,
        [("a", 4), ("b", 1), ("c", 3)].map(|(k, v)| (k.to_string(), v))
    );
    let set: HybridSet<u64> = serde_json::from_str("[3, 1, 3, 2]").unwrap();
    assert!(set.iter().eq([1, 2, 3]));
}

/// What is broken first is what is reported, and nothing is read behind it.
#[test]
fn the_first_error_is_the_one_that_is_given() {
    for text in [
        r#"{"1": 1, "2": "two", "3": "three"}"#,
        r#"{"1": 1, "2": -2, "3": {}}"#,
    ] {
        let plain = serde_json::from_str::<std::collections::BTreeMap<u64, u64>>(text);
        let ours = serde_json::from_str::<HybridMap<u64, u64>>(text);
        assert_eq!(
            ours.unwrap_err().to_string(),
            plain.unwrap_err().to_string()
        );
    }
    for text in ["[1, true, \"x\"]", "[1, 2", "[3, -1, -2]"] {
        let plain = serde_json::from_str::<std::collections::BTreeSet<u64>>(text);
        let ours = serde_json::from_str::<HybridSet<u64>>(text);
        assert_eq!(
            ours.unwrap_err().to_string(),
            plain.unwrap_err().to_string()
        );
    }
    let error = serde_json::from_str::<HybridMap<u64, u64>>("[1]").unwrap_err();
    assert!(error.to_string().contains("expected a map"), "{error}");
    let error = serde_json::from_str::<HybridSet<u64>>("{}").unwrap_err();
    assert!(error.to_string().contains("expected a sequence"), "{error}");
}

#[test]
fn a_key_that_is_too_long_is_an_error() {
    let key = "k".repeat(MAX_KEY_LEN);
    let text = format!(r#"{{"{key}": 1}}"#);
    let map: HybridMap<String, u64> = serde_json::from_str(&text).unwrap();
    assert_eq!(map.get(key.as_str()), Some(&1));
    for key in [format!("{key}k"), key.repeat(2)] {
        let text = format!(r#"{{"a": 1, "{key}": 2}}"#);
        let error = serde_json::from_str::<HybridMap<String, u64>>(&text).unwrap_err();
        assert!(
            error.to_string().contains(&key.len().to_string()),
            "{error}"
        );
        let error = serde_json::from_str::<HybridSet<String>>(&format!(r#"["a", "{key}"]"#));
        let error = error.unwrap_err();
        assert!(
            error.to_string().contains(&key.len().to_string()),
            "{error}"
        );
    }
}
