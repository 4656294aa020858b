//! Full and stalling disks, which memory replaces.

use super::*;
use rpcgate_core::clock::SystemClock;
use std::sync::atomic::AtomicU64;

#[test]
fn a_full_disk_loses_nothing_and_keeps_the_order() {
    for room in [0, 1, 70, 5_000, 20_000] {
        let fixture = Fixture::new(|options| options.shards = 1);
        fixture.medium.leave_room(room);
        (0..1_000).for_each(|number| append(&fixture.journal, number));
        assert!(fixture.journal.status().stalled && fixture.journal.status().queued_bytes > 0);
        until("it is tried again in vain", || fixture.medium.appends() > 1_000 / 50 + 3 || room < 5_000);
        fixture.medium.make_room();
        until("the disk takes it all", || !fixture.journal.status().stalled);
        (1_000..1_100).for_each(|number| append(&fixture.journal, number));
        assert_eq!(numbers(&fixture.journal), (0..1_100).collect::<Vec<_>>(), "with room for {room}");
        let status = fixture.journal.status();
        assert_eq!((status.lost_records, status.queued_bytes, status.stalled), (0, 0, false));
        drop(fixture.journal);
        let again = Journal::open(options(&fixture.home.path().join("j"))).unwrap();
        assert_eq!(numbers(&again), (0..1_100).collect::<Vec<_>>(), "and after a restart");
    }
}

#[test]
fn a_disk_that_fills_up_again_and_again_loses_nothing() {
    let fixture = Fixture::new(|options| options.shards = 2);
    for round in 0..20_u128 {
        fixture.medium.leave_room(round as u64 * 997);
        (0..500).for_each(|number| append(&fixture.journal, round * 500 + number));
        fixture.medium.make_room();
        if round % 3 == 0 {
            until("the disk takes it all", || !fixture.journal.status().stalled);
        }
    }
    fixture.journal.close();
    assert_eq!(numbers(&fixture.journal), (0..10_000).collect::<Vec<_>>());
    assert_eq!(fixture.journal.status().lost_records, 0);
}

