use crate::*;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rpcgate_core::backend::directory::{Directory, KeyLookup};
use rpcgate_core::backend::{BoxFuture, Unavailable};
use rpcgate_core::caller::{Caller, KeyId, ProjectId, TenantId};
use rpcgate_core::plan::{Plan, Tier};
use std::sync::Arc;

const BODY: &[u8] = br#"{"jsonrpc":"2.0","id":9,"method":"m"}"#;

// Shows (Authentication): A request without a key gets 401 with the specified message and `WWW-Authenticate`.
// Shows (Limits, budget and quota).
#[tokio::test]
async fn without_a_key_no_call_is_served() {
    let (node, gateway, _) = evm().await;
    for (target, headers) in [
        ("/eth", &[][..]),
        ("/eth", &[("apikey", "")]),
        ("/eth?apikey=", &[]),
        ("/eth", &[("x-api-key", ""), ("authorization", "Digest username=\"k\"")]),
        ("/eth", &[("tron-pro-api-key", "k")]),
    ] {
        let reply = gateway.anonymous().send("POST", target, headers, BODY).await;
        assert_eq!(
            (reply.status, reply.text().as_str()),
            (401, r#"{"message":"No API key found in request"}"#),
            "{target} {headers:?}"
        );
        assert_eq!(reply.header("www-authenticate"), Some("Key realm=\"rpcgate\""));
        assert!(unrated(&reply) && reply.header("x-compute-units").is_none());
    }
    assert_eq!((node.requests(), gateway.records().len()), (0, 0));
}

// Shows (Authentication): An unknown key gets 401 with the specified message.
#[tokio::test]
async fn an_unknown_key_is_refused() {
    let (node, gateway, _) = evm().await;
    let unknown = TestClient::new(gateway.addr(), Some("rpcg_0000000unknown"));
    let close = TestClient::new(gateway.addr(), Some(&key("default")[..49]));
    let odd = TestClient::new(gateway.addr(), Some("\u{e9}"));
    for client in [unknown, close, odd] {
        let reply = client.post("eth", BODY).await;
        assert_eq!((reply.status, reply.text().as_str()), (401, INVALID));
        assert_eq!(reply.header("www-authenticate"), Some("Key realm=\"rpcgate\""));
        assert!(unrated(&reply));
    }
    assert_eq!((node.requests(), gateway.records().len()), (0, 0));
}

const INVALID: &str = r#"{"message":"Invalid authentication credentials"}"#;

// Shows (Keys): A revoked or expired key is refused like an unknown one and counted for its project.
#[tokio::test]
async fn a_revoked_or_expired_key_is_refused_like_an_unknown_one_and_counted() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url())
        .key("gone", "revoked = true")
        .key("old", "expires_at = 2027-01-15T08:30:15Z")
        .key("soon", "expires_at = 2027-01-15T08:30:16Z");
    let gateway = setup.start().await;
    for name in ["gone", "old"] {
        let reply = gateway.client_of(name).post("eth", BODY).await;
        assert_eq!((reply.status, reply.text().as_str()), (401, INVALID), "{name}");
        assert!(unrated(&reply), "{name}");
    }
    assert_eq!(gateway.client_of("soon").post("eth", BODY).await.status, 200);
    gateway.pass(1);
    assert_eq!(gateway.client_of("soon").post("eth", BODY).await.status, 401);
    assert_eq!(node.requests(), 1);
    let lines = gateway.lines();
    let refused: Vec<_> =
        lines.iter().map(|line| (line.method.as_str(), line.outcome, line.status, line.cu)).collect();
    let no = ("-", Outcome::Refused, 401, 0);
    assert_eq!(refused, [no, no, ("m", Outcome::Answered, 200, 1), no]);
    let projects: Vec<_> = gateway.records().iter().map(|record| record.project).collect();
    assert!(projects.iter().all(|project| *project == projects[0]));
    assert!(
        gateway
            .records()
            .iter()
            .filter(|record| record.lines[0].outcome == Outcome::Refused)
            .all(|record| record.windowed == 0)
    );
}

