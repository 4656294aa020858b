//! Sockets and tasks that streams leave behind.

use rpcgate_tests::until;
use std::time::Duration;

/// Tasks of this runtime, and sockets at some ports of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    tasks: usize,
    sockets: usize,
}

impl Left {
    fn now(ports: &[u16]) -> Self {
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        Left { tasks, sockets: ports.iter().map(|port| sockets(*port)).sum() }
    }

    /// Counts once nothing changes any more.
    pub(crate) async fn settled(ports: &[u16]) -> Self {
        let mut last = Left::now(ports);
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = Left::now(ports);
            if now == last {
                return now;
            }
            last = now;
        }
    }

    /// Waits until the counts are no larger than these.
    ///
    /// # Panics
    /// When that does not happen.
    pub(crate) async fn is_reached_again(self, ports: &[u16]) {
        let is_reached = || {
            let now = Left::now(ports);
            now.tasks <= self.tasks && now.sockets <= self.sockets
        };
        until(&format!("{self:?} again"), is_reached).await;
    }
}

/// Returns the open sockets with this port on either side, without those that the system keeps for a while.
#[cfg(target_os = "linux")]
fn sockets(port: u16) -> usize {
    /// TIME-WAIT, which belongs to no process.
    const TIME_WAIT: &str = "06";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let of_port = |address: &str| address.ends_with(&format!(":{port:04X}"));
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| (of_port(row[1]) || of_port(row[2])) && row[3] != TIME_WAIT).count()
}

/// Only Linux reports sockets.
#[cfg(not(target_os = "linux"))]
fn sockets(_: u16) -> usize {
    0
}
