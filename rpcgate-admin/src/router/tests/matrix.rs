//! Tests of every operation: its permitted callers, its answers to invalid requests, and that it gives no answer that
//! its description does not list. An operation without a row fails here.

use super::super::*;
use crate::testing::fixtures::issue;
use crate::testing::fixtures::{event, webhook};
use crate::testing::second_factors::SoftwareKey;
use crate::testing::second_factors::code;
use crate::testing::stripe::StandIn;
use crate::testing::{ApiAnswer, Site, Visitor};
use axum::body::Body;
use axum::extract::ConnectInfo;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use ring::hmac;
use rpcgate_config::{Plans, ScheduledChange};
use rpcgate_core::caller::{CustomPlanId, KeyId, ProjectId, ProjectQuota, RequestId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_core::event::EventType;
use rpcgate_core::plan::{PlanFigure, Tier};
use rpcgate_core::secret::KeyHash;
use rpcgate_management::error::ErrorBody;
use rpcgate_management::identity::challenge::solve;
use rpcgate_management::identity::passkey::{self, CeremonyPurpose, RegistrationAnswer};
use rpcgate_management::identity::password::Password;
use rpcgate_management::identity::refresh::{Opaque, OpaqueKind};
use rpcgate_management::identity::sealing::SealedFor;
use rpcgate_management::identity::token::Claims;
use rpcgate_management::identity::totp::TotpSecret;
use rpcgate_management::shape::moment::Moment;
use rpcgate_store::{
    AccessToken, AccessTokenId, AttachmentBounds, AttachmentKind, Audit, AuditSubject, ChainEventFilter,
    ConfigVersionFilter, ContractId, CustomPlan, DeliveryId, DeliveryStatus, Digest, Explanation, Figures,
    Invitation, InvitationId, InviteOutcome, InvoiceNumber, InvoiceStatus, Key, LimitRequest, LimitRequestId,
    LogInMethod, NotificationId, PasskeyId, Project, RequestStatus, Role, ScheduledChangeId,
    ScheduledPlanChange, Session, SessionId, StoredPasskey, SubscriptionId, SupportTicket, Tenant,
    TenantContract, TenantFilter, TicketAttachment, TicketAttachmentId, TicketCategory, TicketFilter,
    TicketId, TicketStatus, User, UserId, WebhookId, WebhookSubscription, fresh_id,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use tower::ServiceExt;

/// The roles of an operation, as `x-roles` must list them.
type Roles = &'static [&'static str];

const ANYONE: Roles = &["none"];
const USERS: Roles = &["user"];
const MEMBERS: Roles = &["viewer", "billing", "developer", "admin", "owner"];
const ASKERS: Roles = &["billing", "developer", "admin", "owner"];
const PAYERS: Roles = &["billing", "admin", "owner"];
const MAKERS: Roles = &["developer", "admin", "owner"];
const ADMINS: Roles = &["admin", "owner"];
const OWNERS: Roles = &["owner"];
const OPERATORS: Roles = &["operator"];
const EVERY_ROLE: Roles = &["viewer", "billing", "developer", "admin", "owner", "operator"];

/// The kind of object that a path or a query names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ObjectKind {
    Tenant,
    Project,
    Key,
    Session,
    LimitRequest,
    Oneself,
    /// Another member of the tenant, a developer.
    Colleague,
    Invitation,
    Invoice,
    Notification,
    Ticket,
    Attachment,
    /// A personal access token of the calling user.
    AccessToken,
    Passkey,
    Contract,
    CustomPlan,
    /// A future change of the standard plan.
    ScheduledChange,
    /// A version of the operators' settings.
    ConfigVersion,
    Webhook,
    Subscription,
    /// A failed delivery of an event in the project's log.
    Delivery,
    /// A request to a gateway that was explained recently.
    Request,
    Chain,
    Method,
    Tier,
}

/// An operation and a valid request to it.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: &'static str,
    roles: Roles,
    path: &'static [ObjectKind],
    query: &'static [(&'static str, ObjectKind)],
    body: Option<fn(&Scene) -> Value>,
    /// A body that is not JSON.
    file: Option<&'static str>,
    /// Fields that exclude those of the body.
    excluded: &'static [&'static str],
    writes: bool,
    confirmed: bool,
}

fn reads(id: &'static str, roles: Roles, path: &'static [ObjectKind]) -> Row {
    Row { id, roles, path, query: &[], body: None, file: None, excluded: &[], writes: false, confirmed: true }
}

fn writes(id: &'static str, roles: Roles, path: &'static [ObjectKind]) -> Row {
    Row { writes: true, ..reads(id, roles, path) }
}

impl Row {
    fn with(self, body: fn(&Scene) -> Value) -> Row {
        Row { body: Some(body), ..self }
    }

    fn sending(self, file: &'static str) -> Row {
        Row { file: Some(file), ..self }
    }

    fn or_with(self, excluded: &'static [&'static str]) -> Row {
        Row { excluded, ..self }
    }

    fn asking(self, query: &'static [(&'static str, ObjectKind)]) -> Row {
        Row { query, ..self }
    }

    fn unconfirmed(self) -> Row {
        Row { confirmed: false, ..self }
    }
}

const PASSWORD: &str = "correct horse battery staple";
const PROJECT_AND_KEY: &[(&str, ObjectKind)] =
    &[("project_id", ObjectKind::Project), ("key", ObjectKind::Key)];
