//! Long calls: what ends them, and their limits.

use super::*;
use crate::websocket::OpenStreams;
use rpcgate_core::chain::ChainName;

/// A gateway that watches keys, with a node that answers calls of `toy_read` message by message without an end, and no
/// other calls.
struct Watched {
    gateway: Gateway,
    directory: Arc<MemoryDirectory>,
    streams: Arc<OpenStreams>,
    node: Node,
    watching: JoinHandle<()>,
}

impl Watched {
    async fn new(change: impl FnOnce(&mut Caller)) -> Self {
        let node = Node::serve(|request: Request<Incoming>| async move {
            if !request.uri().path().ends_with("Toy_Read") {
                std::future::pending::<()>().await;
            }
            let (pieces, body) = fed(1);
            let mut asked = request.into_body();
            tokio::spawn(async move {
                while let Some(Ok(frame)) = asked.frame().await {
                    if let Ok(piece) = frame.into_data() {
                        let _ = pieces.send(Frame::data(piece)).await;
                    }
                }
                pieces.closed().await;
            });
            head(body)
        })
        .await;
        let caller = Mutex::new(None);
        let mut parts = None;
        let keep = |fixture: Fixture| {
            *caller.lock() = Some(fixture.caller.clone());
            fixture
        };
        let gateway = Gateway::built(&[&node.url], change, &keep, |all| {
            let caller = caller.lock().take().unwrap();
            let directory = Arc::new(MemoryDirectory::new([(KeyHash::of(KEY), caller)]));
            all.streams = OpenStreams::new(directory.clone(), all.accounting.clock.clone());
            all.directory = directory.clone();
            parts = Some((directory, all.streams.clone()));
        });
        let (directory, streams) = parts.unwrap();
        let watching = tokio::spawn({
            let streams = streams.clone();
            async move { streams.watch().await }
        });
        Watched { gateway, directory, streams, node, watching }
    }

