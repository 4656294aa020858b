use super::*;
use futures_util::{SinkExt, StreamExt};
use rpcgate_core::clock::SystemClock;
use rpcgate_core::tally::Transport;
use rpcgate_layers::nodes::{NodeConfig, NodeUrl, PoolLimits};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

/// Runs a node that answers each request, on its own connection, with the next of these answers. Also returns the
/// requests.
async fn http(answers: &[(u16, &str)]) -> (SocketAddr, Arc<parking_lot::Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let answers: Vec<_> = answers.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
    let requests = seen.clone();
    tokio::spawn(async move {
        for (status, body) in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let mut read = 0;
            // Every body here ends with a bracket, and a request without a body ends with its head.
            while !matches!(&request[..read], [.., b'}'] | [.., b'\r', b'\n', b'\r', b'\n'])
                || !request[..read].ends_with(b"}") && request[..read].starts_with(b"POST")
            {
                read += socket.read(&mut request[read..]).await.unwrap();
            }
            requests.lock().push(String::from_utf8_lossy(&request[..read]).into_owned());
            let answer = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (addr, seen)
}

fn session(chain: &str, url: NodeUrl) -> NodeSession {
    let adapter = rpcgate_chains::by_path(chain).unwrap();
    let nodes = vec![NodeConfig::new(url)];
    let pool = Pool::new(adapter.facts(), nodes, PoolLimits::default(), Arc::new(SystemClock::new()));
    let node = pool.nodes().next().unwrap().index;
    NodeSession::new(pool.clone(), node, adapter, Duration::from_secs(20))
}

async fn call(chain: &str, status: u16, answer: &str) -> (Result<Bytes, ReadError>, String) {
    let (addr, seen) = http(&[(status, answer)]).await;
    let session = session(chain, format!("http://{addr}").parse().unwrap());
    let result = session.call("a_method", "[1]".into()).await;
    let seen = seen.lock().join("");
    (result, seen)
}

fn refusal(code: i64, message: &str) -> Result<Bytes, ReadError> {
    Err(ReadError::Refused { code, message: message.into() })
}

#[tokio::test]
async fn calls_and_answers_are_in_the_dialect_of_the_chain() {
    let (result, request) = call("eth", 200, r#"{"jsonrpc":"2.0","result":{"a":[1]}}"#).await;
    assert_eq!(result.unwrap(), r#"{"a":[1]}"#);
    let is_numbered = |request: &str, version: &str| {
        let number = request.rsplit("\"id\":").next().and_then(|rest| rest.split(',').next());
        let number: u64 = number.and_then(|number| number.parse().ok()).unwrap_or_default();
        let call = format!(r#"{{"jsonrpc":"{version}","id":{number},"method":"a_method","params":[1]}}"#);
        number > 1 && request.ends_with(&call)
    };
    assert!(is_numbered(&request, "2.0"), "{request}");
    let (result, request) =
        call("btc", 500, r#"{"result":null,"error":{"code":-8,"message":"no"},"id":null}"#).await;
    assert_eq!(result, refusal(-8, "no"));
    assert!(is_numbered(&request, "1.0"), "{request}");
    let (result, request) = call("xrp", 200, r#"{"result":{"error":"lgrNotFound","error_code":21,"error_message":"ledgerNotFound","status":"error"}}"#).await;
    assert_eq!(result, refusal(21, "lgrNotFound: ledgerNotFound"));
    assert!(request.ends_with(r#"{"method":"a_method","params":[1]}"#), "{request}");
    let (result, request) = call("ton", 200, r#"{"ok":false,"error":"no block","code":404}"#).await;
    assert_eq!(result, refusal(200, "no block"));
    assert!(request.starts_with("POST /jsonRPC "), "{request}");
}

#[tokio::test]
async fn the_answer_to_another_call_is_rejected() {
    let (result, _) = call("eth", 200, r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1]}}"#).await;
    assert!(matches!(result, Err(ReadError::Unreachable(_))), "{result:?}");
}

#[tokio::test]
async fn an_invalid_answer_is_an_error_with_the_reason() {
    assert_eq!(call("eth", 502, "a page\r\n").await.0, refusal(502, "a page"));
    assert!(matches!(call("eth", 200, "a page").await.0, Err(ReadError::Unreadable(_))));
    let long = format!("{}ü", "x".repeat(199));
    assert_eq!(call("eth", 429, &long).await.0, refusal(429, &"x".repeat(199)));
    let nobody = session("eth", "http://127.0.0.1:1".parse().unwrap());
    assert!(matches!(nobody.call("a", String::new()).await, Err(ReadError::Unreachable(_))));
}

#[tokio::test]
async fn paths_are_requested_below_the_nodes_own() {
    let (addr, seen) = http(&[(200, "[]"), (404, "none"), (200, "{}")]).await;
    let session = session("aptos", format!("http://{addr}/base").parse().unwrap());
    let get = |path: &str| session.request(Method::GET, path.into(), String::new());
    assert_eq!(get("/v1/blocks?x=1").await.unwrap(), "[]");
    assert_eq!(get("/v1/none").await, refusal(404, "none"));
    assert_eq!(session.request(Method::POST, "/v1/view".into(), "{}".into()).await.unwrap(), "{}");
    assert!(matches!(get("no path\n").await, Err(ReadError::Unreadable(_))));
    let seen = seen.lock();
    assert!(seen[0].starts_with("GET /base/v1/blocks?x=1 HTTP/1.1\r\n"), "{seen:?}");
    assert!(seen[2].contains("content-type: application/json\r\n") && seen[2].ends_with("{}"), "{seen:?}");
}

#[tokio::test]
async fn calls_on_a_stream_share_it_in_their_order_and_a_lost_one_ends_the_session() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut stream = tokio_tungstenite::accept_async(socket).await.unwrap();
        let mut methods = Vec::new();
        for number in 1..=2 {
            let text = loop {
                if let Message::Text(text) = stream.next().await.unwrap().unwrap() {
                    break text;
                }
            };
            let call: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(call["id"], number);
            methods.push(call["method"].as_str().unwrap().to_owned());
            stream.send(Message::Ping(Vec::new().into())).await.unwrap();
            let pushed = r#"{"jsonrpc":"2.0","method":"pushed","params":{"result":1}}"#;
            stream.send(Message::text(pushed)).await.unwrap();
            stream.send(Message::text(format!(r#"{{"id":{number},"result":"r{number}"}}"#))).await.unwrap();
        }
        methods
    });
    let url = NodeUrl::parse(&format!("ws://{addr}"), Transport::Ws).unwrap();
    let session = session("cardano", url);
    assert_eq!(session.stream_call("findIntersection", "{}".into()).await.unwrap(), "\"r1\"");
    assert_eq!(session.call("nextBlock", String::new()).await.unwrap(), "\"r2\"", "it has no HTTP");
    assert_eq!(served.await.unwrap(), ["findIntersection", "nextBlock"]);
    assert!(!session.is_lost());
    assert!(session.stream_call("nextBlock", String::new()).await.is_err());
    assert!(session.is_lost());
}

// Shows (Webhooks).
#[tokio::test]
async fn an_answer_that_is_nested_deeper_than_others_is_read_all_the_same() {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let result = format!(r#"{{"block":{{"metadata":{deep}}}}}"#);
    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    assert_eq!(call("eth", 200, &answer).await.0.unwrap(), result);
    for wrong in [format!("[1,{deep}]"), format!(r#"{{"id":1,"error":{deep}}}"#)] {
        assert!(
            matches!(call("eth", 200, &wrong).await.0, Err(ReadError::Unreadable(_))),
            "{}",
            &wrong[..20]
        );
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut stream = tokio_tungstenite::accept_async(socket).await.unwrap();
        while !matches!(stream.next().await, Some(Ok(Message::Text(_)))) {}
        let other = answer.replace("\"id\":1", "\"id\":7");
        for text in [other, answer] {
            stream.send(Message::text(text)).await.unwrap();
        }
    });
    let url = NodeUrl::parse(&format!("ws://{addr}"), Transport::Ws).unwrap();
    let read = session("cardano", url).stream_call("nextBlock", String::new()).await;
    assert_eq!(read.unwrap(), result);
}
