//! Every planted fault is found by the suite.

use terrace_access::conformance::{Effort, Failure, run};
use terrace_pages::Class;

use super::fixture::Trees;
use crate::fault::{Fault, plant};

/// Takes the fault out again, even if the suite panics.
struct Planted;

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
    for fault in Fault::ALL {
        // Threads of their own have nothing planted, so what finds the fault does so alone.
        plant(Some(fault));
        let planted = Planted;
        let found = run(&Trees(Class::Hot), effort);
        drop(planted);
        match found {
            Ok(()) => panic!("{fault:?} was not found"),
            Err(Failure(why)) => println!("{fault:?}: {why}"),
        }
    }
}
