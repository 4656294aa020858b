//! The team: the members of the tenant, their roles, and the invitations.

use super::confirm::{ConfirmQuestion, ConfirmRequest, Confirmed, confirmed};
use super::context::{PageContext, PageResult};
use super::filters;
use super::form::{FieldList, PlainForm, TYPED};
use super::frame::{Frame, PageSection};
use super::outcome::Done;
use super::parts::Choice;
use super::problems::{Labels, Problems};
use super::step_up::for_missing_proof;
use super::versions::FormVersion;
use super::view::{ok, rejected};
use askama::Template;
use axum::Router;
use axum::extract::State;
use rpcgate_management::action::{factor_policy, invitations, members, tenants, versions};
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::Id;
use rpcgate_management::identity::role::{Permission, Role};
use rpcgate_management::routing::{get, post};
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
        .route("/team/members/{id}/remove", confirmed::<MemberRemoval>())
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
    let email = fields.one("email").to_owned();
    let role = fields.filled("role").unwrap_or(&team.role).to_owned();
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

/// The removal of a member; of the reader, if it is the reader who leaves.
struct MemberRemoval {
    version: FormVersion,
    member: User,
}

impl Confirmed for MemberRemoval {
    type Reader = PageContext;
    type Path = Id<UserId>;
    const LABELS: Labels = &[(TYPED, "the e-mail address")];

    async fn load(request: ConfirmRequest<'_>, Id(id): Id<UserId>) -> Result<Self, ActionError> {
        let ConfirmRequest { app, page, .. } = request;
        let tenant = page.permitted(Permission::Read)?;
        let version = FormVersion::current(app, Versioned::Member(tenant, id)).await?;
        let member = members::get(app, &page.actor, tenant, id).await?;
        Ok(MemberRemoval { version, member })
    }

    fn question(&self, page: &PageContext) -> ConfirmQuestion {
        let User { id, email, .. } = &self.member;
        let (asked, act) = if *id == page.actor.user.id {
            ("Leave this organisation?".to_owned(), "Leave and delete my account")
        } else {
            (format!("Remove {email}?"), "Remove the member")
        };
        ConfirmQuestion::new(page.frame(PageSection::Team), asked, act, TEAM)
            .crumb("Team", TEAM)
            .consequence(
                "The account is deleted, with its sessions, its access tokens and its open invitations.",
            )
            .consequence("Projects, API keys and webhooks belong to the organisation and continue to work.")
            .consequence("To return, the member needs a new invitation.")
            .typed_if(true, email)
            .version(&self.version)
    }

    async fn act(self, ConfirmRequest { app, page, fields }: ConfirmRequest<'_>) -> PageResult {
        let id = self.member.id;
        members::remove(app, &page.expecting(fields), page.tenant()?, id).await?;
        Ok(if id == page.actor.user.id { page.to("login") } else { page.done(TEAM, Done::MemberRemoved) })
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
        Err(ActionError::Invalid(wrong)) => ActionError::Invalid(wrong.renamed("name", "tenant_name")),
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
