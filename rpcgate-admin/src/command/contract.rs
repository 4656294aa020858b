//! `rpcgate-admin contract`: contracts with tenants.

use super::command_error::CommandError;
use super::console::Console;
use super::find;
use super::plan::lines;
use super::printer::{Printable, or_dash};
use super::time_argument::time;
use crate::cli::contract::{
    ContractArgs, ContractCommand, ContractCreateArgs, ContractEndArgs, ContractSetEndArgs,
};
use rpcgate_core::caller::TenantId;
use rpcgate_management::action::operator::contracts::{self, NewContract};
use rpcgate_management::shape::contracts::ContractJson;
use rpcgate_store::{ContractId, TenantContract};

impl Printable for ContractJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("ID", 36), ("TENANT", 36), ("FROM", 27), ("UNTIL", 27), ("NOTE", 0)];

    fn cells(&self) -> Vec<String> {
        let from = self.from.to_string();
        let until = or_dash(self.until);
        vec![self.id.clone(), self.tenant_id.clone(), from, until, self.note.clone()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("id", self.id.clone()),
            ("tenant", self.tenant_id.clone()),
            ("figures", lines(&self.figures)),
            ("from", self.from.to_string()),
            ("until", or_dash(self.until)),
            ("note", self.note.clone()),
            ("created at", self.created_at.to_string()),
        ]
    }
}

pub(super) async fn execute(
    console: &mut Console<'_>,
    command: &ContractCommand,
) -> Result<(), CommandError> {
    let contract = match command {
        ContractCommand::List(args) => {
            let tenant = find::tenant(&console.app, &args.tenant).await?.id;
            let contracts = contracts::list(&console.app, tenant).await?;
            for contract in contracts {
                console.printer.entry(&ContractJson::from(contract))?;
            }
            return Ok(());
        }
        ContractCommand::Show(args) => {
            let (tenant, id) = named(console, args).await?;
            contracts::get(&console.app, tenant, id).await?
        }
        ContractCommand::Create(args) => create(console, args).await?,
        ContractCommand::SetEnd(args) => set_end(console, args).await?,
        ContractCommand::End(args) => return end(console, args).await,
    };
    Ok(console.printer.object(&ContractJson::from(contract))?)
}

async fn named(console: &Console<'_>, args: &ContractArgs) -> Result<(TenantId, ContractId), CommandError> {
    let wrong = |_| CommandError::usage("a contract is named by its identifier: see contract list");
    let id = args.contract.parse::<ContractId>().map_err(wrong)?;
    Ok((find::tenant(&console.app, &args.one.tenant).await?.id, id))
}

async fn create(
    console: &mut Console<'_>,
    args: &ContractCreateArgs,
) -> Result<TenantContract, CommandError> {
    let from = args.from.as_deref().map(|text| time("--from", text)).transpose()?;
    let until = args.until.as_deref().map(|text| time("--until", text)).transpose()?;
    let tenant = find::tenant(&console.app, &args.one.tenant).await?.id;
    let new = NewContract { figures: args.figures.change().into(), from, until, note: args.note.clone() };
    Ok(contracts::create(&console.app, &console.actor(), tenant, new).await?)
}

async fn set_end(
    console: &mut Console<'_>,
    args: &ContractSetEndArgs,
) -> Result<TenantContract, CommandError> {
    let until = args.until.as_deref().map(|text| time("--until", text)).transpose()?;
    let (tenant, id) = named(console, &args.contract).await?;
    Ok(contracts::update(&console.app, &console.actor(), tenant, id, until).await?)
}

async fn end(console: &mut Console<'_>, args: &ContractEndArgs) -> Result<(), CommandError> {
    let (tenant, id) = named(console, &args.contract).await?;
    contracts::get(&console.app, tenant, id).await?;
    console.confirm(args.confirmation, &format!("End contract {id} with tenant {tenant} now?"))?;
    Ok(contracts::end(&console.app, &console.actor(), tenant, id).await?)
}

#[cfg(test)]
mod tests {
    use crate::command::console::tests::run;
    use crate::testing::Site;
    use rpcgate_store::AuditSubject;
    use serde_json::{Value, json};
    use std::time::Duration;

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_contract_is_made_prolonged_and_ended() {
        let site = Site::new().await;
        let tenant = site.tenant().await;
        let empty = run(&site, None, &format!("contract create {tenant}")).await;
        assert_eq!((empty.code, empty.messages.as_str()), (2, "`figures` must not be empty\n"));
        let line = format!(
            "contract create {tenant} --per-day 5 --cu-per-day 9 --until 2027-06-01T00:00:00Z --note x --json"
        );
        let made = run(&site, None, &line).await.json().remove(0);
        assert_eq!(made["figures"], json!({"limits": {"per_day": 5}, "default_quota": {"cu_per_day": 9}}));
        let id = made["id"].as_str().unwrap();
        let wrong = run(&site, None, &format!("contract set-end {tenant} {id} --until tomorrow")).await;
        assert_eq!(wrong.code, 2, "{wrong:?}");
        let line = format!("contract set-end {tenant} {id} --never --json");
        assert_eq!(run(&site, None, &line).await.json()[0]["until"], Value::Null);
        site.clock.advance(Duration::from_secs(1));
        let declined = run(&site, Some("no\n"), &format!("contract end {tenant} {id}")).await;
        assert_eq!(declined.code, 1);
        assert_eq!(run(&site, None, &format!("contract end {tenant} {id} --yes")).await.code, 0);
        assert_eq!(run(&site, None, &format!("contract show {tenant} x")).await.code, 2);
        assert_eq!(run(&site, None, &format!("contract show {tenant} {tenant}")).await.code, 3);
        let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 9).await.unwrap();
        let actions: Vec<_> = audit.iter().rev().map(|entry| entry.action.as_str()).collect();
        assert_eq!(actions, ["contract.created", "contract.changed", "contract.ended"]);
        assert!(audit.iter().all(|entry| entry.address.starts_with("command line (")), "{audit:?}");
    }
}
