//! Checks the gateways that report to the database.

use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_core::caller::RequestId;
use rpcgate_core::clock::Time;
use rpcgate_layers::nodes::NodeHealth;
use rpcgate_store::{GatewayReport, Store};
use std::time::Duration;

const CHECK: CheckGroup = CheckGroup::Gateways;

/// The time within which a gateway must have reported. They report every few seconds.
const LATELY: Duration = Duration::from_secs(60);

const REMEMBERED: Duration = Duration::from_secs(86_400);

pub(super) async fn check(examination: &Examination, store: Option<&Store>) -> Vec<Finding> {
    let Some(store) = store else {
        let advice = "see the findings about databases";
        return vec![Finding::warning(CHECK, "gateways", "unknown: the database cannot be read", advice)];
    };
    let now = examination.clock.now();
    let since = Time::from_micros(now.micros().saturating_sub(REMEMBERED.as_micros() as u64));
    match store.reports(since).await {
        Ok(reports) if reports.is_empty() => {
            let advice = "start one with this configuration: rpcgate-server run --config …; on a host of its own it needs the \
                          same database.url";
            vec![Finding::warning(CHECK, "gateways", "none has reported within a day", advice)]
        }
        Ok(reports) => reports.iter().map(|report| judge(report, now)).collect(),
        Err(error) => {
            let advice = "see the findings about databases";
            vec![Finding::failure(CHECK, "gateways", error.to_string(), advice)]
        }
    }
}

fn judge(report: &GatewayReport, now: Time) -> Finding {
    let subject = RequestId(report.id).to_string();
    let ago = now.since(report.at);
    if ago > LATELY {
        let text = format!("has not reported for {} minutes", ago.as_secs() / 60);
        let advice =
            "look at its log and its /readyz if it should run; one that was removed is forgotten after a day";
        return Finding::warning(CHECK, subject, text, advice);
    }
    let nodes = report.nodes.len();
    let of = |name: &str| report.nodes.iter().filter(|node| node.standing == name).count();
    let well = of(NodeHealth::Well.name());
    let mut text = format!("reported {} s ago, {well} of its {nodes} nodes are healthy", ago.as_secs());
    for name in
        NodeHealth::ALL.iter().filter(|health| **health != NodeHealth::Well).map(|health| health.name())
    {
        let count = of(name);
        if count > 0 {
            text.push_str(&format!(", {count} {}", name.replace('_', " ")));
        }
    }
    Finding::ok(CHECK, subject, text)
}

#[cfg(test)]
mod tests {
    use super::super::examination::tests::{examination, only};
    use super::super::finding::Verdict;
    use super::*;
    use rpcgate_core::clock::{Clock, ManualClock};
    use rpcgate_store::{NodeState, fresh_id, url_of};
    use std::sync::Arc;

    #[tokio::test]
    async fn a_gateway_that_has_become_silent_is_warned_about_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&url_of(&dir.path().join("rpcgate.db")), true).await.unwrap();
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_798_718_400)));
        let examined = Examination { clock: clock.clone(), ..examination("") };
        let at = clock.now();
        assert_eq!(only(&check(&examined, Some(&store)).await).text, "none has reported within a day");
        let node = |standing: &str| NodeState { standing: standing.into(), ..NodeState::default() };
        let report = GatewayReport {
            id: fresh_id(at),
            at,
            nodes: vec![node("well"), node("behind"), node("doubtful")],
        };
        store.put_report(&report, &[]).await.unwrap();
        clock.advance(Duration::from_secs(59));
        let findings = check(&examined, Some(&store)).await;
        assert_eq!(
            only(&findings).text,
            "reported 59 s ago, 1 of its 3 nodes are healthy, 1 doubtful, 1 behind"
        );
        assert_eq!(only(&findings).verdict, Verdict::Ok);
        clock.advance(Duration::from_secs(120));
        let findings = check(&examined, Some(&store)).await;
        assert_eq!(only(&findings).text, "has not reported for 2 minutes");
        assert_eq!(only(&findings).verdict, Verdict::Warning);
        assert_eq!(only(&check(&examined, None).await).verdict, Verdict::Warning);
    }
}
