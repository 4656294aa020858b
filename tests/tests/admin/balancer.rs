//! The management side behind a balancer that uses the PROXY protocol.

use rpcgate_core::clock::SystemClock;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::TestService;
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::services::haproxy::Haproxy;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::timeout;

/// Returns the first line of the answer to a log-in from this address of the host.
async fn logged_in(from: &str, to: SocketAddr) -> String {
    let form = json!({ "email": "nobody@example.com", "password": "a wrong one" }).to_string();
    let request = format!(
        "POST /api/v1/auth/login HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    );
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(TIMEOUT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

// Shows (Commands and configuration).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(have_haproxy), ignore = "needs haproxy (apt install haproxy)")]
async fn clients_behind_haproxy_are_counted_each_for_itself() {
    let setup =
        Setup::new().set("admin", "auth_per_minute = 1").set("admin", "proxy_protocol = [\"127.0.0.1\"]");
    let service = TestService::start(setup, Arc::new(SystemClock::new())).await;
    let balancer = Haproxy::before(service.addr(), &["send-proxy", "send-proxy-v2"]);
    for (number, addr) in balancer.addrs.iter().enumerate() {
        let [first, second] = [2, 3].map(|last| format!("127.0.{number}.{last}"));
        assert_eq!(logged_in(&first, *addr).await, "HTTP/1.1 401 Unauthorized");
        assert_eq!(logged_in(&first, *addr).await, "HTTP/1.1 429 Too Many Requests");
        assert_eq!(logged_in(&second, *addr).await, "HTTP/1.1 401 Unauthorized", "another client");
    }
}
