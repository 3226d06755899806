//! Every planted fault is found by the suite.

use terrace_access::conformance::{Check, Effort, Failure, run};
use terrace_pages::Class;

use super::fixture::{heaps, tables, trees};
use crate::fault::{Fault, plant};

/// Takes the fault out again, even if the suite panics.
pub struct Planted;

impl Drop for Planted {
    fn drop(&mut self) {
        plant(None);
    }
}

#[test]
fn the_suite_finds_every_planted_fault() {
    let effort = Effort {
        page_sizes: &[4096],
        operations: 2000,
        records: 2000,
        seed: 1,
    };
    let trees = || run(&trees(Class::Hot), effort);
    let tables = || run(&tables(Class::Hot), effort);
    let heaps = || run(&heaps(Class::Hot), effort);
    let of_a_tree = Fault::OF_A_TREE.map(|fault| (fault, &trees as &dyn Fn() -> Check));
    let of_a_table = Fault::OF_A_HASH_TABLE.map(|fault| (fault, &tables as &dyn Fn() -> Check));
    let of_a_heap = Fault::OF_A_HEAP.map(|fault| (fault, &heaps as &dyn Fn() -> Check));
    let all = of_a_tree.into_iter().chain(of_a_table).chain(of_a_heap);
    for (fault, run) in all {
        // Threads of their own have nothing planted, so what finds the fault does so alone.
        plant(Some(fault));
        let planted = Planted;
        let found = run();
        drop(planted);
        match found {
            Ok(()) => panic!("{fault:?} was not found"),
            Err(Failure(why)) => println!("{fault:?}: {why}"),
        }
    }
}
