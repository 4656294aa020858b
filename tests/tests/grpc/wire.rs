//! A gateway with its own certificate, and a client whose messages are bytes.

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use rpcgate_tests::certificate::TestCertificate;
use rpcgate_tests::gateway::{Setup, TestGateway, key};
use std::net::SocketAddr;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status};

/// The method for the newest block of TRON.
pub(crate) const NEWEST: &str = "/protocol.Wallet/GetNowBlock";

/// A codec that passes messages unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}

pub(crate) struct Site {
    pub(crate) gateway: TestGateway,
    certificate: TestCertificate,
}

impl Site {
    pub(crate) async fn new(setup: Setup) -> Self {
        let certificate = TestCertificate::new();
        let gateway = certificate.used_by(setup).start().await;
        Site { gateway, certificate }
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.gateway.server.grpc_addr().unwrap()
    }

    pub(crate) async fn connect(&self, addr: SocketAddr) -> Client {
        Client(Grpc::new(self.channel(addr).await))
    }

    pub(crate) async fn channel(&self, addr: SocketAddr) -> Channel {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.certificate.pem))
            .domain_name("localhost");
        let endpoint = Endpoint::from_shared(format!("https://{addr}")).unwrap().tls_config(tls).unwrap();
        endpoint.connect().await.unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        self.connect(self.grpc()).await
    }
}

#[derive(Clone)]
pub(crate) struct Client(pub(crate) Grpc<Channel>);

/// Returns a request with the key of the tests.
pub(crate) fn keyed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("apikey", key("default").parse().unwrap());
    request
}

impl Client {
    pub(crate) async fn send(
        &mut self,
        path: &'static str,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Bytes>, Status> {
        self.0.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        self.0.unary(request, PathAndQuery::from_static(path), Raw).await
    }

    pub(crate) async fn unary(&mut self, path: &'static str, message: &[u8]) -> Result<Bytes, Status> {
        Ok(self.send(path, keyed(message.to_vec())).await?.into_inner())
    }
}
