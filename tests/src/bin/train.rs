//! What a gateway is given to do while its profile is taken, before it is built with that profile (`.ci/dist`).
//!
//! `train GATEWAY FOLDER` starts the binary `GATEWAY` in `FOLDER`, in front of a node that answers at once and with
//! limits that do not refuse. It sends, over connections that are kept, what a gateway does most: single calls, cached
//! ones, batches, large results, REST, refusals. Then it ends the gateway with SIGTERM, at which the profile is written.
//! An answer that is not what it should be fails it: a profile of faults would lay out the wrong code.
//!
//! How much is sent is counted, not timed: every gateway is trained with the same, however slow its machine is.
//! Nothing but the standard library is used, so that `rustc` alone builds this in a moment, without the harness and the
//! two hundred crates below it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it tells whoever builds what it does")]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// Connections, each with one request under way.
const CALLERS: usize = 32;
/// A caller whom no limit refuses.
const KEY: &str = "rpcg_trainxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
/// A caller whose day is over after one request.
const SPENT: &str = "rpcg_spentxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
/// Calls of one batch.
const BATCH: usize = 100;
/// Bytes of a large result, its quotes included.
const LARGE: usize = 1 << 20;
/// How long an answer, a start or an end may take. An instrumented gateway on a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what is bound to come.
const PAUSE: Duration = Duration::from_millis(20);

const HEIGHT: &str = "\"0xf4240\"";
const BALANCE: &str = "\"0x1b1ae4d6e2ef500000\"";
const WORD: &str = "\"0x0000000000000000000000000000000000000000000000000000000005f5e100\"";
const LATEST: &str = r#"{"block_id":{},"block":{"header":{"chain_id":"cosmoshub-4","height":"1000000"}}}"#;
const BALANCES: &str =
    r#"{"balances":[{"denom":"uatom","amount":"123456789"}],"pagination":{"next_key":null,"total":"1"}}"#;

type Done<T> = Result<T, String>;

/// What is sent in a row over all connections together, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Single,
    Cached,
    Batch,
    Large,
    Rest,
    Refused,
}

/// How often each is sent: together about 400,000 calls.
const PLAN: &[(Work, usize)] = &[
    (Work::Single, 64_000),
    (Work::Cached, 64_000),
    (Work::Batch, 2_400),
    (Work::Large, 1_600),
    (Work::Rest, 32_000),
    (Work::Refused, 9_600),
];

/// A request, and what its answer must be.
struct Question {
    request: String,
    status: u16,
    answer: Expected,
}

enum Expected {
    /// This body and no other.
    Whole(String),
    /// A body that says this somewhere; the rest of its words is the gateway's.
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
    let node = Node::start()?;
    let mut gateway = Gateway::start(binary, folder, node)?;
    let done = gateway.ready().and_then(|addr| {
        spend(addr)?;
        PLAN.iter().try_for_each(|&(work, times)| send(addr, work, times))
    });
    // A gateway that broke down leaves its callers with closed connections; why, it tells its log.
    done.map_err(|failure| format!("{failure}\n{}", gateway.last_words()))?;
    gateway.end()
}

/// Uses up what the key [`SPENT`] has for the day.
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
                let mut caller = Caller::open(addr)?;
                (number..times).step_by(CALLERS).try_for_each(|at| caller.ask(&work.question(at, large)))
            }
        };
        let callers: Vec<_> = (0..CALLERS).map(|number| scope.spawn(caller(number))).collect();
        // All of them are waited for; the first that failed tells why.
        let ends = callers.into_iter().map(thread::ScopedJoinHandle::join);
        let ends: Vec<Done<()>> =
            ends.map(|end| end.unwrap_or_else(|_| Err("a caller died".into()))).collect();
        ends.into_iter().collect::<Done<()>>().map_err(|failure| format!("{work:?}: {failure}"))
    })
}

