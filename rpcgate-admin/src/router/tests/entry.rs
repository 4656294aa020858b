//! Tests of all changes to who may enter a tenant: a stolen access token, or a page that was left open, cannot change
//! its owners and admins (promise 82).

use crate::api::accounts::tests::{
    EMAIL, PASSWORD, ask, login, mails, post as call, register_confirmed, site, tokens,
};
use crate::testing::browser::{cookie, post};
use crate::testing::{ApiAnswer, Site, Visitor};
use http::{Method, StatusCode};
use rpcgate_core::caller::TenantId;
use rpcgate_management::access::RECENT;
use rpcgate_store::{Audit, Invitation, Role, User};
use serde_json::{Value, json};
use std::time::Duration;

const THIEF: &str = "thief@example.com";
const NEW: &str = "another horse, another staple";

/// A tenant whose owner's session has no proof.
struct Team {
    site: Site,
    tenant: TenantId,
    owner: Visitor,
    /// One member of each role except owner.
    others: Vec<Visitor>,
    operator: Visitor,
}

/// A request that changes who may enter.
struct EntryChange {
    by_operator: bool,
    method: Method,
    path: String,
    body: Option<Value>,
}

impl Team {
    async fn new() -> Self {
        let site = Site::of("[admin]\nauth_per_minute = 1000\n[plans.free]\nmembers = 20\n").await;
        let owner = site.member(Role::Owner).await;
        let tenant = owner.user.tenant.unwrap();
        let mut others = Vec::new();
        for role in [Role::Owner, Role::Admin, Role::Admin, Role::Developer, Role::Viewer] {
            others.push(site.visitor(Some(tenant), role).await);
        }
        let operator = site.operator().await;
        Team { site, tenant, owner, others, operator }
    }

    /// Returns all changes that need a proof. Each is possible after the ones before it.
    fn changes(&self) -> Vec<EntryChange> {
        let of_tenant = |method, path: String, body| {
            let path = format!("/tenants/{}/{path}", self.tenant);
            EntryChange { by_operator: false, method, path, body }
        };
        let invite = |email: &str, role: &str| {
            let body = json!({"email": email, "role": role});
            of_tenant(Method::POST, "invitations".into(), Some(body))
        };
        let [owner, admin, second_admin, developer, viewer] = &self.others[..] else { unreachable!() };
        let give = |to: &Visitor, role: &str| {
            of_tenant(Method::PUT, format!("members/{}", to.user.id), Some(json!({"role": role})))
        };
        let remove = |gone: &Visitor| of_tenant(Method::DELETE, format!("members/{}", gone.user.id), None);
        let operate = |action: &str| EntryChange {
            by_operator: true,
            method: Method::POST,
            path: format!("/operator/users/{}/{action}", developer.user.id),
            body: None,
        };
        vec![
            invite(THIEF, "owner"),
            invite("second@example.com", "admin"),
            // Sends the mail again.
            invite(THIEF, "owner"),
            give(viewer, "owner"),
            give(developer, "admin"),
            give(admin, "viewer"),
            give(owner, "developer"),
            remove(owner),
            remove(second_admin),
            of_tenant(Method::PUT, "mfa".into(), Some(json!({"required": false}))),
        ]
        .into_iter()
        .chain(["reset", "disable", "enable"].map(operate))
        .collect()
    }

    async fn carry_out(&self, change: &EntryChange) -> ApiAnswer {
        let caller = if change.by_operator { &self.operator } else { &self.owner };
        ask(&self.site, Some(&caller.token), change.method.clone(), &change.path, change.body.clone()).await
    }

    async fn forget_proofs(&self) {
        for visitor in self.others.iter().chain([&self.owner, &self.operator]) {
            self.site.app.store.forget_proof(visitor.session).await.unwrap();
        }
    }

    /// Gives the sessions of the owner and of the operator a proof.
    async fn prove(&self) {
        for Visitor { user, session, .. } in [&self.owner, &self.operator] {
            let entry = Audit {
                tenant: user.tenant,
                user: Some(user.id),
                action: "password.given".into(),
                subject: user.id.to_string(),
                address: "192.0.2.1".into(),
                at: self.site.app.now(),
                detail: String::new(),
            };
            self.site.app.store.note_proof((user.id, *session), &entry).await.unwrap();
        }
    }

