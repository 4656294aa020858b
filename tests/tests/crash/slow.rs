use crate::*;
use rpcgate_core::caller::RequestId;
use rpcgate_core::journal::{HEAD, Reader};
use rpcgate_server::journal::{Disk, Medium, MediumFile};
use rpcgate_server::{Gateway, StartOptions};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex};

/// The threads of the gateway.
const WORKERS: usize = 4;

#[derive(Clone, Debug, Default)]
struct Frozen(Arc<(Mutex<bool>, Condvar)>);

impl Frozen {
    fn freeze(&self) {
        *self.0.0.lock().unwrap() = true;
    }

    fn thaw(&self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let _thawed = self.0.1.wait_while(self.0.0.lock().unwrap(), |frozen| *frozen).unwrap();
    }

    fn file(&self, file: Arc<dyn MediumFile>) -> Arc<dyn MediumFile> {
        Arc::new(FrozenFile(self.clone(), file))
    }
}

impl Medium for Frozen {
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.wait();
        Disk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.wait();
        Ok(self.file(Disk.create(path)?))
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        self.wait();
        Ok(self.file(Disk.open_append(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.wait();
        Disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.wait();
        Disk.sync_dir(dir)
    }
}

#[derive(Debug)]
struct FrozenFile(Frozen, Arc<dyn MediumFile>);

impl MediumFile for FrozenFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.wait();
        self.1.append(bytes)
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.wait();
        self.1.read_at(into, at)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.wait();
        self.1.size()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.wait();
        self.1.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.wait();
        self.1.sync()
    }
}

// Shows (Reliability).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_continue_and_none_is_lost_while_the_disk_does_not_answer() {
    let seed = TestSeed::new();
    let nodes = Nodes::start().await;
    let numbers = Arc::<AtomicU64>::default();
    let folder = tempfile::tempdir().unwrap();
    let disk = Frozen::default();
    let settings = rpcgate_config::JournalSettings {
        dir: folder.path().join("journal"),
        ..rpcgate_config::JournalSettings::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let options = JournalOptions {
        shards: WORKERS,
        medium: Arc::new(disk.clone()),
        ..JournalOptions::new(&settings, clock.clone())
    };
    let journal = open(&options);
    journal.admit();
    // A separate runtime, because a blocked disk blocks some of its threads.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().unwrap();
    let config = nodes.setup().config();
    let sink = journal.clone();
    let options = StartOptions { clock, sink: Some(sink), ..StartOptions::default() };
    let gateway = runtime.spawn(Gateway::start(config, options)).await.unwrap().unwrap();

    let load = Load::start(gateway.addr(), 16, &seed, &numbers);
    rpcgate_tests::until("some answers", || load.answered() > 200).await;
    disk.freeze();
    for _ in 0..3 {
        let before = load.answered();
        rpcgate_tests::until("calls go on", || load.answered() > before + 200).await;
        assert!(journal.status().stalled);
    }
    disk.thaw();
    rpcgate_tests::until("records go to the disk again", || !journal.status().stalled).await;
    let before = load.answered();
    rpcgate_tests::until("and calls go on", || load.answered() > before + 200).await;
    let report = load.end().await;
    assert!(report.unanswered.is_empty());
    gateway.drain().await;
    tokio::task::spawn_blocking(move || {
        journal.close();
        assert_eq!(journal.status().lost_records, 0);
        compare(&journal, &report);
        drop(gateway);
        runtime.shutdown_background();
    })
    .await
    .unwrap();
}

/// Checks that every request is in the journal once, with its charge.
fn compare(journal: &Journal, report: &LoadReport) {
    let mut found: HashMap<RequestId, u64> = HashMap::new();
    for segment in journal.segments() {
        let mut reader = Reader::new();
        let mut bytes = Vec::new();
        journal.read(segment.id, HEAD as u64, segment.len, &mut bytes).unwrap();
        let mut rest = bytes.as_slice();
        while let Some((length, event)) = reader.frame(rest).unwrap() {
            let cu = reader.lines().iter().map(|line| u64::from(line.cu)).sum();
            assert!(found.insert(event.request, cu).is_none(), "twice in the journal: {event:?}");
            rest = &rest[length..];
        }
    }
    for (id, wanted) in report.answered.iter().filter(|(_, wanted)| !wanted.is_refused()) {
        assert_eq!(found.remove(id), Some(wanted.cu()), "{wanted:?}");
    }
    assert_eq!(found.values().sum::<u64>(), 0, "the rest are refusals");
}
