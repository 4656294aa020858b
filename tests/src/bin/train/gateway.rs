//! The gateway under load.

use crate::{Caller, Done, Expected, KEY, PATIENCE, Question, SPENT, request};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);

/// A running gateway. It is killed when this is dropped.
pub(crate) struct Gateway {
    child: Child,
    log: PathBuf,
}

impl Gateway {
    pub(crate) fn start(binary: &Path, folder: &Path, nodes: (SocketAddr, SocketAddr)) -> Done<Self> {
        let log = folder.join("gateway.log");
        let file = folder.join("train.toml");
        let start = || {
            fs::write(&file, configuration(nodes))?;
            let mut command = Command::new(binary.canonicalize()?);
            command.args(["run", "--config", "train.toml"]).current_dir(folder);
            for (name, _) in std::env::vars_os() {
                if name.to_string_lossy().starts_with("RPCGATE_") {
                    command.env_remove(name);
                }
            }
            // The counters of a profile are not atomic: threads that share them would lose counts, and time.
            command.env("TOKIO_WORKER_THREADS", "1");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).spawn()
        };
        let child = start().map_err(|error| format!("{}: {error}", binary.display()))?;
        Ok(Gateway { child, log })
    }

    /// Returns the last warnings and errors of its log.
    pub(crate) fn last_warnings(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().filter(|line| !line.contains("\"level\":\"INFO\"")).collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Waits until it is ready and returns its address, which its log contains.
    pub(crate) fn ready(&mut self) -> Done<SocketAddr> {
        let ready = Question {
            request: request("GET", "/readyz", None, ""),
            status: 200,
            answer: Expected::Part(""),
        };
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let serving = log.lines().find(|line| line.contains("\"serving\""));
            let addr =
                serving.and_then(|line| line.split("\"addr\":\"").nth(1)?.split('"').next()?.parse().ok());
            if let Some(addr) = addr
                && Caller::open(addr).and_then(|mut caller| caller.ask(&ready)).is_ok()
            {
                return Ok(addr);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the gateway ended during its start: {status}"));
            }
            thread::sleep(PAUSE);
        }
        Err("the gateway does not become ready".into())
    }

    /// Stops it gracefully: a killed process writes no profile.
    pub(crate) fn end(mut self) -> Done<()> {
        // The standard library can only send KILL; every shell can send the other signals.
        let signalled =
            Command::new("sh").args(["-c", "kill -TERM \"$0\"", &self.child.id().to_string()]).status();
        if !signalled.is_ok_and(|status| status.success()) {
            return Err("the gateway cannot be signalled".into());
        }
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(PAUSE),
                Ok(Some(status)) if status.success() => return Ok(()),
                ended => return Err(format!("the gateway ended with {ended:?}\n{}", self.last_warnings())),
            }
        }
        Err(format!("the gateway does not stop\n{}", self.last_warnings()))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration((node, grpc): (SocketAddr, SocketAddr)) -> String {
    let unlimited =
        "per_minute = 4000000000\nper_hour = 4000000000\nper_day = 4000000000\nheavy_per_minute = 4000000000";
    let callers = [("train", KEY, "enterprise"), ("spent", SPENT, "free")].map(|(name, key, plan)| {
        format!(
            "[tenants.{name}]\nplan = \"{plan}\"\n\
             [projects.{name}]\ntenant = \"{name}\"\ncu_per_day = 4000000000000\n\
             [keys.{name}]\nkey = \"{key}\"\nproject = \"{name}\"\n"
        )
    });
    let chains = ["eth", "polygon", "cosmos"].map(|chain| {
        let places = format!("url = \"http://{node}\", ws = \"ws://{node}\", grpc = \"http://{grpc}\"");
        let gathers = chain == "polygon";
        format!(
            "[chains.{chain}]\nnodes = [{{ {places} }}]\nprobe_interval = \"1h\"\nbatching = {{ enabled = {gathers}, timeout = \"30s\" }}\n"
        )
    });
    format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nh2c = true\n[plans.enterprise]\n{unlimited}\n[plans.free]\nper_day = 1\n{}{}",
        callers.concat(),
        chains.concat()
    )
}
