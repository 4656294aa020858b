use super::super::examination::tests::{examination, only};
use super::super::finding::Verdict;
use super::*;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Runs a node that answers any number of calls with the result of the first of these methods that the call names.
async fn node(results: &'static [(&'static str, &'static str)]) -> SocketAddr {
    dated(results, "").await
}

/// The same, with this header line in its answers.
async fn dated(results: &'static [(&'static str, &'static str)], line: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let mut read = 0;
                while !request[..read].ends_with(b"}") {
                    let more = socket.read(&mut request[read..]).await.unwrap_or_default();
                    if more == 0 {
                        return;
                    }
                    read += more;
                }
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                let known = results.iter().find(|(method, _)| request.contains(&format!("\"{method}\"")));
                let body = match known {
                    Some((_, result)) => format!(r#"{{"jsonrpc":"2.0","result":{result}}}"#),
                    None => r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no such method"}}"#.into(),
                };
                let head = format!(
                    "HTTP/1.1 200 OK\r\n{line}connection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
            });
        }
    });
    addr
}

const MAIN: &[(&str, &str)] = &[("eth_blockNumber", "\"0x64\""), ("eth_chainId", "\"0x1\"")];

async fn found(nodes: &[String]) -> Vec<Finding> {
    check(&examination(&format!("[chains.eth]\nnodes = {nodes:?}\n"))).await
}

fn http(addr: SocketAddr) -> String {
    format!("http://{addr}")
}

#[tokio::test]
async fn synced_nodes_of_the_network_have_no_finding() {
    let nodes = [http(node(MAIN).await), http(node(MAIN).await)];
    let findings = found(&nodes).await;
    assert!(findings.iter().all(|finding| finding.verdict == Verdict::Ok), "{findings:?}");
    assert!(findings[0].text.starts_with("at height 100 of the right network"), "{findings:?}");
    assert_eq!(findings[2].text, "2 of 2 nodes are healthy, heights 100 to 100, 0 apart");
}

// Shows (Nodes and cache): A node of another network is recognised for every chain.
#[tokio::test]
async fn a_node_of_another_network_is_a_failure_and_its_height_does_not_count() {
    const TEST: &[(&str, &str)] = &[("eth_blockNumber", "\"0xffffff\""), ("eth_chainId", "\"0xaa36a7\"")];
    let findings = found(&[http(node(MAIN).await), http(node(TEST).await)]).await;
    let verdicts: Vec<_> = findings.iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Verdict::Ok, Verdict::Failure, Verdict::Ok], "{findings:?}");
    assert!(findings[1].text.contains("shows \"11155111\", Ethereum \"1\""), "{findings:?}");
    assert!(findings[1].advice.as_ref().unwrap().contains("remove it from chains.eth.nodes"), "{findings:?}");
    assert!(findings[2].text.starts_with("1 of 2 nodes are healthy, heights 100 to 100"), "{findings:?}");
}

#[tokio::test]
async fn a_node_of_the_named_or_of_any_network_has_no_finding() {
    const TEST: &[(&str, &str)] = &[("eth_blockNumber", "\"0xff\""), ("eth_chainId", "\"0xaa36a7\"")];
    let node = http(node(TEST).await);
    for (network, words) in [("any", "of any network"), ("11155111", "of the right network")] {
        let text = format!("[chains.eth]\nnetwork = \"{network}\"\nnodes = [\"{node}\"]\n");
        let findings = check(&examination(&text)).await;
        assert_eq!(findings[0].verdict, Verdict::Ok, "{findings:?}");
        assert!(findings[0].text.contains(words), "{findings:?}");
    }
    let text = format!("[chains.eth]\nnetwork = \"5\"\nnodes = [\"{node}\"]\n");
    assert_eq!(check(&examination(&text)).await[0].verdict, Verdict::Failure);
}

