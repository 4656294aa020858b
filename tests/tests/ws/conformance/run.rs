//! One case: the frames that are sent, how they are split, and the answers.

use crate::node::{Content, StreamNode};
use crate::stream::{CLOSE, FIN, Seen, Stream, frame};
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::gateway::TestGateway;
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;

/// The pieces in which the octets of a case are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pieces {
    Whole,
    Frames,
    /// This number of octets at a time.
    Octets(usize),
}

#[derive(Clone, Debug)]
pub(super) enum End {
    /// The client closes with 1000 after the last answer and gets 1000 back.
    Clean,
    /// The client's frames contain a close frame. This code comes back, or none.
    Closed(Option<u16>),
    /// The gateway fails the connection, with one of these codes.
    Fails(&'static [u16]),
}

/// Returns the answer to a message that an echo server would return unchanged. The suite's messages are no calls, so
/// the gateway answers them itself, in a frame of the same kind.
fn answered(echo: Seen) -> Seen {
    let refusal = |payload: &[u8]| {
        let is_json = serde_json::from_slice::<serde_json::Value>(payload).is_ok();
        let (code, message) = if is_json { (-32600, "invalid request") } else { (-32700, "parse error") };
        let error = format!(r#""error":{{"code":{code},"message":"{message}"}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":null,{error}}}"#).into_bytes()
    };
    match echo {
        Seen::Text(payload) => Seen::Text(refusal(&payload)),
        Seen::Binary(payload) => Seen::Binary(refusal(&payload)),
        other => other,
    }
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) number: String,
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) pieces: Pieces,
    pub(super) expected: Vec<Seen>,
    pub(super) end: End,
}

pub(super) const PROTOCOL: End = End::Fails(&[1002]);
pub(super) const NOT_UTF8: End = End::Fails(&[1007]);

impl Case {
    pub(super) fn new(number: impl Into<String>, frames: Vec<Vec<u8>>) -> Self {
        Case { number: number.into(), frames, pieces: Pieces::Whole, expected: Vec::new(), end: End::Clean }
    }

    pub(super) fn by(mut self, pieces: Pieces) -> Self {
        self.pieces = pieces;
        self
    }

    pub(super) fn gets(mut self, expected: impl IntoIterator<Item = Seen>) -> Self {
        self.expected = expected.into_iter().map(answered).collect();
        self
    }

    pub(super) fn ends(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    async fn run(self, gateway: SocketAddr) -> Result<(), String> {
        let Stream { mut read, write } = Stream::open(gateway).await;
        let frames = self.frames.clone();
        let pieces = self.pieces;
        let writing = tokio::spawn(write_out(write, frames, pieces));
        let mut seen = Vec::new();
        let is_clean = matches!(self.end, End::Clean);
        while !(is_clean && seen.len() >= self.expected.len()) {
            let next = read.next().await;
            let is_last = matches!(next, Seen::Close(..) | Seen::End);
            seen.push(next);
            if is_last {
                break;
            }
        }
        let mut write =
            timeout(TIMEOUT, writing).await.map_err(|_| "cannot write")?.map_err(|e| e.to_string())?;
        if is_clean {
            if !are_equal(&seen, &self.expected) {
                return Err(format!("{seen:?} instead of {:?}", self.expected));
            }
            write.write_all(&crate::stream::close(1000, b"")).await.map_err(|error| error.to_string())?;
            seen = vec![read.next().await];
        }
        let Some(Seen::Close(code, reason)) = seen.pop() else {
            return Err(format!("{seen:?}, then no close frame"));
        };
        match &self.end {
            End::Clean if code == Some(1000) => {}
            End::Closed(expected) if code == *expected && are_equal(&seen, &self.expected) => {}
            End::Fails(codes) if code.is_some_and(|code| codes.contains(&code)) => {
                if !self.expected.starts_with(&seen) {
                    return Err(format!("{seen:?} instead of a part of {:?}", self.expected));
                }
                // A well-behaved client answers the close frame.
                let _ = write.write_all(&frame(FIN | CLOSE, &[])).await;
            }
            end => return Err(format!("{seen:?}, then closed with {code:?} {reason:?} instead of {end:?}")),
        }
        match read.next().await {
            Seen::End => Ok(()),
            more => Err(format!("{more:?} after the close frame")),
        }
    }
}

/// Reports whether the messages are equal, and the pongs too. A message that the gateway answers itself may be answered
/// before a ping that came between its frames: RFC 6455 (section 5.5.3) requires no order.
fn are_equal(seen: &[Seen], expected: &[Seen]) -> bool {
    let part = |list: &[Seen], pongs: bool| -> Vec<String> {
        let of_part = list.iter().filter(|one| matches!(one, Seen::Pong(_)) == pongs);
        of_part.map(|one| format!("{one:?}")).collect()
    };
    [true, false].into_iter().all(|pongs| part(seen, pongs) == part(expected, pongs))
}

async fn write_out(mut write: OwnedWriteHalf, frames: Vec<Vec<u8>>, pieces: Pieces) -> OwnedWriteHalf {
    let chunks: Vec<Vec<u8>> = match pieces {
        Pieces::Whole => vec![frames.concat()],
        Pieces::Frames => frames,
        Pieces::Octets(size) => frames.concat().chunks(size).map(<[u8]>::to_vec).collect(),
    };
    for chunk in chunks {
        // The gateway may have closed after an earlier piece.
        if write.write_all(&chunk).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    write
}

pub(crate) struct Suite {
    _node: StreamNode,
    gateway: TestGateway,
}

impl Suite {
    pub(crate) async fn start() -> Self {
        let node = StreamNode::start(Content::Echo).await;
        let gateway = crate::gateway(&node.url(), &[]).await;
        Suite { _node: node, gateway }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.gateway.addr()
    }

    /// Runs the cases one after another and reports all failures.
    pub(super) async fn run(&self, cases: Vec<Case>) {
        let count = cases.len();
        let mut failures = Vec::new();
        for case in cases {
            let number = case.number.clone();
            // Each case counts as a request of the plan.
            self.gateway.pass(1);
            if let Err(failure) = case.run(self.addr()).await {
                failures.push(format!("case {number}: {failure}"));
            }
        }
        assert!(failures.is_empty(), "{} of {count} cases failed:\n{}", failures.len(), failures.join("\n"));
    }
}
