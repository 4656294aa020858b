use super::*;
use crate::demo::NodeListener;
use http_body_util::BodyExt;
use rpcgate_core::clock::{Clock, ManualClock, Time};
use rpcgate_simulate::{Dial, SimulatedRequest, node};
use tokio::io::AsyncReadExt;
use tonic::client::Grpc;
use tonic::codec::Streaming;

const NOW: Time = Time::from_secs(1_800_000_000);
const NEWEST: &str = "/protocol.Wallet/GetNowBlock";

fn served(chain: &'static str, dial: Dial) -> (NodeServer, GrpcNodeServer) {
    let clock = Arc::new(ManualClock::at(NOW));
    let http = NodeListener::bind().unwrap().serve(node(chain, 7).unwrap(), dial, clock);
    let grpc = http.serve_grpc(chain, GrpcNodeListener::bind().unwrap());
    (http, grpc)
}

type Sender = BoxCloneSyncService<Request<Body>, Response<Incoming>, hyper::Error>;

async fn sender(address: &str) -> Sender {
    let stream = TcpStream::connect(address).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let send = tower::service_fn(move |request| {
        let mut sender: hyper::client::conn::http2::SendRequest<Body> = sender.clone();
        async move {
            sender.ready().await?;
            sender.send_request(request).await
        }
    });
    BoxCloneSyncService::new(send)
}

async fn connect(url: &str) -> Grpc<Sender> {
    let address = url.strip_prefix("grpc://").unwrap();
    Grpc::with_origin(sender(address).await, format!("http://{address}").parse().unwrap())
}

async fn call(client: &mut Grpc<Sender>, path: &'static str, message: &[u8]) -> Result<Bytes, Status> {
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = http::uri::PathAndQuery::from_static(path);
    let answer = client.unary(tonic::Request::new(message.to_vec()), path, RawCodec).await?;
    Ok(answer.into_inner())
}

