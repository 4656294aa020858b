//! The team: the members of the tenant, their roles, and the invitations.

use super::confirm::ConfirmQuestion;
use super::context::{PageContext, PageResult};
use super::filters;
use super::form::{FieldList, PlainForm};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::Choice;
use super::problems::{Labels, Problems};
use super::step_up::for_missing_proof;
use super::versions::FormVersion;
use super::view::{ok, rejected};
use crate::management::action::{factor_policy, invitations, members, tenants, versions};
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::Id;
use crate::management::identity::role::{Permission, Role};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use rpcgate_store::{Invitation, InvitationId, User, UserId, Versioned};
use std::collections::BTreeMap;
use std::sync::Arc;

const LABELS: Labels = &[("email", "the e-mail address"), ("role", "the role"), ("tenant_name", "the name")];

const TEAM: &str = "team";

pub(crate) fn routes() -> Router<Arc<AppState>> {
    Router::new()
        .route("/team", get(show))
        .route("/team/invitations", post(invite))
        .route("/team/invitations/{id}/withdraw", post(withdraw))
        .route("/team/members/{id}/role", post(set_role))
        .route("/team/members/{id}/remove", get(ask).post(remove))
        .route("/team/second-factor", post(require_factor))
        .route("/team/name", post(rename))
}

#[derive(Template)]
#[template(path = "team.html")]
struct TeamPage {
    frame: Frame,
    problems: Problems,
    me: UserId,
    my_role: Role,
    members: Vec<User>,
    /// The open invitations, for readers who may manage members.
    invitations: Vec<Invitation>,
    versions: BTreeMap<UserId, FormVersion>,
    /// The role of a member that could not be changed, as it was submitted.
    refused_role: Option<(UserId, String)>,
    requires_factor: bool,
    tenant_name: String,
    /// The version of the tenant, and the content of the field for its name.
    tenant_version: FormVersion,
    typed_name: String,
    email: String,
    role: String,
}

impl TeamPage {
    /// Returns the roles that the reader may give to a member with the role `before`; empty if the reader may not
    /// change it.
    fn roles(&self, before: &Role) -> Vec<Choice> {
        let may = |role| members::may_change(self.my_role, Some(*before), Some(role));
        let given = Role::ALL.into_iter().filter(|role| may(*role));
        given.map(|role| Choice::new(role.as_str(), role.as_str())).collect()
    }

    /// Returns the roles that the reader may invite to.
    fn invitable(&self) -> Vec<Choice> {
        let may = |role| members::may_change(self.my_role, None, Some(role));
        let given = Role::ALL.into_iter().filter(|role| may(*role));
        given.map(|role| Choice::new(role.as_str(), role.as_str())).collect()
    }

    /// Returns the selected role in the form of a member.
    fn chosen_role<'p>(&'p self, member: &'p User) -> &'p str {
        match &self.refused_role {
            Some((id, role)) if *id == member.id => role,
            _ => member.role.as_str(),
        }
    }

    fn version_of(&self, member: &User) -> FormVersion {
        self.versions.get(&member.id).cloned().unwrap_or_default()
    }

    fn may_remove(&self, member: &User) -> bool {
        member.id == self.me || members::may_change(self.my_role, Some(member.role), None)
    }

    fn all_roles(&self) -> [Role; 5] {
        Role::ALL
    }
}

async fn team(app: &AppState, page: &PageContext) -> Result<TeamPage, ActionError> {
    let tenant = page.permitted(Permission::Read)?;
    let user = &page.actor.user;
    let tenant_version = FormVersion::current(app, Versioned::Tenant(tenant)).await?;
    let versions = versions::of_members(app, page.tenant()?).await?.into_iter();
    let tenant_name = tenants::get(app, &page.actor, tenant).await?.name;
    let invitations = if Permission::ManageMembers.is_granted_to(user.role) {
        invitations::list(app, &page.actor, tenant).await?
    } else {
        Vec::new()
    };
    Ok(TeamPage {
        frame: page.frame(PageSection::Team),
        problems: Problems::default(),
        me: user.id,
        my_role: user.role,
        members: members::list(app, &page.actor, tenant).await?,
        invitations,
        versions: versions.map(|(id, version)| (id, version.into())).collect(),
        refused_role: None,
        requires_factor: factor_policy::get(app, &page.actor, tenant).await?,
        tenant_version,
        typed_name: tenant_name.clone(),
        tenant_name,
        email: String::new(),
        role: Role::Developer.as_str().to_owned(),
    })
}

async fn show(State(app): State<Arc<AppState>>, page: PageContext) -> PageResult {
    Ok(ok(&team(&app, &page).await?))
}

/// Shows the page again with the error.
async fn again(app: &AppState, page: &PageContext, error: ActionError, fields: &FieldList) -> PageResult {
    if let Some(step_up) = for_missing_proof(page, &error, TEAM) {
        return Ok(step_up);
    }
    let team = team(app, page).await?;
    let (email, role) =
        (fields.one("email").to_owned(), fields.filled("role").unwrap_or(&team.role).to_owned());
    rejected(error, LABELS, |problems| TeamPage { problems, email, role, ..team })
}

fn role_of(fields: &FieldList) -> Result<Role, ActionError> {
    fields.one("role").parse().map_err(|_| ActionError::field("role", "choose a role"))
}