const KEY: &[(&str, ObjectKind)] = &[("key", ObjectKind::Key)];

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    use ObjectKind::{
    AccessToken, Attachment, Chain, Colleague, Invitation, Invoice, Key, LimitRequest, Method, Notification, Oneself, Project, Session, Tenant, Ticket, Tier, Passkey,
    ConfigVersion, Contract, CustomPlan, Delivery, Request, ScheduledChange, Subscription, Webhook,
    };
    vec![
        // account
        reads("get_challenge", ANYONE, &[]),
        writes("register", ANYONE, &[]).with(|scene| json!({
            "email": format!("new-{}", scene.own.user().email), "password": PASSWORD, "name": "New",
            "challenge": scene.solution})),
        writes("confirm", ANYONE, &[]).unconfirmed()
            .with(|scene| json!({"token": scene.own.caller.confirmation.expose(), "password": PASSWORD})),
        writes("forgot_password", ANYONE, &[]).with(|scene| json!({"email": scene.own.user().email})),
        writes("reset_password", ANYONE, &[])
            .with(|scene| json!({
                "token": scene.own.caller.reset.expose(), "password": PASSWORD, "keep_factors": false,
                "keep_invitations": false})),
        writes("accept_invitation", ANYONE, &[]).with(|scene| json!({
            "token": scene.own.invited.expose(), "password": PASSWORD, "name": "New"})),
        writes("login", ANYONE, &[]).with(|scene| json!({"email": scene.own.user().email, "password": PASSWORD})),
        writes("refresh", ANYONE, &[])
            .with(|scene| json!({"refresh_token": scene.own.caller.refresh.expose()})),
        writes("logout", ANYONE, &[])
            .with(|scene| json!({"refresh_token": scene.own.caller.refresh.expose()})),
        writes("verify_factor", ANYONE, &[])
            .with(|scene| json!({"mfa_token": scene.pending, "code": scene.code}))
            .or_with(&["passkey", "recovery_code"]),
        reads("get_factors", USERS, &[]),
        writes("give_proof", USERS, &[]).with(|_| json!({"current_password": PASSWORD}))
            .or_with(&["code", "passkey", "recovery_code"]),
        writes("enroll_totp", USERS, &[]).with(|_| json!({}))
            .or_with(&["code", "current_password", "passkey", "recovery_code"]),
        writes("activate_totp", USERS, &[])
            .with(|scene| json!({"code": scene.code})).or_with(&["current_password", "passkey", "recovery_code"]),
        writes("disable_totp", USERS, &[])
            .with(|scene| json!({"code": scene.code})).or_with(&["passkey", "recovery_code"]),
        writes("renew_recovery_codes", USERS, &[])
            .with(|scene| json!({"code": scene.code})).or_with(&["passkey", "recovery_code"]),
        reads("start_passkey_registration", USERS, &[])
            .with(|_| json!({})).or_with(&["code", "current_password", "passkey", "recovery_code"]),
        writes("finish_passkey_registration", USERS, &[]).with(|scene| json!({
            "ceremony": scene.ceremony, "credential": scene.credential, "name": "One"})),
        reads("list_passkeys", USERS, &[]),
        writes("remove_passkey", USERS, &[Passkey])
            .with(|scene| json!({"code": scene.code})).or_with(&["passkey", "recovery_code"]),
        reads("start_passkey_factor", USERS, &[]),
        reads("start_passkey_login", ANYONE, &[]).with(|_| json!({})).or_with(&["mfa_token"]),
        writes("finish_passkey_login", ANYONE, &[])
            .with(|scene| json!({"ceremony": scene.ceremony, "credential": scene.credential})),
        writes("logout_all", USERS, &[]),
        reads("list_sessions", USERS, &[]),
        writes("end_session", USERS, &[Session]),
        reads("get_me", USERS, &[]),
        writes("put_me", USERS, &[]).with(|_| json!({"name": "Another"})),
        writes("change_password", USERS, &[])
            .with(|_| json!({"current_password": PASSWORD, "new_password": "another horse, another staple"})),
        writes("change_email", USERS, &[]).with(|scene| json!({
            "email": format!("other-{}", scene.own.user().email), "current_password": PASSWORD})),
        writes("confirm_again", USERS, &[]).unconfirmed(),
        reads("list_audit", USERS, &[]),
        reads("list_access_tokens", USERS, &[]),
        writes("create_access_token", USERS, &[]).with(|scene| json!({
            "name": "Two", "scopes": [scene.scope()], "expires_at": scene.soon()})).or_with(&["current_password"]),
        writes("revoke_access_token", USERS, &[AccessToken]),
        // tenant
        reads("list_tenants", MEMBERS, &[]),
        reads("get_tenant", MEMBERS, &[Tenant]),
        writes("update_tenant", ADMINS, &[Tenant]).with(|_| {
            let address = ["1 High Street", "London"];
            json!({"name": "Another", "billing_name": "Another plc", "billing_address": address, "billing_tax_id": "GB1"})
        }),
        reads("get_factor_policy", MEMBERS, &[Tenant]),
        writes("put_factor_policy", OWNERS, &[Tenant]).with(|_| json!({"required": true})),
        reads("list_contracts", MEMBERS, &[Tenant]),
        reads("list_members", MEMBERS, &[Tenant]),
        reads("get_member", MEMBERS, &[Tenant, Colleague]),
        writes("update_member", ADMINS, &[Tenant, Colleague]).with(|_| json!({"role": "billing"})),
        writes("remove_member", MEMBERS, &[Tenant, Oneself]),
        reads("list_invitations", ADMINS, &[Tenant]),
        writes("create_invitation", ADMINS, &[Tenant]).with(|scene| json!({
            "email": format!("guest-{}", scene.own.user().email), "role": "developer"})),
        writes("withdraw_invitation", ADMINS, &[Tenant, Invitation]),
        reads("list_projects", MEMBERS, &[Tenant]),
        writes("create_project", MAKERS, &[Tenant]).with(|_| json!({"name": "Two"})),
        reads("get_project", MEMBERS, &[Project]),
        writes("update_project", MAKERS, &[Project]).with(|_| json!({
            "name": "Another", "allowed_methods": ["eth_call"], "blocked_methods": ["eth_getLogs"]})),
        writes("delete_project", MAKERS, &[Project]),
        reads("get_quota", MEMBERS, &[Project]),
        reads("list_keys", MEMBERS, &[Project]),
        writes("create_key", MAKERS, &[Project]).with(|_| json!({
            "description": "Two", "chains": ["eth"], "expires_at": "2100-01-01T00:00:00Z"})),
        writes("revoke_key", MAKERS, &[Key]),
        reads("list_limit_requests", MEMBERS, &[]),
        writes("create_limit_request", ASKERS, &[])
            .with(|_| json!({"requested_tier": "premium", "reason": "We grow."})).or_with(&["requested_plan"]),
        reads("list_notifications", MEMBERS, &[]),
        writes("read_notification", MEMBERS, &[Notification]),
        reads("list_notification_preferences", MEMBERS, &[]),
        writes("update_notification_preference", MEMBERS, &[])
            .with(|_| json!({"kind": "usage.daily_requests_80", "shown": false, "mail": true})),
        // webhooks
        reads("list_webhooks", MEMBERS, &[Project]),
        writes("create_webhook", MAKERS, &[Project])
            .with(|_| json!({"url": "https://hooks.example/two", "standard_headers": true})),
        reads("get_webhook", MEMBERS, &[Webhook]),
        writes("update_webhook", MAKERS, &[Webhook])
            .with(|_| json!({"url": "https://hooks.example/two", "active": false, "standard_headers": true})),
        writes("delete_webhook", MAKERS, &[Webhook]),
        writes("replace_webhook_secret", MAKERS, &[Webhook]).with(|_| json!({"overlap_hours": 5})),
        writes("test_webhook", MAKERS, &[Webhook]),
        writes("replay_webhook", MAKERS, &[Webhook])
            .with(|_| json!({"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"})),
        reads("list_subscriptions", MEMBERS, &[Webhook]),
        writes("create_subscription", MAKERS, &[Webhook]).with(|_| json!({
            "chain": "eth", "event_type": "health", "filter": {"phase": "Degraded"}, "confirmations": 0})),
        writes("delete_subscription", MAKERS, &[Subscription]),
        reads("list_deliveries", MEMBERS, &[Webhook]),
        reads("get_delivery", MEMBERS, &[Delivery]),
        writes("retry_delivery", MAKERS, &[Delivery]),
        reads("list_project_events", MEMBERS, &[Project]),
        // support
        reads("list_tickets", MEMBERS, &[]),
        writes("create_ticket", ASKERS, &[]).with(|_| json!({
            "category": "limit_increase", "subject": "More", "text": "We grow.", "requested_tier": "premium"}))
            .or_with(&["requested_plan"]),
        reads("get_ticket", MEMBERS, &[Ticket]),
        writes("close_ticket", ASKERS, &[Ticket]),
        writes("reopen_ticket", ASKERS, &[Ticket]),
        writes("rate_ticket", ASKERS, &[Ticket]).with(|_| json!({"rating": 4, "text": "Good."})),
        reads("list_ticket_comments", MEMBERS, &[Ticket]),
        writes("create_ticket_comment", ASKERS, &[Ticket]).with(|_| json!({"text": "And this?"})),
        reads("list_ticket_attachments", MEMBERS, &[Ticket]),
        writes("create_ticket_attachment", ASKERS, &[Ticket]).sending("a log"),
        reads("get_ticket_attachment", MEMBERS, &[Ticket, Attachment]),
        // billing
        reads("show_billing", PAYERS, &[Tenant]),
        reads("list_invoices", PAYERS, &[Tenant]),
        reads("get_invoice", PAYERS, &[Tenant, Invoice]),
        writes("create_checkout", PAYERS, &[Tenant]).with(|_| json!({"tier": "premium"})).or_with(&["invoice"]),
        // operator
        reads("operator_list_audit", OPERATORS, &[]),
        reads("operator_list_tenants", OPERATORS, &[]),
        reads("operator_get_tenant", OPERATORS, &[Tenant]),
        writes("operator_update_tenant", OPERATORS, &[Tenant])
            .with(|_| json!({"status": "suspended", "tier": "premium"})).or_with(&["custom_plan_id"]),
        writes("operator_delete_tenant", OPERATORS, &[Tenant]),
        reads("operator_list_contracts", OPERATORS, &[Tenant]),
        writes("operator_create_contract", OPERATORS, &[Tenant]).with(|_| json!({
            "figures": {"limits": {"per_minute": 5}, "default_quota": {"cu_per_day": 6}, "monthly_fee_cents": 7},
            "from": "2100-01-01T00:00:00Z", "until": "2100-02-01T00:00:00Z", "note": "Two"})),
        reads("operator_get_contract", OPERATORS, &[Tenant, Contract]),
        writes("operator_update_contract", OPERATORS, &[Tenant, Contract])
            .with(|_| json!({"until": "2100-02-01T00:00:00Z"})),
        writes("operator_end_contract", OPERATORS, &[Tenant, Contract]),
        reads("operator_list_users", OPERATORS, &[]),
        writes("operator_unlock_user", OPERATORS, &[Colleague]),
        writes("operator_reset_user", OPERATORS, &[Colleague]),
        writes("operator_remove_factors", OPERATORS, &[Colleague]).with(|_| json!({"reason": "Lost."}))
            .or_with(&["current_password"]),
        writes("operator_disable_user", OPERATORS, &[Colleague]),
        writes("operator_enable_user", OPERATORS, &[Colleague]),
        reads("operator_get_quota", OPERATORS, &[Project]),
        writes("operator_put_quota", OPERATORS, &[Project])
            .with(|_| json!({"cu_per_day": 5, "cu_per_month": 50, "rps_limit": 1})),
        writes("operator_delete_quota", OPERATORS, &[Project]),
        reads("operator_list_limit_requests", OPERATORS, &[]),
        writes("operator_review_limit_request", OPERATORS, &[LimitRequest])
            .with(|_| json!({"status": "approved", "note": "Welcome."})),
        reads("operator_list_tickets", OPERATORS, &[]),
        reads("operator_get_ticket", OPERATORS, &[Ticket]),
        writes("operator_update_ticket", OPERATORS, &[Ticket]).with(|_| json!({"status": "closed"})),
        reads("operator_list_ticket_comments", OPERATORS, &[Ticket]),
        writes("operator_answer_ticket", OPERATORS, &[Ticket])
            .with(|_| json!({"text": "This.", "internal": false, "status": "answered"})),
        reads("operator_list_ticket_attachments", OPERATORS, &[Ticket]),
        writes("operator_create_ticket_attachment", OPERATORS, &[Ticket]).sending("a log"),
        reads("operator_get_ticket_attachment", OPERATORS, &[Ticket, Attachment]),
        reads("operator_get_weight", OPERATORS, &[Chain, Method]),
        writes("operator_put_weight", OPERATORS, &[Chain, Method]).with(|_| json!({"cu": 9})),
        writes("operator_delete_weight", OPERATORS, &[Chain, Method]),
        reads("operator_list_invoices", OPERATORS, &[]),
        reads("operator_list_payments", OPERATORS, &[]),
        reads("operator_get_invoice", OPERATORS, &[Invoice]),
        writes("operator_settle_invoice", OPERATORS, &[Invoice])
            .with(|_| json!({"status": "paid", "note": "By transfer."})),
        writes("operator_create_credit_note", OPERATORS, &[Invoice])
            .with(|_| json!({"cents": 5, "reason": "An outage."})),
        reads("operator_get_chain", OPERATORS, &[Chain]),
        writes("operator_switch_chain", OPERATORS, &[Chain]).with(|_| json!({"enabled": false})),
        writes("operator_clear_cache", OPERATORS, &[Chain]),
        reads("operator_list_nodes", OPERATORS, &[]),
        writes("operator_drain_node", OPERATORS, &[Chain])
            .with(|_| json!({"node": "https://node.example:8545/", "drained": false, "force": false})),
        reads("operator_get_plan", OPERATORS, &[Tier]),
        writes("operator_update_plan", OPERATORS, &[Tier]).with(|_| {
            let figure = |figure: &PlanFigure| (figure.name.to_owned(), (figure.range.start() + 21).into());
            Value::Object(PlanFigure::ALL.iter().map(figure).collect())
        }).or_with(&["from"]),
        writes("operator_withdraw_plan_change", OPERATORS, &[Tier, ScheduledChange]),
        reads("operator_list_custom_plans", OPERATORS, &[]),
        reads("operator_list_config_versions", OPERATORS, &[]),
        reads("operator_get_config_version", OPERATORS, &[ConfigVersion]),
        reads("operator_compare_config_versions", OPERATORS, &[ConfigVersion]),
        writes("operator_create_custom_plan", OPERATORS, &[]).with(|scene| json!({
            "name": format!("made-{}", scene.own.tenant.0 % 1_000_000_007), "base_tier": "standard",
            "visibility": "visible", "figures": {"limits": {"per_minute": 5}}})),
        reads("operator_get_custom_plan", OPERATORS, &[CustomPlan]),
        writes("operator_update_custom_plan", OPERATORS, &[CustomPlan]).with(|scene| json!({
            "name": format!("changed-{}", scene.own.tenant.0 % 1_000_000_007), "visibility": "by_invitation",
            "figures": {"monthly_fee_cents": 7}})),
        writes("operator_delete_custom_plan", OPERATORS, &[CustomPlan]),
        reads("operator_what_if", OPERATORS, &[]).with(|_| json!({
            "weights": [{"chain": "eth", "method": "eth_call", "cu": 20}],
            "plans": [{"plan": "premium", "figures": {"limits": {"per_hour": 7, "price_per_cu": 0.5}}}]})),
        // catalog
        reads("list_plans", USERS, &[]),
        reads("list_chains", USERS, &[]),
        reads("list_roles", USERS, &[]),
        // usage
        reads("show_usage", MEMBERS, &[]).asking(PROJECT_AND_KEY),
        reads("show_tenant_usage", USERS, &[Tenant]).asking(PROJECT_AND_KEY),
        reads("show_project_usage", MEMBERS, &[Project]),
        reads("show_project_usage_chart", MEMBERS, &[Project]).asking(KEY),
        reads("show_project_metrics", MEMBERS, &[Project]).asking(KEY),
        reads("explain_request", USERS, &[Request]),
    ]
}

