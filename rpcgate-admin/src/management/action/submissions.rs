//! Forms that are sent twice, by a double click or because a page is loaded again: the second time leads to where the
//! first one led, and has no effect.
//!
//! Each form of a page has a value of its own, and the browser's user or cookie, the value and the fields together make the
//! key of a run, as the header `Idempotency-Key` does for the API. Of a submission that succeeded, only the redirection is
//! kept, encrypted, for a day. A submission that was refused had no effect, so it can be sent again.
//!
//! A page that shows a secret once is stored as well, encrypted and for a quarter of an hour, until the browser has
//! followed the redirection to it.

use crate::management::action::idempotency::{RequestParts, forget};
use crate::management::app_state::AppState;
use crate::management::error::{ActionError, ErrorCode};
use crate::management::identity::sealing::SealedFor;
use http::StatusCode;
use rpcgate_store::{Digest, KeyedRequest, Run, RunOutcome, fresh_id};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Characters of a form's value, at most.
const MAX_VALUE: usize = 64;

/// The pause between two looks at a submission that is being carried out.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks at a submission that is being carried out, before the browser is told to come back.
const LOOKS: u32 = 100;

/// How long the page with a secret waits for the browser.
const RESULT_KEPT: Duration = Duration::from_secs(900);

/// The table of runs and results.
const TABLE: &str = "idempotency";

/// Where a submission leads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redirection {
    /// The value of `Location`.
    pub location: String,
    /// The values of `Set-Cookie`.
    pub cookies: Vec<String>,
}

/// What to do with a submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FormRun {
    /// It is the first one: carry it out, as this run.
    First(Run),
    /// It was carried out before, and leads there.
    Repeated(Redirection),
}

/// Decides whether a submission of `owner` is carried out: a user, or a browser that is not logged in. `value` is that of
/// its form. While the same submission is being carried out, this waits for its end.
///
/// # Errors
/// [`ActionError::Invalid`] for a value that is no form's, [`ErrorCode::RequestInProgress`] if it takes too long,
/// [`ErrorCode::AnswerLost`] if it failed after it had an effect, [`ActionError::Full`], [`ActionError::Unavailable`].
pub async fn begin(
    app: &AppState,
    owner: u128,
    value: &str,
    request: RequestParts<'_>,
) -> Result<FormRun, ActionError> {
    if value.is_empty() || value.len() > MAX_VALUE || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ActionError::Invalid("this form is not from a page of ours: load the page again".into()));
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

/// Keeps where a submission leads. It was carried out, so an error is only logged.
pub async fn keep(app: &AppState, run: &Run, status: StatusCode, redirection: &Redirection) {
    let kept = async {
        let bytes =
            serde_json::to_vec(redirection).map_err(|error| ActionError::Broken(error.to_string()))?;
        let sealed = app.sealing.seal(SealedFor { table: TABLE, row: run.id }, &bytes)?;
        Ok::<_, ActionError>(app.store.keep_answer(run, status.as_u16(), Some(sealed)).await?)
    };
    if let Err(error) = kept.await {
        tracing::warn!(%error, "where a form led could not be kept");
    }
}

/// Forgets a submission that led nowhere, so that it can be sent again, unless it failed after it had an effect.
pub async fn let_go(app: &AppState, run: &Run, status: StatusCode) {
    if let Err(error) = forget(app, run, status).await {
        tracing::warn!(%error, "a form that led nowhere could not be forgotten");
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

/// Takes a page that `owner` sees once, if it is there and was not seen.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn take_result(app: &AppState, owner: u128, id: u128) -> Result<Option<Vec<u8>>, ActionError> {
    let sealed = app.store.take_result((owner, id), app.now()).await?;
    Ok(sealed.and_then(|sealed| app.sealing.open(SealedFor { table: TABLE, row: id }, &sealed).ok()))
}
