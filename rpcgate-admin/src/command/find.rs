//! Finds the object of an argument by its identifier, or by its name if the name is unique.

use super::command_error::CommandError;
use super::printer::printable;
use rpcgate_core::caller::TenantId;
use rpcgate_core::plan::Tier;
use rpcgate_management::action::operator::{custom_plans, lookup, tenants, users};
use rpcgate_management::action::plans::PlanNames;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_store::{Account, AccountFilter, CustomPlan, Key, Project, Tenant, TenantPlan};

/// Finds a tenant by its identifier or name.
pub(super) async fn tenant(app: &AppState, given: &str) -> Result<Tenant, CommandError> {
    if let Ok(id) = given.parse() {
        return known(tenants::get(app, id).await, "tenant", given);
    }
    let found = lookup::tenants_named(app, given).await?;
    let names = PlanNames::read(app).await?;
    one(found, "tenant", given, |tenant| format!("{} ({} plan)", tenant.id, names.of(tenant.plan())))
}

pub(super) async fn optional_tenant(
    app: &AppState,
    given: Option<&String>,
) -> Result<Option<Tenant>, CommandError> {
    match given {
        Some(given) => tenant(app, given).await.map(Some),
        None => Ok(None),
    }
}

pub(super) async fn tenant_id(
    app: &AppState,
    given: Option<&String>,
) -> Result<Option<TenantId>, CommandError> {
    Ok(optional_tenant(app, given).await?.map(|tenant| tenant.id))
}

/// Finds a project by its identifier or name, of the tenant `of` if that is given.
pub(super) async fn project(
    app: &AppState,
    of: Option<&String>,
    given: &str,
) -> Result<Project, CommandError> {
    let tenant = tenant_id(app, of).await?;
    if let Ok(id) = given.parse() {
        let project = known(lookup::project(app, id).await, "project", given)?;
        return match tenant {
            Some(tenant) if project.tenant != tenant => Err(unknown("project", given)),
            _ => Ok(project),
        };
    }
    let found = lookup::projects_named(app, tenant, given).await?;
    one(found, "project", given, |project| format!("{} (of tenant {})", project.id, project.tenant))
}

/// The number of characters of a key that may be shown.
const PREFIX: usize = 12;

/// Finds a key and its tenant by the identifier or the first 12 characters. A longer text may be a key, so it is
/// refused and not repeated.
pub(super) async fn key(app: &AppState, given: &str) -> Result<(TenantId, Key), CommandError> {
    if let Ok(id) = given.parse() {
        return known(lookup::key(app, id).await, "key", given);
    }
    if given.chars().count() > PREFIX {
        let text = "name a key by its identifier or its first 12 characters, never by its text: arguments are visible \
                    to every user of this machine";
        return Err(CommandError::usage(text));
    }
    let found = lookup::keys_with_prefix(app, given).await?;
    one(found, "key", given, |(_, key)| format!("{} (of project {})", key.id, key.project))
}

/// Finds a custom plan by its identifier or name.
pub(super) async fn custom_plan(app: &AppState, given: &str) -> Result<CustomPlan, CommandError> {
    if let Ok(id) = given.parse() {
        return known(custom_plans::get(app, id).await, "plan", given);
    }
    let found = custom_plans::list(app).await?.into_iter().find(|plan| plan.name == given);
    found.ok_or_else(|| unknown("plan", given))
}

/// Finds a built-in plan by its name, or a custom plan by its name or identifier.
pub(super) async fn plan(app: &AppState, given: &str) -> Result<TenantPlan, CommandError> {
    match given.parse::<Tier>() {
        Ok(tier) => Ok(tier.into()),
        Err(_) => Ok(custom_plan(app, given).await?.plan()),
    }
}

pub(super) async fn user(app: &AppState, given: &str) -> Result<Account, CommandError> {
    if let Ok(id) = given.parse() {
        return known(users::get(app, id).await, "user", given);
    }
    let filter = AccountFilter { email: Some(given.to_owned()), tenant: None };
    let found = users::list(app, &filter, None, lookup::MAX_FOUND).await?;
    one(found, "user", given, |account| account.user.id.to_string())
}

fn known<T>(found: Result<T, ActionError>, what: &str, given: &str) -> Result<T, CommandError> {
    found.map_err(|error| match error {
        ActionError::NotFound(_) => unknown(what, given),
        error => error.into(),
    })
}