/// Response fields that no request may set, unless they are fields of the operation itself.
const READ_ONLY: [&str; 12] = [
    "id",
    "tenant_id",
    "project_id",
    "user_id",
    "role",
    "operator",
    "confirmed",
    "tier",
    "status",
    "prefix",
    "created_at",
    "revoked_at",
];

/// An operation of the document with its row.
struct Operation {
    row: Row,
    method: Method,
    path: String,
    statuses: BTreeSet<u16>,
    /// The schemas of the body's fields, and the names of the required ones.
    fields: BTreeMap<String, Value>,
    required: BTreeSet<String>,
}

impl Operation {
    fn admitted(&self) -> Roles {
        match self.row.roles {
            USERS => EVERY_ROLE,
            roles => roles,
        }
    }

    /// The role of requests in tests that are not about roles.
    fn most(&self) -> &'static str {
        self.admitted().last().copied().filter(|role| *role != "none").unwrap_or("owner")
    }
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut rows: BTreeMap<_, _> = rows().into_iter().map(|row| (row.id, row)).collect();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, reported) in item.as_object().unwrap() {
            let Some(id) = reported["operationId"].as_str() else { continue };
            let row = rows.remove(id).unwrap_or_else(|| panic!("{id} ({method} {path}) has no row"));
            assert_eq!(reported["x-roles"], json!(row.roles), "{id}: the roles");
            assert_eq!(row.path.len(), path.matches('{').count(), "{id}: the words of {path}");
            let mut schema = &reported["requestBody"]["content"]["application/json"]["schema"];
            assert_eq!(row.body.is_some(), !schema.is_null(), "{id}: the body");
            // An optional body is a choice between nothing and its schema.
            for choices in ["oneOf", "allOf"] {
                let of = schema[choices].as_array();
                schema = of.and_then(|of| of.iter().find(|one| one["$ref"].is_string())).unwrap_or(schema);
            }
            if let Some(reference) = schema["$ref"].as_str() {
                schema = document.pointer(&reference[1..]).unwrap();
            }
            let fields = schema["properties"].as_object().cloned().unwrap_or_default();
            assert_eq!(row.body.is_some(), !fields.is_empty(), "{id}: the body's fields");
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            found.push(Operation {
                row,
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                statuses: reported["responses"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .map(|s| s.parse().unwrap())
                    .collect(),
                fields: fields.into_iter().collect(),
                required: required.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
            });
        }
    }
    assert!(rows.is_empty(), "no operations have the rows {:?}", rows.keys());
    found
}

struct Caller {
    visitor: Visitor,
    refresh: Opaque,
    confirmation: Opaque,
    reset: Opaque,
    ended: SessionId,
}

/// A tenant with one of each object, and a caller.
struct RouteFixture {
    tenant: TenantId,
    project: ProjectId,
    key: KeyId,
    limit_request: LimitRequestId,
    colleague: UserId,
    invitation: InvitationId,
    invoice: InvoiceNumber,
    notification: NotificationId,
    ticket: TicketId,
    attachment: TicketAttachmentId,
    access_token: AccessTokenId,
    /// A passkey of the colleague, or of the caller if an operation is about it.
    passkey: PasskeyId,
    contract: ContractId,
    custom_plan: CustomPlanId,
    scheduled_change: ScheduledChangeId,
    config_version: u64,
    webhook: WebhookId,
    subscription: SubscriptionId,
    delivery: DeliveryId,
    request: RequestId,
    /// The token in the mail of the invitation.
    invited: Opaque,
    caller: Caller,
}

impl RouteFixture {
    fn user(&self) -> &User {
        &self.caller.visitor.user
    }

