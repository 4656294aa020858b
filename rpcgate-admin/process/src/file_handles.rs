//! The limit on open files and sockets of a process, and the connections that it allows.

/// The maximum client connections of a gateway, whatever its file limit.
pub const MAX_CONNECTIONS: usize = 32_768;

/// The number of handles below which an operator is warned.
pub const FEW: u64 = 4_096;

/// The advice for a low limit.
pub const RAISE: &str = "raise the hard limit (LimitNOFILE= of a systemd unit, ulimit -Hn of a shell, --ulimit nofile= of a \
                         container)";

/// The soft limit of most systems, used if it is unknown.
const USUAL: u64 = 1_024;

/// The minimum and maximum of the handles that are reserved for databases, the journal, listeners and idle connections
/// to nodes.
const RESERVED: (u64, u64) = (128, 512);

/// The limit on open files and sockets ("file handles") of a gateway.
///
/// Without a free handle it could neither accept a connection nor call a node, so a gateway refuses connections and
/// streams of clients earlier, with an answer.
///
/// ```
/// use rpcgate_process::FileHandles;
///
/// assert_eq!(FileHandles::new(1_024).connections(), 448);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHandles {
    limit: u64,
    each: u64,
}

impl FileHandles {
    /// Creates a limit of `limit` handles. A connection needs two: the client's own, and one to a node for its stream
    /// or call.
    pub const fn new(limit: u64) -> Self {
        FileHandles { limit, each: 2 }
    }

    /// Raises the limit of this process to the most that the operating system allows without further rights (the soft
    /// limit of `RLIMIT_NOFILE` to the hard one).
    pub fn raise() -> Self {
        FileHandles::new(rlimit::increase_nofile_limit(u64::MAX).unwrap_or_else(|error| {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            soft()
        }))
    }

    /// Returns the limit that [`raise`](Self::raise) would set, and the current one.
    pub fn possible() -> (Self, Self) {
        let (soft, hard) = rlimit::Resource::NOFILE.get().unwrap_or((USUAL, USUAL));
        (FileHandles::new(hard), FileHandles::new(soft))
    }

    /// Returns the same limit for connections that need `each` handles.
    #[must_use]
    pub const fn with_each(mut self, each: u64) -> Self {
        self.each = each;
        self
    }

    /// Returns the limit.
    pub const fn limit(self) -> u64 {
        self.limit
    }

    /// Returns the number of client connections for which there are handles, at most [`MAX_CONNECTIONS`].
    pub fn connections(self) -> usize {
        let reserved = (self.limit / 16).clamp(RESERVED.0, RESERVED.1).min(self.limit / 2);
        let connections = (self.limit - reserved) / self.each.max(1);
        usize::try_from(connections)
            .map_or(MAX_CONNECTIONS, |connections| connections.clamp(1, MAX_CONNECTIONS))
    }
}

fn soft() -> u64 {
    rlimit::Resource::NOFILE.get().map_or(USUAL, |(soft, _)| soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Streams): Connections and streams stay below the limit of open files; one more gets 503 with
    // `Retry-After`.
    #[test]
    fn all_connections_fit_below_the_limit_and_leave_handles_for_the_rest() {
        for limit in [0, 1, 64, 256, 1_024, 4_096, 20_000, 65_536, 1 << 20, u64::MAX] {
            for each in [2, 3] {
                let connections = FileHandles::new(limit).with_each(each).connections();
                let used = connections as u64 * each;
                assert!((1..=MAX_CONNECTIONS).contains(&connections), "{limit}");
                assert!(limit < 64 || used <= limit - (limit / 4).min(RESERVED.0), "{limit}: {used}");
            }
        }
        let connections = |limit| FileHandles::new(limit).connections();
        assert_eq!((connections(20_000), connections(1 << 20)), (9_744, 32_768));
    }

    #[cfg(unix)]
    #[test]
    fn the_limit_of_the_process_is_raised_to_its_hard_limit() {
        let (possible, _) = FileHandles::possible();
        let raised = FileHandles::raise();
        let (soft, hard) = rlimit::Resource::NOFILE.get().unwrap();
        assert_eq!(raised, FileHandles::new(soft));
        assert!(cfg!(target_os = "macos") || (soft == hard && raised == possible));
        assert_eq!(FileHandles::possible().1, raised);
    }
}
