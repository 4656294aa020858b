//! The rows of the explorer: their order, their names, and the columns of numbers.

use super::super::chart::number::grouped;
use super::super::parts::TableHead;
use super::choice::{PAGE, UsageChoice};
use super::names::{UsageNames, is_long};
use super::sort::UsageSort;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Group, Metrics, UsageRow, UsageView};
use rpcgate_management::shape::moment::Moment;
use std::cmp::Reverse;
use std::time::Duration;

/// A cell by which rows are grouped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GroupCell {
    pub(super) text: String,
    /// The address of the page filtered by this value.
    pub(super) path: Option<String>,
    /// True for an identifier that users copy.
    pub(super) is_id: bool,
    /// True if it is too long for its column, which shows the whole text on hover and on keyboard focus.
    pub(super) is_long: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NumberCell {
    pub(super) text: String,
    pub(super) class: &'static str,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RowView {
    pub(super) groups: Vec<GroupCell>,
    pub(super) numbers: Vec<NumberCell>,
}

/// A link to a page of rows. The current page and pages that do not exist have no address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PageLink {
    pub(super) label: String,
    pub(super) path: Option<String>,
    pub(super) is_current: bool,
}

/// A page of the rows, with the sums of all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct UsageRows {
    pub(super) heads: Vec<TableHead>,
    pub(super) rows: Vec<RowView>,
    pub(super) sums: Vec<NumberCell>,
    pub(super) all: usize,
    /// The numbers of the first and the last row on the page.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) pages: Vec<PageLink>,
}

impl UsageRows {
    /// Returns the selected page of `view`, or the last one if there are fewer.
    pub(super) fn of(view: &UsageView, choice: &UsageChoice, names: &UsageNames) -> Self {
        let mut rows: Vec<&UsageRow> = view.rows.iter().collect();
        let is_by_time = view.group_by.iter().any(|group| matches!(group, Group::Hour | Group::Day));
        let sort = choice.sort.or((!is_by_time).then_some(UsageSort::Units));
        // A stable sort: rows of the same value stay in the order of their cells.
        match sort {
            Some(sort) => rows.sort_by_key(|row| Reverse(sort.value(&row.metrics))),
            None => rows.sort_by_key(|row| Reverse((begin(row), row.metrics.billable_units))),
        }
        let count = rows.len().div_ceil(PAGE).max(1);
        let page = choice.page.min(count);
        let first = (page - 1) * PAGE;
        let shown: Vec<_> =
            rows.iter().skip(first).take(PAGE).map(|row| row_view(row, choice, names)).collect();
        UsageRows {
            heads: heads(&view.group_by, choice, sort),
            all: rows.len(),
            first: first + 1,
            last: first + shown.len(),
            rows: shown,
            sums: numbers(&view.totals),
            pages: if count > 1 { pages(choice, page, count) } else { Vec::new() },
        }
    }
}

/// Returns the beginning of the hour or day of a row.
fn begin(row: &UsageRow) -> Option<Time> {
    row.cells.iter().find_map(|cell| match cell {
        Cell::Hour(begin) | Cell::Day(begin) => Some(*begin),
        _ => None,
    })
}

fn heads(groups: &[Group], choice: &UsageChoice, sorted: Option<UsageSort>) -> Vec<TableHead> {
    let group = |group: &Group| {
        TableHead::new(match group {
            Group::Hour => "Hour, UTC",
            Group::Day => "Day, UTC",
            Group::Chain => "Chain",
            Group::Method => "Method",
            Group::Key => "API key",
            Group::Project => "Project",
            Group::Transport => "Transport",
            Group::Status => "Status",
        })
    };
    let number = |sort: UsageSort| {
        let (label, class) = sort.head();
        let path = UsageChoice { sort: Some(sort), page: 1, ..choice.clone() }.path();
        TableHead::num(label).class(class).sort(path, (sorted == Some(sort)).then_some("descending"))
    };
    groups.iter().map(group).chain(UsageSort::ALL.map(number)).collect()
}

