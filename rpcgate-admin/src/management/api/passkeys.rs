//! The caller's passkeys, and logging in by one.

use super::factors::{GiveFactor, RecoveryCodesJson};
use super::list::{ListPage, Page, PageRequest};
use super::moment::Moment;
use super::proofs::GiveProof;
use super::sessions::LoggedIn;
use crate::management::access::AuthSession;
use crate::management::action::actor::Actor;
use crate::management::action::passkeys::{self, RegisteredPasskey};
use crate::management::action::step_up;
use crate::management::app_state::AppState;
use crate::management::error::ActionError;
use crate::management::extract::{Body, Client, Id};
use crate::management::identity::passkey::{PasskeyAnswer, RegistrationAnswer, StartedCeremony};
use axum::Json;
use axum::extract::State;
use http::StatusCode;
use rpcgate_store::{PasskeyId, StoredPasskey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// The first half of a ceremony of a passkey.
#[derive(Clone, Serialize, ToSchema)]
pub struct Ceremony {
    /// The token for the second half. It can be used once, for five minutes.
    pub ceremony: String,
    /// The argument for the browser's `navigator.credentials.create` or `get`, whose binary members are base64url
    /// (`PublicKeyCredential.parseCreationOptionsFromJSON`, `parseRequestOptionsFromJSON`).
    #[schema(value_type = Object)]
    pub options: Value,
}

impl fmt::Debug for Ceremony {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ceremony").field("options", &self.options).finish_non_exhaustive()
    }
}

impl From<StartedCeremony> for Ceremony {
    fn from(StartedCeremony { token, options }: StartedCeremony) -> Self {
        Ceremony { ceremony: token, options }
    }
}

/// A passkey of the caller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[schema(as = Passkey)]
pub struct PasskeyJson {
    /// Its identifier.
    #[schema(format = "uuid")]
    pub id: String,
    /// The name that the caller gave it.
    #[schema(example = "Ada's telephone")]
    pub name: String,
    /// When it was registered.
    #[schema(value_type = String, format = "date-time")]
    pub created_at: Moment,
    /// When it was last used.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub used_at: Option<Moment>,
}

impl From<StoredPasskey> for PasskeyJson {
    fn from(StoredPasskey { id, name, created_at, used_at, .. }: StoredPasskey) -> Self {
        let (created_at, used_at) = (created_at.into(), used_at.map(Moment));
        PasskeyJson { id: id.to_string(), name, created_at, used_at }
    }
}

/// The second half of a registration.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishRegistration {
    /// The token of the first half.
    pub ceremony: String,
    /// What the browser has returned (`PublicKeyCredential.toJSON`).
    #[schema(value_type = Object)]
    pub credential: Value,
    /// A name for the passkey, at most 200 characters.
    #[schema(min_length = 1, max_length = 200, example = "Ada's telephone")]
    pub name: String,
}

impl fmt::Debug for FinishRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishRegistration").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A passkey that was registered.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AddedPasskey {
    /// The passkey.
    pub passkey: PasskeyJson,
    /// Ten recovery codes, which are not shown again, if this is the caller's first factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_codes: Option<Vec<String>>,
}

impl From<RegisteredPasskey> for AddedPasskey {
    fn from(RegisteredPasskey { passkey, recovery_codes }: RegisteredPasskey) -> Self {
        let recovery_codes = recovery_codes.map(|codes| RecoveryCodesJson::from(codes).recovery_codes);
        AddedPasskey { passkey: passkey.into(), recovery_codes }
    }
}

/// The first half of a log-in.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartLogIn {
    /// The token of a log-in that waits for a second factor. Without it the passkey logs its user in alone.
    #[serde(default)]
    pub mfa_token: Option<String>,
}

impl fmt::Debug for StartLogIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartLogIn")
    }
}

/// The second half of a ceremony in which a passkey was asked for.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishLogIn {
    /// The token of the first half.
    pub ceremony: String,
    /// What the browser has returned (`PublicKeyCredential.toJSON`).
    #[schema(value_type = Object)]
    pub credential: Value,
}

impl fmt::Debug for FinishLogIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FinishLogIn")
    }
}

/// Begin to add a passkey
///
/// It needs a proof: `current_password` or a factor in the body, or one that the session has from the last ten minutes
/// (`POST /auth/proof`). A caller who has a second factor has to give one. The second half needs no other proof.
#[utoipa::path(post, path = "/auth/passkeys/register/start", operation_id = "start_passkey_registration",
    tag = "account", request_body = GiveProof,
    responses(
        (status = 200, description = "What the browser needs to make a passkey.", body = Ceremony),
        (status = 401, description = "A proof is missing (`proof_required`)."),
        (status = 403, description = "The address is not confirmed, or a factor is missing or wrong, or the factors are \
            temporarily locked."),
        (status = 409, description = "The service has no host name for which browsers make passkeys.")))]
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
/// The passkey is a second factor from then on, and logs the caller in without a password. If it is the first factor,
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
    let added = passkeys::finish_registration(&app, &session, &actor, (&ceremony, &answer), &name).await?;
    Ok((StatusCode::CREATED, Json(added.into())))
}

/// List the passkeys
///
/// The caller's passkeys, the oldest first.
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
/// Asks for a factor, which may be the passkey itself. All other sessions end.
#[utoipa::path(delete, path = "/auth/passkeys/{id}", operation_id = "remove_passkey", tag = "account",
    params(("id" = String, Path, format = "uuid", description = "The passkey.")),
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
    passkeys::remove(&app, &session, id, &factor.given_as_proof()?, &client).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begin to give a passkey as a factor
///
/// Returns what the browser needs to use a passkey of the caller. The answer can be given wherever a factor is asked
/// for.
#[utoipa::path(post, path = "/auth/passkeys/factor/start", operation_id = "start_passkey_factor", tag = "account",
    responses(
        (status = 200, description = "What the browser needs to use a passkey.", body = Ceremony),
        (status = 409, description = "The caller has no passkey.")))]
pub async fn start_factor(
    State(app): State<Arc<AppState>>,
    session: AuthSession,
) -> Result<Json<Ceremony>, ActionError> {
    Ok(Json(passkeys::start_factor(&app, &session).await?.into()))
}

/// Begin to log in by a passkey
///
/// With the token of a log-in that waits for a second factor, the passkey is given to `/auth/mfa/verify`. Without one, it
/// logs its user in alone, by `/auth/passkeys/login/finish`.
#[utoipa::path(post, path = "/auth/passkeys/login/start", operation_id = "start_passkey_login", tag = "account",
    request_body = StartLogIn,
    responses(
        (status = 200, description = "What the browser needs to use a passkey.", body = Ceremony),
        (status = 401, description = "The log-in has expired or was finished."),
        (status = 409, description = "The user has no passkey, or the service has no host name for which browsers make \
            passkeys.")))]
pub async fn start_log_in(
    State(app): State<Arc<AppState>>,
    Body(StartLogIn { mfa_token }): Body<StartLogIn>,
) -> Result<Json<Ceremony>, ActionError> {
    Ok(Json(passkeys::start_log_in(&app, mfa_token.as_deref()).await?.into()))
}

/// Log in by a passkey
///
/// The device and what unlocks it are two factors, so no other is asked for.
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