// Shows (Authentication): The header takes precedence over the query; the query alone is enough.
#[tokio::test]
async fn a_key_may_be_in_the_query_and_the_header_takes_precedence() {
    let (_node, gateway, _) = evm().await;
    let good = key("default");
    let escaped: String = good.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let anonymous = gateway.anonymous();
    type Row<'k> = (String, Vec<(&'k str, &'k str)>, u16);
    let rows: [Row<'_>; 10] = [
        (format!("/eth?apikey={good}"), vec![], 200),
        (format!("/eth?apikey={escaped}"), vec![], 200),
        (format!("/eth?a=b&apikey={good}&c"), vec![], 200),
        (format!("/eth/?apikey={good}"), vec![], 200),
        ("/eth?apikey=bad".into(), vec![("apikey", &good)], 200),
        (format!("/eth?apikey={good}"), vec![("apikey", "bad")], 401),
        ("/eth".into(), vec![("apikey", "bad"), ("apikey", &good)], 401),
        (format!("/eth?apikey=bad&apikey={good}"), vec![], 401),
        (format!("/eth?api_key={good}"), vec![], 401),
        (format!("/eth?APIKEY={good}"), vec![], 401),
    ];
    for (target, headers, status) in rows {
        assert_eq!(
            anonymous.send("POST", &target, &headers, BODY).await.status,
            status,
            "{target} {headers:?}"
        );
    }
    assert_eq!(
        anonymous.send("POST", "/eth", &[("ApiKey", &good)], BODY).await.status,
        200,
        "names know no case"
    );
}

