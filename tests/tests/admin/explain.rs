//! Explanations of requests, from gateways with nodes to their owners and operators.

use rpcgate_core::clock::SystemClock;
use rpcgate_server::Gateway;
use rpcgate_tests::TIMEOUT;
use rpcgate_tests::admin::{ApiUser, TestService};
use rpcgate_tests::client::{TestClient, TestReply};
use rpcgate_tests::gateway::Setup;
use rpcgate_tests::node::{Node, Raw};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

fn id(reply: &TestReply) -> String {
    reply.header("x-request-id").unwrap().to_owned()
}

/// Returns the explanation of a request. The management side learns about a new gateway a little later.
async fn explained(account: &ApiUser, reply: &TestReply) -> Value {
    let path = format!("/explain/{}", id(reply));
    let wait = async {
        loop {
            let answer = account.ask("GET", &path, None).await;
            if answer.status == 200 {
                return answer.json();
            }
            assert_eq!(answer.status, 404, "{answer:?}");
            sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(TIMEOUT, wait).await.unwrap()
}

struct Scene {
    service: TestService,
    gateway: Gateway,
    owner: ApiUser,
    project: String,
    key: (String, String),
}

impl Scene {
    async fn start(setup: Setup) -> Self {
        let service = TestService::start(setup, Arc::new(SystemClock::new())).await;
        let gateway = service.gateway().await;
        let owner = service.owner("ada@example.com").await;
        let project = owner.project("one").await;
        let key = owner.key(&project).await;
        Scene { service, gateway, owner, project, key }
    }

    fn client(&self) -> TestClient {
        TestClient::new(self.gateway.addr(), Some(&self.key.1))
    }
}

// Shows (Traces, logs and metrics): A request is explained by its `x-request-id` to its owner and to operators: caller,
// windows and quota, cache, tries at nodes, cost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_sees_caller_limits_cache_and_cost_of_a_request() {
    let node = Node::evm().await;
    let scene = Scene::start(Setup::of("eth", &node.url())).await;
    let client = scene.client();
    let first = client.call("eth", "eth_call", "[]").await;
    let second = client.call("eth", "eth_call", "[]").await;
    let missed = explained(&scene.owner, &first).await;
    let (id, secret) = &scene.key;
    assert_eq!(missed["request_id"], first.header("x-request-id").unwrap());
    assert_eq!((&missed["key"]["id"], &missed["project"]["id"]), (&json!(id), &json!(scene.project)));
    assert_eq!(missed["project"]["name"], "one");
    assert!(secret.starts_with(missed["key"]["prefix"].as_str().unwrap()));
    assert!(!missed.to_string().contains(secret), "the key itself is nowhere");
    assert_eq!(
        (&missed["plan"], &missed["transport"], &missed["chain"]),
        (&json!("free"), &json!("http"), &json!("eth"))
    );
    assert_eq!((missed["batch"].as_bool(), missed["lasting"].as_bool()), (Some(false), Some(false)));
    let day = &missed["windows"]["day"];
    assert_eq!((&day["limit"], &day["before"], &day["after"]), (&json!(10_000), &json!(0), &json!(1)));
    let cu = first.cu();
    assert_eq!(
        (&missed["cu"], &missed["quota"]["before"], &missed["quota"]["after"]),
        (&json!(cu), &json!(0), &json!(cu))
    );
    let call = &missed["calls"][0];
    assert_eq!(
        (&call["method"], &call["cache"], &call["outcome"]),
        (&json!("eth_call"), &json!("miss"), &json!("answered"))
    );
    let tried = &missed["tries"][0];
    assert_eq!(
        (&tried["node"], &tried["choice"], &tried["end"]),
        (&json!(1), &json!("only"), &json!("answered"))
    );
    assert_eq!(tried["address"], Value::Null);
    assert!(missed["total_ms"].as_f64() >= missed["node_ms"].as_f64(), "{missed}");

    let hit = explained(&scene.owner, &second).await;
    assert_eq!((&hit["calls"][0]["cache"], &hit["tries"]), (&json!("hit"), &json!([])));
    assert_eq!((&hit["quota"]["before"], &hit["windows"]["day"]["before"]), (&json!(cu), &json!(1)));

    let theirs = explained(&scene.service.operator().await, &first).await;
    let address = theirs["tries"][0]["address"].as_str().unwrap();
    assert!(address.starts_with(&node.url()), "{address}");
    assert_eq!(theirs["gateway"], missed["gateway"]);
}

// Shows (Traces, logs and metrics).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_request_has_its_reason_and_a_batch_the_outcome_of_each_call() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).set("plans.free", "per_minute = 2");
    let scene = Scene::start(setup).await;
    let client = scene.client();
    let batch = client.batch("eth", &[("eth_blockNumber", "[]"), ("debug_traceCall", "[]")]).await;
    let explanation = explained(&scene.owner, &batch).await;
    assert_eq!((explanation["batch"].as_bool(), explanation["refusal"].clone()), (Some(true), Value::Null));
    let [answered, refused] = &explanation["calls"].as_array().unwrap()[..] else { panic!("{explanation}") };
    assert_eq!((&answered["outcome"], &refused["outcome"]), (&json!("answered"), &json!("refused")));
    assert_eq!((&refused["cache"], &refused["cu"]), (&json!("not_asked"), &json!(0)));
    assert!(refused["refusal"]["message"].is_string(), "{refused}");
    assert_eq!(explanation["tries"][0]["calls"], json!([0]));

    client.call("eth", "eth_blockNumber", "[]").await;
    let over = client.call("eth", "eth_blockNumber", "[]").await;
    // When the minute changes, one more request passes.
    let over = if over.status == 200 {
        client.call("eth", "eth_blockNumber", "[]").await;
        client.call("eth", "eth_blockNumber", "[]").await
    } else {
        over
    };
    assert_eq!(over.status, 429);
    let explanation = explained(&scene.owner, &over).await;
    let refusal = &explanation["refusal"];
    assert_eq!((&refusal["status"], refusal["retry_after"].is_u64()), (&json!(429), true));
    let minute = &explanation["windows"]["minute"];
    assert_eq!(
        (&minute["before"], &minute["after"], &explanation["counted"]),
        (&json!(2), &json!(2), &json!(0))
    );
    assert_eq!((&explanation["quota"], &explanation["tries"]), (&Value::Null, &json!([])));
}