    fn word(&self, word: ObjectKind) -> String {
        match word {
            ObjectKind::Tenant => self.tenant.to_string(),
            ObjectKind::Project => self.project.to_string(),
            ObjectKind::Key => self.key.to_string(),
            ObjectKind::Session => self.caller.visitor.session.to_string(),
            ObjectKind::LimitRequest => self.limit_request.to_string(),
            ObjectKind::Oneself => self.user().id.to_string(),
            ObjectKind::Colleague => self.colleague.to_string(),
            ObjectKind::Invitation => self.invitation.to_string(),
            ObjectKind::Invoice => self.invoice.to_string(),
            ObjectKind::Notification => self.notification.to_string(),
            ObjectKind::Ticket => self.ticket.to_string(),
            ObjectKind::Attachment => self.attachment.to_string(),
            ObjectKind::AccessToken => self.access_token.to_string(),
            ObjectKind::Passkey => self.passkey.to_string(),
            ObjectKind::Contract => self.contract.to_string(),
            ObjectKind::CustomPlan => self.custom_plan.to_string(),
            ObjectKind::ScheduledChange => self.scheduled_change.to_string(),
            ObjectKind::ConfigVersion => self.config_version.to_string(),
            ObjectKind::Webhook => self.webhook.to_string(),
            ObjectKind::Subscription => self.subscription.to_string(),
            ObjectKind::Delivery => self.delivery.to_string(),
            ObjectKind::Request => self.request.to_string(),
            ObjectKind::Chain => "eth".into(),
            ObjectKind::Method => format!("eth_{}", self.project.0),
            ObjectKind::Tier => "standard".into(),
        }
    }
}

struct Scene {
    own: RouteFixture,
    /// The solution of a challenge, if one is needed.
    solution: String,
    /// The code of the caller's authenticator app, if one is needed.
    code: String,
    /// The token of the caller's log-in that waits for a factor, if one is needed.
    pending: String,
    /// The token of a ceremony and the browser's answer to it, if they are needed.
    ceremony: String,
    credential: Value,
}

impl Scene {
    fn scope(&self) -> &'static str {
        if self.own.user().is_operator() { "operator_read" } else { "read" }
    }

    /// Returns a time after the creation of the caller's account.
    fn soon(&self) -> String {
        Moment(self.own.user().created_at.plus(Duration::from_secs(86_400))).to_string()
    }
}

#[derive(Clone)]
struct Ask {
    token: Option<String>,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
    body: Option<String>,
}

struct Matrix {
    site: Site,
    router: Router,
    document: Value,
    hash: String,
    foreign: RouteFixture,
}

impl Matrix {
    async fn new() -> Self {
        let text = "[admin]\nauth_per_minute = 1000\ndash_url = \"https://dash.example.com\"\n[admin.challenge]\ndifficulty = 50\n[plans.free]\nmembers = 20\n";
        let site = Site::of(&format!("{text}{}", StandIn::start().await.settings())).await;
        let router = router(&site.app, &CancellationToken::new());
        let document = site.ask(None, Method::GET, OPENAPI, Body::empty()).await.body;
        let hash = site.app.passwords.hash(Password::new(PASSWORD).unwrap()).await.unwrap();
        let foreign = premises(
            &site,
            &hash,
            "owner",
            true,
            &[ObjectKind::LimitRequest, ObjectKind::Ticket, ObjectKind::Request],
        )
        .await;
        Matrix { site, router, document, hash, foreign }
    }

    fn operations(&self) -> Vec<Operation> {
        operations(&self.document)
    }

    /// Creates a tenant in which a user of `role` is about to call `operation`. The clock advances, so that renewals
    /// are visible.
    async fn scene(&self, operation: &Operation, role: &str) -> Scene {
        let Row { path, confirmed, id, .. } = operation.row;
        let mut own = premises(&self.site, &self.hash, role, confirmed, path).await;
        if id == "operator_enable_user" {
            let entry = Audit {
                tenant: None,
                user: None,
                action: "user.disabled".into(),
                subject: own.colleague.to_string(),
                address: String::new(),
                at: self.site.app.now(),
                detail: String::new(),
            };
            self.site.app.store.disable_account(own.colleague, true, &entry).await.unwrap();
        }
        if matches!(id, "reopen_ticket" | "rate_ticket") {
            let store = &self.site.app.store;
            let now = self.site.app.now();
            store.close_ticket(own.tenant, own.ticket, now).await.unwrap();
        }
        if id == "operator_delete_tenant" {
            // An open invoice would refuse it.
            let store = &self.site.app.store;
            let now = self.site.app.now();
            store.settle_invoice(own.invoice, InvoiceStatus::Paid, None, now).await.unwrap();
        }
        let mut solution = String::new();
        if id == "register" {
            let app = &self.site.app;
            solution = solve(&app.challenges.issue(app.now()).unwrap()).unwrap();
        }
        let mut ceremony = String::new();
        let mut credential = Value::Null;
        match id {
            "finish_passkey_registration" => {
                let (started, made) = made_key(&self.site, own.user(), &mut SoftwareKey::default()).await;
                (ceremony, credential) = (started, made);
            }
            "finish_passkey_login" | "remove_passkey" | "start_passkey_factor" => {
                let mut key = SoftwareKey::default();
                own.passkey = added_key(&self.site, &own.caller.visitor, &mut key).await;
                let app = &self.site.app;
                let started =
                    app.passkeys.as_ref().unwrap().start_log_in(&app.sealing, None, app.now()).unwrap();
                (ceremony, credential) = (started.token, key.use_here(&started.options).await);
            }
            _ => {}
        }
        let has_app = matches!(
            id,
            "verify_factor"
                | "disable_totp"
                | "renew_recovery_codes"
                | "remove_passkey"
                | "put_factor_policy"
        );
        let code = match (id, has_app) {
            ("activate_totp", _) | (_, true) => app_code(&self.site, &own.caller.visitor, has_app).await,
            _ => String::new(),
        };
        let mut pending = String::new();
        if id == "verify_factor" {
            let token = Opaque::make(OpaqueKind::PendingLogIn).unwrap();
            let user = own.user();
            let entry = prepared(user, self.site.app.now());
            let digest = Digest(token.hash().0);
            let store = &self.site.app.store;
            assert!(store.begin_log_in(user.id, &digest, &self.hash, &entry).await.unwrap());
            pending = token.expose().to_owned();
        }
        self.site.clock.advance(Duration::from_secs(1));
        Scene { own, solution, code, pending, ceremony, credential }
    }

    fn valid(&self, operation: &Operation, scene: &Scene) -> Ask {
        let row = operation.row;
        let token = (row.roles != ANYONE).then(|| scene.own.caller.visitor.token.clone());
        Ask {
            token,
            path: row.path.iter().map(|word| scene.own.word(*word)).collect(),
            query: row.query.iter().map(|(name, word)| (*name, scene.own.word(*word))).collect(),
            body: row.body.map(|body| body(scene).to_string()).or_else(|| row.file.map(str::to_owned)),
        }
    }

    /// Creates one scene with a caller of each role, and returns the valid request of each. The scene's caller is the
    /// last one.
    async fn asks_of(&self, operation: &Operation, roles: &[&str]) -> (Scene, Vec<Ask>) {
        let mut scene = self.scene(operation, roles[0]).await;
        let mut asks = vec![self.valid(operation, &scene)];
        for role in &roles[1..] {
            let confirmed = operation.row.confirmed;
            scene.own.caller = caller_of(&self.site, &self.hash, scene.own.tenant, role, confirmed).await;
            asks.push(self.valid(operation, &scene));
        }
        (scene, asks)
    }

