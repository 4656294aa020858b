//! The time to the first byte of the overview and of the usage explorer with a year of usage, on SQLite. Each request
//! passes through the whole router: session, frame, queries, page. The goal is 50 ms.
//!
//! The database stays under the target directory for the next run.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "the input of a benchmark is its own")]

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use criterion::{Criterion, criterion_group, criterion_main};
use http::header::COOKIE;
use http_body_util::BodyExt;
use rpcgate_admin::router::router;
use rpcgate_config::{Config, Input, Setting};
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::clock::{ManualClock, Time};
use rpcgate_core::journal::{GatewayId, SegmentId};
use rpcgate_core::plan::Tier;
use rpcgate_core::secret::KeyHash;
use rpcgate_core::tally::Transport;
use rpcgate_core::usage::block::BlockKey;
use rpcgate_core::usage::fold::HourlySums;
use rpcgate_core::usage::{Mark, Metrics, Rollup, Shipment, Stream};
use rpcgate_management::app_state::AppState;
use rpcgate_management::identity::token::Claims;
use rpcgate_store::{
    Audit, Block, Digest, Key, LogInMethod, Project, Role, Session, SessionId, ShipError, StoreError, Tenant,
    User, UserId, fresh_id, url_of,
};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const HOUR: u64 = 3_600;
const HOURS: u64 = 365 * 24;
/// The middle of a day, so that windows contain partial days.
const LAST_HOUR: u64 = 500_004;
/// The hours for which single requests are stored: 90 days.
const EVENT_HOURS: u64 = 90 * 24;
const PROJECTS: u128 = 3;
const KEYS: u128 = 2;
const CHAINS: [&str; 4] = ["eth", "polygon", "tron", "btc"];
const METHODS: u64 = 8;
const OTHERS: u128 = 40;
/// The number of rollups of one shipment.
const ROWS: usize = 2_000;
/// The stored hash of an unknown password.
const LOCKED: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

const TENANT: TenantId = TenantId(1 << 96);
const USER: UserId = UserId(2 << 96);
const SESSION: SessionId = SessionId(3 << 96);

const fn now() -> Time {
    Time::from_secs(LAST_HOUR * HOUR + 1_500)
}

const fn project(number: u128) -> ProjectId {
    ProjectId(4 << 96 | number)
}

