//! The webhook receiver (`--webhook-echo`), which prints each delivery and whether its signature is valid.
//!
//! Each start creates its endpoint and subscriptions again, since its port may differ and its secret is not stored.

use super::DemoError;
use super::account::Account;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::rand::{SecureRandom, SystemRandom};
use rpcgate_core::clock::{Clock, Time};
use rpcgate_core::event::EventType;
use rpcgate_core::secret::NoRandomness;
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::sealing::SealedFor;
use rpcgate_management::webhook::signature::{SEALED_SECRET, SECRET_PREFIX, holds};
use rpcgate_process::accept::{Acceptor, ConnectionBound};
use rpcgate_store::{StoreError, SubscriptionId, Webhook, WebhookId, WebhookSubscription, fresh_id};
use serde_json::Value;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The path of the endpoint, by which those of earlier starts are found.
const PATH: &str = "/webhook-echo";
/// The maximum bytes of a delivery, and the maximum connections.
const MAX_BODY: usize = 4 << 20;
const MAX_CONNECTIONS: usize = 64;
const BACKLOG: u32 = 64;
/// The text for an invalid signature: a user's own endpoint with this URL has a secret that is unknown here.
const STRANGE: &str = "does not fit the secret of the demo's endpoint";
/// The maximum characters of a printed part.
const MAX_SHOWN: usize = 80;

/// The subscriptions of the endpoint, for the chains that the demo has.
const SUBSCRIBED: [(&str, EventType); 8] = [
    ("eth", EventType::NewBlock),
    ("eth", EventType::TokenTransfer),
    ("eth", EventType::Health),
    ("btc", EventType::NewBlock),
    ("btc", EventType::Health),
    ("xrp", EventType::NewBlock),
    ("tron", EventType::NewBlock),
    ("cosmos", EventType::NewBlock),
];

pub(super) type Print = Arc<dyn Fn(&str) + Send + Sync>;

/// The running receiver. Dropping it stops it.
pub(super) struct Echo {
    url: String,
    _accepting: AbortOnDropHandle<()>,
}

impl fmt::Debug for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Echo").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Echo {
    /// Listens at `listen`, where port 0 picks a free one, and creates the endpoint in the project of `account`.
    pub(super) async fn start(
        listen: SocketAddr,
        app: &AppState,
        account: &Account,
        print: Print,
    ) -> Result<Echo, DemoError> {
        let acceptor = Acceptor::bind(listen, BACKLOG).map_err(DemoError::Echo)?;
        let url = format!("http://{}{PATH}", acceptor.addr());
        let secret = register(&url, app, account).await?;
        let receiver = Arc::new(Receiver { secret, clock: app.clock.clone(), print });
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(acceptor, receiver)));
        Ok(Echo { url, _accepting: accepting })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

