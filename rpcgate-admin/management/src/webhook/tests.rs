//! Signatures compared with those of an independent implementation, and the documentation's examples run against the
//! same values.

#[expect(unreachable_pub, reason = "an example is public where it is used")]
mod receiver;

use super::request::headers;
use super::signature::{
    SEALED_NEXT_SECRET, SEALED_SECRET, SigningSecrets, holds, signature, standard_signatures,
};
use crate::identity::sealing::{SealedFor, Sealing};
use rpcgate_core::caller::{ProjectId, TenantId};
use rpcgate_core::clock::Time;
use rpcgate_store::{ChainEventId, DeliveryId, DueDelivery, Webhook, WebhookId};
use serde_json::Value;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const NOON: Time = Time::from_secs(1_798_718_400);
const VECTORS: &str = include_str!("../../../../docs/webhook-vectors.json");
const DOCUMENT: &str = include_str!("../../../../docs/webhooks.md");

pub(crate) fn delivery(id: u128) -> DueDelivery {
    let webhook = Webhook {
        id: WebhookId(1),
        project: ProjectId(2),
        url: "http://receiver.example/".into(),
        secret: Vec::new(),
        next_secret: None,
        active: true,
        standard_headers: false,
        failing_since: None,
        disabled_at: None,
        created_at: NOON,
        updated_at: NOON,
    };
    DueDelivery {
        id: DeliveryId(id),
        webhook: Arc::new(webhook),
        tenant: TenantId(4),
        event: ChainEventId(3),
        body: b"{}"[..].into(),
        replay: false,
        attempts: 0,
        created_at: NOON,
        due_at: NOON,
        leased_until: NOON.plus(Duration::from_secs(30)),
    }
}

fn vectors() -> Vec<Value> {
    let vectors: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    assert!(vectors.len() >= 6);
    vectors
}

fn text<'v>(vector: &'v Value, name: &str) -> &'v str {
    vector[name].as_str().unwrap()
}

// Shows (Webhook delivery): Signatures are over the exact bytes, checked by another implementation; the examples of the
// documentation verify them (promise 54).
#[test]
fn signatures_are_those_of_another_implementation() {
    let mut long = false;
    let mut foreign = false;
    let mut large = false;
    for vector in vectors() {
        let secret = text(&vector, "secret").as_bytes();
        let body = text(&vector, "body");
        assert_eq!(signature(secret, body.as_bytes()), vector["x_signature"], "{}", vector["name"]);
        assert!(holds(secret, body.as_bytes(), text(&vector, "x_signature")));
        assert!(!holds(secret, format!("{body} ").as_bytes(), text(&vector, "x_signature")));
        let seconds = text(&vector, "webhook_timestamp").parse().unwrap();
        let standard = standard_signatures(secret, text(&vector, "webhook_id"), seconds, body.as_bytes());
        assert_eq!(standard, vector["webhook_signature"], "{}", vector["name"]);
        long |= body.len() > 20 << 10;
        foreign |= !body.is_ascii();
        large |= body.contains("18446744073709551615");
    }
    assert!(long && foreign && large);
}

// Shows (Webhook delivery).
#[test]
fn a_test_vector_of_standard_webhooks_verifies() {
    // From the test of the reference implementation: the secret as its libraries take it, and the same bytes in
    // hexadecimal digits, as ours are shown.
    let keys = ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0"];
    for (key, number) in keys.into_iter().zip([0, 1]) {
        let made = standard_signatures(
            format!("whsec_{key}").as_bytes(),
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(made.split(' ').nth(number), Some(expected), "{made}");
    }
}

// Shows (Webhooks): The shown secret works in libraries of Standard Webhooks.
#[test]
fn a_secret_as_it_is_shown_verifies_as_the_libraries_of_standard_webhooks_read_it() {
    use base64::Engine;
    let secret = "whsec_9aa1ca7c6d9f91a868e07d7813fb6ccc702b39edab0e04dc3d164a28de41572a";
    let made = standard_signatures(secret.as_bytes(), "id", 7, b"{}");
    let decode = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    // The same steps as such a library: https://github.com/standard-webhooks/standard-webhooks/tree/main/libraries
    let verifies = |secret: &str| {
        let key = decode(secret.strip_prefix("whsec_").unwrap());
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
        let versions = made.split(' ').map(|one| one.split_once(',').unwrap());
        versions
            .filter(|(version, _)| *version == "v1")
            .any(|(_, tag)| ring::hmac::verify(&key, b"id.7.{}", &decode(tag)).is_ok())
    };
    assert!(verifies(secret), "{made}");
    let bytes = hex::decode(&secret[6..]).unwrap();
    let before = format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(bytes));
    assert!(verifies(&before), "receivers that were given the other form keep working: {made}");
    assert!(!verifies("whsec_AAAA"));
}

