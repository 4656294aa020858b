//! A certificate for a gateway of the tests.

#![expect(clippy::unwrap_used, reason = "a certificate of the tests that cannot be made fails its test")]

use crate::gateway::Setup;
use std::path::PathBuf;
use tempfile::TempDir;

/// A self-signed certificate of `localhost`, with its private key in files.
#[derive(Debug)]
pub struct TestCertificate {
    /// The certificate, for clients to trust.
    pub pem: String,
    files: TempDir,
}

impl Default for TestCertificate {
    fn default() -> Self {
        Self::new()
    }
}

impl TestCertificate {
    /// Creates a certificate.
    pub fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let private = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        let pem = params.self_signed(&private).unwrap().pem();
        std::fs::write(files.path().join("cert.pem"), &pem).unwrap();
        std::fs::write(files.path().join("key.pem"), private.serialize_pem()).unwrap();
        TestCertificate { pem, files }
    }

    /// Returns the files of the certificate and its key.
    pub fn files(&self) -> [PathBuf; 2] {
        ["cert.pem", "key.pem"].map(|name| self.files.path().join(name))
    }

    /// Serves TLS with the certificate, also at the gRPC address.
    #[must_use]
    pub fn used_by(&self, setup: Setup) -> Setup {
        let cert = self.files.path().join("cert.pem");
        let secret = self.files.path().join("key.pem");
        setup
            .set("gateway", "grpc_listen = \"127.0.0.1:0\"")
            .set("gateway.tls", &format!("cert = {cert:?}"))
            .set("gateway.tls", &format!("key = {secret:?}"))
    }
}
