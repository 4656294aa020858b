//! Streams on their way to the usage database, for every kind of end of their processes.

use super::*;
use rpcgate_core::backend::counters::MemoryCounters;
use rpcgate_core::backend::usage_sink::{Outcome, Record, UsageSink};
use rpcgate_core::call::{Call, CallState, Entry, Payload};
use rpcgate_core::caller::Caller;
use rpcgate_core::chain::Chain;
use rpcgate_core::clock::Clock;
use rpcgate_core::envelope::{Limits, ParsedBody, parse};
use rpcgate_core::plan::Plan;
use rpcgate_core::refusal::Refusal;
use rpcgate_core::reply::{Form, Reply, Source};
use rpcgate_core::stream_tally::StreamTally;
use rpcgate_core::tally::{Accounting, Tally, Transport};
use rpcgate_core::usage::{Cell, Group, Stream};
use std::sync::Weak;

/// The sink of a process that can be killed: afterwards nothing reaches it.
#[derive(Debug)]
struct Mortal(Weak<dyn UsageSink>);

impl UsageSink for Mortal {
    fn append(&self, record: &Record<'_>) {
        if let Some(sink) = self.0.upgrade() {
            sink.append(record);
        }
    }
}

/// Returns the tally of an admitted handshake that the windows have counted.
fn handshake(app: &Fixture, account: &Account, sink: &Arc<dyn UsageSink>) -> Box<Tally> {
    let sink = Arc::new(Mortal(Arc::downgrade(sink)));
    let accounting = Accounting::new(app.clock.clone(), Arc::<MemoryCounters>::default(), sink);
    let chain = Arc::new(Chain::deployed(rpcgate_chains::eth::adapter()));
    let plan = Plan::of(Tier::Standard);
    let caller = Caller::new(account.key, account.project, account.tenant, plan);
    let arrival = app.clock.now();
    let started = app.clock.elapsed();
    let id = RequestId::new(arrival);
    let accounting = Arc::new(accounting);
    let mut tally = Tally::new(id, Transport::Ws, chain, Arc::new(caller), arrival, started, accounting);
    tally.counted = 1;
    Box::new(tally)
}

const CALL: &str = r#"{"id":1,"method":"eth_subscribe"}"#;

/// Records a call on a stream, answered with 30 bytes.
fn call_on(stream: &StreamTally) {
    let mut message = stream.message();
    message.body = CALL.into();
    let Ok(ParsedBody::Single(Ok(envelope))) = parse(CALL.as_bytes(), &Limits::default()) else {
        panic!("a call")
    };
    let found = message.chain.look_up("eth_subscribe");
    let reply = Reply { form: Form::Result("1".into()), from: Source::Node };
    let call = Call::json_rpc(envelope, found);
    message.entries.push(Entry { call, state: CallState::Answered(reply), bytes_out: 30 });
}

/// Returns the method, kind, and bytes in and out of every row.
async fn rows(app: &Fixture, tenant: TenantId) -> Vec<(String, Stream, u64, u64)> {
    let usage = app.usage().await;
    let ask = UsageAsk::new(tenant, UsageWindow::of(Period::Day, app.clock.now()));
    let view = usage.usage(&ask.grouped(&[Group::Method]).unwrap()).await.unwrap();
    usage.close().await;
    let mut rows: Vec<_> = view
        .rows
        .into_iter()
        .filter_map(|row| match row.cells.into_iter().next()? {
            Cell::Method(method, stream) => {
                Some((method, stream, row.metrics.request_bytes, row.metrics.response_bytes))
            }
            _ => None,
        })
        .collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn a_stream_is_in_usage_with_its_parts_and_its_bytes_count_once() {
    let app = Fixture::new().await;
    let account = app.account(&app.store().await, 10).await;
    let state = app.state().await;
    let options =
        StartOptions { clock: app.clock.clone(), state: Some(state.clone()), ..StartOptions::default() };
    let gateway = Gateway::start(app.config(""), options).await.unwrap();
    until("it is ready", async || gateway.ready()).await;
    let sink = state.sink();
    let mut stream = StreamTally::begin(handshake(&app, &account, &sink)).unwrap();
    call_on(&stream);
    stream.push(200);
    stream.push(300);
    stream.end(Outcome::Answered);
    let mut refused = handshake(&app, &account, &sink);
    refused.counted = 0;
    let refusal = Refusal::Window { retry_after: 1 };
    refused.entries.push(Entry::refused(Call::unread(Payload::Unread), refusal));
    drop(refused);
    drop(sink);
    end(gateway).await;
    let totals = app.totals(account.tenant).await;
    assert_eq!((totals.ws_connections, totals.ws_refused, totals.ws_messages), (1, 1, 2));
    assert_eq!((totals.requests, totals.billable_units, totals.errors), (1, 0, 0), "calls, not handshakes");
    let sent = CALL.len() as u64;
    assert_eq!((totals.request_bytes, totals.response_bytes), (sent, 530));
    let row = |method: &str, stream, request, response| (method.to_owned(), stream, request, response);
    assert_eq!(
        rows(&app, account.tenant).await,
        [
            row("WS:connect", Stream::Connect, 0, 0),
            row("WS:disconnect", Stream::Disconnect, sent, 530),
            row("WS:message", Stream::Message, 0, 500),
            row("eth_subscribe", Stream::Call, sent, 30),
        ]
    );
}

#[tokio::test]
async fn a_killed_gateway_counts_its_stream_once_and_its_handshake_in_the_windows() {
    let app = Fixture::new().await;
    let account = app.account(&app.store().await, 10).await;
    let state = app.state().await;
    let options =
        StartOptions { clock: app.clock.clone(), state: Some(state.clone()), ..StartOptions::default() };
    let gateway = Gateway::start(app.config(""), options).await.unwrap();
    until("it is ready", async || gateway.ready()).await;
    let sink = state.sink();
    let mut stream = StreamTally::begin(handshake(&app, &account, &sink)).unwrap();
    call_on(&stream);
    stream.push(200);
    stream.flush();
    // Killed, so nothing of it ends normally.
    drop((gateway, state, sink));
    let gateway = app.start().await;
    drop(stream);
    let answer = call(&gateway, &account.text).await;
    assert_eq!(remaining(&answer), [50 - 2, 2_500 - 2, 50_000 - 2], "the handshake and this call");
    end(gateway).await;
    let again = app.start().await;
    end(again).await;
    let totals = app.totals(account.tenant).await;
    assert_eq!((totals.ws_connections, totals.ws_messages, totals.requests), (1, 1, 2));
    let methods: Vec<_> = rows(&app, account.tenant).await.into_iter().map(|row| row.0).collect();
    assert_eq!(methods, ["WS:connect", "WS:message", "eth_subscribe", "some_method"], "it has no end");
}
