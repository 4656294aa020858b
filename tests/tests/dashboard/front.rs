//! A proxy in front of a server: its address is known before the server listens, and it speaks TLS if a test needs it.

use ::ring::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// An address whose connections go to a server that is named later. It closes when dropped.
#[derive(Debug)]
pub(crate) struct Front {
    listener: Option<TcpListener>,
    addr: SocketAddr,
    accepting: Option<AbortHandle>,
}

impl Front {
    pub(crate) async fn bind() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        Front { listener: Some(listener), addr, accepting: None }
    }

    pub(crate) fn port(&self) -> u16 {
        self.addr.port()
    }

    /// Forwards to the server at `target` from now on.
    pub(crate) fn lead(&mut self, target: SocketAddr, certificate: Option<&FrontCertificate>) {
        let listener = self.listener.take().unwrap();
        let tls = certificate.map(FrontCertificate::acceptor);
        let accepting = async move {
            while let Ok((client, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(target).await else { return };
                    // A browser may close early; that is no error.
                    match tls {
                        Some(tls) => {
                            if let Ok(mut client) = tls.accept(client).await {
                                let _ = copy_bidirectional(&mut client, &mut server).await;
                            }
                        }
                        None => {
                            let mut client = client;
                            let _ = copy_bidirectional(&mut client, &mut server).await;
                        }
                    }
                });
            }
        };
        self.accepting = Some(tokio::spawn(accepting).abort_handle());
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

/// A certificate of `localhost`. Only a browser that is given its hash trusts it.
#[derive(Debug)]
pub(crate) struct FrontCertificate {
    private: KeyPair,
}

impl FrontCertificate {
    pub(crate) fn new() -> Self {
        FrontCertificate { private: KeyPair::generate().unwrap() }
    }

    /// Returns the SHA-256 of its public key in base64.
    pub(crate) fn hash(&self) -> String {
        BASE64_STANDARD.encode(digest(&SHA256, &self.private.subject_public_key_info()))
    }

    fn acceptor(&self) -> TlsAcceptor {
        let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        let certificate = params.self_signed(&self.private).unwrap();
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.private.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![certificate.der().clone()], private).unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