    /// Sends a request. The description must list its answer.
    async fn ask(&self, operation: &Operation, ask: Ask) -> ApiAnswer {
        let mut uri = String::new();
        let mut words = ask.path.iter();
        for piece in operation.path.split_inclusive(['{', '}']) {
            match piece.strip_suffix('{') {
                Some(fixed) => uri.extend([fixed, words.next().unwrap()]),
                None if piece.ends_with('}') => {}
                None => uri.push_str(piece),
            }
        }
        for (n, (name, value)) in ask.query.iter().enumerate() {
            uri.extend([if n == 0 { "?" } else { "&" }, name, "=", value]);
        }
        let mut request = http::Request::builder().method(operation.method.clone()).uri(uri);
        if let Some(token) = ask.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let mut request = request.body(ask.body.map_or_else(Body::empty, Body::from)).unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 9))));
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let answer = ApiAnswer { status: head.status, headers: head.headers, body };
        let id = operation.row.id;
        assert!(
            operation.statuses.contains(&answer.status.as_u16()),
            "{id} answers {} {}, which its description does not list",
            answer.status,
            answer.body
        );
        answer
    }

    /// Returns all data that the request of a scene could change.
    async fn stored(&self, scene: &Scene) -> String {
        let store = &self.site.app.store;
        let mut all = format!("{:?}\n", store.overlay().await.unwrap());
        all += &format!("{:?}\n", store.newest_change().await.unwrap());
        all += &format!("{:?}\n", store.custom_plans().await.unwrap());
        all += &format!(
            "{:?}\n",
            store.tenants(TenantFilter::default(), Some(scene.own.tenant), 1000).await.unwrap()
        );
        for RouteFixture { tenant, caller, invoice, .. } in [&scene.own, &self.foreign] {
            all += &format!("{:?}\n", store.any_invoice(*invoice).await.unwrap());
            let user = caller.visitor.user.id;
            all += &format!("{:?}\n", store.tenant(*tenant).await.unwrap());
            all += &format!("{:?}\n", store.requires_factor(*tenant).await.unwrap());
            all += &format!("{:?}\n", store.contracts(*tenant).await.unwrap());
            let projects = store.projects(*tenant).await.unwrap();
            for project in &projects {
                all += &format!("{:?}\n", store.keys(*tenant, project.id).await.unwrap());
                let any = ChainEventFilter::default();
                let log = store.project_events(*tenant, project.id, &any, None, 1000).await;
                all += &format!("{:?}\n", log.unwrap());
                for webhook in store.webhooks(*tenant, project.id).await.unwrap() {
                    let subscriptions = store.subscriptions(*tenant, webhook.id, None, 1000);
                    all += &format!("{:?}\n", subscriptions.await.unwrap());
                    let deliveries = store.deliveries(*tenant, webhook.id, None, None, 1000);
                    all += &format!("{webhook:?}\n{:?}\n", deliveries.await.unwrap());
                }
            }
            all += &format!(
                "{projects:?}\n{:?}\n",
                store.quotas(*tenant, &Plans::default(), self.site.app.now()).await.unwrap()
            );
            all += &format!("{:?}\n", store.limit_requests(*tenant).await.unwrap());
            all += &format!("{:?}\n", store.members(*tenant).await.unwrap());
            let tickets = store.tickets(*tenant, TicketFilter::default(), None, 1000).await.unwrap();
            for ticket in &tickets {
                all += &format!("{:?}\n", store.all_ticket_comments(ticket.id, None, 1000).await.unwrap());
                all += &format!("{:?}\n", store.ticket_attachments(*tenant, ticket.id).await.unwrap());
            }
            all += &format!("{tickets:?}\n");
            let now = self.site.app.now();
            all += &format!("{:?}\n", store.invitations(*tenant, now).await.unwrap());
            all += &format!("{:?}\n", store.user(user).await.unwrap());
            all += &format!("{:?}\n", store.factors(user).await.unwrap());
            all += &format!("{:?}\n", store.passkeys(user).await.unwrap());
            all += &format!("{:?}\n", store.read_notifications(user).await.unwrap());
            all += &format!("{:?}\n", store.access_tokens(user).await.unwrap());
            all += &format!("{:?}\n", store.notification_preferences(user).await.unwrap());
            all += &format!("{:?}\n", store.sessions(user, self.site.app.now()).await.unwrap());
            all += &format!("{:?}\n", store.audit(AuditSubject::Tenant(*tenant), 1000).await.unwrap());
            all += &format!("{:?}\n", store.audit(AuditSubject::User(user), 1000).await.unwrap());
        }
        all
    }

    /// Sends requests that must be refused, in the common form of refusals, without changing data. Data is compared
    /// once for all of them, because reading it takes longer than most requests.
    async fn refused(&self, operation: &Operation, scene: &Scene, refusals: Vec<Refusal>) -> Vec<Value> {
        let id = operation.row.id;
        let before = self.stored(scene).await;
        let mut bodies = Vec::new();
        for Refusal { ask, status, why } in refusals {
            let answer = self.ask(operation, ask).await;
            assert_eq!(answer.status, status, "{id}, {why}: {}", answer.body);
            let members = answer.body.as_object().unwrap_or_else(|| panic!("{id}, {why}: no object"));
            assert!(members["error"].is_string(), "{id}, {why}: {members:?}");
            let body: ErrorBody = serde_json::from_value(answer.body.clone()).unwrap();
            assert_eq!(body.code.status(), status, "{id}, {why}: {members:?}");
            assert_eq!(members.len(), 2 + usize::from(body.field.is_some()), "{id}, {why}: {members:?}");
            let challenge = answer.headers.get(WWW_AUTHENTICATE).map(|value| value.to_str().unwrap());
            let expected = (status == StatusCode::UNAUTHORIZED).then_some("Bearer realm=\"rpcgate\"");
            assert_eq!(challenge, expected, "{id}, {why}");
            bodies.push(answer.body);
        }
        assert_eq!(self.stored(scene).await, before, "{id}: a refused request has changed something");
        bodies
    }
}

/// A request that must be refused.
struct Refusal {
    ask: Ask,
    status: StatusCode,
    why: String,
}

impl Refusal {
    fn new(ask: Ask, status: StatusCode, why: impl Into<String>) -> Self {
        Refusal { ask, status, why: why.into() }
    }
}

/// Creates a tenant with one of each object, and a caller of `role`, who belongs to it or is an operator. A pending
/// limit request, a ticket and an operator's plan are created only if `words` contains them.
async fn premises(
    site: &Site,
    hash: &str,
    role: &str,
    confirmed: bool,
    words: &[ObjectKind],
) -> RouteFixture {
    let app = &site.app;
    let now = site.app.now();
    let store = &app.store;
    let tenant = TenantId(fresh_id(now));
    let organisation = Tenant::new(tenant, "One", Tier::Free, now);
    store.create_tenant(&organisation).await.unwrap();
    let caller = caller_of(site, hash, tenant, role, confirmed).await;
    let project = ProjectId(fresh_id(now));
    let made = Project::new(project, tenant, "One", now);
    store.create_project(&made).await.unwrap();
    store.put_quota(project, &ProjectQuota { has_row: true, ..ProjectQuota::default() }, now).await.unwrap();
    let key = KeyId(fresh_id(now));
    let made = Key {
        description: "One".into(),
        ..Key::new(key, project, "rpcg_0000000", KeyHash::of(&key.to_string()), now)
    };
    store.create_key(&made, now).await.unwrap();
    let limit_request = LimitRequestId(fresh_id(now));
    if words.contains(&ObjectKind::LimitRequest) {
        let made = LimitRequest {
            id: limit_request,
            tenant,
            user: caller.visitor.user.id,
            requested_tier: Tier::Standard,
            custom_plan: None,
            reason: "We grow.".into(),
            status: RequestStatus::Pending,
            note: None,
            created_at: now,
            reviewed_at: None,
            reviewer: None,
        };
        store.create_limit_request(&made).await.unwrap();
    }
    let colleague = member(site, tenant, Role::Developer).await;
    // With another owner, the caller may leave.
    let owner = member(site, tenant, Role::Owner).await;
    let (invitation, invited) = invite(site, tenant, owner).await;
    let invoice = issue(site, tenant).await;
    let notification = notify(site, tenant).await;
    let ticket = TicketId(fresh_id(now));
    let attachment = TicketAttachmentId(fresh_id(now));
    if words.contains(&ObjectKind::Ticket) {
        write_ticket(site, tenant, colleague, ticket, attachment).await;
    }
    let access_token = AccessTokenId(fresh_id(now));
    let made = AccessToken {
        id: access_token,
        user: caller.visitor.user.id,
        name: "One".into(),
        scopes: vec!["read".into()],
        created_at: now,
        expires_at: now.plus(Duration::from_secs(3_600)),
        used: None,
    };
    store.create_access_token(&made, &Digest::of(&access_token.to_string())).await.unwrap();
    let passkey = StoredPasskey {
        id: PasskeyId(fresh_id(now)),
        user: colleague,
        credential: fresh_id(now).to_be_bytes().to_vec(),
        name: "One".into(),
        passkey: "{}".into(),
        uses: 0,
        created_at: now,
        used_at: None,
    };
    let nowhere = SessionId(fresh_id(now));
    store.add_passkey(&passkey, now, nowhere, &[], &prepared(&caller.visitor.user, now)).await.unwrap();
    let passkey = passkey.id;
    let contract = ContractId(fresh_id(now));
    let mut figures = Figures::default();
    figures.set("per_minute", 9);
    let note = String::new();
    let made =
        TenantContract { id: contract, tenant, figures, from: now, until: None, note, created_at: now };
    store.create_contract(&made, now).await.unwrap();
    let custom_plan = CustomPlanId(fresh_id(now));
    if words.contains(&ObjectKind::CustomPlan) {
        let name = format!("plan-{}", tenant.0 % 1_000_000_007);
        let base = Tier::Standard;
        let made = CustomPlan { id: custom_plan, name, base, is_visible: false, figures, created_at: now };
        store.create_custom_plan(&made).await.unwrap();
    }
    let scheduled_change = ScheduledChangeId(fresh_id(now));
    if words.contains(&ObjectKind::ScheduledChange) {
        let from = now.plus(Duration::from_secs(30 * 86_400));
        let change = ScheduledChange { from, tier: Tier::Standard, figures: figures.plan };
        let made = ScheduledPlanChange { id: scheduled_change, change, created_at: now };
        store.schedule_plan_change(&made, now).await.unwrap();
    }
    let (webhook, subscription, delivery) = listen(site, tenant, project).await;
    let request = RequestId::new(now);
    if words.contains(&ObjectKind::Request) {
        let question = store.ask_explanation(request, Some(tenant), now).await.unwrap();
        let tenant = tenant.to_string();
        let project = project.to_string();
        let key = key.to_string();
        let plan = "free".into();
        let transport = "http".into();
        let chain = "eth".into();
        let answer = Explanation { tenant, project, key, plan, transport, chain, ..Explanation::default() };
        store.answer_explanation_request(question, organisation.id, &answer).await.unwrap();
    }
    let mut premises = RouteFixture {
        tenant,
        project,
        key,
        limit_request,
        colleague,
        invitation,
        invoice,
        notification,
        ticket,
        attachment,
        access_token,
        passkey,
        contract,
        custom_plan,
        scheduled_change,
        config_version: 0,
        webhook,
        subscription,
        delivery,
        request,
        invited,
        caller,
    };
    store.put_weight("eth", &premises.word(ObjectKind::Method), 3, now).await.unwrap();
    store.drain_node("eth", "https://node.example:8545/", &[], now).await.unwrap();
    let settings = ConfigVersionFilter { source: Some("settings".into()), ..ConfigVersionFilter::default() };
    premises.config_version = store.config_versions(&settings, None, 1).await.unwrap()[0].number;
    premises
}