impl Work {
    /// The request number `at` of this kind. No two ask for the same, but for those that the cache is to answer.
    fn question(self, at: usize, large: &str) -> Question {
        let id = (1_000 + at).to_string();
        let one = |method: &str, params: &str, told: &str| {
            let request = post(KEY, &call(&id, method, params));
            Question { request, status: 200, answer: Expected::Whole(result(&id, told)) }
        };
        match self {
            Work::Single => one("eth_getBalance", &format!("[\"0x{at:040x}\",\"latest\"]"), BALANCE),
            Work::Cached => one("eth_chainId", "[]", "\"0x1\""),
            Work::Large => one("eth_getCode", &format!("[\"0x{at:040x}\",\"latest\"]"), large),
            Work::Batch => {
                let (mut calls, mut told) = (String::from("["), String::from("["));
                for item in 0..BATCH {
                    let (method, params) = mixed(at * BATCH + item);
                    let (id, comma) = (item.to_string(), if item == 0 { "" } else { "," });
                    let _ = write!(calls, "{comma}{}", call(&id, method, &params));
                    let _ = write!(told, "{comma}{}", result(&id, answer_to(method)));
                }
                let request = post(KEY, &format!("{calls}]"));
                Question { request, status: 200, answer: Expected::Whole(format!("{told}]")) }
            }
            Work::Rest => {
                let target = format!("/cosmos/cosmos/bank/v1beta1/balances/cosmos1{at:038}");
                let request = request("GET", &target, Some(KEY), "");
                Question { request, status: 200, answer: Expected::Whole(BALANCES.into()) }
            }
            Work::Refused => refused(at, &id),
        }
    }
}

/// Calls of a batch by turns: two that the cache knows, three that a node is asked.
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

