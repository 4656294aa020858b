//! Refusals: few are kept one by one, many are summed, none is miscounted.

use super::super::records::{Held, Records};
use super::super::refusals::{AddResult, MOST_SUMS, OTHER, Refusals, SINGLES, SUMS};
use super::*;
use rpcgate_core::caller::{KeyId, TenantId};

fn kept(held: &[Held]) -> (Vec<OwnedRecord>, u64) {
    let mut all = Vec::new();
    let mut records = 0;
    held.each(|record, weight| {
        all.push(OwnedRecord::from(record));
        records += weight.records;
    });
    (all, records)
}

// Shows (Reliability).
#[test]
fn the_first_are_kept_one_by_one_and_the_rest_summed() {
    let mut refusals = Refusals::default();
    let lines = [line(b"toy_read", Outcome::Refused)];
    for number in 0..SINGLES as u128 + 500 {
        assert_eq!(refusals.add(&suite::record(number, &lines)), AddResult::Held);
    }
    let (all, records) = kept(&refusals.take());
    assert_eq!((all.len(), records), (SINGLES + 1, SINGLES as u64 + 500));
    let singles: Vec<_> = all[..SINGLES].iter().map(|record| record.request.0).collect();
    assert_eq!(singles, (0..SINGLES as u128).collect::<Vec<_>>(), "their requests can be found");
    let sum = &all[SINGLES];
    assert_eq!((sum.windowed, sum.latency), (500, Duration::from_micros(70 * 500)));
    let line = &sum.lines[0];
    assert_eq!(
        (line.calls, line.bytes_in, line.bytes_out, line.cu, line.status),
        (500, 5_000, 10_000, 0, 429)
    );
    assert!(sum.request.0 > u128::from(u64::MAX), "a sum is no single request: it has an id of its own");
    assert_eq!(kept(&refusals.take()).0, [], "they are taken once");
}

#[test]
fn sums_are_grouped_by_all_dimensions_of_usage() {
    let lines = [line(b"a", Outcome::Refused)];
    let other_lines = [line(b"b", Outcome::Refused)];
    let other_status = [Line { status: 403, ..lines[0] }];
    let one = suite::record(1_000, &lines);
    let kinds = [
        one,
        Record { key: KeyId(9), ..one },
        Record { tenant: TenantId(9), ..one },
        Record { price: rpcgate_core::plan::Price(9), ..one },
        Record { chain: ChainName::new("toy2"), ..one },
        Record { transport: rpcgate_core::tally::Transport::Ws, ..one },
        Record { arrival: one.arrival.plus(Duration::from_secs(60)), ..one },
        Record { lines: &other_lines, ..one },
        Record { lines: &other_status, ..one },
    ];
    let mut refusals = Refusals::default();
    for _ in 0..SINGLES {
        refusals.add(&one);
    }
    for _ in 0..7 {
        for kind in &kinds {
            refusals.add(kind);
        }
    }
    let (all, records) = kept(&refusals.take());
    assert_eq!((all.len(), records), (SINGLES + kinds.len(), (SINGLES + 7 * kinds.len()) as u64));
    for kind in &kinds {
        let sums = all[SINGLES..].iter().filter(|sum| {
            let mut expected = OwnedRecord::from(kind);
            (expected.request, expected.latency, expected.windowed) = (sum.request, kind.latency * 7, 7);
            for line in &mut expected.lines {
                (line.calls, line.bytes_in, line.bytes_out) = (7, 70, 140);
            }
            **sum == expected
        });
        assert_eq!(sums.count(), 1, "{kind:?}");
    }
}

#[test]
fn a_summed_batch_counts_once_in_the_windows_and_a_lone_request_keeps_its_id() {
    let mut refusals = Refusals::default();
    let lines = [line(b"a", Outcome::Refused), line(b"b", Outcome::Refused), line(b"a", Outcome::Refused)];
    for number in 0..SINGLES as u128 {
        refusals.add(&suite::record(number, &lines));
    }
    refusals.add(&suite::record(100, &lines));
    refusals.add(&suite::record(101, &lines));
    refusals.add(&suite::record(102, &[line(b"c", Outcome::Refused)]));
    let (all, records) = kept(&refusals.take());
    assert_eq!(records, SINGLES as u64 + 3);
    let mut sums: Vec<_> = all[SINGLES..]
        .iter()
        .map(|sum| {
            (sum.lines[0].method.as_str(), sum.lines[0].calls, sum.windowed, sum.request == RequestId(102))
        })
        .collect();
    sums.sort_unstable();
    assert_eq!(sums, [("a", 4, 2, false), ("b", 2, 0, false), ("c", 1, 1, true)]);
}