    async fn stored(&self) -> (Vec<User>, Vec<Invitation>, bool) {
        let store = &self.site.app.store;
        (
            store.members(self.tenant).await.unwrap(),
            store.invitations(self.tenant, self.site.app.now()).await.unwrap(),
            store.requires_factor(self.tenant).await.unwrap(),
        )
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_token_alone_changes_no_owner_and_no_admin() {
    let team = Team::new().await;
    team.forget_proofs().await;
    let before = team.stored().await;
    for change in team.changes() {
        let answer = team.carry_out(&change).await;
        let refused = (answer.status, &answer.body["code"]);
        let expected = (StatusCode::UNAUTHORIZED, &json!("proof_required"));
        assert_eq!(refused, expected, "{} {}: {}", change.method, change.path, answer.body);
    }
    assert_eq!(team.stored().await, before);

    team.prove().await;
    for change in team.changes() {
        let answer = team.carry_out(&change).await;
        assert!(answer.status.is_success(), "{} {}: {}", change.method, change.path, answer.body);
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_token_alone_still_manages_members_of_other_roles() {
    let team = Team::new().await;
    team.forget_proofs().await;
    let [.., developer, viewer] = &team.others[..] else { unreachable!() };
    let member = |one: &Visitor| format!("/tenants/{}/members/{}", team.tenant, one.user.id);
    let invitation = json!({"email": "guest@example.com", "role": "viewer"});
    let invitations = format!("/tenants/{}/invitations", team.tenant);
    for (method, path, body, status) in [
        (Method::POST, invitations, Some(invitation), StatusCode::CREATED),
        (Method::PUT, member(viewer), Some(json!({"role": "billing"})), StatusCode::OK),
        (Method::DELETE, member(developer), None, StatusCode::NO_CONTENT),
    ] {
        let answer = ask(&team.site, Some(&team.owner.token), method, &path, body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_page_that_was_left_open_changes_no_owner_and_no_admin() {
    let team = Team::new().await;
    team.forget_proofs().await;
    team.site.clock.advance(RECENT);
    let own = cookie(&team.site, &team.owner);
    let operator = cookie(&team.site, &team.operator);
    let before = team.stored().await;
    let [_, admin, _, _, viewer] = &team.others[..] else { unreachable!() };
    // The same form is sent again after the proof.
    let as_owner = [("email", THIEF), ("role", "owner"), ("once", "thief-0")];
    let role = |of: &Visitor| format!("/team/members/{}/role", of.user.id);
    let remove = format!("/team/members/{}/remove", admin.user.id);
    let operate = |action: &str| format!("/operator/users/{}/{action}", viewer.user.id);
    for (path, who, fields, next) in [
        ("/team/invitations".to_owned(), &own, as_owner.to_vec(), "team"),
        ("/team/invitations".to_owned(), &own, vec![("email", THIEF), ("role", "admin")], "team"),
        (role(viewer), &own, vec![("role", "owner")], "team"),
        (role(admin), &own, vec![("role", "viewer")], "team"),
        (remove, &own, vec![("confirm", admin.user.email.as_str())], "team%2Fmembers"),
        ("/team/second-factor".to_owned(), &own, vec![("required", "no")], "team"),
        (operate("reset"), &operator, vec![], "operator%2Fusers"),
        (operate("disable"), &operator, vec![], "operator%2Fusers"),
        (operate("enable"), &operator, vec![], "operator%2Fusers"),
    ] {
        let page = post(&team.site, &path, who, &fields).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{path}: {}", page.text);
        let (_, target) = page.leads_to();
        assert!(target.contains(&format!("step-up?next={next}")), "{path} leads to {target}");
    }
    assert_eq!(team.stored().await, before);
    let lesser = [("email", "guest@example.com"), ("role", "viewer")];
    let invited = post(&team.site, "/team/invitations", &own, &lesser).await;
    assert!(invited.leads_to().1.ends_with("?done=member-invited"), "{}", invited.text);

    team.prove().await;
    let invited = post(&team.site, "/team/invitations", &own, &as_owner).await;
    assert!(invited.leads_to().1.ends_with("?done=member-invited"), "{}", invited.text);
}

fn mails_about(site: &Site, email: &str, subject: &str) -> Vec<String> {
    let to = format!("\r\nTo: {email}\r\n");
    let subject = format!("\r\nSubject: {subject}\r\n");
    mails(site).into_iter().filter(|mail| mail.contains(&to) && mail.contains(&subject)).collect()
}

// Shows (Mails and notifications): Owners are notified by mail of new owners and admins.
#[tokio::test]
async fn owners_are_notified_only_of_new_owners_and_admins() {
    let team = Team::new().await;
    let [second, admin, _, developer, viewer] = &team.others[..] else { unreachable!() };
    let invitations = format!("/tenants/{}/invitations", team.tenant);
    let member = |one: &Visitor| format!("/tenants/{}/members/{}", team.tenant, one.user.id);
    for (method, path, body) in [
        (Method::POST, &invitations, json!({"email": "viewer@example.com", "role": "viewer"})),
        (Method::POST, &invitations, json!({"email": THIEF, "role": "admin"})),
        (Method::PUT, &member(viewer), json!({"role": "developer"})),
        (Method::PUT, &member(developer), json!({"role": "owner"})),
    ] {
        let answer = ask(&team.site, Some(&team.owner.token), method, path, Some(body)).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.body);
        team.site.clock.advance(Duration::from_secs(1));
    }
    let invited = "A new admin was invited to your organisation";
    let raised = "A member of your organisation has the role owner now";
    for owner in [&team.owner, second] {
        for (subject, about) in [(invited, THIEF), (raised, &developer.user.email)] {
            let matching = mails_about(&team.site, &owner.user.email, subject);
            let [mail] = &matching[..] else { panic!("{subject}: {matching:?}") };
            let by = format!("from the account of {}", team.owner.user.email);
            for part in [about, &by, "\r\nhttp://127.0.0.1:8081/team\r\n"] {
                assert!(mail.contains(part), "{part} is not in {mail}");
            }
        }
        let listed = ask(&team.site, Some(&owner.token), Method::GET, "/notifications", None).await.body;
        let messages: Vec<_> = listed.as_array().unwrap().iter().map(|one| &one["message"]).collect();
        assert!(messages.contains(&&json!(invited)) && messages.contains(&&json!(raised)), "{listed}");
    }
    assert!(mails_about(&team.site, &admin.user.email, invited).is_empty(), "an admin is no owner");
    let others =
        mails_about(&team.site, &team.owner.user.email, "A new viewer was invited to your organisation");
    assert!(others.is_empty());
}

/// Invites [`THIEF`] as an owner in the name of [`EMAIL`], and returns the token of the invitation.
async fn invitation_of_thief(site: &Site) -> String {
    let (token, _) = tokens(site, EMAIL).await;
    let proof = json!({"current_password": PASSWORD});
    let proved = ask(site, Some(&token), Method::POST, "/auth/proof", Some(proof)).await;
    assert_eq!(proved.status, StatusCode::NO_CONTENT);
    let tenant = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap().tenant.unwrap();
    let body = json!({"email": THIEF, "role": "owner"});
    let path = format!("/tenants/{tenant}/invitations");
    let invited = ask(site, Some(&token), Method::POST, &path, Some(body)).await;
    assert_eq!(invited.status, StatusCode::CREATED, "{}", invited.body);
    mailed_token(site, THIEF, "/invitation?token=")
}

/// Returns the token in the newest mail to `email` that links to `page`.
fn mailed_token(site: &Site, email: &str, page: &str) -> String {
    let to = format!("\r\nTo: {email}\r\n");
    let mails = mails(site);
    let found = mails.iter().rev().filter(|mail| mail.contains(&to)).find_map(|mail| mail.split_once(page));
    found.unwrap().1.lines().next().unwrap().to_owned()
}

// Shows (Accounts and second factors).
#[tokio::test]
async fn a_reset_withdraws_the_invitations_of_the_user_unless_it_says_to_keep_them() {
    for (keeps, operated) in [(false, false), (true, false), (true, true)] {
        let site = site().await;
        register_confirmed(&site, EMAIL).await;
        site.clock.advance(Duration::from_secs(1));
        let invitation = invitation_of_thief(&site).await;
        site.clock.advance(Duration::from_secs(1));
        if operated {
            let operator = site.operator().await;
            let user = site.app.store.user_by_email(EMAIL).await.unwrap().unwrap();
            let path = format!("/operator/users/{}/reset", user.id);
            let done = ask(&site, Some(&operator.token), Method::POST, &path, None).await;
            assert_eq!(done.status, StatusCode::OK, "{}", done.body);
        } else {
            let answer = call(&site, "/auth/password/forgot", json!({"email": EMAIL})).await;
            assert_eq!(answer.status, StatusCode::ACCEPTED);
            let has_come = async {
                while mails_about(&site, EMAIL, "Choose a new password").is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    site.send_mails().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), has_come).await.unwrap();
        }
        let token = mailed_token(&site, EMAIL, "/password/reset?token=");
        let form = json!({"token": token, "password": NEW, "keep_invitations": keeps});
        let reset = call(&site, "/auth/password/reset", form).await;
        assert_eq!(reset.status, StatusCode::NO_CONTENT, "{}", reset.body);
        let form = json!({"token": invitation, "password": PASSWORD, "name": "T"});
        let accepted = call(&site, "/auth/invitation", form).await;
        let expected = if keeps && !operated { StatusCode::CREATED } else { StatusCode::BAD_REQUEST };
        assert_eq!(accepted.status, expected, "{keeps} {operated}: {}", accepted.body);
        assert_eq!(login(&site, EMAIL, NEW).await.status, StatusCode::OK);
    }
}
