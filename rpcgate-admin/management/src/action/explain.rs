//! Explanations of requests to a gateway. Gateways remember their last requests in memory. A query for one inserts a
//! row into the database, and the gateway that remembers the request writes its answer into the row.

use super::actor::Actor;
use super::operator::nodes::at_work;
use crate::app_state::AppState;
use crate::error::{ActionError, ErrorCode};
use rpcgate_core::caller::{KeyId, ProjectId, RequestId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_store::{Explanation, Key};
use std::time::Duration;

/// The maximum time for which a request is remembered.
pub const REMEMBERED: Duration = Duration::from_secs(86_400);

/// The tolerated advance of a gateway's clock over this host's clock.
const AHEAD: Duration = Duration::from_secs(60);

/// The time limit for the gateways' answer, and the pauses between polls.
const PATIENCE: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

const MALFORMED: ActionError =
    ActionError::Refused(ErrorCode::NotFound, "this is not the `x-request-id` of a gateway");
const FUTURE: ActionError = ActionError::Refused(
    ErrorCode::NotFound,
    "no gateway remembers this request: its identifier says that it is from the future",
);
const OLD: ActionError = ActionError::Refused(
    ErrorCode::NotFound,
    "no gateway remembers this request: it is older than 24 hours, and no request is remembered for longer",
);
const UNKNOWN: ActionError = ActionError::Refused(
    ErrorCode::NotFound,
    "no gateway remembers this request: each remembers its last requests, 65,536 unless configured otherwise, for 24 \
     hours at most, and forgets them when it is restarted",
);

/// An explanation, with the database's names for its objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplainedRequest {
    /// The request.
    pub request: RequestId,
    /// The gateway's explanation. Only operators see the addresses of nodes.
    pub explanation: Explanation,
    /// The name of the tenant, if it still exists.
    pub tenant_name: Option<String>,
    /// The name of the project, if it still exists.
    pub project_name: Option<String>,
    /// The key, if it is in the database.
    pub key: Option<Key>,
}

/// Explains a request of the caller's tenant, or any request to an operator. It takes up to two seconds, and equally
/// long for a request of another tenant and for one that no gateway remembers.
///
/// # Errors
/// [`ErrorCode::NotFound`], [`ActionError::TooMany`] for a tenant that asks very often, [`ActionError::Unavailable`].
pub async fn explain(
    app: &AppState,
    actor: &Actor,
    request: RequestId,
) -> Result<ExplainedRequest, ActionError> {
    let tenant = if actor.user.is_operator() { None } else { Some(actor.tenant()?) };
    check_time(request, app.now())?;
    let mut explanation = find(app, tenant, request).await?;
    if tenant.is_some() {
        explanation.tries.iter_mut().for_each(|one| one.address = None);
    }
    named(app, request, explanation).await
}

/// Checks that a request with this identifier, which holds its time, can be remembered.
fn check_time(request: RequestId, now: Time) -> Result<(), ActionError> {
    if !request.is_version_7() {
        return Err(MALFORMED);
    }
    let arrival = request.time();
    if arrival > now.plus(AHEAD) {
        return Err(FUTURE);
    }
    if now.since(arrival) > REMEMBERED {
        return Err(OLD);
    }
    Ok(())
}

async fn find(
    app: &AppState,
    tenant: Option<TenantId>,
    request: RequestId,
) -> Result<Explanation, ActionError> {
    if let Some(known) = app.store.known_explanation(request, tenant, app.now()).await? {
        return Ok(known);
    }
    if !app.store.has_gateway(at_work(app.now())).await? {
        return Err(UNKNOWN);
    }
    let question = app.store.ask_explanation(request, tenant, app.now()).await?;
    let answer = tokio::time::timeout(PATIENCE, async {
        let mut pause = FIRST_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            if let Some(answer) = app.store.explanation(question).await? {
                return Ok::<_, ActionError>(answer);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    });
    match answer.await {
        Ok(answer) => answer,
        Err(_) => {
            app.store.end_asking(question).await?;
            Err(UNKNOWN)
        }
    }
}

async fn named(
    app: &AppState,
    request: RequestId,
    explanation: Explanation,
) -> Result<ExplainedRequest, ActionError> {
    let unreadable =
        |what: &str| ActionError::Broken(format!("an explanation whose {what} is no identifier"));
    let tenant: TenantId = explanation.tenant.parse().map_err(|_| unreadable("tenant"))?;
    let project: ProjectId = explanation.project.parse().map_err(|_| unreadable("project"))?;
    let key: KeyId = explanation.key.parse().map_err(|_| unreadable("key"))?;
    Ok(ExplainedRequest {
        request,
        tenant_name: app.store.tenant(tenant).await?.map(|tenant| tenant.name),
        project_name: app.store.project(tenant, project).await?.map(|project| project.name),
        key: app.store.key(tenant, key).await?,
        explanation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_request_decides_first() {
        let now = Time::from_secs(1_790_000_000);
        let checked =
            |arrival: Time| check_time(RequestId::new(arrival), now).map_err(|error| error.to_string());
        let ago = |time: Duration| Time::from_micros(now.micros() - time.as_micros() as u64);
        assert_eq!(checked(now), Ok(()));
        assert_eq!(checked(now.plus(AHEAD)), Ok(()));
        assert_eq!(checked(ago(REMEMBERED)), Ok(()));
        assert!(checked(now.plus(AHEAD + Duration::from_secs(1))).unwrap_err().contains("from the future"));
        assert!(
            checked(ago(REMEMBERED + Duration::from_secs(1))).unwrap_err().contains("older than 24 hours")
        );
        let random: RequestId = "b5e7c3f2-0d0a-4c5e-9a53-0f8f6a0c2d11".parse().unwrap();
        assert_eq!(check_time(random, now).unwrap_err().to_string(), MALFORMED.to_string());
    }
}
