//! The errors of a start.

use crate::journal::JournalError;
use rpcgate_layers::redis::BadRedis;
use rpcgate_process::acme::BadAcme;
use rpcgate_process::tls::BadCertificate;
use rpcgate_process::traces::BadCollector;
use std::net::SocketAddr;

/// An error of a start or of a reload. Most texts begin with the configuration key at fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The gateway cannot listen at its address.
    #[error("gateway.listen: {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The gateway cannot listen at its gRPC address.
    #[error("gateway.grpc_listen: {addr}: {source}")]
    ListenGrpc {
        /// The address.
        addr: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The gateway cannot listen at its metrics address.
    #[error(
        "telemetry.listen: {addr}: {source}; each program on a host needs one of its own (RPCGATE_TELEMETRY__LISTEN)"
    )]
    Telemetry {
        /// The address.
        addr: SocketAddr,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The log of calls cannot be opened.
    #[error("telemetry.access_log.file {path}: {source}")]
    AccessLog {
        /// The path.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The trace collector cannot be used.
    #[error(transparent)]
    Collector(#[from] BadCollector),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    /// Certificates cannot be ordered.
    #[error(transparent)]
    Acme(#[from] BadAcme),
    /// The descriptor file for reflection cannot be used.
    #[error("gateway.grpc_descriptors {path}: {why}")]
    Descriptors {
        /// The path.
        path: String,
        /// The error.
        why: String,
    },
    /// A node cannot be used.
    #[error("chains.{chain}.nodes: {why}")]
    Node {
        /// The chain's path.
        chain: &'static str,
        /// The error.
        why: String,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal's folder cannot be used.
    #[error("journal.dir {path}: {why}")]
    Folder {
        /// The path.
        path: String,
        /// The error.
        why: String,
    },
    /// The URL of Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] BadRedis),
    /// The URL of the database cannot be used.
    #[error("{0}")]
    Database(String),
}

impl StartError {
    /// Reports whether the configuration is at fault, rather than the machine.
    pub const fn is_configuration(&self) -> bool {
        match self {
            StartError::Listen { .. }
            | StartError::ListenGrpc { .. }
            | StartError::Telemetry { .. }
            | StartError::Journal(JournalError::InUse { .. } | JournalError::Thread(_)) => false,
            StartError::Certificate(_)
            | StartError::Acme(_)
            | StartError::Collector(_)
            | StartError::AccessLog { .. }
            | StartError::Descriptors { .. }
            | StartError::Node { .. }
            | StartError::Folder { .. }
            | StartError::Database(_)
            | StartError::Redis(_)
            | StartError::Journal(_) => true,
        }
    }
}
