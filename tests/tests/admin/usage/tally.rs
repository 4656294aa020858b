//! A client's own count, and the usage view that must result from it.

use serde_json::Value;
use std::collections::BTreeMap;

/// The names of the sums that a client can count.
pub(crate) const SUMS: [&str; 8] = [
    "requests",
    "billed_requests",
    "billable_units",
    "errors",
    "rejected",
    "cache_hits",
    "request_bytes",
    "response_bytes",
];

/// The names of the sums that are zero here: there are no streams, and no time passes during a call.
const ZEROES: [&str; 4] = ["ws_connections", "ws_refused", "ws_messages", "avg_latency_ms"];

pub(crate) type Sums = [u64; 8];

pub(crate) type Rows = BTreeMap<Vec<String>, Sums>;

#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) tenant: usize,
    pub(crate) project: String,
    pub(crate) key: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) who: Who,
    /// The number of the UTC hour in which it was sent.
    pub(crate) hour: u64,
    pub(crate) chain: &'static str,
    pub(crate) method: String,
    pub(crate) status: u16,
    pub(crate) sums: Sums,
}

impl Call {
    fn cell(&self, name: &str) -> String {
        match name {
            "hour" => moment(self.hour),
            "day" => moment(self.hour / 24 * 24),
            "chain" => self.chain.to_owned(),
            "method" => self.method.clone(),
            "key" => self.who.key.clone(),
            "project" | "project_id" => self.who.project.clone(),
            "transport" => "http".to_owned(),
            "status" => self.status.to_string(),
            other => panic!("no such name: {other}"),
        }
    }

    /// Reports whether the call passes these filters.
    pub(crate) fn is_in(&self, only: &[(&str, &str)]) -> bool {
        only.iter().all(|(name, value)| self.cell(name) == *value)
    }
}

/// Returns the first moment of an hour. The tests run in January 2027.
pub(crate) fn moment(hour: u64) -> String {
    let since = hour - JANUARY;
    assert!(since < 31 * 24, "not in January 2027");
    format!("2027-01-{:02}T{:02}:00:00.000Z", 1 + since / 24, since % 24)
}

/// The hour that begins with 2027-01-01T00:00:00Z.
const JANUARY: u64 = 1_798_761_600 / 3_600;

pub(crate) fn rows<'c>(calls: impl IntoIterator<Item = &'c Call>, groups: &[&str]) -> Rows {
    let mut rows = Rows::new();
    for call in calls {
        let row = rows.entry(groups.iter().map(|name| call.cell(name)).collect()).or_default();
        add(row, &call.sums);
    }
    rows
}

pub(crate) fn total<'c>(calls: impl IntoIterator<Item = &'c Call>) -> Sums {
    rows(calls, &[]).into_values().next().unwrap_or_default()
}

pub(crate) fn add(sums: &mut Sums, more: &Sums) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

pub(crate) fn sums(object: &Value) -> Sums {
    for name in ZEROES {
        assert_eq!(object[name].as_f64(), Some(0.0), "{name}: {object}");
    }
    SUMS.map(|name| object[name].as_u64().unwrap())
}

/// Returns the rows of a view, which must have exactly the expected members.
pub(crate) fn shown(view: &Value, groups: &[&str]) -> Rows {
    let mut rows = Rows::new();
    for row in view["rows"].as_array().unwrap() {
        assert_eq!(row.as_object().unwrap().len(), groups.len() + SUMS.len() + ZEROES.len(), "{row}");
        let cell = |name: &&str| match &row[*name] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => panic!("{name}: {other}"),
        };
        let there = rows.insert(groups.iter().map(cell).collect(), sums(row));
        assert!(there.is_none(), "there twice: {row}");
    }
    rows
}
