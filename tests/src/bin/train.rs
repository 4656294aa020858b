//! The load for the profile with which `.ci/dist` builds the gateway.
//!
//! `train GATEWAY FOLDER` starts the binary `GATEWAY` in `FOLDER`, in front of a node that answers at once and with
//! limits that do not refuse. It sends the most frequent kinds of requests over kept-alive connections: single calls,
//! single calls that the gateway gathers in arrays, cached calls, batches, large results, REST, refusals, calls on
//! WebSocket streams and over gRPC. Then it stops the gateway with SIGTERM, which writes the profile. An unexpected
//! answer is an error: a profile of faults would optimise the wrong code.
//!
//! The number of requests is fixed, so that every gateway gets the same load, however slow its machine is. The program
//! uses only the standard library, so that `rustc` alone builds it in a moment, without the harness and its 200 crates.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints its progress to the terminal")]

#[path = "train/gateway.rs"]
mod gateway;
#[path = "train/grpc.rs"]
mod grpc;
#[path = "train/streams.rs"]
mod streams;

use gateway::Gateway;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// The number of connections, each with one request in flight.
const CALLERS: usize = 32;
/// The key of a caller that no limit refuses.
const KEY: &str = "rpcg_trainxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
/// The key of a caller whose daily limit is one request.
const SPENT: &str = "rpcg_spentxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
const BATCH: usize = 100;
/// The size of a large result in bytes, including its quotes.
const LARGE: usize = 1 << 20;
/// The time limit for an answer, a start and a stop. An instrumented gateway on a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);

const HEIGHT: &str = "\"0xf4240\"";
const BALANCE: &str = "\"0x1b1ae4d6e2ef500000\"";
const WORD: &str = "\"0x0000000000000000000000000000000000000000000000000000000005f5e100\"";
const LATEST: &str = r#"{"block_id":{},"block":{"header":{"chain_id":"cosmoshub-4","height":"1000000"}}}"#;
const BALANCES: &str =
    r#"{"balances":[{"denom":"uatom","amount":"123456789"}],"pagination":{"next_key":null,"total":"1"}}"#;

type Done<T> = Result<T, String>;

/// The kinds of requests, sent one kind after the other over all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Single,
    Gathered,
    Cached,
    Batch,
    Large,
    Rest,
    Refused,
    Stream,
    Grpc,
}

/// The number of requests of each kind: together about 550,000 calls.
const PLAN: &[(Work, usize)] = &[
    (Work::Single, 64_000),
    (Work::Gathered, 48_000),
    (Work::Cached, 64_000),
    (Work::Batch, 2_400),
    (Work::Large, 1_600),
    (Work::Rest, 32_000),
    (Work::Refused, 9_600),
    (Work::Stream, 64_000),
    (Work::Grpc, 48_000),
];

/// A request and its expected answer.
struct Question {
    request: String,
    status: u16,
    answer: Expected,
}

