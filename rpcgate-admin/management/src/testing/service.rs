//! Services on sockets of this machine.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Runs a service on a socket of this machine. It answers each request with the result of `answer` for its body, or
/// never if that is `None`, and reports each request unchanged.
pub async fn service(
    answer: impl Fn(&str) -> Option<String> + Send + 'static,
) -> (String, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/siteverify", listener.local_addr().unwrap());
    let (report, requests) = unbounded_channel();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut tcp, _)) = listener.accept().await {
            let request = read_request(&mut tcp).await.unwrap_or_default();
            let reply = answer(request.split_once("\r\n\r\n").unwrap_or_default().1);
            drop(report.send(request));
            match reply {
                Some(reply) => drop(tcp.write_all(reply.as_bytes()).await),
                None => open.push(tcp),
            }
        }
    });
    (url, requests)
}

/// Returns an HTTP answer with a JSON body.
pub fn json(text: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    )
}

/// Reads one HTTP request with its body. Returns `None` if it breaks off.
pub async fn read_request(tcp: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        let mut part = [0; 4_096];
        match tcp.read(&mut part).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => request.extend_from_slice(&part[..count]),
        }
    }
}
