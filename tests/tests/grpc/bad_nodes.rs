//! Promise 74 over gRPC: calls behind two nodes. One of them is bad over gRPC, in each of many ways, while its HTTP
//! works.

use crate::wire::{Client, Site, keyed};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rpcgate_tests::bad_nodes::{
    CROWDS, NodeTrial, RawConnection, RawNode, TrialClient, TrialResult, TrialTable, setup,
};
use rpcgate_tests::node::Node;
use std::future::{pending, ready};
use std::io::Error;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const DEADLINE: Duration = Duration::from_secs(2);

/// The good node's time for a call. The bad one takes no time, so it looks quicker where its answers count.
const WORK: Duration = Duration::from_millis(5);

/// A method that the chain's table lists.
const ACCOUNT: &str = "/protocol.Wallet/GetAccount";

const GOOD: &[u8] = b"good";

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// None, but its answers take their time.
    None,
    /// Every call gets this status and no message.
    Status(&'static str),
    /// Every call gets an HTML page of a proxy.
    Page,
    /// The stream is reset instead of an answer.
    Resets,
    /// The call is accepted, but nothing is answered.
    Silent,
    /// The head of an answer, and nothing more.
    HeadAlone,
    /// The head of an answer, and then a reset.
    ResetsAfterHead,
    /// Half of the message, and then a reset.
    ResetsInMessage,
    /// Half of the message, and nothing more.
    HalfMessage,
    /// The whole message, and an end without a status.
    NoStatus,
    /// Connections are accepted, but HTTP/2 is not spoken.
    SilentConnections,
    ClosesConnections,
    Refuses,
}

const KINDS: &[(&str, Fault)] = &[
    ("gRPC: UNAVAILABLE", Fault::Status("14")),
    ("gRPC: INTERNAL", Fault::Status("13")),
    ("gRPC: RESOURCE_EXHAUSTED", Fault::Status("8")),
    ("gRPC: UNIMPLEMENTED for a listed method", Fault::Status("12")),
    ("gRPC: UNAUTHENTICATED", Fault::Status("16")),
    ("gRPC: UNKNOWN for every call", Fault::Status("2")),
    ("gRPC: 502 with a page", Fault::Page),
    ("gRPC: resets the stream instead of an answer", Fault::Resets),
    ("gRPC: takes calls and never answers", Fault::Silent),
    ("gRPC: sends the head and no message", Fault::HeadAlone),
    ("gRPC: resets the stream after the head", Fault::ResetsAfterHead),
    ("gRPC: resets the stream within the message", Fault::ResetsInMessage),
    ("gRPC: sends half of the message", Fault::HalfMessage),
    ("gRPC: ends without a status", Fault::NoStatus),
    ("gRPC: accepts connections and is silent", Fault::SilentConnections),
    ("gRPC: closes connections at once", Fault::ClosesConnections),
    ("gRPC: refuses connections", Fault::Refuses),
];

struct GrpcNode {
    url: String,
    _raw: Option<RawNode>,
    _serving: JoinSet<()>,
}

impl GrpcNode {
    async fn start(fault: Fault) -> Self {
        let raw = match fault {
            Fault::SilentConnections => Some(RawNode::start(RawConnection::hold).await),
            Fault::ClosesConnections => {
                Some(RawNode::start(|connection| async move { drop(connection) }).await)
            }
            Fault::Refuses => Some(RawNode::refusing()),
            _ => None,
        };
        let mut serving = JoinSet::new();
        if let Some(raw) = raw {
            return GrpcNode { url: raw.url("grpc"), _raw: Some(raw), _serving: serving };
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("grpc://{}", listener.local_addr().unwrap());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let _ = tcp.set_nodelay(true);
                connections.spawn(async move {
                    let service = service_fn(move |request| answered(fault, request));
                    let http = http2::Builder::new(TokioExecutor::new());
                    let _ = http.serve_connection(TokioIo::new(tcp), service).await;
                });
            }
        });
        GrpcNode { url, _raw: None, _serving: serving }
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Error>>;

