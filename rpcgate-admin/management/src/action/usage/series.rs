//! Usage over time, split by one dimension.

use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::ask::MOST_ROWS;
use rpcgate_core::usage::{Cell, Group, Metrics, UsageAsk};
use rpcgate_store::StoreError;
use std::collections::BTreeMap;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// The longest window, in hours, that is shown by the hour.
const MAX_HOURLY: usize = 48;

/// Usage over time.
#[derive(Clone, PartialEq, Debug)]
pub struct UsageSeries {
    /// [`Group::Hour`] or [`Group::Day`].
    pub step: Group,
    /// The beginnings of the hours or UTC days that the window touches.
    pub starts: Vec<Time>,
    /// True if the last one has not ended yet.
    pub is_running: bool,
    /// The usage in each of them, by the value of the dimension. The only key is `None` without a dimension, or if it
    /// has too many values.
    pub parts: BTreeMap<Option<Cell>, Vec<Metrics>>,
    /// True if the values are added up, because the dimension had too many of them or too many rows to read.
    pub is_merged: bool,
}

impl UsageSeries {
    /// Returns the usage in each hour or day.
    pub fn totals(&self) -> Vec<Metrics> {
        let mut totals = vec![Metrics::default(); self.starts.len()];
        for part in self.parts.values() {
            for (total, metrics) in totals.iter_mut().zip(part) {
                total.add(metrics);
            }
        }
        totals
    }
}

/// Returns the step of windows with this many hours: an hour or a day.
pub fn step(hours: usize) -> Group {
    if hours <= MAX_HOURLY { Group::Hour } else { Group::Day }
}

