//! Records whose answers leave together.

use super::*;
use rpcgate_core::backend::usage_sink::Receipt;
use rpcgate_core::clock::SystemClock;

fn hold(journal: &Arc<Journal>, number: u128) -> Option<Receipt> {
    let sink: Arc<dyn UsageSink> = journal.clone();
    Receipt::hold(&sink, &suite::record(number, &[line(b"toy_read", Outcome::Answered)]))
}

#[test]
fn records_held_by_one_thread_are_one_write() {
    let fixture = Fixture::new(|_| {});
    append(&fixture.journal, 0);
    let before = fixture.medium.appends();
    let mut held: Vec<_> = (1..=20).map(|number| hold(&fixture.journal, number).unwrap()).collect();
    assert_eq!((fixture.medium.appends() - before, numbers(&fixture.journal)), (0, vec![0]));
    drop(held.remove(7));
    assert_eq!(fixture.medium.appends() - before, 1);
    assert_eq!(numbers(&fixture.journal), (0..=20).collect::<Vec<_>>(), "in the order they came");
    drop(held);
    assert_eq!(fixture.medium.appends() - before, 1, "nothing was left");
}

#[test]
fn a_refusal_and_a_large_set_are_written_without_waiting() {
    let fixture = Fixture::new(|_| {});
    let sink: Arc<dyn UsageSink> = fixture.journal.clone();
    assert!(Receipt::hold(&sink, &suite::record(1, &[line(b"x", Outcome::Refused)])).is_none());
    let lines: Vec<_> = (0..100).map(|_| line(b"toy_read", Outcome::Answered)).collect();
    assert!(Receipt::hold(&sink, &suite::record(2, &lines)).is_none());
    assert!(numbers(&fixture.journal).contains(&2));
}

#[test]
fn records_held_while_the_disk_fills_up_are_kept_in_memory_and_written_later() {
    let fixture = Fixture::new(|_| {});
    append(&fixture.journal, 0);
    let held: Vec<_> = (1..=10).map(|number| hold(&fixture.journal, number)).collect();
    fixture.medium.leave_room(20);
    drop(held);
    assert!(fixture.journal.status().stalled && fixture.journal.status().queued_bytes > 0);
    fixture.medium.make_room();
    until("the disk takes it all", || !fixture.journal.status().stalled);
    assert_eq!(numbers(&fixture.journal), (0..=10).collect::<Vec<_>>());
    assert_eq!(fixture.journal.status().lost_records, 0);
}

#[test]
fn records_held_at_the_end_are_written_and_later_ones_counted_as_lost() {
    let fixture = Fixture::new(|_| {});
    let held = hold(&fixture.journal, 1);
    fixture.journal.close();
    assert_eq!(numbers(&fixture.journal), [1]);
    drop(held);
    drop(hold(&fixture.journal, 2));
    assert_eq!((numbers(&fixture.journal), fixture.journal.status().lost_calls), (vec![1], 1));
}

#[test]
fn a_receipt_next_to_a_blocked_write_continues_once_the_block_is_noticed() {
    let fixture = Fixture::new(|options| options.clock = Arc::new(SystemClock::new()));
    append(&fixture.journal, 0);
    let first = hold(&fixture.journal, 1);
    let second = hold(&fixture.journal, 2);
    std::thread::scope(|scope| {
        let stuck = fixture.medium.hold();
        scope.spawn(|| drop(first));
        until("it is held", || fixture.medium.held() == 1);
        drop(second);
        assert!(fixture.journal.status().stalled, "only then may it go on");
        drop(stuck);
    });
    until("the disk takes records again", || !fixture.journal.status().stalled);
    assert_eq!(numbers(&fixture.journal), [0, 1, 2]);
}
