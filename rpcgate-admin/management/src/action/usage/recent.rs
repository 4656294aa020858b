//! The recent usage of keys and projects, which users need before they end one of them.

use super::if_readable;
use super::series::series;
use crate::app_state::AppState;
use crate::error::ActionError;
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::{Cell, Group, Metrics, Period, UsageAsk, UsageFilter, UsageWindow, ask};
use std::collections::BTreeMap;

/// The number of rows that are read to find the first call of a key.
const MAX_ROWS: u32 = 10;

/// Recent requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecentUse {
    /// The requests of the last 7 days.
    pub week: u64,
    /// The requests of the last 30 days.
    pub month: u64,
    /// The beginning of the newest hour with requests, in the last 7 days.
    pub newest: Option<Time>,
}

/// A call that a key has made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenCall {
    /// The chain.
    pub chain: String,
    /// The method.
    pub method: String,
    /// The HTTP status.
    pub status: u16,
    /// The counters of the call and of calls like it.
    pub metrics: Metrics,
}

/// Returns the recent requests of what `only` selects; `None` while usage cannot be read.
///
/// # Errors
/// Those that [`if_readable`] returns.
pub async fn recent_use(
    app: &AppState,
    tenant: TenantId,
    only: UsageFilter,
) -> Result<Option<RecentUse>, ActionError> {
    if_readable(read(app, tenant, only).await)
}

async fn read(app: &AppState, tenant: TenantId, only: UsageFilter) -> Result<RecentUse, ActionError> {
    let now = app.now();
    let query = |period| UsageAsk::new(tenant, UsageWindow::of(period, now)).only(only.clone());
    let week = app.usage.usage(&query(Period::Week).grouped(&[Group::Hour])?).await?;
    let month = app.usage.usage(&query(Period::ThirtyDays)).await?;
    let mut used = week.rows.iter().rev().filter(|row| row.metrics.requests > 0);
    let newest = used.find_map(|row| match row.cells[..] {
        [Cell::Hour(hour)] => Some(hour),
        _ => None,
    });
    Ok(RecentUse { week: week.totals.requests, month: month.totals.requests, newest })
}

/// The usage of a key in the last 24 hours.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyUsage {
    /// The totals.
    pub totals: Metrics,
    /// The requests in each of the hours; `None` if the project has too many keys.
    pub hours: Option<Vec<u64>>,
}

/// Returns the usage of each key of a project in the last 24 hours; keys without usage are left out.
///
/// # Errors
/// [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn by_key(
    app: &AppState,
    tenant: TenantId,
    project: ProjectId,
) -> Result<BTreeMap<KeyId, KeyUsage>, ActionError> {
    let only = UsageFilter { project: Some(project), ..UsageFilter::default() };
    let query = UsageAsk::new(tenant, UsageWindow::of(Period::Day, app.now())).only(only);
    let mut keys = BTreeMap::new();
    let by_hour = series(app, &query, Some(Group::Key)).await?;
    if !by_hour.is_merged {
        for (cell, part) in by_hour.parts {
            let Some(Cell::Key(key)) = cell else { continue };
            let mut totals = Metrics::default();
            part.iter().for_each(|metrics| totals.add(metrics));
            let hours = part.iter().map(|metrics| metrics.requests).collect();
            keys.insert(key, KeyUsage { totals, hours: Some(hours) });
        }
        return Ok(keys);
    }
    let view = app.usage.usage(&query.grouped(&[Group::Key])?.limited(ask::MOST_ROWS)?).await?;
    for row in view.rows {
        if let [Cell::Key(key)] = row.cells[..] {
            keys.insert(key, KeyUsage { totals: row.metrics, hours: None });
        }
    }
    Ok(keys)
}

