//! `[gateway.ws]`: WebSocket streams.

use super::fields::{Fields, Table};
use super::problem::Problem;
use super::units::{GIB, HOUR, KIB, MIB, SECOND};
use std::time::Duration;

/// `[gateway.ws]`. The plan limits the number of open streams: `plans.<tier>.ws_connections`.
///
/// ```
/// use rpcgate_config::{Config, Input};
///
/// let file = "[gateway.ws]\nmax_message = \"1MiB\"\n";
/// let config = Config::read(&Input { file: Some(("rpcgate.toml", file)), ..Input::default() }).unwrap();
/// assert_eq!((config.gateway.ws.max_message, config.gateway.ws.ping_interval.as_secs()), (1 << 20, 30));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WsSettings {
    /// The maximum calls per second on one stream; 0: no limit.
    pub calls_per_second: u32,
    /// The maximum size of one message in bytes, with all its fragments. Beyond it, the stream is closed with 1009.
    pub max_message: u64,
    /// The maximum bytes that wait for a slow client beyond one message. Above it, the stream is closed with 1008.
    pub max_backlog: u64,
    /// The time without a frame after which a client or a node gets a ping.
    pub ping_interval: Duration,
    /// The time without a frame (including pongs) after which a client or a node is dead.
    pub dead_after: Duration,
}

impl Default for WsSettings {
    fn default() -> Self {
        WsSettings {
            calls_per_second: 0,
            max_message: 16 * MIB,
            max_backlog: 4 * MIB,
            ping_interval: 30 * SECOND,
            dead_after: 60 * SECOND,
        }
    }
}

impl Table for WsSettings {
    fn fields<F: Fields>(&mut self, f: &mut F) {
        f.number("calls_per_second", &mut self.calls_per_second, 0..=1_000_000);
        f.size("max_message", &mut self.max_message, KIB..=GIB);
        f.size("max_backlog", &mut self.max_backlog, KIB..=GIB);
        f.duration("ping_interval", &mut self.ping_interval, SECOND..=HOUR);
        f.duration("dead_after", &mut self.dead_after, SECOND..=2 * HOUR);
        if self.dead_after <= self.ping_interval {
            let why = "must be longer than gateway.ws.ping_interval, so that a ping can be answered".into();
            f.wrong(&["dead_after", "ping_interval"], |key| Problem::Invalid { key, why });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Input};

    fn read(text: &str) -> Result<Config, String> {
        let text = format!("[gateway.ws]\n{text}\n");
        Config::read(&Input { file: Some(("f", &text)), ..Input::default() }).map_err(|e| e.to_string())
    }

    #[test]
    fn a_dead_side_is_found_after_its_ping_and_not_before() {
        let error = read("ping_interval = \"60s\"").unwrap_err();
        assert!(
            error.starts_with("f:2: ") && error.contains("gateway.ws.dead_after must be longer"),
            "{error}"
        );
        let config = read("ping_interval = \"60s\"\ndead_after = \"61s\"").unwrap();
        assert_eq!(config.gateway.ws.dead_after.as_secs(), 61);
    }

    #[test]
    fn the_limits_of_a_stream_have_bounds() {
        for (text, bounds) in [
            ("max_message = 1", "between 1KiB and 1GiB"),
            ("max_backlog = \"2GiB\"", "between 1KiB and 1GiB"),
            ("ping_interval = \"10ms\"", "between 1s and 1h"),
            ("calls_per_second = 1000001", "between 0 and 1000000"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(bounds), "{text}: {error}");
        }
    }
}
