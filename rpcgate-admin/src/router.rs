//! All routes.

use crate::api::{
    access_tokens, accounts, audit, billing, chain_events, chains, checkouts, contracts, deliveries, emails,
    explain, factor_policy, factors, health, invitations, invoices, keys, limit_requests, me, members,
    notification_preferences, notifications, operator, plans, projects, proofs, quotas, recovery_codes,
    resets, roles, sessions, subscriptions, tenants, ticket_attachments, ticket_comments, tickets, totp,
    usage, webhooks,
};
use crate::openapi;
use crate::route_guard::RouteGuard;
use crate::routing::routes;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, LOCATION};
use http::{StatusCode, Uri};
use rpcgate_dashboard::with_pages;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::identity::role::Permission;
use rpcgate_management::middleware;
use rpcgate_management::routing::{get, post};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;

use utoipa_swagger_ui::{Config, SwaggerUi};

/// The base path of the API (specification, "Versioning").
pub const BASE: &str = "/api/v1";

type ApiRouter = OpenApiRouter<Arc<AppState>>;

/// Builds the API, with the access of each route.
///
/// Each group has its own function: unoptimised, one function for all would need half of a thread's stack.
pub fn api(guard: &RouteGuard) -> ApiRouter {
    type Group = fn(ApiRouter, &RouteGuard) -> ApiRouter;
    let groups: [Group; 8] = [
        account_routes,
        tenant_routes,
        webhook_routes,
        support_routes,
        billing_routes,
        operator_routes,
        catalog_routes,
        usage_routes,
    ];
    groups.into_iter().fold(passkeys(guard), |api, add_group| add_group(api, guard))
}

fn account_routes(api: ApiRouter, guard: &RouteGuard) -> ApiRouter {
    api.routes(guard.anyone(routes!(accounts::challenge)))
        .routes(guard.anyone(routes!(accounts::register)))
        .routes(guard.anyone(routes!(accounts::confirm)))
        .routes(guard.anyone(routes!(resets::forgot)))
        .routes(guard.anyone(routes!(resets::reset)))
        .routes(guard.anyone(routes!(invitations::accept)))
        .routes(guard.anyone(routes!(sessions::login)))
        .routes(guard.anyone(routes!(sessions::refresh)))
        .routes(guard.anyone(routes!(sessions::logout)))
        .routes(guard.anyone(routes!(factors::verify)))
        .routes(guard.user_without_factor(routes!(factors::get)))
        .routes(guard.user_without_factor(routes!(proofs::give)))
        .routes(guard.user_without_factor(routes!(totp::enroll)))
        .routes(guard.user_without_factor(routes!(totp::activate)))
        .routes(guard.user(routes!(totp::disable)))
        .routes(guard.user(routes!(recovery_codes::renew)))
        .routes(guard.user_without_factor(routes!(sessions::logout_all)))
        .routes(guard.user_without_factor(routes!(sessions::list)))
        .routes(guard.user_without_factor(routes!(sessions::end)))
        .routes(guard.reader_without_factor(routes!(me::get)))
        .routes(guard.user(routes!(me::put)))
        .routes(guard.user(routes!(me::change_password)))
        .routes(guard.user(routes!(emails::change)))
        .routes(guard.user_without_factor(routes!(accounts::confirm_again)))
        .routes(guard.user(routes!(access_tokens::list, access_tokens::create)))
        .routes(guard.user(routes!(access_tokens::revoke)))
        .routes(guard.reader(routes!(audit::list)))
}

fn tenant_routes(api: ApiRouter, guard: &RouteGuard) -> ApiRouter {
    api.routes(guard.member(Permission::Read, routes!(tenants::list)))
        .routes(guard.member(Permission::Read, routes!(tenants::get)))
        .routes(guard.member(Permission::ManageTenant, routes!(tenants::update)))
        .routes(guard.member(Permission::Read, routes!(factor_policy::get)))
        .routes(guard.member(Permission::ManageOwners, routes!(factor_policy::put)))
        .routes(guard.member(Permission::Read, routes!(contracts::list)))
        .routes(guard.member(Permission::Read, routes!(members::list)))
        .routes(guard.member(Permission::Read, routes!(members::get)))
        .routes(guard.member(Permission::ManageMembers, routes!(members::update)))
        .routes(guard.member(Permission::Read, routes!(members::remove)))
        .routes(guard.member(Permission::ManageMembers, routes!(invitations::list, invitations::create)))
        .routes(guard.member(Permission::ManageMembers, routes!(invitations::withdraw)))
        .routes(guard.member(Permission::Read, routes!(projects::list)))
        .routes(guard.member(Permission::ManageProjects, routes!(projects::create)))
        .routes(guard.member(Permission::Read, routes!(projects::get)))
        .routes(guard.member(Permission::ManageProjects, routes!(projects::update, projects::delete)))
        .routes(guard.member(Permission::Read, routes!(quotas::get)))
        .routes(guard.member(Permission::Read, routes!(keys::list)))
        .routes(guard.member(Permission::ManageKeys, routes!(keys::create)))
        .routes(guard.member(Permission::ManageKeys, routes!(keys::revoke)))
        .routes(guard.member(Permission::Read, routes!(limit_requests::list)))
        .routes(guard.member(Permission::RequestLimits, routes!(limit_requests::create)))
        .routes(guard.member(Permission::Read, routes!(notifications::list)))
        .routes(guard.member(Permission::Read, routes!(notifications::read)))
        .routes(guard.member(
            Permission::Read,
            routes!(notification_preferences::list, notification_preferences::update),
        ))
}

