//! Extractors of handlers, which reject with an [`ActionError`].

use crate::error::ActionError;
use crate::identity::address::TrustedProxies;
use crate::strict_json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{ConnectInfo, FromRef, FromRequest, FromRequestParts, Path, Request};
use bytes::BytesMut;
use http::header::USER_AGENT;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use ring::digest::Context;
use rpcgate_core::caller::{CustomPlanId, KeyId, ProjectId, RequestId, TenantId};
use rpcgate_store::{
    AccessTokenId, ContractId, DeliveryId, InvitationId, InvoiceNumber, LimitRequestId, NotificationId,
    PasskeyId, SessionId, SubscriptionId, TicketAttachmentId, TicketId, UserId, WebhookId,
};
use serde::de::DeserializeOwned;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

const BODY_TIME: Duration = Duration::from_secs(15);

/// The maximum time for a file to arrive: 10 MiB over a slow line.
const FILE_TIME: Duration = Duration::from_secs(80);

/// The time for which a file may arrive at any rate.
const FILE_GRACE: Duration = Duration::from_secs(10);

/// The mean number of bytes of a file that must arrive per second since its start, after [`FILE_GRACE`]. Otherwise a
/// few clients that send almost nothing would block all other uploads.
const FILE_RATE: usize = 32 << 10;

/// A JSON object. Its content type is not checked. `T` must deny unknown fields, so that a misspelt one is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ActionError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ActionError> {
        let bytes = read_body(request, state).await?;
        strict_json::of_object(&bytes).map(Body)
    }
}

/// An optional JSON object. An empty body counts as an object without members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionalBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalBody<T> {
    type Rejection = ActionError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ActionError> {
        let bytes = read_body(request, state).await?;
        if bytes.is_empty() {
            return Ok(OptionalBody(T::default()));
        }
        strict_json::of_object(&bytes).map(OptionalBody)
    }
}

/// Reads the whole body within 15 seconds.
///
/// # Errors
/// [`ActionError::TooSlow`], [`ActionError::TooLarge`], [`ActionError::Invalid`] for a body that broke off.
pub async fn read_body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ActionError> {
    let read = tokio::time::timeout(BODY_TIME, Bytes::from_request(request, state));
    read.await.map_err(|_| ActionError::TooSlow)?.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => ActionError::TooLarge,
        _ => ActionError::invalid("the body is incomplete"),
    })
}

/// Reads a file of at most `max` bytes that is the whole body. It may take 80 seconds, and after 10 seconds it must
/// have arrived at a mean rate of at least 32 KiB per second. If there is a `digest`, it is updated with the file.
///
/// # Errors
/// [`ActionError::TooSlow`], [`ActionError::LargeFile`], [`ActionError::Invalid`] for a body that broke off.
pub async fn read_file(
    body: axum::body::Body,
    max: usize,
    mut digest: Option<&mut Context>,
) -> Result<Bytes, ActionError> {
    let mut body = Limited::new(body, max);
    let mut file = BytesMut::new();
    let begin = Instant::now();
    loop {
        // The time by which more bytes must arrive, because of the minimum rate.
        let enough = Duration::from_secs((file.len() / FILE_RATE) as u64).clamp(FILE_GRACE, FILE_TIME);
        let frame = timeout_at(begin + enough, body.frame()).await.map_err(|_| ActionError::TooSlow)?;
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    file.extend_from_slice(data);
                    if let Some(digest) = digest.as_mut() {
                        digest.update(data);
                    }
                }
            }
            Some(Err(error)) if error.is::<LengthLimitError>() => return Err(ActionError::LargeFile(max)),
            Some(Err(_)) => return Err(ActionError::invalid("the body is incomplete")),
            None => return Ok(file.freeze()),
        }
    }
}

/// The parameters of the query. The route's definition declares and checks their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ActionError> {
        let query = parts.uri.query().unwrap_or_default();
        strict_json::of_query(query).map(Query)
    }
}

/// A resource that a path identifies.
pub trait Named: FromStr {
    /// The resource's name in the error when it does not exist.
    const NOUN: &'static str;
}

macro_rules! named {
    ($($id:ty: $noun:literal,)*) => {$(
        impl Named for $id {
            const NOUN: &'static str = $noun;
        }
    )*};
}

named! {
    TenantId: "tenant",
    ProjectId: "project",
    KeyId: "key",
    UserId: "user",
    SessionId: "session",
    LimitRequestId: "limit request",
    InvitationId: "invitation",
    InvoiceNumber: "invoice",
    NotificationId: "notification",
    TicketId: "ticket",
    TicketAttachmentId: "attachment",
    AccessTokenId: "personal access token",
    PasskeyId: "passkey",
    ContractId: "contract",
    CustomPlanId: "plan",
    WebhookId: "webhook",
    SubscriptionId: "subscription",
    DeliveryId: "delivery",
    RequestId: "request",
}