// Shows (Webhook delivery).
#[test]
fn while_two_secrets_are_in_force_both_sign_and_then_the_next_one_alone() {
    let sealing = Sealing::new(&[7; 32]);
    let old = b"whsec_00".to_vec();
    let new = b"whsec_11".to_vec();
    let seal = |table, secret: &[u8]| sealing.seal(SealedFor { table, row: 1 }, secret).unwrap();
    let alone = NOON.plus(Duration::from_secs(3_600));
    let mut sent = delivery(7);
    let webhook = Webhook {
        secret: seal(SEALED_SECRET, &old),
        next_secret: Some((seal(SEALED_NEXT_SECRET, &new), alone)),
        standard_headers: true,
        ..(*sent.webhook).clone()
    };
    sent.webhook = Arc::new(webhook);
    sent.replay = true;
    let at = |now| {
        let secrets = SigningSecrets::of(&sent.webhook, &sealing, now).unwrap();
        assert!(!format!("{secrets:?}").contains("whsec"));
        headers(&sent, 3, &secrets, now)
    };
    let during = at(NOON);
    assert_eq!(during["x-signature"], signature(&old, b"{}"));
    assert_eq!(during["x-signature-next"], signature(&new, b"{}"));
    let id = DeliveryId(7).to_string();
    let standard = |secret| standard_signatures(secret, &id, NOON.secs(), b"{}");
    assert_eq!(during["webhook-signature"], format!("{} {}", standard(&old), standard(&new)));
    assert_eq!(during["webhook-id"], id);
    assert_eq!(during["x-delivery-id"], id);
    assert_eq!(during["webhook-timestamp"], NOON.secs().to_string());
    assert_eq!(during["x-delivery-attempt"], "3");
    assert_eq!(during["x-replay"], "true");
    let after = at(alone);
    assert_eq!(after["x-signature"], signature(&new, b"{}"));
    assert!(after.get("x-signature-next").is_none());
    let alone_signed = standard_signatures(&new, &id, alone.secs(), b"{}");
    assert_eq!(after["webhook-signature"], alone_signed);
}

// Shows (Webhooks).
#[test]
fn a_delivery_has_the_headers_of_the_documentation_and_no_others() {
    let secrets = SigningSecrets { first: b"whsec_00".to_vec(), next: None };
    let plain = headers(&delivery(7), 1, &secrets, NOON);
    let mut names: Vec<_> = plain.keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-type", "user-agent", "x-delivery-attempt", "x-delivery-id", "x-signature"]);
    assert_eq!(plain["content-type"], "application/json");
    assert_eq!(plain["user-agent"], concat!("rpcgate-webhooks/", env!("CARGO_PKG_VERSION")));
    for name in [
        "X-Signature",
        "X-Signature-Next",
        "X-Delivery-Id",
        "X-Delivery-Attempt",
        "X-Replay",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    ] {
        assert!(DOCUMENT.contains(&format!("| `{name}` |")), "{name}");
    }
}

fn example(language: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("```{language}\n")).unwrap();
    let (example, rest) = rest.split_once("```\n").unwrap();
    assert!(!rest.contains(&format!("```{language}\n")), "there is one example in each language");
    example
}

