//! Ranges cut out of trees: what is in them is gone at once, with few pages written; what is not stays, and what was
//! taken out is a tree of which nothing is lost.

use std::collections::BTreeMap;

use terrace_access::conformance::{Fixture, Random, Subject, settled};
use terrace_access::{AccessMethod, Flags, NoRoom, Plan, RangeDeletes, Rooted, Value};
use terrace_pages::Class;

use super::faults::Planted;
use super::fixture::trees;
use crate::BTree;
use crate::fault::{Fault, plant};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const PAGE: usize = 4096;

/// Records of a tree, and the pages that belong to it.
fn all_of(tree: &BTree) -> Result<(Model, u64), String> {
    let (mut records, mut pages) = (Model::new(), 0);
    let mut each = |key: &[u8], _: Flags, value: Value<'_>| {
        let value = match value {
            Value::Inline(bytes) => bytes.to_vec(),
            Value::Large(large) => large.len.to_be_bytes().to_vec(),
        };
        records.insert(key.to_vec(), value);
        Ok(())
    };
    let checked = tree.verify(&mut each, &mut |_| {
        pages += 1;
        Ok(())
    });
    checked.map_err(|e| e.to_string())?;
    Ok((records, pages))
}

fn put(
    fixture: &impl Fixture,
    subject: &Subject<BTree>,
    key: &[u8],
    value: &[u8],
    large: bool,
) -> Vec<u8> {
    let _guard = subject.store.large_guard();
    let large = large.then(|| fixture.write_large(&subject.store, value).unwrap());
    let plan = Plan::Put(
        large.map_or(Value::Inline(value), Value::Large),
        Flags::NONE,
    );
    let applied = settled(&subject.store, || {
        let door = subject.store.enter()?;
        subject
            .method
            .try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
    });
    if let Some((_, Some(old))) = applied.unwrap().before {
        fixture.free_large(&subject.store, old).unwrap();
    }
    match large {
        Some(large) => large.len.to_be_bytes().to_vec(),
        None => value.to_vec(),
    }
}

/// Takes a range out, takes what was taken out apart, and looks at both on the way; how many pages were changed or
/// made.
fn cut(
    subject: &Subject<BTree>,
    model: &mut Model,
    low: &[u8],
    high: Option<&[u8]>,
) -> Result<u64, String> {
    let Subject { method, store, .. } = subject;
    let before = store.live_pages();
    let part = settled(store, || {
        let door = store.enter()?;
        let cut = method.try_cut(&door, low, high, false)?;
        let part = cut.part();
        cut.apply()?;
        Ok(part)
    });
    let part = part.map_err(|e| e.to_string())?;
    let made = store.live_pages() - before;
    let is_gone = |key: &[u8]| key >= low && high.is_none_or(|high| key < high);
    let kept: Model = model
        .iter()
        .filter(|(key, _)| !is_gone(key))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let (records, mut pages) = all_of(method)?;
    if records != kept {
        return Err(format!(
            "{} records instead of {}",
            records.len(),
            kept.len()
        ));
    }
    if let Some(root) = part {
        let part = BTree::open(store.clone(), root, method.tier()).into_part();
        let (records, of_part) = all_of(&part)?;
        pages += of_part;
        if let Some((key, _)) = records
            .iter()
            .find(|(key, value)| model.get(*key) != Some(value) || !is_gone(key))
        {
            return Err(format!("{key:?} was taken out"));
        }
        if pages != store.live_pages() {
            return Err(format!(
                "{pages} pages belong to somebody, of {}",
                store.live_pages()
            ));
        }
        let mut steps = 0;
        while settled(store, || part.try_clear_step(&store.enter()?)).map_err(|e| e.to_string())? {
            steps += 1;
            if steps % 16 == 1 {
                all_of(&part)?;
            }
        }
        settled(store, || part.free_root(&store.enter()?)).map_err(|e| e.to_string())?;
    }
    settled(store, || {
        method.close_cut(&store.enter()?, low, high);
        Ok(())
    })
    .unwrap();
    *model = kept;
    let (records, pages) = all_of(method)?;
    if pages != store.live_pages() {
        return Err(format!(
            "{pages} pages belong to the tree, of {}",
            store.live_pages()
        ));
    }
    match records == *model {
        true => Ok(made),
        false => Err("closing up has lost records".into()),
    }
}

/// A key of one of several sorts: short ones, long ones with much or little in common.
fn key(random: &mut Random, sort: usize) -> Vec<u8> {
    let n = random.below(3000);
    match sort {
        0 => format!("{n:05}").into_bytes(),
        1 => [vec![b'p'; 300 + n % 500], format!("{n:05}").into_bytes()].concat(),
        2 => [format!("{n:05}").into_bytes(), vec![b'z'; n % 900]].concat(),
        _ => [
            vec![n as u8 % 3; n % 1000],
            (n as u32).to_be_bytes().to_vec(),
        ]
        .concat(),
    }
}