async fn follow(client: &mut Grpc<Sender>, path: &'static str, message: &[u8]) -> Streaming<Bytes> {
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static(path);
    client.server_streaming(tonic::Request::new(message.to_vec()), path, RawCodec).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_connection_carries_calls_side_by_side() {
    let (_node, grpc) = served("tron", Dial::new(1));
    let client = connect(grpc.url()).await;
    let calls = (0..50).map(|_| {
        let mut client = client.clone();
        async move { call(&mut client, NEWEST, b"").await.unwrap() }
    });
    let answers = futures_util::future::join_all(calls).await;
    let expected = node("tron", 7).unwrap().handle_grpc(NEWEST, b"", NOW).unwrap();
    assert!(!expected.is_empty() && answers.iter().all(|answer| *answer == expected));
}

#[tokio::test]
async fn failures_are_statuses_and_the_connection_stays() {
    let (_node, grpc) = served("cosmos", Dial::new(1));
    let mut client = connect(grpc.url()).await;
    for (path, message, code) in [
        ("/cosmos.gov.v1.Query/Proposal", &b""[..], Code::Unimplemented),
        ("/cosmos.bank.v1beta1.Query/SupplyOf", b"\x0a\x05", Code::InvalidArgument),
        ("/cosmos.tx.v1beta1.Service/GetTx", &[&b"\x0a\x40"[..], &[b'A'; 64]].concat(), Code::NotFound),
    ] {
        assert_eq!(call(&mut client, path, message).await.unwrap_err().code(), code, "{path}");
    }
    let supply = call(&mut client, "/cosmos.bank.v1beta1.Query/SupplyOf", b"\x0a\x05uatom").await.unwrap();
    assert!(!supply.is_empty());
}

#[tokio::test]
async fn http_and_grpc_show_one_chain() {
    let clock = Arc::new(ManualClock::at(NOW));
    let http = NodeListener::bind().unwrap().serve(node("tron", 7).unwrap(), Dial::new(1), clock.clone());
    let grpc = http.serve_grpc("tron", GrpcNodeListener::bind().unwrap());
    let mut client = connect(grpc.url()).await;
    for _ in 0..3 {
        let answer = call(&mut client, NEWEST, b"").await.unwrap();
        let mut same = node("tron", 7).unwrap();
        let request =
            SimulatedRequest { method: &http::Method::POST, path: "/wallet/getnowblock", body: b"{}" };
        let shown = String::from_utf8(same.handle(&request, clock.now()).body).unwrap();
        // The root of its transactions is in both.
        let root = shown.split("\"txTrieRoot\":\"").nth(1).and_then(|rest| rest.get(..64)).unwrap();
        let shown: String = answer.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(shown.contains(root), "{root} in {shown}");
        clock.advance(Duration::from_secs(3));
    }
}

#[tokio::test]
async fn the_health_service_answers_and_watches() {
    let (_node, grpc) = served("tron", Dial::new(1));
    let mut client = connect(grpc.url()).await;
    const SERVING: &[u8] = b"\x08\x01";
    let wallet = b"\x0a\x0fprotocol.Wallet";
    for service in [&b""[..], wallet] {
        assert_eq!(call(&mut client, "/grpc.health.v1.Health/Check", service).await.unwrap(), SERVING);
    }
    let unknown = call(&mut client, "/grpc.health.v1.Health/Check", b"\x0a\x01x").await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let mut watched = follow(&mut client, "/grpc.health.v1.Health/Watch", wallet).await;
    assert_eq!(watched.message().await.unwrap().unwrap(), SERVING);
    drop(grpc);
    assert!(watched.message().await.is_err(), "the connection is cut");
}

#[tokio::test]
async fn reflection_describes_the_services_of_the_chain() {
    for (chain, service) in [("tron", "protocol.Wallet"), ("cosmos", "cosmos.tx.v1beta1.Service")] {
        let (_node, grpc) = served(chain, Dial::new(1));
        let mut client = connect(grpc.url()).await;
        for path in [
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ] {
            // Field 7 lists services, field 4 requests the file with a symbol.
            for question in
                [b"\x3a\x00".to_vec(), [&[0x22, service.len() as u8], service.as_bytes()].concat()]
            {
                client.ready().await.unwrap();
                let path = http::uri::PathAndQuery::from_static(path);
                let questions = futures_util::stream::iter([question]);
                let answers = client.streaming(tonic::Request::new(questions), path, RawCodec).await.unwrap();
                let answer = answers.into_inner().message().await.unwrap().unwrap();
                let last = service.rsplit('.').next().unwrap();
                assert!(String::from_utf8_lossy(&answer).contains(last), "{chain}");
                // Field 7 of an answer is an error.
                assert!(!answer.windows(5).any(|part| part == b"error"), "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_faults_of_answers_are_carried_out() {
    let (_node, grpc) = served("tron", Dial::new(1));
    let mut client = connect(grpc.url()).await;
    let whole = call(&mut client, NEWEST, b"").await.unwrap();

    grpc.disturb(Some(GrpcDisturbance::Status(8)));
    assert_eq!(call(&mut client, NEWEST, b"").await.unwrap_err().code(), Code::ResourceExhausted);
    grpc.disturb(Some(GrpcDisturbance::Reset));
    let mut stream = follow(&mut client, NEWEST, b"").await;
    let reset = format!("{:?}", stream.message().await.unwrap_err());
    assert!(reset.contains("Reset(") && reset.contains("INTERNAL_ERROR"), "{reset}");
    grpc.disturb(Some(GrpcDisturbance::Slow(Duration::from_micros(1))));
    assert_eq!(call(&mut client, NEWEST, b"").await.unwrap(), whole);
    grpc.disturb(Some(GrpcDisturbance::Flood));
    let mut stream = follow(&mut client, NEWEST, b"").await;
    for _ in 0..1_000 {
        assert_eq!(stream.message().await.unwrap().unwrap(), whole);
    }
    drop(stream);

    grpc.disturb(Some(GrpcDisturbance::GoAway));
    assert_eq!(call(&mut client, NEWEST, b"").await.unwrap(), whole);
    grpc.disturb(None);
    // The connection ends on its own, and later calls need another one.
    while call(&mut client, NEWEST, b"").await.is_ok() {
        tokio::task::yield_now().await;
    }
    let mut client = connect(grpc.url()).await;
    assert_eq!(call(&mut client, NEWEST, b"").await.unwrap(), whole);
}

#[tokio::test]
async fn the_faults_of_the_dial_are_carried_out() {
    let mut failing = Dial::new(3);
    failing.error_rate = 1.0;
    let (_node, grpc) = served("tron", failing);
    let mut cuts = 0;
    let mut pages = 0;
    for _ in 0..40 {
        let address = grpc.url().strip_prefix("grpc://").unwrap();
        let request = Request::post(format!("http://{address}{NEWEST}")).body(Body::empty()).unwrap();
        match sender(address).await.oneshot(request).await {
            Ok(response) => {
                assert!(response.status().is_server_error(), "{response:?}");
                pages += 1;
            }
            Err(_) => cuts += 1,
        }
    }
    assert!(cuts > 0 && pages > 0, "{cuts} cut, {pages} pages");

    let mut hanging = Dial::new(3);
    hanging.hang_rate = 1.0;
    let (node, grpc) = served("tron", hanging);
    let mut stream = TcpStream::connect(grpc.url().strip_prefix("grpc://").unwrap()).await.unwrap();
    let mut client = connect(grpc.url()).await;
    let hanging = tokio::spawn(async move { call(&mut client, NEWEST, b"").await });
    drop((grpc, node));
    assert!(hanging.await.unwrap().is_err());
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn a_page_of_a_proxy_is_not_grpc() {
    let response = answer::page(502);
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].as_bytes()),
        (502, &b"text/html"[..])
    );
    assert!(response.into_body().collect().await.unwrap().to_bytes().starts_with(b"<html>"));
}