/// Returns a call that a key made in the last 24 hours, if possible a successful one.
///
/// # Errors
/// [`ActionError::TooMany`], [`ActionError::Unavailable`].
pub async fn seen_call(
    app: &AppState,
    tenant: TenantId,
    key: KeyId,
) -> Result<Option<SeenCall>, ActionError> {
    let only = UsageFilter { key: Some(key), ..UsageFilter::default() };
    let query = UsageAsk::new(tenant, UsageWindow::of(Period::Day, app.now())).only(only);
    let query = query.grouped(&[Group::Chain, Group::Method, Group::Status])?.limited(MAX_ROWS)?;
    let rows = app.usage.usage(&query).await?.rows;
    let mut called = None;
    let mut succeeded = None;
    for row in rows.into_iter().filter(|row| row.metrics.requests > 0) {
        let slot = if row.metrics.requests > row.metrics.errors { &mut succeeded } else { &mut called };
        slot.get_or_insert(row);
    }
    Ok(succeeded.or(called).and_then(|row| match <[Cell; 3]>::try_from(row.cells) {
        Ok([Cell::Chain(chain), Cell::Method(method, _), Cell::Status(status)]) => {
            Some(SeenCall { chain, method, status, metrics: row.metrics })
        }
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOON, Site};
    use rpcgate_core::usage::sample::{SampleRecord, SampleShipper, deed, item};
    use std::time::Duration;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Records calls of the keys 1 and 2 of project 5, some of them long ago.
    async fn used() -> Site {
        let site = Site::new().await;
        let call = |key: u128, hours: u32| SampleRecord {
            tenant: TenantId(7),
            project: ProjectId(5),
            key: KeyId(key),
            ..deed(1, Time::from_secs(NOON.secs() - u64::from(hours) * HOUR.as_secs()), vec![item("m")])
        };
        let calls = [call(1, 20 * 24), call(1, 50), call(1, 30), call(2, 3), call(2, 3)];
        site.app.usage.ship(&SampleShipper::new(1).pack(&calls)).await.unwrap();
        site
    }

    #[tokio::test]
    async fn recent_use_is_that_of_a_week_and_a_month_and_of_one_key_or_project() {
        let site = used().await;
        let of = async |only| recent_use(&site.app, TenantId(7), only).await.unwrap().unwrap();
        let at = |hours: u64| Some(Time::from_secs(NOON.secs() - hours * 3_600));
        let one = of(UsageFilter { key: Some(KeyId(1)), ..UsageFilter::default() }).await;
        assert_eq!(one, RecentUse { week: 2, month: 3, newest: at(30) });
        let all = of(UsageFilter { project: Some(ProjectId(5)), ..UsageFilter::default() }).await;
        assert_eq!(all, RecentUse { week: 4, month: 5, newest: at(3) });
        let none = of(UsageFilter { key: Some(KeyId(3)), ..UsageFilter::default() }).await;
        assert_eq!(none, RecentUse::default());
        let other =
            recent_use(&site.app, TenantId(8), UsageFilter { key: Some(KeyId(1)), ..UsageFilter::default() })
                .await;
        assert_eq!(other.unwrap(), Some(RecentUse::default()), "of another tenant nothing is told");
        site.app.usage.close().await;
        let unread =
            recent_use(&site.app, TenantId(7), UsageFilter { key: Some(KeyId(1)), ..UsageFilter::default() })
                .await;
        assert_eq!(unread.unwrap(), None);
    }

    #[tokio::test]
    async fn the_keys_of_a_project_and_its_first_call_are_reported() {
        let site = used().await;
        let day = by_key(&site.app, TenantId(7), ProjectId(5)).await.unwrap();
        let requests: Vec<_> = day.iter().map(|(key, usage)| (*key, usage.totals.requests)).collect();
        assert_eq!(requests, [(KeyId(2), 2)]);
        let hours = day[&KeyId(2)].hours.as_ref().unwrap();
        assert_eq!((hours.len(), hours[20], hours.iter().sum::<u64>()), (24, 2, 2));
        assert_eq!(seen_call(&site.app, TenantId(7), KeyId(1)).await.unwrap(), None, "too long ago");
        let seen = seen_call(&site.app, TenantId(7), KeyId(2)).await.unwrap().unwrap();
        assert_eq!((seen.chain.as_str(), seen.method.as_str(), seen.status), ("toy", "m", 200));
        assert_eq!(seen.metrics.requests, 2);
        assert_eq!(seen_call(&site.app, TenantId(8), KeyId(2)).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_query_about_too_many_keys_reports_no_hours() {
        let site = Site::new().await;
        let mut sender = SampleShipper::new(1);
        for hours in 0..18 {
            let call = |key: u128| SampleRecord {
                tenant: TenantId(7),
                project: ProjectId(5),
                key: KeyId(key),
                ..deed(1, Time::from_secs(NOON.secs() - hours * HOUR.as_secs()), vec![item("m")])
            };
            let calls: Vec<_> = (0..300).map(call).collect();
            site.app.usage.ship(&sender.pack(&calls)).await.unwrap();
        }
        let keys = by_key(&site.app, TenantId(7), ProjectId(5)).await.unwrap();
        assert_eq!(keys.len(), 300);
        assert!(keys.values().all(|usage| usage.hours.is_none() && usage.totals.requests == 18));
    }
}