// Shows (Traces, logs and metrics).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_another_node_answered_shows_both_tries() {
    let bad = Node::evm().await;
    let good = Node::evm().await;
    bad.always(Raw::json(500, "oh"));
    // The second node is the fallback of the first.
    let setup = Setup::of("eth", &bad.url()).node_with("eth", &good.url(), "priority = 1");
    let scene = Scene::start(setup).await;
    let reply = scene.client().call("eth", "eth_call", "[]").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let tries = explained(&scene.owner, &reply).await["tries"].clone();
    let retried = tries.as_array().unwrap();
    assert_eq!(retried.len(), 2, "{tries}");
    assert_eq!((&retried[0]["node"], &retried[0]["end"]), (&json!(1), &json!("failed")));
    assert!(retried[0]["failure"].is_string());
    assert_eq!((&retried[1]["node"], &retried[1]["end"]), (&json!(2), &json!("answered")));
}

// Shows (Traces, logs and metrics).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_two_gateways_explains_its_requests_to_their_owners_only() {
    let node = Node::evm().await;
    let scene = Scene::start(Setup::of("eth", &node.url())).await;
    let other = scene.service.gateway().await;
    let there = TestClient::new(other.addr(), Some(&scene.key.1));
    let one = scene.client().call("eth", "eth_chainId", "[]").await;
    let two = there.call("eth", "eth_chainId", "[]").await;
    let first = explained(&scene.owner, &one).await;
    let second = explained(&scene.owner, &two).await;
    assert_ne!(first["gateway"], second["gateway"]);

    let outsider = scene.service.owner("eve@example.com").await;
    let foreign = outsider.ask("GET", &format!("/explain/{}", id(&one)), None).await;
    let unknown = outsider.ask("GET", &format!("/explain/{}", outsider.tenant().await), None).await;
    assert_eq!((foreign.status, foreign.json()), (404, unknown.json()));
    // A client without a key has no tenant that could ask.
    let nobody = TestClient::new(scene.gateway.addr(), None).call("eth", "eth_chainId", "[]").await;
    assert_eq!(nobody.status, 401);
    let answer = scene.service.operator().await.ask("GET", &format!("/explain/{}", id(&nobody)), None).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_remembers_nothing_explains_nothing() {
    let node = Node::evm().await;
    let scene = Scene::start(Setup::of("eth", &node.url()).set("gateway", "explain_requests = 0")).await;
    let reply = scene.client().call("eth", "eth_chainId", "[]").await;
    let answer = scene.owner.ask("GET", &format!("/explain/{}", id(&reply)), None).await;
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("no gateway remembers this request"), "{}", answer.text());
}