fn unknown(what: &str, given: &str) -> CommandError {
    CommandError::not_found(format!("there is no {what} `{}`", printable(given)))
}

/// Returns the only match. `describe` lists several matches in the error.
fn one<T>(
    mut found: Vec<T>,
    what: &str,
    given: &str,
    describe: impl Fn(&T) -> String,
) -> Result<T, CommandError> {
    if found.len() > 1 {
        let lines: Vec<_> = found.iter().map(|one| format!("  {}", describe(one))).collect();
        let name = printable(given);
        let lines = lines.join("\n");
        return Err(CommandError::usage(format!(
            "several are called `{name}`: give the identifier of the {what} instead, as one of\n{lines}"
        )));
    }
    found.pop().ok_or_else(|| unknown(what, given))
}

#[cfg(test)]
mod tests {
    use crate::command::console::tests::run;
    use crate::testing::{NOON, Site};
    use rpcgate_core::caller::{ProjectId, TenantId};
    use rpcgate_store::{Project, Role, fresh_id};

    async fn project(site: &Site, tenant: TenantId, name: &str) -> ProjectId {
        let project = Project::new(ProjectId(fresh_id(NOON)), tenant, name, NOON);
        site.app.store.create_project(&project).await.unwrap();
        project.id
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn a_name_identifies_a_resource_if_no_other_has_it() {
        let site = Site::new().await;
        let first = site.tenant().await;
        let shown = run(&site, None, "tenant show Site --json").await;
        assert_eq!(shown.json()[0]["id"], first.to_string());
        let second = site.tenant().await;
        let shown = run(&site, None, "tenant show Site").await;
        for id in [first, second] {
            assert!(shown.messages.contains(&format!("\n  {id} (free plan)\n")), "{shown:?}");
        }
        assert!(shown.code == 2 && shown.messages.starts_with("several are called `Site`"), "{shown:?}");
        assert!(shown.out.is_empty(), "{shown:?}");
        assert_eq!(run(&site, None, &format!("tenant show {second} --json")).await.json().len(), 1);

        let one = project(&site, first, "app").await;
        let other = project(&site, second, "app").await;
        assert_eq!(run(&site, None, "project show app").await.code, 2);
        let shown = run(&site, None, &format!("project show app --tenant {second} --json")).await;
        assert_eq!(shown.json()[0]["id"], other.to_string());
        let line = format!("project show {one} --tenant {second}");
        assert_eq!(run(&site, None, &line).await.code, 3, "it is another tenant's");
    }

    #[tokio::test]
    async fn a_missing_resource_is_reported_with_its_name() {
        let site = Site::new().await;
        let nothing = TenantId(7).to_string();
        for (line, text) in [
            ("tenant show bank", "there is no tenant `bank`"),
            ("project show app", "there is no project `app`"),
            ("project list --tenant bank", "there is no tenant `bank`"),
            ("key show rpcg_0123456", "there is no key `rpcg_0123456`"),
            ("user show ada@example.com", "there is no user `ada@example.com`"),
            ("invoice show 2026-000001", "invoice not found"),
        ] {
            let done = run(&site, None, line).await;
            assert_eq!((done.code, done.messages.as_str()), (3, format!("{text}\n").as_str()), "{line}");
        }
        for what in ["tenant", "project", "key", "user"] {
            let done = run(&site, None, &format!("{what} show {nothing}")).await;
            let text = format!("there is no {what} `{nothing}`\n");
            assert_eq!((done.code, done.messages), (3, text), "{what}");
        }
        let done = run(&site, None, "tenant show bank --json").await;
        assert_eq!(done.messages, "{\"error\":\"there is no tenant `bank`\",\"code\":\"not_found\"}\n");
    }

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn the_text_of_a_key_is_refused_and_not_repeated() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let project = project(&site, owner.user.tenant.unwrap(), "app").await;
        let created = run(&site, None, &format!("key create {project} --json")).await.json();
        let text = created[0]["key"].as_str().unwrap();
        for words in [format!("key show {text}"), format!("key revoke {text} --yes")] {
            let done = run(&site, None, &words).await;
            assert!(done.code == 2 && !done.messages.contains(&text[12..]), "{done:?}");
        }
        let prefix = &text[..12];
        let shown = run(&site, None, &format!("key show {prefix} --json")).await;
        assert_eq!(shown.json()[0]["id"], created[0]["id"]);
        assert!(!shown.out.contains(text));
    }
}