#[test]
fn many_threads_lose_nothing_to_a_disk_that_fills_up() {
    let fixture = Fixture::new(|options| options.shards = 3);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u128)
            .map(|thread| {
                let journal = &fixture.journal;
                scope.spawn(move || (0..5_000).for_each(|number| append(journal, thread * 10_000 + number)))
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fixture.medium.leave_room(30_000);
                std::thread::yield_now();
                until("it is noticed, or all is over", || {
                    fixture.journal.status().stalled || done.load(Ordering::Relaxed)
                });
                fixture.medium.make_room();
                until("the disk takes it all", || !fixture.journal.status().stalled);
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    fixture.journal.close();
    let all = numbers(&fixture.journal);
    for thread in 0..4 {
        let mine: Vec<_> = all.iter().copied().filter(|number| number / 10_000 == thread).collect();
        assert_eq!(mine, (thread * 10_000..thread * 10_000 + 5_000).collect::<Vec<_>>());
    }
    assert_eq!(all.len(), 20_000);
}

#[test]
fn a_segment_that_a_full_disk_keeps_from_being_cut_is_cut_later() {
    let fixture = Fixture::new(|options| options.shards = 1);
    (0..10).for_each(|number| append(&fixture.journal, number));
    // A refusal's write of several frames fails in its second frame and cannot be taken back.
    let lines = [line(b"toy_read", Outcome::Refused)];
    (10..14).for_each(|number| fixture.journal.append(&suite::record(number, &lines)));
    fixture.medium.leave_room(120);
    fixture.medium.cut_nothing(true);
    until("the refusals are tried", || fixture.journal.status().stalled);
    fixture.medium.make_room();
    until("the disk takes records again", || {
        !fixture.journal.status().stalled || fixture.medium.appends() > 20
    });
    fixture.medium.cut_nothing(false);
    until("the disk takes it all", || !fixture.journal.status().stalled);
    let first = fixture.journal.segments()[0];
    let path = fixture.dir().join(segment_name::file_name(first.id));
    until("what does not count is gone", || fs::metadata(&path).unwrap().len() == first.len);
    drop(fixture.journal);
    let again = Journal::open(options(&fixture.home.path().join("j"))).unwrap();
    assert_eq!(numbers(&again), (0..14).collect::<Vec<_>>(), "each once");
}

#[test]
fn a_disk_that_stops_answering_blocks_few_threads_and_the_others_use_memory() {
    let fixture = Fixture::new(|options| {
        options.shards = 3;
        options.clock = Arc::new(SystemClock::new());
    });
    (0..3).for_each(|number| append(&fixture.journal, number));
    let ended = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let hold = fixture.medium.hold();
        for thread in 1..=6_u128 {
            let journal = &fixture.journal;
            let ended = &ended;
            scope.spawn(move || {
                (0..1_000).for_each(|number| append(journal, thread * 10_000 + number));
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        // Two of three permits are held by one thread each; all other threads are through.
        until("four threads go on", || ended.load(Ordering::Relaxed) >= 4);
        assert!(fixture.journal.status().stalled);
        assert!((1..=3).contains(&fixture.medium.held()), "the journal's own thread may be held too");
        assert!(fixture.journal.status().queued_bytes > 4 * 1_000 * 20);
        drop(hold);
    });
    until("the disk takes it all", || !fixture.journal.status().stalled);
    (3..6).for_each(|number| append(&fixture.journal, number));
    let all = numbers(&fixture.journal);
    for thread in 0..=6 {
        let mine: Vec<_> = all.iter().copied().filter(|number| number / 10_000 == thread).collect();
        assert!(in_order(&mine), "{thread}");
        assert_eq!(mine.len(), if thread == 0 { 6 } else { 1_000 });
    }
    assert_eq!(fixture.journal.status().lost_records, 0);
}

#[test]
fn a_write_that_takes_too_long_is_noticed_while_it_lasts() {
    let fixture = Fixture::new(|options| options.shards = 2);
    std::thread::scope(|scope| {
        let hold = fixture.medium.hold();
        scope.spawn(|| append(&fixture.journal, 1));
        until("it is held", || fixture.medium.held() == 1);
        assert!(!fixture.journal.status().stalled);
        fixture.clock.advance(STALL + Duration::from_millis(1));
        until("the stall is noticed without further appends", || fixture.journal.status().stalled);
        append(&fixture.journal, 2);
        until("the journal's own thread finds the disk as it is", || fixture.medium.held() == 2);
        drop(hold);
    });
    until("the disk takes it all", || !fixture.journal.status().stalled);
    let mut all = numbers(&fixture.journal);
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
}

#[test]
fn while_one_write_hangs_memory_is_emptied_without_blocking_other_threads() {
    let fixture = Fixture::new(|options| options.shards = 2);
    std::thread::scope(|scope| {
        let hold = fixture.medium.hold_one();
        scope.spawn(|| append(&fixture.journal, 1));
        until("it is held", || fixture.medium.held() == 1);
        fixture.clock.advance(STALL + Duration::from_millis(1));
        until("it is noticed", || fixture.journal.status().stalled);
        for number in 2..5 {
            append(&fixture.journal, number);
            until("it reaches the disk", || numbers(&fixture.journal).last() == Some(&number));
            assert!(fixture.journal.status().stalled);
        }
        drop(hold);
    });
    until("direct writes resume", || !fixture.journal.status().stalled);
    assert_eq!(fixture.journal.status().lost_records, 0);
    assert_eq!(numbers(&fixture.journal).len(), 4);
}

#[test]
fn direct_writes_resume_only_with_a_quick_disk() {
    let fixture = Fixture::new(|options| options.shards = 2);
    append(&fixture.journal, 0);
    std::thread::scope(|scope| {
        let hold = fixture.medium.hold();
        scope.spawn(|| append(&fixture.journal, 1));
        until("it is held", || fixture.medium.held() == 1);
        fixture.clock.advance(STALL + Duration::from_millis(1));
        until("it is noticed", || fixture.journal.status().stalled);
        fixture.medium.slow_down(Some((fixture.clock.clone(), STALL + Duration::from_millis(1))));
        drop(hold);
    });
    for number in 2..5 {
        append(&fixture.journal, number);
        until("memory is emptied, slowly", || numbers(&fixture.journal).contains(&number));
        assert!(fixture.journal.status().stalled);
    }
    fixture.medium.slow_down(Some((fixture.clock.clone(), STALL / 2)));
    until("the disk is quick enough", || !fixture.journal.status().stalled);
    append(&fixture.journal, 5);
    assert!(!fixture.journal.status().stalled);
    assert_eq!(numbers(&fixture.journal), (0..6).collect::<Vec<_>>());
}

#[test]
fn a_write_that_waits_for_a_processor_does_not_indicate_a_stalled_disk() {
    let fixture = Fixture::new(|options| options.shards = 2);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let spin = fixture.medium.spin();
        scope.spawn(|| append(&fixture.journal, 1));
        until("it is under way", || fixture.medium.held() == 1);
        fixture.clock.advance(STALL * 100);
        scope.spawn(|| {
            append(&fixture.journal, 2);
            ended.store(true, Ordering::Relaxed);
        });
        // Many checks of the watching thread.
        let begun = SystemClock::new();
        until("time passes", || begun.elapsed() > STALL * 4);
        assert!(!fixture.journal.status().stalled && !ended.load(Ordering::Relaxed));
        assert_eq!(fixture.journal.status().queued_bytes, 0, "nothing that a kill would cost");
        drop(spin);
    });
    let mut all = numbers(&fixture.journal);
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
}

