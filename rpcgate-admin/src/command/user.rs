//! `rpcgate-admin user`: the accounts of users.

use super::command_error::CommandError;
use super::console::Console;
use super::find;
use super::printer::{Printable, or_dash, printable};
use crate::cli::user::{UserChangeArgs, UserCommand, UserListArgs};
use rpcgate_management::action::operator::users;
use rpcgate_management::shape::list::MAX;
use rpcgate_management::shape::operator::users::AccountJson;
use rpcgate_store::{AccountFilter, UserId};

impl Printable for AccountJson {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("ID", 36), ("TENANT", 36), ("ROLE", 9), ("STATUS", 11), ("E-MAIL", 0)];

    fn cells(&self) -> Vec<String> {
        let role = self.role.to_owned();
        let status = status(self).to_owned();
        vec![self.id.clone(), or_dash(self.tenant_id.as_ref()), role, status, self.email.clone()]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("id", self.id.clone()),
            ("tenant", or_dash(self.tenant_id.as_ref())),
            ("e-mail", self.email.clone()),
            ("name", self.name.clone()),
            ("role", self.role.to_owned()),
            ("status", status(self).to_owned()),
            ("second factor", if self.mfa { "yes" } else { "no" }.to_owned()),
            ("locked until", or_dash(self.locked_until)),
            ("disabled at", or_dash(self.disabled_at)),
            ("created at", self.created_at.to_string()),
        ]
    }
}

/// Returns the status of an account: the reason why a user cannot log in, if there is one.
const fn status(account: &AccountJson) -> &'static str {
    if account.disabled_at.is_some() {
        "disabled"
    } else if account.locked_until.is_some() {
        "locked"
    } else if account.confirmed {
        "active"
    } else {
        "unconfirmed"
    }
}

pub(super) async fn execute(console: &mut Console<'_>, command: &UserCommand) -> Result<(), CommandError> {
    let account = match command {
        UserCommand::List(args) => return list(console, args).await,
        UserCommand::Show(args) => find::user(&console.app, &args.user).await?,
        UserCommand::Unlock(args) => {
            let id = find::user(&console.app, &args.user).await?.user.id;
            users::unlock(&console.app, &console.actor(), id).await?
        }
        UserCommand::Reset(args) => {
            let id = confirmed(console, args, "Remove the password of").await?;
            users::reset(&console.app, &console.actor(), id).await?
        }
        UserCommand::ResetFactors(args) => {
            let id = confirmed(console, &args.change, "Remove the second factors of").await?;
            users::remove_factors(&console.app, &console.actor(), id, &args.reason).await?
        }
        UserCommand::Disable(args) => {
            let id = confirmed(console, args, "Disable").await?;
            users::disable(&console.app, &console.actor(), id, true).await?
        }
        UserCommand::Enable(args) => {
            let id = find::user(&console.app, &args.user).await?.user.id;
            users::disable(&console.app, &console.actor(), id, false).await?
        }
    };
    Ok(console.printer.object(&AccountJson::from(account))?)
}

async fn list(console: &mut Console<'_>, args: &UserListArgs) -> Result<(), CommandError> {
    let tenant = find::tenant_id(&console.app, args.tenant.as_ref()).await?;
    let filter = AccountFilter { email: None, tenant };
    let mut left = args.length.limit.unwrap_or(u64::MAX);
    let mut after = None;
    while left > 0 {
        let page = users::list(&console.app, &filter, after, left.min(MAX)).await?;
        let Some(last) = page.last() else { break };
        (left, after) = (left - page.len() as u64, Some(last.user.id));
        for account in page {
            console.printer.entry(&AccountJson::from(account))?;
        }
    }
    Ok(())
}

/// Finds the user in the arguments, and asks for confirmation.
async fn confirmed(
    console: &mut Console<'_>,
    args: &UserChangeArgs,
    what: &str,
) -> Result<UserId, CommandError> {
    let user = find::user(&console.app, &args.one.user).await?.user;
    console.confirm(args.confirmation, &format!("{what} {}?", printable(&user.email)))?;
    Ok(user.id)
}

#[cfg(test)]
mod tests {
    use crate::command::console::tests::run;
    use crate::testing::Site;
    use rpcgate_store::{AuditSubject, Role};
    use serde_json::json;

    // Shows (Commands and configuration).
    #[tokio::test]
    async fn users_are_found_disabled_reset_and_enabled_by_their_address() {
        let site = Site::new().await;
        let owner = site.member(Role::Owner).await;
        let email = owner.user.email.clone();
        let tenant = owner.user.tenant.unwrap();
        site.operator().await;
        assert_eq!(run(&site, None, "user list --json").await.json().len(), 2);
        assert_eq!(run(&site, None, "user list --json --limit 1").await.json().len(), 1);
        let members = run(&site, None, &format!("user list --json --tenant {tenant}")).await.json();
        assert_eq!((members.len(), &members[0]["email"]), (1, &json!(email)));
        let declined = run(&site, Some("\n"), &format!("user disable {email}")).await;
        assert_eq!((declined.code, declined.messages.contains(&email)), (1, true));
        let disabled = run(&site, None, &format!("user disable {email} --yes --json")).await.json();
        assert!(disabled[0]["disabled_at"].is_string(), "{disabled:?}");
        assert!(site.app.store.session(owner.session, site.app.now()).await.unwrap().is_none());
        let refused = run(&site, None, &format!("user reset {email} --yes")).await;
        assert_eq!((refused.code, refused.messages.as_str()), (4, "the user is disabled\n"));
        let enabled = run(&site, None, &format!("user enable {email}")).await.out;
        assert!(enabled.contains("status: active\nsecond factor: no\n"), "{enabled}");
        assert_eq!(run(&site, None, &format!("user unlock {email}")).await.code, 0);
        assert_eq!(run(&site, None, &format!("user reset {email} --yes")).await.code, 0);
        let refused = run(&site, None, &format!("user reset-factors {email} --reason lost --yes")).await;
        assert_eq!((refused.code, refused.messages.as_str()), (4, "the user has no second factor\n"));
        let subjects: Vec<_> =
            site.handed_over_mails().await.into_iter().map(|(_, subject)| subject).collect();
        assert_eq!(subjects.len(), 3, "disabled, enabled, and the link: {subjects:?}");
        let audit = site.app.store.audit(AuditSubject::Tenant(tenant), 99).await.unwrap();
        let mut done: Vec<_> =
            audit.iter().filter(|entry| entry.address.starts_with("command line (")).collect();
        done.reverse();
        let actions: Vec<_> = done.iter().map(|entry| entry.action.as_str()).collect();
        assert_eq!(actions, ["user.disabled", "user.enabled", "user.unlocked", "user.reset"]);
        assert!(done.iter().all(|entry| entry.user.is_none()), "{done:?}");
    }
}
