//! The number of connections that the limit of open files allows.

use crate::gateway::StartOptions;
use rpcgate_process::FileHandles;
use rpcgate_process::file_handles::{FEW, RAISE};

/// Lowers the connections of `options` to the number that the file handles allow, and logs that number.
///
/// ```
/// use rpcgate_process::FileHandles;
/// use rpcgate_server::StartOptions;
/// use rpcgate_server::file_handles::bound;
///
/// let options = bound(FileHandles::new(1_024), StartOptions::default());
/// assert_eq!((options.connections, options.streams()), (448, 434));
/// ```
pub fn bound(handles: FileHandles, mut options: StartOptions) -> StartOptions {
    let limit = handles.limit();
    options.connections = options.connections.min(handles.connections());
    let connections = options.connections;
    let streams = options.streams();
    tracing::info!(limit, connections, streams, "open files, and what they allow");
    if limit < FEW {
        tracing::warn!(limit, "few files may be open: {RAISE}");
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_config::LogFormat;
    use rpcgate_process::testing::CapturedLog;

    // Shows (Streams).
    #[test]
    fn connections_and_streams_are_bounded_and_never_raised() {
        for limit in [0, 64, 1_024, 20_000, u64::MAX] {
            let options = bound(FileHandles::new(limit), StartOptions::default());
            assert!(options.streams() as usize <= options.connections);
        }
        let options = |limit| bound(FileHandles::new(limit), StartOptions::default());
        assert_eq!((options(20_000).connections, options(20_000).streams()), (9_744, 9_440));
        assert_eq!((options(1 << 20).connections, options(1 << 20).streams()), (32_768, 31_744));
        let few = StartOptions { connections: 8, ..StartOptions::default() };
        assert_eq!(bound(FileHandles::new(20_000), few).connections, 8, "it raises nothing");
    }

    #[test]
    fn the_log_states_the_effect_of_the_limit_and_advice_for_a_low_one() {
        for (limit, warns) in [(1_024, true), (20_000, false)] {
            let log = CapturedLog::default();
            let guard = log.capture("info", LogFormat::Text);
            bound(FileHandles::new(limit), StartOptions::default());
            drop(guard);
            let text = log.text();
            assert!(text.contains(&format!("limit={limit} connections=")), "{text}");
            assert_eq!(text.contains("LimitNOFILE="), warns, "{text}");
        }
    }
}