enum Expected {
    /// Exactly this body.
    Whole(String),
    /// A body that contains this text.
    Part(&'static str),
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [gateway, folder] = words.as_slice() else {
        eprintln!("usage: train GATEWAY FOLDER");
        return ExitCode::from(2);
    };
    match train(Path::new(gateway), Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn train(binary: &Path, folder: &Path) -> Done<()> {
    let nodes = (Node::start()?, grpc::start()?);
    let mut gateway = Gateway::start(binary, folder, nodes)?;
    let done = gateway.ready().and_then(|addr| {
        spend(addr)?;
        PLAN.iter().try_for_each(|&(work, times)| send(addr, work, times))
    });
    // If the gateway crashed, its callers only see closed connections; its log has the reason.
    done.map_err(|failure| format!("{failure}\n{}", gateway.last_warnings()))?;
    gateway.end()
}

/// Uses up the daily limit of the key [`SPENT`].
fn spend(addr: SocketAddr) -> Done<()> {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#;
    let expected = Expected::Whole(result("1", HEIGHT));
    Caller::open(addr)?.ask(&Question { request: post(SPENT, call), status: 200, answer: expected })
}

fn send(addr: SocketAddr, work: Work, times: usize) -> Done<()> {
    println!("{times:>6} x {work:?}");
    let large = format!("\"0x{}\"", "60".repeat(LARGE / 2 - 2));
    let large = large.as_str();
    thread::scope(|scope| {
        let caller = |number: usize| {
            move || {
                let mut numbers = (number..times).step_by(CALLERS);
                match work {
                    Work::Stream => return streams::send(addr, numbers),
                    Work::Grpc => return grpc::send(addr, numbers.count()),
                    _ => {}
                }
                let mut caller = Caller::open(addr)?;
                numbers.try_for_each(|at| caller.ask(&work.question(at, large)))
            }
        };
        let callers: Vec<_> = (0..CALLERS).map(|number| scope.spawn(caller(number))).collect();
        // Waits for all callers and returns the first error.
        let ends = callers.into_iter().map(thread::ScopedJoinHandle::join);
        let ends: Vec<Done<()>> =
            ends.map(|end| end.unwrap_or_else(|_| Err("a caller panicked".into()))).collect();
        ends.into_iter().collect::<Done<()>>().map_err(|failure| format!("{work:?}: {failure}"))
    })
}

impl Work {
    /// Returns request number `at` of this kind. All requests differ, except for those that the cache should answer.
    fn question(self, at: usize, large: &str) -> Question {
        let id = (1_000 + at).to_string();
        let one = |method: &str, params: &str, answer: &str| {
            let target = if self == Work::Gathered { "/polygon" } else { "/eth" };
            let request = request("POST", target, Some(KEY), &call(&id, method, params));
            Question { request, status: 200, answer: Expected::Whole(result(&id, answer)) }
        };
        match self {
            Work::Single | Work::Gathered => {
                one("eth_getBalance", &format!("[\"0x{at:040x}\",\"latest\"]"), BALANCE)
            }
            Work::Cached => one("eth_chainId", "[]", "\"0x1\""),
            Work::Large => one("eth_getCode", &format!("[\"0x{at:040x}\",\"latest\"]"), large),
            Work::Batch => {
                let mut calls = String::from("[");
                let mut answers = String::from("[");
                for item in 0..BATCH {
                    let (method, params) = mixed(at * BATCH + item);
                    let id = item.to_string();
                    let comma = if item == 0 { "" } else { "," };
                    let _ = write!(calls, "{comma}{}", call(&id, method, &params));
                    let _ = write!(answers, "{comma}{}", result(&id, answer_to(method)));
                }
                let request = post(KEY, &format!("{calls}]"));
                Question { request, status: 200, answer: Expected::Whole(format!("{answers}]")) }
            }
            Work::Rest => {
                let target = format!("/cosmos/cosmos/bank/v1beta1/balances/cosmos1{at:038}");
                let request = request("GET", &target, Some(KEY), "");
                Question { request, status: 200, answer: Expected::Whole(BALANCES.into()) }
            }
            Work::Refused => refused(at, &id),
            // They have no requests of their own.
            Work::Stream | Work::Grpc => one("eth_blockNumber", "[]", HEIGHT),
        }
    }
}

/// Returns the calls of a batch in turn: two that the cache answers, three that go to a node.
fn mixed(number: usize) -> (&'static str, String) {
    match number % 5 {
        0 => ("eth_chainId", "[]".into()),
        1 => ("eth_blockNumber", "[]".into()),
        2 => ("eth_getBalance", format!("[\"0x{:040x}\",\"latest\"]", number + (1 << 32))),
        3 => {
            let data = format!("0x70a08231{number:064x}");
            ("eth_call", format!("[{{\"to\":\"0x{number:040x}\",\"data\":\"{data}\"}},\"latest\"]"))
        }
        _ => ("eth_getTransactionReceipt", format!("[\"0x{number:064x}\"]")),
    }
}

/// Returns the refusals in turn: exceeded window, unknown key, no key, closed method, invalid JSON, unknown chain.
fn refused(at: usize, id: &str) -> Question {
    let body = call(id, "eth_getBalance", &format!("[\"0x{at:040x}\",\"latest\"]"));
    let (request, status, part) = match at / CALLERS % 6 {
        0 => (post(SPENT, &body), 429, "rate limit exceeded"),
        1 => (
            post("rpcg_unknownxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", &body),
            401,
            "Invalid authentication credentials",
        ),
        2 => (request("POST", "/eth", None, &body), 401, "No API key"),
        3 => (post(KEY, &call(id, "trace_block", "[\"0x10\"]")), 200, "-32601"),
        4 => (post(KEY, &body[..body.len() - 1]), 400, "-32700"),
        _ => (request("POST", "/nowhere", Some(KEY), &body), 404, ""),
    };
    Question { request, status, answer: Expected::Part(part) }
}

fn call(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn post(key: &str, body: &str) -> String {
    request("POST", "/eth", Some(key), body)
}

fn request(verb: &str, target: &str, key: Option<&str>, body: &str) -> String {
    let mut request =
        format!("{verb} {target} HTTP/1.1\r\nhost: gateway\r\nuser-agent: train\r\naccept: */*\r\n");
    if let Some(key) = key {
        let _ = write!(request, "apikey: {key}\r\n");
    }
    if verb == "POST" {
        let _ = write!(request, "content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    request + "\r\n" + body
}

/// Returns a node's result for a method, except for the large one.
fn answer_to(method: &str) -> &'static str {
    match method {
        "eth_chainId" => "\"0x1\"",
        "eth_blockNumber" => HEIGHT,
        "eth_call" => WORD,
        "eth_getTransactionReceipt" => concat!(
            r#"{"blockHash":"0x00000000000000000000000000000000000000000000000000000000000000aa","#,
            r#""blockNumber":"0xf4000","contractAddress":null,"cumulativeGasUsed":"0x5208","#,
            r#""effectiveGasPrice":"0x3b9aca00","from":"0x00000000000000000000000000000000000000bb","#,
            r#""gasUsed":"0x5208","logs":[],"status":"0x1","#,
            r#""to":"0x00000000000000000000000000000000000000cc","transactionIndex":"0x0","type":"0x2"}"#
        ),
        _ => BALANCE,
    }
}

struct Caller {
    stream: BufReader<TcpStream>,
}

impl Caller {
    fn open(addr: SocketAddr) -> Done<Self> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(BufReader::with_capacity(64 << 10, stream))
        });
        Ok(Caller { stream: stream.map_err(|error| format!("no connection: {error}"))? })
    }

    fn ask(&mut self, question: &Question) -> Done<()> {
        let read = self.stream.get_mut().write_all(question.request.as_bytes());
        let message = read.and_then(|()| Message::read(&mut self.stream));
        let message = message.and_then(|message| message.ok_or(io::ErrorKind::UnexpectedEof.into()));
        let message = message.map_err(|error| format!("no answer: {error}\n{}", start(&question.request)))?;
        let body = String::from_utf8_lossy(&message.body);
        let is_right = match &question.answer {
            Expected::Whole(whole) => body == whole.as_str(),
            Expected::Part(part) => body.contains(part),
        };
        if is_right && message.status() == Some(question.status) {
            return Ok(());
        }
        let first = start(&question.request);
        Err(format!("{first}\n\nwas answered\n\n{}\n{}", message.first.trim_end(), start(&body)))
    }
}

/// Returns the beginning of a text that may be long.
fn start(text: &str) -> String {
    text.chars().take(600).collect()
}

/// The relevant parts of a request or an answer.
struct Message {
    first: String,
    /// The key of a WebSocket handshake.
    key: Option<String>,
    body: Vec<u8>,
}

impl Message {
    /// Reads the next message; `None` if the connection was closed before it.
    fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut first = String::new();
        if stream.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let mut length = 0;
        let mut is_chunked = false;
        let mut key = None;
        let mut line = String::new();
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if name.eq_ignore_ascii_case("sec-websocket-key") {
                key = Some(value.trim().to_owned());
            }
            is_chunked |= name.eq_ignore_ascii_case("transfer-encoding");
        }
        let mut body = Vec::new();
        while is_chunked {
            line.clear();
            stream.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            stream.by_ref().take(size).read_to_end(&mut body)?;
            stream.read_line(&mut line)?;
            is_chunked = size > 0;
        }
        let rest = body.len();
        body.resize(rest + length, 0);
        stream.read_exact(&mut body[rest..])?;
        Ok(Some(Message { first, key, body }))
    }

