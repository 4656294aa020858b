//! Reflection, as a tool requests it.

use crate::node::Simulated;
use crate::wire::{Site, keyed};
use rpcgate_server::Gateway;
use rpcgate_tests::gateway::Setup;
use tonic::{Code, Request, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

fn setup(node: &Simulated) -> Setup {
    Setup::new().set("chains.tron", &format!("nodes = [\"{}\"]", node.url))
}

type Questions = futures_util::stream::Iter<std::array::IntoIter<ServerReflectionRequest, 1>>;

async fn asked(
    site: &Site,
    question: MessageRequest,
    wrap: fn(Questions) -> Request<Questions>,
) -> Result<MessageResponse, Status> {
    let mut client = ServerReflectionClient::new(site.channel(site.grpc()).await);
    let question = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut answers =
        client.server_reflection_info(wrap(futures_util::stream::iter([question]))).await?.into_inner();
    Ok(answers.message().await?.unwrap().message_response.unwrap())
}

fn services(answer: MessageResponse) -> Vec<String> {
    let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
    list.service.into_iter().map(|service| service.name).collect()
}

const LIST: MessageRequest = MessageRequest::ListServices(String::new());

// Shows (Streams).
#[tokio::test]
async fn reflection_is_off_unless_it_is_configured() {
    let node = Simulated::of("tron");
    let site = Site::new(setup(&node)).await;
    assert_eq!(asked(&site, LIST, keyed).await.unwrap_err().code(), Code::Unimplemented);
}

// Shows (Streams): gRPC reflection is served where configured, with a key, else it ends with 12.
#[tokio::test]
async fn reflection_describes_health_and_the_configured_descriptors_to_callers_with_a_key() {
    let node = Simulated::of("tron");
    let on = |setup: Setup| setup.set("gateway", "grpc_reflection = true");
    let site = Site::new(on(setup(&node))).await;
    let names = services(asked(&site, LIST, keyed).await.unwrap());
    assert_eq!(names, ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"]);
    assert_eq!(asked(&site, LIST, Request::new).await.unwrap_err().code(), Code::Unauthenticated);
    assert!(site.gateway.records().is_empty());

    let files = tempfile::tempdir().unwrap();
    let descriptors = files.path().join("tron.protoset");
    std::fs::write(&descriptors, rpcgate_simulate::grpc_descriptors("tron").unwrap()).unwrap();
    let described = on(setup(&node)).set("gateway", &format!("grpc_descriptors = {descriptors:?}"));
    let site = Site::new(described.clone()).await;
    assert!(services(asked(&site, LIST, keyed).await.unwrap()).contains(&"protocol.Wallet".to_owned()));
    let symbol = MessageRequest::FileContainingSymbol("protocol.Wallet.GetNowBlock".into());
    let MessageResponse::FileDescriptorResponse(file) = asked(&site, symbol, keyed).await.unwrap() else {
        panic!("a file")
    };
    assert!(String::from_utf8_lossy(&file.file_descriptor_proto[0]).contains("GetNowBlock"));

    std::fs::write(&descriptors, b"no descriptors").unwrap();
    let error = Gateway::start(described.config(), Default::default()).await.unwrap_err();
    assert!(error.is_configuration() && error.to_string().starts_with("gateway.grpc_descriptors"), "{error}");
}

// Shows (Streams).
#[tokio::test]
async fn calls_of_reflection_count_in_the_windows_of_the_plan() {
    let node = Simulated::of("tron");
    let site = Site::new(setup(&node).set("gateway", "grpc_reflection = true").plan("free")).await;
    for _ in 0..10 {
        asked(&site, LIST, keyed).await.unwrap();
    }
    assert_eq!(asked(&site, LIST, keyed).await.unwrap_err().code(), Code::ResourceExhausted);
}