    /// Makes a call of each shape and returns the end of each after `change`, which runs when the node has all calls.
    async fn ended(&self, change: impl AsyncFnOnce()) -> Vec<(String, String)> {
        let call = async |path: &str, is_whole: bool| {
            let (pieces, body) = fed(1);
            pieces.send(data(b"ask")).await.unwrap();
            let pieces = (!is_whole).then_some(pieces);
            let answer = self.gateway.ask(path, &[("apikey", KEY)], body).await;
            drop(pieces);
            let of = answer.trailers.as_ref().unwrap_or(&answer.headers);
            (answer.status().to_owned(), of["grpc-message"].to_str().unwrap().to_owned())
        };
        let changing = async {
            until(|| self.node.calls() == 4).await;
            change().await;
        };
        let waiting = "/toy.Query/Other";
        let (a, b, c, d, ()) = tokio::join!(
            call(waiting, true),
            call(waiting, false),
            call(READ, true),
            call(READ, false),
            changing
        );
        self.gateway.quiet().await;
        assert_eq!(self.gateway.counts.open(), 0);
        vec![a, b, c, d]
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

fn all(status: &str, text: &str) -> Vec<(String, String)> {
    vec![(status.to_owned(), text.to_owned()); 4]
}

// Shows (Streams): A gRPC call of any shape ends with 16 or 7 when its key or tenant loses access, and with 14 at the
// end of a drain's grace.
#[tokio::test]
async fn calls_of_every_shape_end_when_their_key_may_not_call_any_more() {
    let revoked = async {
        let watched = Watched::new(|_| ()).await;
        let ended = watched
            .ended(async || {
                watched.directory.revoke(KeyHash::of(KEY));
            })
            .await;
        assert_eq!(ended, all("16", "Invalid authentication credentials"));
        // Two were answered and ended; two had no answer.
        let outcomes: Vec<_> =
            watched.gateway.records().iter().map(|r| (r.phase, r.lines[0].outcome, r.lines[0].cu)).collect();
        let of = |phase| outcomes.iter().filter(move |line| line.0 == phase).map(|line| (line.1, line.2));
        assert_eq!(of(Phase::Begin).collect::<Vec<_>>(), [(Outcome::Answered, 5); 2]);
        assert_eq!(of(Phase::End).collect::<Vec<_>>(), [(Outcome::Refused, 0); 2]);
        assert_eq!(of(Phase::Complete).collect::<Vec<_>>(), [(Outcome::Refused, 0); 2]);
        let ended = watched.gateway.counts.ended();
        assert_eq!(ended, [(ChainName::new("toy"), "UNAUTHENTICATED", 4)]);
        assert!(
            watched.gateway.pool.nodes().all(|node| node.health.left().is_zero()),
            "no fault of the node"
        );
    };
    let suspended = async {
        let watched = Watched::new(|_| ()).await;
        let ended = watched.ended(async || {
            let mut caller = Caller::clone(&watched.gateway.fixture.caller);
            caller.suspended = true;
            watched.directory.replace([(KeyHash::of(KEY), caller.into())]);
        });
        assert_eq!(ended.await, all("7", "account suspended %E2%80%94 contact your administrator"));
    };
    let expired = async {
        let end = Fixture::new().now().plus(Duration::from_secs(60));
        let watched = Watched::new(|caller| *caller = caller.clone().with_expiry(end)).await;
        let ended = watched.ended(async || {
            watched.gateway.fixture.clock.advance(Duration::from_secs(60));
        });
        assert_eq!(ended.await, all("16", "Invalid authentication credentials"));
    };
    let stopped = async {
        let watched = Watched::new(|_| ()).await;
        let ended = watched.ended(async || {
            watched.streams.shut_down(Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(1)).await;
            watched.streams.shut_down(Duration::ZERO);
        });
        assert_eq!(ended.await, all("14", "the gateway is stopping, call again"));
    };
    tokio::join!(revoked, suspended, expired, stopped);
}

// Shows (Streams): gRPC streams and WebSocket streams share `plans.<tier>.ws_connections`; a stream beyond it ends with
// 8.
#[tokio::test]
async fn calls_that_last_are_bounded_by_the_plan_and_unary_calls_that_wait_are_not() {
    let watched = Watched::new(|caller| caller.plan = caller.plan.with_ws_connections(2)).await;
    let gateway = &watched.gateway;
    let keyed = [("apikey", KEY)];
    let open = async || gateway.send(READ, &keyed, Full::from(message(b"ask"))).await.into_body();
    // A unary call at a slow node is no stream.
    let (pieces, one) = fed(1);
    pieces.send(data(b"ask")).await.unwrap();
    drop(pieces);
    let waiting = gateway.send("/toy.Query/Other", &keyed, one);
    let streaming = async {
        let mut held = [open().await, open().await];
        for body in &mut held {
            next(body).await;
        }
        // Both count once they are polled and have become long.
        let lasting = async {
            let [one, two] = &mut held;
            tokio::join!(one.frame(), two.frame());
        };
        let refused = async {
            let caller = &gateway.fixture.caller;
            let full = || {
                let mut probe = watched.streams.follow(caller, None, gateway.fixture.chain.name());
                probe.count().is_err()
            };
            until(full).await;
            // Another answer that continues, and a client that has more to send.
            let answered = complete(Response::new(open().await)).await;
            let (more, body) = fed(1);
            let sending = gateway.ask("/toy.Query/Other", &keyed, body).await;
            drop(more);
            for answer in [&answered, &sending] {
                assert_eq!(answer.status(), "8");
            }
            assert_eq!(answered.trailers.unwrap()["grpc-message"], "stream limit reached for your plan");
        };
        tokio::select! {
            () = refused => {}
            () = lasting => panic!("these are within the plan"),
        }
        drop(held);
        let mut probe = watched.streams.follow(&gateway.fixture.caller, None, gateway.fixture.chain.name());
        assert_eq!(probe.count(), Ok(()), "there is room again");
    };
    tokio::select! {
        () = streaming => {}
        answer = waiting => panic!("it waits: {:?}", answer.headers()),
    }
}