/// Refusals by turns: the window, the key that nobody has, no key, the method that is closed, what is no JSON, no chain.
fn refused(at: usize, id: &str) -> Question {
    let body = call(id, "eth_getBalance", &format!("[\"0x{at:040x}\",\"latest\"]"));
    let (request, status, part) = match at / CALLERS % 6 {
        0 => (post(SPENT, &body), 429, "rate limit exceeded"),
        1 => (
            post("rpcg_nobodyxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", &body),
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

/// A node's result for a method, but for the large one.
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

/// One connection to the gateway.
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

/// The beginning of what may be long.
fn start(text: &str) -> String {
    text.chars().take(600).collect()
}

/// A request or an answer, as far as it matters here.
struct Message {
    first: String,
    body: Vec<u8>,
}

impl Message {
    /// The next one; none if the connection was closed in between.
    fn read(stream: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut first = String::new();
        if stream.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let (mut length, mut is_chunked) = (0, false);
        let mut line = String::new();
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
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
        Ok(Some(Message { first, body }))
    }

    fn status(&self) -> Option<u16> {
        self.first.split(' ').nth(1)?.parse().ok()
    }
}

/// A node that answers whatever it is asked, at once.
struct Node;

impl Node {
    fn start() -> Done<SocketAddr> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("the node: {error}"))?;
        let addr = listener.local_addr().map_err(|error| format!("the node: {error}"))?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A connection that breaks is the gateway's matter, which fails its callers then.
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

    /// Calls are told apart by their members alone: no parameter of [`Work`] has a member of these names.
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

/// The gateway that is trained. Dropped, it is killed.
struct Gateway {
    child: Child,
    log: PathBuf,
}

impl Gateway {
    fn start(binary: &Path, folder: &Path, node: SocketAddr) -> Done<Self> {
        let log = folder.join("gateway.log");
        let file = folder.join("train.toml");
        let start = || {
            fs::write(&file, configuration(node))?;
            let mut command = Command::new(binary.canonicalize()?);
            command.args(["run", "--config", "train.toml"]).current_dir(folder);
            for (name, _) in std::env::vars_os() {
                if name.to_string_lossy().starts_with("RPCGATE_") {
                    command.env_remove(name);
                }
            }
            // The counters of a profile are not atomic: threads that share them would lose counts, and time.
            command.env("TOKIO_WORKER_THREADS", "1");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).spawn()
        };
        let child = start().map_err(|error| format!("{}: {error}", binary.display()))?;
        Ok(Gateway { child, log })
    }

    /// What it had to complain of at the end.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().filter(|line| !line.contains("\"level\":\"INFO\"")).collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Waits until it wants calls. Where it listens, it tells its log.
    fn ready(&mut self) -> Done<SocketAddr> {
        let ready = Question {
            request: request("GET", "/readyz", None, ""),
            status: 200,
            answer: Expected::Part(""),
        };
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let serving = log.lines().find(|line| line.contains("\"serving\""));
            let addr =
                serving.and_then(|line| line.split("\"addr\":\"").nth(1)?.split('"').next()?.parse().ok());
            if let Some(addr) = addr
                && Caller::open(addr).and_then(|mut caller| caller.ask(&ready)).is_ok()
            {
                return Ok(addr);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the gateway ended at its start: {status}"));
            }
            thread::sleep(PAUSE);
        }
        Err("the gateway does not become ready".into())
    }

    /// Drains it: a process that is killed writes no profile.
    fn end(mut self) -> Done<()> {
        // The standard library sends no signal but KILL; every shell has the others.
        let told =
            Command::new("sh").args(["-c", "kill -TERM \"$0\"", &self.child.id().to_string()]).status();
        if !told.is_ok_and(|status| status.success()) {
            return Err("the gateway cannot be told to end".into());
        }
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(PAUSE),
                Ok(Some(status)) if status.success() => return Ok(()),
                ended => return Err(format!("the gateway ended with {ended:?}\n{}", self.last_words())),
            }
        }
        Err(format!("the gateway does not end\n{}", self.last_words()))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(node: SocketAddr) -> String {
    let unlimited =
        "per_minute = 4000000000\nper_hour = 4000000000\nper_day = 4000000000\nheavy_per_minute = 4000000000";
    let callers = [("train", KEY, "enterprise"), ("spent", SPENT, "free")].map(|(name, key, plan)| {
        format!(
            "[tenants.{name}]\nplan = \"{plan}\"\n\
             [projects.{name}]\ntenant = \"{name}\"\ncu_per_day = 4000000000000\n\
             [keys.{name}]\nkey = \"{key}\"\nproject = \"{name}\"\n"
        )
    });
    let chains = ["eth", "cosmos"]
        .map(|chain| format!("[chains.{chain}]\nnodes = [\"http://{node}\"]\nprobe_interval = \"1h\"\n"));
    format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\n[plans.enterprise]\n{unlimited}\n[plans.free]\nper_day = 1\n{}{}",
        callers.concat(),
        chains.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, Option<u16>) {
        let message = Message::read(&mut text.as_bytes()).unwrap().unwrap();
        (String::from_utf8(message.body.clone()).unwrap(), message.status())
    }

    #[test]
    fn a_body_ends_where_its_length_or_its_last_chunk_says() {
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1";
        assert_eq!(read(sized), ("abc".into(), Some(200)));
        let chunked =
            "HTTP/1.1 429 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\nH";
        assert_eq!(read(chunked), ("ab0123456789".into(), Some(429)));
        assert!(Message::read(&mut "".as_bytes()).unwrap().is_none());
        assert!(Message::read(&mut "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".as_bytes()).is_err());
    }

    #[test]
    fn the_node_answers_what_callers_expect() {
        for work in [Work::Single, Work::Cached, Work::Batch, Work::Large] {
            let question = work.question(7, "\"0x60\"");
            let (_, body) = question.request.split_once("\r\n\r\n").unwrap();
            let Expected::Whole(whole) = question.answer else { panic!("{work:?}") };
            assert_eq!(Node::answer(body, "\"0x60\""), whole, "{work:?}");
        }
    }
}
