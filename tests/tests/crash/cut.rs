use crate::*;
use rpcgate_core::backend::usage_sink::UsageSink;
use rpcgate_core::caller::RequestId;
use rpcgate_core::journal::{HEAD, Reader};
use rpcgate_server::journal::{Medium, MediumFile};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use tempfile::TempDir;

/// The number of bytes that are cut off the end, byte by byte.
const TAIL: usize = 4096;

struct Left {
    name: PathBuf,
    bytes: Vec<u8>,
    /// The end of each record, and its request.
    ends: Vec<(usize, RequestId)>,
}

impl Left {
    /// Uses only the lengths before the frames; the reader interprets the contents.
    fn new(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap();
        let mut reader = Reader::new();
        let mut at = HEAD;
        let mut ends = Vec::new();
        while let Some(length) = bytes.get(at..at + 4) {
            let end = at + 8 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
            let Some(frame) = bytes.get(at..end) else { break };
            let (read, event) = reader.frame(frame).unwrap().unwrap();
            assert_eq!(read, frame.len());
            ends.push((end, event.request));
            at = end;
        }
        Left { name: file.file_name().unwrap().into(), bytes, ends }
    }

    fn whole(&self, cut: usize) -> &[(usize, RequestId)] {
        &self.ends[..self.ends.partition_point(|(end, _)| *end <= cut)]
    }
}

/// Checks that the journal in `dir` on `medium` contains these records once each, and accepts more.
fn holds(dir: &Path, medium: Option<Arc<dyn Medium>>, whole: &[(usize, RequestId)], cut: usize) {
    let settings =
        rpcgate_config::JournalSettings { dir: dir.to_owned(), ..rpcgate_config::JournalSettings::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let options = JournalOptions::new(&settings, clock);
    let options = match medium {
        Some(medium) => JournalOptions { medium, ..options },
        None => options,
    };
    let journal = open(&options);
    let segments = journal.segments();
    let end = whole.last().map(|(end, _)| *end as u64);
    assert_eq!(
        segments.iter().map(|segment| segment.len).collect::<Vec<_>>(),
        Vec::from_iter(end),
        "cut at {cut}"
    );
    let mut found = Vec::new();
    for segment in segments {
        assert!(segment.sealed, "nothing is appended behind what may have been torn");
        let mut reader = Reader::new();
        let mut bytes = Vec::new();
        journal.read(segment.id, HEAD as u64, segment.len, &mut bytes).unwrap();
        let mut rest = bytes.as_slice();
        while let Some((length, event)) = reader.frame(rest).unwrap() {
            found.push(event.request);
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
    }
    assert_eq!(found, whole.iter().map(|(_, id)| *id).collect::<Vec<_>>(), "cut at {cut}");
    journal.admit();
    assert!(journal.is_ready());
}

// Shows (Reliability): Wherever the journal is torn, all complete records are read once (promise 2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_torn_at_any_byte_is_read_once_up_to_its_last_complete_record() {
    let seed = TestSeed::new();
    let nodes = Nodes::start().await;
    let site = Site::new(nodes.setup());
    let process = site.start().await;
    let load = Load::start(process.addr(), 16, &seed, &Arc::<AtomicU64>::default());
    rpcgate_tests::until("some answers", || load.answered() > 500).await;
    process.kill();
    let report = load.end().await;
    let left: Vec<_> = site.segments().iter().map(|file| Left::new(file)).collect();
    let records: usize = left.iter().map(|left| left.ends.len()).sum();
    let served = report.answered.iter().filter(|(_, wanted)| !wanted.is_refused()).count();
    assert!(records >= served, "{records} records of {served} that were answered");
    let longest = left.iter().max_by_key(|left| left.bytes.len()).unwrap();
    assert!(longest.bytes.len() > TAIL + HEAD);

    let cuts: Vec<_> = (longest.bytes.len() - TAIL..=longest.bytes.len()).collect();
    let gateway = site.journal().join("gateway");
    // An open journal mostly waits for its threads.
    std::thread::scope(|scope| {
        for cuts in cuts.chunks(cuts.len().div_ceil(8)) {
            scope.spawn(|| torn_on_paper(longest, &gateway, cuts));
        }
    });

    // The same on a disk, with the shortest possible files.
    let dir = folder(&gateway);
    let file = dir.path().join(&longest.name);
    for cut in cuts.into_iter().step_by(61).chain([0, 1, HEAD - 1, HEAD, HEAD + 1]) {
        fs::write(&file, &longest.bytes[..cut]).unwrap();
        holds(dir.path(), None, longest.whole(cut), cut);
    }
}

fn folder(gateway: &Path) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(gateway, dir.path().join("gateway")).unwrap();
    dir
}

fn torn_on_paper(left: &Left, gateway: &Path, cuts: &[usize]) {
    let dir = folder(gateway);
    let file = dir.path().join(&left.name);
    for cut in cuts {
        let whole = left.whole(*cut);
        let paper = Arc::new(Paper::with(&file, &left.bytes[..*cut]));
        holds(dir.path(), Some(paper.clone()), whole, *cut);
        assert_eq!(paper.len(&file), whole.last().map(|(end, _)| *end), "the truncated record is gone");
        // A power failure may leave a file with its later length but without its content.
        let mut blank = left.bytes[..*cut].to_vec();
        blank.resize(left.bytes.len(), 0);
        holds(
            dir.path(),
            Some(Arc::new(Paper::with(&file, &blank))),
            left.whole(same(&blank, &left.bytes)),
            *cut,
        );
    }
}

/// Returns the length of the common beginning of two files.
fn same(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// A medium in memory on which thousands of truncated files are created quickly.
#[derive(Debug)]
struct Paper(Mutex<HashMap<PathBuf, Arc<Sheet>>>);

#[derive(Debug, Default)]
struct Sheet(Mutex<Vec<u8>>);

impl Paper {
    fn with(file: &Path, bytes: &[u8]) -> Self {
        let sheet = Arc::new(Sheet(Mutex::new(bytes.to_vec())));
        Paper(Mutex::new(HashMap::from([(file.to_owned(), sheet)])))
    }

    fn len(&self, file: &Path) -> Option<usize> {
        self.0.lock().unwrap().get(file).map(|sheet| sheet.0.lock().unwrap().len())
    }
}

impl Medium for Paper {
    fn list(&self, _dir: &Path) -> io::Result<Vec<String>> {
        let names = self.0.lock().unwrap();
        Ok(names.keys().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let sheet = Arc::<Sheet>::default();
        match self.0.lock().unwrap().insert(path.to_owned(), sheet.clone()) {
            None => Ok(sheet),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn MediumFile>> {
        let sheet = self.0.lock().unwrap().get(path).cloned();
        sheet.map(|sheet| sheet as Arc<dyn MediumFile>).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.lock().unwrap().remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl MediumFile for Sheet {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let sheet = self.0.lock().unwrap();
        let rest = sheet.get(at as usize..).unwrap_or_default();
        let read = rest.len().min(into.len());
        into[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(len as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