/// Replaces the endpoint and subscriptions of earlier starts, and returns the new secret.
async fn register(url: &str, app: &AppState, account: &Account) -> Result<Vec<u8>, DemoError> {
    let tenant = account.tenant;
    let project = account.project;
    let now = app.now();
    for old in app.store.webhooks(tenant, project).await? {
        if old.url.ends_with(PATH) {
            app.store.delete_webhook(tenant, old.id, now).await?;
        }
    }
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| DemoError::Random(NoRandomness))?;
    let secret = format!("{SECRET_PREFIX}{}", hex(&bytes)).into_bytes();
    let id = WebhookId(fresh_id(now));
    let sealed = app.sealing.seal(SealedFor { table: SEALED_SECRET, row: id.0 }, &secret);
    let webhook = Webhook {
        id,
        project,
        url: url.to_owned(),
        secret: sealed.map_err(|_| DemoError::Random(NoRandomness))?,
        next_secret: None,
        active: true,
        standard_headers: false,
        failing_since: None,
        disabled_at: None,
        created_at: now,
        updated_at: now,
    };
    app.store.create_webhook(tenant, &webhook, now).await?;
    for (chain, kind) in SUBSCRIBED {
        let subscription = WebhookSubscription {
            id: SubscriptionId(fresh_id(now)),
            webhook: id,
            chain: chain.into(),
            kind,
            filter: None,
            confirmations: 0,
            created_at: now,
        };
        match app.store.create_subscription(tenant, &subscription, now).await {
            // The plan of the demo's account may allow fewer.
            Err(StoreError::Full(_)) => break,
            done => done?,
        }
    }
    Ok(secret)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn accept(acceptor: Acceptor, receiver: Arc<Receiver>) {
    let connection = |stream: TcpStream, _, permit| {
        let receiver = receiver.clone();
        async move {
            let service = service_fn(|request| {
                let receiver = receiver.clone();
                async move { Ok::<_, Infallible>(receiver.take(request).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = served.await {
                tracing::debug!(%error, "a connection to the receiver of webhooks failed");
            }
            drop(permit);
        }
    };
    let bound = ConnectionBound::new(MAX_CONNECTIONS);
    acceptor.serve(bound, &TaskTracker::new(), std::future::pending(), connection).await;
}

struct Receiver {
    secret: Vec<u8>,
    clock: Arc<dyn Clock>,
    print: Print,
}

impl Receiver {
    async fn take(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let status = match Limited::new(body, MAX_BODY).collect().await {
            Err(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Ok(_) if head.uri.path() != PATH => StatusCode::NOT_FOUND,
            Ok(body) => {
                let of =
                    |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
                let headers = [of("x-delivery-id"), of("x-delivery-attempt"), of("x-signature")];
                (self.print)(&line(self.clock.now(), headers, &body.to_bytes(), &self.secret));
                StatusCode::NO_CONTENT
            }
        };
        let mut answer = Response::new(Full::default());
        *answer.status_mut() = status;
        answer
    }
}

/// Returns the line about a delivery with these headers: its identifier, the number of the attempt, and the signature.
fn line(now: Time, [delivery, attempt, signature]: [&str; 3], body: &[u8], secret: &[u8]) -> String {
    let event: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => shown(text),
        Value::Null => "?".to_owned(),
        other => shown(&other.to_string()),
    };
    let day = now.secs() % 86_400;
    let holds = if holds(secret, body, signature) { "holds" } else { STRANGE };
    format!(
        "{:02}:{:02}:{:02} webhook: {} {}, block {}, delivery {}, attempt {}: signature {holds}",
        day / 3_600,
        day / 60 % 60,
        day % 60,
        text(&event["chain"]),
        text(&event["event_type"]),
        text(&event["data"]["block_num"]),
        shown(delivery),
        shown(attempt),
    )
}

/// Returns the printable part of a received text.
fn shown(text: &str) -> String {
    let plain = text.chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN);
    plain.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_management::webhook::signature::signature;

    const BODY: &[u8] = br#"{"chain":"eth","event_type":"new_block","data":{"block_num":7}}"#;

    // Shows (Webhooks): `demo --webhook-echo` prints deliveries and whether their signature is valid.
    #[test]
    fn a_line_shows_a_delivery_and_whether_its_signature_is_valid() {
        let now = Time::from_secs(86_400 + 3 * 3_600 + 4 * 60 + 5);
        let secret = b"whsec_0011";
        let sent = signature(secret, BODY);
        assert_eq!(
            line(now, ["d-1", "2", &sent], BODY, secret),
            "03:04:05 webhook: eth new_block, block 7, delivery d-1, attempt 2: signature holds"
        );
        for (signature, body) in [(sent.as_str(), &b"{}"[..]), ("sha256=00", BODY), ("", BODY)] {
            let line = line(now, ["d-1", "2", signature], body, secret);
            assert!(line.ends_with("signature does not fit the secret of the demo's endpoint"), "{line}");
        }
    }

    // Shows (Webhooks).
    #[test]
    fn text_sent_by_others_cannot_control_the_terminal() {
        let body = br#"{"chain":"\u001b[2J\nx","event_type":7}"#;
        let line = line(Time::default(), ["\u{7}", "", ""], body, b"s");
        assert!(!line.chars().any(char::is_control) && line.contains("[2Jx 7, block ?"), "{line}");
    }
}
