//! The Autobahn test suite, if its `wstest` is installed (`pip install autobahntestsuite`, for Python 2.7).

use crate::conformance::Suite;
use crate::stream::target;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

/// Sections 1 to 7, 9 and 10. The others are about compression, which the gateway declines.
const CASES: [&str; 9] = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"];

// Shows (Hostile and odd traffic).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Autobahn: the command line of wstest in RPCGATE_WSTEST"]
async fn the_autobahn_test_suite_finds_no_failure() {
    let command = std::env::var("RPCGATE_WSTEST").expect("RPCGATE_WSTEST is the command line of wstest");
    let suite = Suite::start().await;
    let dir = tempfile::tempdir().unwrap();
    let url = format!("ws://{}{}", suite.addr(), target("default"));
    let spec = json!({
        "outdir": dir.path(),
        "servers": [{ "agent": "rpcgate", "url": url, "options": { "version": 18 } }],
        "cases": CASES,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let spec_file = dir.path().join("fuzzingclient.json");
    std::fs::write(&spec_file, spec.to_string()).unwrap();
    let mut words = command.split_whitespace().map(str::to_owned);
    let mut wstest = Command::new(words.next().unwrap());
    wstest.args(words).args(["-m", "fuzzingclient", "-s"]).arg(&spec_file).current_dir(dir.path());
    let output = tokio::task::spawn_blocking(move || wstest.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let index: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("index.json")).unwrap()).unwrap();
    let cases = index["rpcgate"].as_object().unwrap();
    let (mut counts, mut failures) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (number, case) in cases {
        for kind in ["behavior", "behaviorClose"] {
            let outcome = case[kind].as_str().unwrap_or_default();
            *counts.entry(format!("{kind} {outcome}")).or_default() += 1;
            if !["OK", "NON-STRICT", "INFORMATIONAL"].contains(&outcome) {
                failures.push(format!("{number}: {kind} {outcome}"));
            }
        }
    }
    #[expect(clippy::print_stdout, reason = "the suite's own report is gone with its folder")]
    {
        println!("{} cases: {counts:?}", cases.len());
    }
    assert!(cases.len() > 290, "{} cases ran", cases.len());
    assert!(failures.is_empty(), "{failures:#?}");
}
