//! The operating system's metrics of this process, under their conventional names.

use super::page::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use std::fmt;
use std::fs;

/// Linux reports process times in hundredths of a second, independent of the kernel's own tick.
const TICKS: f64 = 100.0;

/// The metrics of this process; empty without `/proc`.
#[derive(Debug)]
pub struct ProgramMetrics;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Facts {
    cpu_seconds: f64,
    resident_bytes: u64,
    threads: u64,
    /// Seconds from the system's start to that of the process.
    started: f64,
}

impl Facts {
    fn read(stat: &str, status: &str) -> Option<Self> {
        // The second field is the name, which may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = kib.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(Facts {
            cpu_seconds: (ticks(11)? + ticks(12)?) as f64 / TICKS,
            resident_bytes: kib * 1024,
            threads: ticks(17)?,
            started: ticks(19)? as f64 / TICKS,
        })
    }
}

fn system_start(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn most_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Collector for ProgramMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let text = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let mut page = MetricsWriter::new(encoder);
        if let Some(facts) = Facts::read(&text("stat"), &text("status")) {
            let help = "User and system CPU time spent.";
            page.seconds("process_cpu", help, facts.cpu_seconds)?;
            let help = "Memory that is in RAM.";
            page.gauge("process_resident_memory", help, Some(&Unit::Bytes), facts.resident_bytes)?;
            page.gauge("process_threads", "Threads.", None, facts.threads)?;
            if let Some(system) = system_start(&fs::read_to_string("/proc/stat").unwrap_or_default()) {
                let help = "The start time of the process, since 1970.";
                page.gauge("process_start_time", help, Some(&Unit::Seconds), system + facts.started)?;
            }
        }
        if let Some(most) = most_files(&text("limits")) {
            page.gauge("process_max_fds", "File descriptors that may be open.", None, most)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            page.gauge("process_open_fds", "Open file descriptors.", None, open.count() as u64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_read_whatever_the_process_is_called() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 1150 12 13";
        let status = "Name:\ta) b (c\nVmRSS:\t    2048 kB\nThreads:\t9\n";
        let facts = Facts { cpu_seconds: 3.0, resident_bytes: 2 << 20, threads: 9, started: 11.5 };
        assert_eq!(Facts::read(stat, status), Some(facts));
        assert_eq!(Facts::read("", ""), None);
        assert_eq!(system_start("cpu 1 2\nbtime 1790000000\nprocesses 5\n"), Some(1_790_000_000.0));
        let limits =
            "Limit Soft Limit Hard Limit Units\nMax open files            1024       4096      files\n";
        assert_eq!(
            (most_files(limits), most_files("Max open files unlimited unlimited files")),
            (Some(1_024), None)
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_threads() {
        let text = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        let facts = Facts::read(&text("stat"), &text("status")).unwrap();
        assert!(facts.resident_bytes > 1 << 20 && facts.threads >= 1, "{facts:?}");
    }
}