async fn answered(fault: Fault, request: Request<Incoming>) -> Result<Answer, Error> {
    request.into_body().collect().await.map_err(Error::other)?;
    let message: Bytes = [&[0, 0, 0, 0, 4][..], GOOD].concat().into();
    let half = message.slice(..message.len() / 2);
    let reset = || Err(Error::other("reset on purpose"));
    Ok(match fault {
        Fault::None => {
            tokio::time::sleep(WORK).await;
            let status = [("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))];
            let trailers: HeaderMap = status.into_iter().collect();
            streamed(vec![Ok(Frame::data(message)), Ok(Frame::trailers(trailers))], false)
        }
        Fault::Status(status) => {
            let head = Response::builder().header("content-type", "application/grpc");
            head.header("grpc-status", status).body(whole(b"")).unwrap()
        }
        Fault::Page => {
            let head = Response::builder().status(502).header("content-type", "text/html");
            head.body(whole(b"<html>Bad Gateway</html>")).unwrap()
        }
        Fault::Resets => return Err(Error::other("reset on purpose")),
        Fault::HeadAlone => streamed(Vec::new(), true),
        Fault::ResetsAfterHead => streamed(vec![reset()], false),
        Fault::ResetsInMessage => streamed(vec![Ok(Frame::data(half)), reset()], false),
        Fault::HalfMessage => streamed(vec![Ok(Frame::data(half))], true),
        Fault::NoStatus => streamed(vec![Ok(Frame::data(message))], false),
        Fault::Silent | Fault::SilentConnections | Fault::ClosesConnections | Fault::Refuses => {
            pending().await
        }
    })
}

fn whole(body: &'static [u8]) -> UnsyncBoxBody<Bytes, Error> {
    Full::new(Bytes::from_static(body)).map_err(|never| match never {}).boxed_unsync()
}

/// Returns an answer of these frames, which does not end if it `stalls`.
fn streamed(frames: Vec<Result<Frame<Bytes>, Error>>, stalls: bool) -> Answer {
    let end = stream::once(async move {
        if stalls {
            pending::<()>().await;
        }
        None
    });
    let frames = stream::iter(frames.into_iter().map(Some)).chain(end).filter_map(ready);
    let head = Response::builder().header("content-type", "application/grpc");
    head.body(StreamBody::new(frames).boxed_unsync()).unwrap()
}

impl TrialClient for Client {
    async fn call(&mut self, number: usize) -> Result<(), String> {
        // The first field contains an address, so that all calls differ.
        let address = u32::try_from(number).unwrap().to_be_bytes();
        let mut request = keyed([&[0x0a, 4][..], &address].concat());
        request.set_timeout(DEADLINE);
        match self.send(ACCOUNT, request).await {
            Ok(answer) if answer.get_ref() == GOOD => Ok(()),
            Ok(answer) => Err(format!("another answer: {:?}", answer.get_ref())),
            Err(status) => Err(format!("{:?} {}", status.code(), status.message())),
        }
    }
}

/// Runs one trial. `http` are the addresses of the nodes for HTTP, which works.
async fn trial(http: [String; 2], (kind, fault): (&'static str, Fault), clients: usize) -> TrialResult {
    let bad = GrpcNode::start(fault).await;
    let good = GrpcNode::start(Fault::None).await;
    let nodes = http.iter().zip([&bad, &good]);
    let nodes: Vec<_> =
        nodes.map(|(url, node)| format!("{{ url = \"{url}\", grpc = \"{}\" }}", node.url)).collect();
    let setup = setup("tron").set("chains.tron", &format!("nodes = [{}]", nodes.join(", ")));
    let site = Site::new(setup).await;
    let client = site.client().await;
    // A client whose deadline the gateway misses gives up a little later.
    let patience = DEADLINE + Duration::from_millis(500);
    NodeTrial { kind, clients, patience }.run(vec![client; clients]).await
}

// Shows (Nodes and cache).
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_one_bad_node_of_two_grpc_calls_are_good_after_two_seconds() {
    let http = [Node::simulated("tron").await, Node::simulated("tron").await];
    let mut table = TrialTable::default();
    for clients in CROWDS {
        for kind in KINDS {
            table.add(trial(http.each_ref().map(Node::url), *kind, clients));
        }
    }
    table.check().await;
}