const fn key(project: u128, number: u128) -> KeyId {
    KeyId(5 << 96 | project << 8 | number)
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn rollup(
    hour: u64,
    caller: (TenantId, ProjectId, KeyId),
    chain: &str,
    method: u64,
    dice: &mut Dice,
) -> Rollup {
    let is_refused = dice.below(100) < 6;
    let calls = 1 + dice.below(if is_refused { 20 } else { 2_000 / (method + 1) });
    let served = if is_refused { 0 } else { calls };
    Rollup {
        hour,
        tenant: caller.0,
        project: caller.1,
        key: caller.2,
        chain: chain.to_owned(),
        method: format!("{chain}_getSomething{method}"),
        transport: Transport::Http,
        status: if is_refused { 429 } else { 200 },
        stream: Stream::Call,
        metrics: Metrics {
            requests: calls,
            billed_requests: served,
            billable_units: served * 15,
            errors: calls - served,
            rejected: calls - served,
            cache_hits: served / 3,
            request_bytes: calls * 120,
            response_bytes: calls * 900,
            latency_us: served * (800 + dice.below(40_000)),
            latency_count: served,
            ..Metrics::default()
        },
        window_requests: served,
    }
}

fn hour(number: u64, dice: &mut Dice) -> Vec<Rollup> {
    let mut rows = Vec::new();
    for at in 0..PROJECTS {
        for each in 0..KEYS {
            for chain in CHAINS {
                for method in 0..METHODS {
                    rows.push(rollup(number, (TENANT, project(at), key(at, each)), chain, method, dice));
                }
            }
        }
    }
    for other in 0..OTHERS {
        let caller = (TenantId(6 << 96 | other), ProjectId(7 << 96 | other), KeyId(8 << 96 | other));
        for method in 0..dice.below(4) {
            rows.push(rollup(number, caller, CHAINS[other as usize % CHAINS.len()], method, dice));
        }
    }
    rows
}

/// Returns the block with the single requests of an hour. Its bytes are not read here.
fn block(number: u64) -> Block {
    let from = Time::from_secs(number * HOUR);
    let to = Time::from_secs(number * HOUR + 3_599);
    let keys = (0..PROJECTS).flat_map(|at| (0..KEYS).map(move |each| (at, each)));
    let keys = keys.map(|(at, each)| BlockKey {
        tenant: TENANT,
        project: project(at),
        key: key(at, each),
        from,
        to,
    });
    Block { id: fresh_id(to), from, to, count: 1, keys: keys.collect(), bytes: vec![0; 64] }
}

fn config(home: &Path) -> Config {
    let base = [
        ("database.url", url_of(&home.join("bench.db"))),
        ("gateway.key_secret", "0123456789abcdef".into()),
        ("admin.jwt.secret", "0123456789abcdef0123456789abcdef".into()),
        ("admin.mail.outbox", home.join("outbox").to_string_lossy().into_owned()),
    ];
    let base = base.map(|(path, value)| Setting::new("a benchmark", path, value));
    Config::read(&Input { base: &base, ..Input::default() }).unwrap()
}

async fn fill(app: &AppState) {
    let created_at = Time::from_secs((LAST_HOUR - HOURS) * HOUR);
    let tenant = Tenant::new(TENANT, "Acme", Tier::Premium, created_at);
    app.store.create_tenant(&tenant).await.unwrap();
    let user = User {
        id: USER,
        tenant: Some(TENANT),
        email: "you@acme.example".into(),
        name: "Demo User".into(),
        role: Role::Owner,
        password: Some(LOCKED.into()),
        confirmed_at: Some(created_at),
        created_at,
    };
    app.store.create_user(&user).await.unwrap();
    let session = Session {
        id: SESSION,
        user: USER,
        created_at: now(),
        seen_at: now(),
        expires_at: now().plus(Duration::from_secs(365 * 24 * HOUR)),
        address: "192.0.2.1".into(),
        agent: "a benchmark".into(),
        method: LogInMethod::Password,
        seen_address: "192.0.2.1".into(),
        factor_at: None,
        proved_at: None,
    };
    let entry = Audit {
        tenant: Some(TENANT),
        user: Some(USER),
        action: "session.opened".into(),
        subject: SESSION.to_string(),
        address: "192.0.2.1".into(),
        at: now(),
        detail: String::new(),
    };
    assert!(app.store.open_session(&session, &Digest::of("a"), LOCKED, &entry).await.unwrap());
    for at in 0..PROJECTS {
        let project = Project::new(project(at), TENANT, format!("Project {at}"), created_at);
        app.store.create_project(&project).await.unwrap();
        for each in 0..KEYS {
            let id = key(at, each);
            let key = Key {
                description: format!("key {each}"),
                ..Key::new(id, project.id, "rpcg_0123456", KeyHash::of(&id.to_string()), created_at)
            };
            app.store.create_key(&key, created_at).await.unwrap();
        }
    }
    let mut dice = Dice(1);
    let mut rows = 0;
    let mut segment = 0;
    for number in LAST_HOUR + 1 - HOURS..=LAST_HOUR {
        let rollups = hour(number, &mut dice);
        rows += rollups.len();
        let mut blocks = if number + EVENT_HOURS > LAST_HOUR { vec![block(number)] } else { Vec::new() };
        for part in rollups.chunks(ROWS) {
            segment += 1;
            let shipment = Shipment {
                gateway: GatewayId(1),
                marks: vec![Mark { segment: SegmentId(segment), from: 0, to: 1 }],
                folded: HourlySums {
                    rollups: part.to_vec(),
                    newest: Time::from_secs(number * HOUR + 1_500),
                    ..HourlySums::default()
                },
                blocks: std::mem::take(&mut blocks),
            };
            // Like a gateway, it repeats a shipment that misses its deadline on a busy machine.
            loop {
                match app.usage.ship(&shipment).await {
                    Ok(()) | Err(ShipError::Moved) => break,
                    Err(ShipError::Store(StoreError::Unavailable(_))) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    eprintln!("{rows} rollups of a year");
}

/// Requests a page, waits for the first part of its body, and returns the number of its bytes.
async fn first_byte(app: &AppState, router: &Router, path: &str) -> usize {
    let claims = Claims { sub: USER, sid: SESSION.0, tenant: TENANT, role: Role::Owner, operator: false };
    let token = app.page_tokens.issue(&claims, app.now()).unwrap();
    let request = http::Request::get(path)
        .header(COOKIE, format!("rpcgate={token}"))
        .extension(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 9))))
        .body(Body::empty())
        .unwrap();
    let mut answer = router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap().len()
}

fn pages(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let making = home.join("year-bench.part");
    let made = home.join("year-bench");
    let clock = Arc::new(ManualClock::at(now()));
    if !made.exists() {
        let _ = fs::remove_dir_all(&making);
        fs::create_dir_all(&making).unwrap();
        let app = runtime.block_on(AppState::open(config(&making), clock.clone())).unwrap();
        runtime.block_on(fill(&app));
        runtime.block_on(app.close());
        fs::rename(&making, &made).unwrap();
    }
    let app = Arc::new(runtime.block_on(AppState::open(config(&made), clock.clone())).unwrap());
    let router = router(&app, &CancellationToken::new());
    let mut group = c.benchmark_group("first byte with a year of usage");
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    for path in [
        "/",
        "/?period=30d",
        "/usage",
        "/usage?period=30d&group_by=day,chain",
        "/usage?period=30d&group_by=project,key&measure=latency",
        "/usage.csv?period=7d&group_by=hour,chain",
    ] {
        let bytes = runtime.block_on(first_byte(&app, &router, path));
        eprintln!("{path}: {bytes} bytes");
        group.bench_function(path, |b| {
            b.iter(|| {
                // A user may make 600 requests a minute.
                clock.advance(Duration::from_millis(200));
                runtime.block_on(first_byte(&app, &router, path))
            });
        });
    }
    group.finish();
    runtime.block_on(app.close());
}

criterion_group!(benches, pages);
criterion_main!(benches);
