//! Transports of calls, and sets of them.

/// The transport of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Transport {
    /// An HTTP request.
    Http,
    /// The handshake of a WebSocket stream, or one of its messages.
    Ws,
    /// A gRPC call.
    Grpc,
}

impl Transport {
    /// Returns its name in usage.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Ws => "ws",
            Transport::Grpc => "grpc",
        }
    }
}

/// A set of transports.
///
/// ```
/// use rpcgate_core::tally::{Transport, Transports};
///
/// let some = Transports::NONE.with(Transport::Ws);
/// assert!(some.has(Transport::Ws) && !some.has(Transport::Http));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transports(u8);

impl Transports {
    /// No transport.
    pub const NONE: Transports = Transports(0);
    /// Every transport.
    pub const ALL: Transports =
        Transports::NONE.with(Transport::Http).with(Transport::Ws).with(Transport::Grpc);

    /// Adds a transport.
    #[must_use]
    pub const fn with(self, transport: Transport) -> Self {
        Transports(self.0 | 1 << transport as u8)
    }

    /// Reports whether the transport is in the set.
    pub const fn has(self, transport: Transport) -> bool {
        self.0 & 1 << transport as u8 != 0
    }

    /// Returns the transports that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Transports(self.0 & other.0)
    }
}

impl FromIterator<Transport> for Transports {
    fn from_iter<I: IntoIterator<Item = Transport>>(transports: I) -> Self {
        transports.into_iter().fold(Transports::NONE, Transports::with)
    }
}

impl From<bool> for Transports {
    /// Every transport, or none.
    fn from(every: bool) -> Self {
        if every { Transports::ALL } else { Transports::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let every = [Transport::Http, Transport::Ws, Transport::Grpc];
        for transport in every {
            let alone = Transports::from_iter([transport]);
            assert!(every.iter().all(|other| alone.has(*other) == (*other == transport)));
            assert!(Transports::ALL.has(transport) && !Transports::NONE.has(transport));
            assert_eq!(Transports::ALL.and(alone), alone);
        }
        assert_eq!(Transports::from_iter(every), Transports::from(true));
        assert_eq!(Transports::from(false), Transports::default());
    }
}
