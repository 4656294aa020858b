//! Checks the limit of open files, because every connection needs some.

use super::examination::Examination;
use super::finding::{CheckGroup, Finding};
use rpcgate_process::FileHandles;
use rpcgate_process::file_handles::{FEW, RAISE};
use std::fs;

const CHECK: CheckGroup = CheckGroup::Limits;

/// The number of handles that the management side needs in addition to those of deliveries: databases, the listener,
/// nodes, mails.
const OTHERS: u64 = 512;

/// Checks the limits of programs of this account, and of the gateway with the configured journal, if it runs here.
pub(super) fn check(examination: &Examination) -> Vec<Finding> {
    let config = &examination.config;
    let (possible, present) = FileHandles::possible();
    let mut findings = vec![gateway("a gateway that is started from here", possible)];
    findings.push(management(present, config.webhooks.concurrency.into()));
    let lock = config.journal.dir.join("lock");
    let running = fs::read_to_string(lock).ok().and_then(|text| text.trim().parse().ok());
    if let Some(limit) = running.and_then(limit_of) {
        findings.push(gateway("the gateway that runs here", FileHandles::new(limit)));
    }
    findings
}

fn gateway(subject: &str, handles: FileHandles) -> Finding {
    let limit = handles.limit();
    let connections = handles.connections();
    let text = format!("may open {limit} files, enough for {connections} client connections");
    if limit < FEW {
        return Finding::warning(CHECK, subject, text, RAISE);
    }
    Finding::ok(CHECK, subject, text)
}

/// The management side does not raise its soft limit.
fn management(handles: FileHandles, concurrency: u64) -> Finding {
    let limit = handles.limit();
    let needed = concurrency + OTHERS;
    let subject = "a management service that is started from here";
    let text =
        format!("may open {limit} files; with webhooks.concurrency = {concurrency} it may need {needed}");
    if limit < needed {
        let advice = "raise the soft limit (LimitNOFILE= of a systemd unit, ulimit -n of a shell), or lower \
                      webhooks.concurrency";
        return Finding::warning(CHECK, subject, text, advice);
    }
    Finding::ok(CHECK, subject, text)
}

/// Returns the hard limit of a process if it is a gateway on this machine. The number may be stale and belong to a
/// different process.
fn limit_of(process: u32) -> Option<u64> {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
    if name.trim() != "rpcgate-server" {
        return None;
    }
    hard_limit(&limits)
}

/// Parses the hard limit of open files in Linux's table of a process's limits.
fn hard_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::examination::tests::examination;
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn few_handles_cause_a_warning_with_their_capacity() {
        let few = gateway("a gateway", FileHandles::new(1_024));
        assert_eq!(few.verdict, Verdict::Warning);
        assert_eq!(few.text, "may open 1024 files, enough for 448 client connections");
        assert!(few.advice.unwrap().contains("LimitNOFILE="));
        assert_eq!(gateway("a gateway", FileHandles::new(65_536)).verdict, Verdict::Ok);
        let verdict = |limit, concurrency| management(FileHandles::new(limit), concurrency).verdict;
        assert_eq!((verdict(1_024, 512), verdict(1_024, 513)), (Verdict::Ok, Verdict::Warning));
        assert_eq!(check(&examination("[journal]\ndir = \"/nowhere\"\n")).len(), 2);
    }

    #[test]
    fn the_limit_of_a_running_gateway_is_read_from_its_table() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max processes             63432                63432                processes \n\
                     Max open files            1024                 1048576              files     \n";
        assert_eq!(hard_limit(table), Some(1_048_576));
        assert_eq!(hard_limit("Max open files            unlimited unlimited\n"), None);
        assert_eq!(limit_of(std::process::id()), None, "it is no gateway");
    }
}
