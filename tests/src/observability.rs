//! Comparison of the dashboard and the alert rules in `examples/observability` with a page of metrics. The tests of
//! both programs include this file, each for its own metrics.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Labels that Prometheus adds to every series.
const ADDED: [&str; 2] = ["instance", "job"];

/// A selector of an expression: a metric and its label matchers.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Selector {
    name: String,
    matchers: Vec<(String, String)>,
}

/// The contents of a page: the labels of each series, by name, and the values of each label.
#[derive(Debug, Default)]
struct Said {
    names: BTreeSet<String>,
    labels: BTreeMap<String, BTreeSet<String>>,
    values: BTreeMap<(String, String), BTreeSet<String>>,
}

/// Returns the mistakes of the dashboard and the alerts about the metrics that are `ours`: a metric that is not on this
/// page, a label that it does not have, or an impossible value of a label. `closed` lists all values of a metric's
/// label that are not all on the page. Also returns the number of comparisons.
pub fn mistakes(
    ours: impl Fn(&str) -> bool,
    page: &str,
    closed: &[(&str, &str, Vec<&str>)],
) -> (Vec<String>, usize) {
    let said = Said::read(page);
    let mut found = Vec::new();
    let mut compared = 0;
    for (place, expression) in expressions() {
        let selectors: Vec<_> = selectors(&expression).into_iter().filter(|one| ours(&one.name)).collect();
        for selector in &selectors {
            compared += 1;
            found.extend(said.wrong(selector, closed).into_iter().map(|why| format!("{place}: {why}")));
        }
        if selectors.is_empty() {
            continue;
        }
        let known: BTreeSet<_> =
            selectors.iter().filter_map(|one| said.labels.get(&one.name)).flatten().collect();
        for label in grouped(&expression) {
            if !known.contains(&label) && !ADDED.contains(&&*label) {
                found.push(format!("{place}: no metric of {expression} has the label {label}"));
            }
        }
    }
    (found, compared)
}

impl Said {
    fn read(page: &str) -> Self {
        let mut said = Said::default();
        let documented = documented();
        for line in page.lines() {
            if let Some((family, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                let ends: &[&str] = match kind {
                    "counter" => &["_total"],
                    "histogram" => &["_bucket", "_sum", "_count"],
                    "info" => &["_info"],
                    _ => &[""],
                };
                for end in ends {
                    let name = format!("{family}{end}");
                    // A family without series now has its documented labels.
                    let labels = documented.get(&name).cloned().unwrap_or_default();
                    said.labels.insert(name.clone(), labels);
                    said.names.insert(name);
                }
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap_or_default().to_owned();
                let body =
                    line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map(|(body, _)| body);
                for (label, value) in pairs(body.unwrap_or_default()) {
                    said.labels.entry(name.clone()).or_default().insert(label.clone());
                    said.values.entry((name.clone(), label)).or_default().insert(value);
                }
            }
        }
        said
    }

    /// Returns the reasons why a selector selects nothing.
    fn wrong(&self, selector: &Selector, closed: &[(&str, &str, Vec<&str>)]) -> Vec<String> {
        let name = &selector.name;
        if !self.names.contains(name) {
            return vec![format!("no program has the metric {name}")];
        }
        let mut found = Vec::new();
        for (label, value) in &selector.matchers {
            if ADDED.contains(&label.as_str()) {
                continue;
            }
            if !self.labels.get(name).is_some_and(|labels| labels.contains(label)) {
                found.push(format!("{name} has no label {label}"));
                continue;
            }
            let all = closed.iter().find(|(of, closed, _)| of == name && closed == label);
            let Some((_, _, all)) = all else { continue };
            for value in value.split('|').filter(|value| !value.starts_with('$')) {
                if !all.contains(&value) {
                    found.push(format!("{name} never has {label}={value:?}"));
                }
            }
        }
        // A closed set that lacks a value of the page is incomplete.
        for (_, label, all) in closed.iter().filter(|(of, _, _)| of == name) {
            let shown = self.values.get(&(name.clone(), (*label).to_owned()));
            let more = shown.into_iter().flatten().filter(|value| !all.contains(&value.as_str()));
            found.extend(more.map(|value| format!("{name} has {label}={value:?} as well")));
        }
        found
    }
}

/// Returns the values of a label of this metric on a page.
pub fn values(page: &str, name: &str, label: &str) -> Vec<String> {
    let all = Said::read(page).values.remove(&(name.to_owned(), label.to_owned()));
    all.into_iter().flatten().collect()
}

/// Reads a file of the repository. Fails the test if it cannot.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn members(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns every expression of the dashboard and the alerts, with its position.
fn expressions() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let dashboard: Value = serde_json::from_str(&file("examples/observability/dashboard.json"))
        .unwrap_or_else(|error| panic!("dashboard.json: {error}"));
    for panel in members(&dashboard["panels"]) {
        let place = format!("dashboard, {}", text(&panel["title"]));
        all.extend(
            members(&panel["targets"]).map(|target| (place.clone(), text(&target["expr"]).to_owned())),
        );
    }
    for variable in members(&dashboard["templating"]["list"]) {
        let query = variable["definition"].as_str().and_then(|query| query.strip_prefix("label_values("));
        let Some((metric, label)) = query.and_then(|query| query.strip_suffix(')')?.split_once(", ")) else {
            continue;
        };
        let place = format!("dashboard, variable {}", text(&variable["name"]));
        // Both the metric and its label are used.
        all.push((place, format!("sum by ({label}) ({metric})")));
    }
    let alerts = file("examples/observability/alerts.yaml");
    let mut alert = String::new();
    for line in alerts.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alert = format!("alert {name}");
        } else if let Some(expression) = line.strip_prefix("expr: ") {
            all.push((alert.clone(), unquoted(expression)));
        }
    }
    all
}

