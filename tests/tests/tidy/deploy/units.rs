//! The units of systemd.

use rpcgate_process::Failure;
use rpcgate_process::FileHandles;
use rpcgate_server::StartOptions;

use super::{AFTER_GRACE, CONFIG, STATE, duration, effective, wrong_command};
use crate::{none, tree};

const FOLDER: &str = "examples/deploy/systemd/";
pub(super) const UNITS: [&str; 2] = ["rpcgate-server", "rpcgate-admin"];

/// The settings of every unit that limit what a compromised program can reach.
const HARDENED: &[(&str, &str)] = &[
    ("CapabilityBoundingSet", ""),
    ("NoNewPrivileges", "yes"),
    ("ProtectSystem", "strict"),
    ("ProtectHome", "yes"),
    ("PrivateTmp", "yes"),
    ("PrivateDevices", "yes"),
    ("PrivateUsers", "yes"),
    ("ProtectClock", "yes"),
    ("ProtectControlGroups", "yes"),
    ("ProtectHostname", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("ProtectProc", "invisible"),
    ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
    ("RestrictNamespaces", "yes"),
    ("RestrictRealtime", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("LockPersonality", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallFilter", "@system-service"),
    ("UMask", "0077"),
];

pub(super) fn path(unit: &str) -> String {
    format!("{FOLDER}{unit}.service")
}

fn settings(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).collect()
}

pub(super) fn user(text: &str) -> &str {
    settings(text).into_iter().find(|(key, _)| *key == "User").map_or("root", |(_, user)| user)
}

fn wrong_unit(unit: &str, text: &str) -> Vec<String> {
    let settings = settings(text);
    let has = |key: &str, value: &str| settings.contains(&(key, value));
    let value = |key: &str| settings.iter().find(|(found, _)| *found == key).map_or("", |(_, value)| *value);
    let mut findings = Vec::new();
    let missing = HARDENED.iter().filter(|(key, value)| !has(key, value));
    findings.extend(missing.map(|(key, value)| format!("{key}={value} is missing")));
    let command: Vec<_> = value("ExecStart").split(' ').collect();
    if command.first() != Some(&format!("/usr/bin/{unit}").as_str()) {
        findings.push(format!("it starts {command:?}"));
    }
    findings.extend(wrong_command(&command));
    if !has("Environment", &format!("RPCGATE_CONFIG={CONFIG}")) {
        findings.push(format!("it does not read {CONFIG}"));
    }
    if user(text) == "root" || has("User", "0") || value("User") != value("Group") {
        findings.push("it runs as root".to_owned());
    }
    let state = STATE.strip_prefix("/var/lib/").unwrap_or_default();
    if !has("StateDirectory", state) || !has("WorkingDirectory", STATE) {
        findings.push(format!("it does not work in {STATE}"));
    }
    let reloads = "/bin/kill -HUP $MAINPID";
    if !has("ExecReload", reloads) || !value("KillSignal").is_empty() {
        findings.push("SIGHUP reloads, SIGTERM drains".to_owned());
    }
    let unusable = Failure::Configuration(String::new()).code().to_string();
    if !has("Restart", "on-failure") || !has("RestartPreventExitStatus", &unusable) {
        findings
            .push("it is not started again after a crash, or for ever with a bad configuration".to_owned());
    }
    let config = effective("", &[]).unwrap();
    if duration(value("TimeoutStopSec")) < config.shutdown.grace + AFTER_GRACE {
        findings.push("it is killed while it drains".to_owned());
    }
    let limit = value("LimitNOFILE").parse().unwrap_or_default();
    let connections = StartOptions::default().connections;
    if unit == "rpcgate-server" && FileHandles::new(limit).connections() < connections {
        findings.push(format!("{limit} files are too few for {connections} connections"));
    }
    if unit == "rpcgate-admin" && (limit < 4_096 || value("CPUWeight").is_empty()) {
        findings.push("few files, or as much of the processor as a gateway".to_owned());
    }
    findings.iter().map(|finding| format!("{}: {finding}", path(unit))).collect()
}

// Shows (Packaging).
#[test]
fn units_run_the_programs_with_few_rights_and_time_to_drain() {
    let findings: Vec<_> = UNITS.iter().flat_map(|unit| wrong_unit(unit, &tree::read(&path(unit)))).collect();
    none(&findings, "`systemd-analyze security --offline=true` judges a unit.");
}

/// Returns a folder with the units, which start a program that exists on this machine.
#[cfg(have_systemd_analyze)]
fn startable() -> (tempfile::TempDir, Vec<std::path::PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let files = UNITS.map(|unit| {
        let file = dir.path().join(format!("{unit}.service"));
        std::fs::write(&file, tree::read(&path(unit)).replace(&format!("/usr/bin/{unit} run"), "/bin/true"))
            .unwrap();
        file
    });
    (dir, files.into())
}

#[test]
#[cfg(have_systemd_analyze)]
fn systemd_accepts_the_units_and_rates_them_hardly_exposed() {
    let (_dir, files) = startable();
    let analyze = |args: &[&str], file: &std::path::Path| {
        std::process::Command::new("systemd-analyze").args(args).arg(file).output().unwrap()
    };
    for file in &files {
        let verified = analyze(&["verify", "--man=no"], file);
        let messages = String::from_utf8_lossy(&verified.stderr);
        let about: Vec<_> = messages.lines().filter(|line| line.contains("rpcgate-")).collect();
        assert!(verified.status.success() && about.is_empty(), "{messages}");
        // In tenths: 1.5 of 10.
        let judged = analyze(&["security", "--offline=true", "--no-pager", "--threshold=15"], file);
        assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Packaging).
    #[test]
    fn a_fault_of_a_unit_is_found() {
        for (good, bad) in [
            ("User=rpcgate\n", ""),
            ("User=rpcgate\n", "User=root\n"),
            ("ProtectSystem=strict", "ProtectSystem=full"),
            ("NoNewPrivileges=yes\n", ""),
            ("SystemCallFilter=@system-service", "SystemCallFilter=@default"),
            ("ExecStart=/usr/bin/rpcgate-server run", "ExecStart=/usr/bin/rpcgate-server serve"),
            ("ExecStart=/usr/bin/rpcgate-server run", "ExecStart=/usr/local/bin/rpcgate-server run"),
            ("ExecReload=/bin/kill -HUP", "ExecReload=/bin/kill -USR1"),
            ("Restart=on-failure", "Restart=no"),
            ("RestartPreventExitStatus=2", "RestartPreventExitStatus=3"),
            ("TimeoutStopSec=60", "TimeoutStopSec=30"),
            ("LimitNOFILE=131072", "LimitNOFILE=65536"),
            ("RPCGATE_CONFIG=/etc/rpcgate/rpcgate.toml", "RPCGATE_CONFIG=/etc/rpcgate.toml"),
            ("StateDirectory=rpcgate\n", "StateDirectory=gateway\n"),
        ] {
            let text = tree::read(&path("rpcgate-server"));
            assert!(text.contains(good), "{good}");
            assert!(!wrong_unit("rpcgate-server", &text.replacen(good, bad, 1)).is_empty(), "{bad}");
        }
        let admin = tree::read(&path("rpcgate-admin"));
        assert!(!wrong_unit("rpcgate-admin", &admin.replace("CPUWeight=20\n", "")).is_empty());
    }
}