/// The identifier in a path. A text that is not a UUID is answered like an unknown identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id<T>(pub T);

impl<S: Send + Sync, T: Named> FromRequestParts<S> for Id<T> {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ActionError> {
        let PathParams(text) = PathParams::<String>::from_request_parts(parts, state).await?;
        text.parse().map(Id).map_err(|_| ActionError::NotFound(T::NOUN))
    }
}

/// Both identifiers of a path with two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ids<T, U>(pub T, pub U);

impl<S: Send + Sync, T: Named, U: Named> FromRequestParts<S> for Ids<T, U> {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ActionError> {
        let PathParams((first, second)) =
            PathParams::<(String, String)>::from_request_parts(parts, state).await?;
        let first = first.parse().map_err(|_| ActionError::NotFound(T::NOUN))?;
        second.parse().map(|second| Ids(first, second)).map_err(|_| ActionError::NotFound(U::NOUN))
    }
}

/// The parameters of a path: a `String`, or a tuple with one element per parameter. Percent-escapes are decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ActionError> {
        // A name never contains a NUL character, and PostgreSQL accepts none.
        if parts.uri.path().contains("%00") {
            return Err(ActionError::NotFound("path"));
        }
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(words)| PathParams(words)).map_err(|_| ActionError::NotFound("path"))
    }
}

/// The client of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// The address of the client itself, behind any trusted proxies.
    pub address: IpAddr,
    /// The user agent, cut to [`MAX_AGENT`] characters.
    pub agent: String,
}

/// The maximum number of stored characters of the user agent.
pub const MAX_AGENT: usize = 200;