fn unquoted(scalar: &str) -> String {
    let inner = scalar.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.map_or_else(|| scalar.to_owned(), |inner| inner.replace("''", "'"))
}

/// Returns the metrics of an expression, which begin with `rpcgate_` or `process_`.
fn selectors(expression: &str) -> Vec<Selector> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find("rpcgate_").into_iter().chain(rest.find("process_")).min() {
        let from = &rest[start..];
        let end = from.find(|c| !is_name(c)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        let is_whole = !rest[..start].ends_with(is_name);
        let body = after.strip_prefix('{').and_then(|body| body.split_once('}')).map(|(body, _)| body);
        if is_whole {
            found.push(Selector { name: name.to_owned(), matchers: pairs(body.unwrap_or_default()) });
        }
        rest = after;
    }
    found
}

fn pairs(body: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = body;
    while let Some((label, after)) = rest.split_once('"') {
        let Some((value, after)) = after.split_once('"') else { break };
        let label = label.trim_matches([',', ' ', '=', '~', '!']).to_owned();
        found.push((label, value.to_owned()));
        rest = after;
    }
    found
}

/// Returns the labels by which an expression groups, without that of buckets.
fn grouped(expression: &str) -> Vec<String> {
    let groups = expression.split(" by (").skip(1).filter_map(|rest| rest.split(')').next());
    let labels = groups.flat_map(|group| group.split(',')).map(|label| label.trim().to_owned());
    labels.filter(|label| label != "le").collect()
}

/// Returns the labels of the metrics in the tables of the documentation, by the names of their series.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    let mut before = BTreeSet::new();
    for line in file("docs/watching.md").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, names, labels, ..] = cells[..] else { continue };
        let quoted = |cell: &str| -> BTreeSet<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let labels = if labels == "the same" { before.clone() } else { quoted(labels) };
        for name in quoted(names) {
            for end in ["", "_bucket", "_sum", "_count"] {
                all.insert(format!("{name}{end}"), labels.clone());
            }
        }
        before = labels;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP rpcgate_calls A.\n# TYPE rpcgate_calls counter\n\
                        rpcgate_calls_total{chain=\"eth\",method=\"(a)\",outcome=\"answered\"} 1\n# EOF\n";

    #[test]
    fn metrics_are_found_with_their_labels() {
        let expression = "sum by (le, chain) (rate(rpcgate_a_bucket{chain=~\"$chain\",outcome!=\"x|y\"}[5m])) / rpcgate_b > 1";
        let found = selectors(expression);
        let pair = |label: &str, value: &str| (label.to_owned(), value.to_owned());
        let first = vec![pair("chain", "$chain"), pair("outcome", "x|y")];
        assert_eq!(found[0], Selector { name: "rpcgate_a_bucket".into(), matchers: first });
        assert_eq!(found[1], Selector { name: "rpcgate_b".into(), matchers: Vec::new() });
        assert_eq!((found.len(), grouped(expression)), (2, vec!["chain".to_owned()]));
    }

    #[test]
    fn a_metric_a_label_and_a_value_that_no_program_has_are_found() {
        let said = Said::read(PAGE);
        let closed = [("rpcgate_calls_total", "outcome", vec!["answered", "failed"])];
        let wrong = |expression: &str| said.wrong(&selectors(expression)[0], &closed);
        assert_eq!(wrong("rpcgate_calls_total{outcome=\"failed\",instance=\"a\"}"), [""; 0]);
        for (expression, why) in [
            ("rpcgate_calls", "no program has the metric rpcgate_calls"),
            ("rpcgate_calls_total{reason=\"x\"}", "rpcgate_calls_total has no label reason"),
            (
                "rpcgate_calls_total{outcome=~\"failed|lost\"}",
                "rpcgate_calls_total never has outcome=\"lost\"",
            ),
        ] {
            assert_eq!(wrong(expression), [why]);
        }
        let incomplete = [("rpcgate_calls_total", "outcome", vec!["failed"])];
        let found = said.wrong(&selectors("rpcgate_calls_total")[0], &incomplete);
        assert_eq!(found, ["rpcgate_calls_total has outcome=\"answered\" as well"]);
    }

    #[test]
    fn the_documentation_names_labels() {
        let documented = documented();
        let labels = |name: &str| -> Vec<_> { documented[name].iter().map(String::as_str).collect() };
        assert_eq!(labels("rpcgate_call_duration_seconds_bucket"), ["chain", "method", "outcome"]);
        assert_eq!(labels("rpcgate_ws_streams"), ["chain"]);
        assert!(expressions().len() > 80, "{}", expressions().len());
    }
}