async fn invite(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let tenant = page.permitted(Permission::ManageMembers)?;
    let invited = async {
        let role = role_of(&fields)?;
        invitations::invite(&app, &page.actor, tenant, fields.one("email"), role).await
    };
    match invited.await {
        Ok(_) => Ok(page.done(TEAM, Done::MemberInvited)),
        Err(error) => again(&app, &page, error, &fields).await,
    }
}

async fn withdraw(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<InvitationId>,
    _: PlainForm,
) -> PageResult {
    let tenant = page.permitted(Permission::ManageMembers)?;
    invitations::withdraw(&app, &page.actor, tenant, id).await?;
    Ok(page.done(TEAM, Done::InvitationWithdrawn))
}

async fn set_role(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<UserId>,
    fields: FieldList,
) -> PageResult {
    let tenant = page.permitted(Permission::ManageMembers)?;
    let changed = async {
        let role = role_of(&fields)?;
        members::set_role(&app, &page.expecting(&fields), tenant, id, role).await
    };
    match changed.await {
        Ok(_) => Ok(page.done(TEAM, Done::RoleChanged)),
        Err(error) => {
            if let Some(step_up) = for_missing_proof(&page, &error, TEAM) {
                return Ok(step_up);
            }
            let mut team = team(&app, &page).await?;
            let member = team.members.iter().find(|member| member.id == id);
            let sent = fields.one("role").to_owned();
            let value = member.map(|member| {
                (format!("Role of {}", member.email), member.role.as_str().to_owned(), sent.clone())
            });
            let version = team.versions.remove(&id).unwrap_or_default();
            rejected(error, LABELS, |problems| {
                team.versions.insert(id, version.again(&problems, &fields));
                TeamPage { problems: problems.with_values(value), refused_role: Some((id, sent)), ..team }
            })
        }
    }
}

/// Makes the question whether to remove a member, or to leave.
async fn question(
    app: &AppState,
    page: &PageContext,
    id: UserId,
) -> Result<(ConfirmQuestion, String), ActionError> {
    let tenant = page.permitted(Permission::Read)?;
    let member = members::get(app, &page.actor, tenant, id).await?;
    let is_me = id == page.actor.user.id;
    let (asked, act) = if is_me {
        ("Leave this organisation?".to_owned(), "Leave and delete my account")
    } else {
        (format!("Remove {}?", member.email), "Remove the member")
    };
    let question = ConfirmQuestion::new(page.frame(PageSection::Team), asked, act, TEAM)
        .crumb("Team", TEAM)
        .consequence("The account is deleted, with its sessions, its access tokens and its open invitations.")
        .consequence("Projects, API keys and webhooks belong to the organisation and go on working.")
        .consequence("To come back, somebody has to be invited again.")
        .typed(member.email.clone());
    Ok((question, member.email))
}

async fn ask(State(app): State<Arc<AppState>>, page: PageContext, Id(id): Id<UserId>) -> PageResult {
    let version = FormVersion::current(&app, Versioned::Member(page.tenant()?, id)).await?;
    Ok(ok(&question(&app, &page, id).await?.0.version(&version)))
}

async fn remove(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    Id(id): Id<UserId>,
    fields: FieldList,
) -> PageResult {
    let tenant = page.permitted(Permission::Read)?;
    let version = FormVersion::current(&app, Versioned::Member(tenant, id)).await?;
    let (question, email) = question(&app, &page, id).await?;
    let removed = async {
        fields.confirms(&email)?;
        members::remove(&app, &page.expecting(&fields), tenant, id).await
    };
    match removed.await {
        Ok(()) if id == page.actor.user.id => Ok(page.to("login")),
        Ok(()) => Ok(page.done(TEAM, Done::MemberRemoved)),
        Err(error) => {
            let next = format!("team/members/{id}/remove");
            if let Some(step_up) = for_missing_proof(&page, &error, &next) {
                return Ok(step_up);
            }
            rejected(error, &[("confirm", "the e-mail address")], |problems| {
                question.again(version, &fields, problems)
            })
        }
    }
}

/// Sets whether every member needs a second factor.
async fn require_factor(
    State(app): State<Arc<AppState>>,
    page: PageContext,
    fields: FieldList,
) -> PageResult {
    let tenant = page.permitted(Permission::ManageOwners)?;
    let is_required = fields.one("required") == "yes";
    match factor_policy::put(&app, &page.session, &page.client, tenant, is_required).await {
        Ok(true) => Ok(page.done(TEAM, Done::FactorRequired)),
        Ok(false) => Ok(page.done(TEAM, Done::FactorOptional)),
        Err(error) => again(&app, &page, error, &FieldList::default()).await,
    }
}

async fn rename(State(app): State<Arc<AppState>>, page: PageContext, fields: FieldList) -> PageResult {
    let tenant = page.permitted(Permission::ManageTenant)?;
    let sent = fields.one("tenant_name").to_owned();
    let error = match tenants::rename(&app, &page.expecting(&fields), tenant, &sent).await {
        Ok(_) => return Ok(page.done(TEAM, Done::TenantRenamed)),
        Err(ActionError::Invalid(text)) => ActionError::Invalid(text.replace("`name`", "`tenant_name`")),
        Err(error) => error,
    };
    let team = team(&app, &page).await?;
    rejected(error, LABELS, |problems| TeamPage {
        tenant_version: team.tenant_version.again(&problems, &fields),
        problems: problems.with_values([("Name", team.tenant_name.clone(), sent.clone())]),
        typed_name: sent,
        ..team
    })
}

#[cfg(test)]
mod tests;
