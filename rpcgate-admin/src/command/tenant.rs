//! `rpcgate-admin tenant`: the status and the plan of tenants.

use super::command_error::CommandError;
use super::console::Console;
use super::printer::{Printable, printable};
use super::tenant_pages::TenantPages;
use super::{find, tenant_export};
use crate::cli::tenant::{ConfirmedTenantArgs, TenantCommand, TenantListArgs};
use rpcgate_core::caller::TenantId;
use rpcgate_management::action::operator::tenants;
use rpcgate_management::action::plans::PlanNames;
use rpcgate_management::shape::tenants::{TenantJson, TenantStatus};
use rpcgate_store::{Tenant, TenantChange, TenantFilter, TenantPlan};

impl Printable for TenantJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("ID", 36), ("PLAN", 10), ("STATUS", 9), ("CREATED", 27), ("NAME", 0)];

    fn cells(&self) -> Vec<String> {
        let status = status(self).to_owned();
        vec![self.id.clone(), self.plan.clone(), status, self.created_at.to_string(), self.name.clone()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("id", self.id.clone()),
            ("name", self.name.clone()),
            ("plan", self.plan.clone()),
            ("status", status(self).to_owned()),
            ("created at", self.created_at.to_string()),
        ]
    }
}

fn status(tenant: &TenantJson) -> &'static str {
    match tenant.status {
        TenantStatus::Active => "active",
        TenantStatus::Suspended => "suspended",
    }
}

pub(super) async fn execute(console: &mut Console<'_>, command: &TenantCommand) -> Result<(), CommandError> {
    match command {
        TenantCommand::List(args) => list(console, args).await,
        TenantCommand::Show(args) => {
            let tenant = find::tenant(&console.app, &args.tenant).await?;
            show(console, tenant).await
        }
        TenantCommand::Suspend(args) => suspend(console, args).await,
        TenantCommand::Reactivate(args) => {
            let id = find::tenant(&console.app, &args.tenant).await?.id;
            update(console, id, TenantChange { suspended: Some(false), ..TenantChange::default() }).await
        }
        TenantCommand::SetPlan(args) => {
            let id = find::tenant(&console.app, &args.one.tenant).await?.id;
            let TenantPlan { tier, custom } = find::plan(&console.app, &args.plan).await?;
            let tier = custom.is_none().then_some(tier);
            update(console, id, TenantChange { tier, custom_plan: custom, ..TenantChange::default() }).await
        }
        TenantCommand::Export(args) => tenant_export::execute(console, args).await,
        TenantCommand::Delete(args) => delete(console, args).await,
    }
}

async fn list(console: &mut Console<'_>, args: &TenantListArgs) -> Result<(), CommandError> {
    let names = PlanNames::read(&console.app).await?;
    let mut left = args.length.limit.unwrap_or(u64::MAX);
    let plan = match &args.plan {
        Some(given) => Some(find::plan(&console.app, given).await?),
        None => None,
    };
    let mut tenants = TenantPages::matching(TenantFilter { plan, suspended: args.suspended });
    while left > 0 {
        let Some(tenant) = tenants.next(&console.app).await? else { break };
        console.printer.entry(&TenantJson::of(tenant, &names))?;
        left -= 1;
    }
    Ok(())
}

async fn suspend(console: &mut Console<'_>, args: &ConfirmedTenantArgs) -> Result<(), CommandError> {
    let tenant = find::tenant(&console.app, &args.one.tenant).await?;
    let name = printable(&tenant.name);
    console.confirm(args.confirmation, &format!("Refuse all calls of {name} ({})?", tenant.id))?;
    update(console, tenant.id, TenantChange { suspended: Some(true), ..TenantChange::default() }).await
}

async fn delete(console: &mut Console<'_>, args: &ConfirmedTenantArgs) -> Result<(), CommandError> {
    let tenant = find::tenant(&console.app, &args.one.tenant).await?;
    let name = printable(&tenant.name);
    let question =
        format!("Delete {name} ({}) for good, with its users, projects, keys and tickets?", tenant.id);
    console.confirm(args.confirmation, &question)?;
    Ok(tenants::delete(&console.app, &console.actor(), tenant.id).await?)
}

async fn update(console: &mut Console<'_>, id: TenantId, change: TenantChange) -> Result<(), CommandError> {
    let tenant = tenants::update(&console.app, &console.actor(), id, change).await?;
    show(console, tenant).await
}

async fn show(console: &mut Console<'_>, tenant: Tenant) -> Result<(), CommandError> {
    let names = PlanNames::read(&console.app).await?;
    Ok(console.printer.object(&TenantJson::of(tenant, &names))?)
}
