//! The common parts of passkey ceremonies.

use crate::app_state::AppState;
use crate::error::ActionError;
use crate::identity::passkey::{
    self, CeremonyPurpose, OpenedCeremony, PasskeyAnswer, PasskeyError, PasskeySite,
};
use rpcgate_core::clock::Time;
use rpcgate_store::{Audit, FactorUse, StoredPasskey, UserId};

const NO_SITE: ActionError =
    ActionError::Conflict("passkeys need a host name and https: operators have to set admin.dash_url");

/// Returns the site that passkeys belong to.
///
/// # Errors
/// [`ActionError::Conflict`] if the address of the dashboard does not allow passkeys.
pub(super) fn site(app: &AppState) -> Result<&PasskeySite, ActionError> {
    app.passkeys.as_ref().ok_or(NO_SITE)
}

/// Opens the token of a ceremony, once.
///
/// # Errors
/// [`ActionError::Invalid`] if it is invalid, expired or used; [`ActionError::Unavailable`].
pub(super) async fn open_once(
    app: &AppState,
    token: &str,
    whose: (CeremonyPurpose, Option<UserId>),
    now: Time,
) -> Result<OpenedCeremony, ActionError> {
    let opened = passkey::open(&app.sealing, token, whose, now).map_err(|_| void())?;
    if !app.store.use_once(&opened.token, opened.expires_at).await? {
        return Err(void());
    }
    Ok(opened)
}

pub(super) fn void() -> ActionError {
    ActionError::named("ceremony", "is not valid, was used, or has expired")
}

/// Verifies an answer against a passkey and returns the use that the store must record, or `None` if the passkey did
/// not make the answer. A refusal is added to the audit log, modelled on `entry`.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub(super) async fn verified_by(
    app: &AppState,
    ceremony: OpenedCeremony,
    answer: &PasskeyAnswer,
    passkey: &StoredPasskey,
    entry: Audit,
) -> Result<Option<FactorUse>, ActionError> {
    let id = passkey.id;
    let uses = passkey.uses;
    let used_at = entry.at;
    match site(app)?.finish_log_in(ceremony, answer, &passkey.passkey) {
        Ok(passkey) => Ok(Some(FactorUse::Passkey { id, uses, passkey, used_at })),
        Err(error @ PasskeyError::Broken(_)) => Err(error.into()),
        Err(error) => {
            tracing::info!(%error, "a passkey was not accepted");
            let action = if error == PasskeyError::Copied { "passkey.copied" } else { "passkey.refused" };
            let entry = Audit { action: action.into(), subject: id.to_string(), ..entry };
            app.store.note(&entry).await?;
            Ok(None)
        }
    }
}
