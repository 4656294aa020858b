//! `[gateway]`: listeners, limits and buffers of the gateway.

use super::fields::{Fields, Table};
use super::overload::OverloadSettings;
use super::problem::Problem;
use super::secret::{MOST_FORMER, Secret};
use super::units::{DAY, GIB, HOUR, KIB, MIB, MILLI, SECOND};
use super::ws::WsSettings;
use ipnet::IpNet;
use rpcgate_core::secret::KeyForge;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `[gateway]`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// The address for HTTP and WebSocket.
    pub listen: SocketAddr,
    /// A second address that serves everything over TLS, mainly gRPC; none by default.
    pub grpc_listen: Option<SocketAddr>,
    /// Accepts HTTP/2 without TLS at `listen`, from clients with prior knowledge.
    pub h2c: bool,
    /// Serves gRPC reflection to callers with a key.
    pub grpc_reflection: bool,
    /// A `google.protobuf.FileDescriptorSet` for reflection from `protoc --include_imports --descriptor_set_out`, in
    /// addition to the gateway's own health service.
    pub grpc_descriptors: Option<PathBuf>,
    /// Peers whose `X-Forwarded-For` the management side trusts. For the gateway, client addresses do not matter.
    pub trusted_proxies: Vec<IpNet>,
    /// Peers whose connections begin with a PROXY protocol header, which contains the client's address.
    pub proxy_protocol: Vec<IpNet>,
    /// The secret of the checksum in every API key. Both binaries need the same one.
    pub key_secret: Option<Secret>,
    /// Former secrets whose keys are still accepted, the most recent first.
    pub former_key_secrets: Vec<Secret>,
    /// The bytes of a node's answer that are buffered and checked before the rest is streamed.
    pub reply_buffer: u64,
    /// The maximum total size of the answers of one batch, in bytes.
    pub reply_max: u64,
    /// The maximum size of a streamed answer in bytes. Beyond it, the client's connection is cut.
    pub reply_stream_max: u64,
    /// The time limit of a streamed answer, from its first byte to its last.
    pub reply_stream_timeout: Duration,
    /// The number of recent requests that can be explained; 0 for none.
    pub explain_requests: u32,
    /// Certificate and key.
    pub tls: Tls,
    /// Limits of requests.
    pub limits: LimitSettings,
    /// Overload control of chains.
    pub overload: OverloadSettings,
    /// WebSocket streams.
    pub ws: WsSettings,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        GatewaySettings {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            grpc_listen: None,
            h2c: false,
            grpc_reflection: false,
            grpc_descriptors: None,
            trusted_proxies: Vec::new(),
            proxy_protocol: Vec::new(),
            key_secret: None,
            former_key_secrets: Vec::new(),
            reply_buffer: 256 * KIB,
            reply_max: 64 * MIB,
            reply_stream_max: 4 * GIB,
            reply_stream_timeout: 900 * SECOND,
            explain_requests: 65_536,
            tls: Tls::default(),
            limits: LimitSettings::default(),
            overload: OverloadSettings::default(),
            ws: WsSettings::default(),
        }
    }
}

impl GatewaySettings {
    /// Returns a forge with the configured secrets; `None` without `key_secret`.
    pub fn key_forge(&self) -> Option<KeyForge> {
        let former = self.former_key_secrets.iter().map(|secret| secret.expose().as_bytes());
        self.key_secret.as_ref().map(|secret| KeyForge::new(secret.expose().as_bytes()).accepting(former))
    }
}

impl Table for GatewaySettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("listen", &mut self.listen);
        f.value("grpc_listen", &mut self.grpc_listen);
        f.value("h2c", &mut self.h2c);
        f.value("grpc_reflection", &mut self.grpc_reflection);
        f.value("grpc_descriptors", &mut self.grpc_descriptors);
        f.value("trusted_proxies", &mut self.trusted_proxies);
        f.value("proxy_protocol", &mut self.proxy_protocol);
        f.secret("key_secret", &mut self.key_secret, 16);
        f.secrets("former_key_secrets", &mut self.former_key_secrets, 16, MOST_FORMER);
        f.size("reply_buffer", &mut self.reply_buffer, KIB..=GIB);
        f.size("reply_max", &mut self.reply_max, KIB..=16 * GIB);
        f.size("reply_stream_max", &mut self.reply_stream_max, KIB..=1024 * GIB);
        f.duration("reply_stream_timeout", &mut self.reply_stream_timeout, SECOND..=DAY);
        f.number("explain_requests", &mut self.explain_requests, 0..=10_000_000);
        f.table("tls", &mut self.tls);
        f.table("limits", &mut self.limits);
        f.table("overload", &mut self.overload);
        f.table("ws", &mut self.ws);
        if self.reply_max < self.reply_buffer {
            let why = "must not be smaller than gateway.reply_buffer".into();
            f.wrong(&["reply_max", "reply_buffer"], |key| Problem::Invalid { key, why });
        }
        if self.reply_stream_max < self.reply_buffer {
            let why = "must not be smaller than gateway.reply_buffer".into();
            f.wrong(&["reply_stream_max", "reply_buffer"], |key| Problem::Invalid { key, why });
        }
        if self.key_secret.is_none() && !self.former_key_secrets.is_empty() {
            let why = "needs gateway.key_secret beside it, which signs new keys".into();
            f.wrong(&["former_key_secrets"], |key| Problem::Invalid { key, why });
        }
        if self.grpc_listen.is_some() && !self.tls.is_served() {
            let why = "needs gateway.tls.cert and gateway.tls.key, or gateway.tls.acme: gRPC is served over TLS only"
                .into();
            f.wrong(&["grpc_listen"], |key| Problem::Invalid { key, why });
        }
    }
}