fn webhook_routes(api: ApiRouter, guard: &RouteGuard) -> ApiRouter {
    api.routes(guard.member(Permission::Read, routes!(webhooks::list)))
        .routes(guard.member(Permission::ManageWebhooks, routes!(webhooks::create)))
        .routes(guard.member(Permission::Read, routes!(webhooks::get)))
        .routes(guard.member(Permission::ManageWebhooks, routes!(webhooks::update, webhooks::delete)))
        .routes(guard.member(Permission::ManageWebhooks, routes!(webhooks::replace_secret)))
        .routes(guard.member(Permission::ManageWebhooks, routes!(webhooks::test)))
        .routes(guard.member(Permission::ManageWebhooks, routes!(webhooks::replay)))
        .routes(guard.member(Permission::Read, routes!(subscriptions::list)))
        .routes(guard.member(Permission::ManageWebhooks, routes!(subscriptions::create)))
        .routes(guard.member(Permission::ManageWebhooks, routes!(subscriptions::delete)))
        .routes(guard.member(Permission::Read, routes!(deliveries::list)))
        .routes(guard.member(Permission::Read, routes!(deliveries::get)))
        .routes(guard.member(Permission::ManageWebhooks, routes!(deliveries::retry)))
        .routes(guard.member(Permission::Read, routes!(chain_events::list)))
}

fn support_routes(api: ApiRouter, guard: &RouteGuard) -> ApiRouter {
    api.routes(guard.member(Permission::Read, routes!(tickets::list)))
        .routes(guard.member(Permission::ManageTickets, routes!(tickets::create)))
        .routes(guard.member(Permission::Read, routes!(tickets::get)))
        .routes(guard.member(Permission::ManageTickets, routes!(tickets::close)))
        .routes(guard.member(Permission::ManageTickets, routes!(tickets::reopen)))
        .routes(guard.member(Permission::ManageTickets, routes!(tickets::rate)))
        .routes(guard.member(Permission::Read, routes!(ticket_comments::list)))
        .routes(guard.member(Permission::ManageTickets, routes!(ticket_comments::create)))
        .routes(guard.member(Permission::Read, routes!(ticket_attachments::list)))
        .routes(guard.member(Permission::ManageTickets, routes!(ticket_attachments::create)))
        .routes(guard.member(Permission::Read, routes!(ticket_attachments::get)))
}

fn billing_routes(api: ApiRouter, guard: &RouteGuard) -> ApiRouter {
    api.routes(guard.member(Permission::ReadBilling, routes!(billing::show)))
        .routes(guard.member(Permission::ReadBilling, routes!(invoices::list)))
        .routes(guard.member(Permission::ReadBilling, routes!(invoices::get)))
        .routes(guard.member(Permission::ManageBilling, routes!(checkouts::create)))
}

fn operator_routes(api: ApiRouter, guard: &RouteGuard) -> ApiRouter {
    api.routes(guard.operator(routes!(operator::audit::list)))
        .routes(guard.operator(routes!(operator::tenants::list)))
        .routes(guard.operator(routes!(
            operator::tenants::get,
            operator::tenants::update,
            operator::tenants::delete
        )))
        .routes(guard.operator(routes!(operator::contracts::list, operator::contracts::create)))
        .routes(guard.operator(routes!(
            operator::contracts::get,
            operator::contracts::update,
            operator::contracts::end
        )))
        .routes(guard.operator(routes!(operator::users::list)))
        .routes(guard.operator(routes!(operator::users::unlock)))
        .routes(guard.operator(routes!(operator::users::reset)))
        .routes(guard.operator(routes!(operator::users::remove_factors)))
        .routes(guard.operator(routes!(operator::users::disable)))
        .routes(guard.operator(routes!(operator::users::enable)))
        .routes(guard.operator(routes!(
            operator::quotas::get,
            operator::quotas::put,
            operator::quotas::delete
        )))
        .routes(guard.operator(routes!(operator::limit_requests::list)))
        .routes(guard.operator(routes!(operator::limit_requests::review)))
        .routes(guard.operator(routes!(operator::tickets::list)))
        .routes(guard.operator(routes!(operator::tickets::get, operator::tickets::update)))
        .routes(guard.operator(routes!(operator::tickets::comments, operator::tickets::answer)))
        .routes(guard.operator(routes!(operator::tickets::attachments, operator::tickets::attach)))
        .routes(guard.operator(routes!(operator::tickets::attachment)))
        .routes(guard.operator(routes!(
            operator::weights::get,
            operator::weights::put,
            operator::weights::delete
        )))
        .routes(guard.operator(routes!(operator::what_if::ask)))
        .routes(guard.operator(routes!(operator::invoices::list)))
        .routes(guard.operator(routes!(operator::invoices::get, operator::invoices::settle)))
        .routes(guard.operator(routes!(operator::invoices::credit)))
        .routes(guard.operator(routes!(operator::payments::list)))
        .routes(guard.operator(routes!(operator::chains::get, operator::chains::switch)))
        .routes(guard.operator(routes!(operator::chains::clear_cache)))
        .routes(guard.operator(routes!(operator::nodes::list)))
        .routes(guard.operator(routes!(operator::nodes::drain)))
        .routes(guard.operator(routes!(operator::plans::get, operator::plans::update)))
        .routes(guard.operator(routes!(operator::plans::withdraw)))
        .routes(guard.operator(routes!(operator::config_versions::list)))
        .routes(guard.operator(routes!(operator::config_versions::get)))
        .routes(guard.operator(routes!(operator::config_versions::changes)))
        .routes(guard.operator(routes!(operator::custom_plans::list, operator::custom_plans::create)))
        .routes(guard.operator(routes!(
            operator::custom_plans::get,
            operator::custom_plans::update,
            operator::custom_plans::delete
        )))
}

