//! Nodes and numbers of them at their limits.

use crate::two;
use terrace_place::{
    Art, BTree, Kind, MAX_SLOTS, Masstree, PlacedTree, PlacementError, Plain, Sought, Steps,
};

/// Bytes of the stack of a thread for which no more was asked.
const STACK: usize = 2 << 20;

type Map<K, V, T> = PlacedTree<K, V, Plain, T>;

/// Runs on a stack of the usual size.
fn on_a_usual_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
    thread.unwrap().join().unwrap();
}

fn large<T: Kind<u64, [u8; N], Plain>, const N: usize>() -> Result<(), PlacementError>
where
    u64: Sought<T>,
{
    let map = Map::<u64, [u8; N], T>::with_model(two().slots(1 << 9).fast_share(0.5), Plain)?;
    for i in 0..200 {
        map.insert(i * 7 % 200, [i as u8; N])?;
        map.hurry();
        map.place_step(Steps::nodes(20));
    }
    map.check().unwrap();
    assert_eq!(map.get(&14), Some([2; N]));
    assert_eq!(map.update(&14, |val| val[N - 1]), Some(2));
    let backwards = map.iter().rev().map(|(key, _)| key);
    assert!(backwards.eq((0..200).rev()));
    for i in 0..200 {
        assert!(map.remove(&(i * 3 % 200)).is_some());
    }
    map.check().unwrap();
    for i in 0..40 {
        map.insert(i, [0; N])?;
    }
    map.clear();
    Ok(())
}

/// Sixteen of them are nearly as much as a node can have.
const SIXTEENTH: usize = 2000;

#[test]
fn values_as_large_as_nodes_take_them_fit_on_the_stack_of_a_thread() {
    on_a_usual_stack(|| large::<BTree, SIXTEENTH>().unwrap());
    on_a_usual_stack(|| large::<Masstree, SIXTEENTH>().unwrap());
    on_a_usual_stack(|| large::<Art, { 30 << 10 }>().unwrap());
}

#[test]
fn larger_values_are_refused_when_the_map_is_made_with_what_to_do() {
    let most = 32 << 10;
    let refused = move |made: Result<(), PlacementError>| {
        let error = made.unwrap_err();
        let PlacementError::NodeTooLarge { bytes, most: said } = error else {
            panic!("{error}");
        };
        assert!(bytes > most && said == most, "{error}");
        assert!(error.to_string().contains("`Box`"), "{error}");
    };
    on_a_usual_stack(move || {
        refused(large::<BTree, { 64 << 10 }>());
        refused(large::<Masstree, { 64 << 10 }>());
        refused(large::<Art, { 64 << 10 }>());
    });
}

fn slots<K, T: Kind<K, u64, Plain>>(key: impl Fn(u64) -> K)
where
    K: Sought<T> + Clone + Send + Sync + 'static,
{
    for asked in [0, 1, 511, 513, MAX_SLOTS, MAX_SLOTS + 1, 1 << 40, u64::MAX] {
        let map = Map::<K, u64, T>::with_model(two().slots(asked), Plain).unwrap();
        let fit = (0..3000).filter(|i| map.insert(key(*i), *i).is_ok());
        let fit: Vec<u64> = fit.collect();
        assert_eq!(map.len(), fit.len());
        assert!(fit.len() >= 512, "{asked} slots: {} entries", fit.len());
        assert!(asked < MAX_SLOTS || fit.len() == 3000, "{asked} slots");
        map.check().unwrap();
    }
}

#[test]
fn any_number_of_slots_can_be_asked_for() {
    slots::<u64, BTree>(|i| i);
    slots::<u64, Art>(|i| i);
    slots::<u64, Masstree>(|i| i);
    // Keys that share their first bytes.
    slots::<String, Masstree>(|i| format!("{:0>20}", i));
}