/// `[gateway.tls]`: PEM files, or a certificate by ACME. With either, everything or only gRPC is served over TLS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tls {
    /// The certificate with its chain.
    pub cert: Option<PathBuf>,
    /// The private key.
    pub key: Option<PathBuf>,
    /// Orders the certificate by `[acme]` instead of reading these files.
    pub acme: bool,
    /// Serves only `gateway.grpc_listen` over TLS, for example if a load balancer adds TLS to `gateway.listen`.
    pub grpc_only: bool,
}

impl Tls {
    /// Returns the files of certificate and key, if both are given.
    pub fn pair(&self) -> Option<(&Path, &Path)> {
        Some((self.cert.as_deref()?, self.key.as_deref()?))
    }

    /// Reports whether anything is served over TLS.
    pub fn is_served(&self) -> bool {
        self.acme || self.pair().is_some()
    }

    /// Reports whether `gateway.listen` is served over TLS.
    pub fn covers_http(&self) -> bool {
        self.is_served() && !self.grpc_only
    }
}

impl Table for Tls {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.value("cert", &mut self.cert);
        f.value("key", &mut self.key);
        f.value("acme", &mut self.acme);
        f.value("grpc_only", &mut self.grpc_only);
        for (given, other, missing) in [("cert", &self.key, "key"), ("key", &self.cert, "cert")] {
            if other.is_none() && (self.cert.is_some() || self.key.is_some()) {
                f.wrong(&[given], |key| Problem::Invalid {
                    key,
                    why: format!("needs gateway.tls.{missing} beside it"),
                });
            }
        }
        if self.acme && (self.cert.is_some() || self.key.is_some()) {
            let why = "= true takes the place of gateway.tls.cert and gateway.tls.key: give one or the other";
            f.wrong(&["acme"], |key| Problem::Invalid { key, why: why.into() });
        }
    }
}

/// `[gateway.limits]`: the size and speed limits of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitSettings {
    /// The maximum size of a request's body in bytes.
    pub body: u64,
    /// The maximum total size of all bodies in memory, in bytes.
    pub bodies_total: u64,
    /// The maximum size of one gRPC message in either direction, in bytes.
    pub grpc_message: u64,
    /// The maximum size of a request's headers in bytes.
    pub headers: u64,
    /// The maximum number of a request's headers.
    pub header_count: u32,
    /// The maximum size of a request's URI in bytes.
    pub uri: u64,
    /// The time limit for complete headers.
    pub header_timeout: Duration,
    /// The time for which a body may be arbitrarily slow.
    pub body_grace: Duration,
    /// The minimum bytes per second of a body, and of reading an answer, after that time.
    pub body_rate: u64,
    /// The time limit for a complete body.
    pub body_timeout: Duration,
    /// The time after which a client that reads no byte of its answer is disconnected.
    pub write_timeout: Duration,
    /// The time after which a connection without a request is closed.
    pub idle_timeout: Duration,
}

impl Default for LimitSettings {
    fn default() -> Self {
        LimitSettings {
            body: 5 * MIB,
            bodies_total: 256 * MIB,
            grpc_message: 16 * MIB,
            headers: 16 * KIB,
            header_count: 100,
            uri: 8 * KIB,
            header_timeout: 10 * SECOND,
            body_grace: 10 * SECOND,
            body_rate: KIB,
            body_timeout: 60 * SECOND,
            write_timeout: 30 * SECOND,
            idle_timeout: 75 * SECOND,
        }
    }
}

impl Table for LimitSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.size("body", &mut self.body, KIB..=GIB);
        f.size("bodies_total", &mut self.bodies_total, KIB..=1024 * GIB);
        f.size("grpc_message", &mut self.grpc_message, KIB..=GIB);
        f.size("headers", &mut self.headers, 8 * KIB..=MIB);
        f.number("header_count", &mut self.header_count, 16..=10_000);
        f.size("uri", &mut self.uri, 256..=64 * KIB);
        f.duration("header_timeout", &mut self.header_timeout, MILLI..=HOUR);
        f.duration("body_grace", &mut self.body_grace, MILLI..=HOUR);
        f.size("body_rate", &mut self.body_rate, 0..=GIB);
        f.duration("body_timeout", &mut self.body_timeout, MILLI..=HOUR);
        f.duration("write_timeout", &mut self.write_timeout, MILLI..=HOUR);
        f.duration("idle_timeout", &mut self.idle_timeout, MILLI..=DAY);
        if self.bodies_total < self.body {
            let why = "must not be smaller than gateway.limits.body".into();
            f.wrong(&["bodies_total", "body"], |key| Problem::Invalid { key, why });
        }
    }
}
