//! Periods, the current windows, and quotas.

use super::*;

// Shows (Usage): `today.requests` are the requests counted in the windows; periods and quotas use the same hours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn periods_and_running_windows_agree_with_the_callers_own_counts() {
    let seed = TestSeed::new();
    let town = lived(&seed).await;
    let now = town.clock.now().hour();
    for tenant in [0, 1] {
        let calls = town.calls(tenant);
        let within = |hours: Range<u64>| total(calls.iter().filter(move |call| hours.contains(&call.hour)));
        let day = now - 23..now + 1;
        for (period, hours) in [
            ("24h", day.clone()),
            ("7d", now - 167..now + 1),
            ("30d", now - 719..now + 1),
            ("today", now / 24 * 24..now + 1),
            ("month", now - 719..now + 1),
        ] {
            let view = town.view(tenant, &format!("period={period}")).await;
            assert_eq!(sums(&view["totals"]), within(hours), "{period}");
        }
        // A period within an hour covers that whole hour.
        let some = START.hour();
        let [from, to] = [moment(some), moment(some + 1)].map(|text| text.replace(":00:00.000Z", ":17:03Z"));
        let view = town.view(tenant, &format!("from={from}&to={to}")).await;
        assert_eq!(sums(&view["totals"]), within(some..some + 2));
        assert_eq!([&view["from"], &view["to"]], [&json!(moment(some)), &json!(moment(some + 2))]);

        // Without an end the period ends now.
        let view = town.view(tenant, &format!("from={}", moment(some + 13))).await;
        assert_eq!(sums(&view["totals"]), within(some + 13..now + 1));

        let view = town.view(tenant, "period=7d&group_by=method,key&limit=3").await;
        assert_eq!((view["rows"].as_array().unwrap().len(), &view["truncated"]), (3, &json!(true)));
        assert_eq!(sums(&view["totals"]), total(&calls), "totals are never cut");

        // Current windows contain only existing projects.
        let living: BTreeSet<_> = view["quota_projects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|quota| quota["project_id"].as_str().unwrap())
            .collect();
        assert_eq!(living.len(), [3, 2][tenant]);
        let running = &view["current_period"];
        let shown = |window: &str, sum: &str| running[window][sum].as_u64().unwrap();
        let counted = |hours: Range<u64>| {
            let is_living = |call: &&Call| living.contains(call.who.project.as_str());
            total(calls.iter().filter(move |call| hours.contains(&call.hour)).filter(is_living))
        };
        let today = now / 24 * 24..now + 1;
        let month = now - 719..now + 1;
        let [of_day, of_today, of_month] = [day.clone(), today, month].map(counted);
        let units = ["rolling_24h", "today", "month"].map(|window| shown(window, "billable_units"));
        assert_eq!(units, [of_day[2], of_today[2], of_month[2]]);
        assert!(units[0] < units[2], "the first hours are not among the 24");
        assert_eq!(
            ["rolling_24h", "month"].map(|window| shown(window, "requests")),
            [of_day[0], of_month[0]]
        );
        let ours = town.callers.iter().filter(|caller| caller.who.tenant == tenant);
        let admitted: u64 = ours.filter(|caller| caller.used.0 == now / 24).map(|caller| caller.used.1).sum();
        assert_eq!(shown("today", "requests"), admitted, "requests that the windows have counted");

        let recent = calls.iter().filter(|call| day.contains(&call.hour));
        let used: BTreeMap<_, _> =
            rows(recent, &["project"]).into_iter().map(|(name, sums)| (name[0].clone(), sums[2])).collect();
        for quota in view["quota_projects"].as_array().unwrap() {
            let project = quota["project_id"].as_str().unwrap();
            let used = used.get(project).copied().unwrap_or_default();
            let ceiling = quota["cu_per_day"].as_u64().unwrap();
            assert_eq!(quota["cu_used_24h"], used, "{quota}");
            assert_eq!(
                (&quota["over"], &quota["cu_remaining"]),
                (&json!(used >= ceiling), &json!(ceiling.saturating_sub(used)))
            );
        }
    }
}