#[test]
fn made_up_methods_beyond_the_bound_are_summed_as_other_and_nothing_is_lost() {
    let mut refusals = Refusals::default();
    let count = 10_000_u64;
    for number in 0..count {
        let method = format!("made_up_{number}");
        refusals.add(&suite::record(number.into(), &[line(method.as_bytes(), Outcome::Refused)]));
    }
    let (all, records) = kept(&refusals.take());
    assert_eq!((all.len(), records), (SINGLES + SUMS + 1, count));
    let calls = |record: &OwnedRecord| u64::from(record.lines[0].calls);
    assert_eq!(all.iter().map(calls).sum::<u64>(), count);
    let other: Vec<_> =
        all.iter().filter(|record| record.lines[0].method.as_bytes() == OTHER).map(calls).collect();
    assert_eq!(other, [count - (SINGLES + SUMS) as u64]);
}

#[test]
fn numbers_that_would_not_fit_make_another_sum() {
    let mut refusals = Refusals::default();
    let lines = [Line { bytes_in: 1 << 30, ..line(b"a", Outcome::Refused) }];
    for number in 0..SINGLES as u128 + 10 {
        refusals.add(&suite::record(number, &lines));
    }
    let (all, records) = kept(&refusals.take());
    assert_eq!(records, SINGLES as u64 + 10);
    let sum = |of: fn(&OwnedRecord) -> u64| all[SINGLES..].iter().map(of).sum::<u64>();
    assert_eq!(sum(|record| record.lines[0].bytes_in.into()), 10 << 30);
    assert_eq!((sum(|record| record.lines[0].calls.into()), sum(|record| record.windowed.into())), (10, 10));
}

// Shows (Reliability): A storm of refusals is summed; the first of them keep a record of their own.
#[test]
fn a_storm_is_few_writes_and_its_sums_are_exact() {
    let fixture = Fixture::new(|options| options.shards = 2);
    const EACH: u64 = 20_000;
    std::thread::scope(|scope| {
        for thread in 0..4_u128 {
            let journal = &fixture.journal;
            scope.spawn(move || {
                for number in 0..u128::from(EACH) {
                    refuse(journal, thread << 64 | number, if number % 3 == 0 { b"toy_a" } else { b"toy_b" });
                }
            });
        }
    });
    fixture.journal.close();
    let records = records(&fixture.journal);
    let calls = |method: &str| -> u64 {
        let lines = records.iter().flat_map(|record| &record.lines).filter(|line| line.method == method);
        lines.map(|line| u64::from(line.calls)).sum()
    };
    assert_eq!((calls("toy_a"), calls("toy_b")), (4 * EACH.div_ceil(3), 4 * (EACH - EACH.div_ceil(3))));
    assert_eq!(records.iter().map(|record| u64::from(record.windowed)).sum::<u64>(), 4 * EACH);
    let latency: Duration = records.iter().map(|record| record.latency).sum();
    assert_eq!(latency, Duration::from_micros(70) * 4 * EACH as u32);
    assert!(fixture.medium.appends() < 200, "{} writes", fixture.medium.appends());
    assert_eq!(fixture.journal.status().lost_records, 0);
}

#[test]
fn refusals_reach_the_disk_by_themselves() {
    let fixture = Fixture::new(|_| {});
    for number in 0..10 {
        refuse(&fixture.journal, number, b"toy_read");
    }
    until("they are written", || numbers(&fixture.journal).len() == 10);
}

#[test]
fn sums_beyond_the_limit_are_written_at_once() {
    let fixture = Fixture::new(|options| options.shards = 1);
    let lines = [line(b"toy_read", Outcome::Refused)];
    let mut refusals = Refusals::default();
    let enough = (0..20_000).find(|number| {
        let record = Record { key: KeyId(*number), ..suite::record(*number, &lines) };
        refusals.add(&record) == AddResult::Enough
    });
    assert_eq!(enough, Some((SINGLES + MOST_SUMS) as u128 - 1));

    let count = 3 * SUMS as u64;
    for number in 0..count {
        // Each has its own key, so they are not summed although the method is the same.
        let record = Record { key: KeyId(number.into()), ..suite::record(number.into(), &lines) };
        fixture.journal.append(&record);
    }
    fixture.journal.close();
    let mut keys: Vec<_> = records(&fixture.journal).iter().map(|record| record.key.0).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..u128::from(count)).collect::<Vec<_>>());
}
