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
    /// The address at which HTTP and WebSocket are served.
    pub listen: SocketAddr,
    /// A second address, at which everything is served over TLS, gRPC above all; none by default.
    pub grpc_listen: Option<SocketAddr>,
    /// Whether HTTP/2 without TLS is accepted at `listen`, from clients that know that it is.
    pub h2c: bool,
    /// Whether gRPC reflection is served, to callers with a key.
    pub grpc_reflection: bool,
    /// A file of descriptors that reflection describes beside the gateway's own health service: a
    /// `google.protobuf.FileDescriptorSet`, as `protoc --include_imports --descriptor_set_out` writes it.
    pub grpc_descriptors: Option<PathBuf>,
    /// Peers whose `X-Forwarded-For` the management side trusts. Nothing of a call depends on its client's address, so the
    /// gateway does not read it.
    pub trusted_proxies: Vec<IpNet>,
    /// Peers whose connections to the gateway begin with a header of the PROXY protocol, which names the client.
    pub proxy_protocol: Vec<IpNet>,
    /// The secret of the checksum in every API key. Both binaries need the same one.
    pub key_secret: Option<Secret>,
    /// Secrets from before, whose keys are still accepted: the most recent one first.
    pub former_key_secrets: Vec<Secret>,
    /// The number of bytes of a node's answer that are buffered and checked before the rest is streamed.
    pub reply_buffer: u64,
    /// The size of all answers of one batch together, in bytes.
    pub reply_max: u64,
    /// The size of a streamed answer in bytes. The connection to the client of a larger one is cut.
    pub reply_stream_max: u64,
    /// The time for a streamed answer, from its first byte to its last.
    pub reply_stream_timeout: Duration,
    /// Requests that are remembered to be explained; 0 for none.
    pub explain_requests: u32,
    /// Certificate and key.
    pub tls: Tls,
    /// Limits of requests.
    pub limits: LimitSettings,
    /// What happens when a chain cannot follow.
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
    /// Makes and checks API keys with the configured secrets; `None` without `key_secret`.
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

/// `[gateway.tls]`: PEM files, or a certificate by ACME. With either, the gateway serves everything over TLS, or gRPC alone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tls {
    /// The certificate with its chain.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Whether the certificate is ordered as `[acme]` says, in place of these files.
    pub acme: bool,
    /// Whether only `gateway.grpc_listen` is served over TLS. `gateway.listen` then stays without TLS, as behind a
    /// balancer that adds it.
    pub grpc_only: bool,
}

impl Tls {
    /// The files of certificate and key, if they are given.
    pub fn pair(&self) -> Option<(&Path, &Path)> {
        Some((self.cert.as_deref()?, self.key.as_deref()?))
    }

    /// Whether anything is served over TLS.
    pub fn is_served(&self) -> bool {
        self.acme || self.pair().is_some()
    }

    /// Whether `gateway.listen` is served over TLS.
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

/// `[gateway.limits]`: the limits of size and speed of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitSettings {
    /// The size of a request's body in bytes.
    pub body: u64,
    /// The size of all bodies in memory together, in bytes.
    pub bodies_total: u64,
    /// The size of one message of a gRPC call, in either direction, in bytes.
    pub grpc_message: u64,
    /// The size of a request's headers in bytes.
    pub headers: u64,
    /// The number of a request's headers.
    pub header_count: u32,
    /// The size of a request's URI in bytes.
    pub uri: u64,
    /// Headers must be complete within this time.
    pub header_timeout: Duration,
    /// For this time a body may be arbitrarily slow.
    pub body_grace: Duration,
    /// After that, the bytes per second that must arrive. A client must read its answers at the same rate, after the same
    /// time.
    pub body_rate: u64,
    /// A body must have arrived completely after this time.
    pub body_timeout: Duration,
    /// A client that reads no byte of its answer for this time is disconnected.
    pub write_timeout: Duration,
    /// A connection without a request is closed after this time.
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