/// Creates a webhook of a project with a subscription, and a failed delivery.
async fn listen(
    site: &Site,
    tenant: TenantId,
    project: ProjectId,
) -> (WebhookId, SubscriptionId, DeliveryId) {
    let store = &site.app.store;
    let now = site.app.now();
    let webhook = webhook(site, tenant, project).await;
    let subscription = WebhookSubscription {
        id: SubscriptionId(fresh_id(now)),
        webhook: webhook.id,
        chain: "eth".into(),
        kind: EventType::Health,
        filter: None,
        confirmations: 0,
        created_at: now,
    };
    store.create_subscription(tenant, &subscription, now).await.unwrap();
    let delivery = DeliveryId(fresh_id(now));
    store.log_event(&webhook, (delivery, DeliveryStatus::Failed), &event(7, now)).await.unwrap();
    (webhook.id, subscription.id, delivery)
}

/// Creates a notification of a tenant that has used all its requests of the day.
async fn notify(site: &Site, tenant: TenantId) -> NotificationId {
    let usage = &site.app.usage;
    let now = site.app.now();
    usage.remind(now.day(), &[(tenant, 5)].into(), &[(tenant, 5)].into(), now).await.unwrap();
    usage.notifications(tenant).await.unwrap()[0].id
}

/// Creates a ticket by a member, with an attached file.
async fn write_ticket(
    site: &Site,
    tenant: TenantId,
    by: UserId,
    id: TicketId,
    attachment: TicketAttachmentId,
) {
    let store = &site.app.store;
    let now = site.app.now();
    let ticket = SupportTicket {
        id,
        tenant,
        user: by,
        category: TicketCategory::Question,
        status: TicketStatus::Open,
        subject: "One".into(),
        text: "One".into(),
        limit_request: None,
        satisfaction: None,
        created_at: now,
        updated_at: now,
        closed_at: None,
    };
    store.create_ticket(ticket, None, 1000).await.unwrap();
    let file = TicketAttachment {
        id: attachment,
        ticket: id,
        user: by,
        by_operator: false,
        name: "one.txt".into(),
        kind: AttachmentKind::Text,
        bytes: 3,
        created_at: now,
    };
    let bounds = AttachmentBounds { per_ticket: 10, bytes_per_tenant: 100 };
    store.attach(tenant, &file, b"One", bounds, now).await.unwrap();
}

/// Creates another member, who has no password.
async fn member(site: &Site, tenant: TenantId, role: Role) -> UserId {
    let now = site.app.now();
    let id = UserId(fresh_id(now));
    let user = User {
        id,
        tenant: Some(tenant),
        email: format!("{id}@example.com"),
        name: "Two".into(),
        role,
        password: None,
        confirmed_at: Some(now),
        created_at: now,
    };
    site.app.store.create_user(&user).await.unwrap();
    id
}

/// Creates an open invitation by a member, and returns its token too.
async fn invite(site: &Site, tenant: TenantId, by: UserId) -> (InvitationId, Opaque) {
    let now = site.app.now();
    let id = InvitationId(fresh_id(now));
    let invitation = Invitation {
        id,
        tenant,
        by,
        email: format!("{id}@example.com"),
        role: Role::Developer,
        created_at: now,
        expires_at: now.plus(Duration::from_secs(3_600)),
    };
    let entry = Audit {
        tenant: Some(tenant),
        user: Some(by),
        action: "member.invited".into(),
        subject: id.to_string(),
        address: "192.0.2.1".into(),
        at: now,
        detail: String::new(),
    };
    let token = Opaque::make(OpaqueKind::Invitation).unwrap();
    let made = site.app.store.invite(&invitation, &Digest(token.hash().0), |_| true, &entry).await;
    assert_eq!(made.unwrap(), InviteOutcome::Created);
    (id, token)
}

/// Creates a caller of `role`, who belongs to the tenant or is an operator.
async fn caller_of(site: &Site, hash: &str, tenant: TenantId, role: &str, confirmed: bool) -> Caller {
    match role {
        "operator" => caller(site, hash, None, Role::Viewer, confirmed).await,
        role => caller(site, hash, Some(tenant), role.parse().unwrap(), confirmed).await,
    }
}

async fn caller(site: &Site, hash: &str, tenant: Option<TenantId>, role: Role, confirmed: bool) -> Caller {
    let app = &site.app;
    let now = site.app.now();
    let id = UserId(fresh_id(now));
    let user = User {
        id,
        tenant,
        email: format!("{id}@example.com"),
        name: "One".into(),
        role,
        password: Some(hash.to_owned()),
        confirmed_at: confirmed.then_some(now),
        created_at: now,
    };
    app.store.create_user(&user).await.unwrap();
    let refresh = Opaque::make(OpaqueKind::Refresh).unwrap();
    let confirmation = Opaque::make(OpaqueKind::Confirmation).unwrap();
    let until = now.plus(Duration::from_secs(3_600));
    let renewed = app.store.renew_confirmation(id, &Digest(confirmation.hash().0), until).await.unwrap();
    assert_ne!(renewed, confirmed);
    let reset = Opaque::make(OpaqueKind::Reset).unwrap();
    let entry = Audit {
        tenant,
        user: Some(id),
        action: "password.reset_asked".into(),
        subject: id.to_string(),
        address: "192.0.2.1".into(),
        at: now,
        detail: String::new(),
    };
    assert!(app.store.put_reset(&user.email, &Digest(reset.hash().0), until, &entry).await.unwrap());
    let session = open(site, &user, hash, &refresh).await;
    let token = app.tokens.issue(&claims(&user, session), now).unwrap();
    let ended = open(site, &user, hash, &Opaque::make(OpaqueKind::Refresh).unwrap()).await;
    app.store.end_session(id, ended).await.unwrap();
    Caller { visitor: Visitor { user, session, token }, refresh, confirmation, reset, ended }
}

/// Returns the audit entry of an object that a test creates for a user.
fn prepared(user: &User, at: Time) -> Audit {
    Audit {
        tenant: user.tenant,
        user: Some(user.id),
        action: "prepared".into(),
        subject: String::new(),
        address: String::new(),
        at,
        detail: String::new(),
    }
}

/// Returns the token of a passkey registration of the user, and the browser's answer.
async fn made_key(site: &Site, user: &User, key: &mut SoftwareKey) -> (String, Value) {
    let app = &site.app;
    let site = app.passkeys.as_ref().unwrap();
    let started =
        site.start_registration(&app.sealing, user.id, &user.email, "One", Vec::new(), app.now()).unwrap();
    (started.token, key.make(&started.options).await)
}