fn random_cuts(class: Class, sort: usize, seed: u64) -> Result<(), String> {
    let fixture = trees(class);
    let subject = fixture.create(PAGE, 9000).unwrap();
    let mut random = Random::new(seed);
    let mut model = Model::new();
    for round in 0..12 {
        for _ in 0..700 {
            let (key, is_large) = (key(&mut random, sort), random.below(40) == 0);
            let len = if is_large { 5000 } else { random.below(200) };
            let value = random.bytes(len);
            let kept = put(&fixture, &subject, &key, &value, is_large);
            model.insert(key, kept);
        }
        for _ in 0..3 {
            let mut a = key(&mut random, sort);
            let mut b = key(&mut random, sort);
            match random.below(6) {
                // A few records.
                0 => b = [a.clone(), vec![5; random.below(3)]].concat(),
                // From the beginning, or at one that is there.
                1 => a = Vec::new(),
                2 => {
                    a = model
                        .keys()
                        .nth(random.below(model.len().max(1)))
                        .cloned()
                        .unwrap_or_default()
                }
                _ => {}
            }
            let high = (random.below(5) > 0).then_some(b.as_slice());
            let low = a.as_slice();
            cut(&subject, &mut model, low, high)
                .map_err(|e| format!("{class:?}, keys {sort}, seed {seed}, round {round}: {e}"))?;
        }
    }
    Ok(())
}

#[test]
fn what_is_cut_out_is_gone_and_the_rest_is_a_tree() {
    for class in [Class::Cold, Class::Hot] {
        for sort in 0..4 {
            for seed in 0..2 {
                random_cuts(class, sort, seed).unwrap();
            }
        }
    }
}

#[test]
fn a_cut_that_is_not_made_changes_nothing() {
    let fixture = trees(Class::Cold);
    let subject = fixture.create(PAGE, 4000).unwrap();
    let mut model = Model::new();
    for n in 0..4000u32 {
        let kept = put(&fixture, &subject, &n.to_be_bytes(), &[7; 90], n % 500 == 9);
        model.insert(n.to_be_bytes().to_vec(), kept);
    }
    let before = subject.store.live_pages();
    settled(&subject.store, || {
        let door = subject.store.enter()?;
        let cut = subject
            .method
            .try_cut(&door, &[0, 0, 1], Some(&[0, 0, 9, 3]), true)?;
        assert!(!cut.is_empty() && cut.part().is_some());
        Ok(())
    })
    .unwrap();
    let (records, pages) = all_of(&subject.method).unwrap();
    assert!(records == model && pages == before && subject.store.live_pages() == before);
}

#[test]
fn half_of_a_large_tree_costs_a_few_pages() {
    let fixture = trees(Class::Cold);
    let subject = fixture.create(PAGE, 9000).unwrap();
    let mut model = Model::new();
    for n in 0..100_000u32 {
        let kept = put(&fixture, &subject, &n.to_be_bytes(), &[7; 60], false);
        model.insert(n.to_be_bytes().to_vec(), kept);
    }
    let height = settled(&subject.store, || subject.method.try_height()).unwrap() as u64;
    let (low, high) = (25_000u32.to_be_bytes(), 75_000u32.to_be_bytes());
    // From here on what is dirty is what was changed or made.
    subject
        .store
        .checkpoint(terrace_pages::Pace::Fast, &mut super::fixture::info)
        .unwrap();
    let cut_out = settled(&subject.store, || {
        let door = subject.store.enter()?;
        let cut = subject.method.try_cut(&door, &low, Some(&high), false)?;
        let part = cut.part();
        cut.apply()?;
        Ok(part)
    });
    let written = subject.store.stats().dirty_frames;
    let part = BTree::open(
        subject.store.clone(),
        cut_out.unwrap().unwrap(),
        Class::Cold,
    )
    .into_part();
    let (records, _) = all_of(&part).unwrap();
    assert!(records.len() > 49_000);
    model.retain(|key, _| *key < low.to_vec() || *key >= high.to_vec());
    assert!(all_of(&subject.method).unwrap().0 == model);
    // Those on both ways down are read.
    let looked_at = 2 * height - 1 + written;
    println!("{written} pages written, {looked_at} with those that were read, {height} levels");
    assert!(
        height >= 3 && looked_at <= 4 * height + 2,
        "{looked_at} pages, {height} levels"
    );
}

#[test]
fn the_planted_faults_of_cuts_are_found() {
    for fault in [Fault::EdgeKept, Fault::ChainLeaked] {
        plant(Some(fault));
        let planted = Planted;
        let found = (0..3).any(|seed| random_cuts(Class::Cold, 0, seed).is_err());
        drop(planted);
        assert!(found, "{fault:?}");
    }
}
