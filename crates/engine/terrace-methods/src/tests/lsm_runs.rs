//! Runs of records that are put into an LSM-tree.

use terrace_access::{Flags, Runs, Window};

use super::fixture::push;
use super::lsm::{Have, Tested};

/// Runs of records over tombstones of the top leave none for which anything is to be cleared away.
#[test]
fn a_run_over_tombstones_leaves_none() {
    let tested = Tested::new().unwrap();
    let is_dead_much = || {
        let state = tested.settled(|| tested.lsm.state()).unwrap();
        tested.lsm.is_dead_much(state)
    };
    let keys: Vec<_> = (0..2000u32).map(|n| n.to_be_bytes().to_vec()).collect();
    for key in &keys {
        tested.change(key, None).unwrap();
    }
    assert!(is_dead_much());
    let mut window = Window::new();
    for key in &keys {
        push(&mut window, key, Flags::DIRTY, b"value");
    }
    let which: Vec<usize> = (0..window.len()).collect();
    let mut done = 0;
    while done < which.len() {
        let door = tested.store.enter().unwrap();
        let put = tested.lsm.put_run(&door, &window, &which[done..]);
        drop(door);
        if put == 0 {
            // What is not simple is put by itself.
            let value = Have::Bytes(b"value".to_vec());
            tested.change(window.key(done), Some(value)).unwrap();
        }
        done += put.max(1);
    }
    assert!(!is_dead_much());
}
