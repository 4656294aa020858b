//! The alert rules in `examples/observability`: each states its urgency and the action, in a section of the runbook
//! whose commands exist.

use crate::{none, tree};
use clap::Parser;
use rpcgate_admin::cli::AdminCli;
use rpcgate_server::cli::ServerCli;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

const ALERTS: &str = "examples/observability/alerts.yaml";
const PAGE: &str = "docs/runbook.md";
const SEVERITIES: [&str; 2] = ["critical", "warning"];
const FIELDS: [&str; 6] = ["expr", "for", "severity", "summary", "description", "runbook_url"];

/// Returns the alerts with their fields, by name. Parses the file line by line, without a library.
fn alerts(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut all: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut alert = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alert = name.to_owned();
            assert!(all.insert(alert.clone(), BTreeMap::new()).is_none(), "{alert} is there twice");
        } else if let Some((key, value)) = line.split_once(": ")
            && let Some(fields) = all.get_mut(&alert)
        {
            fields.insert(key.to_owned(), value.trim_matches('\'').to_owned());
        }
    }
    all
}

/// Returns the sections below `## Runbook`, by their headings.
fn sections(page: &str) -> BTreeMap<String, String> {
    let runbook = page.split("\n## Runbook\n").nth(1).unwrap_or_default();
    let runbook = runbook.split("\n## ").next().unwrap_or_default();
    let sections = runbook.split("\n### ").skip(1);
    sections
        .filter_map(|section| section.split_once('\n'))
        .map(|(name, text)| (name.into(), text.into()))
        .collect()
}

/// Returns the parts that alerts lack.
fn incomplete(text: &str, page: &str) -> Vec<String> {
    let alerts = alerts(text);
    let sections = sections(page);
    let mut found = Vec::new();
    for (name, fields) in &alerts {
        for field in FIELDS {
            if fields.get(field).is_none_or(String::is_empty) {
                found.push(format!("{name}: {field} is missing"));
            }
        }
        if fields.get("severity").is_some_and(|severity| !SEVERITIES.contains(&severity.as_str())) {
            found.push(format!("{name}: severity is none of {SEVERITIES:?}"));
        }
        let link = format!("/{PAGE}#{}", name.to_lowercase());
        if !fields.get("runbook_url").is_some_and(|url| url.ends_with(&link)) {
            found.push(format!("{name}: runbook_url does not end with {link}"));
        }
        match sections.get(name) {
            None => found.push(format!("{name}: {PAGE} has no section of this name below Runbook")),
            Some(text) => {
                let is_whole =
                    text.contains("- See it") && (text.contains("- Do:") || text.contains("and do:"));
                if !is_whole {
                    found.push(format!("{name}: its section does not say how to see it and what to do"));
                }
            }
        }
    }
    let names: BTreeSet<_> = alerts.keys().collect();
    let others = sections.keys().filter(|section| !names.contains(section));
    found.extend(others.map(|section| format!("{section}: a section of the runbook without an alert")));
    found
}

/// Returns the texts in backticks, each on one line.
fn code(text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns commands of ours in a text that our programs do not understand.
fn unknown_commands(text: &str) -> Vec<String> {
    let is_unknown = |span: &String| {
        let words = span.split(' ');
        match span.split(' ').next() {
            Some("rpcgate-admin") => AdminCli::try_parse_from(words).is_err(),
            Some("rpcgate-server") => ServerCli::try_parse_from(words).is_err(),
            _ => false,
        }
    };
    code(text).into_iter().filter(|span| span.contains(' ')).filter(is_unknown).collect()
}

// Shows (Traces, logs and metrics).
#[test]
fn every_alert_has_a_severity_and_a_section_of_the_runbook() {
    let text = tree::read(ALERTS);
    assert!(alerts(&text).len() > 20, "{text}");
    none(&incomplete(&text, &tree::read(PAGE)), "An alert that nobody knows what to do about is noise.");
}

// Shows (Traces, logs and metrics).
#[test]
fn the_commands_of_the_runbook_exist() {
    let page = tree::read(PAGE);
    let sections = sections(&page);
    assert!(
        sections.values().flat_map(|text| code(text)).any(|span| span.starts_with("rpcgate-admin doctor "))
    );
    let unknown: Vec<_> = sections.values().flat_map(|text| unknown_commands(text)).collect();
    none(&unknown, "Write each command as it is typed, with its arguments.");
}

#[test]
fn prometheus_accepts_the_rules_where_its_tool_is_installed() {
    let tool = Command::new("promtool")
        .args(["check", "rules"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    // Without the tool, only the other tests read the file.
    let Ok(mut tool) = tool else { return };
    tool.stdin.take().unwrap().write_all(tree::read(ALERTS).as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "groups:\n  - name: g\n    rules:\n      - alert: Down\n        expr: 'a == 0'\n        for: 1m\n        \
        labels:\n          severity: critical\n        annotations:\n          summary: 'A'\n          description: 'B'\n          \
        runbook_url: https://h/docs/runbook.md#down\n";
    const RUNBOOK: &str = "# Page\n\n## Runbook\n\nText.\n\n### Down\n\nIt is.\n\n- See it: `x`\n- Do: y\n\n## Other\n\n### Up\n";

    #[test]
    fn a_whole_alert_is_accepted_and_what_it_lacks_is_found() {
        assert_eq!(incomplete(RULES, RUNBOOK), [""; 0]);
        for (from, to, why) in [
            ("          summary: 'A'\n", "", "Down: summary is missing"),
            ("critical", "urgent", "Down: severity is none of"),
            ("#down", "#up", "Down: runbook_url does not end with /docs/runbook.md#down"),
            ("alert: Down", "alert: Up", "Up: docs/runbook.md has no section of this name"),
        ] {
            let found = incomplete(&RULES.replacen(from, to, 1), RUNBOOK);
            assert!(found.iter().any(|one| one.starts_with(why)), "{why}: {found:?}");
        }
        let silent = RUNBOOK.replace("- Do: y", "");
        assert!(incomplete(RULES, &silent)[0].contains("what to do"));
        let more = RUNBOOK.replace("## Other", "### More\n\n- See it\n\n## Other");
        assert_eq!(incomplete(RULES, &more), ["More: a section of the runbook without an alert"]);
    }

    #[test]
    fn a_command_that_does_not_exist_is_found() {
        let text = "Run `rpcgate-admin\n  doctor --config a.toml`, `rpcgate-server check --config a`, `df -h`, `rpcgate-admin`.";
        assert_eq!(unknown_commands(text), [""; 0]);
        let text = "`rpcgate-admin heal --config a` and `rpcgate-server check`";
        let wanted = ["rpcgate-admin heal --config a", "rpcgate-server check"];
        // The configuration may come from the environment of the test run.
        assert!(
            wanted.iter().filter(|one| unknown_commands(text).contains(&(**one).to_owned())).count() >= 1
        );
    }
}
