//! The reasons for the end of a stream, and the close frames for its client.

use fastwebsockets::CloseCode;

/// The reason for the end of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// The client closed it.
    Client,
    /// The node closed it.
    Node,
    /// The connection to the client broke.
    ClientLost,
    /// The client sent nothing and answered no ping.
    ClientSilent,
    /// The client read too slowly.
    SlowReader,
    /// The client took too long for one message.
    SlowMessage,
    /// The client violated the protocol.
    ProtocolError,
    /// The client sent a text that is not UTF-8.
    InvalidText,
    /// A message exceeded the size limit.
    TooLarge,
    /// The gateway had no memory for a message.
    NoMemory,
    /// The connection to the node broke, or the node violated the protocol.
    NodeLost,
    /// The node sent nothing and answered no ping.
    NodeSilent,
    /// The API key was revoked or no longer exists.
    KeyRevoked,
    /// The API key expired.
    KeyExpired,
    /// The API key may no longer use the chain.
    OutOfScope,
    /// The tenant was suspended.
    Suspended,
    /// The gateway shuts down.
    Shutdown,
    /// An operator has drained the node.
    NodeDrained,
}

impl CloseReason {
    /// All reasons, in order.
    pub const ALL: [CloseReason; 18] = [
        CloseReason::Client,
        CloseReason::Node,
        CloseReason::ClientLost,
        CloseReason::ClientSilent,
        CloseReason::SlowReader,
        CloseReason::SlowMessage,
        CloseReason::ProtocolError,
        CloseReason::InvalidText,
        CloseReason::TooLarge,
        CloseReason::NoMemory,
        CloseReason::NodeLost,
        CloseReason::NodeSilent,
        CloseReason::KeyRevoked,
        CloseReason::KeyExpired,
        CloseReason::OutOfScope,
        CloseReason::Suspended,
        CloseReason::Shutdown,
        CloseReason::NodeDrained,
    ];

    /// Returns the name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            CloseReason::Client => "client",
            CloseReason::Node => "node",
            CloseReason::ClientLost => "client_lost",
            CloseReason::ClientSilent => "client_silent",
            CloseReason::SlowReader => "slow_reader",
            CloseReason::SlowMessage => "slow_message",
            CloseReason::ProtocolError => "protocol_error",
            CloseReason::InvalidText => "invalid_text",
            CloseReason::TooLarge => "too_large",
            CloseReason::NoMemory => "no_memory",
            CloseReason::NodeLost => "node_lost",
            CloseReason::NodeSilent => "node_silent",
            CloseReason::KeyRevoked => "key_revoked",
            CloseReason::KeyExpired => "key_expired",
            CloseReason::OutOfScope => "out_of_scope",
            CloseReason::Suspended => "suspended",
            CloseReason::Shutdown => "shutdown",
            CloseReason::NodeDrained => "node_drained",
        }
    }

    /// Returns the close code (RFC 6455 section 7.4.1 and its registry) and the reason that the gateway sends to the
    /// client; `None` if the two sides close by themselves, or the client has gone.
    pub(super) fn frame(self) -> Option<(CloseCode, &'static str)> {
        Some(match self {
            CloseReason::Client | CloseReason::Node | CloseReason::ClientLost => return None,
            CloseReason::ClientSilent => (CloseCode::Policy, "no answer to pings"),
            CloseReason::SlowReader => (CloseCode::Policy, "messages are read too slowly"),
            CloseReason::SlowMessage => (CloseCode::Policy, "a message took too long"),
            CloseReason::ProtocolError => (CloseCode::Protocol, "protocol error"),
            CloseReason::InvalidText => (CloseCode::Invalid, "a text message is not UTF-8"),
            CloseReason::TooLarge => (CloseCode::Size, "message too large"),
            CloseReason::NoMemory => (CloseCode::Again, "overloaded, retry later"),
            CloseReason::NodeLost => (CloseCode::Restart, "the connection to the node was lost, reconnect"),
            CloseReason::NodeSilent => (CloseCode::Restart, "the node stopped answering, reconnect"),
            CloseReason::KeyRevoked => (CloseCode::Policy, "API key revoked"),
            CloseReason::KeyExpired => (CloseCode::Policy, "API key expired"),
            CloseReason::OutOfScope => (CloseCode::Policy, "API key not permitted for this chain"),
            CloseReason::Suspended => (CloseCode::Policy, "account suspended"),
            CloseReason::Shutdown => (CloseCode::Away, "the gateway is restarting, reconnect"),
            CloseReason::NodeDrained => (CloseCode::Restart, "the node is taken out of use, reconnect"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_reason_has_its_own_name_and_position_in_the_list() {
        let names: HashSet<_> = CloseReason::ALL.map(CloseReason::name).into();
        assert_eq!(names.len(), CloseReason::ALL.len());
        for (place, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
    }

    #[test]
    fn clients_get_the_codes_of_the_contract() {
        let code = |reason: CloseReason| reason.frame().map(|(code, _)| u16::from(code));
        for reason in [
            CloseReason::KeyRevoked,
            CloseReason::KeyExpired,
            CloseReason::OutOfScope,
            CloseReason::Suspended,
            CloseReason::SlowReader,
        ] {
            assert_eq!(code(reason), Some(1008));
        }
        assert_eq!(code(CloseReason::Shutdown), Some(1001));
        assert_eq!(code(CloseReason::NodeDrained), Some(1012));
        assert_eq!(code(CloseReason::TooLarge), Some(1009));
        assert_eq!((code(CloseReason::NodeLost), code(CloseReason::NodeSilent)), (Some(1012), Some(1012)));
        assert_eq!(code(CloseReason::Client), None, "the client's own code passes");
        assert!(
            CloseReason::ALL
                .into_iter()
                .filter_map(CloseReason::frame)
                .all(|(code, text)| { code.is_allowed() && text.len() <= 123 })
        );
    }
}
