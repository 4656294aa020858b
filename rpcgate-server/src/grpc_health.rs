//! `grpc.health.v1.Health` for load balancers: the same readiness as `/readyz`. It needs no key.

use crate::listen::Connections;
use bytes::Bytes;
use http::{Request, Response};
use rpcgate_core::backend::BoxFuture;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tonic::body::Body;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::ServiceExt;

/// The path of the only served method. `Watch` is not served: it would hold streams open for clients without a key.
const CHECK: &str = "/grpc.health.v1.Health/Check";

const EVERY: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub(crate) struct GrpcHealth(HealthServer<HealthService>);

impl fmt::Debug for GrpcHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrpcHealth")
    }
}

impl GrpcHealth {
    /// Creates the service and spawns a task that follows the readiness of `connections` until they are dropped.
    pub(crate) fn of(connections: &Arc<Connections>) -> Self {
        let reporter = HealthReporter::new();
        tokio::spawn(follow(Arc::downgrade(connections), reporter.clone()));
        GrpcHealth(HealthServer::new(HealthService::from_health_reporter(reporter)))
    }

    pub(crate) fn has(path: &str) -> bool {
        path == CHECK
    }

    pub(crate) fn answer<B>(
        &self,
        request: Request<B>,
    ) -> BoxFuture<'static, Result<Response<Body>, Infallible>>
    where
        B: http_body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static,
    {
        Box::pin(self.0.clone().oneshot(request))
    }
}

async fn follow(connections: Weak<Connections>, reporter: HealthReporter) {
    while let Some(connections) = connections.upgrade() {
        let is_ready = connections.unready().is_none();
        drop(connections);
        let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
        // The empty name is the whole server.
        reporter.set_service_status("", status).await;
        tokio::time::sleep(EVERY).await;
    }
}
