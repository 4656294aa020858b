//! gRPC through the demo's gateway, over TLS with the certificate of its folder.

use super::*;
use http_body_util::Full;
use hyper_util::rt::TokioExecutor;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

/// The status and the message of a call. The client is not tonic, because tonic serves the nodes.
struct Answered {
    status: String,
    message: Vec<u8>,
}

/// Calls `path` at `grpc` of the sheet, trusting its `grpc_ca`.
async fn call_grpc(sheet: &Value, path: &str, key: Option<&str>, message: &[u8]) -> Answered {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(sheet["grpc_ca"].as_str().unwrap()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let url = sheet["grpc"].as_str().unwrap();
    let address = url.strip_prefix("https://").unwrap();
    let name = ServerName::try_from(address.rsplit_once(':').unwrap().0.to_owned()).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let driver = tokio::spawn(connection);

    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0][..], &length, message].concat();
    let request = http::Request::post(format!("{url}{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let request = if let Some(key) = key { request.header("apikey", key) } else { request };
    let request = request.body(Full::new(bytes::Bytes::from(body))).unwrap();
    let (head, body) = sender.send_request(request).await.unwrap().into_parts();
    assert_eq!(head.status, 200, "every answer of gRPC has this status");
    let body = body.collect().await.unwrap();
    let status = body.trailers().and_then(|trailers| trailers.get("grpc-status")).cloned();
    let status = status.or_else(|| head.headers.get("grpc-status").cloned()).expect("a status");
    driver.abort();
    Answered {
        status: status.to_str().unwrap().to_owned(),
        message: body.to_bytes().get(5..).unwrap_or_default().to_vec(),
    }
}

const NEWEST: &str = "/protocol.Wallet/GetNowBlock";

// Shows (Commands and configuration): The demo serves gRPC over TLS; its certificate is kept until it nears its end,
// `grpc_ca` makes it trusted, and the printed command can be pasted.
#[tokio::test]
async fn calls_reach_the_simulated_chains_over_tls() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(&home.path().join("demo"))).await;
    let sheet = sheet(&demo);
    let key = sheet["api_key"].as_str();
    assert_eq!(sheet["grpc"], format!("https://{}", demo.grpc().unwrap()));
    let mut same = rpcgate_simulate::node("tron", DemoState::open(&demo.dir).unwrap().seed).unwrap();
    let expected = same.handle_grpc(NEWEST, b"", NOW).unwrap();
    let newest = call_grpc(&sheet, NEWEST, key, b"").await;
    assert_eq!((newest.status.as_str(), newest.message), ("0", expected));
    let supply = call_grpc(&sheet, "/cosmos.bank.v1beta1.Query/SupplyOf", key, b"\x0a\x05uatom").await;
    assert!(supply.status == "0" && !supply.message.is_empty());
    for (path, key, status) in [
        (NEWEST, None, "16"),
        ("/nowhere.v1.Nothing/One", key, "12"),
        ("/protocol.Wallet/GetNothing", key, "12"),
    ] {
        assert_eq!(call_grpc(&sheet, path, key, b"").await.status, status, "{path}");
    }
    let refused = call_grpc(&sheet, "/cosmos.bank.v1beta1.Query/SupplyOf", key, b"").await;
    assert_eq!(refused.status, "3", "a node's status passes");
    demo.stop().await;
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_second_start_has_the_same_certificate_and_files_for_command_lines() {
    let home = tempfile::tempdir().unwrap();
    let options = options(&home.path().join("demo"));
    let certificate = |demo: &Demo| std::fs::read(sheet(demo)["grpc_ca"].as_str().unwrap()).unwrap();
    let demo = start(&options).await;
    let first = certificate(&demo);
    for chain in ["tron", "cosmos"] {
        let file = demo.dir.file(&format!("{chain}.protoset"));
        assert_eq!(
            std::fs::read(file).unwrap(),
            rpcgate_simulate::grpc_descriptors(chain).unwrap(),
            "{chain}"
        );
    }
    let authority = sheet(&demo)["grpc_ca"].as_str().unwrap().to_owned();
    let address = demo.grpc().unwrap().to_string();
    let welcome = demo.welcome();
    let lines: Vec<_> = welcome.lines().filter(|line| line.starts_with("grpcurl ")).map(words).collect();
    assert_eq!(lines.len(), 2, "{welcome}");
    for line in lines {
        assert!(line.contains(&authority) && line.contains(&address), "{line:?}");
        assert!(Path::new(&line[line.iter().position(|word| word == "-protoset").unwrap() + 1]).exists());
    }
    demo.stop().await;
    let demo = start(&options).await;
    assert_eq!(certificate(&demo), first);
    let sheet = sheet(&demo);
    assert_eq!(call_grpc(&sheet, NEWEST, sheet["api_key"].as_str(), b"").await.status, "0");
    demo.stop().await;
}

// Shows (Commands and configuration): The demo serves reflection, and the certificate of `admin.tls`.
#[tokio::test]
async fn reflection_describes_the_services_of_all_chains_to_callers_with_a_key() {
    let home = tempfile::tempdir().unwrap();
    let demo = start(&options(&home.path().join("demo"))).await;
    let sheet = sheet(&demo);
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let key = sheet["api_key"].as_str();
    // Field 7 lists the services.
    let listed = call_grpc(&sheet, path, key, b"\x3a\x00").await;
    let names = String::from_utf8_lossy(&listed.message).into_owned();
    for service in ["protocol.Wallet", "cosmos.bank.v1beta1.Query", "grpc.health.v1.Health"] {
        assert!(listed.status == "0" && names.contains(service), "{names}");
    }
    assert_eq!(call_grpc(&sheet, path, None, b"\x3a\x00").await.status, "16");
    demo.stop().await;
}
