//! The view of the explorer's result.

use super::super::chart::axis::{day, hour};
use super::super::chart::bars::bars;
use super::super::chart::line::{LineSeries, line};
use super::super::chart::number::{grouped, millis, share};
use super::super::chart::plot::Plot;
use super::super::chart::stack::{Series, Stack};
use super::super::filters::{day_text, dollars};
use super::super::parts::LimitMeter;
use super::super::usage_parts::{axis_of, latency_of, mean};
use super::choice::{MEASURES, Measure, UsageChoice};
use super::names::{UsageNames, is_long, shortened};
use super::rows::UsageRows;
use rpcgate_config::Retention;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Amount, Cell, Group, Metrics, UsageView};
use rpcgate_management::action::usage::Usage;
use rpcgate_management::action::usage::current::CurrentWindow;
use rpcgate_management::action::usage::explore::Explored;
use rpcgate_management::action::usage::series::UsageSeries;
use std::time::Duration;

/// The maximum number of methods that the form's field suggests.
const OFFERED: usize = 50;
const DAY: u64 = 86_400;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub(super) label: &'static str,
    pub(super) value: String,
    pub(super) small: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MeasureLink {
    pub(super) label: &'static str,
    pub(super) path: String,
    pub(super) is_current: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WindowRow {
    pub(super) name: &'static str,
    pub(super) from: String,
    pub(super) requests: String,
    pub(super) units: String,
    pub(super) limit: String,
    pub(super) left: String,
    pub(super) meter: LimitMeter,
    pub(super) tone: &'static str,
    pub(super) enforced: &'static str,
}

/// The part of the page below the form.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct UsageResult {
    /// The window, the projects and the grouping, in words.
    pub(super) scope: String,
    pub(super) stats: Vec<Stat>,
    pub(super) measures: Vec<MeasureLink>,
    pub(super) chart_title: String,
    pub(super) chart: Option<Plot>,
    pub(super) chart_note: Option<String>,
    pub(super) rows_title: String,
    pub(super) rows: UsageRows,
    pub(super) is_truncated: bool,
    pub(super) is_empty: bool,
    pub(super) windows: Vec<WindowRow>,
    /// The start of single requests, and the retention of everything.
    pub(super) kept: String,
    pub(super) csv_path: String,
    pub(super) methods: Vec<String>,
    pub(super) unfiltered: String,
}

impl UsageResult {
    pub(super) fn of(found: &Explored, choice: &UsageChoice, names: &UsageNames, kept: &Retention) -> Self {
        let Explored { usage, series, has_moved } = found;
        let view = &usage.view;
        let by = choice.dimension();
        let is_merged = series.as_ref().is_some_and(|series| series.is_merged);
        let link = |measure: Measure| MeasureLink {
            label: measure.label(),
            path: UsageChoice { measure, ..choice.clone() }.path(),
            is_current: measure == choice.measure,
        };
        let is_split = series.is_some() && !is_merged;
        let chart_note = match series {
            None => Some("The chart would take too long. Choose a shorter period or a filter.".to_owned()),
            Some(_) if is_merged => Some(format!(
                "There are too many values of {} to draw each, so the chart has their sum.",
                by.name()
            )),
            Some(found) if has_long_names(found, names) => {
                Some("Long names are shortened here. The rows below have the full names.".to_owned())
            }
            Some(_) => None,
        };
        let grouped_by = words(&view.group_by);
        UsageResult {
            scope: scope(usage, &grouped_by),
            stats: stats(usage, *has_moved),
            measures: MEASURES.map(link).into(),
            chart_title: if is_split {
                format!("{} by {}", choice.measure.label(), label(by))
            } else {
                choice.measure.label().to_owned()
            },
            chart: series.as_ref().map(|series| chart(series, choice.measure, by, names)),
            chart_note,
            rows_title: if grouped_by.is_empty() {
                "All usage".to_owned()
            } else {
                format!("By {grouped_by}")
            },
            rows: UsageRows::of(view, choice, names),
            is_truncated: view.truncated,
            is_empty: view.rows.is_empty(),
            windows: windows(usage),
            kept: retention_text(view, kept),
            csv_path: choice.csv_path(),
            methods: methods(view),
            unfiltered: UsageChoice {
                period: choice.period.clone(),
                from: choice.from.clone(),
                to: choice.to.clone(),
                group_by: choice.group_by.clone(),
                page: 1,
                ..UsageChoice::default()
            }
            .path(),
        }
    }
}

/// Reports whether the chart has names that are too long for its legend.
fn has_long_names(found: &UsageSeries, names: &UsageNames) -> bool {
    found.parts.keys().flatten().any(|cell| is_long(&names.cell(cell)))
}

const fn label(group: Group) -> &'static str {
    match group {
        Group::Key => "API key",
        other => other.name(),
    }
}

