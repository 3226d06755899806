//! Every fault of transactions that can be planted is caught by one of the anomalies.

use std::panic::catch_unwind;

use crate::common::anomalies;
use terrace::fault::{Fault, plant};

#[test]
fn every_fault_is_caught() {
    if !terrace_sim::alone!() {
        return;
    }
    let mut missed = Vec::new();
    for fault in Fault::OF_TRANSACTIONS {
        plant(Some(fault));
        let mut caught = anomalies::ALL
            .iter()
            .filter(|(_, anomaly)| catch_unwind(*anomaly).is_err());
        match caught.next() {
            Some((name, _)) => println!("{fault:?}: {name}"),
            None => missed.push(fault),
        }
        plant(None);
        terrace_tier::fault::hook(None);
    }
    for fault in Fault::OF_RANGES {
        plant(Some(fault));
        let mut scenarios = crate::common::ranges::ALL.iter();
        if !scenarios.any(|(_, scenario)| catch_unwind(*scenario).is_err()) {
            missed.push(fault);
        }
        plant(None);
    }
    // One of a lower layer that does harm to no other scenario.
    terrace_pages::plant(terrace_pages::Planted::NoGrace);
    let caught = catch_unwind(anomalies::writers_under_way_are_waited_for).is_err();
    terrace_pages::plant(terrace_pages::Planted::None);
    assert!(missed.is_empty(), "not caught: {missed:?}");
    assert!(caught, "a grace that waits for nobody is not caught");
}
