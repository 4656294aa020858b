//! Checks that the collector of traces accepts a connection, without sending a span.

use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_process::traces::check_collector;

const CHECK: CheckGroup = CheckGroup::Traces;

pub(super) async fn check(examination: &Examination) -> Vec<Finding> {
    let settings = &examination.config.telemetry.otlp;
    let Some(url) = &settings.url else {
        return vec![Finding::ok(CHECK, "telemetry.otlp.url", "is not set: no call is traced")];
    };
    vec![match check_collector(settings).await {
        Ok(()) => Finding::ok(CHECK, url.masked(), "accepts connections; no span was sent"),
        Err(why) => {
            let advice = "start the collector, or correct telemetry.otlp.url: until then calls are served and their spans lost";
            Finding::warning(CHECK, url.masked(), why, advice)
        }
    }]
}

#[cfg(test)]
mod tests {
    use super::super::examination::tests::{examination, only};
    use super::super::finding::Verdict;
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn an_unreachable_collector_is_a_warning() {
        let findings = check(&examination("")).await;
        assert_eq!(only(&findings).verdict, Verdict::Ok, "{findings:?}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = format!("[telemetry.otlp]\nurl = \"http://{}\"\n", listener.local_addr().unwrap());
        let findings = check(&examination(&there)).await;
        assert_eq!(only(&findings).verdict, Verdict::Ok, "{findings:?}");
        let away = "[telemetry.otlp]\nurl = \"http://u:hunter2@127.0.0.1:1\"\n";
        let findings = check(&examination(away)).await;
        let found = only(&findings);
        assert!(found.verdict == Verdict::Warning && found.advice.is_some(), "{found}");
        assert!(!found.to_string().contains("hunter2"), "{found}");
    }
}
