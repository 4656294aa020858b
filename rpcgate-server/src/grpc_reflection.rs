//! `grpc.reflection.v1.ServerReflection`, for tools that list services. A call needs a key and counts in the windows of
//! the plan. It calls no node, costs no Compute Units and leaves no record.

use crate::start_error::StartError;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use pin_project_lite::pin_project;
use rpcgate_config::GatewaySettings;
use rpcgate_core::backend::BoxFuture;
use rpcgate_core::chain::ChainName;
use rpcgate_core::refusal::Refusal;
use rpcgate_layers::call::window::WindowLayer;
use rpcgate_layers::foreign::caller_of;
use rpcgate_layers::request::authenticate::AuthenticateLayer;
use rpcgate_layers::request::suspend::SuspendLayer;
use rpcgate_layers::stack::Parts;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};

const V1: &str = "/grpc.reflection.v1.ServerReflection/";
const V1ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/";

/// The maximum duration of a reflection call. Unlike a call to a node, it does not end when its key is revoked.
const LONGEST: Duration = Duration::from_secs(60);

/// A version of the service behind the layers of admission.
type Guarded = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// The reflection service in version v1 and in v1alpha, which older clients use.
#[derive(Clone)]
pub(crate) struct GrpcReflection {
    v1: Guarded,
    v1alpha: Guarded,
}

impl fmt::Debug for GrpcReflection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrpcReflection")
    }
}

impl GrpcReflection {
    /// Creates the service for the gateway's health service and the descriptors of the configured file. Returns `None`
    /// if reflection is off.
    ///
    /// # Errors
    /// [`StartError::Descriptors`] if the file cannot be used.
    pub(crate) fn new(settings: &GatewaySettings, parts: &Parts) -> Result<Option<Self>, StartError> {
        if !settings.grpc_reflection {
            return Ok(None);
        }
        let own = settings.grpc_descriptors.as_deref();
        let bad = |why: String| StartError::Descriptors {
            path: own.unwrap_or(Path::new("")).display().to_string(),
            why,
        };
        let described = match own.map(std::fs::read).transpose() {
            Ok(described) => described.unwrap_or_default(),
            Err(error) => return Err(bad(error.to_string())),
        };
        let builder = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(&described)
        };
        let v1 = builder().build_v1().map_err(|error| bad(error.to_string()))?;
        let v1alpha = builder().build_v1alpha().map_err(|error| bad(error.to_string()))?;
        Ok(Some(GrpcReflection { v1: guarded(parts, v1), v1alpha: guarded(parts, v1alpha) }))
    }

    pub(crate) fn has(path: &str) -> bool {
        path.starts_with(V1) || path.starts_with(V1ALPHA)
    }

    pub(crate) fn answer<B>(
        &self,
        request: Request<B>,
    ) -> BoxFuture<'static, Result<Response<Body>, Infallible>>
    where
        B: HttpBody<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
    {
        let version = if request.uri().path().starts_with(V1) { &self.v1 } else { &self.v1alpha };
        let questions = request.map(|body| Body::new(Questions { body, end: Box::pin(sleep(LONGEST)) }));
        Box::pin(version.clone().oneshot(questions))
    }
}

/// Wraps `service` in the admission layers that need no chain.
fn guarded<S>(parts: &Parts, service: S) -> Guarded
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let refuse = |_: Request<Body>, refusal: Refusal| {
        Status::new(i32::from(refusal.grpc()).into(), refusal.message()).into_http::<Body>()
    };
    let clock = &parts.accounting.clock;
    let counters = &parts.accounting.counters;
    let layers = (
        AuthenticateLayer::over_http(parts.directory.clone(), clock.clone()).refusing(refuse),
        SuspendLayer::new()
            .with_caller(|request: &Request<Body>| Some((caller_of(request)?, ChainName::new("reflection"))))
            .refusing(refuse),
        WindowLayer::new(counters.clone())
            .with_caller(clock.clone(), |request: &Request<Body>| caller_of(request))
            .refusing(refuse),
    );
    BoxCloneSyncService::new(layers.layer(service))
}

pin_project! {
    /// The request stream of a client, which ends after [`LONGEST`].
    struct Questions<B> {
        #[pin]
        body: B,
        end: Pin<Box<Sleep>>,
    }
}

impl<B: HttpBody> HttpBody for Questions<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        if this.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        this.body.poll_frame(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full, StreamBody};

    #[tokio::test(start_paused = true)]
    async fn questions_end_after_a_time() {
        let silent = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let mut questions = Questions { body: silent, end: Box::pin(sleep(LONGEST)) };
        let begun = tokio::time::Instant::now();
        assert!(questions.frame().await.is_none());
        assert!(begun.elapsed() >= LONGEST);
        let mut questions =
            Questions { body: Full::new(Bytes::from_static(b"?")), end: Box::pin(sleep(LONGEST)) };
        assert_eq!(questions.frame().await.unwrap().unwrap().into_data().unwrap(), "?");
    }
}
