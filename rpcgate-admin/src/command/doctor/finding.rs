//! The findings of checks.

use crate::command::printer::printable;
use serde::Serialize;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Ok,
    /// It works, but may cause trouble.
    Warning,
    /// It does not work.
    Failure,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failure => "failure",
        }
    }
}

/// A group of checks, in the order of output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckGroup {
    Configuration,
    /// The files that the configuration names, and their access rights.
    Files,
    Limits,
    Disk,
    Certificates,
    Databases,
    Counters,
    Clocks,
    Gateways,
    Nodes,
    Mail,
    Traces,
    /// The URLs at which users reach the service.
    Urls,
}

impl CheckGroup {
    const fn name(self) -> &'static str {
        match self {
            CheckGroup::Configuration => "configuration",
            CheckGroup::Files => "files",
            CheckGroup::Limits => "limits",
            CheckGroup::Disk => "disk",
            CheckGroup::Certificates => "certificates",
            CheckGroup::Databases => "databases",
            CheckGroup::Counters => "counters",
            CheckGroup::Clocks => "clocks",
            CheckGroup::Gateways => "gateways",
            CheckGroup::Nodes => "nodes",
            CheckGroup::Mail => "mail",
            CheckGroup::Traces => "traces",
            CheckGroup::Urls => "urls",
        }
    }
}

/// The finding of a check: one line of output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: CheckGroup,
    pub(crate) verdict: Verdict,
    /// The checked object.
    pub(crate) subject: String,
    pub(crate) text: String,
    /// The recommended action, if there is one.
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: CheckGroup, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Finding { check, verdict: Verdict::Ok, subject: subject.into(), text: text.into(), advice: None }
    }

    pub(crate) fn warning(
        check: CheckGroup,
        subject: impl Into<String>,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Finding { verdict: Verdict::Warning, advice, ..Finding::ok(check, subject, text) }
    }

    pub(crate) fn failure(
        check: CheckGroup,
        subject: impl Into<String>,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Finding { verdict: Verdict::Failure, advice, ..Finding::ok(check, subject, text) }
    }
}

impl fmt::Display for Finding {
    /// Writes one line, even if texts in it contain line breaks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.verdict.name();
        let check = self.check.name();
        write!(f, "{verdict:<8} {check:<14} {}: {}", printable(&self.subject), printable(&self.text))?;
        match &self.advice {
            Some(advice) => write!(f, ". To do: {}", printable(advice)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_advice() {
        let good = Finding::ok(CheckGroup::Nodes, "eth http://h", "at height 7");
        assert_eq!(good.to_string(), "ok       nodes          eth http://h: at height 7");
        let hostile = Finding::failure(CheckGroup::Mail, "h", "says\n\u{1b}[2Jno", "start it");
        assert_eq!(
            hostile.to_string(),
            "failure  mail           h: says\u{fffd}\u{fffd}[2Jno. To do: start it"
        );
        let json = serde_json::to_string(&Finding::warning(CheckGroup::Urls, "a", "b", "c")).unwrap();
        let expected = r#"{"check":"urls","verdict":"warning","subject":"a","text":"b","advice":"c"}"#;
        assert_eq!(json, expected);
        assert!(Verdict::Ok < Verdict::Warning && Verdict::Warning < Verdict::Failure);
    }
}
