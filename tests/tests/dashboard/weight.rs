//! The size of a page, and the browser's cache of the files of the pages.

use crate::month::{Words, two_months};
use crate::site::{Dashboard, EMAIL, OPERATOR, in_browser, log_in, log_out};
use crate::visited::{GATES, every_page};
use rpcgate_tests::browser::{BrowserKind, PageReader};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The maximum number of bytes of a page with all its files, as they are sent.
const HEAVIEST: u64 = 150 * 1024;

/// Returns the addresses of the page's files, their bytes as they are sent, and the bytes that came over the network.
/// The page itself is the first.
const FILES: &str =
    "return [performance.getEntriesByType('navigation')[0], ...performance.getEntriesByType('resource')]
    .map((one) => [one.name, one.encodedBodySize, one.transferSize])";

#[derive(Default)]
struct Weights {
    known: BTreeSet<String>,
    heaviest: Vec<(u64, String)>,
}

impl Weights {
    async fn weigh(&mut self, reader: &PageReader, path: &str) {
        reader.run("return document.readyState").await;
        let files = reader.run(FILES).await;
        let mut sum = 0;
        for (at, file) in files.as_array().unwrap().iter().enumerate() {
            let [Value::String(name), bytes, transferred] = &file.as_array().unwrap()[..] else {
                panic!("{file}")
            };
            sum += bytes.as_u64().unwrap();
            let is_new = self.known.insert(name.clone());
            if at > 0 && name.contains("/static/") && !is_new {
                assert_eq!(transferred.as_u64(), Some(0), "{path}: {name} is asked for again");
            }
        }
        self.heaviest.push((sum, path.to_owned()));
    }
}

// Shows (Dashboard): A page weighs at most 150 KB with its files, which browsers cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_weighs_more_than_150_kilobytes_and_its_files_are_kept() {
    in_browser(BrowserKind::default(), async |dashboard: Arc<Dashboard>, reader: PageReader| {
        two_months(&dashboard, &Words::usual()).await;
        let mut weights = Weights::default();
        for path in GATES {
            reader.open(path).await;
            weights.weigh(&reader, path).await;
        }
        for (email, first) in [(EMAIL, "/"), (OPERATOR, "/operator")] {
            log_in(&reader, email).await;
            let look = async |reader: &PageReader, path: &str| weights.weigh(reader, path).await;
            every_page(&reader, &[first], look).await;
            reader.open("/").await;
            log_out(&reader).await;
        }
        let Weights { mut heaviest, known } = weights;
        assert!(known.iter().any(|file| file.contains("/static/app.")), "{known:?}");
        heaviest.sort();
        let too_heavy: Vec<_> = heaviest.iter().filter(|(bytes, _)| *bytes > HEAVIEST).collect();
        assert!(too_heavy.is_empty() && heaviest[0].0 > 0, "{too_heavy:?} of {heaviest:?}");
    })
    .await;
}
