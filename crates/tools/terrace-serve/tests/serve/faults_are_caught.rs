//! Each planted fault of the server is found by the scenario that stands against it. One test, which runs each fault
//! in a process of its own: a fault is planted for a whole one.

use std::sync::atomic::Ordering;

use crate::scenarios::{self, Found};
use terrace_serve::{Fault, plant};
use terrace_sim::again_for_each;

/// The fault that a process of its own is to look for, by its number.
const CHILD: &str = "TERRACE_PLANTED";

#[test]
fn each_planted_fault_is_found() {
    let all: &[(Fault, fn() -> Found)] = &[
        (Fault::ReplyOrder, scenarios::answers_are_in_order),
        (
            Fault::WatchByValue,
            scenarios::a_value_written_back_is_a_change,
        ),
        (Fault::ElementsOfOldKey, scenarios::a_number_is_used_once),
        (
            Fault::AlwaysAnswersEarly,
            scenarios::always_waits_for_the_sync,
        ),
        (Fault::CursorSkips, scenarios::scans_leave_nothing_out),
        (Fault::CountDrifts, scenarios::counts_are_right),
        (Fault::QueueBelieved, scenarios::a_kept_key_stays),
        (Fault::LeftElements, scenarios::nothing_is_left_over),
        (Fault::PopLost, scenarios::nothing_is_taken_for_who_is_gone),
        (Fault::LeaseKept, scenarios::a_field_written_anew_stays),
        (Fault::SaidTwice, scenarios::a_message_is_heard_once),
        (
            Fault::WokenUnanswered,
            scenarios::who_is_woken_while_it_is_served_gets_its_answer,
        ),
        (
            Fault::WatchUnlocked,
            scenarios::what_is_watched_stands_still,
        ),
        (
            Fault::PoolEndsFirst,
            scenarios::what_was_begun_is_answered_at_a_stop,
        ),
    ];
    if let Ok(n) = std::env::var(CHILD) {
        let (fault, scenario) = all[n.parse::<usize>().unwrap()];
        assert_eq!(scenario(), Ok(()), "without {fault:?}");
        plant(Some(fault));
        scenarios::PLANTED.store(true, Ordering::SeqCst);
        let found = scenario();
        assert!(found.is_err(), "{fault:?} is not found");
        println!("{fault:?}: {}", found.unwrap_err());
        return;
    }
    let numbers: Vec<String> = (0..all.len()).map(|n| n.to_string()).collect();
    let this = (module_path!(), "each_planted_fault_is_found");
    let outputs = again_for_each(this, CHILD, &numbers).unwrap();
    for ((fault, _), output) in all.iter().zip(outputs) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{fault:?}: {out}{err}");
        println!("{out}");
    }
}
