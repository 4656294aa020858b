//! The other endpoints of usage: by tenant, by project, as a table.

use super::*;

// Shows (Usage): A tenant's view, a project's sums, charts, metrics and the table agree.
// Shows (Management).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permitted_users_see_the_same_usage_everywhere_and_others_see_nothing() {
    let seed = TestSeed::new();
    let town = lived(&seed).await;
    for tenant in [0, 1] {
        let owner = &town.owners[tenant];
        let tenant_usage = format!("/tenants/{}/usage?period=7d&group_by=chain,status", owner.tenant().await);
        let own = town.view(tenant, "period=7d&group_by=chain,status").await;
        assert_eq!(owner.shown(&tenant_usage).await, own);
        assert_eq!(town.operator.shown(&tenant_usage).await, own);
        assert_eq!(town.owners[1 - tenant].ask("GET", &tenant_usage, None).await.status, 404);
        assert_eq!(town.service.anonymous().ask("GET", &tenant_usage, None).await.status, 401);
        for caller in town.callers.iter().filter(|caller| caller.who.tenant != tenant) {
            for strange in [format!("project_id={}", caller.who.project), format!("key={}", caller.who.key)] {
                assert_eq!(owner.ask("GET", &format!("/usage?{strange}"), None).await.status, 404);
            }
        }

        let query = "/api/v1/usage?period=7d&group_by=chain,key&limit=5000";
        let bearer = owner.bearer();
        let headers = [("accept", "text/csv"), ("authorization", bearer.as_str())];
        let table = TestClient::new(town.service.addr(), None).send("GET", query, &headers, b"").await;
        assert_eq!((table.status, table.header("x-truncated")), (200, Some("false")));
        let text = table.text();
        let text = text.strip_prefix('\u{feff}').expect("the mark of UTF-8");
        let mut lines = text.lines().map(|line| line.trim_end().split(',').collect::<Vec<_>>());
        let names = lines.next().unwrap();
        assert_eq!(names[..2 + tally::SUMS.len()], [&["chain", "key"], &tally::SUMS[..]].concat());
        let row = |cells: Vec<&str>| {
            let name = cells[..2].iter().map(|cell| (*cell).to_owned()).collect();
            let numbers: Vec<u64> = cells[2..10].iter().map(|cell| cell.parse().unwrap()).collect();
            (name, Sums::try_from(numbers).unwrap())
        };
        same(&lines.map(row).collect(), &rows(&town.calls(tenant), &["chain", "key"]), "text/csv");
    }
}

// Shows (Usage).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_charts_and_metrics_of_projects_equal_the_callers_own_counts() {
    let seed = TestSeed::new();
    let town = lived(&seed).await;
    for tenant in [0, 1] {
        let owner = &town.owners[tenant];
        let calls = town.calls(tenant);
        let projects: BTreeSet<_> = calls.iter().map(|call| call.who.project.as_str()).collect();
        for project in projects {
            if project == town.gone() {
                for view in ["usage", "usage-chart", "metrics"] {
                    let reply = owner.ask("GET", &format!("/projects/{project}/{view}"), None).await;
                    assert_eq!(reply.status, 404, "{view}");
                }
                continue;
            }
            let own: Vec<_> = calls.iter().filter(|call| call.who.project == project).collect();
            let sum = |calls: &[&Call]| total(calls.iter().copied());
            let by = |groups: &[&str]| rows(own.iter().copied(), groups);

            let summary = owner.shown(&format!("/projects/{project}/usage?period=month")).await;
            assert_eq!(
                (&summary["total_cu"], &summary["request_count"]),
                (&json!(sum(&own)[2]), &json!(sum(&own)[0]))
            );
            let by_chain: serde_json::Map<_, _> = by(&["chain"])
                .into_iter()
                .map(|(name, sums)| (name[0].clone(), json!({ "cu": sums[2], "request_count": sums[0] })))
                .collect();
            assert_eq!(summary["by_chain"], Value::Object(by_chain));

            for interval in ["hour", "day"] {
                let path = format!("/projects/{project}/usage-chart?period=7d&interval={interval}");
                let chart = owner.shown(&path).await;
                let points = chart["points"].as_array().unwrap();
                let at = |point: &Value| vec![point["at"].as_str().unwrap().to_owned()];
                let some: Rows = points
                    .iter()
                    .map(|point| (at(point), sums(point)))
                    .filter(|(_, sums)| sums[0] > 0)
                    .collect();
                same(&some, &by(&[interval]), &path);
                assert_eq!(points.len(), if interval == "hour" { 168 } else { 8 });
            }

            let metrics = owner.shown(&format!("/projects/{project}/metrics?period=7d&limit=5000")).await;
            let reported = |object: &Value| {
                ["requests", "errors", "rejected", "cache_hits"].map(|name| object[name].as_u64().unwrap())
            };
            let counted = |sums: Sums| [sums[0], sums[3], sums[4], sums[5]];
            assert_eq!(reported(&metrics["totals"]), counted(sum(&own)));
            for (name, sums) in by(&["chain"]) {
                assert_eq!(reported(&metrics["by_chain"][&name[0]]), counted(sums), "{name:?}");
            }
            let methods: BTreeMap<_, _> =
                by(&["chain", "method"]).into_iter().map(|(name, sums)| (name, counted(sums))).collect();
            let name =
                |row: &Value| ["chain", "method"].map(|name| row[name].as_str().unwrap().to_owned()).to_vec();
            let shown: BTreeMap<_, _> = metrics["by_method"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| (name(row), reported(row)))
                .collect();
            assert_eq!(shown, methods);
        }
    }
}