#[tokio::test]
async fn an_unreachable_node_or_a_server_that_is_no_node_is_a_failure_with_advice() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let foreign = node(&[("eth_blockNumber", "\"hello\"")]).await;
    let refusing = node(&[("eth_chainId", "\"0x1\"")]).await;
    let findings = found(&[closed, foreign, refusing].map(|addr| format!("http://u:hunter2@{addr}"))).await;
    let texts = [
        "cannot be asked: no connection to the node: connection refused",
        "not that of a node of Ethereum",
        "no such method",
    ];
    for (finding, text) in findings.iter().zip(texts) {
        assert!(finding.verdict == Verdict::Failure && finding.text.contains(text), "{finding}");
        assert!(finding.advice.is_some() && !finding.to_string().contains("hunter2"), "{finding}");
    }
    assert_eq!(findings[3].verdict, Verdict::Failure);
    assert!(findings[3].text.starts_with("0 of 3 nodes are healthy"), "{findings:?}");
}

#[tokio::test]
async fn nodes_that_are_behind_or_hide_their_network_are_warned_about() {
    const BEHIND: &[(&str, &str)] = &[("eth_blockNumber", "\"0x20\""), ("eth_chainId", "\"0x1\"")];
    const AT_NOTHING: &[(&str, &str)] = &[("eth_blockNumber", "\"0x0\""), ("eth_chainId", "\"0x1\"")];
    const NAMELESS: &[(&str, &str)] = &[("eth_blockNumber", "\"0x64\"")];
    const LYING: &[(&str, &str)] = &[("eth_blockNumber", "\"0x999999\""), ("eth_chainId", "\"0x1\"")];
    let mut nodes = Vec::new();
    for results in [MAIN, BEHIND, AT_NOTHING, NAMELESS, LYING] {
        nodes.push(http(node(results).await));
    }
    let findings = found(&nodes).await;
    let expected = [
        (Verdict::Ok, "at height 100"),
        (Verdict::Warning, "68 blocks behind the other nodes, at height 32"),
        (Verdict::Warning, "has not caught up: it is at height 0"),
        (Verdict::Warning, "its network is unknown: the node refuses: -32601"),
        (Verdict::Ok, "at height 10066329"),
        (Verdict::Ok, "3 of 5 nodes are healthy, heights 0 to 10066329"),
    ];
    for (finding, (verdict, text)) in findings.iter().zip(expected) {
        assert!(finding.verdict == verdict && finding.text.contains(text), "{finding}");
    }
}

// Shows (Commands and configuration).
#[tokio::test]
async fn every_address_of_a_node_is_reached_for() {
    let http = node(MAIN).await;
    let stream = node(MAIN).await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let findings_of = |line: String| async move {
        check(&examination(&format!("[[chains.eth.nodes]]\nurl = \"http://{http}\"\n{line}"))).await
    };
    let findings = findings_of(format!("ws = \"ws://{closed}\"\n")).await;
    let text = "its WebSocket address: no connection to the node: connection refused";
    assert!(findings[0].verdict == Verdict::Failure && findings[0].text == text, "{findings:?}");
    let findings = findings_of(format!("grpc = \"grpc://{closed}\"\n")).await;
    assert!(findings[0].verdict == Verdict::Failure && findings[0].text.starts_with("its gRPC address: "));
    assert_eq!(findings_of(format!("grpc = \"grpc://{stream}\"\n")).await[0].verdict, Verdict::Ok);
}

#[tokio::test]
async fn a_node_with_a_wrong_clock_is_warned_about() {
    let findings = found(&[http(dated(MAIN, "date: Thu, 31 Dec 2020 12:00:00 GMT\r\n").await)]).await;
    let clock = findings.iter().find(|finding| finding.check == CheckGroup::Clocks).unwrap();
    assert!(
        clock.verdict == Verdict::Warning && clock.subject.starts_with("eth http://127.0.0.1"),
        "{clock}"
    );
    assert!(
        !found(&[http(node(MAIN).await)]).await.iter().any(|finding| finding.check == CheckGroup::Clocks)
    );
}

#[tokio::test]
async fn a_configuration_without_nodes_is_warned_about() {
    for text in ["", "[chains.eth]\nenabled = false\nnodes = [\"http://127.0.0.1:1\"]\n"] {
        assert_eq!(only(&check(&examination(text)).await).verdict, Verdict::Warning, "{text}");
    }
}
