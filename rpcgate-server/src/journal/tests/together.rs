//! Records whose answers leave together.

use super::*;
use rpcgate_core::clock::SystemClock;
use rpcgate_core::seam::ledger::Receipt;

fn hold(journal: &Arc<Journal>, number: u128) -> Option<Receipt> {
    let ledger: Arc<dyn Ledger> = journal.clone();
    Receipt::hold(&ledger, &suite::record(number, &[line(b"toy_read", Outcome::Answered)]))
}

#[test]
fn what_is_held_by_one_thread_is_one_write() {
    let desk = Desk::new(|_| {});
    append(&desk.journal, 0);
    let before = desk.medium.appends();
    let mut held: Vec<_> = (1..=20).map(|number| hold(&desk.journal, number).unwrap()).collect();
    assert_eq!((desk.medium.appends() - before, numbers(&desk.journal)), (0, vec![0]));
    drop(held.remove(7));
    assert_eq!(desk.medium.appends() - before, 1);
    assert_eq!(numbers(&desk.journal), (0..=20).collect::<Vec<_>>(), "in the order they came");
    drop(held);
    assert_eq!(desk.medium.appends() - before, 1, "nothing was left");
}

#[test]
fn a_refusal_and_a_large_set_wait_for_nobody() {
    let desk = Desk::new(|_| {});
    let ledger: Arc<dyn Ledger> = desk.journal.clone();
    assert!(Receipt::hold(&ledger, &suite::record(1, &[line(b"x", Outcome::Refused)])).is_none());
    let lines: Vec<_> = (0..100).map(|_| line(b"toy_read", Outcome::Answered)).collect();
    assert!(Receipt::hold(&ledger, &suite::record(2, &lines)).is_none());
    assert!(numbers(&desk.journal).contains(&2));
}

#[test]
fn what_is_held_while_the_disk_fills_up_is_kept_in_memory_and_written_later() {
    let desk = Desk::new(|_| {});
    append(&desk.journal, 0);
    let held: Vec<_> = (1..=10).map(|number| hold(&desk.journal, number)).collect();
    desk.medium.leave_room(20);
    drop(held);
    assert!(desk.journal.status().stalled && desk.journal.status().queued_bytes > 0);
    desk.medium.make_room();
    until("the disk takes it all", || !desk.journal.status().stalled);
    assert_eq!(numbers(&desk.journal), (0..=10).collect::<Vec<_>>());
    assert_eq!(desk.journal.status().lost_records, 0);
}

#[test]
fn what_is_held_at_the_end_is_written_and_what_comes_after_it_is_counted_as_lost() {
    let desk = Desk::new(|_| {});
    let held = hold(&desk.journal, 1);
    desk.journal.close();
    assert_eq!(numbers(&desk.journal), [1]);
    drop(held);
    drop(hold(&desk.journal, 2));
    assert_eq!((numbers(&desk.journal), desk.journal.status().lost_calls), (vec![1], 1));
}

#[test]
fn a_receipt_beside_a_write_that_the_disk_holds_goes_on_once_that_is_noticed() {
    let desk = Desk::new(|options| options.clock = Arc::new(SystemClock::new()));
    append(&desk.journal, 0);
    let (first, second) = (hold(&desk.journal, 1), hold(&desk.journal, 2));
    std::thread::scope(|scope| {
        let stuck = desk.medium.hold();
        scope.spawn(|| drop(first));
        until("it is held", || desk.medium.held() == 1);
        drop(second);
        assert!(desk.journal.status().stalled, "only then may it go on");
        drop(stuck);
    });
    until("the disk takes records again", || !desk.journal.status().stalled);
    assert_eq!(numbers(&desk.journal), [0, 1, 2]);
}