fn catalog_routes(api: ApiRouter, guard: &RouteGuard) -> ApiRouter {
    api.routes(guard.reader(routes!(plans::list)))
        .routes(guard.reader(routes!(chains::list)))
        .routes(guard.reader(routes!(roles::list)))
}

fn usage_routes(api: ApiRouter, guard: &RouteGuard) -> ApiRouter {
    api.routes(guard.member(Permission::Read, routes!(usage::view)))
        .routes(guard.reader(routes!(usage::of_tenant)))
        .routes(guard.member(Permission::Read, routes!(usage::of_project)))
        .routes(guard.member(Permission::Read, routes!(usage::chart)))
        .routes(guard.member(Permission::Read, routes!(usage::metrics)))
        .routes(guard.reader(routes!(explain::get)))
}

fn passkeys(guard: &RouteGuard) -> ApiRouter {
    use crate::api::passkeys;
    OpenApiRouter::default()
        .routes(guard.user_without_factor(routes!(passkeys::start_registration)))
        .routes(guard.user_without_factor(routes!(passkeys::finish_registration)))
        .routes(guard.user_without_factor(routes!(passkeys::list)))
        .routes(guard.user(routes!(passkeys::remove)))
        .routes(guard.user(routes!(passkeys::start_factor)))
        .routes(guard.anyone(routes!(passkeys::start_log_in)))
        .routes(guard.anyone(routes!(passkeys::finish_log_in)))
}

/// Builds all routes of the management side. Cancelling `leaving` ends readiness.
pub fn router(app: &Arc<AppState>, leaving: &CancellationToken) -> Router {
    let described = OpenApiRouter::with_openapi(openapi::head(&app.settings.api_url));
    let (api, document) = described.nest(BASE, api(&RouteGuard::new(app))).split_for_parts();
    let document = Bytes::from(openapi::finished(&document).to_string());
    let specification = get(async move || ([(CONTENT_TYPE, JSON)], document.clone()));
    // All URLs are relative, so that the page works below a path of a different host. The validator is a third-party
    // service that would learn the address of this one.
    let config = Config::new([format!("..{OPENAPI}")]).validator_url("none");
    let swagger = SwaggerUi::new("/swagger").config(config);
    let policy = swagger_policy(&app.settings.api_url);
    let swagger = Router::from(swagger).layer(map_response(move |answer| {
        let policy = policy.clone();
        async move { browsed(answer, policy) }
    }));
    let router = api
        .route(OPENAPI, specification.clone())
        .route(&format!("{BASE}{OPENAPI}"), specification)
        .route(&format!("{BASE}{}", checkouts::EVENTS), post(checkouts::receive))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .merge(swagger)
        .layer(Extension(leaving.clone()));
    middleware::wrap(with_pages(router, app), app)
}

/// Sets `policy` on an answer of the Swagger page, and replaces its 404 and its redirect by ours.
fn browsed(mut answer: Response, policy: HeaderValue) -> Response {
    if answer.status() == StatusCode::NOT_FOUND {
        answer = ActionError::NotFound("path").into_response();
    }
    if let Some(place) = answer.headers_mut().get_mut(LOCATION) {
        *place = HeaderValue::from_static("swagger/");
    }
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    answer
}

/// Returns the content security policy of the Swagger page. It may load its own files and answers of the API, which may
/// be on another host. It has the origin of the dashboard, and so its sessions. Its scripts set the styles of single
/// elements.
fn swagger_policy(api_url: &str) -> HeaderValue {
    let api = api_url.parse::<Uri>().ok();
    let api = api.and_then(|api| Some(format!(" {}://{}", api.scheme_str()?, api.authority()?)));
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; \
         connect-src 'self'{}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        api.unwrap_or_default()
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
}

const OPENAPI: &str = "/openapi.json";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[cfg(test)]
pub(crate) mod tests;
