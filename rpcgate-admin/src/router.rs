//! Every route.

use crate::access::Door;
use crate::action::invitations::MAIL_PATH;
use crate::action::resets::RESET_PATH;
use crate::api::{
    accounts, audit, chains, emails, health, invitations, keys, limit_requests, me, members, notifications,
    operator, plans, projects, quotas, resets, roles, sessions, tenants, usage,
};
use crate::error::ActionError;
use crate::extract::LARGEST_BODY;
use crate::house::House;
use crate::identity::role::Permission;
use crate::{openapi, outer, page};
use axum::extract::DefaultBodyLimit;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

/// Where the API is (specification, "Versioning").
pub const BASE: &str = "/api/v1";

/// The API, each route with whom it is for.
pub fn api(door: &Door) -> OpenApiRouter<Arc<House>> {
    OpenApiRouter::default()
        // account
        .routes(door.anyone(routes!(accounts::challenge)))
        .routes(door.anyone(routes!(accounts::register)))
        .routes(door.anyone(routes!(accounts::confirm)))
        .routes(door.anyone(routes!(resets::forgot)))
        .routes(door.anyone(routes!(resets::reset)))
        .routes(door.anyone(routes!(invitations::accept)))
        .routes(door.anyone(routes!(sessions::login)))
        .routes(door.anyone(routes!(sessions::refresh)))
        .routes(door.anyone(routes!(sessions::logout)))
        .routes(door.user(routes!(sessions::logout_all)))
        .routes(door.user(routes!(sessions::list)))
        .routes(door.user(routes!(sessions::end)))
        .routes(door.user(routes!(me::get, me::put)))
        .routes(door.user(routes!(me::change_password)))
        .routes(door.user(routes!(emails::change)))
        .routes(door.user(routes!(accounts::confirm_again)))
        .routes(door.user(routes!(audit::list)))
        // tenant
        .routes(door.member(Permission::Read, routes!(tenants::list)))
        .routes(door.member(Permission::Read, routes!(tenants::get)))
        .routes(door.member(Permission::ManageTenant, routes!(tenants::update)))
        .routes(door.member(Permission::Read, routes!(members::list)))
        .routes(door.member(Permission::ManageMembers, routes!(members::update)))
        .routes(door.member(Permission::Read, routes!(members::remove)))
        .routes(door.member(Permission::ManageMembers, routes!(invitations::list, invitations::create)))
        .routes(door.member(Permission::ManageMembers, routes!(invitations::withdraw)))
        .routes(door.member(Permission::Read, routes!(projects::list)))
        .routes(door.member(Permission::ManageProjects, routes!(projects::create)))
        .routes(door.member(Permission::Read, routes!(projects::get)))
        .routes(door.member(Permission::ManageProjects, routes!(projects::update, projects::delete)))
        .routes(door.member(Permission::Read, routes!(quotas::get)))
        .routes(door.member(Permission::Read, routes!(keys::list)))
        .routes(door.member(Permission::ManageKeys, routes!(keys::create)))
        .routes(door.member(Permission::ManageKeys, routes!(keys::revoke)))
        .routes(door.member(Permission::Read, routes!(limit_requests::list)))
        .routes(door.member(Permission::RequestLimits, routes!(limit_requests::create)))
        .routes(door.member(Permission::Read, routes!(notifications::list)))
        .routes(door.member(Permission::Read, routes!(notifications::read)))
        // operator
        .routes(door.operator(routes!(operator::tenants::list)))
        .routes(door.operator(routes!(operator::tenants::update)))
        .routes(door.operator(routes!(operator::users::list)))
        .routes(door.operator(routes!(operator::users::unlock)))
        .routes(door.operator(routes!(operator::users::reset)))
        .routes(door.operator(routes!(operator::users::disable)))
        .routes(door.operator(routes!(operator::users::enable)))
        .routes(door.operator(routes!(operator::quotas::put, operator::quotas::delete)))
        .routes(door.operator(routes!(operator::limit_requests::list)))
        .routes(door.operator(routes!(operator::limit_requests::review)))
        .routes(door.operator(routes!(
            operator::weights::get,
            operator::weights::put,
            operator::weights::delete
        )))
        .routes(door.operator(routes!(operator::chains::switch)))
        .routes(door.operator(routes!(operator::nodes::list)))
        .routes(door.operator(routes!(operator::plans::get, operator::plans::update)))
        // catalog
        .routes(door.user(routes!(plans::list)))
        .routes(door.user(routes!(chains::list)))
        .routes(door.user(routes!(roles::list)))
        // usage
        .routes(door.member(Permission::Read, routes!(usage::view)))
        .routes(door.user(routes!(usage::of_tenant)))
        .routes(door.member(Permission::Read, routes!(usage::of_project)))
        .routes(door.member(Permission::Read, routes!(usage::chart)))
        .routes(door.member(Permission::Read, routes!(usage::metrics)))
}

/// The pages for people.
fn pages(house: &Arc<House>) -> Router<Arc<House>> {
    use page::{accounts, emails, home, invitations, notifications, resets, sessions};
    let pages = Router::new()
        .route("/", get(home::show))
        .route("/register", get(accounts::application).post(accounts::register))
        .route("/confirm", get(accounts::link).post(accounts::confirm))
        .route("/confirm-again", post(accounts::confirm_again))
        .route("/forgot", get(resets::form).post(resets::forgot))
        .route(RESET_PATH, get(resets::link).post(resets::reset))
        .route("/email", get(emails::form).post(emails::change))
        .route(MAIL_PATH, get(invitations::link).post(invitations::accept))
        .route("/read-notification", post(notifications::read))
        .route("/login", get(sessions::form).post(sessions::login))
        .route("/logout", post(sessions::logout));
    page::around(pages, house).route("/static/{name}", get(page::assets::get))
}

/// All that the management side serves. `leaving` ends readiness.
pub fn router(house: &Arc<House>, leaving: &CancellationToken) -> Router {
    let described = OpenApiRouter::with_openapi(openapi::head(&house.settings.api_url));
    let (api, document) = described.nest(BASE, api(&Door::new(house))).split_for_parts();
    let document = Bytes::from(openapi::finished(&document).to_string());
    let told = get(async move || ([(CONTENT_TYPE, JSON)], document.clone()));
    // All of it is found from where it is itself: it may be served below a path of another host.
    let swagger = SwaggerUi::new("/swagger").config(Config::new([format!("..{OPENAPI}")]));
    let swagger = Router::from(swagger).layer(map_response(async |mut answer: Response| {
        if let Some(place) = answer.headers_mut().get_mut(LOCATION) {
            *place = HeaderValue::from_static("swagger/");
        }
        answer
    }));
    let router = api
        .route(OPENAPI, told.clone())
        .route(&format!("{BASE}{OPENAPI}"), told)
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .merge(swagger)
        .merge(pages(house))
        .fallback(async || ActionError::NotFound("path"))
        .method_not_allowed_fallback(async || ActionError::NotAllowed)
        .layer(Extension(leaving.clone()))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(house.clone());
    outer::around(router, house)
}

const OPENAPI: &str = "/openapi.json";
const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[cfg(test)]
mod tests;