// Shows (Keys): A key may be sent in every place that official clients use; the first one counts.
#[tokio::test]
async fn a_key_is_accepted_in_every_position_of_official_clients_and_reaches_no_node() {
    let node = Node::evm().await;
    node.always(Raw::json(200, r#"{"ok":true,"result":"ok","error":null,"jsonrpc":"2.0","id":9}"#));
    let chains = ["eth", "btc", "tron", "ton"];
    let gateway =
        chains.iter().fold(Setup::new(), |setup, chain| setup.node(chain, &node.url())).start().await;
    let good = key("default");
    let anonymous = gateway.anonymous();
    let basic = |login: String| format!("Basic {}", BASE64_STANDARD.encode(login));
    let bearer = format!("Bearer {good}");
    let password = basic(format!("rpc:{good}"));
    let user = basic(format!("{good}:x"));
    let user_alone = basic(format!("{good}:"));
    let bad = basic("rpc:wrong".into());
    let tron = "tron-pro-api-key";
    let in_query = format!("?api_key={good}");
    type Row<'k> = (&'k str, &'k str, &'k [(&'k str, &'k str)], u16);
    let rows: [Row<'_>; 19] = [
        ("/eth", "", &[("x-api-key", &good)], 200),
        ("/eth", "", &[("authorization", &bearer)], 200),
        ("/btc", "", &[("authorization", &password)], 200),
        ("/btc", "", &[("authorization", &user)], 200),
        ("/btc", "", &[("authorization", &user_alone)], 200),
        ("/btc", "", &[("authorization", &bad)], 401),
        ("/btc", "", &[("authorization", &bad), ("apikey", &good)], 200),
        ("/btc", "", &[("authorization", &bad), ("x-api-key", &good)], 200),
        ("/btc", "", &[("x-api-key", "wrong"), ("authorization", &password)], 401),
        ("/btc", "", &[("x-api-key", "wrong"), ("apikey", &good)], 200),
        ("/btc?apikey=wrong", "", &[("authorization", &bearer)], 401),
        ("/tron/wallet/getnowblock", "", &[(tron, &good)], 200),
        ("/tron/wallet/getnowblock", "", &[("authorization", &bearer), (tron, "wrong")], 200),
        ("/tron/wallet/getnowblock", "", &[("authorization", &bad), (tron, &good)], 401),
        ("/tron/wallet/getnowblock", &in_query, &[], 401),
        ("/ton/jsonRPC", &in_query, &[], 200),
        ("/ton/jsonRPC", "", &[("x-api-key", &good)], 200),
        ("/ton/jsonRPC", &in_query, &[("authorization", &bad)], 401),
        ("/eth", "", &[(tron, &good)], 401),
    ];
    for (path, query, headers, status) in rows {
        let reply = anonymous.send("POST", &format!("{path}{query}"), headers, BODY).await;
        assert_eq!(reply.status, status, "{path} {headers:?} {reply:?}");
    }
    let log: String = node.seen().iter().map(rpcgate_tests::node::SeenRequest::whole).collect();
    for secret in [&good[5..20], &password[6..20], &user[6..20], "wrong", &bad[6..]] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

// Shows (Keys): A node's requests contain no key (promise 44).
#[tokio::test]
async fn neither_the_key_nor_a_clients_own_credentials_ever_reach_a_node() {
    let (node, gateway, client) = evm().await;
    let k = key("default");
    let escaped: String = k.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let bearer = format!("Bearer {k}");
    let basic = "Basic cnBjOnBsYW50ZWQ=";
    let targets = [
        format!("/eth?apikey={k}"),
        format!("/eth?apikey={escaped}&x={k}"),
        format!("/eth/?{k}=1"),
        format!("/eth?api_key={k}&apikey={k}"),
    ];
    for target in &targets {
        assert_eq!(client.send("POST", target, &[], BODY).await.status, 200, "{target}");
    }
    for (name, value) in [
        ("APIKEY", k.as_str()),
        ("x-api-key", &k),
        ("authorization", &bearer),
        ("authorization", basic),
        ("proxy-authorization", basic),
        ("cookie", &k),
        ("referer", &k),
        ("user-agent", &k),
        ("x-anything", &k),
        ("origin", &k),
        ("via", &k),
        ("x-forwarded-for", "planted"),
        ("forwarded", "for=planted"),
    ] {
        assert_eq!(client.send("POST", "/eth", &[(name, value)], BODY).await.status, 200, "{name}");
    }
    let inside = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"m","apikey":"{k}","auth":{{"key":"{k}"}}}}"#);
    assert_eq!(client.post("eth", inside).await.status, 200);
    let log: String = node.seen().iter().map(rpcgate_tests::node::SeenRequest::whole).collect();
    assert_eq!(node.requests(), 18);
    for secret in [k.as_str(), &escaped, basic, "planted", "cnBjOnBsYW50ZWQ", &k[5..20]] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    assert!(
        node.seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none() && seen.header("apikey").is_none())
    );
    drop(gateway);
}

// Shows (Keys): Hop-by-hop headers do not reach a node.
#[tokio::test]
async fn hop_by_hop_headers_of_a_client_are_not_forwarded() {
    let (node, gateway, _) = evm().await;
    let k = key("default");
    let headers = [
        ("apikey", k.as_str()),
        ("connection", "keep-alive, x-named"),
        ("x-named", "planted"),
        ("keep-alive", "timeout=9"),
        ("te", "trailers"),
        ("trailer", "x-t"),
        ("upgrade", "h2c"),
        ("proxy-connection", "close"),
        ("accept-encoding", "br"),
    ];
    assert_eq!(gateway.anonymous().send("POST", "/eth", &headers, BODY).await.status, 200);
    let seen = node.seen().remove(0);
    for name in ["connection", "x-named", "keep-alive", "te", "trailer", "upgrade", "proxy-connection"] {
        assert!(seen.header(name).is_none(), "{name}: {seen:?}");
    }
    assert_ne!(seen.header("accept-encoding"), Some("br"));
}