    fn status(&self) -> Option<u16> {
        self.first.split(' ').nth(1)?.parse().ok()
    }
}

struct Node;

impl Node {
    fn start() -> Done<SocketAddr> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("the node: {error}"))?;
        let addr = listener.local_addr().map_err(|error| format!("the node: {error}"))?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The gateway's answers show a broken connection.
                thread::spawn(move || Node::serve(stream));
            }
        });
        Ok(addr)
    }

    fn serve(stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::with_capacity(64 << 10, stream);
        let large = format!("\"0x{}\"", "60".repeat(LARGE / 2 - 2));
        while let Some(message) = Message::read(&mut stream)? {
            if let Some(key) = message.key {
                return streams::serve(&mut stream, &key);
            }
            let body = String::from_utf8_lossy(&message.body);
            let answer = if body.is_empty() {
                let is_probe = message.first.contains("/blocks/latest");
                if is_probe { LATEST } else { BALANCES }.to_owned()
            } else {
                Node::answer(&body, &large)
            };
            let length = answer.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.get_mut().write_all((head + &answer).as_bytes())?;
        }
        Ok(())
    }

    /// Finds calls by the names of their members: no parameter of [`Work`] has a member with these names.
    fn answer(body: &str, large: &str) -> String {
        let ids = body.split("\"id\":").skip(1).map(|rest| rest.split([',', '}']).next().unwrap_or_default());
        let methods =
            body.split("\"method\":\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
        let answers = ids.zip(methods).map(|(id, method)| {
            result(id.trim(), if method == "eth_getCode" { large } else { answer_to(method) })
        });
        let answers = answers.collect::<Vec<_>>().join(",");
        if body.starts_with('[') { format!("[{answers}]") } else { answers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Option<u16>) {
        let message = Message::read(&mut text.as_bytes()).unwrap().unwrap();
        (String::from_utf8(message.body.clone()).unwrap(), message.status())
    }

    #[test]
    fn a_body_ends_at_its_length_or_its_last_chunk() {
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1";
        assert_eq!(read(sized), ("abc".into(), Some(200)));
        let chunked =
            "HTTP/1.1 429 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\nH";
        assert_eq!(read(chunked), ("ab0123456789".into(), Some(429)));
        assert!(Message::read(&mut "".as_bytes()).unwrap().is_none());
        assert!(Message::read(&mut "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".as_bytes()).is_err());
    }

    #[test]
    fn the_node_gives_the_answers_that_callers_expect() {
        for work in [Work::Single, Work::Gathered, Work::Cached, Work::Batch, Work::Large] {
            let question = work.question(7, "\"0x60\"");
            let (_, body) = question.request.split_once("\r\n\r\n").unwrap();
            let Expected::Whole(whole) = question.answer else { panic!("{work:?}") };
            assert_eq!(Node::answer(body, "\"0x60\""), whole, "{work:?}");
        }
    }
}