// Shows (Reliability).
#[test]
fn losses_without_any_memory_or_disk_are_counted_exactly() {
    let fixture = Fixture::new(|options| options.memory = 10_000);
    fixture.journal.admit();
    fixture.medium.leave_room(0);
    let lines: Vec<_> =
        (1..=7).map(|cu| Line { cu, calls: cu, ..line(b"toy_read", Outcome::Answered) }).collect();
    let mut calls = 0;
    let mut cu = 0;
    for number in 0..2_000_usize {
        let lines = &lines[number % 7..];
        calls += lines.iter().map(|line| u64::from(line.calls)).sum::<u64>();
        cu += lines.iter().map(|line| u64::from(line.cu)).sum::<u64>();
        fixture.journal.append(&suite::record(number as u128, lines));
        let status = fixture.journal.status();
        assert!(status.queued_bytes <= 10_000);
    }
    assert!(fixture.journal.is_ready(), "they are served");
    let status = fixture.journal.status();
    assert!(status.full && status.lost_records > 1_000, "{status:?}");
    fixture.medium.make_room();
    until("the disk takes what memory held", || !fixture.journal.status().stalled);
    let kept = records(&fixture.journal);
    assert_eq!(kept.len() as u64 + status.lost_records, 2_000);
    let kept_lines = || kept.iter().flat_map(|record| &record.lines);
    assert_eq!(kept_lines().map(|line| u64::from(line.calls)).sum::<u64>() + status.lost_calls, calls);
    assert_eq!(kept_lines().map(|line| u64::from(line.cu)).sum::<u64>() + status.lost_cu, cu);
    assert!(in_order(&numbers(&fixture.journal)));
    assert!(!fixture.journal.status().full);
}

#[test]
fn a_journal_that_refuses_calls_is_not_ready_while_it_is_full() {
    for memory in [0, 10_000] {
        let fixture = Fixture::new(|options| {
            options.memory = memory;
            options.on_full = OnFull::Refuse;
        });
        fixture.journal.admit();
        fixture.medium.leave_room(0);
        let mut number = 0;
        while fixture.journal.is_ready() {
            append(&fixture.journal, number);
            number += 1;
            assert!(number < 1_000);
        }
        let lost = fixture.journal.status().lost_records;
        assert_eq!(lost, u64::from(memory == 0), "there is room left for records in flight");
        while fixture.journal.status().lost_records < lost + 10 {
            append(&fixture.journal, number);
            number += 1;
        }
        until("it is tried again", || fixture.medium.appends() > 3);
        assert!(!fixture.journal.is_ready());
        fixture.medium.make_room();
        until("calls may come again", || fixture.journal.is_ready());
        append(&fixture.journal, number);
        until("the disk takes it all", || !fixture.journal.status().stalled);
        let kept = numbers(&fixture.journal);
        assert_eq!(kept.len() as u64 + fixture.journal.status().lost_records, number as u64 + 1);
        assert_eq!(kept.last(), Some(&number));
    }
}