/// Runs an example together with a program that reads the vectors. The run fails if a valid signature is refused or a
/// wrong one is accepted.
fn run(program: &str, file: &str, text: &str, arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("vectors.json"), VECTORS).unwrap();
    std::fs::write(folder.path().join(file), text).unwrap();
    std::fs::write(folder.path().join("go.mod"), "module receiver\n").unwrap();
    let done = Command::new(program).args(arguments).current_dir(folder.path()).output().unwrap();
    let output =
        format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && output.contains("held: 6"), "{output}");
}

// Shows (Webhook delivery).
#[test]
#[cfg_attr(not(have_python), ignore = "needs python3")]
fn the_example_in_python_verifies_the_vectors() {
    let program = r#"

import json

held = 0
for one in json.load(open("vectors.json", encoding="utf-8")):
    body = one["body"].encode()
    assert is_genuine(one["secret"], body, one["x_signature"]), one["name"]
    assert not is_genuine(one["secret"], body + b" ", one["x_signature"])
    assert not is_genuine(one["secret"] + "0", body, one["x_signature"])
    for wrong in ["", "sha256=", one["x_signature"][:-1], one["x_signature"].upper(), "\u00e4"]:
        assert not is_genuine(one["secret"], body, wrong)
    held += 1
print("held:", held)
"#;
    run("python3", "receiver.py", &format!("{}{program}", example("python")), &["receiver.py"]);
}

// Shows (Webhook delivery).
#[test]
#[cfg_attr(not(have_node), ignore = "needs Node.js")]
fn the_example_in_javascript_verifies_the_vectors() {
    let program = r#"
const assert = require("node:assert");
let held = 0;
for (const one of JSON.parse(require("node:fs").readFileSync("vectors.json", "utf8"))) {
  const body = Buffer.from(one.body, "utf8");
  assert(isGenuine(one.secret, body, one.x_signature), one.name);
  assert(!isGenuine(one.secret, Buffer.concat([body, Buffer.from(" ")]), one.x_signature));
  assert(!isGenuine(one.secret + "0", body, one.x_signature));
  for (const wrong of ["", "sha256=", one.x_signature.slice(0, -1), one.x_signature.toUpperCase(), "ä"]) {
    assert(!isGenuine(one.secret, body, wrong));
  }
  held += 1;
}
console.log("held:", held);
"#;
    run("node", "receiver.js", &format!("{}{program}", example("javascript")), &["receiver.js"]);
}

// Shows (Webhook delivery).
#[test]
#[cfg_attr(not(have_go), ignore = "needs Go")]
fn the_example_in_go_verifies_the_vectors() {
    let program = r#"
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Name, Secret, Body, X_signature string }
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, one := range vectors {
		body := []byte(one.Body)
		wrong := IsGenuine(one.Secret, append(body, ' '), one.X_signature) || IsGenuine(one.Secret, body, "")
		if !IsGenuine(one.Secret, body, one.X_signature) || wrong {
			t.Fatal(one.Name)
		}
		held += 1
	}
	fmt.Println("held:", held)
}
"#;
    let imports = "\t\"encoding/hex\"\n\t\"encoding/json\"\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n";
    let example = example("go").replace("\t\"encoding/hex\"\n", imports);
    run("go", "receiver_test.go", &format!("{example}{program}"), &["test", "-v", "./..."]);
}

// Shows (Webhook delivery).
#[test]
fn the_example_in_rust_verifies_the_vectors() {
    assert_eq!(
        example("rust"),
        include_str!("tests/receiver.rs"),
        "what is compiled here is what is documented"
    );
    for vector in vectors() {
        let secret = text(&vector, "secret");
        let body = text(&vector, "body").as_bytes();
        let signature = text(&vector, "x_signature");
        assert!(receiver::is_genuine(secret, body, signature), "{}", vector["name"]);
        assert!(!receiver::is_genuine(secret, &[body, b" "].concat(), signature));
        assert!(!receiver::is_genuine(&format!("{secret}0"), body, signature));
        for wrong in ["", "sha256=", &signature[..signature.len() - 1], "ä"] {
            assert!(!receiver::is_genuine(secret, body, wrong));
        }
    }
}
