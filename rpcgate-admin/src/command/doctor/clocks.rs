//! Compares the clocks of other systems with this machine's.

use super::finding::{CheckGroup, Finding};
use http::HeaderValue;
use rpcgate_core::clock::Time;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// The difference above which windows, tokens and signatures are noticeably off.
const NOTICEABLE: Duration = Duration::from_secs(2);

/// The difference above which gateways and the management side misread each other's times.
const HARMFUL: Duration = Duration::from_secs(30);

const SYNCHRONISE: &str =
    "synchronise the clocks of both machines (chrony, systemd-timesyncd), and compare again";

/// Compares a clock that this service depends on. It showed `theirs` between `before` and `after` by our clock.
pub(super) fn compare(subject: &str, theirs: Time, before: Time, after: Time) -> Finding {
    let apart = apart(theirs, before, after);
    let text = format!("{:.1} s apart from this machine's", apart.as_secs_f64());
    if apart >= HARMFUL {
        return Finding::failure(CheckGroup::Clocks, subject, text, SYNCHRONISE);
    }
    if apart >= NOTICEABLE {
        return Finding::warning(CheckGroup::Clocks, subject, text, SYNCHRONISE);
    }
    Finding::ok(CheckGroup::Clocks, subject, text)
}

/// Compares the clock of a node, which shows whole seconds and may be a proxy's. Nothing of ours depends on it, so a
/// difference only gives a warning. Returns `None` if the difference is small.
pub(super) fn compare_node(subject: &str, date: &HeaderValue, before: Time, after: Time) -> Option<Finding> {
    let theirs = seconds(date)?;
    // The shown second started before it was written.
    let apart = apart(theirs, before, after).saturating_sub(Duration::from_secs(1));
    let text = format!("{} s apart from this machine's", apart.as_secs());
    let advice = "synchronise the clock of the node, or of this machine if that is wrong: blocks seem to be late or early";
    (apart >= NOTICEABLE).then(|| Finding::warning(CheckGroup::Clocks, subject, text, advice))
}

/// Returns the distance of a time from a span.
fn apart(theirs: Time, before: Time, after: Time) -> Duration {
    before.since(theirs).max(theirs.since(after))
}

/// Parses a `Date` header (RFC 9110, 5.6.7).
fn seconds(date: &HeaderValue) -> Option<Time> {
    let date = OffsetDateTime::parse(date.to_str().ok()?, &Rfc2822).ok()?;
    Some(Time::from_secs(u64::try_from(date.unix_timestamp()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    const NOW: Time = Time::from_secs(1_798_718_400);

    #[test]
    fn a_clock_within_the_time_of_the_question_is_right() {
        let at = |millis: i64| Time::from_millis((NOW.millis() as i64 + millis) as u64);
        let found = |millis| compare("database", at(millis), NOW, at(1_000)).verdict;
        for (millis, verdict) in [
            (0, Verdict::Ok),
            (1_000, Verdict::Ok),
            (-1_900, Verdict::Ok),
            (-2_000, Verdict::Warning),
            (3_000, Verdict::Warning),
            (30_999, Verdict::Warning),
            (31_000, Verdict::Failure),
            (-30_000, Verdict::Failure),
        ] {
            assert_eq!(found(millis), verdict, "{millis}");
        }
        let text = compare("database", at(5_000), NOW, NOW).text;
        assert_eq!(text, "5.0 s apart from this machine's");
    }

    #[test]
    fn a_node_is_compared_by_its_date_header_to_the_second() {
        let found = |date: &'static str| compare_node("n", &HeaderValue::from_static(date), NOW, NOW);
        assert_eq!(found("Thu, 31 Dec 2026 12:00:00 GMT"), None);
        assert_eq!(found("Thu, 31 Dec 2026 11:59:58 GMT"), None, "whole seconds, and the time of the way");
        let late = found("Thu, 31 Dec 2026 11:59:30 GMT").unwrap();
        assert_eq!((late.verdict, &*late.text), (Verdict::Warning, "29 s apart from this machine's"));
        for unreadable in ["", "yesterday", "Thu, 31 Dec 1926 12:00:00 GMT"] {
            assert_eq!(found(unreadable), None, "{unreadable}");
        }
    }
}