impl<S: Send + Sync> FromRequestParts<S> for Client
where
    TrustedProxies: FromRef<S>,
{
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ActionError> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let ConnectInfo(peer) = peer.ok_or_else(|| ActionError::Broken("a request without a peer".into()))?;
        let proxies = TrustedProxies::from_ref(state);
        let agent = parts.headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
        let shown = agent.unwrap_or_default().chars().filter(|c| !c.is_control()).take(MAX_AGENT).collect();
        Ok(Client { address: proxies.client(peer.ip(), &parts.headers), agent: shown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_BODY;
    use crate::testing::Site;
    use axum::Router;
    use axum::extract::DefaultBodyLimit;
    use axum::routing::{get, post};
    use futures_util::stream;
    use http::StatusCode;
    use hyper::body::Frame;
    use serde::Deserialize;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tower::ServiceExt;

    type FrameResult = Result<Frame<Bytes>, Infallible>;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        name: String,
    }

    #[derive(Deserialize)]
    struct Example {
        limit: Option<u32>,
    }

    fn router() -> Router {
        Router::new()
            .route("/form", post(async |Body(form): Body<Form>| form.name))
            .route("/asked", get(async |Query(query): Query<Example>| format!("{:?}", query.limit)))
            .route("/projects/{id}", get(async |Id(id): Id<ProjectId>| id.to_string()))
            .route(
                "/weights/{chain}/{method}",
                get(async |PathParams((chain, method)): PathParams<(String, String)>| {
                    format!("{chain} {method}")
                }),
            )
            .layer(DefaultBodyLimit::max(MAX_BODY))
    }

    async fn call(request: http::Request<axum::body::Body>) -> (StatusCode, String) {
        let answer = router().oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get_of(path: &str) -> (StatusCode, String) {
        call(http::Request::get(path).body(axum::body::Body::empty()).unwrap()).await
    }

    async fn post_of(body: impl Into<axum::body::Body>) -> (StatusCode, String) {
        call(http::Request::post("/form").body(body.into()).unwrap()).await
    }

    #[tokio::test]
    async fn a_body_needs_no_content_type_and_its_errors_are_specific() {
        assert_eq!(post_of("{\"name\":\"x\"}").await, (StatusCode::OK, "x".into()));
        let (status, body) = post_of("{\"nam\":\"x\"}").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(
            body,
            "{\"error\":\"unknown field `nam`: expected `name`\",\"code\":\"invalid\",\"field\":\"nam\"}"
        );
    }

    #[tokio::test]
    async fn a_body_is_bounded_with_or_without_a_declared_length() {
        let fits = format!("{{\"name\":\"{}\"}}", "x".repeat(MAX_BODY - 11));
        assert_eq!(fits.len(), MAX_BODY);
        assert_eq!(post_of(fits.clone()).await.0, StatusCode::OK);
        let larger = fits + " ";
        let refused = (
            StatusCode::PAYLOAD_TOO_LARGE,
            "{\"error\":\"the body is larger than 64 KiB\",\"code\":\"body_too_large\"}".into(),
        );
        assert_eq!(post_of(larger.clone()).await, refused);
        let unreported = axum::body::Body::new(UnsizedBody(Some(larger.into())));
        assert_eq!(post_of(unreported).await, refused);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_abandoned() {
        let endless = axum::body::Body::new(UnsizedBody(None));
        let refused =
            "{\"error\":\"the request took too long to arrive\",\"code\":\"request_timeout\"}".to_owned();
        assert_eq!(post_of(endless).await, (StatusCode::REQUEST_TIMEOUT, refused));
    }

    /// Makes a file that arrives at `bytes` per second for `seconds` seconds.
    fn arriving(bytes: usize, seconds: u64) -> axum::body::Body {
        let pieces = stream::unfold(0, move |second| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let piece = Bytes::from(vec![0; bytes]);
            (second < seconds).then(|| (Ok::<_, Infallible>(piece), second + 1))
        });
        axum::body::Body::from_stream(pieces)
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_arrives_too_slowly_is_abandoned_and_a_steady_one_is_read() {
        const MAX: usize = 10 << 20;
        let begin = Instant::now();
        assert!(matches!(read_file(arriving(16 << 10, 60), MAX, None).await, Err(ActionError::TooSlow)));
        assert!((10..15).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
        assert_eq!(read_file(arriving(64 << 10, 30), MAX, None).await.unwrap().len(), 30 * (64 << 10));
        assert_eq!(read_file(arriving(1, 5), MAX, None).await.unwrap().len(), 5, "it is soon complete");
        let begin = Instant::now();
        assert!(matches!(read_file(arriving(64 << 10, 200), MAX, None).await, Err(ActionError::TooSlow)));
        assert!((80..85).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
        assert!(matches!(
            read_file(arriving(64 << 10, 3), 100_000, None).await,
            Err(ActionError::LargeFile(100_000))
        ));
    }

    #[tokio::test]
    async fn a_path_without_a_uuid_names_nothing() {
        let id = "0190163d-8694-739b-aea5-966c26f8ad91";
        assert_eq!(get_of(&format!("/projects/{id}")).await, (StatusCode::OK, id.into()));
        for strange in ["1", "0190163d-8694-739b-aea5-966c26f8ad9", "%FF", "0190163d8694739baea5966c26f8ad91"]
        {
            let (status, body) = get_of(&format!("/projects/{strange}")).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{strange}");
            assert!(body.ends_with(" not found\",\"code\":\"not_found\"}"), "{body}");
        }
    }

    // Shows (Management): Weights are set by percent-encoded path.
    #[tokio::test]
    async fn a_path_parameter_may_contain_an_escaped_slash() {
        assert_eq!(get_of("/weights/cardano/a%2Fb").await, (StatusCode::OK, "cardano a/b".into()));
    }

    // Shows (Accounts and second factors).
    #[tokio::test]
    async fn the_address_of_a_client_comes_from_the_trusted_proxies() {
        let site = Site::of("[gateway]\ntrusted_proxies = [\"10.0.0.0/8\"]\n").await;
        let reported = async |peer: [u8; 4], agent: &str| {
            let request = http::Request::get("/").header("x-forwarded-for", "198.51.100.7");
            let (mut parts, ()) = request.header(USER_AGENT, agent).body(()).unwrap().into_parts();
            parts.extensions.insert(ConnectInfo(SocketAddr::from((peer, 9))));
            Client::from_request_parts(&mut parts, &site.app).await.unwrap()
        };
        let client = reported([10, 0, 0, 1], "curl/8").await;
        assert_eq!((client.address.to_string(), client.agent), ("198.51.100.7".into(), "curl/8".into()));
        let client = reported([192, 0, 2, 1], &"x".repeat(300)).await;
        assert_eq!((client.address.to_string(), client.agent.len()), ("192.0.2.1".into(), MAX_AGENT));
    }

    #[tokio::test]
    async fn unknown_parameters_are_ignored_and_known_ones_are_read() {
        assert_eq!(get_of("/asked?limit=3&utm=1").await, (StatusCode::OK, "Some(3)".into()));
        assert_eq!(get_of("/asked").await, (StatusCode::OK, "None".into()));
        assert_eq!(get_of("/asked?limit=x").await.0, StatusCode::BAD_REQUEST);
    }

    /// A body of unknown length: one chunk and the end, or nothing and no end.
    struct UnsizedBody(Option<Bytes>);

    impl hyper::body::Body for UnsizedBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<FrameResult>> {
            match self.0.take() {
                Some(piece) if piece.is_empty() => Poll::Ready(None),
                Some(piece) => {
                    self.0 = Some(Bytes::new());
                    Poll::Ready(Some(Ok(Frame::data(piece))))
                }
                None => Poll::Pending,
            }
        }
    }
}