fn numbers(metrics: &Metrics) -> Vec<NumberCell> {
    UsageSort::ALL.map(|sort| NumberCell { text: sort.text(metrics), class: sort.head().1 }).into()
}

fn row_view(row: &UsageRow, choice: &UsageChoice, names: &UsageNames) -> RowView {
    let groups = row.cells.iter().map(|cell| group_cell(cell, choice, names));
    RowView { groups: groups.collect(), numbers: numbers(&row.metrics) }
}

fn group_cell(cell: &Cell, choice: &UsageChoice, names: &UsageNames) -> GroupCell {
    let plain = UsageChoice { page: 1, ..choice.clone() };
    let within = |begin: Time, hours: u64| {
        let end = begin.plus(Duration::from_secs(hours * 3_600));
        UsageChoice { period: String::new(), from: local(begin), to: local(end), ..plain.clone() }
    };
    let narrowed = match cell {
        Cell::Hour(begin) => Some(within(*begin, 1)),
        Cell::Day(begin) => Some(within(*begin, 24)),
        Cell::Chain(name) => Some(UsageChoice { chain: name.clone(), ..plain.clone() }),
        Cell::Method(name, _) => Some(UsageChoice { method: name.clone(), ..plain.clone() }),
        Cell::Key(id) => Some(UsageChoice { key: id.to_string(), ..plain.clone() }),
        // The usage of a deleted project is shown, but cannot be filtered for.
        Cell::Project(id) => names
            .projects
            .iter()
            .any(|(known, _)| known == id)
            .then(|| UsageChoice { project_id: id.to_string(), ..plain.clone() }),
        Cell::Transport(transport) => {
            Some(UsageChoice { transport: transport.name().into(), ..plain.clone() })
        }
        Cell::Status(_) => None,
    };
    let text = names.cell(cell);
    GroupCell {
        is_long: is_long(&text),
        text,
        is_id: matches!(cell, Cell::Method(..)),
        path: narrowed.filter(|narrowed| *narrowed != plain).map(|narrowed| narrowed.path()),
    }
}

/// Formats a time for the fields of the form.
fn local(at: Time) -> String {
    let text = Moment(at).to_string();
    text.get(..16).unwrap_or_default().to_owned()
}