async fn added_key(site: &Site, Visitor { user, session, .. }: &Visitor, key: &mut SoftwareKey) -> PasskeyId {
    let app = &site.app;
    let now = site.app.now();
    let (token, made) = made_key(site, user, key).await;
    let whose = (CeremonyPurpose::Register, Some(user.id));
    let opened = passkey::open(&app.sealing, &token, whose, now).unwrap();
    let answer = RegistrationAnswer::read(made).unwrap();
    let made = app.passkeys.as_ref().unwrap().finish_registration(opened, &answer).unwrap();
    let passkey = StoredPasskey {
        id: PasskeyId(fresh_id(now)),
        user: user.id,
        credential: made.credential,
        name: "One".into(),
        passkey: made.passkey,
        uses: 0,
        created_at: now,
        used_at: None,
    };
    app.store.add_passkey(&passkey, now, *session, &[], &prepared(user, now)).await.unwrap();
    passkey.id
}

/// Returns a code of the user's authenticator app, which is activated if `active` is true.
async fn app_code(site: &Site, Visitor { user, session, .. }: &Visitor, active: bool) -> String {
    let app = &site.app;
    let now = site.app.now();
    let secret = TotpSecret::make(&user.email).unwrap();
    let row = SealedFor { table: "totp", row: user.id.0 };
    let sealed = app.sealing.seal(row, secret.bytes()).unwrap();
    let entry = prepared(user, now);
    assert!(app.store.start_totp(user.id, &sealed, &entry, now).await.unwrap());
    let step = now.secs() / 30;
    if active {
        let whose = (user.id, *session);
        assert!(app.store.activate_totp(whose, &sealed, step - 1, &[Digest([7; 32])], &entry).await.unwrap());
    }
    code(secret.bytes(), step)
}

async fn open(site: &Site, user: &User, hash: &str, refresh: &Opaque) -> SessionId {
    let now = site.app.now();
    let session = Session {
        id: SessionId(fresh_id(now)),
        user: user.id,
        created_at: now,
        seen_at: now,
        expires_at: now.plus(site.app.settings.refresh_ttl),
        address: "192.0.2.1".into(),
        agent: "a test".into(),
        method: LogInMethod::Password,
        factor_at: None,
        proved_at: Some(now),
        seen_address: "192.0.2.1".into(),
    };
    let entry = Audit {
        tenant: user.tenant,
        user: Some(user.id),
        action: "session.opened".into(),
        subject: session.id.to_string(),
        address: session.address.clone(),
        at: now,
        detail: String::new(),
    };
    let digest = Digest(refresh.hash().0);
    assert!(site.app.store.open_session(&session, &digest, hash, &entry).await.unwrap());
    session.id
}

fn claims(user: &User, session: SessionId) -> Claims {
    Claims {
        sub: user.id,
        sid: session.0,
        tenant: user.tenant.unwrap_or_default(),
        role: user.role,
        operator: user.is_operator(),
    }
}

/// Returns a token with other claims, signed with the application's key.
fn signed(site: &Site, header: &str, claims: &Value) -> String {
    let secret = site.app.settings.config.admin.jwt.secret.as_ref().unwrap().expose();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let key = hmac::sign(&key, b"rpcgate access token");
    let message = format!("{header}.{}", BASE64.encode(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()), message.as_bytes());
    format!("{message}.{}", BASE64.encode(tag))
}

