//! Each planted fault of the server is found by the scenario that stands against it. One test, since a fault is
//! planted for the whole process.

mod scenarios;

use std::sync::atomic::Ordering;

use scenarios::Found;
use terrace_serve::{Fault, plant};

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
    for (fault, scenario) in all {
        assert_eq!(scenario(), Ok(()), "without {fault:?}");
        plant(Some(*fault));
        scenarios::PLANTED.store(true, Ordering::SeqCst);
        let found = scenario();
        scenarios::PLANTED.store(false, Ordering::SeqCst);
        plant(None);
        assert!(found.is_err(), "{fault:?} is not found");
        println!("{fault:?}: {}", found.unwrap_err());
    }
}