/// For example `chain, method and status`.
fn words(groups: &[Group]) -> String {
    let names: Vec<_> = groups.iter().map(|group| label(*group)).collect();
    match &names[..] {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn scope(usage: &Usage, grouped_by: &str) -> String {
    let view = &usage.view;
    let projects = if usage.projects == 1 {
        "1 project".to_owned()
    } else {
        format!("{} projects", grouped(usage.projects))
    };
    let grouped_by =
        if grouped_by.is_empty() { String::new() } else { format!(" · grouped by {grouped_by}") };
    let at = |time: Time| format!("{}, {}", day(time), hour(time));
    format!("{} to {} UTC · {projects}{grouped_by}", at(view.from), at(view.to))
}

fn stats(usage: &Usage, has_moved: bool) -> Vec<Stat> {
    let totals = &usage.view.totals;
    let price = usage.limits.plan.price;
    let cost = Amount(u128::from(price.0).saturating_mul(totals.billable_units.into()));
    let cents = Amount(cost.0 / 10_000_000_000 * 10_000_000_000);
    let cost = if has_moved {
        "no price, because the plan has changed in this period".to_owned()
    } else if price.0 == 0 {
        "free on your plan".to_owned()
    } else {
        format!("${} at ${} each, the current price", dollars(cents), dollars(Amount(price.0.into())))
    };
    let stat = |label, value, small| Stat { label, value, small };
    vec![
        stat("Requests", grouped(totals.requests), format!("{} billed", grouped(totals.billed_requests))),
        stat("Compute Units", grouped(totals.billable_units), cost),
        stat("Errors", grouped(totals.errors), format!("{} of them rejected", grouped(totals.rejected))),
        stat(
            "Cache hits",
            share(totals.cache_hits, totals.requests),
            format!("{} requests", grouped(totals.cache_hits)),
        ),
        stat("Mean latency", millis(totals.avg_latency_ms()), "of answered requests".to_owned()),
        stat("Streams", grouped(totals.ws_connections), format!("{} messages", grouped(totals.ws_messages))),
    ]
}

/// Makes the chart of a measure, by the values of a dimension.
fn chart(found: &UsageSeries, measure: Measure, by: Group, names: &UsageNames) -> Plot {
    let axis = axis_of(found);
    let name = |cell: &Option<Cell>| {
        cell.as_ref().map_or_else(|| "all".to_owned(), |cell| shortened(names.cell(cell)))
    };
    let none = "Nothing to draw for this choice.";
    let (value, unit): (fn(&Metrics) -> u64, _) = match measure {
        Measure::Requests => (|metrics| metrics.requests, "requests"),
        Measure::Units => (|metrics| metrics.billable_units, "CU"),
        Measure::Errors => (|metrics| metrics.errors, "errors"),
        Measure::Bytes => (|metrics| metrics.request_bytes.saturating_add(metrics.response_bytes), "bytes"),
        Measure::Latency => {
            let mut lines = vec![latency_of("all", &found.totals())];
            if !found.is_merged && found.parts.len() > 1 {
                let calls =
                    |part: &&Vec<Metrics>| part.iter().map(|metrics| metrics.latency_count).sum::<u64>();
                let mut parts: Vec<_> = found.parts.iter().collect();
                parts.sort_by_key(|(_, part)| std::cmp::Reverse(calls(part)));
                let most = parts.into_iter().take(2);
                lines.extend(most.map(|(cell, part)| LineSeries {
                    values: part.iter().map(mean).collect(),
                    ..latency_of(&name(cell), part)
                }));
            }
            return line(&lines, &axis, measure.label()).or_empty(none).tall();
        }
    };
    let series = found
        .parts
        .iter()
        .map(|(cell, part)| Series { name: name(cell), values: part.iter().map(value).collect() });
    let stack = Stack::of(series.collect(), axis.starts.len());
    let by = (!found.is_merged).then(|| label(by));
    bars(&stack, &axis, measure.label(), unit, by).or_empty(none).tall()
}

fn windows(usage: &Usage) -> Vec<WindowRow> {
    let current = &usage.current;
    let row = |name, window: &CurrentWindow, meter, (tone, enforced)| WindowRow {
        name,
        from: format!("{}, {}", day(window.from), hour(window.from)),
        requests: grouped(window.requests),
        units: grouped(window.billable_units),
        limit: window.budget.limit.map_or_else(|| "none".to_owned(), grouped),
        left: window.budget.remaining.map_or_else(|| "–".to_owned(), grouped),
        meter,
        tone,
        enforced,
    };
    let units = |name: &str, window: &CurrentWindow| {
        LimitMeter::new(format!("{name}, Compute Units used"), window.billable_units, window.budget.limit)
    };
    let today = &current.today;
    let allowed = Some(current.requests_limit).filter(|limit| *limit > 0);
    let left = current.requests_limit.saturating_sub(today.requests);
    vec![
        row(
            "Rolling 24 hours",
            &current.rolling,
            units("Rolling 24 hours", &current.rolling),
            ("ok", "by project quota"),
        ),
        WindowRow {
            limit: "none".into(),
            left: format!("{} requests", grouped(left)),
            ..row(
                "Today",
                today,
                LimitMeter::new("Today, requests used", today.requests, allowed),
                ("", "for each API key"),
            )
        },
        row("This month", &current.month, units("This month", &current.month), ("", "recorded only")),
    ]
}

fn retention_text(view: &UsageView, kept: &Retention) -> String {
    let days = |length: Duration| grouped(length.as_secs() / DAY);
    let events = days(kept.events);
    let ledger = days(kept.ledger);
    match view.history_from {
        Some(since) => {
            let since = day_text(since);
            format!(
                "Single requests are stored since {since}, for {events} days; the billing ledger for {ledger} days."
            )
        }
        None => {
            format!("Single requests are stored for {events} days, the billing ledger for {ledger} days.")
        }
    }
}

fn methods(view: &UsageView) -> Vec<String> {
    let names = view.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| match cell {
        Cell::Method(name, _) => Some(name.clone()),
        _ => None,
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(OFFERED);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_described_in_text() {
        assert_eq!(words(&[]), "");
        assert_eq!(words(&[Group::Key]), "API key");
        assert_eq!(words(&[Group::Day, Group::Chain, Group::Method]), "day, chain and method");
    }
}
