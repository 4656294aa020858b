//! Routes of passkeys, and of logging in with one.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_management::access::AuthSession;
use rpcgate_management::action::actor::Actor;
use rpcgate_management::action::passkeys::{self};
use rpcgate_management::action::step_up;
use rpcgate_management::app_state::AppState;
use rpcgate_management::error::ActionError;
use rpcgate_management::extract::{Body, Client, Id};
use rpcgate_management::identity::passkey::{PasskeyAnswer, RegistrationAnswer};
use rpcgate_management::shape::factors::GiveFactor;
use rpcgate_management::shape::list::{ListPage, Page, PageRequest};
use rpcgate_management::shape::passkeys::{
    AddedPasskey, Ceremony, FinishLogIn, FinishRegistration, PasskeyJson, StartLogIn,
};
use rpcgate_management::shape::proofs::GiveProof;
use rpcgate_management::shape::sessions::LoggedIn;
use rpcgate_store::PasskeyId;
use std::sync::Arc;

/// Begin to add a passkey
///
/// Needs a proof: `current_password` or a factor in the body, or a proof of the session from the last ten minutes
/// (`POST /auth/proof`). A caller who has a second factor must give one. The second half needs no other proof.
#[utoipa::path(post, path = "/auth/passkeys/register/start", operation_id = "start_passkey_registration",
    tag = "account", request_body = GiveProof,
    responses(
        (status = 200, description = "The browser options to create a passkey.", body = Ceremony),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 403, description = "The address is not confirmed, or a factor is missing or wrong, or the factors are \
            temporarily locked."),
        (status = 409, description = "The service has no host name for which browsers create passkeys.")))]
pub async fn start_registration(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Body(proof): Body<GiveProof>,
) -> Result<Json<Ceremony>, ActionError> {
    let (password, factor) = proof.parts()?;
    let session = step_up::give_if_any(&app, &session, password, &client).await?;
    Ok(Json(passkeys::start_registration(&app, &session, factor, &client).await?.into()))
}

/// Add a passkey
///
/// From then on the passkey is a second factor, and logs the caller in without a password. If it is the first factor,
/// all other sessions end, and ten recovery codes are returned.
#[utoipa::path(post, path = "/auth/passkeys/register/finish", operation_id = "finish_passkey_registration",
    tag = "account", request_body = FinishRegistration,
    responses(
        (status = 201, description = "The passkey.", body = AddedPasskey),
        (status = 401, description = "The session has no recent proof (`proof_required`)."),
        (status = 409, description = "The credential is registered already, or the caller has too many passkeys.")))]
pub async fn finish_registration(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    actor: Actor,
    Body(FinishRegistration { ceremony, credential, name }): Body<FinishRegistration>,
) -> Result<(StatusCode, Json<AddedPasskey>), ActionError> {
    let answer = RegistrationAnswer::read(credential)?;
    let added = passkeys::finish_registration(&app, &session, &actor, &ceremony, &answer, &name).await?;
    Ok((StatusCode::CREATED, Json(added.into())))
}

/// List the passkeys
///
/// The caller's passkeys, oldest first.
#[utoipa::path(get, path = "/auth/passkeys", operation_id = "list_passkeys", tag = "account",
    params(Page),
    responses((status = 200, description = "The passkeys.", body = [PasskeyJson])))]
pub async fn list(
    State(app): State<Arc<AppState>>,
    page: PageRequest,
    session: AuthSession,
) -> Result<ListPage<PasskeyJson>, ActionError> {
    let all = passkeys::list(&app, &session).await?;
    page.of(all.into_iter().map(PasskeyJson::from).collect(), false, |one| &one.id)
}

/// Remove a passkey
///
/// Needs a factor, which may be the passkey itself. All other sessions end.
#[utoipa::path(delete, path = "/auth/passkeys/{id}", operation_id = "remove_passkey", tag = "account",
    request_body = GiveFactor,
    responses(
        (status = 204, description = "Removed."),
        (status = 401, description = "The factor is missing (`proof_required`)."),
        (status = 403, description = "The factor is wrong or was used before, or the factors are temporarily locked.")))]
pub async fn remove(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
    client: Client,
    Id(id): Id<PasskeyId>,
    Body(factor): Body<GiveFactor>,
) -> Result<StatusCode, ActionError> {
    passkeys::remove(&app, &session, id, &factor.into_proof()?, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begin to use a passkey as a factor
///
/// Returns the browser options to use a passkey of the caller. The browser's answer is accepted wherever a factor is
/// needed.
#[utoipa::path(post, path = "/auth/passkeys/factor/start", operation_id = "start_passkey_factor", tag = "account",
    responses(
        (status = 200, description = "The browser options to use a passkey.", body = Ceremony),
        (status = 409, description = "The caller has no passkey.")))]
pub async fn start_factor(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
) -> Result<Json<Ceremony>, ActionError> {
    Ok(Json(passkeys::start_factor(&app, &session).await?.into()))
}

/// Begin to log in with a passkey
///
/// With the token of a log-in that waits for a second factor, the passkey is given to `/auth/mfa/verify`. Without it,
/// the passkey alone logs its user in, by `/auth/passkeys/login/finish`.
#[utoipa::path(post, path = "/auth/passkeys/login/start", operation_id = "start_passkey_login", tag = "account",
    request_body = StartLogIn,
    responses(
        (status = 200, description = "The browser options to use a passkey.", body = Ceremony),
        (status = 401, description = "The log-in has expired or was finished."),
        (status = 409, description = "The user has no passkey, or the service has no host name for which browsers \
            create passkeys.")))]
pub async fn start_log_in(
    State(app): State<Arc<AppState>>,
    Body(StartLogIn { mfa_token }): Body<StartLogIn>,
) -> Result<Json<Ceremony>, ActionError> {
    Ok(Json(passkeys::start_log_in(&app, mfa_token.as_deref()).await?.into()))
}

/// Log in with a passkey
///
/// The device and its unlocking are two factors, so no other factor is needed.
#[utoipa::path(post, path = "/auth/passkeys/login/finish", operation_id = "finish_passkey_login", tag = "account",
    request_body = FinishLogIn,
    responses(
        (status = 200, description = "Logged in.", body = LoggedIn),
        (status = 401, description = "The passkey is unknown or was not accepted."),
        (status = 403, description = "Operators have disabled the account.")))]
pub async fn finish_log_in(
    State(app): State<Arc<AppState>>,
    client: Client,
    Body(FinishLogIn { ceremony, credential }): Body<FinishLogIn>,
) -> Result<Json<LoggedIn>, ActionError> {
    let answer = PasskeyAnswer::read(credential)?;
    Ok(Json(passkeys::finish_log_in(&app, &ceremony, &answer, &client).await?.into()))
}

#[cfg(test)]
pub(crate) mod tests;
