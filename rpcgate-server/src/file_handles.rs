//! The files and sockets that the process may have open at a time, and the connections that this allows.

use crate::gateway::{MAX_CONNECTIONS, StartOptions};

/// The number of handles below which the log warns.
const FEW: u64 = 4_096;
/// The soft limit of most systems, for one where it cannot be found out.
const USUAL: u64 = 1_024;
/// The least and the most handles that are kept for all but connections of clients and those to nodes: databases, the journal,
/// listeners, idle connections to nodes.
const KEPT: (u64, u64) = (128, 512);

/// How many files and sockets ("file handles") the process may have open at a time.
///
/// Without a handle left no connection could be accepted and no node called, so a gateway refuses connections and streams
/// before that: with an answer, and those of clients only.
///
/// ```
/// use rpcgate_server::file_handles::FileHandles;
/// use rpcgate_server::StartOptions;
///
/// let options = FileHandles::new(1_024).bound(StartOptions::default());
/// assert_eq!((options.connections, options.streams()), (448, 434));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHandles {
    limit: u64,
    each: u64,
}

impl FileHandles {
    /// A limit of so many, of which a connection needs two: a client's own, and one to a node for its stream or its call.
    pub const fn new(limit: u64) -> Self {
        FileHandles { limit, each: 2 }
    }

    /// Raises the limit of this process as far as the operating system allows without further rights (`RLIMIT_NOFILE`, its
    /// soft limit to the hard one).
    pub fn raise() -> Self {
        FileHandles::new(rlimit::increase_nofile_limit(u64::MAX).unwrap_or_else(|error| {
            tracing::warn!(%error, "the limit of open files cannot be raised");
            rlimit::Resource::NOFILE.get().map_or(USUAL, |(soft, _)| soft)
        }))
    }

    /// The same limit for connections that need `each` handles.
    #[must_use]
    pub const fn with_each(mut self, each: u64) -> Self {
        self.each = each;
        self
    }

    /// Lowers the connections of `options` to those for which there are handles, and logs how many they are.
    pub fn bound(self, mut options: StartOptions) -> StartOptions {
        let FileHandles { limit, .. } = self;
        options.connections = options.connections.min(self.connections());
        let (connections, streams) = (options.connections, options.streams());
        tracing::info!(limit, connections, streams, "open files, and what they allow");
        if limit < FEW {
            tracing::warn!(
                limit,
                "few files may be open: raise the hard limit (LimitNOFILE= of a systemd unit, ulimit -Hn of a shell, \
                 --ulimit nofile= of a container)"
            );
        }
        options
    }

    /// Connections of clients for which there are handles.
    fn connections(self) -> usize {
        let kept = (self.limit / 16).clamp(KEPT.0, KEPT.1).min(self.limit / 2);
        let connections = (self.limit - kept) / self.each.max(1);
        usize::try_from(connections)
            .map_or(MAX_CONNECTIONS, |connections| connections.clamp(1, MAX_CONNECTIONS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captured_log::CapturedLog;
    use rpcgate_core::config::LogFormat;

    #[test]
    fn all_connections_and_streams_fit_below_the_limit_and_leave_handles_for_the_rest() {
        for limit in [0, 1, 64, 256, 1_024, 4_096, 20_000, 65_536, 1 << 20, u64::MAX] {
            for each in [2, 3] {
                let options = FileHandles::new(limit).with_each(each).bound(StartOptions::default());
                let used = options.connections as u64 * each;
                assert!(options.connections >= 1 && options.connections <= MAX_CONNECTIONS, "{limit}");
                assert!(limit < 64 || used <= limit - (limit / 4).min(KEPT.0), "{limit}: {used}");
                assert!(options.streams() as usize <= options.connections);
            }
        }
        let bound = |limit| FileHandles::new(limit).bound(StartOptions::default());
        assert_eq!((bound(20_000).connections, bound(20_000).streams()), (9_744, 9_440));
        assert_eq!((bound(1 << 20).connections, bound(1 << 20).streams()), (32_768, 31_744));
        let few = StartOptions { connections: 8, ..StartOptions::default() };
        assert_eq!(FileHandles::new(20_000).bound(few).connections, 8, "it raises nothing");
    }

    #[test]
    fn the_log_says_what_the_limit_allows_and_what_to_do_about_a_low_one() {
        for (limit, warns) in [(1_024, true), (20_000, false)] {
            let log = CapturedLog::default();
            let guard = log.capture("info", LogFormat::Text);
            FileHandles::new(limit).bound(StartOptions::default());
            drop(guard);
            let text = log.text();
            assert!(text.contains(&format!("limit={limit} connections=")), "{text}");
            assert_eq!(text.contains("LimitNOFILE="), warns, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_limit_of_the_process_is_raised_to_its_hard_limit() {
        let raised = FileHandles::raise();
        let (soft, hard) = rlimit::Resource::NOFILE.get().unwrap();
        assert_eq!(raised, FileHandles::new(soft));
        assert!(cfg!(target_os = "macos") || soft == hard);
    }
}
