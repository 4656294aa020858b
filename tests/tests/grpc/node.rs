//! Nodes: simulated ones, and one that returns the client's own messages.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rpcgate_core::clock::ManualClock;
use rpcgate_server::demo::{GrpcNodeListener, GrpcNodeServer, NodeListener, NodeServer};
use rpcgate_simulate::{Dial, node};
use rpcgate_tests::gateway::START;
use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) struct Simulated {
    pub(crate) url: String,
    pub(crate) grpc: GrpcNodeServer,
    _http: NodeServer,
}

impl Simulated {
    pub(crate) fn of(chain: &'static str) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let http = NodeListener::bind().unwrap().serve(node(chain, 7).unwrap(), Dial::new(1), clock);
        let grpc = http.serve_grpc(chain, GrpcNodeListener::bind().unwrap());
        Simulated { url: grpc.url().to_owned(), grpc, _http: http }
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Error>>;

/// A node that returns every message, in the shape that its method names, or breaks off as the method says.
pub(crate) struct Mirror {
    pub(crate) url: String,
    calls: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Mirror {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("grpc://{}", listener.local_addr().unwrap());
        let calls = Arc::<AtomicUsize>::default();
        let counted = calls.clone();
        let task = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let counted = counted.clone();
                let service = service_fn(move |request| {
                    counted.fetch_add(1, Relaxed);
                    mirrored(request)
                });
                let serving =
                    http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(tcp), service);
                tokio::spawn(serving);
            }
        });
        Mirror { url, calls, task }
    }

    /// Returns the number of calls that have reached it.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Relaxed)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn mirrored(request: Request<Incoming>) -> Result<Answer, hyper::Error> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let body = request.into_body();
    let body = match method.as_str() {
        // All messages in one answer: the last of them.
        "Last" => {
            let all = body.collect().await?.to_bytes();
            let mut rest = &all[..];
            let mut last = Bytes::new();
            while let [_, a, b, c, d, ..] = rest {
                let length = 5 + u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                last = Bytes::copy_from_slice(&rest[..length]);
                rest = &rest[length..];
            }
            whole(last)
        }
        // The message three times.
        "Thrice" => {
            let all = body.collect().await?.to_bytes();
            whole([&all[..], &all, &all].concat().into())
        }
        "Never" => std::future::pending().await,
        // The message, and then a reset stream, an end without trailers, or nothing; half of it, and then nothing.
        "Reset" => return Ok(answer(broken(body.collect().await?.to_bytes(), Break::Reset))),
        "Bare" => return Ok(answer(broken(body.collect().await?.to_bytes(), Break::End))),
        "Open" => return Ok(answer(broken(body.collect().await?.to_bytes(), Break::Silence))),
        "Half" => {
            let all = body.collect().await?.to_bytes();
            return Ok(answer(broken(all.slice(..all.len() / 2), Break::Silence)));
        }
        _ => body.map_err(Error::other).boxed_unsync(),
    };
    let trailers = async {
        let status = [("grpc-status", "0"), ("x-mirror", "m")];
        let pairs = status.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        Some(Ok::<_, Error>(pairs.into_iter().collect::<HeaderMap>()))
    };
    Ok(answer(body.with_trailers(trailers).boxed_unsync()))
}

fn answer(body: UnsyncBoxBody<Bytes, Error>) -> Answer {
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}

fn whole(body: Bytes) -> UnsyncBoxBody<Bytes, Error> {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

enum Break {
    Reset,
    End,
    Silence,
}

fn broken(begun: Bytes, then: Break) -> UnsyncBoxBody<Bytes, Error> {
    let end = stream::once(async move {
        match then {
            Break::Reset => Some(Err(Error::other("reset"))),
            Break::End => None,
            Break::Silence => std::future::pending().await,
        }
    });
    let begun = stream::once(async { Some(Ok(Frame::data(begun))) });
    StreamBody::new(begun.chain(end).filter_map(std::future::ready)).boxed_unsync()
}
