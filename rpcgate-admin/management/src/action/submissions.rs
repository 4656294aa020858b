//! Forms that are sent twice, by a double click or a reload: the second submission redirects to the target of the
//! first, and has no effect.
//!
//! Each form of a page has a unique value. The browser's user or cookie, the value and the fields together are the key
//! of a run, as the header `Idempotency-Key` is for the API. A successful submission stores only the redirect,
//! encrypted, for a day. A refused submission had no effect, so it can be sent again.
//!
//! A page that shows a secret once is stored too, encrypted and for a quarter of an hour, until the browser has
//! followed the redirect to it.

use crate::action::idempotency::{RequestParts, forget};
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::identity::sealing::SealedFor;
use http::StatusCode;
use rpcgate_store::{Digest, KeyedRequest, Run, RunOutcome, fresh_id};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The maximum number of characters of a form's value.
const MAX_VALUE: usize = 64;

/// The pause between two polls of a submission that is being carried out.
const PAUSE: Duration = Duration::from_millis(100);

/// The maximum number of polls before the browser is asked to retry.
const LOOKS: u32 = 100;

/// The time for which the page with a secret is stored.
const RESULT_KEPT: Duration = Duration::from_secs(900);

const TABLE: &str = "idempotency";

/// The redirect of a submission.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redirection {
    /// The value of `Location`.
    pub location: String,
    /// The values of `Set-Cookie`.
    pub cookies: Vec<String>,
}

/// The decision about a submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FormRun {
    /// The first one: carry it out, as this run.
    First(Run),
    /// A repeated one: send this redirect.
    Repeated(Redirection),
}

/// Decides whether a submission of `owner`, a user or a browser that is not logged in, is carried out. `value` is the
/// form's unique value. Waits while the same submission is being carried out.
///
/// # Errors
/// [`ActionError::Invalid`] for a malformed value, [`ErrorCode::RequestInProgress`] if it takes too long,
/// [`ErrorCode::AnswerLost`] if it failed after it had an effect, [`ActionError::Full`], [`ActionError::Unavailable`].
pub async fn begin(
    app: &AppState,
    owner: u128,
    value: &str,
    request: RequestParts<'_>,
) -> Result<FormRun, ActionError> {
    if value.is_empty() || value.len() > MAX_VALUE || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ActionError::invalid("this form is not from one of our pages: load the page again"));
    }
    let request = request.digest(owner);
    let key = Digest::of(&format!("form {value} {}", hex::encode(request.0)));
    let keyed = KeyedRequest { owner, key, request };
    let run = Run { owner, key: keyed.key, id: fresh_id(app.now()) };
    let mut state = Some(app.store.begin_run(&keyed, run.id, app.now()).await?);
    for _ in 0..LOOKS {
        match state {
            Some(RunOutcome::Begun) => return Ok(FormRun::First(run)),
            Some(RunOutcome::Running) => {
                tokio::time::sleep(PAUSE).await;
                state = app.store.run_state(&keyed, app.now()).await?;
            }
            // The first one was refused, and had no effect.
            None => state = Some(app.store.begin_run(&keyed, run.id, app.now()).await?),
            Some(RunOutcome::Answered { run, sealed, .. }) => {
                return open(app, run, &sealed).map(FormRun::Repeated);
            }
            Some(RunOutcome::Different | RunOutcome::Lost) => return Err(lost()),
        }
    }
    Err(ActionError::Refused(
        ErrorCode::RequestInProgress,
        "this form was sent before and is still being worked on: look at the page again in a moment",
    ))
}

fn lost() -> ActionError {
    ActionError::Refused(
        ErrorCode::AnswerLost,
        "this form was sent before, and something failed after it had an effect: look at what it made",
    )
}

fn open(app: &AppState, run: u128, sealed: &[u8]) -> Result<Redirection, ActionError> {
    let opened = app.sealing.open(SealedFor { table: TABLE, row: run }, sealed).map_err(|_| lost())?;
    serde_json::from_slice(&opened)
        .map_err(|error| ActionError::Broken(format!("a kept redirection: {error}")))
}

/// Stores the redirect of a submission. The submission was carried out, so an error is only logged.
pub async fn keep(app: &AppState, run: &Run, status: StatusCode, redirection: &Redirection) {
    let stored = async {
        let bytes =
            serde_json::to_vec(redirection).map_err(|error| ActionError::Broken(error.to_string()))?;
        let sealed = app.sealing.seal(SealedFor { table: TABLE, row: run.id }, &bytes)?;
        Ok::<_, ActionError>(app.store.keep_answer(run, status.as_u16(), Some(sealed)).await?)
    };
    if let Err(error) = stored.await {
        tracing::warn!(%error, "the redirect of a form could not be stored");
    }
}

/// Deletes a submission without a redirect, so that it can be sent again, unless it failed after it had an effect.
pub async fn let_go(app: &AppState, run: &Run, status: StatusCode) {
    if let Err(error) = forget(app, run, status).await {
        tracing::warn!(%error, "a form without a redirect could not be deleted");
    }
}

/// Stores a page that `owner` sees once, and returns its identifier.
///
/// # Errors
/// [`ActionError::Unavailable`], [`ActionError::Broken`].
pub async fn put_result(app: &AppState, owner: u128, html: &[u8]) -> Result<u128, ActionError> {
    let now = app.now();
    let id = fresh_id(now);
    let sealed = app.sealing.seal(SealedFor { table: TABLE, row: id }, html)?;
    app.store.put_result((owner, id), sealed, now.plus(RESULT_KEPT), now).await?;
    Ok(id)
}

/// Takes a stored page of `owner`, unless it was already taken.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn take_result(app: &AppState, owner: u128, id: u128) -> Result<Option<Vec<u8>>, ActionError> {
    let sealed = app.store.take_result((owner, id), app.now()).await?;
    Ok(sealed.and_then(|sealed| app.sealing.open(SealedFor { table: TABLE, row: id }, &sealed).ok()))
}