#[test]
fn calls_are_admitted_again_once_a_slow_disk_has_freed_memory() {
    let fixture = Fixture::new(|options| {
        options.memory = 10_000;
        options.on_full = OnFull::Refuse;
    });
    fixture.journal.admit();
    fixture.medium.leave_room(0);
    let mut number = 0;
    while fixture.journal.is_ready() {
        append(&fixture.journal, number);
        number += 1;
    }
    fixture.medium.slow_down(Some((fixture.clock.clone(), Duration::from_millis(51))));
    fixture.medium.make_room();
    until("there is room", || fixture.journal.is_ready());
    assert!(fixture.journal.status().stalled, "the disk is still slow");
    fixture.medium.slow_down(None);
    until("the disk is quick", || !fixture.journal.status().stalled);
    assert_eq!(numbers(&fixture.journal), (0..number).collect::<Vec<_>>());
}

#[test]
fn a_record_without_memory_takes_no_name_from_later_records() {
    let fixture = Fixture::new(|options| options.memory = 2_000);
    fixture.medium.leave_room(0);
    append(&fixture.journal, 1);
    let name = [b'x'; 900];
    let lines = [
        line(b"toy_new", Outcome::Answered),
        line(&name, Outcome::Answered),
        line(&name[1..], Outcome::Answered),
    ];
    fixture.journal.append(&suite::record(2, &lines));
    fixture.journal.append(&suite::record(3, &lines[..1]));
    assert_eq!(fixture.journal.status().lost_records, 1);
    fixture.medium.make_room();
    until("the disk takes it all", || !fixture.journal.status().stalled);
    let records = records(&fixture.journal);
    let methods: Vec<_> = records.iter().map(|record| record.lines[0].method.as_str()).collect();
    assert_eq!(methods, ["toy_read", "toy_new"]);
}

#[test]
fn records_waiting_at_the_end_are_written_or_counted_as_lost() {
    for is_full in [false, true] {
        let fixture = Fixture::new(|_| {});
        fixture.medium.leave_room(0);
        (0..100).for_each(|number| append(&fixture.journal, number));
        (100..150).for_each(|number| refuse(&fixture.journal, number, b"toy_read"));
        if !is_full {
            fixture.medium.make_room();
        }
        fixture.journal.close();
        let status = fixture.journal.status();
        let calls: u64 =
            records(&fixture.journal).iter().map(|record| u64::from(record.lines[0].calls)).sum();
        assert_eq!((calls, status.lost_calls), if is_full { (0, 150) } else { (150, 0) });
        assert_eq!(status.lost_records, status.lost_calls);
        assert_eq!(status.lost_cu, if is_full { 500 } else { 0 });
    }
}

#[test]
fn closing_waits_for_a_bounded_time_for_a_disk_that_does_not_answer() {
    let fixture = Fixture::new(|options| options.clock = Arc::new(SystemClock::new()));
    std::thread::scope(|scope| {
        let hold = fixture.medium.hold();
        scope.spawn(|| append(&fixture.journal, 1));
        until("one is held", || fixture.medium.held() > 0 && fixture.journal.status().stalled);
        append(&fixture.journal, 2);
        until("the journal's own thread is held", || fixture.medium.held() > 1);
        append(&fixture.journal, 3);
        fixture.journal.close();
        assert_eq!(fixture.journal.status().lost_records, 2);
        append(&fixture.journal, 4);
        assert_eq!(fixture.journal.status().lost_records, 3);
        drop(hold);
    });
    assert!(numbers(&fixture.journal).contains(&1));
}

#[test]
fn a_real_full_device_is_reported_and_nothing_is_lost() {
    /// Returns `/dev/full` for files while it is set.
    #[derive(Debug, Default)]
    struct Full(AtomicBool);

    impl Medium for Full {
        fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
            Disk.list(dir)
        }

        fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
            if self.0.load(Ordering::Relaxed) {
                Disk.open_append(Path::new("/dev/full"))
            } else {
                Disk.create(path)
            }
        }

        fn open_append(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
            Disk.open_append(path)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            Disk.remove(path)
        }

        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            Disk.sync_dir(dir)
        }
    }

    let medium = Arc::new(Full::default());
    let fixture = Fixture::new(|options| options.medium = medium.clone());
    append(&fixture.journal, 0);
    fixture.journal.rotate();
    medium.0.store(true, Ordering::Relaxed);
    (1..500).for_each(|number| append(&fixture.journal, number));
    assert!(fixture.journal.status().stalled);
    medium.0.store(false, Ordering::Relaxed);
    until("the disk takes it all", || !fixture.journal.status().stalled);
    assert_eq!(numbers(&fixture.journal), (0..500).collect::<Vec<_>>());
    assert_eq!(fixture.journal.status().lost_records, 0);
}