/// Returns invalid tokens that resemble the caller's.
async fn bad_tokens(matrix: &Matrix, scene: &Scene) -> Vec<(&'static str, String)> {
    let (site, Visitor { user, session, token }) = (&matrix.site, &scene.own.caller.visitor);
    let now = site.app.now();
    let [header, payload, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!("{token}") };
    let decoded: Value = serde_json::from_slice(&BASE64.decode(payload).unwrap()).unwrap();
    let with = |name: &str, value: Value| {
        let mut changed = decoded.clone();
        changed[name] = value;
        changed
    };
    let again = signed(site, header, &decoded);
    assert_eq!(site.app.tokens.check(&again, now), Ok(claims(user, *session)), "the key is the right one");
    let greedy = BASE64.encode(with("role", "owner".into()).to_string() + " ");
    let turned: String = signature.chars().rev().collect();
    let unsigned = BASE64.encode(r#"{"typ":"at+jwt","alg":"none"}"#);
    let revoked = site.app.tokens.issue(&claims(user, scene.own.caller.ended), now).unwrap();
    let past = Time::from_secs(now.secs() - 86_400);
    vec![
        ("changed claims", format!("{header}.{greedy}.{signature}")),
        ("a changed signature", format!("{header}.{payload}.{turned}")),
        ("no algorithm", format!("{unsigned}.{payload}.")),
        ("no algorithm, signed", format!("{unsigned}.{payload}.{signature}")),
        ("another audience", signed(site, header, &with("aud", "another".into()))),
        ("another issuer", signed(site, header, &with("iss", "another".into()))),
        ("expired", site.app.tokens.issue(&claims(user, *session), past).unwrap()),
        ("a session that was ended", revoked),
        ("a session of another user", {
            let other = matrix.foreign.caller.visitor.session;
            site.app.tokens.issue(&claims(user, other), now).unwrap()
        }),
    ]
}

#[tokio::test]
async fn requests_without_a_valid_token_reveal_and_change_nothing() {
    let matrix = Matrix::new().await;
    for operation in matrix.operations() {
        let scene = matrix.scene(&operation, operation.most()).await;
        let valid = matrix.valid(&operation, &scene);
        if operation.row.roles == ANYONE {
            let answer = matrix.ask(&operation, valid).await;
            assert!(answer.status.is_success(), "{}: {} {}", operation.row.id, answer.status, answer.body);
            continue;
        }
        let none = Ask { token: None, ..valid.clone() };
        let mut refusals = vec![Refusal::new(none, StatusCode::UNAUTHORIZED, "no token")];
        for (why, token) in bad_tokens(&matrix, &scene).await {
            let ask = Ask { token: Some(token), ..valid.clone() };
            refusals.push(Refusal::new(ask, StatusCode::UNAUTHORIZED, why));
        }
        matrix.refused(&operation, &scene, refusals).await;
    }
}

/// Operations that always need a proof: all changes to who may enter an account, and deletions. Operations on members
/// need one if they are about owners and admins ([`entry`](super::entry)).
const PROVEN: [&str; 18] = [
    "activate_totp",
    "change_email",
    "change_password",
    "create_access_token",
    "disable_totp",
    "enroll_totp",
    "finish_passkey_registration",
    "give_proof",
    "operator_delete_tenant",
    "operator_disable_user",
    "operator_enable_user",
    "operator_remove_factors",
    "operator_reset_user",
    "remove_member",
    "remove_passkey",
    "renew_recovery_codes",
    "revoke_access_token",
    "start_passkey_registration",
];

/// Operations on the own account that every user may do with a token alone, because they open nothing.
const HARMLESS: [&str; 5] = ["confirm_again", "end_session", "logout_all", "put_me", "start_passkey_factor"];

// Shows (Accounts and second factors): A token of 15 minutes cannot obtain access that outlasts it (promise 82).
#[tokio::test]
async fn a_token_alone_changes_nothing_about_who_may_enter() {
    let matrix = Matrix::new().await;
    let mut refused = BTreeSet::new();
    let mut own = BTreeSet::new();
    for operation in matrix.operations().iter().filter(|operation| operation.row.roles != ANYONE) {
        let id = operation.row.id;
        let scene = matrix.scene(operation, operation.most()).await;
        matrix.site.app.store.forget_proof(scene.own.caller.visitor.session).await.unwrap();
        let mut ask = matrix.valid(operation, &scene);
        if operation.row.file.is_none()
            && let Some(body) = &ask.body
        {
            let mut body: Value = serde_json::from_str(body).unwrap();
            let members = body.as_object_mut().unwrap();
            let is_first_code = id == "activate_totp";
            members.retain(|name, _| name != "current_password" && (is_first_code || name != "code"));
            ask.body = Some(body.to_string());
        }
        if operation.row.roles == USERS && operation.method != Method::GET {
            own.insert(id);
        }
        let before = matrix.stored(&scene).await;
        let answer = matrix.ask(operation, ask).await;
        if answer.body["code"] == "proof_required" {
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{id}");
            assert_eq!(matrix.stored(&scene).await, before, "{id}: something was changed");
            refused.insert(id);
        }
    }
    assert_eq!(refused, BTreeSet::from(PROVEN));
    let judged: BTreeSet<_> = PROVEN.into_iter().chain(HARMLESS).collect();
    assert_eq!(own.difference(&judged).collect::<Vec<_>>(), Vec::<&&str>::new(), "is it proven or harmless?");
}

// Shows (Management).
#[tokio::test]
async fn users_with_the_role_are_served_and_others_are_refused() {
    let matrix = Matrix::new().await;
    for operation in matrix.operations().iter().filter(|operation| operation.row.roles != ANYONE) {
        let Row { id, writes, .. } = operation.row;
        let (admitted, others): (Vec<&str>, Vec<&str>) =
            EVERY_ROLE.iter().partition(|role| operation.admitted().contains(role));
        // These change something, or need a passkey of the caller.
        if writes || id == "start_passkey_factor" {
            for role in admitted {
                let scene = matrix.scene(operation, role).await;
                let before = matrix.stored(&scene).await;
                let answer = matrix.ask(operation, matrix.valid(operation, &scene)).await;
                assert!(answer.status.is_success(), "{id} as {role}: {} {}", answer.status, answer.body);
                let changed = matrix.stored(&scene).await != before;
                assert_eq!(changed, writes, "{id} as {role}: whether something was changed");
            }
        } else {
            let (scene, asks) = matrix.asks_of(operation, &admitted).await;
            let before = matrix.stored(&scene).await;
            for (role, ask) in admitted.iter().zip(asks) {
                let answer = matrix.ask(operation, ask).await;
                assert!(answer.status.is_success(), "{id} as {role}: {} {}", answer.status, answer.body);
            }
            assert_eq!(matrix.stored(&scene).await, before, "{id}: something was changed");
        }
        if others.is_empty() {
            continue;
        }
        let (scene, asks) = matrix.asks_of(operation, &others).await;
        let refusals = others.iter().zip(asks);
        let refusals = refusals.map(|(role, ask)| Refusal::new(ask, StatusCode::FORBIDDEN, *role));
        matrix.refused(operation, &scene, refusals.collect()).await;
    }
}

// Shows (Management): A resource of another tenant is 404; an insufficient role is 403.
#[tokio::test]
async fn resources_of_another_tenant_are_answered_as_missing() {
    let matrix = Matrix::new().await;
    let mut looked_at = BTreeSet::new();
    for operation in matrix.operations().iter().filter(|operation| operation.row.roles != OPERATORS) {
        let row = operation.row;
        for role in operation.admitted().iter().filter(|role| EVERY_ROLE.contains(role)) {
            // Operators may read the usage and the requests of every tenant.
            if *role == "operator" && matches!(row.id, "show_tenant_usage" | "explain_request") {
                continue;
            }
            if row.path.is_empty() && row.query.is_empty() {
                continue;
            }
            let scene = matrix.scene(operation, role).await;
            let valid = matrix.valid(operation, &scene);
            let unknown = TenantId(fresh_id(matrix.site.app.now())).to_string();
            let mut refusals = Vec::new();
            for (n, word) in row.path.iter().enumerate() {
                for id in [matrix.foreign.word(*word), unknown.clone()] {
                    let mut ask = valid.clone();
                    ask.path[n] = id;
                    let why = format!("{word:?} of another tenant as {role}");
                    refusals.push(Refusal::new(ask, StatusCode::NOT_FOUND, why));
                }
            }
            for (n, (name, word)) in row.query.iter().enumerate() {
                for id in [matrix.foreign.word(*word), unknown.clone()] {
                    let mut ask = valid.clone();
                    ask.query[n].1 = id;
                    let why = format!("`{name}` of another tenant as {role}");
                    refusals.push(Refusal::new(ask, StatusCode::NOT_FOUND, why));
                }
            }
            let answers = matrix.refused(operation, &scene, refusals).await;
            for pair in answers.chunks(2) {
                assert_eq!(pair[0], pair[1], "{}: the answer reveals whether it exists", row.id);
            }
            looked_at.insert(row.id);
        }
    }
    assert!(looked_at.len() > 10, "{looked_at:?}");
}

// Shows (Management): An unknown body field is 400 with the field named.
#[tokio::test]
async fn a_body_that_does_not_fit_is_refused_with_the_field_that_is_wrong() {
    let matrix = Matrix::new().await;
    for operation in matrix.operations().iter().filter(|operation| operation.row.body.is_some()) {
        let id = operation.row.id;
        let scene = matrix.scene(operation, operation.most()).await;
        let valid = matrix.valid(operation, &scene);
        let form: Value = serde_json::from_str(valid.body.as_deref().unwrap()).unwrap();
        let given = form.as_object().unwrap().keys().map(String::as_str);
        let given: BTreeSet<_> = given.chain(operation.row.excluded.iter().copied()).collect();
        let fields: BTreeSet<_> = operation.fields.keys().map(String::as_str).collect();
        assert_eq!(given, fields, "{id}: the row gives every field");
        let mut refusals = Vec::new();
        for text in ["", "{", "nonsense", "[]", "\"text\"", "7", "null", "{}x"] {
            let ask = Ask { body: Some(text.into()), ..valid.clone() };
            // Then the new secret signs at once.
            if id == "replace_webhook_secret" && matches!(text, "" | "null") {
                continue;
            }
            // The session has a proof already.
            if id == "enroll_totp" && text.is_empty() {
                continue;
            }
            // Without a body the bearer token identifies the session, and the request has no token.
            let is_nobody = id == "logout" && text.is_empty();
            let status = if is_nobody { StatusCode::UNAUTHORIZED } else { StatusCode::BAD_REQUEST };
            refusals.push(Refusal::new(ask, status, text));
        }
        matrix.refused(operation, &scene, refusals).await;
        let unknown = READ_ONLY.iter().chain(&["surprise"]).map(|name| (*name).to_owned());
        let unknown = unknown.filter(|name| !operation.fields.contains_key(name));
        let mut wrong: Vec<_> = unknown.map(|name| (name, Some(json!("owner")))).collect();
        for name in operation.fields.keys() {
            wrong.extend([json!({"a": 1}), json!([{}])].map(|value| (name.clone(), Some(value))));
            let is_text = operation.fields[name]["type"] == "string" || form[name].is_string();
            wrong.push((name.clone(), Some(if is_text { json!(7) } else { json!("text") })));
        }
        wrong.extend(operation.required.iter().map(|name| (name.clone(), None)));
        let mut refusals = Vec::new();
        for (name, value) in &wrong {
            let mut form = form.clone();
            let why = format!("`{name}` is {value:?}");
            match value {
                Some(value) => form[name] = value.clone(),
                None => drop(form.as_object_mut().unwrap().remove(name)),
            }
            let ask = Ask { body: Some(form.to_string()), ..valid.clone() };
            refusals.push(Refusal::new(ask, StatusCode::BAD_REQUEST, why));
        }
        let answers = matrix.refused(operation, &scene, refusals).await;
        for ((name, value), answer) in wrong.iter().zip(answers) {
            assert_eq!(answer["field"], json!(name), "{id}, {value:?}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_path_that_names_nothing_is_not_found() {
    let matrix = Matrix::new().await;
    for operation in matrix.operations() {
        let row = operation.row;
        if row.path.is_empty() && row.query.is_empty() {
            continue;
        }
        let scene = matrix.scene(&operation, operation.most()).await;
        let valid = matrix.valid(&operation, &scene);
        let mut refusals = Vec::new();
        for (n, word) in row.path.iter().enumerate().filter(|(_, word)| **word != ObjectKind::Method) {
            let unknown = TenantId(fresh_id(matrix.site.app.now())).to_string();
            let cut = &unknown[..35];
            for text in ["x", "0", "%00", "..%2f..", "%ff", cut, unknown.as_str()] {
                let mut ask = valid.clone();
                ask.path[n] = text.into();
                refusals.push(Refusal::new(ask, StatusCode::NOT_FOUND, format!("{word:?} {text}")));
            }
        }
        matrix.refused(&operation, &scene, refusals).await;
        let mut refusals = Vec::new();
        for (n, (name, _)) in row.query.iter().enumerate() {
            let mut ask = valid.clone();
            ask.query[n].1 = "x".into();
            refusals.push(Refusal::new(ask, StatusCode::BAD_REQUEST, *name));
        }
        let answers = matrix.refused(&operation, &scene, refusals).await;
        for ((name, _), answer) in row.query.iter().zip(answers) {
            assert_eq!(answer["field"], json!(name), "{}: {answer}", row.id);
        }
    }
}
