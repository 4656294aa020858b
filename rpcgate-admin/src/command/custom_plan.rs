//! `rpcgate-admin custom-plan`: custom plans of operators.

use super::command_error::CommandError;
use super::console::Console;
use super::find;
use super::plan::lines;
use super::printer::Printable;
use crate::cli::custom_plan::{CustomPlanCommand, CustomPlanDeleteArgs, CustomPlanSetArgs};
use rpcgate_core::plan::Tier;
use rpcgate_management::action::operator::custom_plans::{self, NewCustomPlan};
use rpcgate_management::shape::operator::custom_plans::{CustomPlanJson, PlanVisibility};
use rpcgate_store::{CustomPlan, CustomPlanChange, Figures};

impl Printable for CustomPlanJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("ID", 36), ("BASE", 10), ("VISIBILITY", 13), ("CREATED", 27), ("NAME", 0)];

    fn cells(&self) -> Vec<String> {
        let base = Tier::from(self.base_tier).to_string();
        let seen = visibility(self).to_owned();
        vec![self.id.clone(), base, seen, self.created_at.to_string(), self.name.clone()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("id", self.id.clone()),
            ("name", self.name.clone()),
            ("based on", Tier::from(self.base_tier).to_string()),
            ("visibility", visibility(self).to_owned()),
            ("figures", lines(&self.figures)),
            ("created at", self.created_at.to_string()),
        ]
    }
}

const fn visibility(plan: &CustomPlanJson) -> &'static str {
    match plan.visibility {
        PlanVisibility::Visible => "visible",
        PlanVisibility::ByInvitation => "by-invitation",
    }
}

pub(super) async fn execute(
    console: &mut Console<'_>,
    command: &CustomPlanCommand,
) -> Result<(), CommandError> {
    let plan = match command {
        CustomPlanCommand::List(_) => {
            let plans = custom_plans::list(&console.app).await?;
            for plan in plans {
                console.printer.entry(&CustomPlanJson::from(plan))?;
            }
            return Ok(());
        }
        CustomPlanCommand::Show(args) => find::custom_plan(&console.app, &args.plan).await?,
        CustomPlanCommand::Create(args) => {
            let name = args.name.clone();
            let figures = args.figures.change().into();
            let new = NewCustomPlan { name, base: args.base, is_visible: args.visible, figures };
            custom_plans::create(&console.app, &console.actor(), new).await?
        }
        CustomPlanCommand::Set(args) => set(console, args).await?,
        CustomPlanCommand::Delete(args) => return delete(console, args).await,
    };
    Ok(console.printer.object(&CustomPlanJson::from(plan))?)
}

async fn set(console: &mut Console<'_>, args: &CustomPlanSetArgs) -> Result<CustomPlan, CommandError> {
    let id = find::custom_plan(&console.app, &args.one.plan).await?.id;
    let figures = Some(Figures::from(args.figures.change())).filter(|figures| !figures.is_empty());
    let change = CustomPlanChange { name: args.name.clone(), is_visible: args.visibility, figures };
    if change == CustomPlanChange::default() {
        return Err(CommandError::usage("nothing to change: give a name, a visibility or figures"));
    }
    Ok(custom_plans::update(&console.app, &console.actor(), id, change).await?)
}

async fn delete(console: &mut Console<'_>, args: &CustomPlanDeleteArgs) -> Result<(), CommandError> {
    let plan = find::custom_plan(&console.app, &args.one.plan).await?;
    console.confirm(args.confirmation, &format!("Delete plan {} ({})?", plan.name, plan.id))?;
    Ok(custom_plans::delete(&console.app, &console.actor(), plan.id).await?)
}

#[cfg(test)]
mod tests {
    use crate::command::console::tests::run;
    use crate::testing::Site;
    use serde_json::json;

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn tenants_are_moved_to_custom_plans_by_name() {
        let site = Site::new().await;
        let tenant = site.tenant().await;
        let line = "custom-plan create startup --base standard --visible --per-minute 77 --json";
        let made = run(&site, None, line).await.json();
        assert_eq!(made[0]["figures"], json!({"limits": {"per_minute": 77}}));
        assert_eq!(run(&site, None, "custom-plan create startup --base free").await.code, 4);
        assert_eq!(run(&site, None, "custom-plan set startup").await.code, 2);
        let line = "custom-plan set startup --visibility by-invitation --json";
        assert_eq!(run(&site, None, line).await.json()[0]["visibility"], "by_invitation");
        let shown = run(&site, None, "custom-plan show startup").await.out;
        assert!(
            shown.contains("based on: standard\n") && shown.contains("figures: per_minute 77\n"),
            "{shown}"
        );
        let moved = run(&site, None, &format!("tenant set-plan {tenant} startup --json")).await.json();
        assert_eq!(moved[0]["plan"], "startup");
        assert_eq!(run(&site, None, "custom-plan delete startup --yes").await.code, 4, "a tenant is on it");
        for (given, listed) in
            [("startup", 1), (made[0]["id"].as_str().unwrap(), 1), ("standard", 0), ("free", 0)]
        {
            let tenants = run(&site, None, &format!("tenant list --plan {given} --json")).await.json();
            assert_eq!(tenants.len(), listed, "{given}");
        }
        let unknown = run(&site, None, "tenant list --plan gold").await;
        assert_eq!((unknown.code, unknown.messages.as_str()), (3, "there is no plan `gold`\n"));
        let moved = run(&site, None, &format!("tenant set-plan {tenant} premium --json")).await.json();
        assert_eq!(moved[0]["plan"], "premium");
        assert_eq!(run(&site, None, "custom-plan delete startup --yes").await.code, 0);
        let unknown = run(&site, None, &format!("tenant set-plan {tenant} startup")).await;
        assert_eq!((unknown.code, unknown.messages.as_str()), (3, "there is no plan `startup`\n"));
        assert_eq!(run(&site, None, "custom-plan list --json").await.json().len(), 0);
    }
}
