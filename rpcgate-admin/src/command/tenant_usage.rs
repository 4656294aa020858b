//! The usage of a tenant for its export: sums by day, project, chain and method.

use super::command_error::CommandError;
use super::export_writer::ExportWriter;
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Params;
use rpcgate_management::action::usage;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::shape::moment::Moment;
use rpcgate_management::shape::usage::View;
use rpcgate_store::Tenant;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const ROWS: &str = "5000";

/// Writes a line for each day, project, chain and method of a tenant in the retention time of sums. A day with too many
/// rows is written by the hour.
pub(super) async fn write(
    app: &AppState,
    tenant: &Tenant,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let now = app.now();
    let retention_days = app.settings.config.retention.ledger.as_secs() / DAY.as_secs();
    let first = tenant.created_at.day().max(now.day().saturating_sub(retention_days));
    let mut from = Time::from_secs(first.saturating_mul(DAY.as_secs()));
    while from < now {
        let to = from.plus(DAY);
        match rows(app, tenant, from..to.min(now), "day,project,chain,method").await? {
            Some(view) => lines(view, writer)?,
            None => by_hour(app, tenant, from..to.min(now), writer).await?,
        }
        from = to;
    }
    Ok(())
}

async fn by_hour(
    app: &AppState,
    tenant: &Tenant,
    day: std::ops::Range<Time>,
    writer: &mut ExportWriter<'_>,
) -> Result<(), CommandError> {
    let mut from = day.start;
    while from < day.end {
        let to = from.plus(HOUR).min(day.end);
        match rows(app, tenant, from..to, "hour,project,chain,method").await? {
            Some(view) => lines(view, writer)?,
            None => {
                let text =
                    format!("the usage of the hour from {} has too many rows to be exported", Moment(from));
                return Err(ActionError::invalid(text).into());
            }
        }
        from = to;
    }
    Ok(())
}

/// Returns the sums of a window, or `None` if they do not fit into one answer.
async fn rows(
    app: &AppState,
    tenant: &Tenant,
    window: std::ops::Range<Time>,
    group_by: &str,
) -> Result<Option<View>, CommandError> {
    let from = Moment(window.start).to_string();
    let to = Moment(window.end).to_string();
    let params = Params {
        from: Some(&from),
        to: Some(&to),
        group_by: Some(group_by),
        limit: Some(ROWS),
        ..Params::default()
    };
    match usage::usage(app, tenant.id, &params).await {
        Ok(usage) => Ok(Some(View::from(usage)).filter(|view| !view.truncated)),
        // The window has more rows than one answer adds up.
        Err(ActionError::TooWide(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn lines(view: View, writer: &mut ExportWriter<'_>) -> Result<(), CommandError> {
    for row in view.rows {
        writer.line("usage", row)?;
    }
    Ok(())
}