// Shows (Keys).
#[tokio::test]
async fn a_node_gets_the_credentials_that_the_operator_configured() {
    let node = Node::utxo().await;
    let settings = r#"user = "rpc", password = "secret", headers = { x-token = "t1" }"#;
    let gateway = Setup::new().node_with("btc", &node.url(), settings).start().await;
    let headers = [("authorization", "Basic bWluZTptaW5l"), ("x-token", "mine")];
    let reply =
        gateway.client().send("POST", "/btc", &headers, br#"{"id":9,"method":"getdifficulty"}"#).await;
    assert_eq!(reply.status, 200);
    let seen = node.seen().remove(0);
    assert_eq!(seen.header("authorization"), Some("Basic cnBjOnNlY3JldA=="));
    assert_eq!(seen.header("x-token"), Some("t1"));
    assert!(!seen.whole().contains("mine"));
}

// Shows (Order of decisions).
// Shows (Keys): A key out of scope gets 403 with the specified message; scopes take aliases.
#[tokio::test]
async fn a_key_out_of_scope_for_a_chain_is_refused_there_and_aliases_name_chains_too() {
    let (_evm, _utxo, gateway) =
        ten(Setup::new().key("narrow", r#"chains = ["ethereum", "btc", "avalanche"]"#)).await;
    let narrow = gateway.client_of("narrow");
    for chain in EVM.iter().chain(&UTXO) {
        let reply = narrow.post(chain, BODY).await;
        if ["eth", "btc", "avax"].contains(chain) {
            assert_eq!(reply.status, 200, "{chain}");
        } else {
            let text = r#"{"message":"API key not permitted for this chain"}"#;
            assert_eq!((reply.status, reply.text().as_str()), (403, text), "{chain}");
            assert!(rated(&reply), "{chain}");
            assert_eq!(
                reply.number("x-ratelimit-remaining-minute")
                    + gateway.records().iter().map(|record| u64::from(record.windowed)).sum::<u64>(),
                1_000
            );
        }
    }
    let refused = gateway.lines().iter().filter(|line| line.method == "-" && line.status == 403).count();
    assert_eq!(refused, 7, "each is one usage call");
}

#[derive(Debug)]
struct Remote {
    known: Arc<Caller>,
}

impl Directory for Remote {
    fn peek(&self, key: &str) -> KeyLookup {
        if key == "known" { KeyLookup::Known(self.known.clone()) } else { KeyLookup::Miss }
    }

    fn fetch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<KeyLookup, Unavailable>> {
        Box::pin(std::future::ready(Err(Unavailable)))
    }
}

// Shows (Keys): While the store is unreachable, known keys work for 24 h and unknown ones get 503 with `Retry-After`,
// never 401.
#[tokio::test]
async fn while_the_store_is_unreachable_known_keys_work_and_others_get_503() {
    let node = Node::evm().await;
    let known = Arc::new(Caller::new(KeyId(1), ProjectId(2), TenantId(3), Plan::of(Tier::Free)));
    let gateway = Setup::of("eth", &node.url()).directory(Arc::new(Remote { known })).start().await;
    assert_eq!(TestClient::new(gateway.addr(), Some("known")).post("eth", BODY).await.status, 200);
    let reply = TestClient::new(gateway.addr(), Some("other")).post("eth", BODY).await;
    assert_eq!(reply.status, 503, "never 401");
    assert!(reply.number("retry-after") >= 1);
    assert_eq!((node.requests(), gateway.records().len()), (1, 1));
}

// Shows (Management): Changes of keys, suspension, weights, quotas and chains take effect at once.
#[tokio::test]
async fn a_change_of_keys_takes_effect_at_once_and_disturbs_no_other_key() {
    let node = Node::evm().await;
    let setup = Setup::of("eth", &node.url()).key("a", "");
    let gateway = setup.start().await;
    let first = gateway.client();
    let a = gateway.client_of("a");
    assert_eq!((first.post("eth", BODY).await.status, a.post("eth", BODY).await.status), (200, 200));
    let revoked = setup.clone().set("keys.a", "revoked = true").key("b", "");
    assert!(gateway.server.reload(revoked.config()).is_ok());
    assert_eq!(a.post("eth", BODY).await.status, 401);
    assert_eq!(gateway.client_of("b").post("eth", BODY).await.status, 200);
    assert_eq!(first.post("eth", BODY).await.status, 200);
}
