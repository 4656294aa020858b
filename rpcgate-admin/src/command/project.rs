//! `rpcgate-admin project`: projects and their quotas.

use super::command_error::CommandError;
use super::console::Console;
use super::find;
use super::printer::{Printable, or_dash, printable};
use super::tenant_pages::TenantPages;
use crate::cli::figures::QuotaArgs;
use crate::cli::project::{ProjectArgs, ProjectClearArgs, ProjectCommand, ProjectListArgs, ProjectQuotaArgs};
use rpcgate_management::action::operator::quotas;
use rpcgate_management::action::projects;
use rpcgate_management::shape::operator::quotas::{NewQuota, QuotaJson};
use rpcgate_management::shape::projects::ProjectJson;

impl Printable for ProjectJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("ID", 36), ("TENANT", 36), ("CREATED", 27), ("NAME", 0)];

    fn cells(&self) -> Vec<String> {
        vec![self.id.clone(), self.tenant_id.clone(), self.created_at.to_string(), self.name.clone()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("id", self.id.clone()),
            ("tenant", self.tenant_id.clone()),
            ("name", self.name.clone()),
            ("allowed methods", self.allowed_methods.join(", ")),
            ("blocked methods", self.blocked_methods.join(", ")),
            ("created at", self.created_at.to_string()),
        ]
    }
}

impl Printable for QuotaJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("PROJECT", 36), ("CU PER DAY", 20), ("CU PER MONTH", 20), ("RPS LIMIT", 20), ("SET", 0)];

    fn cells(&self) -> Vec<String> {
        let month = or_dash(self.cu_per_month);
        let rps = or_dash(self.rps_limit);
        vec![self.project_id.clone(), self.cu_per_day.to_string(), month, rps, set(self).to_owned()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("project", self.project_id.clone()),
            ("cu per day", self.cu_per_day.to_string()),
            ("cu per month", or_dash(self.cu_per_month)),
            ("rps limit", or_dash(self.rps_limit)),
            ("quota", set(self).to_owned()),
        ]
    }
}

const fn set(quota: &QuotaJson) -> &'static str {
    if quota.has_quota_row { "set by an operator" } else { "default" }
}

pub(super) async fn execute(console: &mut Console<'_>, command: &ProjectCommand) -> Result<(), CommandError> {
    match command {
        ProjectCommand::List(args) => list(console, args).await,
        ProjectCommand::Show(args) => show(console, args).await,
        ProjectCommand::SetQuota(args) => set_quota(console, args).await,
        ProjectCommand::ClearQuota(args) => clear_quota(console, args).await,
    }
}

async fn list(console: &mut Console<'_>, args: &ProjectListArgs) -> Result<(), CommandError> {
    let mut left = args.length.limit.unwrap_or(u64::MAX);
    let mut tenants = TenantPages::of(find::optional_tenant(&console.app, args.tenant.as_ref()).await?);
    while let Some(tenant) = tenants.next(&console.app).await? {
        // The plan limits the number of projects of a tenant.
        let projects = projects::list(&console.app, &console.actor_for(tenant.id), tenant.id).await?;
        for project in projects {
            if left == 0 {
                return Ok(());
            }
            console.printer.entry(&ProjectJson::from(project))?;
            left -= 1;
        }
    }
    Ok(())
}

async fn show(console: &mut Console<'_>, args: &ProjectArgs) -> Result<(), CommandError> {
    let project = find::project(&console.app, args.tenant.as_ref(), &args.project).await?;
    let id = project.id;
    console.printer.object(&ProjectJson::from(project))?;
    let quota = quotas::get(&console.app, id).await?;
    Ok(console.printer.object(&QuotaJson::of(id, &quota))?)
}

async fn set_quota(console: &mut Console<'_>, args: &ProjectQuotaArgs) -> Result<(), CommandError> {
    let id = find::project(&console.app, args.one.tenant.as_ref(), &args.one.project).await?.id;
    let QuotaArgs { cu_per_day, cu_per_month, rps_limit } = args.quota;
    let new = NewQuota { cu_per_day, cu_per_month, rps_limit };
    let quota = quotas::put(&console.app, &console.actor(), id, new.into()).await?;
    Ok(console.printer.object(&QuotaJson::of(id, &quota))?)
}

async fn clear_quota(console: &mut Console<'_>, args: &ProjectClearArgs) -> Result<(), CommandError> {
    let project = find::project(&console.app, args.one.tenant.as_ref(), &args.one.project).await?;
    let name = printable(&project.name);
    console.confirm(args.confirmation, &format!("Remove the quota of {name} ({})?", project.id))?;
    quotas::delete(&console.app, &console.actor(), project.id).await?;
    let quota = quotas::get(&console.app, project.id).await?;
    Ok(console.printer.object(&QuotaJson::of(project.id, &quota))?)
}