/// Returns the usage that `ask` describes over time, split by `dimension`, whatever `ask` groups by. A tenant with too
/// many rows to split in time gets the sums, because the rows of its projects are few.
///
/// # Errors
/// [`ActionError::Invalid`] says how to narrow the query; [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn series(
    app: &AppState,
    ask: &UsageAsk,
    dimension: Option<Group>,
) -> Result<UsageSeries, ActionError> {
    let window = ask.window().clone();
    let step = step(window.hours().count());
    let length = if step == Group::Day { DAY } else { HOUR };
    let groups: Vec<_> = [Some(step), dimension].into_iter().flatten().collect();
    let by_dimension = match app.usage.usage(&ask.clone().grouped(&groups)?.limited(MOST_ROWS)?).await {
        Ok(view) => Some(view).filter(|view| !view.truncated),
        Err(StoreError::TooWide(_)) if dimension.is_some() => None,
        Err(error) => return Err(error.into()),
    };
    let is_merged = by_dimension.is_none();
    let view = match by_dimension {
        Some(view) => view,
        // The longest window has fewer hours than an answer may have rows.
        None => app.usage.usage(&ask.clone().grouped(&[step])?.limited(MOST_ROWS)?).await?,
    };
    let from = window.from().secs() / length;
    let to = window.to().secs().div_ceil(length);
    let starts: Vec<_> = (from..to).map(|number| Time::from_secs(number.saturating_mul(length))).collect();
    let mut parts: BTreeMap<Option<Cell>, Vec<Metrics>> = BTreeMap::new();
    for row in view.rows {
        let counted = row.counted();
        let mut cells = row.cells.into_iter();
        let Some(Cell::Hour(begin) | Cell::Day(begin)) = cells.next() else { continue };
        // A method, and a part of streams with that name, are merged.
        let cell = cells.next().map(|cell| match cell {
            Cell::Method(name, _) => Cell::Method(name, rpcgate_core::usage::Stream::Call),
            other => other,
        });
        let index = usize::try_from((begin.secs() / length).saturating_sub(from)).unwrap_or(usize::MAX);
        let part = parts.entry(cell).or_insert_with(|| vec![Metrics::default(); starts.len()]);
        if let Some(metrics) = part.get_mut(index) {
            metrics.add(&counted);
        }
    }
    let is_running = window.to() > app.now();
    Ok(UsageSeries { step, starts, is_running, parts, is_merged })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOON, Site};
    use rpcgate_core::caller::TenantId;
    use rpcgate_core::usage::sample::{SampleRecord, SampleShipper, deed, item};
    use rpcgate_core::usage::{Period, UsageWindow};

    const TENANT: TenantId = TenantId(7);

    fn called(chain: &'static str, back: u64, methods: &[&str]) -> SampleRecord {
        let items = methods.iter().map(item).collect();
        SampleRecord { tenant: TENANT, chain, ..deed(1, Time::from_secs(NOON.secs() - back * HOUR), items) }
    }

    fn ask(period: Period) -> UsageAsk {
        UsageAsk::new(TENANT, UsageWindow::of(period, NOON))
    }

    fn requests(part: &[Metrics]) -> Vec<u64> {
        part.iter().map(|metrics| metrics.requests).collect()
    }

    #[tokio::test]
    async fn each_hour_has_a_point_and_the_parts_add_up() {
        let site = Site::new().await;
        let calls = [called("eth", 0, &["a", "b"]), called("btc", 23, &["a"]), called("eth", 23, &["a"])];
        site.app.usage.ship(&SampleShipper::new(1).pack(&calls)).await.unwrap();
        let found = series(&site.app, &ask(Period::Day), Some(Group::Chain)).await.unwrap();
        assert_eq!((found.step, found.starts.len(), found.is_running), (Group::Hour, 24, true));
        let part = |chain: &str| requests(&found.parts[&Some(Cell::Chain(chain.into()))]);
        assert_eq!((part("eth")[0], part("eth")[23], part("btc")[0], part("btc")[23]), (1, 2, 1, 0));
        let totals = requests(&found.totals());
        assert_eq!((totals[0], totals[23], totals.iter().sum::<u64>()), (2, 2, 4));
        let alone = series(&site.app, &ask(Period::Day), None).await.unwrap();
        assert_eq!((alone.totals(), alone.is_merged), (found.totals(), false));
    }

    #[tokio::test]
    async fn long_windows_are_by_the_day() {
        let site = Site::new().await;
        let calls = [called("eth", 0, &["a"]), called("eth", 6 * 24, &["a"])];
        site.app.usage.ship(&SampleShipper::new(1).pack(&calls)).await.unwrap();
        let found = series(&site.app, &ask(Period::Week), Some(Group::Chain)).await.unwrap();
        // The window begins within a day.
        assert_eq!((found.step, found.starts.len()), (Group::Day, 8));
        assert_eq!(requests(&found.totals()), [0, 1, 0, 0, 0, 0, 0, 1]);
        let nothing =
            series(&site.app, &UsageAsk::new(TenantId(8), ask(Period::Week).window().clone()), None).await;
        assert!(nothing.unwrap().totals().iter().all(Metrics::is_empty));
    }

    #[tokio::test]
    async fn too_many_values_are_added_up() {
        let site = Site::new().await;
        let names: Vec<String> = (0..300).map(|number| format!("m{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut sender = SampleShipper::new(1);
        for back in 0..18 {
            // A batch has at most 100 calls.
            let calls: Vec<_> = names.chunks(100).map(|part| called("eth", back, part)).collect();
            site.app.usage.ship(&sender.pack(&calls)).await.unwrap();
        }
        let found = series(&site.app, &ask(Period::Day), Some(Group::Method)).await.unwrap();
        assert!(found.is_merged);
        assert_eq!(found.parts.keys().collect::<Vec<_>>(), [&None]);
        assert_eq!(requests(&found.totals()).iter().sum::<u64>(), 18 * 300);
    }

    // Shows (Dashboard).
    #[tokio::test]
    async fn rows_with_the_same_time_are_added_up() {
        // By two names, more than 8 rows are refused, and by one name, more than 13.
        let mut site = Site::new().await;
        site.bound_usage(9, 26);
        let methods = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        site.app.usage.ship(&SampleShipper::new(1).pack(&[called("eth", 0, &methods)])).await.unwrap();
        let found = series(&site.app, &ask(Period::Day), Some(Group::Method)).await.unwrap();
        assert!(found.is_merged);
        assert_eq!(found.parts.keys().collect::<Vec<_>>(), [&None]);
        assert_eq!(requests(&found.totals()).iter().sum::<u64>(), 10);
        site.bound_usage(1, 2);
        let refused = series(&site.app, &ask(Period::Day), Some(Group::Method)).await.unwrap_err();
        assert!(matches!(refused, ActionError::TooWide(_)), "{refused}");
    }
}
