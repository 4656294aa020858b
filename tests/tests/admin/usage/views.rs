//! `GET /usage` with all groupings and filters.

use super::*;

const GROUPS: [&str; 8] = ["hour", "day", "chain", "method", "key", "project", "transport", "status"];

/// The answers that clients must receive at least once, so that the test is complete.
const TOLD: [&str; 17] = [
    "200 backend request failed",
    "200 chain not available at this location",
    "200 compute unit quota exceeded",
    "200 method not available",
    "200 the node says no",
    "400 invalid request",
    "400 parse error",
    "401 Invalid authentication credentials",
    "402 account suspended — contact your administrator",
    "403 API key not permitted for this chain",
    "403 debug methods not permitted",
    "403 method not permitted for this project",
    "413 batch too large",
    "413 request too large",
    "429 API rate limit exceeded",
    "429 Heavy method rate limit: 1/min for eth_getLogs",
    "429 heavy method rate limit exceeded for your plan, retry later",
];

// Shows (Usage): Over HTTP every grouping, pair of groupings, filter and range equals the clients' own count; rows add
// up to the totals.
// Shows (Usage): Units count on the free plan too.
// Shows (Usage): A request refused before its body is read is one call `-`; a request refused by the route or with an
// unknown key is not counted.
// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_view_of_usage_equals_the_clients_own_count() {
    let seed = TestSeed::new();
    let town = lived(&seed).await;
    let reported: BTreeSet<_> =
        town.callers.iter().flat_map(|caller| &caller.reported).map(String::as_str).collect();
    let unreported: Vec<_> = TOLD.iter().filter(|words| !reported.contains(**words)).collect();
    assert!(unreported.is_empty(), "in no answer: {unreported:?}");

    let mut dice = seed.dice(99);
    let mut names = move |count: usize| loop {
        let mut left = GROUPS.to_vec();
        let picked: Vec<_> =
            (0..count).map(|_| left.swap_remove(dice.below(left.len() as u64) as usize)).collect();
        if !(picked.contains(&"hour") && picked.contains(&"day")) {
            break picked;
        }
    };
    let first = START.hour();
    for tenant in [0, 1] {
        let calls = town.calls(tenant);
        assert!(calls.iter().any(|call| call.sums[5] == 1) && calls.len() > 300, "{}", calls.len());
        town.check(tenant, &[], &[], None).await;
        for (at, one) in GROUPS.iter().enumerate() {
            town.check(tenant, &[*one], &[], None).await;
            for other in &GROUPS[at + 1..] {
                if (*one, *other) != ("hour", "day") {
                    town.check(tenant, &[*one, *other], &[], None).await;
                }
            }
        }
        for count in [3, 4].repeat(12) {
            town.check(tenant, &names(count), &[], None).await;
        }
        let mut filters =
            vec![("transport", "http".to_owned()), ("transport", "ws".into()), ("transport", "grpc".into())];
        filters.extend([("chain", "xlm".into()), ("method", "nothing".into())]);
        for call in &calls {
            let values = [
                ("chain", call.chain.to_owned()),
                ("method", call.method.clone()),
                ("key", call.who.key.clone()),
                ("project_id", call.who.project.clone()),
            ];
            filters.extend(values);
        }
        // A deleted project cannot be queried by its id, but its usage is in all other views.
        let gone = ("project_id", town.gone().to_owned());
        let path = format!("/usage?project_id={}", gone.1);
        assert_eq!(town.owners[tenant].ask("GET", &path, None).await.status, 404);
        let filters: BTreeSet<_> = filters.into_iter().filter(|filter| *filter != gone).collect();
        let filters: Vec<_> = filters.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for only in &filters {
            town.check(tenant, &names(2), &[*only], None).await;
        }
        for (at, one) in filters.iter().enumerate() {
            let other = filters[(at * 7 + 3) % filters.len()];
            if one.0 != other.0 {
                town.check(tenant, &names(1), &[*one, other], Some(first..first + 9)).await;
            }
        }
        for hours in [
            first..first + 1,
            first + 1..first + 2,
            first + 2..first + 13,
            first - 3..first + 40,
            first + 13..first + 25,
            first + 25..first + 26,
            first + 13..first + 30,
        ] {
            town.check(tenant, &names(2), &[], Some(hours)).await;
        }
    }
}
