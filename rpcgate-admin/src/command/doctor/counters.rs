//! Checks that Redis can keep the gateways' shared counters, and its clock.

use super::clocks;
use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_layers::redis::{NotInspected, RedisCondition, inspect};

const CHECK: CheckGroup = CheckGroup::Counters;

/// The eviction policy that loses no counter.
const KEEPS: &str = "noeviction";

pub(super) async fn check(examination: &Examination) -> Vec<Finding> {
    let Some(url) = &examination.config.redis.url else {
        let text = "is not set: each gateway counts alone, which is right for one";
        return vec![Finding::ok(CHECK, "redis.url", text)];
    };
    let before = examination.clock.now();
    match inspect(url.expose()).await {
        Ok(condition) => {
            let after = examination.clock.now();
            let mut findings = judge(&url.masked(), &condition);
            findings.push(clocks::compare("Redis", condition.now, before, after));
            findings
        }
        Err(error @ NotInspected::Settings(_)) => {
            let advice = "correct redis.url, or the files that it names";
            vec![Finding::failure(CHECK, url.masked(), error.to_string(), advice)]
        }
        Err(error) => {
            let advice =
                "start Redis, or correct redis.url or the network path: until then each gateway counts alone";
            vec![Finding::failure(CHECK, url.masked(), error.to_string(), advice)]
        }
    }
}

fn judge(shown: &str, condition: &RedisCondition) -> Vec<Finding> {
    let RedisCondition { version, policy, used, most, .. } = condition;
    let mut findings = Vec::new();
    let mut fails = |text: String, advice: &str| findings.push(Finding::failure(CHECK, shown, text, advice));
    let major: Option<u32> = version.split('.').next().and_then(|number| number.parse().ok());
    if major.is_none_or(|major| major < 6) {
        fails(format!("is of version {version}"), "update it to version 6 or newer");
    }
    if condition.is_clustered {
        fails(
            "is one of a cluster, which is not supported".into(),
            "name a server of its own, or a service with one address",
        );
    }
    if condition.is_replica {
        fails("follows another server and takes no writes".into(), "let redis.url name the primary server");
    }
    if policy != KEEPS && *most > 0 {
        let text = format!("removes counters when its memory is full (maxmemory-policy {policy})");
        fails(text, "set maxmemory-policy noeviction in redis.conf, and CONFIG SET it now");
    } else if policy != KEEPS {
        let text = format!("would remove counters if its memory were limited (maxmemory-policy {policy})");
        findings.push(Finding::warning(CHECK, shown, text, "set maxmemory-policy noeviction in redis.conf"));
    }
    if *most > 0 && used >= most && policy == KEEPS {
        let text = format!("uses all of its {} MiB of memory, and refuses counts", most >> 20);
        let advice =
            "raise maxmemory, or remove the data of other programs: until then each gateway counts alone";
        findings.push(Finding::failure(CHECK, shown, text, advice));
    } else if *most > 0 && *used > most / 10 * 9 {
        let text = format!(
            "uses {} of {} MiB of memory, and refuses counts when it is full",
            used >> 20,
            most >> 20
        );
        findings.push(Finding::warning(CHECK, shown, text, "raise maxmemory"));
    }
    if findings.is_empty() {
        let text =
            format!("version {version} keeps all counters; whether it writes to a disk does not matter");
        findings.push(Finding::ok(CHECK, shown, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::examination::tests::{examination, only};
    use super::super::finding::Verdict;
    use super::*;
    use rpcgate_core::clock::Time;

    #[test]
    fn a_server_that_would_lose_counters_is_reported_with_advice() {
        let good = RedisCondition {
            version: "7.2.4".into(),
            is_clustered: false,
            is_replica: false,
            policy: KEEPS.into(),
            used: 10 << 20,
            most: 0,
            now: Time::from_secs(5),
        };
        let found = |condition: RedisCondition| -> Vec<(Verdict, String)> {
            let findings = judge("redis://h", &condition);
            findings.iter().map(|finding| (finding.verdict, finding.to_string())).collect()
        };
        assert_eq!(found(good.clone())[0].0, Verdict::Ok);
        let lru = "allkeys-lru".to_owned();
        for (condition, verdict, text) in [
            (
                RedisCondition { version: "5.0.14".into(), ..good.clone() },
                Verdict::Failure,
                "version 6 or newer",
            ),
            (
                RedisCondition { version: "new".into(), ..good.clone() },
                Verdict::Failure,
                "version 6 or newer",
            ),
            (RedisCondition { is_clustered: true, ..good.clone() }, Verdict::Failure, "one of a cluster"),
            (RedisCondition { is_replica: true, ..good.clone() }, Verdict::Failure, "the primary server"),
            (
                RedisCondition { policy: lru.clone(), most: 100 << 20, ..good.clone() },
                Verdict::Failure,
                "noeviction",
            ),
            (RedisCondition { policy: lru, ..good.clone() }, Verdict::Warning, "noeviction"),
            (RedisCondition { most: 11 << 20, ..good.clone() }, Verdict::Warning, "raise maxmemory"),
            (RedisCondition { most: 10 << 20, ..good.clone() }, Verdict::Failure, "counts alone"),
        ] {
            let findings = found(condition);
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].0 == verdict && findings[0].1.contains(text), "{findings:?}");
        }
    }

    #[tokio::test]
    async fn gateways_that_count_alone_are_accepted_and_an_unreachable_redis_is_a_failure() {
        assert_eq!(only(&check(&examination("")).await).verdict, Verdict::Ok);
        let findings = check(&examination("[redis]\nurl = \"redis://:hunter2@127.0.0.1:1/0\"\n")).await;
        let found = only(&findings);
        assert!(found.verdict == Verdict::Failure && !found.to_string().contains("hunter2"), "{found}");
        assert!(found.advice.as_ref().unwrap().contains("counts alone"), "{found}");
    }
}
