//! Requests with an idempotency key (contract, "Accounts, second factors, money"): a request that is repeated within 24
//! hours, because its answer was lost, is not carried out again but gets the first answer.
//!
//! Only answers of requests that had an effect are stored. A refused request had none, so it can be repeated with the
//! same key. The database shows whether a failed request had an effect: each write of a run records in its own
//! transaction that the run had one.

use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use crate::identity::sealing::SealedFor;
use http::StatusCode;
use ring::digest::{Context, SHA256};
use rpcgate_store::{Digest, KeyedRequest, Run, RunOutcome, User, fresh_id};
use serde::{Deserialize, Serialize};

/// The maximum number of characters of a key.
pub const MAX_KEY: usize = 255;

/// The maximum bytes of a stored answer.
const MAX_ANSWER: usize = 64 << 10;

const TABLE: &str = "idempotency";

/// The parts that identify a repeated request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestParts<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path and query.
    pub target: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// The status.
    #[serde(skip)]
    pub status: StatusCode,
    /// The media type of the body.
    pub content_type: Option<String>,
    /// The body.
    pub body: String,
}

/// The decision about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Once {
    /// Carry it out, as this run.
    Run(Run),
    /// Send this stored answer.
    Answer(KeptAnswer),
}

/// Decides whether a request with `key` is carried out. A key belongs to a tenant, but only the user who sent the first
/// request gets its answer, which may contain a secret.
///
/// # Errors
/// [`ErrorCode::IdempotencyKeyReused`], [`ErrorCode::RequestInProgress`], [`ErrorCode::AnswerLost`],
/// [`ActionError::Invalid`] for a malformed key, [`ActionError::Full`] if there are too many keys,
/// [`ActionError::Unavailable`].
pub async fn begin(
    app: &AppState,
    user: &User,
    key: &str,
    request: RequestParts<'_>,
) -> Result<Once, ActionError> {
    if key.is_empty()
        || key.len() > MAX_KEY
        || !key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    {
        return Err(ActionError::named(
            "Idempotency-Key",
            format!("must have 1 to {MAX_KEY} printable ASCII characters"),
        ));
    }
    let now = app.now();
    let owner = user.tenant.map_or(user.id.0, |tenant| tenant.0);
    let keyed = KeyedRequest { owner, key: Digest::of(key), request: request.digest(user.id.0) };
    let run = Run { owner, key: keyed.key, id: fresh_id(now) };
    let refused = |code, text| Err(ActionError::Refused(code, text));
    match app.store.begin_run(&keyed, run.id, now).await? {
        RunOutcome::Begun => Ok(Once::Run(run)),
        RunOutcome::Answered { run, status, sealed } => {
            let opened = app.sealing.open(SealedFor { table: TABLE, row: run }, &sealed);
            let Ok(opened) = opened else { return refused(ErrorCode::AnswerLost, LOST) };
            let stored: KeptAnswer = serde_json::from_slice(&opened)
                .map_err(|error| ActionError::Broken(format!("a kept answer cannot be read: {error}")))?;
            let status = StatusCode::from_u16(status)
                .map_err(|_| ActionError::Broken(format!("a kept answer has the status {status}")))?;
            Ok(Once::Answer(KeptAnswer { status, ..stored }))
        }
        RunOutcome::Different => {
            refused(ErrorCode::IdempotencyKeyReused, "the idempotency key was used for another request")
        }
        RunOutcome::Running => refused(
            ErrorCode::RequestInProgress,
            "the same request is being carried out, send it again later",
        ),
        RunOutcome::Lost => refused(ErrorCode::AnswerLost, LOST),
    }
}

const LOST: &str = "the same request was carried out, but its answer is not known any more";

impl RequestParts<'_> {
    pub(super) fn digest(&self, user: u128) -> Digest {
        let mut context = Context::new(&SHA256);
        context.update(&user.to_be_bytes());
        for part in [self.method.as_bytes(), self.target.as_bytes(), self.body] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        Digest(digest)
    }
}

/// Stores the answer of a run, encrypted. An answer that is too large is not stored; its request is not carried out
/// again either.
///
/// # Errors
/// [`ActionError::Unavailable`], [`ActionError::Broken`].
pub async fn keep(app: &AppState, run: &Run, answer: &KeptAnswer) -> Result<(), ActionError> {
    let broken = |error: &dyn std::fmt::Display| ActionError::Broken(error.to_string());
    let sealed = if answer.body.len() <= MAX_ANSWER {
        let bytes = serde_json::to_vec(answer).map_err(|error| broken(&error))?;
        let row = SealedFor { table: TABLE, row: run.id };
        Some(app.sealing.seal(row, &bytes).map_err(|error| broken(&error))?)
    } else {
        None
    };
    Ok(app.store.keep_answer(run, answer.status.as_u16(), sealed).await?)
}

/// Deletes a run that did not succeed, unless it failed after it had an effect.
///
/// # Errors
/// [`ActionError::Unavailable`].
pub async fn forget(app: &AppState, run: &Run, status: StatusCode) -> Result<(), ActionError> {
    Ok(app.store.forget_run(run, !status.is_client_error()).await?)
}