/// Returns links to the neighbours of a page, and to the first and the last page.
fn pages(choice: &UsageChoice, page: usize, count: usize) -> Vec<PageLink> {
    let to = |number: usize| Some(UsageChoice { page: number, ..choice.clone() }.path());
    let step = |label: &str, number: usize| {
        let path = if (1..=count).contains(&number) { to(number) } else { None };
        PageLink { label: label.into(), path, is_current: false }
    };
    let mut links = vec![step("Previous", page - 1)];
    let mut last = 0;
    for number in (1..=count).filter(|number| *number == 1 || *number == count || number.abs_diff(page) <= 2)
    {
        if number > last + 1 {
            links.push(PageLink { label: "…".into(), path: None, is_current: false });
        }
        let is_current = number == page;
        links.push(PageLink { label: grouped(number as u64), path: to(number), is_current });
        last = number;
    }
    links.push(step("Next", page + 1));
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::caller::TenantId;
    use rpcgate_core::usage::Stream;

    const MIDNIGHT: Time = Time::from_secs(1_795_046_400);

    fn view(group_by: &[Group], rows: Vec<(Vec<Cell>, u64)>) -> UsageView {
        let row = |(cells, units)| UsageRow {
            cells,
            metrics: Metrics { requests: 1, billable_units: units, ..Metrics::default() },
        };
        UsageView {
            tenant: TenantId(1),
            project: None,
            from: MIDNIGHT,
            to: MIDNIGHT,
            period: None,
            group_by: group_by.to_vec(),
            totals: Metrics::default(),
            rows: rows.into_iter().map(row).collect(),
            truncated: false,
            history_from: None,
        }
    }

    fn choice() -> UsageChoice {
        UsageChoice {
            period: "24h".into(),
            group_by: vec!["chain".into(), "method".into()],
            page: 1,
            ..UsageChoice::default()
        }
    }

    fn texts(rows: &UsageRows) -> Vec<String> {
        rows.rows
            .iter()
            .map(|row| row.groups.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>().join(" "))
            .collect()
    }

    fn chain(name: &str) -> Vec<Cell> {
        vec![Cell::Chain(name.into())]
    }

    #[test]
    fn rows_are_sorted_by_units_and_by_time_if_they_have_one() {
        let of_chains = view(&[Group::Chain], vec![(chain("btc"), 5), (chain("eth"), 9), (chain("xrp"), 5)]);
        let names = UsageNames::default();
        let rows = UsageRows::of(&of_chains, &choice(), &names);
        assert_eq!(texts(&rows), ["eth", "btc", "xrp"]);
        let sorted = rows.heads.iter().filter(|head| head.sorted.is_some()).map(|head| head.label);
        assert_eq!(sorted.collect::<Vec<_>>(), ["CU"]);
        let by_requests = UsageChoice { sort: Some(UsageSort::Requests), ..choice() };
        assert_eq!(texts(&UsageRows::of(&of_chains, &by_requests, &names)), ["btc", "eth", "xrp"]);
        let hour = |number: u64| Cell::Hour(MIDNIGHT.plus(Duration::from_secs(number * 3_600)));
        let of_hours = view(&[Group::Hour], vec![(vec![hour(0)], 9), (vec![hour(1)], 5)]);
        assert_eq!(texts(&UsageRows::of(&of_hours, &choice(), &names)), ["19 Nov, 01:00", "19 Nov, 00:00"]);
    }

    #[test]
    fn a_page_has_twenty_rows_and_links_to_others() {
        let all = (0..95).map(|number| (chain(&format!("c{number:02}")), 0)).collect();
        let none = UsageRows::of(&view(&[Group::Chain], Vec::new()), &choice(), &UsageNames::default());
        assert!(none.pages.is_empty() && none.rows.is_empty());
        let view = view(&[Group::Chain], all);
        let at = |page| UsageRows::of(&view, &UsageChoice { page, ..choice() }, &UsageNames::default());
        let third = at(3);
        assert_eq!((third.first, third.last, third.all, third.rows.len()), (41, 60, 95, 20));
        let labels: Vec<_> = third.pages.iter().map(|link| link.label.as_str()).collect();
        assert_eq!(labels, ["Previous", "1", "2", "3", "4", "5", "Next"]);
        assert_eq!(third.pages[0].path.as_deref(), Some("usage?page=2"));
        assert!(third.pages[3].is_current);
        let last = at(99);
        assert_eq!((last.first, last.last, last.pages.last().unwrap().path.clone()), (81, 95, None));
        assert_eq!(at(1).pages[0].path, None);
    }

    #[test]
    fn many_pages_are_elided_in_the_middle() {
        let labels: Vec<_> = pages(&choice(), 10, 50).into_iter().map(|link| link.label).collect();
        assert_eq!(labels, ["Previous", "1", "…", "8", "9", "10", "11", "12", "…", "50", "Next"]);
    }

    #[test]
    fn a_cell_links_to_its_value_only() {
        let names = UsageNames::default();
        let cell = |cell| group_cell(&cell, &choice(), &names);
        assert_eq!(cell(Cell::Chain("eth".into())).path.as_deref(), Some("usage?chain=eth"));
        let method = cell(Cell::Method("a&b".into(), Stream::Call));
        assert_eq!((method.path.as_deref(), method.is_id), (Some("usage?method=a%26b"), true));
        let day = cell(Cell::Day(MIDNIGHT));
        assert_eq!(day.path.as_deref(), Some("usage?from=2026-11-19T00%3A00&to=2026-11-20T00%3A00"));
        assert_eq!((cell(Cell::Status(200)).path, cell(Cell::Status(200)).text), (None, "200".to_owned()));
        let filtered = UsageChoice { chain: "eth".into(), ..choice() };
        assert_eq!(group_cell(&Cell::Chain("eth".into()), &filtered, &names).path, None);
    }
}
